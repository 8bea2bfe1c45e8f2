//! The one printer of register tiles: named accumulators, broadcast scalar times vector, the epilogue applied to the
//! accumulators before they are stored. Contractions, reductions, dot products and maps are the same tile with different bodies.

use crate::affine::{self, Ranges, mentions, stride, substitute_one};
use crate::codegen::c::{
    Printer, buffer_name, combine, combine_vectors, element_type, horizontal, identity, var_name,
};
use crate::stage_plan::{RegisterDim, StagePlan, Typing, Vectors};
use relayout_ir::annotation::DType;
use relayout_ir::index::Arena;
use relayout_ir::program::{Access, BinaryOp, Buffer, BufferId, Combiner, Loop, Scalar, Stage, StageBody};
use relayout_ir::sym::{SymExpr, SymVar};

/// Indented C text.
#[derive(Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// Text that starts at an indentation depth.
    pub fn at(depth: usize) -> Self {
        Text {
            out: String::new(),
            depth,
        }
    }
    /// One line.
    pub fn line(&mut self, text: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }
    /// A line that opens a block.
    pub fn open(&mut self, text: impl AsRef<str>) {
        self.line(format!("{} {{", text.as_ref()));
        self.depth += 1;
    }
    /// Closes a block.
    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }
    /// The text.
    pub fn into_string(self) -> String {
        self.out
    }
}

/// How many consecutive elements of the vector loop a tile position stands for, with the tile's shape.
#[derive(Clone)]
struct Shape {
    /// Scalar register loops: variable and distances.
    dims: Vec<RegisterDim>,
    /// The vector loop: variable, distances of its vectors, lanes; `None` in scalar code.
    vector: Option<(RegisterDim, usize)>,
}

/// A register of the tile: its name's suffix and what each register loop's variable is displaced by.
struct Register {
    suffix: String,
    shift: Vec<(SymVar, i64)>,
}

impl Shape {
    fn registers(&self) -> Vec<Register> {
        let mut out = vec![Register {
            suffix: String::new(),
            shift: Vec::new(),
        }];
        let dims = self.dims.iter().chain(self.vector.iter().map(|(d, _)| d));
        for d in dims {
            out = out
                .iter()
                .flat_map(|r| {
                    d.offsets.iter().enumerate().map(move |(i, offset)| {
                        let mut shift = r.shift.clone();
                        shift.push((d.var.clone(), *offset));
                        Register {
                            suffix: format!("{}_{i}", r.suffix),
                            shift,
                        }
                    })
                })
                .collect();
        }
        out
    }
}

fn shifted(e: &SymExpr, shift: &[(SymVar, i64)]) -> SymExpr {
    shift
        .iter()
        .filter(|(_, by)| *by != 0)
        .fold(e.clone(), |e, (v, by)| {
            substitute_one(&e, v, &(SymExpr::var(v) + SymExpr::constant(*by)))
        })
}

fn shifted_scalar(s: &Scalar, shift: &[(SymVar, i64)]) -> Scalar {
    affine::map_scalar_indices(s, &mut |e| shifted(e, shift))
}

/// Prints one stage inside its phase: the loops outside the tile, then the tile with its remainders. `ranges` has the
/// parameters and the phase's shared loops.
pub fn print_stage(
    plan: &StagePlan,
    buffers: &Arena<BufferId, Buffer>,
    ranges: &Ranges,
    parallel: &[SymVar],
    text: &mut Text,
) {
    let stage = &plan.stage;
    let inside = ranges.with_loops(&stage.loops);
    let printer = Printer {
        buffers,
        stage,
        ranges: &inside,
    };
    // Loops that the tile covers whole have no loop of their own.
    for l in &stage.loops {
        let elsewhere = plan.outer.iter().any(|i| i.var == l.var)
            || parallel.contains(&l.var)
            || plan.reduce.iter().any(|r| r.var == l.var);
        if !elsewhere {
            text.line(format!("const i64 {} = 0;", var_name(&l.var)));
        }
    }
    let mut opened = 0;
    for (position, item) in plan.outer.iter().enumerate() {
        let name = var_name(&item.var);
        let extent = printer.index(&item.extent);
        let innermost = position + 1 == plan.outer.len();
        if innermost && item.step == 1 && plan.vectors == Vectors::None {
            if let Some(guarded) = guarded_copy(plan, &item.var) {
                print_guarded(&guarded, item, &printer, text);
                for _ in 0..opened {
                    text.close();
                }
                return;
            }
            if plan.reduce.is_empty() {
                text.line("#pragma GCC ivdep");
            }
        }
        if item.step == 1 {
            text.open(format!("for (i64 {name} = 0; {name} < {extent}; ++{name})"));
        } else {
            text.open(format!(
                "for (i64 {name}_t = 0; {name}_t < {extent}; {name}_t += {})",
                item.step
            ));
            text.line(format!(
                "i64 {name} = {};",
                tile_start(&format!("{name}_t"), item.extent.as_const(), item.step)
            ));
        }
        opened += 1;
    }
    print_tile(plan, &printer, text);
    for _ in 0..opened {
        text.close();
    }
}

