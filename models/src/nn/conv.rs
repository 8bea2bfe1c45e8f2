//! Convolutions and what surrounds them in vision networks. Images are NCHW, weights OIHW, logically.

use super::Scope;
use crate::weights::Role;
use relayout_ir::builder::{BuildError, attrs};
use relayout_ir::graph::{Attr, ValueId};

/// Sizes of a square convolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Kernel extent.
    pub kernel: usize,
    /// Stride.
    pub stride: usize,
    /// Padding on each side.
    pub pad: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Conv {
    /// A convolution without bias that keeps the extent at stride 1 (odd kernels).
    pub fn same(input: usize, output: usize, kernel: usize, stride: usize) -> Self {
        Conv {
            input,
            output,
            kernel,
            stride,
            pad: kernel / 2,
            bias: false,
        }
    }
}

fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A convolution with its weight and, on request, its bias.
///
/// # Errors
/// When `x` is not `[n, input, h, w]`, or smaller than the kernel.
pub fn conv2d(scope: &mut Scope, x: ValueId, conv: Conv) -> Result<ValueId, BuildError> {
    let Conv {
        input,
        output,
        kernel,
        stride,
        pad,
        bias,
    } = conv;
    let fan_in = input * kernel * kernel;
    let weight = scope.weight(
        "weight",
        &[output, input, kernel, kernel],
        Role::Contraction { fan_in },
    );
    let attrs = attrs([
        ("strides", Attr::Ints(vec![int(stride); 2])),
        ("pads", Attr::Ints(vec![int(pad); 4])),
        ("dilations", Attr::Ints(vec![1, 1])),
        ("groups", Attr::Int(1)),
    ]);
    if !bias {
        return scope.op("", "conv2d", &[x, weight], attrs);
    }
    let product = scope.op("conv", "conv2d", &[x, weight], attrs)?;
    // The bias lies along the channel axis.
    let bias = scope.weight("bias", &[output, 1, 1], Role::Shift);
    scope.plain("", "add", &[product, bias])
}

/// Batch normalisation at inference, its statistics being weights.
///
/// # Errors
/// When axis 1 of `x` is not `channels`.
pub fn batch_norm(scope: &mut Scope, x: ValueId, channels: usize) -> Result<ValueId, BuildError> {
    let mut parameter = |name: &str, role| scope.weight(name, &[channels], role);
    let scale = parameter("scale", Role::Scale);
    let bias = parameter("bias", Role::Shift);
    let mean = parameter("mean", Role::Shift);
    let variance = parameter("variance", Role::Scale);
    scope.op(
        "",
        "batch_norm",
        &[x, scale, bias, mean, variance],
        attrs([("eps", Attr::Float(1e-5))]),
    )
}

/// Convolution, batch normalisation and, on request, ReLU.
///
/// # Errors
/// As [`conv2d`].
pub fn conv_bn(scope: &mut Scope, x: ValueId, conv: Conv, relu: bool) -> Result<ValueId, BuildError> {
    let y = conv2d(&mut scope.child("conv"), x, conv)?;
    let y = batch_norm(&mut scope.child("bn"), y, conv.output)?;
    if relu {
        scope.plain("relu", "relu", &[y])
    } else {
        Ok(y)
    }
}

/// Square max pooling.
///
/// # Errors
/// When `x` is no image, or smaller than the window.
pub fn max_pool(
    scope: &mut Scope,
    name: &str,
    x: ValueId,
    (kernel, stride, pad): (usize, usize, usize),
) -> Result<ValueId, BuildError> {
    let attrs = attrs([
        ("kernel", Attr::Ints(vec![int(kernel); 2])),
        ("strides", Attr::Ints(vec![int(stride); 2])),
        ("pads", Attr::Ints(vec![int(pad); 4])),
        ("dilations", Attr::Ints(vec![1, 1])),
        ("ceil_mode", Attr::Bool(false)),
    ]);
    scope.op(name, "max_pool2d", &[x], attrs)
}

/// The mean over both spatial axes: `[n, c, h, w]` to `[n, c]`.
///
/// # Errors
/// When `x` is no image.
pub fn avg_pool_global(scope: &mut Scope, name: &str, x: ValueId) -> Result<ValueId, BuildError> {
    let attrs = attrs([("axes", Attr::Ints(vec![2, 3])), ("keepdims", Attr::Bool(false))]);
    scope.op(name, "reduce_mean", &[x], attrs)
}
