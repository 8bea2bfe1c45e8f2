//! What validation refuses: one fault at a time in a small module.

use crate::common::*;
use relayout_runtime::module::*;
use relayout_runtime::*;

/// `x + x` through a kernel, with a constant and an inner function; needs no C compiler.
pub fn small_module() -> Module {
    let main = function(
        "main",
        vec![param("x", vec![bind(0)])],
        vec![is(s(0))],
        vec![dim_slot("n"), slot("bytes", 0, None)],
        6,
        vec![
            Instr::Eval {
                dst: Slot(1),
                value: mul(s(0), c(4)),
            },
            storage(1, s(1)),
            tensor(2, 1, vec![s(0)]),
            call(0, &[0, 0, 2], vec![s(0)]),
            kill(&[0]),
            Instr::CallFunction {
                function: FunctionId(1),
                args: vec![Reg(2)],
                dst: Reg(3),
            },
            Instr::Constant {
                dst: Reg(4),
                constant: ConstId(0),
            },
            Instr::MakeTuple {
                dst: Reg(5),
                items: vec![Reg(3), Reg(4)],
            },
            Instr::GetTuple {
                dst: Reg(0),
                src: Reg(5),
                index: 0,
            },
            ret(0),
        ],
    );
    let inner = function(
        "inner",
        vec![param("y", vec![bind(0)])],
        vec![is(s(0))],
        vec![dim_slot("m")],
        1,
        vec![
            Instr::MatchShape {
                src: Reg(0),
                dtype: DType::F32,
                dims: vec![is(s(0))],
            },
            ret(0),
        ],
    );
    Module {
        name: "small".into(),
        target: Target {
            name: "cpu".into(),
            isa: Isa::Avx2,
            toolchain: "none".into(),
        },
        entries: vec![Entry {
            guard: Some(Expr::binary(ExprOp::Less, s(0), c(100))),
            ..entry("main", 0)
        }],
        functions: vec![main, inner],
        kernels: vec![kernels().remove(0)],
        native: vec![NativeCode {
            isa: Isa::Avx2,
            bytes: vec![7; 100].into(),
        }],
        constants: vec![
            Constant {
                name: "w".into(),
                shape: vec![2],
                dtype: DType::F32,
                source: Source::Inline(vec![0; 8].into()),
                pack: vec![],
            },
            Constant {
                name: "v".into(),
                shape: vec![3, 4],
                dtype: DType::F32,
                source: Source::Generated(Generator {
                    seed: 3,
                    key: "v".into(),
                    distribution: Distribution::Uniform { low: 0.0, high: 1.0 },
                }),
                pack: vec![PackStep::Layout(vec![
                    Split {
                        axis: 1,
                        factor: None,
                    },
                    Split {
                        axis: 0,
                        factor: None,
                    },
                    Split {
                        axis: 1,
                        factor: Some(2),
                    },
                ])],
            },
            Constant {
                name: "u".into(),
                shape: vec![],
                dtype: DType::I64,
                source: Source::External {
                    path: "u.bin".into(),
                    blake3: [1; 32],
                },
                pack: vec![],
            },
        ],
        storage_plan: vec![PlannedStorage {
            function: FunctionId(0),
            bytes: s(1),
            tensors: vec!["sum".into()],
        }],
    }
}

/// The message of the one fault that `damage` makes.
fn message(damage: impl FnOnce(&mut Module)) -> String {
    let mut module = small_module();
    module.validate().unwrap();
    damage(&mut module);
    let error = module.validate().unwrap_err();
    assert!(
        matches!(module.to_bytes(), Err(WriteError::Invalid(e)) if e == error),
        "writing refuses it too"
    );
    error.to_string()
}

fn code(at: usize, instr: Instr) -> String {
    message(|m| m.functions[0].code[at] = instr)
}

