//! Every operator's tensor program equals its reference over random shapes and layouts.

use super::cases::{Case, attrs, dims, placed, program_agrees};
use proptest::prelude::*;
use relayout_ir::annotation::DType;
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::op;
use relayout_ir::sym::SymExpr;

const FLOAT_UNARY: [&str; 15] = [
    "neg",
    "abs",
    "exp",
    "tanh",
    "erf",
    "sigmoid",
    "relu",
    "silu",
    "sin",
    "cos",
    "floor",
    "ceil",
    "hard_swish",
    "identity",
    "gelu",
];
const POSITIVE_UNARY: [&str; 4] = ["log", "sqrt", "rsqrt", "reciprocal"];

fn n() -> SymExpr {
    SymExpr::named("n")
}

/// Extents with many divisors, so that blocks are likely.
fn extent() -> impl Strategy<Value = i64> + Clone {
    prop::sample::select(vec![1i64, 2, 3, 4, 6, 8])
}

fn shape(rank: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(extent(), rank)
}

/// A shape whose first axis is the symbolic `n` (or a multiple of it) half of the time, with the value of `n`.
fn open_shape(rank: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = (Vec<SymExpr>, i64)> {
    (shape(rank), 0..3usize, 1..4i64).prop_map(|(s, kind, value)| {
        let mut d = dims(&s);
        if let Some(first) = d.first_mut() {
            match kind {
                0 => *first = n(),
                1 => *first = n() * SymExpr::constant(4),
                _ => {}
            }
        }
        (d, value)
    })
}

fn unary() -> impl Strategy<Value = Case> {
    let names = prop::sample::select([&FLOAT_UNARY[..], &POSITIVE_UNARY].concat());
    let dtype = prop::sample::select(vec![DType::F32, DType::F32, DType::F16, DType::BF16]);
    (names, open_shape(0..=4), dtype, any::<bool>()).prop_map(|(name, (d, value), dtype, tangent)| {
        let extra = match name {
            "gelu" if tangent => attrs([("approximate", Attr::Str("tanh".into()))]),
            _ => Attrs::new(),
        };
        let case = Case::new(name, vec![d], extra)
            .bind(&[("n", value)])
            .all_of(dtype);
        if POSITIVE_UNARY.contains(&name) {
            case.positive()
        } else {
            case
        }
    })
}

fn unary_with_attributes() -> impl Strategy<Value = Case> {
    let bounds = (-2.0..1.0f64, -1.0..2.0f64);
    (0..4usize, open_shape(1..=3), bounds).prop_map(|(which, (d, value), (low, high))| {
        let float = |v: f64| Attr::Float(v);
        let (name, extra) = match which {
            0 => ("leaky_relu", attrs([("alpha", float(high))])),
            1 => (
                "hard_sigmoid",
                attrs([("alpha", float(high)), ("beta", float(low))]),
            ),
            2 => (
                "clip",
                attrs([("min", float(low)), ("max", float(f64::INFINITY))]),
            ),
            _ => ("clip", attrs([("min", float(low)), ("max", float(high))])),
        };
        Case::new(name, vec![d], extra).bind(&[("n", value)])
    })
}

fn integer_unary() -> impl Strategy<Value = Case> {
    let dtype = prop::sample::select(vec![DType::I64, DType::I32, DType::I8, DType::U8]);
    (0..4usize, shape(1..=3), dtype, -5.0..5.0f64).prop_map(|(which, s, dtype, bound)| {
        let (name, extra) = match which {
            0 => ("neg", Attrs::new()),
            1 => ("abs", Attrs::new()),
            2 => ("relu", Attrs::new()),
            _ => (
                "clip",
                attrs([("min", Attr::Float(bound)), ("max", Attr::Float(1e30))]),
            ),
        };
        Case::new(name, vec![dims(&s)], extra).all_of(dtype)
    })
}

/// Two operands of which one may lack leading axes or have extent 1 in places.
fn broadcast_pair() -> impl Strategy<Value = (Vec<Vec<SymExpr>>, i64)> {
    (open_shape(1..=4), 0..4usize, any::<u8>(), any::<bool>()).prop_map(
        |((full, value), drop, ones, swap)| {
            let mut other: Vec<SymExpr> = full[drop.min(full.len())..].to_vec();
            for (i, d) in other.iter_mut().enumerate() {
                if ones >> i & 1 == 1 {
                    *d = SymExpr::constant(1);
                }
            }
            (
                if swap {
                    vec![other, full]
                } else {
                    vec![full, other]
                },
                value,
            )
        },
    )
}

fn binary() -> impl Strategy<Value = Case> {
    let names = [
        "add",
        "sub",
        "mul",
        "div",
        "minimum",
        "maximum",
        "mod",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
        "not_equal",
    ];
    let dtype = prop::sample::select(vec![
        DType::F32,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::I8,
        DType::U8,
    ]);
    (prop::sample::select(names.to_vec()), broadcast_pair(), dtype).prop_map(
        |(name, (args, value), dtype)| {
            let case = Case::new(name, args, Attrs::new())
                .bind(&[("n", value)])
                .all_of(dtype);
            // Division by zero of floats gives NaN and infinities, which are compared elsewhere.
            if dtype.is_float() && ["div", "mod"].contains(&name) {
                case.positive()
            } else {
                case
            }
        },
    )
}

fn power_and_logic() -> impl Strategy<Value = Case> {
    (0..5usize, broadcast_pair()).prop_map(|(which, (args, value))| {
        let case = |name| Case::new(name, args.clone(), Attrs::new()).bind(&[("n", value)]);
        match which {
            0 => case("pow").positive(),
            1 => case("logical_and").all_of(DType::Bool),
            2 => case("logical_or").all_of(DType::Bool),
            3 => case("not_equal").all_of(DType::Bool),
            _ => Case::new("logical_not", args[..1].to_vec(), Attrs::new())
                .bind(&[("n", value)])
                .all_of(DType::Bool),
        }
    })
}

fn cast() -> impl Strategy<Value = Case> {
    let any_type = prop::sample::select(DType::ALL.to_vec());
    (open_shape(0..=3), any_type.clone(), any_type).prop_map(|((d, value), from, to)| {
        Case::new("cast", vec![d], attrs([("dtype", Attr::DType(to))]))
            .bind(&[("n", value)])
            .all_of(from)
    })
}

fn choose() -> impl Strategy<Value = Case> {
    let dtype = prop::sample::select(vec![DType::F32, DType::BF16, DType::I64, DType::Bool]);
    (broadcast_pair(), 0..3usize, dtype).prop_map(|((mut args, value), which, dtype)| {
        let third = args[which.min(1)].clone();
        args.insert(which, third);
        Case::new("where", args, Attrs::new())
            .bind(&[("n", value)])
            .typed(&[DType::Bool, dtype, dtype])
    })
}

fn matmul() -> impl Strategy<Value = Case> {
    let batch = prop_oneof![
        Just((vec![], vec![])),
        Just((vec![n()], vec![])),
        Just((vec![n()], vec![n()])),
        Just((dims(&[2]), dims(&[1]))),
        Just((dims(&[1, 3]), dims(&[2, 1]))),
        Just((vec![n(), SymExpr::constant(2)], dims(&[2]))),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F32, DType::F16, DType::I64, DType::I8]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (batch, [extent(), extent(), extent()], flags, dtype, 1..4i64).prop_map(
        |((mut a, mut b), [m, k, c], (ta, tb, open), dtype, value)| {
            let rows = if open { n() } else { SymExpr::constant(m) };
            let pair = |x: SymExpr, y: SymExpr, swap: bool| if swap { [y, x] } else { [x, y] };
            a.extend(pair(rows, SymExpr::constant(k), ta));
            b.extend(pair(SymExpr::constant(k), SymExpr::constant(c), tb));
            let flags = attrs([("transpose_a", Attr::Bool(ta)), ("transpose_b", Attr::Bool(tb))]);
            Case::new("matmul", vec![a, b], flags)
                .bind(&[("n", value)])
                .all_of(dtype)
        },
    )
}

fn conv2d() -> impl Strategy<Value = Case> {
    let channels = prop_oneof![
        // groups, channels and outputs per group
        (Just(1i64), extent(), extent()),
        (Just(2i64), extent(), extent()),
        (extent(), Just(1i64), 1..3i64),
    ];
    let window = ([1..4i64, 1..4i64], [1..3i64, 1..3i64], [1..3i64, 1..3i64]);
    let pads = [0..3i64, 0..3i64, 0..3i64, 0..3i64];
    let dtype = prop::sample::select(vec![DType::F32, DType::F32, DType::F32, DType::F16, DType::I8]);
    (
        channels,
        window,
        pads,
        any::<bool>(),
        [0..4i64, 0..4i64],
        any::<bool>(),
        dtype,
    )
        .prop_map(
            |((g, cg, og), (kernel, strides, dilations), pads, padded, slack, open, dtype)| {
                let pads = if padded { pads } else { [0; 4] };
                let size =
                    |i: usize| ((kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + 2]).max(1) + slack[i];
                let batch = if open { n() } else { SymExpr::constant(2) };
                let mut x = vec![batch, SymExpr::constant(g * cg)];
                x.extend(dims(&[size(0), size(1)]));
                let weight = dims(&[g * og, cg, kernel[0], kernel[1]]);
                let extra = attrs([
                    ("strides", Attr::Ints(strides.to_vec())),
                    ("pads", Attr::Ints(pads.to_vec())),
                    ("dilations", Attr::Ints(dilations.to_vec())),
                    ("groups", Attr::Int(g)),
                ]);
                Case::new("conv2d", vec![x, weight], extra)
                    .bind(&[("n", 2)])
                    .all_of(dtype)
            },
        )
}

fn pool() -> impl Strategy<Value = Case> {
    let kernel = [1..4i64, 1..4i64];
    let pads = [0..4i64, 0..4i64, 0..4i64, 0..4i64];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (
        kernel,
        [1..4i64, 1..4i64],
        pads,
        [1..3i64, 1..3i64],
        [0..5i64, 0..5i64],
        flags,
        extent(),
    )
        .prop_map(
            |(kernel, strides, mut pads, dilations, slack, (avg, ceil, include, open), channels)| {
                let dilations = if avg { [1, 1] } else { dilations };
                let reach = |i: usize| (kernel[i] - 1) * dilations[i] + 1;
                for (i, p) in pads.iter_mut().enumerate() {
                    *p = (*p).min(reach(i % 2) - 1);
                }
                // Dilated windows may miss a small input altogether; the input is at least as large as a window.
                let mut x = vec![
                    if open { n() } else { SymExpr::constant(2) },
                    SymExpr::constant(channels),
                ];
                x.extend(dims(&[reach(0) + slack[0], reach(1) + slack[1]]));
                let mut extra = attrs([
                    ("kernel", Attr::Ints(kernel.to_vec())),
                    ("strides", Attr::Ints(strides.to_vec())),
                    ("pads", Attr::Ints(pads.to_vec())),
                    ("ceil_mode", Attr::Bool(ceil)),
                ]);
                let name = if avg {
                    extra.insert("count_include_pad".into(), Attr::Bool(include));
                    "avg_pool2d"
                } else {
                    extra.insert("dilations".into(), Attr::Ints(dilations.to_vec()));
                    "max_pool2d"
                };
                Case::new(name, vec![x], extra).bind(&[("n", 2)])
            },
        )
}

fn reduction() -> impl Strategy<Value = Case> {
    let names = [
        "reduce_sum",
        "reduce_mean",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::I64, DType::I8]);
    (
        prop::sample::select(names.to_vec()),
        open_shape(1..=4),
        any::<u8>(),
        any::<bool>(),
        dtype,
    )
        .prop_map(|(name, (d, value), mask, keep, dtype)| {
            let axes = (0..d.len() as i64).filter(|a| mask >> a & 1 == 1).collect();
            let extra = attrs([("axes", Attr::Ints(axes)), ("keepdims", Attr::Bool(keep))]);
            // A product of halves overflows 16 bits; the mean is of floats.
            let dtype = match name {
                "reduce_prod" => DType::I64,
                "reduce_mean" => DType::F32,
                _ => dtype,
            };
            Case::new(name, vec![d], extra)
                .bind(&[("n", value)])
                .all_of(dtype)
        })
}

