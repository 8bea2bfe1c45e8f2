//! The verifier: what must hold of a module between any two passes. All violations are reported.
//!
//! Module
//! - Names of graph functions, of tensor programs and of constants are unique, each among themselves.
//! - Inline constants have as many bytes as their shape and type take; generated ones have a distribution that fits their type
//!   (uniform for floating-point types, integers for the others) with a non-empty range.
//!
//! Graph functions
//! - Indices refer to values of the function and to functions, programs and constants of the module.
//! - Every value is defined once, by a parameter or a binding, before its uses; names are unique; the result is defined.
//! - Symbolic variables are declared once, with a non-empty range. Those in parameter annotations are declared; those in bodies are
//!   bound before: alone in a dimension of a parameter or of an earlier `match_cast`. Every parameter annotation can be
//!   checked, its variables being bound by the parameters together.
//! - Layouts fit the rank of their tensors and are well formed. Parameters and the result have the ABI layout.
//! - A binding's annotation claims nothing that deduction does not prove: deduced from its operands, except of `call_tir`,
//!   `call_dps_library`, `view` and `alloc_tensor`, whose annotations are part of the expression and must be tensors of known
//!   shape and type.
//! - `call_tir` and `invoke` of a program pass as many tensors and symbolic arguments as the program takes, and the physical
//!   shape and type of each operand and of the destination is provably that of its buffer.
//! - A `view` has the element type and provably the number of physical elements of its operand.
//! - `alloc_tensor` takes a storage, and provably does not reach beyond it where the bounds are known; destinations and workspaces
//!   of `invoke` are tensors in storages (or views of such); `invoke` and `kill` give an empty tuple.
//! - Nothing is used after it is killed, nor a tensor after its storage is killed; nothing is killed twice; the result is not
//!   killed. Dataflow blocks contain no `invoke` and no `kill`.
//!
//! Tensor programs
//! - Exactly one output buffer; inputs first, then the output, then workspaces; names of buffers and of symbolic parameters are
//!   unique; buffer shapes use symbolic parameters only.
//! - Loop variables are unique in the stage and differ from symbolic parameters; extents use symbolic parameters only.
//! - Accesses have one index per dimension of their buffer, over loop variables and symbolic parameters. The output index and
//!   epilogues use no reduce loop; a map has no reduce loop; inputs are not written.
//! - Scalars are well typed (`typing.rs`); `reduced` stands in epilogues only.

mod function;
mod kill;
mod program;

use crate::graph::{Constant, ConstantData, Distribution, Module};
use std::collections::HashSet;

/// A violation, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct VerifyError {
    /// The function and binding, the program and stage, or the constant.
    pub place: String,
    /// What is violated, with what was found and what is expected.
    pub problem: String,
}

/// Collects violations.
#[derive(Default)]
struct Report {
    errors: Vec<VerifyError>,
}

impl Report {
    fn add(&mut self, place: impl Into<String>, problem: impl Into<String>) {
        self.errors.push(VerifyError {
            place: place.into(),
            problem: problem.into(),
        });
    }
}

/// Checks a module. Roughly linear in its size.
///
/// # Errors
/// Every violation found.
pub fn verify(module: &Module) -> Result<(), Vec<VerifyError>> {
    let mut report = Report::default();
    unique(
        "function",
        module.functions.iter().map(|(_, f)| f.name.as_str()),
        &mut report,
    );
    unique(
        "program",
        module.programs.iter().map(|(_, p)| p.name.as_str()),
        &mut report,
    );
    unique(
        "constant",
        module.constants.iter().map(|(_, c)| c.name.as_str()),
        &mut report,
    );
    module
        .constants
        .iter()
        .for_each(|(_, c)| verify_constant(c, &mut report));
    module
        .programs
        .iter()
        .for_each(|(_, p)| program::verify(p, &mut report));
    module
        .functions
        .iter()
        .for_each(|(_, f)| function::verify(module, f, &mut report));
    if report.errors.is_empty() {
        Ok(())
    } else {
        Err(report.errors)
    }
}

fn unique<'a>(kind: &str, names: impl Iterator<Item = &'a str>, report: &mut Report) {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            report.add(format!("{kind} `{name}`"), "the name is used twice in the module");
        }
    }
}

fn verify_constant(c: &Constant, report: &mut Report) {
    let place = format!("constant `{}`", c.name);
    match &c.data {
        ConstantData::Inline(bytes) => {
            let expected = c.shape.iter().try_fold(c.dtype.bytes(), |a, d| a.checked_mul(*d));
            if expected != Some(bytes.len()) {
                let expected = expected.map_or("more than memory has".to_owned(), |e| e.to_string());
                report.add(
                    place,
                    format!(
                        "{} bytes, expected {expected} for {}{:?}",
                        bytes.len(),
                        c.dtype,
                        c.shape
                    ),
                );
            }
        }
        ConstantData::Generated(g) => match g.distribution {
            Distribution::Uniform { low, high } => {
                if !c.dtype.is_float() {
                    report.add(
                        place,
                        format!("a uniform distribution for {}, expected integers", c.dtype),
                    );
                } else if !(low.is_finite() && high.is_finite() && low <= high) {
                    report.add(place, format!("the range {low:?} to {high:?}"));
                }
            }
            Distribution::Integers { low, high } => {
                if c.dtype.is_float() {
                    report.add(
                        place,
                        format!("integers for {}, expected a uniform distribution", c.dtype),
                    );
                } else if low >= high {
                    report.add(place, format!("the empty range {low}..{high}"));
                }
            }
        },
    }
}
