//! Runs a tensor program, exactly as `program.rs` defines it.
//!
//! - Spatial loops run outermost; for each of their points the reduce loops run in their order, so a floating-point sum has
//!   one defined value. Contractions multiply, then add, each rounded to `f32`.
//! - The output and the workspaces start poisoned (see `memory.rs`): what a program leaves unwritten, or reads before it is
//!   written, shows up in its result.
//! - Every load and store is checked. Affine indices whose range over the loops lies inside the buffer are checked once per
//!   stage, which is what makes whole small models feasible: about 1 ns per multiply-add of a contraction and tens of ns per
//!   scalar operation elsewhere.

use super::error::InterpretError;
use super::index::{IndexCode, advance};
use super::memory::{check_well_formed, poisoned, store};
use super::scalar::{Value, binary, combining, constant, convert, identity, unary};
use crate::annotation::DType;
use crate::index::Idx;
use crate::program::{
    Access, BinaryOp, BufferId, BufferRole, Combiner, LoopKind, Scalar, Stage, StageBody, TensorProgram,
    UnaryOp,
};
use crate::sym::{SymExpr, SymVar};
use crate::tensor::{Tensor, TensorData};
use crate::typing;
use std::borrow::Cow;

/// Runs `program` on physical tensors and returns its output.
///
/// `inputs` are the input buffers in order, each of its buffer's physical shape; `sym_args` are the values of
/// `program.sym_params`. The result has the output buffer's physical shape; elements that no stage writes are poison (NaN,
/// or 85 for integers).
///
/// # Errors
/// When arguments don't fit the program's buffers, an index leaves its buffer, an integer is divided by zero, or the program is
/// malformed (unknown variables, ill-typed scalars, stores to inputs).
pub fn run_program(
    program: &TensorProgram,
    inputs: &[Tensor],
    sym_args: &[i64],
) -> Result<Tensor, InterpretError> {
    let borrowed: Vec<&Tensor> = inputs.iter().collect();
    run_borrowed(program, &borrowed, sym_args)
}

/// As [`run_program`], without owning the inputs.
pub(super) fn run_borrowed(
    program: &TensorProgram,
    inputs: &[&Tensor],
    sym_args: &[i64],
) -> Result<Tensor, InterpretError> {
    let count = |what, expected, found| InterpretError::Count {
        callee: program.name.clone(),
        what,
        expected,
        found,
    };
    if sym_args.len() != program.sym_params.len() {
        return Err(count(
            "symbolic arguments",
            program.sym_params.len(),
            sym_args.len(),
        ));
    }
    let input_count = program.inputs().count();
    if inputs.len() != input_count {
        return Err(count("input tensors", input_count, inputs.len()));
    }
    let outputs = program
        .buffers
        .iter()
        .filter(|(_, b)| b.role == BufferRole::Output)
        .count();
    if outputs != 1 {
        return Err(count("output buffers", 1, outputs));
    }
    let machine_syms = Symbols {
        params: &program.sym_params,
        values: sym_args,
    };
    let mut memory = Vec::with_capacity(program.buffers.len());
    let (mut next_input, mut output) = (inputs.iter(), 0);
    for (id, buffer) in program.buffers.iter() {
        let place = || format!("program `{}`, buffer `{}`", program.name, buffer.name);
        let shape = buffer
            .shape
            .iter()
            .map(|d| machine_syms.extent(d, &place))
            .collect::<Result<Vec<usize>, _>>()?;
        let tensor = match (buffer.role, next_input.clone().next()) {
            (BufferRole::Input, Some(tensor)) => {
                next_input.next();
                check_well_formed(tensor, &place)?;
                if tensor.shape != shape || tensor.dtype != buffer.dtype {
                    return Err(InterpretError::Mismatch {
                        place: place(),
                        expected: format!("{} {shape:?}", buffer.dtype),
                        found: format!("{} {:?}", tensor.dtype, tensor.shape),
                    });
                }
                Cow::Borrowed(*tensor)
            }
            _ => Cow::Owned(poisoned(shape, buffer.dtype, &place)?),
        };
        if buffer.role == BufferRole::Output {
            output = id.index();
        }
        memory.push(tensor);
    }
    for (number, stage) in program.stages.iter().enumerate() {
        let mut compiled = compile_stage(program, number, stage, &machine_syms, &memory)?;
        compiled
            .run(&mut memory)
            .map_err(|fault| fault.explain(program, number, &memory))?;
    }
    Ok(memory.swap_remove(output).into_owned())
}