#[test]
fn registers() {
    assert_eq!(
        code(3, call(0, &[0, 4, 2], vec![s(0)])),
        "function `main`, instruction 3: register %4 is read while it is unset"
    );
    assert_eq!(
        code(3, call(0, &[0, 99, 2], vec![s(0)])),
        "function `main`, instruction 3: register 99 of 6"
    );
    assert_eq!(
        code(2, tensor(1, 1, vec![s(0)])),
        "function `main`, instruction 2: register %1 is written while it is set; kill it first"
    );
    assert_eq!(
        code(3, call(0, &[0, 1, 2], vec![s(0)])),
        "function `main`, instruction 3: register %1 holds a storage, expected a tensor"
    );
    assert_eq!(
        code(4, kill(&[0, 0])),
        "function `main`, instruction 4: register %0 is read while it is unset"
    );
    assert_eq!(
        message(|m| m.functions[0].registers = 4_000_000_000),
        "function `main`: 4000000000 registers, but 1 parameters and 10 instructions"
    );
    assert_eq!(
        message(|m| m.functions[0].registers = 0),
        "function `main`: 0 registers, but 1 parameters and 10 instructions"
    );
}

#[test]
fn slots_and_expressions() {
    assert_eq!(
        code(
            0,
            Instr::Eval {
                dst: Slot(1),
                value: s(1)
            }
        ),
        "function `main`, instruction 0: value reads slot $1 before it is set"
    );
    assert_eq!(
        code(
            0,
            Instr::Eval {
                dst: Slot(0),
                value: c(1)
            }
        ),
        "function `main`, instruction 0: slot $0 is set a second time"
    );
    assert_eq!(
        code(
            0,
            Instr::Eval {
                dst: Slot(9),
                value: c(1)
            }
        ),
        "function `main`, instruction 0: slot 9 of 2"
    );
    assert_eq!(
        code(1, storage(1, s(7))),
        "function `main`, instruction 1: bytes: slot $7 of 2"
    );
    assert_eq!(
        code(1, storage(1, Expr::from_ops(vec![]))),
        "function `main`, instruction 1: bytes: an expression without operations"
    );
    let underflow = Expr::from_ops(vec![ExprOp::Const(1), ExprOp::Add]);
    assert_eq!(
        code(1, storage(1, underflow)),
        "function `main`, instruction 1: bytes: operation 1 pops 2 values from a stack of 1"
    );
    let leftover = Expr::from_ops(vec![ExprOp::Const(1), ExprOp::Const(1)]);
    assert_eq!(
        code(1, storage(1, leftover)),
        "function `main`, instruction 1: bytes: 2 values are left on the stack; an expression leaves one"
    );
    let deep = Expr::from_ops(vec![ExprOp::Const(1); 1000]);
    assert_eq!(
        code(1, storage(1, deep)),
        "function `main`, instruction 1: bytes: the expression needs a stack of more than 256 values"
    );
    assert_eq!(
        message(|m| m.functions[0].slots[0].high = Some(0)),
        "function `main`: slot $0 has range 1..=0"
    );
    assert_eq!(
        message(|m| m.entries[0].guard = Some(s(1))),
        "entry `main`: guard reads slot $1 before it is set"
    );
    assert_eq!(
        message(|m| m.storage_plan[0].bytes = s(2)),
        "planned storage 0: size: slot $2 of 2"
    );
}

