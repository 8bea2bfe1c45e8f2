//! Assembling modules by hand, and compiling C.

use relayout_runtime::module::*;
use relayout_runtime::*;
use std::process::Command;
use std::sync::{Arc, OnceLock};

pub fn c(value: i64) -> Expr {
    Expr::constant(value)
}

pub fn s(slot: u32) -> Expr {
    Expr::slot(Slot(slot))
}

pub fn mul(a: Expr, b: Expr) -> Expr {
    Expr::binary(ExprOp::Mul, a, b)
}

pub fn add(a: Expr, b: Expr) -> Expr {
    Expr::binary(ExprOp::Add, a, b)
}

pub fn bind(slot: u32) -> Dim {
    Dim::Bind(Slot(slot))
}

pub fn is(expr: Expr) -> Dim {
    Dim::Check(expr)
}

pub fn f32_type(dims: Vec<Dim>) -> TensorType {
    TensorType {
        dtype: DType::F32,
        dims,
    }
}

pub fn param(name: &str, dims: Vec<Dim>) -> Param {
    Param {
        name: name.into(),
        ty: ValueType::Tensor(f32_type(dims)),
    }
}

pub fn slot(name: &str, low: i64, high: Option<i64>) -> SlotDecl {
    SlotDecl {
        name: name.into(),
        low,
        high,
    }
}

/// Dimensions are at least 1 and unbounded.
pub fn dim_slot(name: &str) -> SlotDecl {
    slot(name, 1, None)
}

pub fn function(
    name: &str,
    params: Vec<Param>,
    result: Vec<Dim>,
    slots: Vec<SlotDecl>,
    registers: u32,
    code: Vec<Instr>,
) -> Function {
    Function {
        name: name.into(),
        params,
        result: ValueType::Tensor(f32_type(result)),
        result_names: Vec::new(),
        slots,
        registers,
        code,
    }
}

pub fn entry(name: &str, function: u32) -> Entry {
    Entry {
        name: name.into(),
        guard: None,
        function: FunctionId(function),
    }
}

pub fn storage(dst: u32, bytes: Expr) -> Instr {
    Instr::AllocStorage { dst: Reg(dst), bytes }
}

pub fn tensor(dst: u32, storage: u32, shape: Vec<Expr>) -> Instr {
    Instr::AllocTensor {
        dst: Reg(dst),
        storage: Reg(storage),
        offset: c(0),
        shape,
        dtype: DType::F32,
    }
}

pub fn call(kernel: u32, args: &[u32], syms: Vec<Expr>) -> Instr {
    Instr::CallKernel {
        kernel: KernelId(kernel),
        args: args.iter().map(|r| Reg(*r)).collect(),
        syms,
    }
}

pub fn kill(regs: &[u32]) -> Instr {
    Instr::Kill {
        regs: regs.iter().map(|r| Reg(*r)).collect(),
    }
}

pub fn ret(reg: u32) -> Instr {
    Instr::Ret { value: Reg(reg) }
}

/// A kernel over f32 buffers of `syms[0]` elements each, with one phase per symbol over `0..syms[0]`.
pub fn kernel(name: &str, roles: &[ParamRole], phases: &[(&str, i64, i64)]) -> Kernel {
    Kernel {
        name: name.into(),
        params: roles
            .iter()
            .map(|role| KernelParam {
                role: *role,
                dtype: DType::F32,
                bytes: mul(s(0), c(4)),
            })
            .collect(),
        syms: 1,
        phases: phases
            .iter()
            .map(|(symbol, grain, scratch)| Phase {
                symbol: (*symbol).into(),
                extent: s(0),
                grain: *grain,
                scratch: c(*scratch),
            })
            .collect(),
    }
}