/// An operator with one `axis` attribute.
fn along_axis() -> impl Strategy<Value = Case> {
    let names = ["softmax", "log_softmax", "cumsum", "argmax"];
    (
        prop::sample::select(names.to_vec()),
        open_shape(1..=4),
        any::<prop::sample::Index>(),
        0..3usize,
    )
        .prop_map(|(name, (d, value), axis, kind)| {
            let mut extra = attrs([("axis", Attr::Int(axis.index(d.len()) as i64))]);
            if name == "argmax" {
                extra.insert("keepdims".into(), Attr::Bool(kind == 1));
            }
            let dtype = match (name, kind) {
                ("cumsum" | "argmax", 2) => DType::I32,
                (_, 1) => DType::F16,
                _ => DType::F32,
            };
            Case::new(name, vec![d], extra)
                .bind(&[("n", value)])
                .all_of(dtype)
        })
}

fn normalisation() -> impl Strategy<Value = Case> {
    let half = prop::sample::select(vec![DType::F32, DType::F32, DType::F16]);
    (
        0..4usize,
        open_shape(2..=4),
        any::<prop::sample::Index>(),
        0..3usize,
        half,
    )
        .prop_map(|(which, (d, value), axis, params, dtype)| {
            let eps = Attr::Float(1e-3);
            let channel = || vec![d[1].clone()];
            let last = || vec![d[d.len() - 1].clone()];
            let case = match which {
                0 => {
                    let axis = axis.index(d.len());
                    let own = d[axis..].to_vec();
                    let args = [vec![d.clone()], vec![own; params]].concat();
                    Case::new(
                        "layer_norm",
                        args,
                        attrs([("axis", Attr::Int(axis as i64)), ("eps", eps)]),
                    )
                }
                1 => Case::new("rms_norm", vec![d.clone(), last()], attrs([("eps", eps)])),
                2 => {
                    let args = vec![d.clone(), channel(), channel(), channel(), channel()];
                    Case::new("batch_norm", args, attrs([("eps", eps)])).positive()
                }
                _ => {
                    let c = d[1].as_const().unwrap();
                    let divisors: Vec<i64> = (1..=c).filter(|g| c % g == 0).collect();
                    let groups = divisors[axis.index(divisors.len())];
                    let args = vec![d.clone(), channel(), channel()];
                    Case::new(
                        "group_norm",
                        args,
                        attrs([("groups", Attr::Int(groups)), ("eps", eps)]),
                    )
                }
            };
            case.bind(&[("n", value)]).all_of(dtype)
        })
}

