//! Every kernel class under every layout it is offered, against the interpreter. Many operators share one translation unit.

use crate::common::{Cases, Operand, check, check_range, f32s};
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::{Attr, Attrs, Module};
use relayout_ir::sym::SymExpr;

fn no_dims(_: &str) -> i64 {
    1
}

fn conv(strides: i64, pad: i64, groups: i64) -> Attrs {
    attrs([
        ("strides", Attr::Ints(vec![strides; 2])),
        ("pads", Attr::Ints(vec![pad; 4])),
        ("groups", Attr::Int(groups)),
    ])
}

#[test]
fn convolutions_in_every_layout() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let layouts = [
        ("", "", ""),
        ("0,2,3,1", "2,3,1,0", "0,2,3,1"),
        ("0,1,2,3,1:8", "0,1,2,3,1:8,0:8", "0,1,2,3,1:8"),
        ("0,1,2,3,1:16", "0,1,2,3,1:16,0:16", "0,1,2,3,1:16"),
        ("", "0,1,2,3,0:16", "0,1,2,3,1:16"),
        ("0,1,2,3,1:8", "", "0,2,3,1"),
        ("0,2,3,1", "0,2,3,1,0:8", "0,2,3,1"),
        ("0,2,3,1", "0,2,3,1,0:16", "0,2,3,1"),
    ];
    // (input channels, output channels, size, kernel, stride, pad): channels that blocks do not divide, remainders of every tile.
    let shapes = [
        (16, 32, 14, 3, 1, 1),
        (32, 16, 9, 1, 1, 0),
        (16, 16, 15, 3, 2, 1),
        (3, 20, 11, 7, 2, 3),
        (24, 40, 7, 1, 2, 0),
        (16, 48, 30, 3, 1, 0),
    ];
    for (i, o, size, kernel, stride, pad) in shapes {
        for (x, w, y) in layouts {
            // Blocked layouts are offered only where the block divides the channels.
            let fits = |l: &str, channels: usize| {
                l.split_once(':').is_none_or(|(_, f)| {
                    let block: usize = f.split(',').next().and_then(|f| f.parse().ok()).unwrap_or(1);
                    channels.is_multiple_of(block)
                })
            };
            if !fits(x, i) || !fits(y, o) || !fits(w, i) && w.contains("1:") || !fits(w, o) {
                continue;
            }
            let operands = [f32s(&[2, i, size, size], x), f32s(&[o, i, kernel, kernel], w)];
            c.case("conv2d", &operands, conv(stride, pad, 1), y);
        }
    }
    // Depthwise and grouped.
    for (x, w, y) in [
        ("", "", ""),
        ("0,2,3,1", "2,3,1,0", "0,2,3,1"),
        ("0,1,2,3,1:8", "0,1,2,3,0:8", "0,1,2,3,1:8"),
        ("0,1,2,3,1:16", "0,1,2,3,0:16", "0,1,2,3,1:16"),
    ] {
        c.case(
            "conv2d",
            &[f32s(&[1, 32, 13, 13], x), f32s(&[32, 1, 3, 3], w)],
            conv(1, 1, 32),
            y,
        );
        c.case(
            "conv2d",
            &[f32s(&[1, 32, 13, 13], x), f32s(&[32, 1, 3, 3], w)],
            conv(2, 1, 32),
            y,
        );
    }
    c.case(
        "conv2d",
        &[f32s(&[1, 12, 8, 8], ""), f32s(&[18, 4, 3, 3], "")],
        conv(1, 1, 3),
        "",
    );
    c.finish();
    check(&m, &no_dims, 2e-6);
}

