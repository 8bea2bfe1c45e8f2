//! Prints modules: one binding per line, ids replaced by names, floats bit-exact.

use super::lex::{is_ident, is_plain};
use crate::annotation::{Annotation, DType, ShapeInfo, TensorInfo};
use crate::graph::{
    Attr, Attrs, BlockKind, Callee, Constant, ConstantData, Distribution, Expr, GraphFunction, Module,
    ValueId,
};
use crate::program::{
    Access, Buffer, BufferId, BufferRole, Loop, LoopKind, Scalar, Stage, StageBody, TensorProgram,
};
use crate::sym::{Atom, SymExpr, SymVar};

/// The text of a module: constants, tensor programs, graph functions.
pub fn print(module: &Module) -> String {
    let constants: String = module.constants.iter().map(|(_, c)| constant(c)).collect();
    let programs = module.programs.iter().map(|(_, p)| print_program(p));
    let functions = module.functions.iter().map(|(_, f)| print_function(module, f));
    let mut parts: Vec<String> = programs.chain(functions).collect();
    if !constants.is_empty() {
        parts.insert(0, constants);
    }
    parts.join("\n")
}

fn join<T>(items: impl IntoIterator<Item = T>, each: impl Fn(T) -> String) -> String {
    items.into_iter().map(each).collect::<Vec<_>>().join(", ")
}

/// A name after a sigil, quoted where it must be.
pub(super) fn sigil(sigil: char, name: &str) -> String {
    if is_plain(name) {
        format!("{sigil}{name}")
    } else {
        format!("{sigil}{name:?}")
    }
}

