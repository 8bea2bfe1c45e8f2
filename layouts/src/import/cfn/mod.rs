//! Reader for toulbar2's `.cfn`, for the networks that are Layout Selection: those that [`crate::export::cfn`] writes, and simple variants.
//!
//! What maps back:
//! - *Variables* `x…`, one per operator, in file order, one value per configuration; `y<tensor>_<layout>`, with the values 0 and 1: whether
//!   somebody requests the tensor in the layout. A variable is given by its number of values or the list of their names.
//! - *Functions* of one `x` (its costs), or of an `x` and a `y`, in either order. In the producer of the tensor they cost nothing
//!   at `y = 0`, and at `y = 1` what converting to the layout costs (or are forbidden: impossible). In a consumer they are forbidden at `y = 0`
//!   for the configurations that request the layout, and cost nothing else. Several functions of the same variables are summed; costs are
//!   a full table, or a default and a list of values and costs. Function names mean nothing.
//! - *Costs* are whole numbers; those from `mustbe`'s upper bound on are forbidden, and that bound must be above what any assignment costs.
//! - The file is JSON proper: quotes, colons and commas as there.
//!
//! Everything else is an error with its line and column: global cost functions, functions of other variables, costs below zero or with
//! fractions, forbidden values.
//!
//! The instance has the network's optimum, and configuration k of operator i is value k of the i-th `x`. It need not be the instance that
//! was exported: names of layouts, and layouts that nobody requests or that cost the same everywhere, are not in the network.

mod error;
mod network;
mod recover;
mod text;

pub use error::{CfnError, Fault};

use super::MAX_MATRICES;
use crate::problem::Problem;
use error::at;

/// Imports a network.
///
/// # Errors
/// See [`CfnError`].
pub fn cfn(bytes: &[u8]) -> Result<Problem, CfnError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let valid = std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default();
            return Err(at(valid, valid.len(), Fault::Encoding));
        }
    };
    let root = text::parse(text)?;
    let network = network::read(text, &root)?;
    recover::recover(text, &network)
}
