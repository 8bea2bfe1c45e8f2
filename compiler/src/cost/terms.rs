//! What a configuration or conversion does, counted: arithmetic by kernel class, bytes moved, kernels started.

use relayout_ir::annotation::DType;
use relayout_ir::layout::Layout;
use relayout_ir::op::LayoutRule;
use std::collections::BTreeMap;

/// Every term, with what one unit is.
///
/// Multiply-adds are counted with the lanes that vectors of eight waste on the extent they run along, so that a 7-wide image
/// costs as much as an 8-wide one where the vector runs along the width.
pub const TERM_NAMES: &[&str] = &[
    // Convolution multiply-adds, by the layout of the result (and of the image or the weight where these vary).
    "conv.nchw",
    "conv.nchw-strided",
    "conv.nhwc",
    "conv.nhwc-panels",
    "conv.blocked",
    "conv.plain-to-blocked",
    "depthwise.nchw",
    "depthwise.nhwc",
    "depthwise.blocked",
    "conv.grouped",
    // Matmul multiply-adds: by library; generated with a unit-stride vector operand; generated without.
    "matmul.library",
    "matmul.vector",
    "matmul.scalar",
    // Elements produced or read by everything else.
    "element.simple",
    "element.transcendental",
    "element.reduce-inner",
    "element.reduce-outer",
    "element.pool-inner",
    "element.pool-outer",
    "element.indexed",
    // Bytes read and written: by kernels whose tensors fit the last-level cache, by larger ones.
    "bytes.cache",
    "bytes.memory",
    // Bytes of a conversion: innermost axis kept, innermost axis changed.
    "convert.rows",
    "convert.transpose",
    // Kernels started.
    "kernels",
];

/// Amounts by term name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Terms(BTreeMap<&'static str, u64>);

impl Terms {
    /// Nothing is done.
    pub fn none() -> Self {
        Self::default()
    }
    /// Adds to a term.
    pub fn add(&mut self, name: &'static str, amount: u64) {
        debug_assert!(TERM_NAMES.contains(&name), "a term has a coefficient");
        if amount > 0 {
            let slot = self.0.entry(name).or_insert(0);
            *slot = slot.saturating_add(amount);
        }
    }
    /// Adds all terms of another.
    pub fn add_all(&mut self, other: &Terms) {
        for (name, amount) in other.iter() {
            self.add(name, amount);
        }
    }
    /// Names and amounts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(n, a)| (*n, *a))
    }
    /// Whether nothing is done.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One call under a shape binding and a configuration.
#[derive(Clone, Debug)]
pub struct CallShape<'a> {
    /// Operator name.
    pub op: &'a str,
    /// Layout rule.
    pub rule: &'a LayoutRule,
    /// Operands: extents, type, layout.
    pub args: Vec<(Vec<u64>, DType, Layout)>,
    /// Result: extents, type, layout.
    pub out: (Vec<u64>, DType, Layout),
    /// Strides of a convolution or pool (1, 1 otherwise).
    pub strides: (u64, u64),
    /// Extents of a pooling window (1, 1 otherwise).
    pub window: (u64, u64),
    /// Whether a border is padded by a copy of the image.
    pub padded: bool,
    /// Whether the implementation is a library routine.
    pub library: bool,
    /// Whether the call runs inside its producer's kernel.
    pub fused: bool,
    /// Whether the call is a view.
    pub alias: bool,
    /// Bytes of the last-level cache.
    pub cache_bytes: u64,
}

const LANES: u64 = 8;

fn elements(dims: &[u64]) -> u64 {
    dims.iter().fold(1u64, |a, d| a.saturating_mul(*d))
}

fn bytes((dims, dtype, _): &(Vec<u64>, DType, Layout)) -> u64 {
    elements(dims).saturating_mul(dtype.bytes() as u64)
}

/// `amount` scaled by the lanes that vectors along an extent waste.
fn with_lanes(amount: u64, extent: u64) -> u64 {
    let padded = extent.div_ceil(LANES) * LANES;
    ((amount as u128 * padded as u128) / u128::from(extent.max(1))).min(u128::from(u64::MAX)) as u64
}

fn innermost_axis(layout: &Layout) -> Option<usize> {
    layout.splits().last().map(|s| usize::from(s.axis))
}

