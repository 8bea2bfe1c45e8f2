//! The candidate layouts of every tensor: they start at the layout-sensitive operators and spread along layout rules.

use super::project::{Shapes, fits, operand_layout, result_layout};
use super::view::{GraphView, Producer};
use crate::alias;
use relayout_ir::index::Idx;
use relayout_ir::layout::{Layout, Split};
use relayout_ir::op::LayoutRule;
use relayout_ir::sym::SymExpr;

/// Which layouts a tensor may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DomainPolicy {
    /// Row-major, plus what spreads from convolutions and matmuls along layout rules, up to [`MAX_LAYOUTS`] a tensor.
    #[default]
    Spread,
    /// Also every plain dimension order of tensors up to rank 4, to measure what `Spread` loses.
    Full,
}

/// How many layouts a tensor has at most under [`DomainPolicy::Spread`].
pub const MAX_LAYOUTS: usize = 6;

/// Layouts per tensor of the view; row-major is always the first.
pub type Domains = Vec<Vec<Layout>>;

/// Computes the domains. `blocks` are the channel blocks of the target.
///
/// The spreading is a fixed point over sweeps forward and backward; every sweep but the last adds a layout somewhere, so
/// there are at most `tensors × MAX_LAYOUTS` sweeps (in practice the depth of the graph's reshapes).
pub fn domains(view: &GraphView<'_>, blocks: &[u32], policy: DomainPolicy) -> Domains {
    let mut domains: Domains = view
        .tensors
        .iter()
        .map(|t| vec![Layout::row_major(t.dims.len())])
        .collect();
    let cap = match policy {
        DomainPolicy::Spread => MAX_LAYOUTS,
        DomainPolicy::Full => usize::MAX,
    };
    let mut spread = Spread {
        view,
        cap,
        changed: false,
    };
    for call in view.calls() {
        let sensitive = sensitive_layouts(&call.rule, &call.shapes, blocks);
        for (operand, layouts) in sensitive.args.into_iter().enumerate() {
            layouts
                .into_iter()
                .for_each(|l| spread.offer(&mut domains, call.args[operand].index(), l));
        }
        sensitive
            .out
            .into_iter()
            .for_each(|l| spread.offer(&mut domains, call.value.index(), l));
    }
    if policy == DomainPolicy::Full {
        for (t, domain) in view.tensors.iter().zip(&mut domains) {
            if t.dims.len() <= 4 && !matches!(t.producer, Producer::Constant) {
                for order in alias::permutations(t.dims.len()) {
                    let layout = Layout::permuted(&order);
                    if !domain.contains(&layout) {
                        domain.push(layout);
                    }
                }
            }
        }
    }
    loop {
        spread.changed = false;
        for call in view.calls() {
            spread.forward(&mut domains, call);
        }
        for call in view.calls().rev() {
            spread.backward(&mut domains, call);
        }
        if !spread.changed {
            return domains;
        }
    }
}

struct Spread<'a, 'm> {
    view: &'a GraphView<'m>,
    cap: usize,
    changed: bool,
}

impl Spread<'_, '_> {
    fn offer(&mut self, domains: &mut Domains, value: usize, layout: Layout) {
        let Some(position) = self.view.position[value] else {
            return;
        };
        let domain = &mut domains[position];
        if domain.len() < self.cap && !domain.contains(&layout) {
            domain.push(layout);
            self.changed = true;
        }
    }
    fn forward(&mut self, domains: &mut Domains, call: &super::view::Call<'_>) {
        for (operand, arg) in call.args.iter().enumerate() {
            let Some(position) = self.view.position[arg.index()] else {
                continue;
            };
            for layout in domains[position].clone() {
                if let Some(out) = result_layout(&call.rule, &call.shapes, operand, &layout) {
                    self.offer(domains, call.value.index(), out);
                }
            }
        }
    }
    fn backward(&mut self, domains: &mut Domains, call: &super::view::Call<'_>) {
        let Some(position) = self.view.position[call.value.index()] else {
            return;
        };
        for layout in domains[position].clone() {
            for (operand, arg) in call.args.iter().enumerate() {
                if let Some(from) = operand_layout(&call.rule, &call.shapes, operand, &layout) {
                    self.offer(domains, arg.index(), from);
                }
            }
        }
    }
}

/// Layouts that a layout-sensitive operator itself asks for.
pub struct Sensitive {
    /// Per operand.
    pub args: Vec<Vec<Layout>>,
    /// The result.
    pub out: Vec<Layout>,
}

/// The image layouts of an NCHW tensor: NCHW, NHWC, and NCHW blocked by each of `blocks` that divides the channels.
pub fn image_layouts(dims: &[SymExpr], blocks: &[u32]) -> Vec<Layout> {
    let blocked = blocks
        .iter()
        .map(|&b| Layout::blocked(4, 1, b))
        .filter(|l| fits(dims, l));
    [Layout::row_major(4), Layout::permuted(&[0, 2, 3, 1])]
        .into_iter()
        .chain(blocked)
        .collect()
}

/// HWIO, the weight layout of NHWC convolutions.
pub fn hwio() -> Layout {
    Layout::permuted(&[2, 3, 1, 0])
}

/// OHWI in blocks of `block` output channels, the block innermost: the panels that an NHWC convolution's microkernel reads.
pub fn ohwi_blocked(block: u32) -> Layout {
    let outer = [0, 2, 3, 1].map(|axis| Split { axis, factor: None });
    let last = Split {
        axis: 0,
        factor: Some(block),
    };
    Layout::new(4, outer.into_iter().chain([last]).collect()).unwrap_or_else(|_| hwio())
}

/// The weight layout of a blocked convolution: OIHW with output channels innermost in blocks of `out`, and input channels in
/// blocks of `inp` outside them when the input is blocked too.
pub fn blocked_weight(out: u32, inp: Option<u32>) -> Layout {
    let outer = (0..4).map(|axis| Split { axis, factor: None });
    let inner = inp
        .map(|f| Split {
            axis: 1,
            factor: Some(f),
        })
        .into_iter();
    let last = std::iter::once(Split {
        axis: 0,
        factor: Some(out),
    });
    Layout::new(4, outer.chain(inner).chain(last).collect()).unwrap_or_else(|_| Layout::row_major(4))
}

/// The last two axes in the other order.
pub fn swapped(rank: usize) -> Layout {
    let mut order: Vec<u8> = (0..rank as u8).collect();
    if rank >= 2 {
        order.swap(rank - 1, rank - 2);
    }
    Layout::permuted(&order)
}

fn sensitive_layouts(rule: &LayoutRule, shapes: &Shapes, blocks: &[u32]) -> Sensitive {
    let mut out = Sensitive {
        args: vec![Vec::new(); shapes.args.len()],
        out: Vec::new(),
    };
    match (rule, shapes.args.as_slice()) {
        (LayoutRule::Conv2d { groups }, [Some(x), Some(weight), ..]) => {
            out.args[0] = image_layouts(x, blocks);
            out.out = image_layouts(&shapes.out, blocks);
            out.args[1] = super::configs::conv_combinations(x, weight, &shapes.out, *groups, blocks)
                .into_iter()
                .map(|c| c.weight)
                .filter(|l| fits(weight, l))
                .collect();
        }
        (LayoutRule::Matmul, args) => {
            for (slot, dims) in out.args.iter_mut().zip(args) {
                if let Some(dims) = dims.as_ref().filter(|d| d.len() >= 2) {
                    slot.push(swapped(dims.len()));
                }
            }
            if shapes.out.len() >= 2 {
                out.out.push(swapped(shapes.out.len()));
            }
        }
        _ => {}
    }
    out
}
