//! Index and scalar expressions as C text.

use crate::affine::{Ranges, mentions, stride, substitute_one};
use crate::stage_plan::{Typing, depends};
use relayout_ir::annotation::DType;
use relayout_ir::index::{Arena, Idx};
use relayout_ir::program::{Access, BinaryOp, Buffer, BufferId, Combiner, Scalar, Stage, UnaryOp};
use relayout_ir::sym::{Atom, SymExpr, SymVar};

/// The C identifier of a symbolic or loop variable.
pub fn var_name(v: &SymVar) -> String {
    let clean: String = v
        .name()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    format!("s_{clean}")
}

/// The C identifier of a buffer's pointer.
pub fn buffer_name(b: BufferId) -> String {
    format!("b{}", b.index())
}

/// The C type of an element in memory.
pub fn element_type(t: DType) -> &'static str {
    match t {
        DType::F32 => "f32",
        DType::F16 | DType::BF16 => "uint16_t",
        DType::I64 => "i64",
        DType::I32 => "int32_t",
        DType::I8 => "int8_t",
        DType::U8 | DType::Bool => "uint8_t",
    }
}

/// The C type in which a value is held: `f32` for every float type (rounded after each operation), `i64` for the others.
pub fn value_type(t: DType) -> &'static str {
    if t.is_float() { "f32" } else { "i64" }
}

/// An `i64` expression.
pub fn index_expr(e: &SymExpr, ranges: &Ranges) -> String {
    let mut out = String::new();
    // Variables first, the constant last, as in the text form.
    let terms: Vec<_> = e.terms().collect();
    let ordered = terms
        .iter()
        .filter(|(m, _)| !m.factors().is_empty())
        .chain(terms.iter().filter(|(m, _)| m.factors().is_empty()));
    for (i, (monomial, c)) in ordered.enumerate() {
        let negative = *c < 0;
        if i > 0 {
            out.push_str(if negative { " - " } else { " + " });
        } else if negative {
            out.push('-');
        }
        let mut parts: Vec<String> = Vec::new();
        for (atom, power) in monomial.factors() {
            for _ in 0..*power {
                parts.push(atom_expr(atom, ranges));
            }
        }
        let magnitude = c.unsigned_abs();
        if magnitude != 1 || parts.is_empty() {
            parts.push(if magnitude > i32::MAX as u64 {
                format!("{magnitude}LL")
            } else {
                magnitude.to_string()
            });
        }
        out.push_str(&parts.join("*"));
    }
    if out.is_empty() {
        out.push('0');
    }
    out
}

fn atom_expr(atom: &Atom, ranges: &Ranges) -> String {
    match atom {
        Atom::Var(v) => var_name(v),
        Atom::FloorDiv(e, d) => {
            let inner = index_expr(e, ranges);
            if ranges.non_negative(e) {
                format!("(({inner}) / {d})")
            } else {
                format!("fdiv({inner}, {d})")
            }
        }
        Atom::Mod(e, d) => {
            let inner = index_expr(e, ranges);
            if ranges.non_negative(e) {
                format!("(({inner}) % {d})")
            } else {
                format!("fmodi({inner}, {d})")
            }
        }
        Atom::Min(a, b) => format!("imin({}, {})", index_expr(a, ranges), index_expr(b, ranges)),
        Atom::Max(a, b) => format!("imax({}, {})", index_expr(a, ranges), index_expr(b, ranges)),
    }
}

/// A float literal that C reads back to the same value.
pub fn float_literal(x: f64) -> String {
    let x = x as f32;
    if x.is_nan() {
        "NAN".to_owned()
    } else if x.is_infinite() {
        if x > 0.0 {
            "INFINITY".to_owned()
        } else {
            "(-INFINITY)".to_owned()
        }
    } else {
        let text = format!("{x:?}f");
        if x.is_sign_negative() {
            format!("({text})")
        } else {
            text
        }
    }
}

/// Prints the scalars of one stage.
#[derive(Clone, Copy)]
pub struct Printer<'a> {
    /// The program's buffers.
    pub buffers: &'a Arena<BufferId, Buffer>,
    /// The stage, in normal form.
    pub stage: &'a Stage,
    /// Ranges of every variable in scope.
    pub ranges: &'a Ranges,
}

/// A value on vectors.
enum Vector {
    /// A vector of floats.
    Float(String),
    /// A vector of 0 and −1.
    Mask(String),
}

