//! Lowering of ONNX operators to the registry's, one file per family.

mod contraction;
mod create;
mod elementwise;
mod index;
mod norm;
mod pool;
mod reduce;
mod resize;
mod shape;

use super::context::{Call, Context, Lowered};

/// Lowers one node.
pub(super) type Lower = fn(&mut Context<'_>, &Call<'_>) -> Lowered;

/// The lowering of an operator, `None` when there is none.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    let families = [
        elementwise::lowering,
        contraction::lowering,
        pool::lowering,
        norm::lowering,
        reduce::lowering,
        shape::lowering,
        index::lowering,
        create::lowering,
        resize::lowering,
    ];
    families.into_iter().find_map(|family| family(op))
}
