//! The operators: deduction, reference semantics, legalisation.

#[path = "ops_cases.rs"]
mod cases;
#[path = "ops_evaluate.rs"]
mod evaluate;
#[path = "ops_fuzz.rs"]
mod fuzz;
#[path = "ops_infer.rs"]
mod infer;
#[path = "ops_legalise.rs"]
mod legalise;
#[path = "ops_programs.rs"]
mod programs;