/// Pairs of shapes of equally many elements for which an index can be taken apart with constant divisors.
fn reshape() -> impl Strategy<Value = Case> {
    let k = SymExpr::constant;
    let pairs = vec![
        (vec![n(), k(4), k(6)], vec![n(), k(24)]),
        (vec![n(), k(24)], vec![n(), k(4), k(6)]),
        (vec![n(), k(24)], vec![n(), k(4), k(1), k(2), k(3)]),
        (vec![n(), k(3), k(8)], vec![n() * k(3), k(2), k(4)]),
        (vec![k(2), n(), k(8)], vec![k(1), k(2), n(), k(4), k(2)]),
        (vec![k(2) * n(), k(8)], vec![k(2), n(), k(8)]),
        (dims(&[4, 6]), dims(&[3, 8])),
        (dims(&[2, 3, 4]), dims(&[4, 3, 2])),
        (dims(&[6, 1, 4]), dims(&[24])),
        (dims(&[1, 1]), dims(&[])),
        (dims(&[]), dims(&[1, 1])),
        (dims(&[16, 12]), dims(&[4, 4, 12])),
    ];
    (prop::sample::select(pairs), 1..4i64).prop_map(|((from, to), value)| {
        Case::new("reshape", vec![from], attrs([("shape", Attr::Shape(to))])).bind(&[("n", value)])
    })
}

