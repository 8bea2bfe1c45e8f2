//! The text form of modules. `TEXT.md` beside the crate's manifest has the grammar; [`print()`] and [`parse`] are inverse on
//! verified modules.

mod annotation;
mod error;
mod function;
mod lex;
mod parse;
mod print;
mod program;

pub use error::{ParseError, nearest};
pub use parse::parse;
pub use print::{print, print_annotation, print_attrs, print_function, print_program};