impl Printer<'_> {
    fn typing(&self) -> Typing<'_> {
        Typing {
            buffers: self.buffers,
            stage: self.stage,
        }
    }
    /// An `i64` expression.
    pub fn index(&self, e: &SymExpr) -> String {
        index_expr(e, self.ranges)
    }
    /// An element of a buffer as a value.
    pub fn load(&self, a: &Access) -> String {
        let at = a.index.first().map_or("0".to_owned(), |e| self.index(e));
        load_element(
            self.buffers[a.buffer].dtype,
            &format!("{}[{at}]", buffer_name(a.buffer)),
        )
    }
    /// Rounds or wraps an arithmetic result to a type.
    fn narrow(t: DType, e: String) -> String {
        narrow(t, e)
    }
    /// The statement that stores a value.
    pub fn store(&self, at: &str, value: &str) -> String {
        let t = self.buffers[self.stage.output].dtype;
        let value = match t {
            DType::F32 => value.to_owned(),
            DType::F16 => format!("f32_to_f16({value})"),
            DType::BF16 => format!("f32_to_bf16({value})"),
            _ => format!("({})({value})", element_type(t)),
        };
        format!("{}[{at}] = {value};", buffer_name(self.stage.output))
    }
    /// A scalar as a C expression of type `f32` or `i64`; `reduced` stands for what the reduction produced.
    pub fn scalar(&self, s: &Scalar, reduced: &str) -> String {
        let t = self.typing().of(s);
        match s {
            Scalar::Const(x, t) if t.is_float() => Self::narrow(*t, float_literal(*x)),
            Scalar::Const(x, t) => {
                let value = match t {
                    DType::Bool => i64::from(*x != 0.0),
                    DType::I32 => i64::from(*x as i32),
                    DType::I8 => i64::from(*x as i8),
                    DType::U8 => i64::from(*x as u8),
                    _ => *x as i64,
                };
                integer_literal(value)
            }
            Scalar::Load(a) => self.load(a),
            Scalar::Gather { buffer, index } => {
                let at = self.gather_offset(*buffer, index, reduced);
                load_element(
                    self.buffers[*buffer].dtype,
                    &format!("{}[{at}]", buffer_name(*buffer)),
                )
            }
            Scalar::Index(e) => format!("(i64)({})", self.index(e)),
            Scalar::Reduced => reduced.to_owned(),
            Scalar::Unary(op, a) => {
                let x = self.scalar(a, reduced);
                let float = self.typing().of(a).is_float();
                match (op, float) {
                    (UnaryOp::Not, true) => format!("(i64)(({x}) == 0.0f)"),
                    (UnaryOp::Not, false) => format!("(i64)(({x}) == 0)"),
                    (op, true) => Self::narrow(t, unary_float(*op, &x)),
                    (UnaryOp::Neg, false) => Self::narrow(t, format!("(0 - ({x}))")),
                    (UnaryOp::Abs, false) => Self::narrow(t, format!("iabs({x})")),
                    (_, false) => x,
                }
            }
            Scalar::Binary(op, a, b) => {
                let operand = self.typing().of(a);
                let (x, y) = (self.scalar(a, reduced), self.scalar(b, reduced));
                if operand.is_float() {
                    Self::narrow_float(t, binary_float(*op, &x, &y))
                } else {
                    let e = binary_int(*op, &x, &y);
                    match op {
                        BinaryOp::Add
                        | BinaryOp::Sub
                        | BinaryOp::Mul
                        | BinaryOp::Div
                        | BinaryOp::Mod
                        | BinaryOp::Pow => Self::narrow(t, e),
                        _ => e,
                    }
                }
            }
            Scalar::Select(c, a, b) => {
                let zero = if self.typing().of(c).is_float() {
                    "0.0f"
                } else {
                    "0"
                };
                format!(
                    "((({}) != {zero}) ? ({}) : ({}))",
                    self.scalar(c, reduced),
                    self.scalar(a, reduced),
                    self.scalar(b, reduced)
                )
            }
            Scalar::Cast(to, a) => {
                let x = self.scalar(a, reduced);
                match (self.typing().of(a).is_float(), to) {
                    (true, t) if t.is_float() => Self::narrow(*to, x),
                    (false, t) if t.is_float() => Self::narrow(*to, format!("(f32)({x})")),
                    (false, _) => Self::narrow(*to, x),
                    (true, DType::Bool) => format!("(i64)(({x}) != 0.0f)"),
                    (true, DType::I32) => format!("F2I32({x})"),
                    (true, DType::I8) => format!("F2I8({x})"),
                    (true, DType::U8) => format!("F2U8({x})"),
                    (true, _) => format!("F2I64({x})"),
                }
            }
        }
    }
    fn narrow_float(t: DType, e: String) -> String {
        if t == DType::Bool { e } else { Self::narrow(t, e) }
    }
    /// The element offset of a data-dependent load: every index clamped into its dimension.
    fn gather_offset(&self, buffer: BufferId, index: &[Scalar], reduced: &str) -> String {
        let shape = &self.buffers[buffer].shape;
        let strides = crate::affine::row_major_strides(shape);
        let parts: Vec<String> = index
            .iter()
            .zip(shape)
            .zip(&strides)
            .map(|((i, extent), s)| {
                format!(
                    "clampi({}, {}) * ({})",
                    self.scalar(i, reduced),
                    self.index(extent),
                    self.index(s)
                )
            })
            .collect();
        if parts.is_empty() {
            "0".to_owned()
        } else {
            parts.join(" + ")
        }
    }
    /// A scalar on `lanes` consecutive values of `v`, as a C expression of the vector type; `reduced` is a vector.
    pub fn vector(&self, s: &Scalar, v: &SymVar, lanes: usize, reduced: &str) -> String {
        match self.vector_value(s, v, lanes, reduced) {
            Vector::Float(e) => e,
            Vector::Mask(m) => format!("sel{lanes}({m}, VS{lanes}(1.0f), VS{lanes}(0.0f))"),
        }
    }
    fn vector_value(&self, s: &Scalar, v: &SymVar, lanes: usize, reduced: &str) -> Vector {
        if !depends(s, v) {
            return if self.typing().of(s) == DType::Bool {
                Vector::Mask(format!(
                    "((m{lanes}){{0}} - (int32_t)({}))",
                    self.scalar(s, reduced)
                ))
            } else {
                Vector::Float(format!("VS{lanes}({})", self.scalar(s, reduced)))
            };
        }
        let float = |this: &Self, s: &Scalar| this.vector(s, v, lanes, reduced);
        match s {
            Scalar::Reduced => Vector::Float(reduced.to_owned()),
            Scalar::Load(a) => Vector::Float(self.vector_load(a, v, lanes)),
            Scalar::Unary(op, a) => {
                let x = float(self, a);
                Vector::Float(match op {
                    UnaryOp::Neg => format!("(-({x}))"),
                    UnaryOp::Abs => format!("abs{lanes}({x})"),
                    UnaryOp::Exp => format!("exp{lanes}({x})"),
                    UnaryOp::Tanh => format!("tanh{lanes}({x})"),
                    UnaryOp::Erf => format!("erf{lanes}({x})"),
                    UnaryOp::Sigmoid => format!("sigmoid{lanes}({x})"),
                    UnaryOp::Sqrt => format!("each_sqrt{lanes}({x})"),
                    UnaryOp::Rsqrt => format!("(1.0f / each_sqrt{lanes}({x}))"),
                    UnaryOp::Log => format!("each_log{lanes}({x})"),
                    UnaryOp::Sin => format!("each_sin{lanes}({x})"),
                    UnaryOp::Cos => format!("each_cos{lanes}({x})"),
                    UnaryOp::Floor => format!("each_floor{lanes}({x})"),
                    UnaryOp::Ceil => format!("each_ceil{lanes}({x})"),
                    UnaryOp::Not => return self.lane_by_lane(s, v, lanes, reduced),
                })
            }
            Scalar::Binary(op, a, b) if self.typing().of(a) == DType::F32 => {
                let (x, y) = (float(self, a), float(self, b));
                match op {
                    BinaryOp::Add => Vector::Float(format!("({x} + {y})")),
                    BinaryOp::Sub => Vector::Float(format!("({x} - {y})")),
                    BinaryOp::Mul => Vector::Float(format!("({x} * {y})")),
                    BinaryOp::Div => Vector::Float(format!("({x} / {y})")),
                    BinaryOp::Min => Vector::Float(format!("min{lanes}({x}, {y})")),
                    BinaryOp::Max => Vector::Float(format!("max{lanes}({x}, {y})")),
                    BinaryOp::Pow => Vector::Float(format!("each_pow{lanes}({x}, {y})")),
                    BinaryOp::Mod => Vector::Float(format!("each_mod{lanes}({x}, {y})")),
                    BinaryOp::Less => Vector::Mask(format!("(m{lanes})({x} < {y})")),
                    BinaryOp::LessEqual => Vector::Mask(format!("(m{lanes})({x} <= {y})")),
                    BinaryOp::Equal => Vector::Mask(format!("(m{lanes})({x} == {y})")),
                    BinaryOp::And | BinaryOp::Or => self.lane_by_lane(s, v, lanes, reduced),
                }
            }
            Scalar::Select(c, a, b) if !depends(c, v) => Vector::Float(format!(
                "(({}) ? {} : {})",
                self.scalar(c, reduced),
                float(self, a),
                float(self, b)
            )),
            Scalar::Select(c, a, b) => match self.vector_value(c, v, lanes, reduced) {
                Vector::Mask(m) => {
                    Vector::Float(format!("sel{lanes}({m}, {}, {})", float(self, a), float(self, b)))
                }
                Vector::Float(_) => self.lane_by_lane(s, v, lanes, reduced),
            },
            _ => self.lane_by_lane(s, v, lanes, reduced),
        }
    }
    /// One scalar expression per lane: always right, rarely fast.
    fn lane_by_lane(&self, s: &Scalar, v: &SymVar, lanes: usize, reduced: &str) -> Vector {
        let parts: Vec<String> = (0..lanes)
            .map(|i| {
                let at = SymExpr::var(v) + SymExpr::constant(i as i64);
                let lane = crate::affine::map_scalar_indices(s, &mut |e| substitute_one(e, v, &at));
                self.scalar(&lane, &format!("({reduced})[{i}]"))
            })
            .collect();
        if self.typing().of(s) == DType::Bool {
            Vector::Mask(format!("(-(m{lanes}){{{}}})", parts.join(", ")))
        } else {
            Vector::Float(format!("(v{lanes}){{{}}}", parts.join(", ")))
        }
    }
    /// `lanes` elements along `v` as a vector: one load, a load of every second element, or lane by lane; a broadcast where
    /// the access does not vary.
    pub fn vector_load(&self, a: &Access, v: &SymVar, lanes: usize) -> String {
        let Some(e) = a.index.first() else {
            return "0".to_owned();
        };
        let pointer = format!("{} + ({})", buffer_name(a.buffer), self.index(e));
        if !mentions(e, v) {
            return format!("VS{lanes}({})", self.load(a));
        }
        let f32_data = self.buffers[a.buffer].dtype == DType::F32;
        match stride(e, v).and_then(|s| s.as_const()) {
            Some(1) if f32_data => format!("LD{lanes}({pointer})"),
            Some(2) if f32_data => format!("LD{lanes}_2({pointer})"),
            _ => {
                let parts: Vec<String> = (0..lanes)
                    .map(|i| {
                        let at = SymExpr::var(v) + SymExpr::constant(i as i64);
                        self.load(&Access {
                            buffer: a.buffer,
                            index: vec![substitute_one(e, v, &at)],
                        })
                    })
                    .collect();
                format!("(v{lanes}){{{}}}", parts.join(", "))
            }
        }
    }
}

