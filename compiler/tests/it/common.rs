//! What the code-generation tests share: graphs of single operators under layouts, compiled and compared with the interpreter.

use relayout_compiler::codegen::toolchain::Toolchain;
use relayout_compiler::pipeline::{CompileOptions, CompiledModule, Pass, compile_selected};
use relayout_compiler::target::Target;
use relayout_ir::annotation::{Annotation, DType, TensorInfo};
use relayout_ir::builder::{FunctionBuilder, attrs};
use relayout_ir::generate::generate;
use relayout_ir::graph::{Attr, Attrs, Distribution, Expr, Generator, Module, ValueId};
use relayout_ir::interpret::{ConstantStore, GraphOptions, NoLibrary, Reference, run_function};
use relayout_ir::layout::{Layout, Split};
use relayout_ir::op::by_name;
use relayout_ir::sym::SymExpr;
use relayout_ir::tensor::{RefValue, Tensor, TensorData};
use relayout_runtime::{HostTensor, Options, Session};
use std::sync::Arc;

/// A layout from its text form without the parentheses: `0,2,3,1` or `0,1,2,3,1:16`.
pub fn layout(text: &str) -> Layout {
    let pieces: Vec<Split> = text
        .split(',')
        .map(|p| match p.split_once(':') {
            Some((a, f)) => Split {
                axis: a.parse().expect("an axis"),
                factor: Some(f.parse().expect("a factor")),
            },
            None => Split {
                axis: p.parse().expect("an axis"),
                factor: None,
            },
        })
        .collect();
    let rank = pieces.iter().filter(|p| p.factor.is_none()).count();
    Layout::new(rank, pieces).expect("a layout")
}

/// An operand: extents, type, layout (empty: row-major).
pub struct Operand {
    pub shape: Vec<SymExpr>,
    pub dtype: DType,
    pub layout: &'static str,
}

pub fn f32s(shape: &[usize], layout: &'static str) -> Operand {
    Operand {
        shape: shape.iter().map(|d| SymExpr::from(*d)).collect(),
        dtype: DType::F32,
        layout,
    }
}

/// Graphs that put operators between conversions from and to the ABI layout.
pub struct Cases<'m> {
    pub b: FunctionBuilder<'m>,
    pub results: Vec<ValueId>,
    count: usize,
}

impl<'m> Cases<'m> {
    pub fn new(module: &'m mut Module) -> Self {
        Cases {
            b: FunctionBuilder::new(module, "main"),
            results: Vec::new(),
            count: 0,
        }
    }
    /// A parameter, converted to its layout.
    pub fn operand(&mut self, o: &Operand) -> ValueId {
        self.count += 1;
        let name = format!("x{}", self.count);
        let x = self.b.param(&name, Annotation::tensor(o.shape.clone(), o.dtype));
        self.convert(x, o.layout)
    }
    pub fn convert(&mut self, x: ValueId, to: &str) -> ValueId {
        if to.is_empty() {
            return x;
        }
        self.b
            .op(
                "l",
                "layout_transform",
                &[x],
                attrs([("layout", Attr::Layout(layout(to)))]),
            )
            .expect("a conversion")
    }
    /// An operator whose result has a layout.
    pub fn op(&mut self, name: &str, args: &[ValueId], attributes: Attrs, to: &str) -> ValueId {
        let op = by_name(name).unwrap_or_else(|| panic!("operator {name}"));
        let given: Vec<&Annotation> = args.iter().map(|a| self.b.annotation(*a)).collect();
        let mut annotation = op
            .get()
            .infer(&given, &attributes)
            .unwrap_or_else(|e| panic!("{e}"));
        if let (Annotation::Tensor(t), false) = (&mut annotation, to.is_empty()) {
            t.layout = Some(layout(to));
        }
        if let (Annotation::Tensor(t), true) = (&mut annotation, to.is_empty()) {
            t.layout = None;
        }
        self.b.bind(
            name,
            annotation,
            Expr::Op {
                op,
                args: args.to_vec(),
                attrs: attributes,
                implementation: None,
            },
        )
    }
    /// Returns a value in the ABI layout.
    pub fn result(&mut self, v: ValueId) {
        let rank = self.b.dims(v).map_or(0, <[SymExpr]>::len);
        let is_abi = self
            .b
            .annotation(v)
            .as_tensor()
            .is_some_and(|t| t.layout.is_none());
        let v = if is_abi {
            v
        } else {
            let to = Layout::row_major(rank);
            self.b
                .op(
                    "r",
                    "layout_transform",
                    &[v],
                    attrs([("layout", Attr::Layout(to))]),
                )
                .expect("a conversion")
        };
        self.results.push(v);
    }
    /// A parameter that is in its layout already.
    pub fn given(&mut self, o: &Operand) -> ValueId {
        self.count += 1;
        let name = format!("x{}", self.count);
        let mut info = TensorInfo::new(o.shape.clone(), o.dtype);
        info.layout = (!o.layout.is_empty()).then(|| layout(o.layout));
        self.b.param(&name, Annotation::Tensor(info))
    }
    /// Operands, one operator, result.
    pub fn case(&mut self, name: &str, operands: &[Operand], attributes: Attrs, to: &str) {
        let args: Vec<ValueId> = operands.iter().map(|o| self.operand(o)).collect();
        let v = self.op(name, &args, attributes, to);
        self.result(v);
    }
    pub fn finish(mut self) {
        // A tuple even for one result, so that the function's form does not depend on the number of cases.
        let items = self
            .results
            .iter()
            .map(|r| self.b.annotation(*r).clone())
            .collect();
        let tuple = self.b.bind(
            "results",
            Annotation::Tuple(items),
            Expr::Tuple(self.results.clone()),
        );
        self.b.finish(&[tuple]);
    }
}

