//! Symbolic expressions as postfix bytecode over a table of integer slots.
//!
//! The compiler erases annotations and leaves the integers that the program still needs (sizes, offsets, extents, guards) as
//! expressions over one table of `i64` per function call: the integer host tensor of the Relax paper (§3.4.9 of the review).
//! Evaluation is checked (overflow and division by zero are errors, never wrapped values) and allocates nothing once the
//! caller's [`EvalStack`] has grown.

use crate::index::Slot;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One bytecode operation. Binary operations pop the right operand first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ExprOp {
    /// Pushes a constant.
    Const(i64),
    /// Pushes a slot's value.
    Slot(Slot),
    /// a + b.
    Add,
    /// a − b.
    Sub,
    /// a · b.
    Mul,
    /// ⌊a / b⌋ (towards minus infinity).
    FloorDiv,
    /// a − b·⌊a / b⌋; has the sign of b.
    Mod,
    /// The smaller of two.
    Min,
    /// The larger of two.
    Max,
    /// 1 when a < b, else 0.
    Less,
    /// 1 when a ≤ b, else 0.
    LessEqual,
    /// 1 when a = b, else 0.
    Equal,
    /// 1 when a ≠ b, else 0.
    NotEqual,
    /// 1 when both are non-zero, else 0.
    And,
    /// 1 when either is non-zero, else 0.
    Or,
    /// 1 when a is zero, else 0.
    Not,
}

impl ExprOp {
    /// (values popped, values pushed).
    fn arity(self) -> (usize, usize) {
        match self {
            ExprOp::Const(_) | ExprOp::Slot(_) => (0, 1),
            ExprOp::Not => (1, 1),
            _ => (2, 1),
        }
    }
}

/// A postfix expression; the result is the one value left on the stack.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Expr {
    ops: Vec<ExprOp>,
}

/// Why an expression is malformed or could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// Nothing to evaluate.
    #[error("an expression without operations")]
    Empty,
    /// An operation needs more values than the stack holds.
    #[error("operation {at} pops {pops} values from a stack of {depth}")]
    Underflow {
        /// Position in the bytecode.
        at: usize,
        /// How many values it pops.
        pops: usize,
        /// How many there are.
        depth: usize,
    },
    /// More or fewer than one value remains.
    #[error("{depth} values are left on the stack; an expression leaves one")]
    Leftover {
        /// How many remain.
        depth: usize,
    },
    /// Deeper than [`Expr::MAX_DEPTH`].
    #[error("the expression needs a stack of more than {limit} values")]
    Depth {
        /// The limit.
        limit: usize,
    },
    /// A slot that the function does not have, or that is not set yet.
    #[error("slot {slot} of {slots}")]
    Slot {
        /// The slot named.
        slot: Slot,
        /// How many slots there are.
        slots: usize,
    },
    /// A value does not fit in 64 bits.
    #[error("{op:?} of {left} and {right} overflows 64 bits")]
    Overflow {
        /// The operation.
        op: ExprOp,
        /// Left operand.
        left: i64,
        /// Right operand.
        right: i64,
    },
    /// Division or modulo by zero.
    #[error("{op:?} of {left} by zero")]
    DivideByZero {
        /// The operation.
        op: ExprOp,
        /// Left operand.
        left: i64,
    },
}

/// Reusable working memory of evaluation.
#[derive(Debug, Default, Clone)]
pub struct EvalStack(Vec<i64>);

impl EvalStack {
    /// An empty stack; it grows once to the deepest expression evaluated.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Expr {
    /// The deepest stack that a valid expression may need.
    pub const MAX_DEPTH: usize = 256;