pub(crate) fn load_element(t: DType, element: &str) -> String {
    match t {
        DType::F32 => element.to_owned(),
        DType::F16 => format!("f16_to_f32({element})"),
        DType::BF16 => format!("bf16_to_f32({element})"),
        _ => format!("(i64){element}"),
    }
}

fn integer_literal(value: i64) -> String {
    if value == i64::MIN {
        "INT64_MIN".to_owned()
    } else if value < 0 {
        format!("({value}LL)")
    } else {
        format!("{value}LL")
    }
}

fn unary_float(op: UnaryOp, x: &str) -> String {
    match op {
        UnaryOp::Neg => format!("(-({x}))"),
        UnaryOp::Abs => format!("fabsf({x})"),
        UnaryOp::Exp => format!("exp1({x})"),
        UnaryOp::Log => format!("logf({x})"),
        UnaryOp::Sqrt => format!("sqrtf({x})"),
        UnaryOp::Rsqrt => format!("(1.0f / sqrtf({x}))"),
        UnaryOp::Tanh => format!("tanh1({x})"),
        UnaryOp::Erf => format!("erf1({x})"),
        UnaryOp::Sigmoid => format!("sigmoid1({x})"),
        UnaryOp::Sin => format!("sinf({x})"),
        UnaryOp::Cos => format!("cosf({x})"),
        UnaryOp::Floor => format!("floorf({x})"),
        UnaryOp::Ceil => format!("ceilf({x})"),
        UnaryOp::Not => format!("(i64)(({x}) == 0.0f)"),
    }
}