/// A map `if conditions { inside } else { outside }` whose conditions are bounds on the innermost loop variable or don't depend
/// on it: padding.
struct Guarded<'a> {
    /// Conditions without the variable.
    outer: Vec<&'a Scalar>,
    /// The variable is at least each of these.
    low: Vec<SymExpr>,
    /// The variable is below each of these.
    high: Vec<SymExpr>,
    inside: &'a Scalar,
    outside: &'a Scalar,
}

fn guarded_copy<'a>(plan: &'a StagePlan, x: &SymVar) -> Option<Guarded<'a>> {
    let StageBody::Map(Scalar::Select(condition, inside, outside)) = &plan.stage.body else {
        return None;
    };
    let mut guarded = Guarded {
        outer: Vec::new(),
        low: Vec::new(),
        high: Vec::new(),
        inside,
        outside,
    };
    let mut pending: Vec<&Scalar> = vec![condition];
    while let Some(c) = pending.pop() {
        match c {
            Scalar::Binary(BinaryOp::And, a, b) => pending.extend([&**b, &**a]),
            c if !crate::stage_plan::depends(c, x) => guarded.outer.push(c),
            Scalar::Binary(op @ (BinaryOp::Less | BinaryOp::LessEqual), a, b) => {
                let (Scalar::Index(a), Scalar::Index(b)) = (&**a, &**b) else {
                    return None;
                };
                // slack > 0, or slack ≥ 0.
                let slack = b.clone() - a.clone();
                let strict = SymExpr::constant(i64::from(*op == BinaryOp::Less));
                let rest = substitute_one(&slack, x, &SymExpr::zero());
                match stride(&slack, x)?.as_const()? {
                    1 => guarded.low.push(strict - rest),
                    -1 => guarded.high.push(rest + SymExpr::constant(1) - strict),
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    let bounded = !(guarded.low.is_empty() && guarded.high.is_empty() && guarded.outer.is_empty());
    bounded.then_some(guarded)
}

/// The innermost loop in three pieces, none of which has a branch.
fn print_guarded(g: &Guarded<'_>, item: &crate::stage_plan::Item, printer: &Printer<'_>, text: &mut Text) {
    let (name, extent) = (var_name(&item.var), printer.index(&item.extent));
    let bound = |start: &str, f: &str, es: &[SymExpr]| {
        es.iter().fold(start.to_owned(), |acc, e| {
            format!("{f}({acc}, {})", printer.index(e))
        })
    };
    text.line(format!(
        "i64 low = imin({}, {extent});",
        bound("0", "imax", &g.low)
    ));
    text.line(format!(
        "i64 high = imax({}, low);",
        bound(&extent, "imin", &g.high)
    ));
    if !g.outer.is_empty() {
        let conditions: Vec<String> = g
            .outer
            .iter()
            .map(|c| format!("({}) != 0", printer.scalar(c, "0")))
            .collect();
        text.line(format!(
            "if (!({})) low = high = {extent};",
            conditions.join(" && ")
        ));
    }
    let at = printer.index(&printer.stage.index[0]);
    for (from, to, value) in [
        ("0", "low", g.outside),
        ("low", "high", g.inside),
        ("high", &*extent, g.outside),
    ] {
        text.line("#pragma GCC ivdep");
        text.open(format!("for (i64 {name} = {from}; {name} < {to}; ++{name})"));
        text.line(printer.store(&at, &printer.scalar(value, "0")));
        text.close();
    }
}

/// The start of a tile from the multiple of the step: moved back inside a constant extent (the overlap is computed twice, to
/// the same values).
pub fn tile_start(at: &str, extent: Option<i64>, step: i64) -> String {
    match extent {
        Some(e) if e % step != 0 => format!("imin({at}, {})", e - step),
        _ => at.to_owned(),
    }
}

/// The tile, with remainder code for tiled loops of symbolic extent.
fn print_tile(plan: &StagePlan, printer: &Printer<'_>, text: &mut Text) {
    if let Vectors::Transpose {
        along_output,
        along_input,
        lanes,
    } = &plan.vectors
    {
        print_square(plan, printer, (along_output, along_input, *lanes), text);
        return;
    }
    let shape = Shape {
        dims: plan.dims.clone(),
        vector: match &plan.vectors {
            Vectors::Spatial { dim, lanes } => Some((dim.clone(), *lanes)),
            _ => None,
        },
    };
    let mut symbolic: Vec<(SymVar, SymExpr, i64)> = Vec::new();
    let extent_of = |v: &SymVar| {
        plan.stage
            .loops
            .iter()
            .find(|l| l.var == *v)
            .map(|l| l.extent.clone())
    };
    for d in &shape.dims {
        if let Some(e) = extent_of(&d.var).filter(|e| e.as_const().is_none()) {
            symbolic.push((d.var.clone(), e, d.offsets.len() as i64));
        }
    }
    if let Some((d, lanes)) = &shape.vector
        && let Some(e) = extent_of(&d.var).filter(|e| e.as_const().is_none())
    {
        symbolic.push((d.var.clone(), e, (d.offsets.len() * lanes) as i64));
    }
    print_remainders(plan, printer, shape, &symbolic, text);
}

fn print_remainders(
    plan: &StagePlan,
    printer: &Printer<'_>,
    shape: Shape,
    symbolic: &[(SymVar, SymExpr, i64)],
    text: &mut Text,
) {
    let Some(((var, extent, size), rest)) = symbolic.split_first() else {
        print_body(plan, printer, &shape, text);
        return;
    };
    if *size == 1 {
        print_remainders(plan, printer, shape, rest, text);
        return;
    }
    let (name, extent) = (var_name(var), printer.index(extent));
    text.open(format!("if ({name} + {size} <= {extent})"));
    print_remainders(plan, printer, shape.clone(), rest, text);
    text.close();
    let mut single = shape.clone();
    let vector = single
        .vector
        .as_ref()
        .filter(|(d, _)| d.var == *var)
        .map(|(d, l)| (d.offsets.len(), *l));
    // The remainder walks a variable of its own and shadows the tile's start, which enclosing tile loops still need.
    let next = format!("{name}_n");
    text.open("else");
    text.line(format!("i64 {next} = {name};"));
    match vector {
        Some((count, lanes)) => {
            if count > 1 {
                if let Some((d, _)) = &mut single.vector {
                    d.offsets = vec![0];
                }
                text.open(format!("for (; {next} + {lanes} <= {extent}; {next} += {lanes})"));
                text.line(format!("const i64 {name} = {next};"));
                print_remainders(plan, printer, single.clone(), rest, text);
                text.close();
            }
            single.vector = None;
        }
        None => {
            for d in single.dims.iter_mut().filter(|d| d.var == *var) {
                d.offsets = vec![0];
            }
        }
    }
    text.open(format!("for (; {next} < {extent}; ++{next})"));
    text.line(format!("const i64 {name} = {next};"));
    print_remainders(plan, printer, single, rest, text);
    text.close();
    text.close();
}

/// One square of a transposing copy; at the ends of symbolic extents element by element.
fn print_square(
    plan: &StagePlan,
    printer: &Printer<'_>,
    (v, w, lanes): (&SymVar, &SymVar, usize),
    text: &mut Text,
) {
    let StageBody::Map(Scalar::Load(a)) = &plan.stage.body else {
        return;
    };
    let (from, to) = (&a.index[0], &plan.stage.index[0]);
    let (source, target) = (buffer_name(a.buffer), buffer_name(plan.stage.output));
    let symbolic: Vec<(String, String)> = [v, w]
        .into_iter()
        .filter_map(|x| {
            let l = plan.stage.loops.iter().find(|l| l.var == *x)?;
            (l.extent.as_const().is_none()).then(|| (var_name(x), printer.index(&l.extent)))
        })
        .collect();
    let whole: Vec<String> = symbolic
        .iter()
        .map(|(x, e)| format!("{x} + {lanes} <= {e}"))
        .collect();
    text.open(if whole.is_empty() {
        String::new()
    } else {
        format!("if ({})", whole.join(" && "))
    });
    for i in 0..lanes {
        let at = printer.index(&shifted(from, &[(v.clone(), i as i64)]));
        text.line(format!("v{lanes} t{i} = LD{lanes}({source} + ({at}));"));
    }
    // Blocks of half, a quarter, … of the side change places.
    let mut half = lanes / 2;
    while half > 0 {
        for i in (0..lanes).filter(|i| i & half == 0) {
            text.line(format!("SWAP{lanes}_{half}(t{i}, t{});", i + half));
        }
        half /= 2;
    }
    for i in 0..lanes {
        let at = printer.index(&shifted(to, &[(w.clone(), i as i64)]));
        text.line(format!("ST{lanes}({target} + ({at}), t{i});"));
    }
    text.close();
    if symbolic.is_empty() {
        return;
    }
    text.open("else");
    let (vn, wn) = (var_name(v), var_name(w));
    for (x, name) in [(v, &vn), (w, &wn)] {
        let extent = plan
            .stage
            .loops
            .iter()
            .find(|l| l.var == *x)
            .map(|l| printer.index(&l.extent));
        let end = format!("imin({name} + {lanes}, {})", extent.unwrap_or_default());
        text.open(format!(
            "for (i64 {name}_n = {name}, {name}_e = {end}; {name}_n < {name}_e; ++{name}_n)"
        ));
    }
    text.line(format!("const i64 {vn} = {vn}_n, {wn} = {wn}_n;"));
    text.line(printer.store(&printer.index(to), &printer.load(a)));
    text.close();
    text.close();
    text.close();
}

fn print_body(plan: &StagePlan, printer: &Printer<'_>, shape: &Shape, text: &mut Text) {
    match &plan.stage.body {
        StageBody::Map(value) => print_map(plan, printer, shape, value, text),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => print_reduction(
            plan,
            printer,
            shape,
            *combiner,
            &Value::Scalar(value),
            epilogue,
            text,
        ),
        StageBody::Contract { a, b, epilogue } => {
            print_reduction(
                plan,
                printer,
                shape,
                Combiner::Sum,
                &Value::Product(a, b),
                epilogue,
                text,
            );
        }
    }
}

/// What is combined.
enum Value<'a> {
    Scalar(&'a Scalar),
    Product(&'a Access, &'a Access),
}

/// Stores one register's value.
fn print_store(
    stage: &Stage,
    printer: &Printer<'_>,
    shape: &Shape,
    register: &Register,
    value: &Scalar,
    reduced: &str,
    text: &mut Text,
) {
    let at = printer.index(&shifted(&stage.index[0], &register.shift));
    let value = shifted_scalar(value, &register.shift);
    match &shape.vector {
        Some((d, lanes)) => {
            let value = printer.vector(&value, &d.var, *lanes, reduced);
            text.line(format!(
                "ST{lanes}({} + ({at}), {value});",
                buffer_name(stage.output)
            ));
        }
        None => text.line(printer.store(&at, &printer.scalar(&value, reduced))),
    }
}

fn print_map(plan: &StagePlan, printer: &Printer<'_>, shape: &Shape, value: &Scalar, text: &mut Text) {
    for register in shape.registers() {
        print_store(&plan.stage, printer, shape, &register, value, "0", text);
    }
}

fn print_reduction(
    plan: &StagePlan,
    printer: &Printer<'_>,
    shape: &Shape,
    combiner: Combiner,
    value: &Value<'_>,
    epilogue: &Scalar,
    text: &mut Text,
) {
    let registers = shape.registers();
    let dot = match &plan.vectors {
        Vectors::Reduction { var, lanes, unroll } => Some((var.clone(), *lanes, *unroll)),
        _ => None,
    };
    let t = Typing {
        buffers: printer.buffers,
        stage: printer.stage,
    }
    .reduced();
    text.open("");
    let lanes = shape.vector.as_ref().map(|(_, l)| *l);
    for r in &registers {
        match lanes {
            Some(l) => text.line(format!(
                "v{l} acc{} = VS{l}({});",
                r.suffix,
                identity(combiner, t)
            )),
            None => text.line(format!(
                "{} acc{} = {};",
                crate::codegen::c::value_type(t),
                r.suffix,
                identity(combiner, t)
            )),
        }
        if let Some((_, l, unroll)) = &dot {
            for q in 0..*unroll {
                text.line(format!(
                    "v{l} part{}_{q} = VS{l}({});",
                    r.suffix,
                    identity(combiner, t)
                ));
            }
        }
    }
    let (outer, inner): (Vec<Loop>, Option<Loop>) = match &dot {
        Some((var, ..)) => (
            plan.reduce.iter().filter(|l| l.var != *var).cloned().collect(),
            plan.reduce.iter().find(|l| l.var == *var).cloned(),
        ),
        None => (plan.reduce.clone(), None),
    };
    // Factors are addressed from pointers that each reduction loop advances, so that the innermost addresses are constants.
    let mut factors: Vec<Factor> = match value {
        Value::Product(a, b) => vec![Factor::new("pa", a), Factor::new("pb", b)],
        Value::Scalar(_) => Vec::new(),
    };
    let walked: Vec<&Loop> = outer.iter().chain(&inner).collect();
    for f in &mut factors {
        f.start(&walked, printer, text);
    }
    for (depth, l) in outer.iter().enumerate() {
        let name = var_name(&l.var);
        let extent = printer.index(&l.extent);
        // A short innermost loop is a kernel's columns; unrolling more only spills.
        if depth + 1 == outer.len() && l.extent.as_const().is_some_and(|e| e <= 4) {
            text.line("#pragma GCC unroll 4");
        }
        text.open(format!("for (i64 {name} = 0; {name} < {extent}; ++{name})"));
        for f in &mut factors {
            f.advance(l, printer, text);
        }
    }
    match (&dot, &inner) {
        (Some((var, lanes, unroll)), Some(l)) => {
            print_dot_steps(
                printer,
                shape,
                &registers,
                combiner,
                value,
                &factors,
                (var, *lanes, *unroll),
                l,
                text,
            );
        }
        _ => print_step(printer, shape, &registers, combiner, value, &factors, t, text),
    }
    for _ in &outer {
        text.close();
    }
    for r in &registers {
        if let Some((_, l, unroll)) = &dot {
            for q in 0..*unroll {
                let part = format!("{}{l}(part{}_{q})", horizontal(combiner), r.suffix);
                let acc = format!("acc{}", r.suffix);
                text.line(format!("{acc} = {};", combine(combiner, t, &acc, &part)));
            }
        }
        print_store(
            &plan.stage,
            printer,
            shape,
            r,
            epilogue,
            &format!("acc{}", r.suffix),
            text,
        );
    }
    text.close();
}

/// One step of the reductions: every accumulator combined with its value.
#[allow(clippy::too_many_arguments)] // one printer call; a struct of these would be built for this call only
fn print_step(
    printer: &Printer<'_>,
    shape: &Shape,
    registers: &[Register],
    combiner: Combiner,
    value: &Value<'_>,
    factors: &[Factor],
    t: DType,
    text: &mut Text,
) {
    let lanes = shape.vector.as_ref().map(|(_, l)| *l);
    match value {
        Value::Scalar(value) => {
            for r in registers {
                let value = shifted_scalar(value, &r.shift);
                let acc = format!("acc{}", r.suffix);
                let e = match &shape.vector {
                    Some((d, l)) => {
                        combine_vectors(combiner, *l, &acc, &printer.vector(&value, &d.var, *l, "0"))
                    }
                    None => combine(combiner, t, &acc, &printer.scalar(&value, "0")),
                };
                text.line(format!("{acc} = {e};"));
            }
        }
        Value::Product(..) => {
            // Keeps the compiler from moving loads of several unrolled steps together, which spills the accumulators: the
            // premise test measured 31 against 91 GFLOP/s on a 7×7 window.
            text.line("FENCE;");
            let mut names: Vec<Vec<String>> = Vec::new();
            let mut declared: Vec<String> = Vec::new();
            for (i, f) in factors.iter().enumerate() {
                let mut of_register = Vec::new();
                for r in registers {
                    let (key, along) = f.key(r, shape);
                    let name = format!("f{i}{key}");
                    if !declared.contains(&name) {
                        declared.push(name.clone());
                        let (ty, e) = match (&shape.vector, along) {
                            (Some((d, l)), true) => (format!("v{l}"), f.vector(r, &d.var, *l, printer)),
                            _ => (crate::codegen::c::value_type(t).to_owned(), f.scalar(r, printer)),
                        };
                        // A vector that several accumulators use stays in a register: as a memory operand of every multiply-add
                        // it would be loaded once for each.
                        if along && shape.vector.is_some() {
                            text.line(format!("{ty} {name} = {e};"));
                            text.line(format!("KEEP({name});"));
                        } else {
                            text.line(format!("const {ty} {name} = {e};"));
                        }
                    }
                    of_register.push(name);
                }
                names.push(of_register);
            }
            for (k, r) in registers.iter().enumerate() {
                let acc = format!("acc{}", r.suffix);
                let product = format!("{} * {}", names[0][k], names[1][k]);
                let e = if lanes.is_some() {
                    format!("{acc} + {product}")
                } else {
                    combine(Combiner::Sum, t, &acc, &crate::codegen::c::narrow(t, product))
                };
                text.line(format!("{acc} = {e};"));
            }
        }
    }
}

/// The contiguous reduction of a dot form: whole vectors, then a scalar tail.
#[allow(clippy::too_many_arguments)]
fn print_dot_steps(
    printer: &Printer<'_>,
    shape: &Shape,
    registers: &[Register],
    combiner: Combiner,
    value: &Value<'_>,
    factors: &[Factor],
    (var, lanes, unroll): (&SymVar, usize, usize),
    l: &Loop,
    text: &mut Text,
) {
    let (name, extent) = (var_name(var), printer.index(&l.extent));
    text.line(format!("i64 {name} = 0;"));
    let widths: &[usize] = if unroll > 1 { &[unroll, 1] } else { &[1] };
    for &count in widths {
        let step = count * lanes;
        text.open(format!("for (; {name} + {step} <= {extent}; {name} += {step})"));
        for q in 0..count {
            let by = (q * lanes) as i64;
            match value {
                Value::Scalar(value) => {
                    for r in registers {
                        let mut shift = r.shift.clone();
                        shift.push((var.clone(), by));
                        let value = shifted_scalar(value, &shift);
                        let part = format!("part{}_{q}", r.suffix);
                        let e =
                            combine_vectors(combiner, lanes, &part, &printer.vector(&value, var, lanes, "0"));
                        text.line(format!("{part} = {e};"));
                    }
                }
                Value::Product(..) => {
                    let mut declared: Vec<String> = Vec::new();
                    for r in registers {
                        let mut names = Vec::new();
                        for (i, f) in factors.iter().enumerate() {
                            let (key, _) = f.key(r, shape);
                            let name = format!("f{i}{key}_{q}");
                            if !declared.contains(&name) {
                                declared.push(name.clone());
                                text.line(format!(
                                    "const v{lanes} {name} = {};",
                                    f.dot_vector(r, var, by, lanes, printer)
                                ));
                            }
                            names.push(name);
                        }
                        let part = format!("part{}_{q}", r.suffix);
                        text.line(format!("{part} = {part} + {} * {};", names[0], names[1]));
                    }
                }
            }
        }
        text.close();
    }
    text.open(format!("for (; {name} < {extent}; ++{name})"));
    for r in registers {
        let acc = format!("acc{}", r.suffix);
        let e = match value {
            Value::Scalar(value) => combine(
                combiner,
                DType::F32,
                &acc,
                &printer.scalar(&shifted_scalar(value, &r.shift), "0"),
            ),
            Value::Product(..) => {
                let products: Vec<String> = factors.iter().map(|f| f.tail(r, var, printer)).collect();
                format!("{acc} + {}", products.join(" * "))
            }
        };
        text.line(format!("{acc} = {e};"));
    }
    text.close();
}

/// A factor of a contraction while its loops are printed.
struct Factor {
    /// The name of its current pointer.
    pointer: String,
    base: &'static str,
    level: usize,
    access: Access,
    /// What remains to be added to the pointer: the offset's part over variables that the pointer has not absorbed.
    rest: SymExpr,
}

impl Factor {
    fn new(base: &'static str, access: &Access) -> Self {
        Factor {
            pointer: buffer_name(access.buffer),
            base,
            level: 0,
            access: access.clone(),
            rest: access.index.first().cloned().unwrap_or_default(),
        }
    }
    /// Declares the pointer at the tile's start if the offset is affine in every reduction loop.
    fn start(&mut self, walked: &[&Loop], printer: &Printer<'_>, text: &mut Text) {
        let affine = walked.iter().all(|l| stride(&self.rest, &l.var).is_some());
        if !affine {
            return;
        }
        let at = walked.iter().fold(self.rest.clone(), |e, l| {
            substitute_one(&e, &l.var, &SymExpr::zero())
        });
        let ty = element_type(printer.buffers[self.access.buffer].dtype);
        text.line(format!(
            "const {ty} *{} = {} + ({});",
            self.base,
            self.pointer,
            printer.index(&at)
        ));
        self.pointer = self.base.to_owned();
        // The tile's displacements are taken from the whole offset; `rest` keeps what the loops still add.
        self.rest = self.rest.clone() - at;
        self.level = 1;
    }
    /// Declares the pointer of one reduction loop's iteration.
    fn advance(&mut self, l: &Loop, printer: &Printer<'_>, text: &mut Text) {
        if self.level == 0 {
            return;
        }
        let Some(s) = stride(&self.rest, &l.var) else {
            return;
        };
        if s == SymExpr::zero() {
            return;
        }
        let ty = element_type(printer.buffers[self.access.buffer].dtype);
        let next = format!("{}{}", self.base, self.level);
        text.line(format!(
            "const {ty} *{next} = {} + {} * ({});",
            self.pointer,
            var_name(&l.var),
            printer.index(&s)
        ));
        self.pointer = next;
        self.level += 1;
        self.rest = substitute_one(&self.rest, &l.var, &SymExpr::zero());
    }
    /// The register loops that this factor varies with, as a name, and whether it varies along the vector loop.
    fn key(&self, r: &Register, shape: &Shape) -> (String, bool) {
        let whole = self.access.index.first().cloned().unwrap_or_default();
        let mut key = String::new();
        let dims = shape.dims.iter().chain(shape.vector.iter().map(|(d, _)| d));
        for ((v, by), d) in r.shift.iter().zip(dims) {
            if mentions(&whole, v) {
                let i = d.offsets.iter().position(|o| o == by).unwrap_or(0);
                key.push_str(&format!("_{i}"));
            } else {
                key.push_str("_x");
            }
        }
        let along = shape
            .vector
            .as_ref()
            .is_some_and(|(d, _)| mentions(&whole, &d.var));
        (key, along)
    }
    /// The displacement of a register from the pointer.
    fn displacement(&self, r: &Register) -> SymExpr {
        let whole = self.access.index.first().cloned().unwrap_or_default();
        self.rest.clone() + (shifted(&whole, &r.shift) - whole)
    }
    fn element(&self, at: &SymExpr, printer: &Printer<'_>) -> String {
        crate::codegen::c::load_element(
            printer.buffers[self.access.buffer].dtype,
            &format!("{}[{}]", self.pointer, printer.index(at)),
        )
    }
    fn scalar(&self, r: &Register, printer: &Printer<'_>) -> String {
        self.element(&self.displacement(r), printer)
    }
    fn vector(&self, r: &Register, v: &SymVar, lanes: usize, printer: &Printer<'_>) -> String {
        let whole = self.access.index.first().cloned().unwrap_or_default();
        let at = printer.index(&self.displacement(r));
        match stride(&whole, v).and_then(|s| s.as_const()) {
            Some(2) => format!("LD{lanes}_2({} + ({at}))", self.pointer),
            _ => format!("LD{lanes}({} + ({at}))", self.pointer),
        }
    }
    /// A vector along the reduction `var`, displaced by `by`; a broadcast where the factor does not vary with it.
    fn dot_vector(&self, r: &Register, var: &SymVar, by: i64, lanes: usize, printer: &Printer<'_>) -> String {
        let at = substitute_one(
            &self.displacement(r),
            var,
            &(SymExpr::var(var) + SymExpr::constant(by)),
        );
        let whole = self.access.index.first().cloned().unwrap_or_default();
        if mentions(&whole, var) {
            format!("LD{lanes}({} + ({}))", self.pointer, printer.index(&at))
        } else {
            format!("VS{lanes}({})", self.element(&at, printer))
        }
    }
    fn tail(&self, r: &Register, _var: &SymVar, printer: &Printer<'_>) -> String {
        self.element(&self.displacement(r), printer)
    }
}