/// A toolchain without a cache, so that tests compile what they say.
pub fn toolchain() -> Option<Toolchain> {
    match Toolchain::with_cache(None) {
        Ok(t) => Some(t),
        Err(e) => {
            println!("skipped: {e}");
            None
        }
    }
}

pub fn options(toolchain: &Toolchain) -> CompileOptions {
    CompileOptions {
        toolchain: Some(toolchain.clone()),
        ..CompileOptions::default()
    }
}

/// Deterministic physical arguments of the entry's parameters; symbolic dimensions from `dims`.
pub fn arguments(module: &Module, dims: &dyn Fn(&str) -> i64, range: (f32, f32)) -> Vec<Tensor> {
    let main = module.entry().expect("main");
    let f = &module.functions[main];
    f.params
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let t = f.values[*p].annotation.as_tensor().expect("a tensor");
            let logical = t.dims().expect("dimensions");
            let shape: Vec<usize> = t
                .layout_or_abi()
                .expect("a layout")
                .physical_shape(logical)
                .iter()
                .map(|d| d.eval(&|v| Some(dims(v.name()))).expect("a value") as usize)
                .collect();
            let dtype = t.dtype.expect("a type");
            let distribution = if dtype.is_float() {
                Distribution::Uniform {
                    low: range.0,
                    high: range.1,
                }
            } else {
                Distribution::Integers {
                    low: 0,
                    high: if dtype == DType::Bool { 2 } else { 5 },
                }
            };
            let generator = Generator {
                seed: 7,
                key: format!("input {i}"),
                distribution,
            };
            generate(&generator, &shape, dtype)
        })
        .collect()
}

pub fn interpret(module: &Module, args: &[Tensor]) -> Vec<Tensor> {
    let args: Vec<RefValue> = args
        .iter()
        .map(|t| RefValue::Tensor(Arc::new(t.clone())))
        .collect();
    let constants = ConstantStore::keeping();
    let options = GraphOptions {
        reference: Reference::Fast,
        library: &NoLibrary,
        constants: &constants,
    };
    flatten(
        run_function(module, module.entry().expect("main"), &args, options).expect("the interpreter runs it"),
    )
}

fn flatten(v: RefValue) -> Vec<Tensor> {
    match v {
        RefValue::Tensor(t) => vec![(*t).clone()],
        RefValue::Tuple(items) => items.into_iter().flat_map(flatten).collect(),
        RefValue::Shape(_) => Vec::new(),
    }
}

pub fn host(t: &Tensor) -> HostTensor {
    HostTensor {
        dtype: relayout_compiler::vmgen::dtype(t.dtype),
        shape: t.shape.iter().map(|d| *d as i64).collect(),
        bytes: relayout_compiler::canonicalise::encode(t),
    }
}

pub fn compile(module: &Module, target: &Target, options: &CompileOptions) -> CompiledModule {
    let compiled = compile_selected(module, target, options).unwrap_or_else(|e| panic!("{e}"));
    compiled.module.validate().unwrap_or_else(|e| panic!("{e}"));
    compiled
}

pub fn execute(compiled: &CompiledModule, args: &[Tensor], threads: usize) -> Vec<HostTensor> {
    let options = Options {
        threads,
        ..Options::default()
    };
    let mut session = Session::new(compiled.module.clone(), &options).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<HostTensor> = args.iter().map(host).collect();
    session.run(None, &inputs).unwrap_or_else(|e| panic!("{e}"))
}

/// Compares element by element: floats within `tolerance` of the largest magnitude of the result, everything else exactly.
pub fn assert_same(what: &str, expected: &Tensor, found: &HostTensor, tolerance: f32) {
    let shape: Vec<i64> = expected.shape.iter().map(|d| *d as i64).collect();
    assert_eq!(found.shape, shape, "{what}: shape");
    match (&expected.data, found.to_f32()) {
        (TensorData::Float(e), Some(f)) => {
            let scale = e
                .iter()
                .filter(|x| x.is_finite())
                .fold(1e-3f32, |m, x| m.max(x.abs()));
            for (i, (x, y)) in e.iter().zip(&f).enumerate() {
                let same = (x - y).abs() <= tolerance * scale || x == y || x.is_nan() && y.is_nan();
                assert!(
                    same,
                    "{what}: element {i} of {:?}: expected {x}, found {y}",
                    expected.shape
                );
            }
        }
        _ => assert_eq!(found, &host(expected), "{what}"),
    }
}

/// Compiles the module, runs it and compares every result with the interpreter's.
pub fn check(module: &Module, dims: &dyn Fn(&str) -> i64, tolerance: f32) {
    check_range(module, dims, tolerance, (-1.0, 1.0));
}

pub fn check_range(module: &Module, dims: &dyn Fn(&str) -> i64, tolerance: f32, range: (f32, f32)) {
    let Some(toolchain) = toolchain() else { return };
    relayout_ir::verify::verify(module).unwrap_or_else(|e| panic!("{e:?}"));
    let target = Target::cpu().expect("the shipped target");
    let mut options = options(&toolchain);
    if std::env::var_os("RELAYOUT_DUMP").is_some() {
        options.dump = Pass::ORDER.to_vec();
    }
    let compiled = compile(module, &target, &options);
    for (pass, text) in &compiled.report.dumps {
        println!("== {}\n{text}", pass.name());
    }
    let args = arguments(module, dims, range);
    let expected = interpret(module, &args);
    let found = execute(&compiled, &args, 2);
    let names = &compiled.module.functions[0].result_names;
    for (i, (e, f)) in expected.iter().zip(&found).enumerate() {
        assert_same(names.get(i).map_or("result", String::as_str), e, f, tolerance);
    }
}