#[test]
fn calls_and_returns() {
    assert_eq!(
        code(3, call(0, &[0, 2], vec![s(0)])),
        "function `main`, instruction 3: 2 arguments, expected 3"
    );
    assert_eq!(
        code(3, call(0, &[0, 0, 2], vec![])),
        "function `main`, instruction 3: 0 symbolic arguments, expected 1"
    );
    assert_eq!(
        code(3, call(5, &[], vec![])),
        "function `main`, instruction 3: kernel 5 of 1"
    );
    assert_eq!(
        message(|m| m.kernels[0].params[1].dtype = DType::I32),
        "function `main`, instruction 3: register %0 holds a f32 tensor of rank 1, expected a i32 tensor"
    );
    assert_eq!(
        code(3, ret(0)),
        "function `main`, instruction 3: the last instruction, and only that, returns"
    );
    assert_eq!(
        code(9, kill(&[0])),
        "function `main`, instruction 9: the last instruction, and only that, returns"
    );
    assert_eq!(
        message(|m| m.functions[1].code.clear()),
        "function `inner`: the last instruction, and only that, returns"
    );
    assert_eq!(
        message(|m| m.functions[0].code[9] = ret(5)),
        "function `main`, instruction 9: register %5 holds a tuple (f32 rank 1, f32 rank 1), expected a f32 tensor of rank 1"
    );
    assert_eq!(
        message(|m| {
            let again = Instr::CallFunction {
                function: FunctionId(0),
                args: vec![Reg(0)],
                dst: Reg(1),
            };
            m.functions[1].code.insert(0, again);
            m.functions[1].registers = 2;
        }),
        "function `main`: calls are recursive"
    );
    assert_eq!(
        message(|m| m.entries[0].function = FunctionId(2)),
        "entry `main`: function 2 of 2"
    );
    assert_eq!(
        message(|m| {
            m.functions[1].params[0].ty = ValueType::Tuple(vec![]);
            m.functions[1].code = vec![ret(0)];
            m.functions[1].result = ValueType::Tuple(vec![]);
            m.functions[0].code[5] = Instr::MakeTuple {
                dst: Reg(1),
                items: vec![],
            };
            m.functions[0].code.truncate(1);
            m.functions[0].code.push(ret(0));
            m.functions[0].registers = 2;
            m.entries[0].guard = None;
            m.entries[0].function = FunctionId(1);
        }),
        "entry `main`: parameter `y` of an entry's function is a tuple; entries take tensors"
    );
}

#[test]
fn kernels_constants_and_names() {
    assert_eq!(
        message(|m| m.kernels[0].phases[0].grain = 0),
        "kernel `add`: grain 0; at least 1"
    );
    assert_eq!(
        message(|m| m.kernels[0].phases.clear()),
        "kernel `add`: a kernel without phases"
    );
    assert_eq!(
        message(|m| m.kernels[0].phases[0].symbol = "a b".into()),
        "kernel `add`: symbol \"a b\" is not a C identifier"
    );
    assert_eq!(
        message(|m| m.kernels[0].params.swap(1, 2)),
        "kernel `add`: parameter 2 is out of order: inputs come first, then outputs, then workspaces"
    );
    assert_eq!(
        message(|m| m.kernels[0].phases[0].extent = s(1)),
        "kernel `add`: extent: slot $1 of 1"
    );
    assert_eq!(
        message(|m| m.constants[0].shape = vec![3]),
        "constant `w`: 8 bytes of inline data for a shape of 12 bytes"
    );
    assert_eq!(
        message(|m| m.constants[0].shape = vec![1 << 62, 1 << 62]),
        "constant `w`: shape [4611686018427387904, 4611686018427387904] has too many elements"
    );
    assert_eq!(
        message(|m| m.constants[1].dtype = DType::I8),
        "constant `v`: distribution Uniform { low: 0.0, high: 1.0 } of elements of type i8"
    );
    assert_eq!(
        message(|m| m.constants[1].name = "w".into()),
        "constant `w`: the name is taken by an earlier one"
    );
    assert_eq!(
        message(|m| m.functions[1].name = "main".into()),
        "function `main`: the name is taken by an earlier one"
    );
    assert_eq!(
        message(|m| m.native.push(m.native[0].clone())),
        "native code 1: a second native code for the level x86-64-v3"
    );
    assert_eq!(
        message(|m| m.functions[0].params[0].ty = ValueType::Tensor(f32_type(vec![Dim::Any; 13]))),
        "function `main`: rank 13; at most 12 dimensions are supported"
    );
    assert_eq!(
        message(|m| m.functions[0].result_names = vec!["a".into(), "b".into()]),
        "function `main`: 2 result names, expected 1"
    );
}
