//! The tensor-program interpreter against hand-computed results, and its refusals.

use relayout_ir::annotation::DType;
use relayout_ir::index::Arena;
use relayout_ir::interpret::{InterpretError, pack, pack_zero_padded, run_program, unpack};
use relayout_ir::layout::{Layout, Split};
use relayout_ir::program::{
    Access, BinaryOp, Buffer, BufferId, BufferRole, Combiner, Loop, LoopKind, Scalar, Stage, StageBody,
    TensorProgram, UnaryOp,
};
use relayout_ir::sym::{SymExpr, SymVar};
use relayout_ir::tensor::{Tensor, TensorData};

pub fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor {
        shape: shape.to_vec(),
        dtype: DType::F32,
        data: TensorData::Float(values.to_vec()),
    }
}

pub fn ints(shape: &[usize], dtype: DType, values: &[i64]) -> Tensor {
    Tensor {
        shape: shape.to_vec(),
        dtype,
        data: TensorData::Int(values.to_vec()),
    }
}

fn v(name: &str) -> SymExpr {
    SymExpr::named(name)
}

fn c(value: i64) -> SymExpr {
    SymExpr::constant(value)
}

fn spatial(name: &str, extent: impl Into<SymExpr>) -> Loop {
    Loop {
        var: SymVar::new(name),
        extent: extent.into(),
        kind: LoopKind::Spatial,
    }
}

fn reduce(name: &str, extent: impl Into<SymExpr>) -> Loop {
    Loop {
        var: SymVar::new(name),
        extent: extent.into(),
        kind: LoopKind::Reduce,
    }
}

fn load(buffer: BufferId, index: &[SymExpr]) -> Scalar {
    Scalar::Load(access(buffer, index))
}

fn access(buffer: BufferId, index: &[SymExpr]) -> Access {
    Access {
        buffer,
        index: index.to_vec(),
    }
}

fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    Scalar::Binary(op, Box::new(a), Box::new(b))
}

/// A program with the buffers `(name, shape, dtype, role)` and no stages.
fn program(
    syms: &[&str],
    buffers: &[(&str, &[SymExpr], DType, BufferRole)],
) -> (TensorProgram, Vec<BufferId>) {
    let mut arena = Arena::new();
    let ids = buffers
        .iter()
        .map(|(name, shape, dtype, role)| {
            arena.push(Buffer {
                name: (*name).to_owned(),
                shape: shape.to_vec(),
                dtype: *dtype,
                role: *role,
            })
        })
        .collect();
    let sym_params = syms.iter().map(SymVar::new).collect();
    (
        TensorProgram {
            name: "t".to_owned(),
            sym_params,
            buffers: arena,
            stages: vec![],
            kind: None,
        },
        ids,
    )
}

/// c[i, j] = relu(Σ_k a[i, k] · b[k, j]) for symbolic n.
fn matmul_relu() -> TensorProgram {
    let (mut p, b) = program(
        &["n"],
        &[
            ("a", &[v("n"), c(3)], DType::F32, BufferRole::Input),
            ("b", &[c(3), c(2)], DType::F32, BufferRole::Input),
            ("c", &[v("n"), c(2)], DType::F32, BufferRole::Output),
        ],
    );
    p.stages.push(Stage {
        loops: vec![spatial("i", v("n")), spatial("j", 2i64), reduce("k", 3i64)],
        output: b[2],
        index: vec![v("i"), v("j")],
        body: StageBody::Contract {
            a: access(b[0], &[v("i"), v("k")]),
            b: access(b[1], &[v("k"), v("j")]),
            epilogue: binary(BinaryOp::Max, Scalar::Reduced, Scalar::Const(0.0, DType::F32)),
        },
    });
    p
}

#[test]
fn contraction_with_epilogue() {
    let a = floats(&[2, 3], &[1., 2., 3., -1., -2., -3.]);
    let b = floats(&[3, 2], &[1., 0., 0., 1., 1., 1.]);
    let out = run_program(&matmul_relu(), &[a, b], &[2]);
    assert_eq!(out, Ok(floats(&[2, 2], &[4., 5., 0., 0.])));
}

