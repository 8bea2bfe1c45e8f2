//! Relations between annotations: what a call returns, and when two annotations agree.
//!
//! Symbolic relations cross function boundaries only through signatures (Relax §3.4.3, figure 7): a call matches the callee's
//! parameter annotations against the arguments' annotations, which gives the callee's variables values in terms of the caller's,
//! and substitutes these in the callee's result annotation. Where an argument is too coarse, so is the result.

use crate::annotation::{Annotation, ShapeInfo, TensorInfo};
use crate::graph::{GraphFunction, SymDecl};
use crate::prove::{Proof, Prover};
use crate::sym::{SymExpr, SymVar};
use crate::text::print_annotation;
use std::collections::BTreeMap;

/// A function's annotations, as its callers see them.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// Symbolic variables of the callee.
    pub syms: Vec<SymDecl>,
    /// Parameters.
    pub params: Vec<Annotation>,
    /// Result.
    pub result: Annotation,
}

/// Why arguments don't fit a signature, or annotations contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelationError {
    /// Wrong number of arguments.
    #[error("takes {expected} arguments, found {found}")]
    Arity {
        /// How many it takes.
        expected: usize,
        /// How many are given.
        found: usize,
    },
    /// Annotations that no value can have both.
    #[error("{place}: expected {expected}, found {found}")]
    Mismatch {
        /// Which argument, or what else.
        place: String,
        /// One.
        expected: String,
        /// The other.
        found: String,
    },
    /// A dimension provably outside the range that the callee declares.
    #[error("{place}: `{var}` is declared in {range}, found {found}")]
    Range {
        /// Which argument.
        place: String,
        /// The callee's variable.
        var: SymVar,
        /// Its range.
        range: String,
        /// The caller's expression.
        found: String,
    },
}

impl Signature {
    /// The signature of a function; `None` when it names values that don't exist.
    pub fn of(function: &GraphFunction) -> Option<Signature> {
        let annotation = |v| function.values.get(v).map(|v| v.annotation.clone());
        Some(Signature {
            syms: function.syms.clone(),
            params: function
                .params
                .iter()
                .map(|p| annotation(*p))
                .collect::<Option<_>>()?,
            result: annotation(function.result)?,
        })
    }

    /// The annotation of a call with these arguments, under the caller's declared ranges. Layouts are those of the callee's
    /// result.
    ///
    /// # Errors
    /// When an argument provably does not fit its parameter.
    pub fn call(&self, args: &[&Annotation], caller: &Prover) -> Result<Annotation, RelationError> {
        if args.len() != self.params.len() {
            return Err(RelationError::Arity {
                expected: self.params.len(),
                found: args.len(),
            });
        }
        let mut binding = BTreeMap::new();
        for (param, arg) in self.params.iter().zip(args) {
            self.bind(param, arg, &mut binding);
        }
        for (position, (param, arg)) in self.params.iter().zip(args).enumerate() {
            let place = format!("argument {position}");
            let expected = substitute(param, &binding);
            compatible(&expected, arg, caller).map_err(|()| RelationError::Mismatch {
                place: place.clone(),
                expected: print_annotation(&expected),
                found: print_annotation(arg),
            })?;
            self.check_ranges(&place, param, &binding, caller)?;
        }
        Ok(substitute(&self.result, &binding))
    }

    /// Gives every variable of the callee that is alone in a dimension the argument's dimension; the first one counts.
    fn bind(&self, param: &Annotation, arg: &Annotation, binding: &mut BTreeMap<SymVar, SymExpr>) {
        let mut dims = |param: &ShapeInfo, arg: &ShapeInfo| {
            for (p, a) in param.dims().unwrap_or(&[]).iter().zip(arg.dims().unwrap_or(&[])) {
                if let Some(var) = p.as_var().filter(|v| self.syms.iter().any(|d| d.var == **v)) {
                    binding.entry(var.clone()).or_insert_with(|| a.clone());
                }
            }
        };
        match (param, arg) {
            (Annotation::Shape(p), Annotation::Shape(a)) => dims(p, a),
            (Annotation::Tensor(p), Annotation::Tensor(a)) => dims(&p.shape, &a.shape),
            (Annotation::Tuple(ps), Annotation::Tuple(args)) => {
                ps.iter().zip(args).for_each(|(p, a)| self.bind(p, a, binding));
            }
            _ => {}
        }
    }