    /// An expression from bytecode, unchecked: [`Expr::validate`] and the module's validation check it.
    pub fn from_ops(ops: Vec<ExprOp>) -> Self {
        Expr { ops }
    }
    /// A constant.
    pub fn constant(value: i64) -> Self {
        Expr {
            ops: vec![ExprOp::Const(value)],
        }
    }
    /// A slot's value.
    pub fn slot(slot: Slot) -> Self {
        Expr {
            ops: vec![ExprOp::Slot(slot)],
        }
    }
    /// `op` applied to two expressions.
    pub fn binary(op: ExprOp, left: Expr, right: Expr) -> Self {
        let mut ops = left.ops;
        ops.extend(right.ops);
        ops.push(op);
        Expr { ops }
    }
    /// 1 when `operand` is zero, else 0.
    pub fn negation(operand: Expr) -> Self {
        let mut ops = operand.ops;
        ops.push(ExprOp::Not);
        Expr { ops }
    }
    /// The bytecode.
    pub fn ops(&self) -> &[ExprOp] {
        &self.ops
    }
    /// The value when the expression is a single constant.
    pub fn as_constant(&self) -> Option<i64> {
        match self.ops[..] {
            [ExprOp::Const(value)] => Some(value),
            _ => None,
        }
    }
    /// The slots read, with repetitions.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.ops.iter().filter_map(|op| match op {
            ExprOp::Slot(slot) => Some(*slot),
            _ => None,
        })
    }

    /// Checks stack discipline and that every slot is below `slots`.
    ///
    /// # Errors
    /// The first fault, in bytecode order.
    pub fn validate(&self, slots: usize) -> Result<(), ExprError> {
        if self.ops.is_empty() {
            return Err(ExprError::Empty);
        }
        let mut depth = 0usize;
        for (at, op) in self.ops.iter().enumerate() {
            if let ExprOp::Slot(slot) = *op
                && slot.index() >= slots
            {
                return Err(ExprError::Slot { slot, slots });
            }
            let (pops, pushes) = op.arity();
            if pops > depth {
                return Err(ExprError::Underflow { at, pops, depth });
            }
            depth = depth - pops + pushes;
            if depth > Self::MAX_DEPTH {
                return Err(ExprError::Depth {
                    limit: Self::MAX_DEPTH,
                });
            }
        }
        if depth != 1 {
            return Err(ExprError::Leftover { depth });
        }
        Ok(())
    }

    /// The value over `slots`. Linear in the bytecode; allocates only while `stack` grows.
    ///
    /// # Errors
    /// Overflow, division by zero; and, for expressions that were never validated, malformed bytecode.
    pub fn eval(&self, slots: &[i64], stack: &mut EvalStack) -> Result<i64, ExprError> {
        let slot_value = |slot: Slot| {
            slots.get(slot.index()).copied().ok_or(ExprError::Slot {
                slot,
                slots: slots.len(),
            })
        };
        // Most expressions of a static model are one constant, of a dynamic one a constant or a variable.
        match self.ops[..] {
            [ExprOp::Const(value)] => return Ok(value),
            [ExprOp::Slot(slot)] => return slot_value(slot),
            _ => {}
        }
        let values = &mut stack.0;
        values.clear();
        for (at, op) in self.ops.iter().enumerate() {
            let value = match *op {
                ExprOp::Const(value) => value,
                ExprOp::Slot(slot) => slot_value(slot)?,
                ExprOp::Not => {
                    let a = pop(values, at, 1)?;
                    i64::from(a == 0)
                }
                op => {
                    let b = pop(values, at, 2)?;
                    let a = pop(values, at, 2)?;
                    apply(op, a, b)?
                }
            };
            values.push(value);
        }
        match values[..] {
            [value] => Ok(value),
            [] => Err(ExprError::Empty),
            _ => Err(ExprError::Leftover { depth: values.len() }),
        }
    }
}

fn pop(values: &mut Vec<i64>, at: usize, pops: usize) -> Result<i64, ExprError> {
    let depth = values.len();
    values.pop().ok_or(ExprError::Underflow { at, pops, depth })
}

fn apply(op: ExprOp, left: i64, right: i64) -> Result<i64, ExprError> {
    let overflow = ExprError::Overflow { op, left, right };
    match op {
        ExprOp::Add => left.checked_add(right).ok_or(overflow),
        ExprOp::Sub => left.checked_sub(right).ok_or(overflow),
        ExprOp::Mul => left.checked_mul(right).ok_or(overflow),
        ExprOp::FloorDiv | ExprOp::Mod if right == 0 => Err(ExprError::DivideByZero { op, left }),
        ExprOp::FloorDiv => {
            let quotient = left.checked_div(right).ok_or(overflow)?;
            // Truncation and floor differ by one when the signs differ and the division is not exact.
            Ok(quotient - i64::from(left % right != 0 && (left < 0) != (right < 0)))
        }
        ExprOp::Mod => {
            let remainder = left.checked_rem(right).unwrap_or(0);
            Ok(if remainder != 0 && (remainder < 0) != (right < 0) {
                remainder + right
            } else {
                remainder
            })
        }
        ExprOp::Min => Ok(left.min(right)),
        ExprOp::Max => Ok(left.max(right)),
        ExprOp::Less => Ok(i64::from(left < right)),
        ExprOp::LessEqual => Ok(i64::from(left <= right)),
        ExprOp::Equal => Ok(i64::from(left == right)),
        ExprOp::NotEqual => Ok(i64::from(left != right)),
        ExprOp::And => Ok(i64::from(left != 0 && right != 0)),
        ExprOp::Or => Ok(i64::from(left != 0 || right != 0)),
        ExprOp::Const(_) | ExprOp::Slot(_) | ExprOp::Not => Ok(left),
    }
}

impl fmt::Display for Expr {
    /// Infix with full parentheses; malformed bytecode prints as its operations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stack: Vec<String> = Vec::new();
        for op in &self.ops {
            let text = match op {
                ExprOp::Const(value) => value.to_string(),
                ExprOp::Slot(slot) => slot.to_string(),
                ExprOp::Not => match stack.pop() {
                    Some(a) => format!("!{a}"),
                    None => return write!(f, "{:?}", self.ops),
                },
                op => {
                    let (Some(b), Some(a)) = (stack.pop(), stack.pop()) else {
                        return write!(f, "{:?}", self.ops);
                    };
                    match op {
                        ExprOp::Min => format!("min({a}, {b})"),
                        ExprOp::Max => format!("max({a}, {b})"),
                        op => format!("({a} {} {b})", symbol(*op)),
                    }
                }
            };
            stack.push(text);
        }
        match &stack[..] {
            [text] => f.write_str(text),
            _ => write!(f, "{:?}", self.ops),
        }
    }
}

fn symbol(op: ExprOp) -> &'static str {
    match op {
        ExprOp::Add => "+",
        ExprOp::Sub => "-",
        ExprOp::Mul => "*",
        ExprOp::FloorDiv => "//",
        ExprOp::Mod => "%",
        ExprOp::Less => "<",
        ExprOp::LessEqual => "<=",
        ExprOp::Equal => "==",
        ExprOp::NotEqual => "!=",
        ExprOp::And => "&&",
        ExprOp::Or => "||",
        _ => "?",
    }
}