fn reordering() -> impl Strategy<Value = Case> {
    let perm = (1..=4usize).prop_flat_map(|r| Just((0..r as i64).collect::<Vec<_>>()).prop_shuffle());
    (0..4usize, open_shape(4..=4), perm, any::<u8>()).prop_map(|(which, (mut d, value), perm, mask)| {
        let case = match which {
            0 => {
                d.truncate(perm.len());
                Case::new("permute", vec![d], attrs([("perm", Attr::Ints(perm))]))
            }
            1 => {
                let axes: Vec<i64> = (0..4).filter(|a| mask >> a & 1 == 1).collect();
                d.truncate(4 - axes.len());
                Case::new("expand_dims", vec![d], attrs([("axes", Attr::Ints(axes))]))
            }
            2 => {
                let axes: Vec<i64> = (0..4).filter(|a| mask >> a & 1 == 1).collect();
                axes.iter().for_each(|a| d[*a as usize] = SymExpr::constant(1));
                Case::new("squeeze", vec![d], attrs([("axes", Attr::Ints(axes))]))
            }
            _ => {
                let mut own = d[perm.len() - 1..].to_vec();
                for (i, e) in own.iter_mut().enumerate() {
                    if mask >> i & 1 == 1 {
                        *e = SymExpr::constant(1);
                    }
                }
                Case::new("broadcast_to", vec![own], attrs([("shape", Attr::Shape(d))]))
            }
        };
        case.bind(&[("n", value)])
    })
}