/// A bare name, quoted where it must be.
fn bare(name: &str) -> String {
    if is_ident(name) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

/// A variable; `min` and `max` are functions and must be quoted.
fn var(v: &SymVar) -> String {
    if matches!(v.name(), "min" | "max") {
        format!("{:?}", v.name())
    } else {
        bare(v.name())
    }
}

fn atom(a: &Atom) -> String {
    match a {
        Atom::Var(v) => var(v),
        Atom::FloorDiv(e, d) => format!("({} // {d})", expr(e)),
        Atom::Mod(e, d) => format!("({} % {d})", expr(e)),
        Atom::Min(a, b) => format!("min({}, {})", expr(a), expr(b)),
        Atom::Max(a, b) => format!("max({}, {})", expr(a), expr(b)),
    }
}

/// A symbolic expression, variables first and the constant last.
fn expr(e: &SymExpr) -> String {
    let mut out = String::new();
    let (constants, products): (Vec<_>, Vec<_>) = e.terms().partition(|(m, _)| m.factors().is_empty());
    for (monomial, c) in products.into_iter().chain(constants) {
        out.push_str(match (out.is_empty(), c < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        });
        let mut factors: Vec<String> = monomial
            .factors()
            .iter()
            .flat_map(|(a, power)| std::iter::repeat_n(atom(a), *power as usize))
            .collect();
        if c.unsigned_abs() != 1 || factors.is_empty() {
            factors.push(c.unsigned_abs().to_string());
        }
        out.push_str(&factors.join("*"));
    }
    if out.is_empty() { "0".to_owned() } else { out }
}

fn exprs(items: &[SymExpr]) -> String {
    join(items, expr)
}

fn shape(s: &ShapeInfo) -> String {
    match s {
        ShapeInfo::Known(dims) => exprs(dims),
        ShapeInfo::Rank(rank) => format!("rank {rank}"),
        ShapeInfo::Unknown => "?".to_owned(),
    }
}

fn tensor(t: &TensorInfo) -> String {
    let layout = t.layout.as_ref().map_or(String::new(), |l| format!(" @{l}"));
    format!(
        "{}[{}]{layout}",
        t.dtype.map_or("tensor", DType::name),
        shape(&t.shape)
    )
}

/// The text of an annotation: `f32[n, 4] @(0,1)`, `shape(n, 4)`, `(f32[4], object)`, `fn(f32[n]) -> f32[n]`, `object`.
pub fn print_annotation(a: &Annotation) -> String {
    match a {
        Annotation::Object => "object".to_owned(),
        Annotation::Shape(s) => format!("shape({})", shape(s)),
        Annotation::Tensor(t) => tensor(t),
        Annotation::Tuple(items) => tuple(items.iter().map(print_annotation).collect()),
        Annotation::Callable(params, result) => {
            format!(
                "fn({}) -> {}",
                join(params, print_annotation),
                print_annotation(result)
            )
        }
    }
}

/// `()`, `(a,)`, `(a, b)`.
fn tuple(items: Vec<String>) -> String {
    match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

/// A double, bit-exact; NaNs other than the usual one show their bits.
fn double(v: f64) -> String {
    match v {
        _ if v.is_nan() && v.to_bits() == f64::NAN.to_bits() => "nan".to_owned(),
        _ if v.is_nan() => format!("nan(0x{:x})", v.to_bits()),
        _ => format!("{v:?}"),
    }
}

fn single(v: f32) -> String {
    match v {
        _ if v.is_nan() && v.to_bits() == f32::NAN.to_bits() => "nan".to_owned(),
        _ if v.is_nan() => format!("nan(0x{:x})", v.to_bits()),
        _ => format!("{v:?}"),
    }
}

fn constant(c: &Constant) -> String {
    let data = match &c.data {
        ConstantData::Inline(bytes) => {
            use std::fmt::Write;
            let mut hex = String::with_capacity(bytes.len() * 2);
            for b in bytes.iter() {
                // Writing to a string can't fail.
                let _ = write!(hex, "{b:02x}");
            }
            format!("hex \"{hex}\"")
        }
        ConstantData::Generated(g) => {
            let distribution = match g.distribution {
                Distribution::Uniform { low, high } => format!("uniform({}, {})", single(low), single(high)),
                Distribution::Integers { low, high } => format!("integers({low}, {high})"),
            };
            format!("generate(seed {}, key {:?}, {distribution})", g.seed, g.key)
        }
    };
    format!(
        "constant {}: {}[{}] = {data}\n",
        sigil('@', &c.name),
        c.dtype,
        join(&c.shape, usize::to_string)
    )
}

fn attr(a: &Attr) -> String {
    match a {
        Attr::Int(v) => v.to_string(),
        Attr::Ints(v) => format!("[{}]", join(v, i64::to_string)),
        Attr::Float(v) => double(*v),
        Attr::Bool(v) => v.to_string(),
        Attr::Str(v) => format!("{v:?}"),
        Attr::DType(v) => v.to_string(),
        Attr::Shape(v) => format!("shape({})", exprs(v)),
        Attr::Layout(v) => format!("layout{v}"),
    }
}

/// Attributes as they stand in the text form, with a space before them; nothing without any.
pub fn print_attrs(attrs: &Attrs) -> String {
    if attrs.is_empty() {
        String::new()
    } else {
        format!(
            " {{{}}}",
            join(attrs, |(k, v)| format!("{}: {}", bare(k), attr(v)))
        )
    }
}

fn syms(sym_args: &[SymExpr]) -> String {
    if sym_args.is_empty() {
        String::new()
    } else {
        format!(" syms({})", exprs(sym_args))
    }
}

struct Names<'a> {
    module: &'a Module,
    function: &'a GraphFunction,
}

impl Names<'_> {
    fn value(&self, v: ValueId) -> String {
        // An index of another function prints as its number: the printer shows broken IR rather than failing.
        self.function
            .values
            .get(v)
            .map_or_else(|| format!("{v:?}"), |v| sigil('%', &v.name))
    }
    fn values(&self, items: &[ValueId]) -> String {
        join(items, |v| self.value(*v))
    }
    fn program(&self, id: crate::graph::ProgramId) -> String {
        self.module
            .programs
            .get(id)
            .map_or_else(|| format!("{id:?}"), |p| sigil('@', &p.name))
    }
    fn expr(&self, e: &Expr) -> String {
        match e {
            Expr::Op {
                op,
                args,
                attrs: a,
                implementation,
            } => {
                let via = implementation
                    .as_ref()
                    .map_or(String::new(), |i| format!(" via {i:?}"));
                format!("{}({}){}{via}", op.name(), self.values(args), print_attrs(a))
            }
            Expr::CallGraph { func, args } => {
                let name = self
                    .module
                    .functions
                    .get(*func)
                    .map_or_else(|| format!("{func:?}"), |f| sigil('@', &f.name));
                format!("call {name}({})", self.values(args))
            }
            Expr::CallTir {
                program,
                args,
                sym_args,
            } => {
                format!(
                    "call_tir {}({}){}",
                    self.program(*program),
                    self.values(args),
                    syms(sym_args)
                )
            }
            Expr::CallDpsLibrary {
                routine,
                args,
                attrs: a,
                sym_args,
            } => {
                format!(
                    "call_dps_library {routine:?}({}){}{}",
                    self.values(args),
                    print_attrs(a),
                    syms(sym_args)
                )
            }
            Expr::Constant(id) => {
                let name = self
                    .module
                    .constants
                    .get(*id)
                    .map_or_else(|| format!("{id:?}"), |c| sigil('@', &c.name));
                format!("constant {name}")
            }
            Expr::Shape(dims) => format!("shape({})", exprs(dims)),
            Expr::Tuple(items) => tuple(items.iter().map(|v| self.value(*v)).collect()),
            Expr::TupleGet(tuple, index) => format!("{}[{index}]", self.value(*tuple)),
            Expr::MatchCast(v, a) => format!("match_cast({}, {})", self.value(*v), print_annotation(a)),
            Expr::View(v) => format!("view({})", self.value(*v)),
            Expr::AllocStorage { bytes } => format!("alloc_storage({})", expr(bytes)),
            Expr::AllocTensor { storage, offset } => {
                format!("alloc_tensor({}, {})", self.value(*storage), expr(offset))
            }
            Expr::Invoke {
                callee,
                args,
                outs,
                sym_args,
            } => {
                let (name, a) = match callee {
                    Callee::Program(p) => (self.program(*p), String::new()),
                    Callee::Library(routine, a) => (format!("{routine:?}"), print_attrs(a)),
                };
                let (args, outs) = (self.values(args), self.values(outs));
                format!("invoke {name}({args}){a} -> ({outs}){}", syms(sym_args))
            }
            Expr::Kill(v) => format!("kill({})", self.value(*v)),
        }
    }
}