/// The symbolic parameters and their values.
struct Symbols<'a> {
    params: &'a [SymVar],
    values: &'a [i64],
}

impl Symbols<'_> {
    fn value(&self, var: &SymVar) -> Option<i64> {
        self.params.iter().position(|p| p == var).map(|i| self.values[i])
    }
    fn extent(&self, expr: &SymExpr, place: &dyn Fn() -> String) -> Result<usize, InterpretError> {
        let problem = |problem: &str| InterpretError::Symbolic {
            place: place(),
            expr: expr.to_string(),
            problem: problem.to_owned(),
        };
        if let Some(unknown) = expr.vars().into_iter().find(|v| self.value(v).is_none()) {
            return Err(problem(&format!("`{unknown}` is no symbolic parameter")));
        }
        let value = expr
            .eval(&|v| self.value(v))
            .ok_or_else(|| problem("it leaves 64 bits"))?;
        usize::try_from(value).map_err(|_| problem(&format!("an extent of {value}")))
    }
}

/// What goes wrong inside a stage; small, so that hot functions return it cheaply.
#[derive(Debug, Clone, Copy)]
enum Fault {
    OutOfBounds { buffer: usize, dim: usize, index: i64 },
    DivisionByZero,
    Overflow,
}

impl Fault {
    fn explain(self, program: &TensorProgram, stage: usize, memory: &[Cow<'_, Tensor>]) -> InterpretError {
        let place = format!("program `{}`, stage {stage}", program.name);
        match self {
            Fault::OutOfBounds { buffer, dim, index } => InterpretError::OutOfBounds {
                place,
                buffer: program.buffers[BufferId::from_u32(buffer as u32)].name.clone(),
                dim,
                index,
                extent: memory[buffer].shape[dim] as i64,
            },
            Fault::DivisionByZero => InterpretError::DivisionByZero { place },
            Fault::Overflow => InterpretError::Symbolic {
                place,
                expr: "an index".to_owned(),
                problem: "it leaves 64 bits".to_owned(),
            },
        }
    }
}

/// An access compiled to an element offset.
enum Offset {
    /// Affine, and inside the buffer for every point of the loops.
    Proven(IndexCode),
    /// One index per dimension with its extent and stride, checked at every use.
    Checked(Vec<(IndexCode, i64, i64)>),
}

struct Place {
    buffer: usize,
    offset: Offset,
}

impl Place {
    fn at(&self, slots: &[i64]) -> Result<usize, Fault> {
        match &self.offset {
            Offset::Proven(code) => code.eval(slots).map(|v| v as usize).ok_or(Fault::Overflow),
            Offset::Checked(dims) => {
                let mut offset = 0;
                for (dim, (code, extent, stride)) in dims.iter().enumerate() {
                    let index = code.eval(slots).ok_or(Fault::Overflow)?;
                    if index < 0 || index >= *extent {
                        return Err(Fault::OutOfBounds {
                            buffer: self.buffer,
                            dim,
                            index,
                        });
                    }
                    offset += index * stride;
                }
                Ok(offset as usize)
            }
        }
    }
    /// Offset step per unit of a slot, when the offset is proven affine.
    fn step(&self, slot: usize) -> Option<i64> {
        match &self.offset {
            Offset::Proven(IndexCode::Affine { terms, .. }) => {
                Some(terms.iter().find(|(s, _)| *s == slot).map_or(0, |(_, c)| *c))
            }
            _ => None,
        }
    }
}

/// A compiled scalar expression. Types are resolved; [`Code::Reduced`] reads the accumulator.
enum Code {
    Const(Value),
    Load(Place),
    Gather {
        buffer: usize,
        dims: Vec<(Code, i64, i64)>,
    },
    Index(IndexCode),
    Reduced,
    Unary(UnaryOp, DType, Box<Code>),
    Binary(BinaryOp, DType, Box<Code>, Box<Code>),
    Select(Box<Code>, Box<Code>, Box<Code>),
    Convert(DType, Box<Code>),
}

fn load(memory: &[Cow<'_, Tensor>], buffer: usize, at: usize) -> Value {
    match &memory[buffer].data {
        TensorData::Float(v) => Value::Float(v[at]),
        TensorData::Int(v) => Value::Int(v[at]),
    }
}

impl Code {
    fn eval(&self, slots: &[i64], reduced: Value, memory: &[Cow<'_, Tensor>]) -> Result<Value, Fault> {
        Ok(match self {
            Code::Const(v) => *v,
            Code::Load(place) => load(memory, place.buffer, place.at(slots)?),
            Code::Gather { buffer, dims } => {
                let mut offset = 0;
                for (dim, (code, extent, stride)) in dims.iter().enumerate() {
                    let index = code.eval(slots, reduced, memory)?.as_int();
                    if *extent == 0 {
                        return Err(Fault::OutOfBounds {
                            buffer: *buffer,
                            dim,
                            index,
                        });
                    }
                    let counted = if index < 0 {
                        index.saturating_add(*extent)
                    } else {
                        index
                    };
                    offset += counted.clamp(0, extent - 1) * stride;
                }
                load(memory, *buffer, offset as usize)
            }
            Code::Index(code) => Value::Int(code.eval(slots).ok_or(Fault::Overflow)?),
            Code::Reduced => reduced,
            Code::Unary(op, dtype, x) => unary(*op, *dtype, x.eval(slots, reduced, memory)?),
            Code::Binary(op, dtype, a, b) => {
                let (a, b) = (a.eval(slots, reduced, memory)?, b.eval(slots, reduced, memory)?);
                binary(*op, *dtype, a, b).ok_or(Fault::DivisionByZero)?
            }
            Code::Select(condition, a, b) => {
                let chosen = if condition.eval(slots, reduced, memory)?.is_true() {
                    a
                } else {
                    b
                };
                chosen.eval(slots, reduced, memory)?
            }
            Code::Convert(to, x) => convert(*to, x.eval(slots, reduced, memory)?),
        })
    }
}

enum Body {
    Map(Code),
    Reduce {
        combiner: Combiner,
        dtype: DType,
        value: Code,
        epilogue: Code,
    },
    Contract {
        dtype: DType,
        a: Place,
        b: Place,
        epilogue: Code,
    },
}

struct CompiledStage {
    spatial: Vec<usize>,
    reduce: Vec<usize>,
    extents: Vec<i64>,
    slots: Vec<i64>,
    out: Place,
    out_type: DType,
    body: Body,
}

struct Compiler<'a, 'm> {
    program: &'a TensorProgram,
    stage_number: usize,
    symbols: &'a Symbols<'a>,
    memory: &'a [Cow<'m, Tensor>],
    vars: Vec<SymVar>,
    extents: Vec<i64>,
    reduced: Option<DType>,
}

impl Compiler<'_, '_> {
    fn place(&self) -> String {
        format!("program `{}`, stage {}", self.program.name, self.stage_number)
    }
    fn malformed(&self, problem: impl Into<String>) -> InterpretError {
        InterpretError::Malformed {
            place: self.place(),
            problem: problem.into(),
        }
    }
    fn index(&self, expr: &SymExpr) -> Result<IndexCode, InterpretError> {
        // Loop variables shadow symbolic parameters of the same name.
        let expr = expr.substitute(&|v| {
            if self.vars.contains(v) {
                None
            } else {
                self.symbols.value(v).map(SymExpr::constant)
            }
        });
        IndexCode::compile(&expr, &|v| self.vars.iter().position(|w| w == v)).map_err(|unknown| {
            InterpretError::Symbolic {
                place: self.place(),
                expr: expr.to_string(),
                problem: format!("`{unknown}` is neither a loop variable nor a symbolic parameter"),
            }
        })
    }
    /// (extent, stride) of each dimension of a buffer.
    fn dims(&self, buffer: BufferId, rank: usize) -> Result<Vec<(i64, i64)>, InterpretError> {
        let tensor = self
            .memory
            .get(buffer.index())
            .ok_or_else(|| self.malformed("a buffer that does not exist"))?;
        if tensor.shape.len() != rank {
            return Err(self.malformed(format!(
                "{rank} indices into buffer `{}`, which has {} dimensions",
                self.program.buffers[buffer].name,
                tensor.shape.len()
            )));
        }
        let mut stride = 1i64;
        let mut dims: Vec<(i64, i64)> = Vec::with_capacity(rank);
        for &extent in tensor.shape.iter().rev() {
            dims.push((extent as i64, stride));
            stride = stride.saturating_mul(extent as i64);
        }
        dims.reverse();
        Ok(dims)
    }
    fn access(&self, access: &Access) -> Result<Place, InterpretError> {
        let dims = self.dims(access.buffer, access.index.len())?;
        let codes = access
            .index
            .iter()
            .map(|e| self.index(e))
            .collect::<Result<Vec<_>, _>>()?;
        let inside = self.extents.iter().all(|e| *e > 0)
            && codes.iter().zip(&dims).all(|(code, (extent, _))| {
                code.affine_range(&self.extents)
                    .is_some_and(|(low, high)| low >= 0 && high < *extent)
            });
        let offset = match inside.then(|| flatten(&codes, &dims)).flatten() {
            Some(flat) => Offset::Proven(flat),
            None => Offset::Checked(codes.into_iter().zip(dims).map(|(c, (e, s))| (c, e, s)).collect()),
        };
        Ok(Place {
            buffer: access.buffer.index(),
            offset,
        })
    }
    /// Code and its type.
    fn scalar(&self, scalar: &Scalar) -> Result<(Code, DType), InterpretError> {
        let ill_typed = |e: typing::TypeError| self.malformed(e.to_string());
        Ok(match scalar {
            Scalar::Const(v, dtype) => (Code::Const(constant(*v, *dtype)), *dtype),
            Scalar::Load(a) => {
                let place = self.access(a)?;
                (Code::Load(place), self.program.buffers[a.buffer].dtype)
            }
            Scalar::Gather { buffer, index } => {
                let dims = self.dims(*buffer, index.len())?;
                let codes = index
                    .iter()
                    .map(|i| Ok(self.scalar(i)?.0))
                    .collect::<Result<Vec<_>, InterpretError>>()?;
                let dims = codes.into_iter().zip(dims).map(|(c, (e, s))| (c, e, s)).collect();
                (
                    Code::Gather {
                        buffer: buffer.index(),
                        dims,
                    },
                    self.program.buffers[*buffer].dtype,
                )
            }
            Scalar::Index(e) => (Code::Index(self.index(e)?), DType::I64),
            Scalar::Reduced => (
                Code::Reduced,
                self.reduced
                    .ok_or(typing::TypeError::Reduced)
                    .map_err(ill_typed)?,
            ),
            Scalar::Unary(op, x) => {
                let (code, dtype) = self.scalar(x)?;
                let result = typing::unary_type(*op, dtype).map_err(ill_typed)?;
                (Code::Unary(*op, dtype, Box::new(code)), result)
            }
            Scalar::Binary(op, a, b) => {
                let ((a, at), (b, bt)) = (self.scalar(a)?, self.scalar(b)?);
                let (common, result) = typing::binary_types(*op, at, bt).map_err(ill_typed)?;
                (Code::Binary(*op, common, Box::new(a), Box::new(b)), result)
            }
            Scalar::Select(condition, a, b) => {
                let (condition, _) = self.scalar(condition)?;
                let ((a, at), (b, bt)) = (self.scalar(a)?, self.scalar(b)?);
                let common = typing::unify("select", at, bt).map_err(ill_typed)?;
                (
                    Code::Select(Box::new(condition), Box::new(a), Box::new(b)),
                    common,
                )
            }
            Scalar::Cast(to, x) => (Code::Convert(*to, Box::new(self.scalar(x)?.0)), *to),
        })
    }
}

/// Σ index · stride of affine indices.
fn flatten(codes: &[IndexCode], dims: &[(i64, i64)]) -> Option<IndexCode> {
    let (mut flat_base, mut flat) = (0i64, std::collections::BTreeMap::<usize, i64>::new());
    for (code, (_, stride)) in codes.iter().zip(dims) {
        let IndexCode::Affine { base, terms } = code else {
            return None;
        };
        flat_base = flat_base.checked_add(base.checked_mul(*stride)?)?;
        for (slot, c) in terms {
            let entry = flat.entry(*slot).or_insert(0);
            *entry = entry.checked_add(c.checked_mul(*stride)?)?;
        }
    }
    Some(IndexCode::Affine {
        base: flat_base,
        terms: flat.into_iter().collect(),
    })
}

fn compile_stage(
    program: &TensorProgram,
    stage_number: usize,
    stage: &Stage,
    symbols: &Symbols<'_>,
    memory: &[Cow<'_, Tensor>],
) -> Result<CompiledStage, InterpretError> {
    let place = || format!("program `{}`, stage {stage_number}", program.name);
    let mut extents = Vec::new();
    for l in &stage.loops {
        extents.push(symbols.extent(&l.extent, &place)? as i64);
    }
    let mut compiler = Compiler {
        program,
        stage_number,
        symbols,
        memory,
        vars: stage.loops.iter().map(|l| l.var.clone()).collect(),
        extents,
        reduced: None,
    };
    typing::check_stage(program, stage).map_err(|e| compiler.malformed(e.to_string()))?;
    if program.buffers[stage.output].role == BufferRole::Input {
        return Err(compiler.malformed(format!(
            "writes input buffer `{}`",
            program.buffers[stage.output].name
        )));
    }
    let slots_of = |kind| {
        stage
            .loops
            .iter()
            .enumerate()
            .filter(move |(_, l)| l.kind == kind)
            .map(|(i, _)| i)
            .collect()
    };
    let (spatial, reduce): (Vec<usize>, Vec<usize>) =
        (slots_of(LoopKind::Spatial), slots_of(LoopKind::Reduce));
    let body = match &stage.body {
        StageBody::Map(_) if !reduce.is_empty() => return Err(compiler.malformed("a map with reduce loops")),
        StageBody::Map(value) => Body::Map(compiler.scalar(value)?.0),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => {
            let (value, dtype) = compiler.scalar(value)?;
            let dtype = if dtype.is_float() { DType::F32 } else { dtype };
            compiler.reduced = Some(dtype);
            Body::Reduce {
                combiner: *combiner,
                dtype,
                value,
                epilogue: compiler.scalar(epilogue)?.0,
            }
        }
        StageBody::Contract { a, b, epilogue } => {
            let (a, b) = (compiler.access(a)?, compiler.access(b)?);
            compiler.reduced =
                typing::reduced_type(program, stage).map_err(|e| compiler.malformed(e.to_string()))?;
            let dtype = compiler.reduced.unwrap_or(DType::F32);
            Body::Contract {
                dtype,
                a,
                b,
                epilogue: compiler.scalar(epilogue)?.0,
            }
        }
    };
    let out = compiler.access(&Access {
        buffer: stage.output,
        index: stage.index.clone(),
    })?;
    Ok(CompiledStage {
        spatial,
        reduce,
        slots: vec![0; compiler.extents.len()],
        extents: compiler.extents,
        out,
        out_type: program.buffers[stage.output].dtype,
        body,
    })
}

impl CompiledStage {
    fn run(&mut self, memory: &mut [Cow<'_, Tensor>]) -> Result<(), Fault> {
        if self.spatial.iter().any(|s| self.extents[*s] == 0) {
            return Ok(());
        }
        loop {
            let value = self.point(memory)?;
            let at = self.out.at(&self.slots)?;
            store(
                &mut memory[self.out.buffer].to_mut().data,
                self.out_type,
                at,
                value,
            );
            if !advance(&mut self.slots, &self.spatial, &self.extents) {
                return Ok(());
            }
        }
    }

    /// The value at the current point of the spatial loops.
    fn point(&mut self, memory: &[Cow<'_, Tensor>]) -> Result<Value, Fault> {
        let no_points = self.reduce.iter().any(|s| self.extents[*s] == 0);
        let none = Value::Int(0);
        match &self.body {
            Body::Map(value) => value.eval(&self.slots, none, memory),
            Body::Reduce {
                combiner,
                dtype,
                value,
                epilogue,
            } => {
                let mut acc = identity(*combiner, *dtype);
                let op = combining(*combiner);
                let mut more = !no_points;
                while more {
                    let x = value.eval(&self.slots, none, memory)?;
                    acc = binary(op, *dtype, acc, x).ok_or(Fault::DivisionByZero)?;
                    more = advance(&mut self.slots, &self.reduce, &self.extents);
                }
                epilogue.eval(&self.slots, acc, memory)
            }
            Body::Contract {
                dtype,
                a,
                b,
                epilogue,
            } => {
                let acc = if no_points {
                    identity(Combiner::Sum, *dtype)
                } else {
                    contract(&mut self.slots, &self.reduce, &self.extents, *dtype, a, b, memory)?
                };
                epilogue.eval(&self.slots, acc, memory)
            }
        }
    }
}

/// Σ a · b over the reduce loops, in their order, the innermost with constant steps where both offsets are affine.
fn contract(
    slots: &mut [i64],
    reduce: &[usize],
    extents: &[i64],
    dtype: DType,
    a: &Place,
    b: &Place,
    memory: &[Cow<'_, Tensor>],
) -> Result<Value, Fault> {
    if let (Some((inner, outer)), TensorData::Float(x), TensorData::Float(y)) = (
        reduce.split_last(),
        &memory[a.buffer].data,
        &memory[b.buffer].data,
    ) && let (Some(step_a), Some(step_b)) = (a.step(*inner), b.step(*inner))
    {
        let mut acc = 0f32;
        loop {
            let (start_a, start_b) = (a.at(slots)? as i64, b.at(slots)? as i64);
            for k in 0..extents[*inner] {
                acc += x[(start_a + k * step_a) as usize] * y[(start_b + k * step_b) as usize];
            }
            if !advance(slots, outer, extents) {
                return Ok(Value::Float(acc));
            }
        }
    }
    let mut acc = identity(Combiner::Sum, dtype);
    loop {
        let product = match (
            load(memory, a.buffer, a.at(slots)?),
            load(memory, b.buffer, b.at(slots)?),
        ) {
            (Value::Int(x), Value::Int(y)) => Value::Int(x.wrapping_mul(y)),
            (x, y) => Value::Float(x.as_float() * y.as_float()),
        };
        acc = binary(BinaryOp::Add, dtype, acc, product).ok_or(Fault::Overflow)?;
        if !advance(slots, reduce, extents) {
            return Ok(acc);
        }
    }
}