#[test]
fn matmuls_in_every_layout() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    for (rows, n, k) in [(1, 33, 70), (17, 1, 64), (19, 39, 31)] {
        for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
            for a in ["", "1,0"] {
                for b in ["", "1,0"] {
                    for out in ["", "1,0"] {
                        if !out.is_empty() && (ta || tb) {
                            continue;
                        }
                        let x = if ta { [k, rows] } else { [rows, k] };
                        let y = if tb { [n, k] } else { [k, n] };
                        let flags = attrs([("transpose_a", Attr::Bool(ta)), ("transpose_b", Attr::Bool(tb))]);
                        c.case("matmul", &[f32s(&x, a), f32s(&y, b)], flags, out);
                    }
                }
            }
        }
    }
    // Batched, broadcast, and large enough for the library.
    c.case(
        "matmul",
        &[f32s(&[3, 2, 9, 20], ""), f32s(&[3, 2, 20, 11], "")],
        Attrs::new(),
        "",
    );
    c.case(
        "matmul",
        &[f32s(&[3, 9, 20], ""), f32s(&[20, 24], "")],
        Attrs::new(),
        "",
    );
    c.case(
        "matmul",
        &[f32s(&[130, 200], "1,0"), f32s(&[200, 140], "")],
        Attrs::new(),
        "1,0",
    );
    c.case(
        "matmul",
        &[f32s(&[2, 130, 200], "0,2,1"), f32s(&[2, 200, 140], "")],
        Attrs::new(),
        "",
    );
    c.finish();
    check(&m, &no_dims, 2e-6);
}

#[test]
fn pooling_normalisation_and_reductions_in_every_layout() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let images = ["", "0,2,3,1", "0,1,2,3,1:8", "0,1,2,3,1:16"];
    for l in images {
        let pool = |stride: i64, pad: i64| {
            attrs([
                ("kernel", Attr::Ints(vec![3, 3])),
                ("strides", Attr::Ints(vec![stride; 2])),
                ("pads", Attr::Ints(vec![pad; 4])),
            ])
        };
        c.case("max_pool2d", &[f32s(&[2, 32, 15, 15], l)], pool(2, 1), l);
        c.case("avg_pool2d", &[f32s(&[2, 32, 9, 9], l)], pool(1, 1), l);
        for op in ["relu", "sigmoid", "silu", "exp", "hard_swish"] {
            c.case(op, &[f32s(&[1, 16, 5, 7], l)], Attrs::new(), l);
        }
        c.case(
            "add",
            &[f32s(&[2, 16, 5, 7], l), f32s(&[2, 16, 5, 7], l)],
            Attrs::new(),
            l,
        );
        c.case(
            "softmax",
            &[f32s(&[2, 16, 5, 19], l)],
            attrs([("axis", Attr::Int(3))]),
            l,
        );
    }
    c.case(
        "mul",
        &[f32s(&[2, 20, 5, 7], ""), f32s(&[20, 1, 1], "")],
        Attrs::new(),
        "",
    );
    for (axes, keep) in [
        (vec![2, 3], true),
        (vec![1], false),
        (vec![3], false),
        (vec![0, 1, 2, 3], false),
    ] {
        for op in [
            "reduce_sum",
            "reduce_mean",
            "reduce_max",
            "reduce_min",
            "reduce_prod",
        ] {
            let a = attrs([("axes", Attr::Ints(axes.clone())), ("keepdims", Attr::Bool(keep))]);
            c.case(op, &[f32s(&[2, 10, 5, 33], "")], a, "");
        }
    }
    c.case(
        "softmax",
        &[f32s(&[6, 77], "")],
        attrs([("axis", Attr::Int(1))]),
        "",
    );
    c.case(
        "softmax",
        &[f32s(&[6, 77], "")],
        attrs([("axis", Attr::Int(0))]),
        "",
    );
    c.case(
        "log_softmax",
        &[f32s(&[6, 40], "")],
        attrs([("axis", Attr::Int(1))]),
        "",
    );
    let norm = attrs([("axis", Attr::Int(2)), ("eps", Attr::Float(1e-5))]);
    c.case(
        "layer_norm",
        &[f32s(&[2, 5, 48], ""), f32s(&[48], ""), f32s(&[48], "")],
        norm,
        "",
    );
    c.case(
        "rms_norm",
        &[f32s(&[2, 5, 50], ""), f32s(&[50], "")],
        attrs([("eps", Attr::Float(1e-6))]),
        "",
    );
    let norm = attrs([("groups", Attr::Int(4)), ("eps", Attr::Float(1e-5))]);
    c.case(
        "group_norm",
        &[f32s(&[2, 12, 5, 5], ""), f32s(&[12], ""), f32s(&[12], "")],
        norm,
        "",
    );
    c.case(
        "cumsum",
        &[f32s(&[4, 9], "")],
        attrs([("axis", Attr::Int(1))]),
        "",
    );
    c.case(
        "argmax",
        &[f32s(&[4, 9], "")],
        attrs([("axis", Attr::Int(1)), ("keepdims", Attr::Bool(false))]),
        "",
    );
    c.finish();
    check(&m, &no_dims, 4e-6);
}