/// The text of a graph function; the module supplies the names it refers to.
pub fn print_function(module: &Module, f: &GraphFunction) -> String {
    let names = Names { module, function: f };
    let annotated = |v: ValueId| {
        let annotation = f
            .values
            .get(v)
            .map_or("?".to_owned(), |v| print_annotation(&v.annotation));
        format!("{}: {annotation}", names.value(v))
    };
    let mut out = format!(
        "func {}({})",
        sigil('@', &f.name),
        join(&f.params, |p| annotated(*p))
    );
    if !f.syms.is_empty() {
        let declared = join(&f.syms, |d| {
            let high = d.high.map_or(String::new(), |h| format!("={h}"));
            format!("{} in {}..{high}", var(&d.var), d.low)
        });
        out.push_str(&format!(" where {declared}"));
    }
    out.push_str(" {\n");
    let defined: Vec<ValueId> = f
        .params
        .iter()
        .copied()
        .chain(f.bindings().map(|b| b.value))
        .collect();
    if !f.values.ids().eq(defined.iter().copied()) {
        // The order of the arena, where it is not that of definition; values without a definition show their annotation.
        let listed = join(f.values.ids(), |v| {
            if defined.contains(&v) {
                names.value(v)
            } else {
                annotated(v)
            }
        });
        out.push_str(&format!("  values {listed}\n"));
    }
    for block in &f.blocks {
        out.push_str(match block.kind {
            BlockKind::Dataflow => "  dataflow {\n",
            BlockKind::Plain => "  plain {\n",
        });
        for b in &block.bindings {
            out.push_str(&format!("    {} = {}\n", annotated(b.value), names.expr(&b.expr)));
        }
        out.push_str("  }\n");
    }
    out.push_str(&format!("  return {}\n}}\n", names.value(f.result)));
    out
}