#[test]
fn empty_dimension_gives_an_empty_result() {
    let out = run_program(
        &matmul_relu(),
        &[floats(&[0, 3], &[]), floats(&[3, 2], &[0.; 6])],
        &[0],
    );
    assert_eq!(out, Ok(floats(&[0, 2], &[])));
}

#[test]
fn padded_convolution_guards_its_loads() {
    // A one-dimensional "same" maximum over a window of three.
    let (mut p, b) = program(
        &["n"],
        &[
            ("x", &[v("n")], DType::F32, BufferRole::Input),
            ("y", &[v("n")], DType::F32, BufferRole::Output),
        ],
    );
    let position = v("i") + v("k") - c(1);
    let inside = binary(
        BinaryOp::And,
        binary(
            BinaryOp::LessEqual,
            Scalar::Index(c(0)),
            Scalar::Index(position.clone()),
        ),
        binary(
            BinaryOp::Less,
            Scalar::Index(position.clone()),
            Scalar::Index(v("n")),
        ),
    );
    let guarded = Scalar::Select(
        Box::new(inside),
        Box::new(load(b[0], std::slice::from_ref(&position))),
        Box::new(Scalar::Const(f64::NEG_INFINITY, DType::F32)),
    );
    let body = |value| StageBody::Reduce {
        combiner: Combiner::Max,
        value,
        epilogue: Scalar::Reduced,
    };
    p.stages.push(Stage {
        loops: vec![spatial("i", v("n")), reduce("k", 3i64)],
        output: b[1],
        index: vec![v("i")],
        body: body(guarded),
    });
    let x = floats(&[4], &[1., 5., 2., 3.]);
    assert_eq!(
        run_program(&p, std::slice::from_ref(&x), &[4]),
        Ok(floats(&[4], &[5., 5., 5., 3.]))
    );
    // Without the guard the first load is refused.
    p.stages[0].body = body(load(b[0], &[position]));
    let error = run_program(&p, &[x], &[4]).map_err(|e| e.to_string());
    assert_eq!(
        error,
        Err("program `t`, stage 0: index -1 in dimension 0 of buffer `x`, whose extent is 4".to_owned())
    );
}

#[test]
fn gather_counts_from_the_end_and_clamps() {
    let (mut p, b) = program(
        &[],
        &[
            ("table", &[c(3)], DType::F32, BufferRole::Input),
            ("ids", &[c(5)], DType::I64, BufferRole::Input),
            ("out", &[c(5)], DType::F32, BufferRole::Output),
        ],
    );
    p.stages.push(Stage {
        loops: vec![spatial("i", 5i64)],
        output: b[2],
        index: vec![v("i")],
        body: StageBody::Map(Scalar::Gather {
            buffer: b[0],
            index: vec![load(b[1], &[v("i")])],
        }),
    });
    let table = floats(&[3], &[10., 20., 30.]);
    let ids = ints(&[5], DType::I64, &[0, -1, 7, -9, i64::MIN]);
    assert_eq!(
        run_program(&p, &[table, ids], &[]),
        Ok(floats(&[5], &[10., 30., 30., 10., 10.]))
    );
}

#[test]
fn workspaces_carry_values_between_stages_and_start_poisoned() {
    let (mut p, b) = program(
        &[],
        &[
            ("x", &[c(2)], DType::F32, BufferRole::Input),
            ("y", &[c(2)], DType::F32, BufferRole::Output),
            ("w", &[c(2)], DType::F32, BufferRole::Workspace),
        ],
    );
    let copy = |from, to, extent: i64, op| Stage {
        loops: vec![spatial("i", extent)],
        output: to,
        index: vec![v("i")],
        body: StageBody::Map(Scalar::Unary(op, Box::new(load(from, &[v("i")])))),
    };
    p.stages = vec![
        copy(b[0], b[2], 1, UnaryOp::Neg),
        copy(b[2], b[1], 2, UnaryOp::Abs),
    ];
    let out = run_program(&p, &[floats(&[2], &[3., 4.])], &[]).expect("runs");
    let TensorData::Float(values) = out.data else {
        panic!("float output")
    };
    assert_eq!(values[0], 3.0);
    assert!(
        values[1].is_nan(),
        "an element read before it is written is poison"
    );
}