pub const SOURCE: &str = r#"
#include <stdint.h>
#define PHASE(name) void name(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end, void *scratch)
PHASE(add) {
    const float *a = bufs[0], *b = bufs[1]; float *o = bufs[2];
    for (int64_t i = begin; i < end; i++) o[i] = a[i] + b[i];
}
PHASE(relu) {
    const float *a = bufs[0]; float *o = bufs[1];
    for (int64_t i = begin; i < end; i++) o[i] = a[i] > 0 ? a[i] : 0;
}
/* Depends on where its chunk begins and ends, and is slow enough for several workers to take part. */
PHASE(running) {
    const float *a = bufs[0]; float *o = bufs[1];
    float sum = 0.1f * (float)(end - begin);
    for (int64_t i = begin; i < end; i++) { sum = sum * 0.99f + a[i]; o[i] = sum; }
}
/* Two phases: the second reads what other iterations of the first wrote. */
PHASE(reverse_fill) {
    const float *a = bufs[0]; float *w = bufs[2];
    for (int64_t i = begin; i < end; i++) w[i] = 2 * a[i];
}
PHASE(reverse_read) {
    float *o = bufs[1]; const float *w = bufs[2];
    for (int64_t i = begin; i < end; i++) o[i] = w[syms[0] - 1 - i];
}
/* Writes 1 when its scratch is private and aligned, else 0. */
PHASE(scratched) {
    float *o = bufs[0];
    volatile int64_t *mine = scratch;
    for (int64_t i = begin; i < end; i++) {
        for (int j = 0; j < 512; j++) mine[j] = i * 1000 + j;
        int ok = (uintptr_t)scratch % 64 == 0;
        for (int j = 0; j < 512; j++) ok &= mine[j] == i * 1000 + j;
        o[i] = ok;
    }
}
PHASE(no_scratch) { float *o = bufs[0]; for (int64_t i = begin; i < end; i++) o[i] = scratch == 0; }
PHASE(aligned) {
    float *o = bufs[0];
    for (int64_t i = begin; i < end; i++) o[i] = ((uintptr_t)bufs[0] % 64 == 0) && ((uintptr_t)bufs[1] % 64 == 0);
}
"#;

/// The compiled object of [`SOURCE`]; none, with a printed reason, where the machine has no C compiler.
pub fn code() -> Option<NativeCode> {
    static CODE: OnceLock<Option<Arc<[u8]>>> = OnceLock::new();
    let bytes = CODE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("k.c"), folder.path().join("k.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(&cc)
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(&object)
            .arg(&source)
            .output();
        match output {
            Err(e) => {
                println!("skipped: C compiler `{cc}`: {e}");
                None
            }
            Ok(out) => {
                assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                Some(std::fs::read(&object).unwrap().into())
            }
        }
    });
    bytes.clone().map(|bytes| NativeCode {
        isa: Isa::Generic,
        bytes,
    })
}

pub fn options(threads: usize) -> Options {
    Options {
        threads,
        ..Options::default()
    }
}

use ParamRole::{Input, Output, Workspace};

/// Kernels of [`SOURCE`], in this order: add, relu, running, reverse, scratched, no_scratch, aligned.
pub fn kernels() -> Vec<Kernel> {
    vec![
        kernel("add", &[Input, Input, Output], &[("add", 16, 0)]),
        kernel("relu", &[Input, Output], &[("relu", 16, 0)]),
        kernel("running", &[Input, Output], &[("running", 16, 0)]),
        kernel(
            "reverse",
            &[Input, Output, Workspace],
            &[("reverse_fill", 8, 0), ("reverse_read", 8, 0)],
        ),
        kernel("scratched", &[Output], &[("scratched", 4, 4096)]),
        kernel("no_scratch", &[Output], &[("no_scratch", 4, 0)]),
        kernel("aligned", &[Output, Output], &[("aligned", 4, 0)]),
    ]
}

pub const ADD: u32 = 0;
pub const RELU: u32 = 1;

/// `relu(x + y)` over `[n, 4]`, with the storage of the sum killed before the end.
pub fn add_relu() -> Function {
    let elements = mul(s(0), c(4));
    let bytes = mul(elements.clone(), c(4));
    let shape = vec![s(0), c(4)];
    function(
        "add_relu",
        vec![
            param("x", vec![bind(0), is(c(4))]),
            param("y", vec![is(s(0)), is(c(4))]),
        ],
        vec![is(s(0)), is(c(4))],
        vec![slot("n", 1, Some(100_000))],
        6,
        vec![
            storage(2, bytes.clone()),
            tensor(3, 2, shape.clone()),
            call(ADD, &[0, 1, 3], vec![elements.clone()]),
            storage(4, bytes),
            tensor(5, 4, shape),
            call(RELU, &[3, 5], vec![elements]),
            kill(&[3, 2]),
            ret(5),
        ],
    )
}

/// A module of [`add_relu`] with all kernels; none where there is no C compiler.
pub fn add_relu_module() -> Option<Module> {
    Some(Module {
        name: "add_relu".into(),
        target: Target {
            name: "cpu".into(),
            isa: Isa::Generic,
            toolchain: "cc -O2".into(),
        },
        entries: vec![entry("main", 0)],
        functions: vec![add_relu()],
        kernels: kernels(),
        native: vec![code()?],
        constants: Vec::new(),
        storage_plan: vec![PlannedStorage {
            function: FunctionId(0),
            bytes: mul(s(0), c(16)),
            tensors: vec!["sum".into()],
        }],
    })
}

pub fn ramp(shape: &[i64], scale: f32) -> HostTensor {
    let count = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) * scale)
        .collect();
    HostTensor::from_f32(shape, &values)
}
