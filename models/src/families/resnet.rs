//! Residual networks (He et al. 2015) in the form of the common implementations: stride in the 3×3 convolution of a bottleneck.

use super::{assemble, root};
use crate::model::{Family, Model};
use crate::nn::{Conv, Scope, avg_pool_global, conv_bn, linear, max_pool};
use crate::overrides::{OverrideKind, OverrideSpec, Sizes, size};
use crate::zoo::ZooError;
use relayout_ir::builder::BuildError;
use relayout_ir::graph::ValueId;

/// What can be overridden.
pub const OVERRIDES: &[OverrideSpec] = &[
    OverrideSpec {
        name: "depth",
        kind: OverrideKind::OneOf(&[18, 34, 50, 101, 152]),
        default: 50,
        help: "layers with weights",
    },
    size("width", 64, 1024, "channels of the first stage"),
    size("image", 224, 4096, "height and width of the image"),
    size("classes", 1000, 1_000_000, "classes"),
];

/// Blocks per stage, and whether they are bottlenecks.
fn stages(depth: usize) -> ([usize; 4], bool) {
    match depth {
        18 => ([2, 2, 2, 2], false),
        34 => ([3, 4, 6, 3], false),
        101 => ([3, 4, 23, 3], true),
        152 => ([3, 8, 36, 3], true),
        _ => ([3, 4, 6, 3], true),
    }
}

/// One residual block from `input` channels to `width` (times four in a bottleneck).
fn block(
    scope: &mut Scope,
    x: ValueId,
    (input, width, stride): (usize, usize, usize),
    bottleneck: bool,
) -> Result<ValueId, BuildError> {
    let output = if bottleneck { 4 * width } else { width };
    let body = if bottleneck {
        let y = conv_bn(&mut scope.child("1"), x, Conv::same(input, width, 1, 1), true)?;
        let y = conv_bn(
            &mut scope.child("2"),
            y,
            Conv::same(width, width, 3, stride),
            true,
        )?;
        conv_bn(&mut scope.child("3"), y, Conv::same(width, output, 1, 1), false)?
    } else {
        let y = conv_bn(
            &mut scope.child("1"),
            x,
            Conv::same(input, width, 3, stride),
            true,
        )?;
        conv_bn(&mut scope.child("2"), y, Conv::same(width, output, 3, 1), false)?
    };
    let shortcut = if stride != 1 || input != output {
        conv_bn(
            &mut scope.child("shortcut"),
            x,
            Conv::same(input, output, 1, stride),
            false,
        )?
    } else {
        x
    };
    let sum = scope.plain("add", "add", &[body, shortcut])?;
    scope.plain("relu", "relu", &[sum])
}

/// Builds the network.
///
/// # Errors
/// When the image is too small.
pub fn resnet(sizes: &Sizes, seed: u64, batch: usize) -> Result<Model, ZooError> {
    let (depth, width, image, classes) = (
        sizes.get("depth"),
        sizes.get("width"),
        sizes.get("image"),
        sizes.get("classes"),
    );
    let (blocks, bottleneck) = stages(depth);
    assemble(
        &format!("resnet{depth}"),
        Family::Vision,
        seed,
        &[],
        |assembly, seed| {
            let x = assembly.image("image", [batch, 3, image, image]);
            let mut net = root(assembly, seed);
            let x = conv_bn(&mut net.child("stem"), x, Conv::same(3, width, 7, 2), true)?;
            let mut x = max_pool(&mut net, "stem.pool", x, (3, 2, 1))?;
            let mut channels = width;
            for (stage, count) in blocks.into_iter().enumerate() {
                let inner = width << stage;
                for index in 0..count {
                    let stride = if index == 0 && stage > 0 { 2 } else { 1 };
                    let mut scope = net.child(&format!("stage{}.{index}", stage + 1));
                    x = block(&mut scope, x, (channels, inner, stride), bottleneck)?;
                    channels = if bottleneck { 4 * inner } else { inner };
                }
            }
            let pooled = avg_pool_global(&mut net, "pooled", x)?;
            let logits = linear(&mut net.child("classifier"), pooled, channels, classes, true)?;
            Ok(vec![("logits", logits)])
        },
    )
}