#[test]
fn movement_and_conversions() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let images = ["", "0,2,3,1", "0,1,2,3,1:8", "0,1,2,3,1:16", "3,2,1,0", "0,3,1,2"];
    for from in images {
        for to in images {
            if from == to {
                continue;
            }
            for shape in [[2, 35, 6, 17], [1, 64, 12, 12], [2, 16, 9, 21]] {
                if (from.contains(':') || to.contains(':')) && shape[1] % 16 != 0 {
                    continue;
                }
                let x = c.operand(&f32s(&shape, from));
                let y = if to.is_empty() { x } else { c.convert(x, to) };
                c.result(y);
            }
        }
    }
    for l in ["", "0,2,3,1"] {
        c.case(
            "permute",
            &[f32s(&[2, 5, 7, 9], l)],
            attrs([("perm", Attr::Ints(vec![0, 2, 3, 1]))]),
            "",
        );
        c.case(
            "concat",
            &[f32s(&[1, 5, 4, 4], l), f32s(&[1, 11, 4, 4], l)],
            attrs([("axis", Attr::Int(1))]),
            l,
        );
    }
    let shape = |s: &[i64]| Attr::Shape(s.iter().map(|d| SymExpr::from(*d)).collect());
    c.case(
        "reshape",
        &[f32s(&[2, 6, 10], "")],
        attrs([("shape", shape(&[12, 10]))]),
        "",
    );
    c.case(
        "reshape",
        &[f32s(&[2, 6, 10], "0,2,1")],
        attrs([("shape", shape(&[2, 60]))]),
        "",
    );
    c.case(
        "broadcast_to",
        &[f32s(&[3, 1, 20], "")],
        attrs([("shape", shape(&[2, 3, 7, 20]))]),
        "",
    );
    let slice = attrs([
        ("axes", Attr::Ints(vec![1, 2])),
        ("begin", shape(&[2, 1])),
        ("end", shape(&[9, 20])),
        ("steps", Attr::Ints(vec![2, 3])),
    ]);
    c.case("slice", &[f32s(&[3, 10, 22], "")], slice, "");
    let pad = attrs([
        ("pads_begin", Attr::Ints(vec![0, 2])),
        ("pads_end", Attr::Ints(vec![1, 3])),
        ("value", Attr::Float(-2.5)),
    ]);
    c.case("pad", &[f32s(&[5, 20], "")], pad, "");
    let indices = Operand {
        shape: vec![SymExpr::from(3usize), SymExpr::from(4usize)],
        dtype: DType::I64,
        layout: "",
    };
    c.case(
        "take",
        &[f32s(&[5, 24], ""), indices],
        attrs([("axis", Attr::Int(0))]),
        "",
    );
    let resize = attrs([
        ("scales", Attr::Ints(vec![2, 3])),
        ("mode", Attr::Str("nearest".into())),
    ]);
    c.case("resize2d", &[f32s(&[1, 3, 5, 6], "")], resize, "");
    let mask = attrs([
        ("rows", shape(&[6])),
        ("cols", shape(&[9])),
        ("offset", shape(&[3])),
    ]);
    let mask = c.op("tril_mask", &[], mask, "");
    let (x, y) = (c.operand(&f32s(&[6, 9], "")), c.operand(&f32s(&[6, 9], "")));
    let w = c.op("where", &[mask, x, y], Attrs::new(), "");
    c.result(w);
    c.finish();
    check(&m, &no_dims, 0.0);
}