fn binary_float(op: BinaryOp, x: &str, y: &str) -> String {
    match op {
        BinaryOp::Add => format!("({x} + {y})"),
        BinaryOp::Sub => format!("({x} - {y})"),
        BinaryOp::Mul => format!("({x} * {y})"),
        BinaryOp::Div => format!("({x} / {y})"),
        BinaryOp::Min => format!("fmins({x}, {y})"),
        BinaryOp::Max => format!("fmaxs({x}, {y})"),
        BinaryOp::Pow => format!("powf({x}, {y})"),
        BinaryOp::Mod => format!("fmods({x}, {y})"),
        BinaryOp::Less => format!("(i64)({x} < {y})"),
        BinaryOp::LessEqual => format!("(i64)({x} <= {y})"),
        BinaryOp::Equal => format!("(i64)({x} == {y})"),
        BinaryOp::And => format!("(i64)(({x}) != 0.0f && ({y}) != 0.0f)"),
        BinaryOp::Or => format!("(i64)(({x}) != 0.0f || ({y}) != 0.0f)"),
    }
}

fn binary_int(op: BinaryOp, x: &str, y: &str) -> String {
    match op {
        BinaryOp::Add => format!("({x} + {y})"),
        BinaryOp::Sub => format!("({x} - {y})"),
        BinaryOp::Mul => format!("({x} * {y})"),
        BinaryOp::Div => format!("idivt({x}, {y})"),
        BinaryOp::Mod => format!("imods({x}, {y})"),
        BinaryOp::Pow => format!("ipow({x}, {y})"),
        BinaryOp::Min => format!("imin({x}, {y})"),
        BinaryOp::Max => format!("imax({x}, {y})"),
        BinaryOp::Less => format!("(i64)({x} < {y})"),
        BinaryOp::LessEqual => format!("(i64)({x} <= {y})"),
        BinaryOp::Equal => format!("(i64)({x} == {y})"),
        BinaryOp::And => format!("(i64)(({x}) != 0 && ({y}) != 0)"),
        BinaryOp::Or => format!("(i64)(({x}) != 0 || ({y}) != 0)"),
    }
}