struct Buffers<'a>(&'a TensorProgram);

impl Buffers<'_> {
    fn name(&self, id: BufferId) -> String {
        self.0
            .buffers
            .get(id)
            .map_or_else(|| format!("{id:?}"), |b| bare(&b.name))
    }
    fn access(&self, a: &Access) -> String {
        format!("{}[{}]", self.name(a.buffer), exprs(&a.index))
    }
    fn scalar(&self, s: &Scalar) -> String {
        match s {
            Scalar::Const(v, dtype) => format!("{dtype}({})", double(*v)),
            Scalar::Load(a) => self.access(a),
            Scalar::Gather { buffer, index } => {
                let index: String = index.iter().map(|i| format!(", {}", self.scalar(i))).collect();
                format!("gather({}{index})", self.name(*buffer))
            }
            Scalar::Index(e) => format!("index({})", expr(e)),
            Scalar::Reduced => "reduced".to_owned(),
            Scalar::Unary(op, x) => format!("{}({})", op.name(), self.scalar(x)),
            Scalar::Binary(op, a, b) => format!("{}({}, {})", op.name(), self.scalar(a), self.scalar(b)),
            Scalar::Select(c, a, b) => {
                format!(
                    "select({}, {}, {})",
                    self.scalar(c),
                    self.scalar(a),
                    self.scalar(b)
                )
            }
            Scalar::Cast(to, x) => format!("cast({to}, {})", self.scalar(x)),
        }
    }
    fn stage(&self, s: &Stage) -> String {
        let then = |epilogue: &Scalar| match epilogue {
            Scalar::Reduced => String::new(),
            other => format!(" then {}", self.scalar(other)),
        };
        let loops = join(&s.loops, |l: &Loop| {
            let kind = if l.kind == LoopKind::Reduce { "reduce " } else { "" };
            format!("{kind}{}: {}", var(&l.var), expr(&l.extent))
        });
        let body = match &s.body {
            StageBody::Map(value) => self.scalar(value),
            StageBody::Reduce {
                combiner,
                value,
                epilogue,
            } => {
                format!(
                    "reduce {}({}){}",
                    combiner.name(),
                    self.scalar(value),
                    then(epilogue)
                )
            }
            StageBody::Contract { a, b, epilogue } => {
                format!(
                    "contract({}, {}){}",
                    self.access(a),
                    self.access(b),
                    then(epilogue)
                )
            }
        };
        format!(
            "  for ({loops}) {{\n    {}[{}] = {body}\n  }}\n",
            self.name(s.output),
            exprs(&s.index)
        )
    }
}

/// The text of a tensor program.
pub fn print_program(p: &TensorProgram) -> String {
    let kind = p.kind.map_or(String::new(), |k| format!(" kind {}", k.name()));
    let mut out = format!(
        "program {}({}){kind} {{\n",
        sigil('@', &p.name),
        join(&p.sym_params, var)
    );
    for (
        _,
        Buffer {
            name,
            shape,
            dtype,
            role,
        },
    ) in p.buffers.iter()
    {
        let role = match role {
            BufferRole::Input => "input",
            BufferRole::Output => "output",
            BufferRole::Workspace => "workspace",
        };
        out.push_str(&format!("  {role} {}: {dtype}[{}]\n", bare(name), exprs(shape)));
    }
    let buffers = Buffers(p);
    p.stages.iter().for_each(|s| out.push_str(&buffers.stage(s)));
    out.push_str("}\n");
    out
}
