//! Deduction: one table of calls with the annotation or error that comes out.

use super::cases::{attrs, dims};
use expect_test::{Expect, expect};
use relayout_ir::annotation::{Annotation, DType, ShapeInfo, TensorInfo};
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::layout::Layout;
use relayout_ir::op::{self, LayoutRule};
use relayout_ir::sym::SymExpr;
use relayout_ir::text::print_annotation;

fn n() -> SymExpr {
    SymExpr::named("n")
}
fn k(value: i64) -> SymExpr {
    SymExpr::constant(value)
}
fn f32s(dims: Vec<SymExpr>) -> Annotation {
    Annotation::tensor(dims, DType::F32)
}
fn of(dtype: DType, extents: &[i64]) -> Annotation {
    Annotation::tensor(dims(extents), dtype)
}
fn coarse(shape: ShapeInfo) -> Annotation {
    Annotation::Tensor(TensorInfo {
        shape,
        dtype: Some(DType::F32),
        layout: None,
    })
}
fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}
fn shape(dims: Vec<SymExpr>) -> Attr {
    Attr::Shape(dims)
}

/// One line per call: what deduction says.
fn table(calls: Vec<(&str, Vec<Annotation>, Attrs)>, expected: Expect) {
    let mut lines = String::new();
    for (name, args, attrs) in calls {
        let op = op::by_name(name)
            .unwrap_or_else(|| panic!("no operator {name}"))
            .get();
        let line = match op.infer(&args.iter().collect::<Vec<_>>(), &attrs) {
            Ok(annotation) => format!("{name}: {}", print_annotation(&annotation)),
            Err(error) => format!("error: {error}"),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    expected.assert_eq(&lines);
}

#[test]
fn elementwise() {
    let none = Attrs::new;
    let half = of(DType::F16, &[3]);
    table(
        vec![
            ("add", vec![f32s(vec![n(), k(4)]), f32s(vec![k(4)])], none()),
            (
                "add",
                vec![f32s(vec![n(), k(1)]), f32s(vec![k(1), n() + k(1)])],
                none(),
            ),
            (
                "add",
                vec![f32s(vec![n()]), f32s(vec![SymExpr::named("m")])],
                none(),
            ),
            ("add", vec![f32s(vec![n()]), f32s(vec![k(4)])], none()),
            ("less", vec![coarse(ShapeInfo::Rank(3)), f32s(vec![k(4)])], none()),
            ("mul", vec![coarse(ShapeInfo::Unknown), f32s(vec![k(4)])], none()),
            ("relu", vec![Annotation::Object], none()),
            ("add", vec![f32s(vec![k(3)]), f32s(vec![k(4)])], none()),
            ("add", vec![f32s(vec![k(3)]), half.clone()], none()),
            ("add", vec![half.clone()], none()),
            ("exp", vec![of(DType::I64, &[3])], none()),
            ("exp", vec![Annotation::Shape(ShapeInfo::Rank(1))], none()),
            ("logical_and", vec![half.clone(), half.clone()], none()),
            (
                "gelu",
                vec![half.clone()],
                attrs([("approximate", Attr::Str("tan".into()))]),
            ),
            (
                "gelu",
                vec![half.clone()],
                attrs([("aproximate", Attr::Str("tanh".into()))]),
            ),
            ("clip", vec![half.clone()], attrs([("min", Attr::Float(0.0))])),
            (
                "cast",
                vec![half.clone()],
                attrs([("dtype", Attr::DType(DType::I8))]),
            ),
            (
                "where",
                vec![of(DType::Bool, &[2, 1]), half.clone(), half],
                none(),
            ),
        ],
        expect![[r#"
            add: f32[n, 4]
            add: f32[n, n + 1]
            add: f32[rank 1]
            add: f32[rank 1]
            less: bool[rank 3]
            mul: f32[?]
            relu: tensor[?]
            error: add: operand 1: expected extent 3 or 1 along axis 0, found 4
            error: add: operand 1: expected a tensor of f32, found f16
            error: add takes 2 operands, found 1
            error: exp: operand 0: expected a floating-point tensor, found i64
            error: exp: operand 0: expected a floating-point tensor, found a shape
            error: logical_and: operand 0: expected a bool tensor, found f16
            error: gelu: attribute `approximate`: expected one of none, tanh, found Str("tan")
            error: gelu: attribute `aproximate`: unknown; this operator takes `approximate`
            error: clip: attribute `max`: missing; expected a number
            cast: i8[3]
            where: f16[2, 3]
        "#]],
    );
}

#[test]
fn contractions_and_windows() {
    let flag = |name| attrs([(name, Attr::Bool(true))]);
    let conv = |strides: &[i64], pads: &[i64], groups: i64| {
        attrs([
            ("strides", ints(strides)),
            ("pads", ints(pads)),
            ("groups", Attr::Int(groups)),
        ])
    };
    let image = || f32s(vec![n(), k(3), SymExpr::named("h"), k(224)]);
    let pool = |ceil: bool| {
        attrs([
            ("kernel", ints(&[3, 3])),
            ("strides", ints(&[2, 2])),
            ("pads", ints(&[1, 1, 1, 1])),
            ("ceil_mode", Attr::Bool(ceil)),
        ])
    };
    table(
        vec![
            (
                "matmul",
                vec![f32s(vec![n(), k(2), k(3)]), of(DType::F32, &[3, 5])],
                Attrs::new(),
            ),
            (
                "matmul",
                vec![f32s(vec![n(), k(3)]), of(DType::F32, &[5, 3])],
                flag("transpose_b"),
            ),
            (
                "matmul",
                vec![f32s(vec![k(3), n()]), of(DType::F32, &[3, 5])],
                flag("transpose_a"),
            ),
            (
                "matmul",
                vec![
                    f32s(vec![n(), k(2), k(3)]),
                    f32s(vec![SymExpr::named("m"), k(3), k(5)]),
                ],
                Attrs::new(),
            ),
            (
                "matmul",
                vec![coarse(ShapeInfo::Rank(3)), of(DType::F32, &[3, 5])],
                Attrs::new(),
            ),
            (
                "matmul",
                vec![of(DType::F32, &[2, 4]), of(DType::F32, &[3, 5])],
                Attrs::new(),
            ),
            (
                "matmul",
                vec![of(DType::F32, &[4]), of(DType::F32, &[4, 5])],
                Attrs::new(),
            ),
            (
                "conv2d",
                vec![image(), of(DType::F32, &[64, 3, 7, 7])],
                conv(&[2, 2], &[3, 3, 3, 3], 1),
            ),
            (
                "conv2d",
                vec![of(DType::F32, &[1, 8, 9, 9]), of(DType::F32, &[8, 1, 3, 3])],
                conv(&[1, 1], &[0; 4], 8),
            ),
            (
                "conv2d",
                vec![image(), coarse(ShapeInfo::Unknown)],
                conv(&[1, 1], &[0; 4], 1),
            ),
            (
                "conv2d",
                vec![image(), of(DType::F32, &[64, 4, 7, 7])],
                conv(&[2, 2], &[0; 4], 1),
            ),
            (
                "conv2d",
                vec![of(DType::F32, &[1, 3, 5, 5]), of(DType::F32, &[4, 3, 7, 7])],
                conv(&[1, 1], &[0; 4], 1),
            ),
            (
                "conv2d",
                vec![image(), of(DType::F32, &[64, 3, 7, 7])],
                conv(&[2], &[0; 4], 1),
            ),
            (
                "conv2d",
                vec![image(), of(DType::F32, &[64, 3, 7, 7])],
                conv(&[0, 1], &[0; 4], 1),
            ),
            (
                "conv2d",
                vec![image(), of(DType::F32, &[64, 3, 7, 7])],
                conv(&[1, 1], &[0; 4], 0),
            ),
            (
                "max_pool2d",
                vec![f32s(vec![n(), k(8), k(112), k(112)])],
                pool(false),
            ),
            (
                "max_pool2d",
                vec![f32s(vec![n(), k(8), k(112), k(112)])],
                pool(true),
            ),
            ("max_pool2d", vec![f32s(vec![n(), k(8), n(), k(6)])], pool(true)),
            (
                "avg_pool2d",
                vec![of(DType::F32, &[1, 1, 4, 4])],
                attrs([("kernel", ints(&[2, 2])), ("pads", ints(&[2, 0, 0, 0]))]),
            ),
        ],
        expect![[r#"
            matmul: f32[n, 2, 5]
            matmul: f32[n, 5]
            matmul: f32[n, 5]
            matmul: f32[rank 3]
            matmul: f32[rank 3]
            error: matmul: operand 1: expected extent 4 along axis 0, found 3
            error: matmul: operand 0: expected rank at least 2, found rank 1
            conv2d: f32[n, 64, (h + 1 // 2), 112]
            conv2d: f32[1, 8, 7, 7]
            conv2d: f32[rank 4]
            error: conv2d: operand 0: expected extent 4 along axis 1, found 3
            error: conv2d: operand 0: expected a padded extent of at least the dilated kernel along axis 2, found 5
            error: conv2d: attribute `strides`: expected 2 integers of at least 1, found [2]
            error: conv2d: attribute `strides`: expected 2 integers of at least 1, found [0, 1]
            error: conv2d: attribute `groups`: expected at least 1, found 0
            max_pool2d: f32[n, 8, 56, 56]
            max_pool2d: f32[n, 8, 57, 57]
            max_pool2d: f32[n, 8, (n // 2) + 1, 4]
            error: avg_pool2d: attribute `pads`: expected less than the kernel's extent 2, found [2, 0, 0, 0]
        "#]],
    );
}

#[test]
fn reductions_and_normalisations() {
    let axes = |a: &[i64], keep| attrs([("axes", ints(a)), ("keepdims", Attr::Bool(keep))]);
    let axis = |a| attrs([("axis", Attr::Int(a))]);
    let x = || f32s(vec![n(), k(3), k(4)]);
    let eps = || ("eps", Attr::Float(1e-5));
    table(
        vec![
            ("reduce_sum", vec![x()], axes(&[2, 0], false)),
            ("reduce_mean", vec![x()], axes(&[1], true)),
            (
                "reduce_max",
                vec![coarse(ShapeInfo::Rank(3))],
                axes(&[0, 1], false),
            ),
            ("reduce_max", vec![x()], axes(&[3], false)),
            ("reduce_max", vec![x()], axes(&[1, 1], false)),
            ("reduce_mean", vec![of(DType::I64, &[3])], axes(&[0], false)),
            ("argmax", vec![x()], axis(1)),
            ("softmax", vec![x()], axis(2)),
            ("softmax", vec![x()], axis(-1)),
            ("softmax", vec![x()], Attrs::new()),
            (
                "layer_norm",
                vec![x(), f32s(vec![k(3), k(4)])],
                attrs([("axis", Attr::Int(1)), eps()]),
            ),
            (
                "layer_norm",
                vec![x(), f32s(vec![k(4)])],
                attrs([("axis", Attr::Int(1)), eps()]),
            ),
            ("rms_norm", vec![x(), f32s(vec![k(5)])], attrs([eps()])),
            (
                "batch_norm",
                vec![
                    x(),
                    f32s(vec![k(3)]),
                    f32s(vec![k(3)]),
                    f32s(vec![k(3)]),
                    f32s(vec![k(4)]),
                ],
                attrs([eps()]),
            ),
            (
                "group_norm",
                vec![x(), f32s(vec![k(3)]), f32s(vec![k(3)])],
                attrs([("groups", Attr::Int(2)), eps()]),
            ),
        ],
        expect![[r#"
            reduce_sum: f32[3]
            reduce_mean: f32[n, 1, 4]
            reduce_max: f32[rank 1]
            error: reduce_max: attribute `axes`: expected an axis in 0..3, found 3
            error: reduce_max: attribute `axes`: an axis is named twice
            error: reduce_mean: operand 0: expected a floating-point tensor, found i64
            argmax: i64[n, 4]
            softmax: f32[n, 3, 4]
            error: softmax: attribute `axis`: expected an axis in 0..3, found -1
            error: softmax: attribute `axis`: missing; expected an integer
            layer_norm: f32[n, 3, 4]
            error: layer_norm: operand 1: expected rank 2, found rank 1
            error: rms_norm: operand 1: expected extent 4 along axis 0, found 5
            error: batch_norm: operand 4: expected extent 3 along axis 0, found 4
            error: group_norm: operand 0: expected channels divisible by 2 groups, found 3
        "#]],
    );
}

#[test]
fn shapes_and_pieces() {
    let x = || f32s(vec![n(), k(3), k(4)]);
    let slice = |begin: SymExpr, end: SymExpr, step: i64| {
        attrs([
            ("axes", ints(&[2])),
            ("begin", shape(vec![begin])),
            ("end", shape(vec![end])),
            ("steps", ints(&[step])),
        ])
    };
    let split = |sizes: Vec<SymExpr>| attrs([("axis", Attr::Int(2)), ("sizes", shape(sizes))]);
    let pad = |b: &[i64], e: &[i64]| {
        attrs([
            ("pads_begin", ints(b)),
            ("pads_end", ints(e)),
            ("value", Attr::Float(0.0)),
        ])
    };
    let axis = |a| attrs([("axis", Attr::Int(a))]);
    let transform = |l: Layout| attrs([("layout", Attr::Layout(l))]);
    table(
        vec![
            (
                "reshape",
                vec![x()],
                attrs([("shape", shape(vec![n() * k(3), k(4)]))]),
            ),
            (
                "reshape",
                vec![x()],
                attrs([("shape", shape(vec![SymExpr::named("m"), k(4)]))]),
            ),
            (
                "reshape",
                vec![of(DType::F32, &[6])],
                attrs([("shape", shape(dims(&[4])))]),
            ),
            ("permute", vec![x()], attrs([("perm", ints(&[2, 0, 1]))])),
            ("permute", vec![x()], attrs([("perm", ints(&[1, 0]))])),
            ("permute", vec![x()], attrs([("perm", ints(&[1, 1, 0]))])),
            ("expand_dims", vec![x()], attrs([("axes", ints(&[0, 4]))])),
            ("expand_dims", vec![x()], attrs([("axes", ints(&[9]))])),
            (
                "squeeze",
                vec![of(DType::F32, &[1, 3, 1])],
                attrs([("axes", ints(&[0]))]),
            ),
            ("squeeze", vec![x()], attrs([("axes", ints(&[1]))])),
            (
                "broadcast_to",
                vec![of(DType::F32, &[3, 1])],
                attrs([("shape", shape(vec![n(), k(3), k(4)]))]),
            ),
            (
                "broadcast_to",
                vec![of(DType::F32, &[2])],
                attrs([("shape", shape(dims(&[3])))]),
            ),
            ("concat", vec![x(), f32s(vec![n(), k(5), k(4)])], axis(1)),
            (
                "concat",
                vec![x(), f32s(vec![SymExpr::named("m"), k(5), k(4)])],
                axis(1),
            ),
            ("concat", vec![x(), f32s(vec![n(), k(5), k(5)])], axis(1)),
            ("slice", vec![x()], slice(k(1), k(4), 2)),
            (
                "slice",
                vec![f32s(vec![k(1), k(1), n()])],
                slice(k(0), n() - k(1), 1),
            ),
            ("slice", vec![x()], slice(k(1), k(5), 1)),
            ("slice", vec![x()], slice(k(3), k(1), 1)),
            ("slice", vec![x()], slice(k(0), k(1), 0)),
            ("split", vec![x()], split(vec![k(1), k(3)])),
            ("split", vec![x()], split(vec![k(1), k(1)])),
            (
                "take",
                vec![
                    of(DType::F32, &[100, 8]),
                    Annotation::tensor(vec![n(), k(5)], DType::I64),
                ],
                axis(0),
            ),
            (
                "take",
                vec![of(DType::F32, &[100, 8]), of(DType::F32, &[2])],
                axis(0),
            ),
            ("pad", vec![x()], pad(&[0, 1, 0], &[0, 0, 2])),
            ("pad", vec![x()], pad(&[0, -1, 0], &[0, 0, 2])),
            ("cumsum", vec![x()], axis(3)),
            (
                "arange",
                vec![],
                attrs([
                    ("n", shape(vec![n()])),
                    ("start", Attr::Int(2)),
                    ("dtype", Attr::DType(DType::I64)),
                ]),
            ),
            (
                "full",
                vec![],
                attrs([
                    ("shape", shape(vec![n(), k(2)])),
                    ("value", Attr::Float(1.0)),
                    ("dtype", Attr::DType(DType::F16)),
                ]),
            ),
            (
                "tril_mask",
                vec![],
                attrs([
                    ("rows", shape(vec![n()])),
                    ("cols", shape(vec![n() + k(1)])),
                    ("offset", shape(vec![k(0)])),
                ]),
            ),
            (
                "resize2d",
                vec![f32s(vec![n(), k(3), n(), k(4)])],
                attrs([("scales", ints(&[2, 3]))]),
            ),
            (
                "layout_transform",
                vec![x()],
                transform(Layout::permuted(&[0, 2, 1])),
            ),
            ("layout_transform", vec![x()], transform(Layout::blocked(4, 1, 4))),
        ],
        expect![[r#"
            reshape: f32[n*3, 4]
            reshape: f32[m, 4]
            error: reshape: attribute `shape`: expected a shape of 6 elements, found 4
            permute: f32[4, n, 3]
            error: permute: attribute `perm`: expected a permutation of 3 axes, found 2 axes
            error: permute: attribute `perm`: an axis is named twice
            expand_dims: f32[1, n, 3, 4, 1]
            error: expand_dims: attribute `axes`: expected an axis in 0..4, found 9
            squeeze: f32[3, 1]
            error: squeeze: operand 0: expected extent 1 along axis 1, found 3
            broadcast_to: f32[n, 3, 4]
            error: broadcast_to: operand 0: expected extent 3 along axis 0, found 2
            concat: f32[n, 8, 4]
            concat: f32[rank 3]
            error: concat: operand 1: expected extent 4 along axis 2, found 5
            slice: f32[n, 3, 2]
            slice: f32[1, 1, n - 1]
            error: slice: attribute `end`: 1..5 does not lie within axis 2 of extent 4
            error: slice: attribute `begin`: 3..1 does not lie within axis 2 of extent 4
            error: slice: attribute `steps`: expected positive steps, found 0
            split: (f32[n, 3, 1], f32[n, 3, 3])
            error: split: attribute `sizes`: sum to 2; axis 2 has extent 4
            take: f32[n, 5, 8]
            error: take: operand 1: expected an integer tensor, found f32
            pad: f32[n, 4, 6]
            error: pad: attribute `pads_begin`: expected 3 amounts of at least 0, found [0, -1, 0]
            error: cumsum: attribute `axis`: expected an axis in 0..3, found 3
            arange: i64[n]
            full: f16[n, 2]
            tril_mask: bool[n, n + 1]
            resize2d: f32[n, 3, n*2, 12]
            layout_transform: f32[n, 3, 4] @(0,2,1)
            error: layout_transform: attribute `layout`: expected a layout of rank 3, found (0,1,2,3,1:4)
        "#]],
    );
}

#[test]
fn the_registry_is_the_table() {
    let names: Vec<&str> = op::all().iter().map(|o| o.name()).collect();
    assert!(names.windows(2).all(|w| w[0] < w[1]), "sorted, no name twice");
    // The first column of the rows of the table, names in backquotes.
    let readme = include_str!("../../src/op/README.md");
    let rows = readme.lines().filter_map(|l| l.strip_prefix("| `"));
    let mut written: Vec<&str> = rows
        .flat_map(|row| row.split('|').next().unwrap_or_default().split([' ', '`']))
        .filter(|w| !w.is_empty())
        .collect();
    written.sort_unstable();
    assert_eq!(names, written);
    for (i, name) in names.iter().enumerate() {
        let id = op::by_name(name).unwrap_or_else(|| panic!("{name} is not found"));
        assert_eq!((id.name(), id.get().name()), (*name, names[i]));
    }
    assert_eq!(op::by_name("conv3d"), None);
}

#[test]
fn layout_rules() {
    let x = f32s(vec![n(), k(8), k(4), k(4)]);
    let rule = |name: &str, attrs: Attrs| op::by_name(name).unwrap().get().layout_rule(&[&x], &attrs);
    assert_eq!(rule("relu", Attrs::new()), LayoutRule::Elementwise);
    assert_eq!(
        rule("softmax", attrs([("axis", Attr::Int(3))])),
        LayoutRule::AlongAxes(vec![3])
    );
    let norm = attrs([("axis", Attr::Int(2)), ("eps", Attr::Float(0.0))]);
    assert_eq!(rule("layer_norm", norm), LayoutRule::AlongAxes(vec![2, 3]));
    let keep = attrs([("axes", ints(&[3, 2])), ("keepdims", Attr::Bool(true))]);
    assert_eq!(
        rule("reduce_mean", keep),
        LayoutRule::Reduce {
            axes: vec![2, 3],
            keep: true
        }
    );
    assert_eq!(
        rule("permute", attrs([("perm", ints(&[0, 2, 3, 1]))])),
        LayoutRule::Permute(vec![0, 2, 3, 1])
    );
    assert_eq!(
        rule("conv2d", attrs([("groups", Attr::Int(8))])),
        LayoutRule::Conv2d { groups: 8 }
    );
    assert_eq!(
        rule("concat", attrs([("axis", Attr::Int(1))])),
        LayoutRule::AxisPieces(1)
    );
    let begin_end = [
        ("pads_begin", ints(&[0, 1, 0, 0])),
        ("pads_end", ints(&[0, 0, 1, 0])),
        ("value", Attr::Float(0.0)),
    ];
    assert_eq!(rule("pad", attrs(begin_end)), LayoutRule::AbiOnly);
}
