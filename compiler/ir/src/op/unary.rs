//! Elementwise operators of one operand. One row of [`UNARY`] holds an operator's definition for the reference interpreter
//! beside its tensor-program expression.

use super::check::{Accepts, OpName, Reader, arity, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::Annotation;
use crate::graph::Attrs;

/// Up to two numeric attributes of an elementwise operator.
pub(super) type Params = [f64; 2];

/// One elementwise operator of one operand.
pub(super) struct Unary {
    name: OpName,
    accepts: Accepts,
    attrs: &'static [&'static str],
    params: fn(&Reader<'_>) -> Result<Params, OpError>,
}

fn no_params(_: &Reader<'_>) -> Result<Params, OpError> {
    Ok([0.0; 2])
}

const fn plain(name: OpName, accepts: Accepts) -> Unary {
    Unary {
        name,
        accepts,
        attrs: &[],
        params: no_params,
    }
}

static UNARY: &[Unary] = &[
    plain("neg", Accepts::Number),
    plain("abs", Accepts::Number),
    plain("exp", Accepts::Float),
    plain("log", Accepts::Float),
    plain("sqrt", Accepts::Float),
    plain("rsqrt", Accepts::Float),
    plain("tanh", Accepts::Float),
    plain("erf", Accepts::Float),
    plain("sigmoid", Accepts::Float),
    plain("relu", Accepts::Number),
    plain("silu", Accepts::Float),
    plain("sin", Accepts::Float),
    plain("cos", Accepts::Float),
    plain("floor", Accepts::Float),
    plain("ceil", Accepts::Float),
    plain("reciprocal", Accepts::Float),
    plain("hard_swish", Accepts::Float),
    plain("logical_not", Accepts::Bool),
    plain("identity", Accepts::Any),
    Unary {
        name: "gelu",
        accepts: Accepts::Float,
        attrs: &["approximate"],
        params: |r| {
            Ok([
                f64::from(u8::from(r.word("approximate", &["none", "tanh"])? == "tanh")),
                0.0,
            ])
        },
    },
    Unary {
        name: "leaky_relu",
        accepts: Accepts::Float,
        attrs: &["alpha"],
        params: |r| Ok([r.float("alpha")?, 0.0]),
    },
    Unary {
        name: "hard_sigmoid",
        accepts: Accepts::Float,
        attrs: &["alpha", "beta"],
        params: |r| Ok([r.float("alpha")?, r.float("beta")?]),
    },
    Unary {
        name: "clip",
        accepts: Accepts::Number,
        attrs: &["min", "max"],
        params: |r| Ok([r.float("min")?, r.float("max")?]),
    },
];

/// The operators of this family.
pub(super) fn operators() -> impl Iterator<Item = &'static dyn Operator> {
    UNARY.iter().map(|u| u as &dyn Operator)
}

impl Operator for Unary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name, args.len(), 1..=1)?;
        let x = tensor(self.name, args, 0, self.accepts)?;
        (self.params)(&Reader::new(self.name, attrs, self.attrs)?)?;
        Ok(result(x.shape, x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
