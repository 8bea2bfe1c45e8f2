//! No call, however wrong, makes an operator panic: it is refused or accepted.

use proptest::prelude::*;
use relayout_ir::annotation::{Annotation, DType, ShapeInfo, TensorInfo};
use relayout_ir::graph::{Attr, Attrs, SymDecl};
use relayout_ir::layout::Layout;
use relayout_ir::op::{self, LegaliseCall};
use relayout_ir::sym::{SymExpr, SymVar};

/// Every attribute that some operator takes.
const NAMES: [&str; 31] = [
    "approximate",
    "alpha",
    "beta",
    "min",
    "max",
    "dtype",
    "transpose_a",
    "transpose_b",
    "strides",
    "pads",
    "dilations",
    "groups",
    "kernel",
    "ceil_mode",
    "count_include_pad",
    "axes",
    "keepdims",
    "axis",
    "eps",
    "shape",
    "perm",
    "begin",
    "end",
    "steps",
    "sizes",
    "pads_begin",
    "pads_end",
    "value",
    "n",
    "start",
    "layout",
];

fn int() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -1..6i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just(i64::from(i32::MAX))]
}

fn dim() -> impl Strategy<Value = SymExpr> {
    let n = || SymExpr::named("n");
    prop_oneof![
        8 => (0..9i64).prop_map(SymExpr::constant),
        1 => int().prop_map(SymExpr::constant),
        1 => Just(n()),
        1 => int().prop_map(move |k| n() * SymExpr::constant(k)),
    ]
}

fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![3 => Just(DType::F32), 1 => prop::sample::select(DType::ALL.to_vec())]
}

fn info() -> impl Strategy<Value = TensorInfo> {
    let shape = prop_oneof![
        8 => prop::collection::vec(dim(), 0..=5).prop_map(ShapeInfo::Known),
        1 => (0..5usize).prop_map(ShapeInfo::Rank),
        1 => Just(ShapeInfo::Unknown),
    ];
    let layout = prop_oneof![2 => Just(None), 1 => (1..5usize).prop_map(|r| Some(Layout::blocked(r, 0, 2)))];
    (shape, dtype(), layout).prop_map(|(shape, dtype, layout)| TensorInfo {
        shape,
        dtype: Some(dtype),
        layout,
    })
}

/// An attribute of the type that the name mostly has.
fn attr(name: &'static str) -> BoxedStrategy<Attr> {
    let ints = |n: std::ops::RangeInclusive<usize>| prop::collection::vec(int(), n).prop_map(Attr::Ints);
    let float = || prop_oneof![-3.0..3.0f64, Just(f64::NAN), Just(f64::INFINITY)].prop_map(Attr::Float);
    let shape = |n: std::ops::RangeInclusive<usize>| prop::collection::vec(dim(), n).prop_map(Attr::Shape);
    match name {
        "approximate" => Just(Attr::Str("tanh".into())).boxed(),
        "alpha" | "beta" | "min" | "max" | "eps" | "value" => float().boxed(),
        "dtype" => dtype().prop_map(Attr::DType).boxed(),
        "transpose_a" | "transpose_b" | "ceil_mode" | "count_include_pad" | "keepdims" => {
            any::<bool>().prop_map(Attr::Bool).boxed()
        }
        "strides" | "dilations" | "kernel" => ints(2..=2).boxed(),
        "pads" => ints(4..=4).boxed(),
        "axes" | "perm" | "steps" | "pads_begin" | "pads_end" => ints(0..=5).boxed(),
        "groups" | "axis" | "start" => int().prop_map(Attr::Int).boxed(),
        "n" => shape(1..=1).boxed(),
        "layout" => (0..5usize)
            .prop_map(|r| Attr::Layout(Layout::row_major(r)))
            .boxed(),
        _ => shape(0..=5).boxed(),
    }
}

fn attributes(index: usize) -> impl Strategy<Value = Attrs> {
    // Which names an operator takes is learnt from its own complaint about an unknown one.
    let op = op::all()[index];
    let probe = Attrs::from([("?".to_owned(), Attr::Int(0))]);
    let any = Annotation::Object;
    let complaint = (0..6)
        .map(|n| op.infer(&vec![&any; n], &probe))
        .filter_map(|r| r.err());
    let text: String = complaint.map(|e| e.to_string()).collect();
    let taken: Vec<&'static str> = NAMES
        .into_iter()
        .filter(|n| text.contains(&format!("`{n}`")))
        .collect();
    let each: Vec<_> = taken
        .into_iter()
        .map(|n| {
            prop_oneof![9 => attr(n).prop_map(Some), 1 => Just(None)]
                .prop_map(move |a| a.map(|a| (n.to_owned(), a)))
        })
        .collect();
    each.prop_map(|pairs| pairs.into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn operators_refuse_without_panicking(
        (index, attrs) in (0..op::all().len()).prop_flat_map(|i| (Just(i), attributes(i))),
        args in prop::collection::vec(info(), 0..=5),
        other in info(),
    ) {
        let op = op::all()[index];
        let annotations: Vec<Annotation> = args.iter().cloned().map(Annotation::Tensor).collect();
        // As many operands as are accepted: the first prefix that is not refused for its length.
        for n in 0..=args.len() {
            let operands: Vec<&Annotation> = annotations[..n].iter().collect();
            let inferred = op.infer(&operands, &attrs);
            let _ = op.layout_rule(&operands, &attrs);
            let out = match inferred {
                Ok(Annotation::Tensor(t)) => t,
                _ => other.clone(),
            };
            let syms = vec![SymDecl { var: SymVar::new("n"), low: 1, high: None }];
            let call = LegaliseCall { args: args[..n].to_vec(), out, attrs: &attrs, name: "p".to_owned(), syms };
            let _ = op.legalise(&call);
        }
    }
}
