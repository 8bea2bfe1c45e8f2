//! The implementation of a call: the one decision that pricing (extraction) and lowering share.

use crate::target::Target;
use relayout_ir::annotation::{DType, TensorInfo};
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::layout::Layout;
use relayout_ir::op::{LegaliseCall, OpId};
use relayout_ir::sym::SymExpr;
use std::fmt;
use std::str::FromStr;

/// How a call is computed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Implementation {
    /// A routine of the kernel library, such as `gemm.matmul`.
    Library(String),
    /// A kernel that the compiler generates from the call's tensor program.
    Generated,
}

/// `library:gemm.matmul`, `generated`.
impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Implementation::Library(routine) => write!(f, "library:{routine}"),
            Implementation::Generated => f.write_str("generated"),
        }
    }
}

impl FromStr for Implementation {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "generated" => Ok(Implementation::Generated),
            Some(("library", routine)) if !routine.is_empty() => {
                Ok(Implementation::Library(routine.to_owned()))
            }
            _ => Err("expected `generated` or `library:ROUTINE`".to_owned()),
        }
    }
}

/// The implementation of a call whose layouts are chosen: a large enough f32 matmul whose operands the library's strides can
/// express goes to `gemm.matmul` (if the target allows it), everything else is generated.
pub fn implementation_of(call: &LegaliseCall<'_>, op: OpId, target: &Target) -> Implementation {
    let routine = "gemm.matmul";
    let library = op.name() == "matmul"
        && target.libraries.iter().any(|l| l == routine)
        && multiply_adds(call).is_some_and(|n| n >= target.library_threshold as f64)
        && gemm_attrs(&call.args, &call.out, call.attrs).is_some();
    if library {
        Implementation::Library(routine.to_owned())
    } else {
        Implementation::Generated
    }
}

/// Multiply-adds of a matmul; symbolic dimensions count as their upper bound if declared, else as 128. A matrix-vector
/// product counts as none: it is bound by memory, and the generated kernel fuses its neighbours.
fn multiply_adds(call: &LegaliseCall<'_>) -> Option<f64> {
    let extent = |e: &SymExpr| {
        let value = e.eval(&|v| {
            call.syms
                .iter()
                .find(|d| d.var == *v)
                .map(|d| d.high.unwrap_or(128).min(128))
        });
        value.unwrap_or(128).max(1) as f64
    };
    let [a, _] = &call.args[..] else { return None };
    let (a, out) = (a.dims()?, call.out.dims()?);
    let (m, n) = (out.get(out.len().checked_sub(2)?)?, out.last()?);
    if m.is_const(1) || n.is_const(1) {
        return Some(0.0);
    }
    let transpose_a = flag(call.attrs, "transpose_a");
    let k = if transpose_a {
        a.get(a.len().checked_sub(2)?)?
    } else {
        a.last()?
    };
    Some(out.iter().map(extent).product::<f64>() * extent(k))
}

fn flag(attrs: &Attrs, name: &str) -> bool {
    matches!(attrs.get(name), Some(Attr::Bool(true)))
}

/// Whether the last two axes are swapped in memory, for a layout whose other axes are in order before them; `None` when the
/// layout is anything else.
fn swapped(t: &TensorInfo) -> Option<bool> {
    if t.dtype != Some(DType::F32) {
        return None;
    }
    let layout = t.layout_or_abi()?;
    let rank = layout.rank();
    if rank < 2 || layout.partition().is_some() {
        return None;
    }
    let order = layout.as_permutation()?;
    let mut plain: Vec<u8> = (0..rank as u8).collect();
    if order == plain {
        return Some(false);
    }
    plain.swap(rank - 2, rank - 1);
    (order == plain && layout == Layout::permuted(&plain)).then_some(true)
}

/// The attributes of `gemm.matmul` for a matmul's operands and layouts: an operand stored with its last two axes swapped is a
/// transposed operand. `None` when the strides can't be expressed.
pub fn gemm_attrs(args: &[TensorInfo], out: &TensorInfo, attrs: &Attrs) -> Option<Attrs> {
    let [a, b] = args else { return None };
    let mut gemm = Attrs::new();
    gemm.insert(
        "transpose_a".to_owned(),
        Attr::Bool(flag(attrs, "transpose_a") ^ swapped(a)?),
    );
    gemm.insert(
        "transpose_b".to_owned(),
        Attr::Bool(flag(attrs, "transpose_b") ^ swapped(b)?),
    );
    gemm.insert("transpose_out".to_owned(), Attr::Bool(swapped(out)?));
    Some(gemm)
}