    fn check_ranges(
        &self,
        place: &str,
        param: &Annotation,
        binding: &BTreeMap<SymVar, SymExpr>,
        caller: &Prover,
    ) -> Result<(), RelationError> {
        let mut vars = std::collections::BTreeSet::new();
        for_each_dim(param, &mut |d| d.collect_vars(&mut vars));
        for d in self.syms.iter().filter(|d| vars.contains(&d.var)) {
            let Some(found) = binding.get(&d.var) else {
                continue;
            };
            let (low, high) = caller.bounds(found);
            let above = d.high.is_some_and(|limit| low.is_some_and(|l| l > limit));
            if above || high.is_some_and(|h| h < d.low) {
                let end = d.high.map_or(String::new(), |h| format!("={h}"));
                return Err(RelationError::Range {
                    place: place.to_owned(),
                    var: d.var.clone(),
                    range: format!("{}..{end}", d.low),
                    found: found.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// Calls `f` on every dimension in an annotation.
pub(crate) fn for_each_dim(annotation: &Annotation, f: &mut dyn FnMut(&SymExpr)) {
    match annotation {
        Annotation::Object => {}
        Annotation::Shape(shape) | Annotation::Tensor(TensorInfo { shape, .. }) => {
            shape.dims().unwrap_or(&[]).iter().for_each(f);
        }
        Annotation::Tuple(items) => items.iter().for_each(|i| for_each_dim(i, f)),
        Annotation::Callable(params, result) => {
            params.iter().for_each(|p| for_each_dim(p, f));
            for_each_dim(result, f);
        }
    }
}

/// Replaces the callee's variables; shapes with a variable that has no value are known by rank only.
fn substitute(annotation: &Annotation, binding: &BTreeMap<SymVar, SymExpr>) -> Annotation {
    let shape = |s: &ShapeInfo| match s {
        ShapeInfo::Known(dims) => {
            if dims
                .iter()
                .flat_map(SymExpr::vars)
                .all(|v| binding.contains_key(&v))
            {
                ShapeInfo::Known(
                    dims.iter()
                        .map(|d| d.substitute(&|v| binding.get(v).cloned()))
                        .collect(),
                )
            } else {
                ShapeInfo::Rank(dims.len())
            }
        }
        coarse => coarse.clone(),
    };
    match annotation {
        Annotation::Object => Annotation::Object,
        Annotation::Shape(s) => Annotation::Shape(shape(s)),
        Annotation::Tensor(t) => Annotation::Tensor(TensorInfo {
            shape: shape(&t.shape),
            ..t.clone()
        }),
        Annotation::Tuple(items) => Annotation::Tuple(items.iter().map(|i| substitute(i, binding)).collect()),
        Annotation::Callable(params, result) => Annotation::Callable(
            params.iter().map(|p| substitute(p, binding)).collect(),
            Box::new(substitute(result, binding)),
        ),
    }
}

/// Whether some value may have both annotations; `Err` only if that is provably not so. Layouts are not compared.
pub(crate) fn compatible(a: &Annotation, b: &Annotation, prover: &Prover) -> Result<(), ()> {
    let shapes = |a: &ShapeInfo, b: &ShapeInfo| match (a.rank(), b.rank()) {
        (Some(x), Some(y)) if x != y => Err(()),
        _ => match (a.dims(), b.dims()) {
            (Some(x), Some(y))
                if x.iter()
                    .zip(y)
                    .any(|(x, y)| prover.equal(x, y) == Proof::Different) =>
            {
                Err(())
            }
            _ => Ok(()),
        },
    };
    match (a, b) {
        (Annotation::Object, _) | (_, Annotation::Object) => Ok(()),
        (Annotation::Shape(a), Annotation::Shape(b)) => shapes(a, b),
        (Annotation::Tensor(a), Annotation::Tensor(b)) => {
            if a.dtype.zip(b.dtype).is_some_and(|(x, y)| x != y) {
                return Err(());
            }
            shapes(&a.shape, &b.shape)
        }
        (Annotation::Tuple(a), Annotation::Tuple(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| compatible(a, b, prover))
        }
        (Annotation::Callable(ap, ar), Annotation::Callable(bp, br)) if ap.len() == bp.len() => {
            ap.iter()
                .zip(bp)
                .try_for_each(|(a, b)| compatible(a, b, prover))?;
            compatible(ar, br, prover)
        }
        _ => Err(()),
    }
}

/// Whether every value with annotation `known` provably has annotation `claimed`. Layouts are not compared.
pub(crate) fn implies(known: &Annotation, claimed: &Annotation, prover: &Prover) -> bool {
    let shapes = |known: &ShapeInfo, claimed: &ShapeInfo| match claimed {
        ShapeInfo::Unknown => true,
        ShapeInfo::Rank(rank) => known.rank() == Some(*rank),
        ShapeInfo::Known(claimed) => known.dims().is_some_and(|known| {
            known.len() == claimed.len()
                && known
                    .iter()
                    .zip(claimed)
                    .all(|(k, c)| prover.equal(k, c) == Proof::Equal)
        }),
    };
    match (known, claimed) {
        (_, Annotation::Object) => true,
        (Annotation::Shape(k), Annotation::Shape(c)) => shapes(k, c),
        (Annotation::Tensor(k), Annotation::Tensor(c)) => {
            (c.dtype.is_none() || c.dtype == k.dtype) && shapes(&k.shape, &c.shape)
        }
        (Annotation::Tuple(k), Annotation::Tuple(c)) => {
            k.len() == c.len() && k.iter().zip(c).all(|(k, c)| implies(k, c, prover))
        }
        (Annotation::Callable(kp, kr), Annotation::Callable(cp, cr)) => {
            kp.len() == cp.len()
                && kp.iter().zip(cp).all(|(k, c)| implies(c, k, prover))
                && implies(kr, cr, prover)
        }
        _ => false,
    }
}