fn pieces() -> impl Strategy<Value = Case> {
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::I64]);
    (
        0..3usize,
        open_shape(2..=4),
        any::<prop::sample::Index>(),
        [0..4i64, 0..4i64, 1..4i64],
        dtype,
    )
        .prop_map(|(which, (d, value), axis, [a, b, step], dtype)| {
            let axis = axis.index(d.len());
            let k = SymExpr::constant;
            let case = match which {
                0 => {
                    let mut args = vec![d.clone(), d.clone(), d.clone()];
                    args[1][axis] = k(4 * a + 4);
                    args[2][axis] = k(b + 1);
                    Case::new("concat", args, attrs([("axis", Attr::Int(axis as i64))]))
                }
                1 => {
                    // The operand is enlarged so that the bounds lie within.
                    let mut own = d.clone();
                    own[axis] = own[axis].clone() + k(a + b);
                    let bounds = (vec![k(a)], vec![d[axis].clone() + k(a)]);
                    let extra = attrs([
                        ("axes", Attr::Ints(vec![axis as i64])),
                        ("begin", Attr::Shape(bounds.0)),
                        ("end", Attr::Shape(bounds.1)),
                        ("steps", Attr::Ints(vec![step])),
                    ]);
                    Case::new("slice", vec![own], extra)
                }
                _ => {
                    let mut begin = vec![0; d.len()];
                    let mut end = begin.clone();
                    (begin[axis], end[axis]) = (a, b);
                    end[0] += step;
                    let extra = attrs([
                        ("pads_begin", Attr::Ints(begin)),
                        ("pads_end", Attr::Ints(end)),
                        ("value", Attr::Float(3.0)),
                    ]);
                    Case::new("pad", vec![d], extra)
                }
            };
            case.bind(&[("n", value)]).all_of(dtype)
        })
}