/// The terms of a configuration. O(rank).
pub fn config_terms(call: &CallShape<'_>) -> Terms {
    let mut terms = Terms::none();
    if call.alias {
        return terms;
    }
    let out_elements = elements(&call.out.0);
    let traffic_of =
        |operands: &mut dyn Iterator<Item = u64>| operands.fold(0u64, |a, b| a.saturating_add(b));
    if call.fused {
        // The largest operand stays in registers; the others are read; nothing more is written.
        let total = traffic_of(&mut call.args.iter().map(bytes));
        let kept = call.args.iter().map(bytes).max().unwrap_or(0);
        terms.add("bytes.cache", total - kept);
        terms.add(element_class(call.op), out_elements);
        return terms;
    }
    terms.add("kernels", 1);
    let mut traffic = traffic_of(&mut call.args.iter().map(bytes)).saturating_add(bytes(&call.out));
    match call.rule {
        LayoutRule::Conv2d { groups } => conv_terms(
            call,
            u64::try_from(*groups).unwrap_or(1),
            &mut terms,
            &mut traffic,
        ),
        LayoutRule::Matmul => matmul_terms(call, &mut terms),
        LayoutRule::Pool2d => {
            let amount = out_elements.saturating_mul(call.window.0.saturating_mul(call.window.1));
            let inner = innermost_axis(&call.out.2) == Some(1);
            terms.add(
                if inner {
                    "element.pool-inner"
                } else {
                    "element.pool-outer"
                },
                amount,
            );
        }
        LayoutRule::Reduce { axes, .. } | LayoutRule::AlongAxes(axes) => {
            let read = call.args.first().map_or(out_elements, |a| elements(&a.0));
            let layout = call.args.first().map_or(&call.out.2, |a| &a.2);
            let inner = innermost_axis(layout).is_some_and(|a| axes.iter().any(|x| usize::from(*x) == a));
            terms.add(
                if inner {
                    "element.reduce-inner"
                } else {
                    "element.reduce-outer"
                },
                read,
            );
            if element_class(call.op) == "element.transcendental" {
                terms.add("element.transcendental", read);
            }
        }
        LayoutRule::Elementwise => terms.add(element_class(call.op), out_elements),
        LayoutRule::Permute(_) | LayoutRule::Reshape | LayoutRule::AxisPieces(_) | LayoutRule::AbiOnly => {
            terms.add("element.indexed", out_elements);
        }
    }
    let place = if traffic > call.cache_bytes {
        "bytes.memory"
    } else {
        "bytes.cache"
    };
    terms.add(place, traffic);
    terms
}

fn conv_terms(call: &CallShape<'_>, groups: u64, terms: &mut Terms, traffic: &mut u64) {
    let [(x, dtype, x_layout), (weight, _, w_layout), ..] = call.args.as_slice() else {
        return;
    };
    let (out, _, out_layout) = &call.out;
    let multiply_adds = elements(out).saturating_mul(weight[1..].iter().product());
    let width = out.get(3).copied().unwrap_or(1);
    let channels = out.get(1).copied().unwrap_or(1);
    let depthwise = groups > 1 && weight[1] == 1;
    let along_width = with_lanes(multiply_adds, width);
    let along_channels = with_lanes(multiply_adds, channels);
    let blocked = out_layout.is_blocked();
    let nhwc = !blocked && innermost_axis(out_layout) == Some(1);
    match (depthwise, groups > 1, blocked, nhwc) {
        (true, _, true, _) => terms.add("depthwise.blocked", along_channels),
        (true, _, _, true) => terms.add("depthwise.nhwc", along_channels),
        (true, ..) => terms.add("depthwise.nchw", along_width),
        (_, true, ..) => terms.add("conv.grouped", multiply_adds),
        (_, _, true, _) if !x_layout.is_blocked() => terms.add("conv.plain-to-blocked", along_channels),
        (_, _, true, _) => terms.add("conv.blocked", along_channels),
        (_, _, _, true) if w_layout.is_blocked() => terms.add("conv.nhwc-panels", along_channels),
        (_, _, _, true) => terms.add("conv.nhwc", along_channels),
        _ if call.strides.1 > 1 => terms.add("conv.nchw-strided", along_width),
        _ => terms.add("conv.nchw", along_width),
    }
    if call.padded {
        let copied = elements(x).saturating_mul(dtype.bytes() as u64).saturating_mul(2);
        *traffic = traffic.saturating_add(copied);
        terms.add("kernels", 1);
    }
}

fn matmul_terms(call: &CallShape<'_>, terms: &mut Terms) {
    let [(a, _, a_layout), (b, _, b_layout), ..] = call.args.as_slice() else {
        return;
    };
    let (out, _, out_layout) = &call.out;
    let depth = a.last().copied().unwrap_or(1);
    let multiply_adds = elements(out).saturating_mul(depth);
    if call.library {
        terms.add("matmul.library", multiply_adds);
        return;
    }
    let rank = out.len();
    let columns_inner = innermost_axis(out_layout) == Some(rank - 1);
    let vector = if columns_inner {
        innermost_axis(b_layout) == Some(b.len() - 1)
    } else {
        innermost_axis(a_layout) == Some(a.len().saturating_sub(2))
    };
    let extent = if columns_inner {
        out.last().copied().unwrap_or(1)
    } else {
        out[rank.saturating_sub(2)]
    };
    if vector {
        terms.add("matmul.vector", with_lanes(multiply_adds, extent));
    } else {
        terms.add("matmul.scalar", multiply_adds);
    }
}

fn element_class(op: &str) -> &'static str {
    match op {
        "exp" | "log" | "tanh" | "erf" | "sigmoid" | "silu" | "gelu" | "sin" | "cos" | "pow" | "softmax"
        | "log_softmax" => "element.transcendental",
        _ => "element.simple",
    }
}

/// The terms of converting a tensor; none when the two layouts are the same bytes (the caller says so).
pub fn conversion_terms(dims: &[u64], dtype: DType, from: &Layout, to: &Layout) -> Terms {
    let mut terms = Terms::none();
    let moved = elements(dims)
        .saturating_mul(dtype.bytes() as u64)
        .saturating_mul(2);
    let name = if innermost_axis(from) == innermost_axis(to) {
        "convert.rows"
    } else {
        "convert.transpose"
    };
    terms.add(name, moved);
    terms.add("kernels", 1);
    terms
}
