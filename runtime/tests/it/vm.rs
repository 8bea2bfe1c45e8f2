//! The virtual machine: signatures, guards, storage reuse, calls, faults.

use crate::common::*;
use proptest::prelude::*;
use relayout_runtime::module::*;
use relayout_runtime::*;
use std::collections::BTreeMap;

/// A module without kernels.
fn plain(functions: Vec<Function>) -> Module {
    Module {
        name: "plain".into(),
        entries: vec![entry("main", 0)],
        functions,
        ..Module::default()
    }
}

fn run(module: Module, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, RunError> {
    Session::new(module, &options(1)).unwrap().run(None, inputs)
}

fn fault(error: RunError) -> VmFault {
    match error {
        RunError::Vm(e) => *e.fault,
        other => panic!("{other}"),
    }
}

#[test]
fn a_symbolic_model_runs_at_any_size() {
    let Some(module) = add_relu_module() else { return };
    let mut session = Session::new(module, &options(2)).unwrap();
    for n in [1, 3, 1000, 17, 1] {
        let (x, y) = (ramp(&[n, 4], 1.0), ramp(&[n, 4], -0.3));
        let out = session.run(Some("main"), &[x.clone(), y.clone()]).unwrap();
        assert_eq!(out[0].shape, [n, 4]);
        let (x, y) = (x.to_f32().unwrap(), y.to_f32().unwrap());
        let expected: Vec<f32> = x.iter().zip(&y).map(|(a, b)| (a + b).max(0.0)).collect();
        assert_eq!(out[0].to_f32().unwrap(), expected);
    }
}

#[test]
fn killed_storage_is_used_again_within_and_between_runs() {
    let Some(mut module) = add_relu_module() else {
        return;
    };
    // A third storage after the first is killed takes its place.
    let code = &mut module.functions[0].code;
    code.truncate(code.len() - 1);
    let elements = mul(s(0), c(4));
    code.extend([
        storage(6, mul(elements.clone(), c(4))),
        tensor(7, 6, vec![s(0), c(4)]),
        call(ADD, &[5, 5, 7], vec![elements]),
        kill(&[5, 4]),
        ret(7),
    ]);
    module.functions[0].registers = 8;
    let mut session = Session::new(module, &options(1)).unwrap();
    let inputs = [ramp(&[256, 4], 1.0), ramp(&[256, 4], 1.0)];
    let tensor_bytes = 256 * 4 * 4;
    let mut prepared = session.prepare(None, &inputs).unwrap();
    let before = prepared.memory();
    assert_eq!(before.live, 2 * tensor_bytes);
    prepared.run().unwrap();
    let first = prepared.memory();
    assert_eq!(
        first.allocations - before.allocations,
        2,
        "three storages, two at a time"
    );
    assert_eq!(first.reuses - before.reuses, 1);
    assert_eq!(first.peak, 4 * tensor_bytes);
    assert_eq!(first.live, 3 * tensor_bytes, "inputs and the result");
    let expected: Vec<f32> = ramp(&[256, 4], 1.0)
        .to_f32()
        .unwrap()
        .iter()
        .map(|v| 2.0 * (2.0 * v).max(0.0))
        .collect();
    for _ in 0..10 {
        prepared.run().unwrap();
        assert_eq!(prepared.outputs().unwrap()[0].to_f32().unwrap(), expected);
    }
    assert_eq!(
        prepared.memory().allocations,
        first.allocations,
        "later runs allocate nothing"
    );
    drop(prepared);
    assert_eq!(session.memory().live, 0);
    session.trim();
    assert_eq!(session.memory().reserved, 0);
    session.run(None, &inputs).unwrap();
}

#[test]
fn results_survive_later_runs() {
    let Some(module) = add_relu_module() else { return };
    let mut session = Session::new(module, &options(1)).unwrap();
    let a = session
        .run(None, &[ramp(&[5, 4], 1.0), ramp(&[5, 4], 1.0)])
        .unwrap();
    let b = session
        .run(None, &[ramp(&[5, 4], -1.0), ramp(&[5, 4], -1.0)])
        .unwrap();
    let again = session
        .run(None, &[ramp(&[5, 4], 1.0), ramp(&[5, 4], 1.0)])
        .unwrap();
    assert_eq!(a, again);
    assert_ne!(a, b);
}

#[test]
fn inputs_that_violate_the_signature_are_named() {
    let Some(module) = add_relu_module() else { return };
    let mut session = Session::new(module, &options(1)).unwrap();
    let ok = ramp(&[3, 4], 1.0);
    let mut message = |inputs: &[HostTensor]| session.run(None, inputs).unwrap_err().to_string();
    assert_eq!(
        message(std::slice::from_ref(&ok)),
        "entry `main` takes 2 inputs, 1 given"
    );
    assert_eq!(
        message(&[ok.clone(), ramp(&[2, 4], 1.0)]),
        "entry `main`, input `y`: dimension 0 is 2 (shape [2, 4]), expected n = 3"
    );
    assert_eq!(
        message(&[ramp(&[3, 5], 1.0), ok.clone()]),
        "entry `main`, input `x`: dimension 1 is 5 (shape [3, 5]), expected 4 = 4"
    );
    assert_eq!(
        message(&[ramp(&[12], 1.0), ok.clone()]),
        "entry `main`, input `x`: rank 1 (shape [12]), expected rank 2"
    );
    assert_eq!(
        message(&[HostTensor::from_i64(&[1, 4], &[0; 4]), ok.clone()]),
        "entry `main`, input `x`: element type i64, expected f32"
    );
    assert_eq!(
        message(&[ramp(&[0, 4], 1.0), ramp(&[0, 4], 1.0)]),
        "entry `main`, input `x`: `n` is 0, outside its declared range 1..=100000"
    );
    let mut short = ok.clone();
    short.bytes.pop();
    assert_eq!(
        message(&[short, ok.clone()]),
        "a f32 tensor of shape [3, 4] with 47 bytes"
    );
    assert_eq!(
        session
            .run(Some("mian"), &[ok.clone(), ok.clone()])
            .unwrap_err()
            .to_string(),
        "no entry `mian`; did you mean `main`?"
    );
    // The session still works.
    session.run(None, &[ok.clone(), ok]).unwrap();
}

#[test]
fn results_that_violate_the_signature_are_refused() {
    // Promises [n + 1], returns its argument.
    let module = plain(vec![function(
        "liar",
        vec![param("x", vec![bind(0)])],
        vec![is(add(s(0), c(1)))],
        vec![dim_slot("n")],
        1,
        vec![ret(0)],
    )]);
    let error = run(module, &[ramp(&[3], 1.0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "function `liar`, instruction 0: result 0: dimension 0 is 3 (shape [3]), expected (n + 1) = 4"
    );
}

#[test]
fn arguments_and_results_of_inner_calls_are_checked() {
    let inner = |result: Dim| {
        function(
            "inner",
            vec![
                param("a", vec![bind(0), Dim::Any]),
                param("b", vec![is(s(0)), Dim::Any]),
            ],
            vec![result, Dim::Any],
            vec![dim_slot("k")],
            2,
            vec![ret(1)],
        )
    };
    let outer = function(
        "outer",
        vec![
            param("x", vec![Dim::Any, Dim::Any]),
            param("y", vec![Dim::Any, Dim::Any]),
        ],
        vec![Dim::Any, Dim::Any],
        vec![],
        3,
        vec![
            Instr::CallFunction {
                function: FunctionId(1),
                args: vec![Reg(0), Reg(1)],
                dst: Reg(2),
            },
            ret(2),
        ],
    );
    let good = plain(vec![outer.clone(), inner(is(s(0)))]);
    let (x, y) = (ramp(&[2, 3], 1.0), ramp(&[2, 5], 2.0));
    assert_eq!(run(good.clone(), &[x.clone(), y.clone()]).unwrap()[0], y);
    let argument = run(good, &[x.clone(), ramp(&[3, 5], 1.0)]).unwrap_err();
    assert_eq!(
        argument.to_string(),
        "function `inner`: argument `b`: dimension 0 is 3 (shape [3, 5]), expected k = 2"
    );
    let bad = plain(vec![outer, inner(is(c(7)))]);
    let result = fault(run(bad, &[x, y]).unwrap_err());
    assert!(matches!(
        result,
        VmFault::Result {
            index: 0,
            mismatch: Mismatch::Dim {
                found: 2,
                value: 7,
                ..
            }
        }
    ));
}

#[test]
fn guards_choose_among_entries() {
    let constant = |value: f32| Constant {
        name: format!("c{value}"),
        shape: vec![1],
        dtype: DType::F32,
        source: Source::Inline(value.to_le_bytes().to_vec().into()),
        pack: vec![],
    };
    let returning = |name: &str, index: u32| {
        let load = Instr::Constant {
            dst: Reg(1),
            constant: ConstId(index),
        };
        let params = vec![param("x", vec![bind(0)])];
        function(
            name,
            params,
            vec![is(c(1))],
            vec![dim_slot("n")],
            2,
            vec![load, ret(1)],
        )
    };
    let guarded = |name: &str, guard: Option<Expr>, function: u32| Entry {
        guard,
        ..entry(name, function)
    };
    let small = Expr::binary(ExprOp::LessEqual, s(0), c(2));
    let even = Expr::binary(ExprOp::Equal, Expr::binary(ExprOp::Mod, s(0), c(2)), c(0));
    let mut module = plain(vec![returning("a", 0), returning("b", 1), returning("c", 2)]);
    module.constants = vec![constant(0.0), constant(1.0), constant(2.0)];
    module.entries = vec![
        guarded("main", Some(small), 0),
        guarded("main", Some(even), 1),
        guarded("other", None, 2),
    ];
    let mut session = Session::new(module, &options(1)).unwrap();
    let mut chosen = |name, n| {
        session
            .run(name, &[ramp(&[n], 1.0)])
            .map(|o| o[0].to_f32().unwrap()[0])
    };
    assert_eq!(chosen(None, 1).unwrap(), 0.0);
    assert_eq!(chosen(None, 2).unwrap(), 0.0);
    assert_eq!(chosen(Some("main"), 4).unwrap(), 1.0);
    assert_eq!(chosen(Some("other"), 3).unwrap(), 2.0);
    assert_eq!(
        chosen(None, 3).unwrap_err().to_string(),
        "no guard of entry `main` holds; the last was (($0 % 2) == 0)"
    );
}

#[test]
fn matches_views_tuples_and_computed_slots() {
    // x: [?, ?] → match [n, 2·m]-ish → view [n·k] → (view, x)
    let f = Function {
        result: ValueType::Tuple(vec![f32_type(vec![is(s(2))]), f32_type(vec![is(s(0)), is(s(1))])]),
        result_names: vec!["flat".into(), "same".into()],
        ..function(
            "f",
            vec![param("x", vec![Dim::Any, Dim::Any])],
            vec![],
            vec![dim_slot("n"), dim_slot("k"), slot("n*k", 0, Some(12))],
            5,
            vec![
                Instr::MatchShape {
                    src: Reg(0),
                    dtype: DType::F32,
                    dims: vec![bind(0), bind(1)],
                },
                Instr::Eval {
                    dst: Slot(2),
                    value: mul(s(0), s(1)),
                },
                Instr::View {
                    dst: Reg(1),
                    src: Reg(0),
                    shape: vec![s(2)],
                },
                Instr::MakeTuple {
                    dst: Reg(2),
                    items: vec![Reg(0), Reg(1)],
                },
                kill(&[0, 1]),
                Instr::GetTuple {
                    dst: Reg(3),
                    src: Reg(2),
                    index: 1,
                },
                Instr::GetTuple {
                    dst: Reg(4),
                    src: Reg(2),
                    index: 0,
                },
                kill(&[2]),
                Instr::MakeTuple {
                    dst: Reg(2),
                    items: vec![Reg(3), Reg(4)],
                },
                ret(2),
            ],
        )
    };
    let module = plain(vec![f]);
    let x = ramp(&[3, 4], 1.0);
    let out = run(module.clone(), std::slice::from_ref(&x)).unwrap();
    assert_eq!(out[0].shape, [12]);
    assert_eq!(out[0].bytes, x.bytes);
    assert_eq!(out[1], x);
    let range = fault(run(module, &[ramp(&[4, 4], 1.0)]).unwrap_err());
    assert!(matches!(range, VmFault::Slot(Mismatch::Range { value: 16, .. })));
}

#[test]
fn a_failed_match_is_reported() {
    let f = function(
        "f",
        vec![param("x", vec![Dim::Any, Dim::Any])],
        vec![Dim::Any, Dim::Any],
        vec![dim_slot("m")],
        1,
        vec![
            Instr::MatchShape {
                src: Reg(0),
                dtype: DType::F32,
                dims: vec![is(mul(s(0), c(2))), bind(0)],
            },
            ret(0),
        ],
    );
    let module = plain(vec![f]);
    run(module.clone(), &[ramp(&[6, 3], 1.0)]).unwrap();
    let error = run(module, &[ramp(&[5, 3], 1.0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "function `f`, instruction 0: match of %0: dimension 0 is 5 (shape [5, 3]), expected (m * 2) = 6"
    );
}

#[test]
fn sizes_that_make_no_sense_are_faults() {
    let with = |code: Vec<Instr>, registers| {
        let mut code = code;
        code.push(ret(0));
        let f = function(
            "f",
            vec![param("x", vec![bind(0)])],
            vec![Dim::Any],
            vec![slot("n", 0, None)],
            registers,
            code,
        );
        run(plain(vec![f]), &[ramp(&[3], 1.0)])
            .map_err(fault)
            .unwrap_err()
    };
    let minus = Expr::binary(ExprOp::Sub, s(0), c(10));
    assert!(matches!(
        with(vec![storage(1, minus.clone())], 2),
        VmFault::Size { .. }
    ));
    let by_zero = Expr::binary(ExprOp::FloorDiv, s(0), c(0));
    assert!(matches!(
        with(vec![storage(1, by_zero)], 2),
        VmFault::Expr {
            source: ExprError::DivideByZero { .. },
            ..
        }
    ));
    let huge = mul(c(i64::MAX), s(0));
    assert!(matches!(
        with(vec![storage(1, huge)], 2),
        VmFault::Expr {
            source: ExprError::Overflow { .. },
            ..
        }
    ));
    assert!(matches!(
        with(vec![storage(1, c(i64::MAX))], 2),
        VmFault::Device(DeviceError::Memory { .. })
    ));
    assert!(matches!(
        with(vec![storage(1, c(16)), tensor(2, 1, vec![minus])], 3),
        VmFault::Size { .. }
    ));
    assert!(matches!(
        with(vec![storage(1, c(16)), tensor(2, 1, vec![c(5)])], 3),
        VmFault::Placement {
            bytes: 20,
            size: 16,
            ..
        }
    ));
    let offset = |offset: i64| Instr::AllocTensor {
        dst: Reg(2),
        storage: Reg(1),
        offset: c(offset),
        shape: vec![c(1)],
        dtype: DType::F32,
    };
    for bad in [-64, 4, 128, i64::MAX] {
        assert!(matches!(
            with(vec![storage(1, c(128)), offset(bad)], 3),
            VmFault::Placement { .. }
        ));
    }
    let view = Instr::View {
        dst: Reg(1),
        src: Reg(0),
        shape: vec![c(2), c(2)],
    };
    assert!(matches!(with(vec![view], 2), VmFault::View { .. }));
}

#[test]
fn kernel_arguments_are_checked_before_the_call() {
    let Some(mut module) = add_relu_module() else {
        return;
    };
    // Claims one element more than there is.
    module.functions[0].code[2] = call(ADD, &[0, 1, 3], vec![add(mul(s(0), c(4)), c(1))]);
    let error = run(module, &[ramp(&[3, 4], 1.0), ramp(&[3, 4], 1.0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "function `add_relu`, instruction 2: argument 0 of kernel `add` has 48 bytes (shape [3, 4]); the kernel needs 52 bytes of f32"
    );
}

#[test]
fn the_memory_limit_holds_and_idle_memory_makes_room() {
    let Some(module) = add_relu_module() else { return };
    let limited = Options {
        threads: 1,
        memory_limit: Some(1 << 20),
        directory: None,
    };
    let mut session = Session::new(module, &limited).unwrap();
    // Two inputs and two storages of 200 kB each fit; of 400 kB they don't.
    let fits = [ramp(&[12_500, 4], 1.0), ramp(&[12_500, 4], 1.0)];
    session.run(None, &fits).unwrap();
    let large = [ramp(&[25_000, 4], 1.0), ramp(&[25_000, 4], 1.0)];
    let error = session.run(None, &large).unwrap_err();
    assert!(error.to_string().contains("limit 1048576"), "{error}");
    // What the large run left idle has no suitable size: it is given back.
    session.run(None, &fits).unwrap();
    assert!(session.memory().reserved <= 1 << 20);
}

#[test]
fn kernel_calls_are_timed_on_request() {
    let Some(module) = add_relu_module() else { return };
    let mut session = Session::new(module, &options(1)).unwrap();
    let mut prepared = session
        .prepare(None, &[ramp(&[300, 4], 1.0), ramp(&[300, 4], 1.0)])
        .unwrap();
    let mut samples: Vec<Sample> = Vec::new();
    prepared.run_profiled(&mut samples).unwrap();
    prepared.run().unwrap();
    let seen: Vec<_> = samples
        .iter()
        .map(|e| (e.function.as_str(), e.instruction, e.kind, e.name.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("add_relu", 2, EventKind::Kernel, "add"),
            ("add_relu", 5, EventKind::Kernel, "relu")
        ]
    );
    assert!(samples.iter().all(|e| e.nanoseconds < 1_000_000_000));
}

/// The VM's own time per run of the eight-instruction model, for a look.
#[test]
fn overhead() {
    if std::env::var("RELAYOUT_SLOW").as_deref() != Ok("1") {
        println!("skipped: set RELAYOUT_SLOW=1 to measure");
        return;
    }
    let Some(module) = add_relu_module() else { return };
    for threads in [1, 2] {
        let mut session = Session::new(module.clone(), &options(threads)).unwrap();
        for n in [1, 64] {
            let inputs = [ramp(&[n, 4], 1.0), ramp(&[n, 4], 1.0)];
            let mut prepared = session.prepare(None, &inputs).unwrap();
            let runs = 20_000;
            let best = (0..5)
                .map(|_| {
                    let start = std::time::Instant::now();
                    (0..runs).for_each(|_| prepared.run().unwrap());
                    start.elapsed().as_nanos() / runs
                })
                .min();
            println!("{threads} threads, n = {n}: {best:?} ns per run of 8 instructions");
        }
    }
}

#[test]
fn library_routines_are_found_when_the_module_is_loaded() {
    let call = |routine: &str| {
        let f = function(
            "f",
            vec![param("x", vec![Dim::Any])],
            vec![Dim::Any],
            vec![],
            1,
            vec![
                Instr::CallLibrary {
                    routine: routine.into(),
                    attrs: BTreeMap::new(),
                    args: vec![],
                    outs: vec![Reg(0)],
                    syms: vec![],
                },
                ret(0),
            ],
        );
        plain(vec![f])
    };
    let mut library = Library::new();
    library.register(
        "test.fill",
        std::sync::Arc::new(|call| {
            call.arity(0, 1)?;
            call.outs[0].as_f32_mut("out")?.fill(4.0);
            Ok(())
        }),
    );
    let device = || Box::new(CpuDevice::with_library(1, library.clone()).unwrap());
    let mut session = Session::with_device(call("test.fill"), device(), &options(1)).unwrap();
    let out = session.run(None, &[ramp(&[3], 1.0)]).unwrap();
    assert_eq!(out[0].to_f32().unwrap(), [4.0; 3]);
    let error = Session::with_device(call("test.fil"), device(), &options(1))
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no library routine `test.fil`; did you mean `test.fill`?"
    );
}

#[test]
fn library_outputs_may_not_overlap() {
    let mut library = Library::new();
    library.register("test.nothing", std::sync::Arc::new(|_| Ok(())));
    let device = Box::new(CpuDevice::with_library(1, library).unwrap());
    let mut session = Session::with_device(plain_identity(), device, &options(1)).unwrap();
    let x = session.upload(&ramp(&[4], 1.0)).unwrap();
    let y = session.upload(&ramp(&[4], 1.0)).unwrap();
    let attrs = BTreeMap::new();
    session
        .run_library("test.nothing", &attrs, &[&x, &x], &[&y], &[])
        .unwrap();
    for (args, outs) in [(vec![&y, &x], vec![&x]), (vec![&y], vec![&x, &x])] {
        let error = session
            .run_library("test.nothing", &attrs, &args, &outs, &[])
            .unwrap_err();
        assert!(
            matches!(error, RunError::Device(DeviceError::Overlap { .. })),
            "{error}"
        );
    }
}

fn plain_identity() -> Module {
    let params = vec![param("x", vec![Dim::Any])];
    plain(vec![function(
        "f",
        params,
        vec![Dim::Any],
        vec![],
        1,
        vec![ret(0)],
    )])
}

#[test]
fn a_module_without_entries_says_so() {
    let mut module = plain_identity();
    module.entries.clear();
    assert!(matches!(run(module, &[]), Err(RunError::Empty)));
}

proptest! {
    /// Bytecode against a direct evaluation in 128 bits.
    #[test]
    fn expressions_agree_with_wide_arithmetic(
        a in -1000i64..1000, b in -1000i64..1000, c in prop_oneof![Just(i64::MAX), Just(i64::MIN), any::<i64>(), -9i64..9],
        ops in prop::collection::vec(0usize..11, 1..6),
    ) {
        let table = [
            ExprOp::Add, ExprOp::Sub, ExprOp::Mul, ExprOp::FloorDiv, ExprOp::Mod, ExprOp::Min, ExprOp::Max,
            ExprOp::Less, ExprOp::LessEqual, ExprOp::Equal, ExprOp::NotEqual,
        ];
        let slots = [a, b, c];
        let mut expr = Expr::slot(Slot(0));
        let mut expected: Option<i128> = Some(i128::from(a));
        for (i, op) in ops.iter().enumerate() {
            let which = (i + 1) % 3;
            let right = i128::from(slots[which]);
            expr = Expr::binary(table[*op], expr, Expr::slot(Slot(which as u32)));
            expected = expected.and_then(|left| {
                let floor = |l: i128, r: i128| l.div_euclid(r) - i128::from(r < 0 && l.rem_euclid(r) != 0);
                let value = match *op {
                    0 => left + right,
                    1 => left - right,
                    2 => left * right,
                    3 if right != 0 => floor(left, right),
                    4 if right != 0 => left - right * floor(left, right),
                    5 => left.min(right),
                    6 => left.max(right),
                    7 => i128::from(left < right),
                    8 => i128::from(left <= right),
                    9 => i128::from(left == right),
                    10 => i128::from(left != right),
                    _ => return None,
                };
                i64::try_from(value).ok().map(i128::from)
            });
        }
        prop_assert!(expr.validate(3).is_ok());
        let found = expr.eval(&slots, &mut EvalStack::new());
        prop_assert_eq!(found.as_ref().ok().copied().map(i128::from), expected, "{} = {:?}", expr, found);
    }
}