/// What a reduction starts from, as a C expression.
pub fn identity(combiner: Combiner, t: DType) -> &'static str {
    match (combiner, t) {
        (Combiner::Sum, t) if t.is_float() => "0.0f",
        (Combiner::Prod, t) if t.is_float() => "1.0f",
        (Combiner::Max, t) if t.is_float() => "(-INFINITY)",
        (Combiner::Min, t) if t.is_float() => "INFINITY",
        (Combiner::Sum, _) => "0LL",
        (Combiner::Prod, _) => "1LL",
        (Combiner::Max, DType::I64) => "INT64_MIN",
        (Combiner::Max, DType::I32) => "(i64)INT32_MIN",
        (Combiner::Max, DType::I8) => "(-128LL)",
        (Combiner::Max, _) => "0LL",
        (Combiner::Min, DType::I64) => "INT64_MAX",
        (Combiner::Min, DType::I32) => "(i64)INT32_MAX",
        (Combiner::Min, DType::I8) => "127LL",
        (Combiner::Min, DType::U8) => "255LL",
        (Combiner::Min, _) => "1LL",
    }
}

/// `acc` combined with a value, as a C expression of the value's type.
pub fn combine(combiner: Combiner, t: DType, acc: &str, value: &str) -> String {
    let e = match (combiner, t.is_float()) {
        (Combiner::Sum, _) => format!("{acc} + {value}"),
        (Combiner::Prod, _) => format!("{acc} * {value}"),
        (Combiner::Max, true) => format!("fmaxs({acc}, {value})"),
        (Combiner::Min, true) => format!("fmins({acc}, {value})"),
        (Combiner::Max, false) => format!("imax({acc}, {value})"),
        (Combiner::Min, false) => format!("imin({acc}, {value})"),
    };
    Printer::narrow(t, e)
}

/// The same on vectors.
pub fn combine_vectors(combiner: Combiner, lanes: usize, acc: &str, value: &str) -> String {
    match combiner {
        Combiner::Sum => format!("{acc} + {value}"),
        Combiner::Prod => format!("{acc} * {value}"),
        Combiner::Max => format!("max{lanes}({acc}, {value})"),
        Combiner::Min => format!("min{lanes}({acc}, {value})"),
    }
}

/// The function that combines the lanes of a vector.
pub fn horizontal(combiner: Combiner) -> &'static str {
    match combiner {
        Combiner::Sum => "hsum",
        Combiner::Prod => "hprod",
        Combiner::Max => "hmax",
        Combiner::Min => "hmin",
    }
}

/// Rounds or wraps an arithmetic result to a type.
pub(crate) fn narrow(t: DType, e: String) -> String {
    match t {
        DType::F32 | DType::I64 => e,
        DType::F16 => format!("RF16({e})"),
        DType::BF16 => format!("RBF16({e})"),
        DType::I32 => format!("(i64)(int32_t)({e})"),
        DType::I8 => format!("(i64)(int8_t)({e})"),
        DType::U8 => format!("(i64)(uint8_t)({e})"),
        DType::Bool => format!("(i64)(({e}) != 0)"),
    }
}