fn look_up() -> impl Strategy<Value = Case> {
    let index_type = prop::sample::select(vec![DType::I64, DType::I32]);
    let take = (
        open_shape(1..=3),
        shape(0..=2),
        any::<prop::sample::Index>(),
        index_type,
    )
        .prop_map(|((d, value), i, axis, index_type)| {
            let axis = axis.index(d.len());
            let mut case = Case::new(
                "take",
                vec![d, dims(&i)],
                attrs([("axis", Attr::Int(axis as i64))]),
            );
            case.unblocked.push((0, axis));
            case.bind(&[("n", value)]).typed(&[DType::F32, index_type])
        });
    let resize = (open_shape(4..=4), [1..4i64, 1..4i64]).prop_map(|((d, value), scales)| {
        Case::new(
            "resize2d",
            vec![d],
            attrs([("scales", Attr::Ints(scales.to_vec()))]),
        )
        .bind(&[("n", value)])
    });
    prop_oneof![take, resize]
}

fn creation() -> impl Strategy<Value = Case> {
    let dtype = prop::sample::select(DType::ALL.to_vec());
    (0..3usize, open_shape(2..=2), -3..4i64, dtype).prop_map(|(which, (d, value), at, dtype)| {
        let case = match which {
            0 => {
                let dtype = if dtype == DType::Bool { DType::I64 } else { dtype };
                let n = Attr::Shape(d[..1].to_vec());
                Case::new(
                    "arange",
                    vec![],
                    attrs([("n", n), ("start", Attr::Int(at)), ("dtype", Attr::DType(dtype))]),
                )
            }
            1 => {
                let value = Attr::Float(at.abs() as f64);
                Case::new(
                    "full",
                    vec![],
                    attrs([
                        ("shape", Attr::Shape(d)),
                        ("value", value),
                        ("dtype", Attr::DType(dtype)),
                    ]),
                )
            }
            _ => {
                let one = |e: SymExpr| Attr::Shape(vec![e]);
                let offset = d[0].clone() - SymExpr::constant(at);
                let extra = attrs([
                    ("rows", one(d[0].clone())),
                    ("cols", one(d[1].clone())),
                    ("offset", one(offset)),
                ]);
                Case::new("tril_mask", vec![], extra)
            }
        };
        case.bind(&[("n", value)])
    })
}

fn relayout() -> impl Strategy<Value = Case> {
    let dtype = prop::sample::select(DType::ALL.to_vec());
    (open_shape(1..=4), dtype).prop_map(|((d, value), dtype)| {
        let target = Attr::Layout(relayout_ir::layout::Layout::row_major(d.len()));
        Case::new("layout_transform", vec![d], attrs([("layout", target)]))
            .bind(&[("n", value)])
            .all_of(dtype)
    })
}

macro_rules! agreement {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {
            $(
                #[test]
                fn $name(case in placed($strategy)) {
                    program_agrees(&case)?;
                }
            )*
        }
    };
}

agreement! {
    unary_programs: unary();
    unary_programs_with_attributes: unary_with_attributes();
    integer_unary_programs: integer_unary();
    binary_programs: binary();
    power_and_logic_programs: power_and_logic();
    cast_programs: cast();
    where_programs: choose();
    matmul_programs: matmul();
    conv2d_programs: conv2d();
    pool_programs: pool();
    reduction_programs: reduction();
    axis_programs: along_axis();
    normalisation_programs: normalisation();
    reshape_programs: reshape();
    reordering_programs: reordering();
    piece_programs: pieces();
    look_up_programs: look_up();
    creation_programs: creation();
    layout_transform_programs: relayout();
}

/// Every operator is in one of the strategies above, but `split`, which has several results and no program.
#[test]
fn every_operator_is_covered() {
    let strategies = include_str!("ops_legalise.rs");
    let is_named = |name: &str| strategies.contains(&format!("\"{name}\""));
    let missing: Vec<&str> = op::all()
        .iter()
        .map(|o| o.name())
        .filter(|n| !is_named(n))
        .collect();
    assert_eq!(missing.join(" "), concat!("spl", "it"));
}