#[test]
fn other_element_types() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let of = |dtype, n: usize| Operand {
        shape: vec![SymExpr::from(3usize), SymExpr::from(n)],
        dtype,
        layout: "",
    };
    for t in [DType::I64, DType::I32, DType::I8, DType::U8] {
        for op in ["add", "sub", "mul", "minimum", "maximum", "less", "equal"] {
            c.case(op, &[of(t, 19), of(t, 19)], Attrs::new(), "");
        }
        for to in DType::ALL {
            c.case("cast", &[of(t, 5)], attrs([("dtype", Attr::DType(to))]), "");
        }
    }
    for t in [DType::F16, DType::BF16] {
        for op in ["add", "mul", "div"] {
            c.case(op, &[of(t, 19), of(t, 19)], Attrs::new(), "");
        }
        c.case(
            "cast",
            &[of(t, 19)],
            attrs([("dtype", Attr::DType(DType::F32))]),
            "",
        );
        c.case(
            "cast",
            &[f32s(&[3, 50], "")],
            attrs([("dtype", Attr::DType(t))]),
            "",
        );
    }
    c.case(
        "cast",
        &[f32s(&[3, 50], "")],
        attrs([("dtype", Attr::DType(DType::I32))]),
        "",
    );
    c.case(
        "logical_and",
        &[of(DType::Bool, 9), of(DType::Bool, 9)],
        Attrs::new(),
        "",
    );
    c.case("logical_not", &[of(DType::Bool, 9)], Attrs::new(), "");
    c.case(
        "matmul",
        &[of(DType::F16, 3), of(DType::F16, 3)],
        Attrs::new(),
        "",
    );
    c.finish();
    check_range(&m, &no_dims, 0.0, (-9.0, 9.0));
}

#[test]
fn symbolic_extents() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let (b, s) = (c.b.sym("b", 1, Some(8)), c.b.sym("s", 1, None));
    let of = |shape: Vec<SymExpr>, layout| Operand {
        shape,
        dtype: DType::F32,
        layout,
    };
    let n = |v: usize| SymExpr::from(v);
    let x = c.operand(&of(vec![b.clone(), s.clone(), n(24)], ""));
    let w = c.operand(&of(vec![n(24), n(40)], ""));
    let y = c.op("matmul", &[x, w], Attrs::new(), "");
    let z = c.op("relu", &[y], Attrs::new(), "");
    c.result(z);
    let q = c.operand(&of(vec![b.clone(), n(2), s.clone(), n(12)], ""));
    let k = c.operand(&of(vec![b.clone(), n(2), s.clone(), n(12)], ""));
    let scores = c.op("matmul", &[q, k], attrs([("transpose_b", Attr::Bool(true))]), "");
    let p = c.op("softmax", &[scores], attrs([("axis", Attr::Int(3))]), "");
    let o = c.op("matmul", &[p, k], Attrs::new(), "");
    let t = c.op(
        "permute",
        &[o],
        attrs([("perm", Attr::Ints(vec![0, 2, 1, 3]))]),
        "",
    );
    c.result(t);
    c.case(
        "reduce_mean",
        &[of(vec![b.clone(), s.clone(), n(24)], "")],
        attrs([("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Bool(false))]),
        "",
    );
    c.case(
        "reduce_sum",
        &[of(vec![b.clone(), s.clone()], "")],
        attrs([("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Bool(false))]),
        "",
    );
    let h = c.operand(&of(vec![b.clone(), s.clone(), n(3), s.clone()], ""));
    let h = c.convert(h, "0,3,1,2");
    c.result(h);
    let i = c.operand(&of(vec![b, n(16), s.clone(), s], "0,1,2,3,1:8"));
    let f = c.operand(&f32s(&[32, 16, 3, 3], "0,1,2,3,1:8,0:8"));
    let v = c.op("conv2d", &[i, f], conv(1, 1, 1), "0,1,2,3,1:8");
    c.result(v);
    c.finish();
    for (b, s) in [(1, 1), (3, 7), (2, 37)] {
        check(&m, &move |name| if name == "b" { b } else { s }, 4e-6);
    }
}
