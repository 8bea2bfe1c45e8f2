//! A small convolutional classifier: three stages of convolution, batch normalisation and ReLU with pooling between them.

use super::{assemble, root};
use crate::model::{Family, Model};
use crate::nn::{Conv, avg_pool_global, conv_bn, linear, max_pool};
use crate::overrides::{OverrideSpec, Sizes, size};
use crate::zoo::ZooError;

/// What can be overridden.
pub const OVERRIDES: &[OverrideSpec] = &[
    size("image", 32, 4096, "height and width of the image"),
    size(
        "width",
        32,
        4096,
        "channels of the first stage; later stages double it",
    ),
    size("classes", 10, 1_000_000, "classes"),
];

/// Builds the network.
///
/// # Errors
/// When the image is too small for the two poolings.
pub fn small_cnn(sizes: &Sizes, seed: u64, batch: usize) -> Result<Model, ZooError> {
    let (image, width, classes) = (sizes.get("image"), sizes.get("width"), sizes.get("classes"));
    assemble("small-cnn", Family::Vision, seed, &[], |assembly, seed| {
        let mut x = assembly.image("image", [batch, 3, image, image]);
        let mut net = root(assembly, seed);
        let plan = [
            (3, width),
            (width, width),
            (width, 2 * width),
            (2 * width, 2 * width),
            (2 * width, 4 * width),
        ];
        for (i, (input, output)) in plan.into_iter().enumerate() {
            let conv = Conv {
                bias: true,
                ..Conv::same(input, output, 3, 1)
            };
            x = conv_bn(&mut net.child(&format!("features.{i}")), x, conv, true)?;
            if i % 2 == 1 {
                x = max_pool(&mut net, &format!("pool{}", i / 2), x, (2, 2, 0))?;
            }
        }
        let pooled = avg_pool_global(&mut net, "pooled", x)?;
        let hidden = linear(&mut net.child("hidden"), pooled, 4 * width, 4 * width, true)?;
        let active = net.plain("active", "relu", &[hidden])?;
        let logits = linear(&mut net.child("classifier"), active, 4 * width, classes, true)?;
        Ok(vec![("logits", logits)])
    })
}
