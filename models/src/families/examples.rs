//! The two graphs with which the layout paper explains the problem.

use super::{assemble, root};
use crate::model::{Family, Model};
use crate::nn::{Conv, batch_norm, conv2d};
use crate::overrides::{OverrideSpec, Sizes, size};
use crate::weights::Role;
use crate::zoo::ZooError;
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::{Attr, ValueId};

/// What can be overridden in [`reduce`].
pub const REDUCE_OVERRIDES: &[OverrideSpec] = &[
    size("m", 4, 65_536, "rows of A"),
    size("k", 8, 65_536, "columns of A and rows of B"),
    size("n", 3, 65_536, "columns of B"),
];

/// What can be overridden in [`fan_out`].
pub const FAN_OUT_OVERRIDES: &[OverrideSpec] = &[
    size(
        "branches",
        6,
        1024,
        "convolution and batch-norm branches, alternating",
    ),
    size("channels", 64, 4096, "channels"),
    size("image", 28, 4096, "height and width"),
];

/// Figure 1: R = B + reduce(A·B, dim 0). B is shared by the matmul, which has two equivalent forms, and the sum, which couples
/// the layout of the reduced row to B's; A and B are data inputs. `batch` is not used: the figure has none.
///
/// # Errors
/// Never for sizes within their ranges.
pub fn reduce(sizes: &Sizes, seed: u64, _batch: usize) -> Result<Model, ZooError> {
    let (m, k, n) = (sizes.get("m"), sizes.get("k"), sizes.get("n"));
    assemble("example-reduce", Family::Examples, seed, &[], |assembly, seed| {
        let a = assembly.input("A", vec![m.into(), k.into()], DType::F32, Role::Value);
        let b = assembly.input("B", vec![k.into(), n.into()], DType::F32, Role::Value);
        let mut net = root(assembly, seed);
        let c = net.matmul("C", a, b, false)?;
        let along = attrs([("axes", Attr::Ints(vec![0])), ("keepdims", Attr::Bool(true))]);
        let d = net.op("D", "reduce_sum", &[c], along)?;
        let r = net.plain("R", "add", &[d, b])?;
        Ok(vec![("R", r)])
    })
}

/// Figure 2: one input fans out to alternating convolutions and batch normalisations, which all meet in a shared sum. The registry's
/// sum has two operands, so the shared one is a chain of them.
///
/// # Errors
/// Never for sizes within their ranges.
pub fn fan_out(sizes: &Sizes, seed: u64, batch: usize) -> Result<Model, ZooError> {
    let (branches, channels, image) = (sizes.get("branches"), sizes.get("channels"), sizes.get("image"));
    assemble("example-fanout", Family::Examples, seed, &[], |assembly, seed| {
        let x = assembly.image("input", [batch, channels, image, image]);
        let mut net = root(assembly, seed);
        let mut sum: Option<ValueId> = None;
        for branch in 0..branches {
            let y = if branch % 2 == 0 {
                conv2d(
                    &mut net.child(&format!("conv{branch}")),
                    x,
                    Conv::same(channels, channels, 3, 1),
                )?
            } else {
                batch_norm(&mut net.child(&format!("norm{branch}")), x, channels)?
            };
            sum = Some(match sum {
                None => y,
                Some(acc) => net.plain(&format!("sum{branch}"), "add", &[acc, y])?,
            });
        }
        // There is at least one branch.
        Ok(vec![("output", sum.unwrap_or(x))])
    })
}