#[test]
fn sixteen_bit_arithmetic_rounds_and_integers_wrap() {
    let (mut p, b) = program(
        &[],
        &[
            ("x", &[c(1)], DType::I8, BufferRole::Input),
            ("y", &[c(1)], DType::I8, BufferRole::Output),
        ],
    );
    p.stages.push(Stage {
        loops: vec![spatial("i", 1i64)],
        output: b[1],
        index: vec![v("i")],
        body: StageBody::Map(binary(
            BinaryOp::Add,
            load(b[0], &[v("i")]),
            Scalar::Const(100.0, DType::I8),
        )),
    });
    assert_eq!(
        run_program(&p, &[ints(&[1], DType::I8, &[100])], &[]),
        Ok(ints(&[1], DType::I8, &[-56]))
    );
    let half = |x: f32| Tensor {
        shape: vec![1],
        dtype: DType::F16,
        data: TensorData::Float(vec![x]),
    };
    let (mut p, b) = program(
        &[],
        &[
            ("x", &[c(1)], DType::F16, BufferRole::Input),
            ("y", &[c(1)], DType::F16, BufferRole::Output),
        ],
    );
    p.stages.push(Stage {
        loops: vec![spatial("i", 1i64)],
        output: b[1],
        index: vec![v("i")],
        body: StageBody::Map(binary(
            BinaryOp::Add,
            load(b[0], &[v("i")]),
            Scalar::Const(1.0, DType::F16),
        )),
    });
    assert_eq!(run_program(&p, &[half(2048.0)], &[]), Ok(half(2048.0)));
}

#[test]
fn refusals_name_the_place() {
    let mut p = matmul_relu();
    let a = || floats(&[2, 3], &[0.; 6]);
    let b = || floats(&[3, 2], &[0.; 6]);
    let message = |r: Result<Tensor, InterpretError>| r.map(|_| ()).map_err(|e| e.to_string());
    let refused = |text: &str| Err(text.to_owned());
    assert_eq!(
        message(run_program(&p, &[a()], &[2])),
        refused("t: takes 2 input tensors, found 1")
    );
    assert_eq!(
        message(run_program(&p, &[a(), b()], &[])),
        refused("t: takes 1 symbolic arguments, found 0")
    );
    assert_eq!(
        message(run_program(&p, &[a(), a()], &[2])),
        refused("program `t`, buffer `b`: expected f32 [3, 2], found f32 [2, 3]")
    );
    assert_eq!(
        message(run_program(&p, &[a(), b()], &[-1])),
        refused("program `t`, buffer `a`: `n` has no value: an extent of -1")
    );
    p.stages[0].index[1] = v("q");
    assert_eq!(
        message(run_program(&p, &[a(), b()], &[2])),
        refused(
            "program `t`, stage 0: `q` has no value: `q` is neither a loop variable nor a symbolic parameter"
        )
    );
    p.stages[0].body = StageBody::Map(Scalar::Reduced);
    assert_eq!(
        message(run_program(&p, &[a(), b()], &[2])),
        refused("program `t`, stage 0: `reduced` outside the epilogue of a reduction or contraction")
    );
}

#[test]
fn packing_follows_the_layout_and_unpacks_to_the_same() {
    let split = |axis, factor| Split { axis, factor };
    let x = floats(&[1, 5, 2, 3], &(0..30u8).map(f32::from).collect::<Vec<_>>());
    let layouts = [
        Layout::row_major(4),
        Layout::permuted(&[0, 2, 3, 1]),
        Layout::blocked(4, 1, 4),
        Layout::new(
            4,
            vec![
                split(1, None),
                split(0, None),
                split(1, Some(2)),
                split(2, None),
                split(3, None),
                split(1, Some(2)),
            ],
        )
        .expect("valid"),
    ];
    for layout in layouts {
        let packed = pack(&x, &layout).expect("packs");
        assert_eq!(unpack(&packed, &x.shape, &layout).as_ref(), Ok(&x), "{layout}");
    }
    let blocked = pack_zero_padded(&x, &Layout::blocked(4, 1, 4)).expect("packs");
    assert_eq!(blocked.shape, [1, 2, 2, 3, 4]);
    let TensorData::Float(values) = blocked.data else {
        panic!("float")
    };
    assert_eq!(values[..4], [0., 6., 12., 18.]);
    assert_eq!(values[24..28], [24., 0., 0., 0.]);
}
