//! Elementwise operators of two operands, with broadcasting. One row of [`BINARY`] holds an operator's definition for the
//! reference interpreter beside its tensor-program expression.

use super::check::{Accepts, OpName, Reader, arity, broadcast, result, same_dtype, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;

/// One elementwise operator of two operands.
pub(super) struct Binary {
    name: OpName,
    accepts: Accepts,
    gives_bool: bool,
}

const fn arithmetic(name: OpName, accepts: Accepts) -> Binary {
    Binary {
        name,
        accepts,
        gives_bool: false,
    }
}

const fn predicate(name: OpName, accepts: Accepts) -> Binary {
    Binary {
        name,
        accepts,
        gives_bool: true,
    }
}

static BINARY: &[Binary] = &[
    arithmetic("add", Accepts::Number),
    arithmetic("sub", Accepts::Number),
    arithmetic("mul", Accepts::Number),
    arithmetic("div", Accepts::Number),
    arithmetic("pow", Accepts::Float),
    arithmetic("minimum", Accepts::Number),
    arithmetic("maximum", Accepts::Number),
    arithmetic("mod", Accepts::Number),
    predicate("less", Accepts::Number),
    predicate("less_equal", Accepts::Number),
    predicate("greater", Accepts::Number),
    predicate("greater_equal", Accepts::Number),
    predicate("equal", Accepts::Any),
    predicate("not_equal", Accepts::Any),
    predicate("logical_and", Accepts::Bool),
    predicate("logical_or", Accepts::Bool),
];

/// The operators of this family.
pub(super) fn operators() -> impl Iterator<Item = &'static dyn Operator> {
    BINARY.iter().map(|b| b as &dyn Operator)
}

impl Operator for Binary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name, args.len(), 2..=2)?;
        Reader::new(self.name, attrs, &[])?;
        let a = tensor(self.name, args, 0, self.accepts)?;
        let b = tensor(self.name, args, 1, self.accepts)?;
        let dtype = same_dtype(self.name, &[(0, &a), (1, &b)])?;
        let shape = broadcast(self.name, &[(0, &a.shape), (1, &b.shape)])?;
        Ok(result(
            shape,
            if self.gives_bool { Some(DType::Bool) } else { dtype },
        ))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
