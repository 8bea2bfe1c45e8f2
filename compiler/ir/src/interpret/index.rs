//! Index expressions compiled to slots of loop variables.
//!
//! A [`SymExpr`] is a map of maps; evaluating it per element would dominate everything. Compiled, an affine index costs one
//! multiply-add per variable, and its exact range over a box of loops is known before the loops start.

use crate::sym::{Atom, SymExpr, SymVar};

/// A compiled index expression.
#[derive(Debug, Clone)]
pub(super) enum IndexCode {
    /// base + Σ coefficient · slot.
    Affine { base: i64, terms: Vec<(usize, i64)> },
    /// Σ coefficient · Π factors.
    General(Vec<(i64, Vec<Factor>)>),
}

/// A factor of a general monomial.
#[derive(Debug, Clone)]
pub(super) enum Factor {
    Slot(usize),
    FloorDiv(Box<IndexCode>, i64),
    Mod(Box<IndexCode>, i64),
    Min(Box<IndexCode>, Box<IndexCode>),
    Max(Box<IndexCode>, Box<IndexCode>),
}

impl IndexCode {
    /// Compiles over the variables that `slot` knows; the error is an unknown variable.
    pub(super) fn compile(
        expr: &SymExpr,
        slot: &dyn Fn(&SymVar) -> Option<usize>,
    ) -> Result<IndexCode, SymVar> {
        let (mut base, mut terms, mut general, mut is_affine) = (0, Vec::new(), Vec::new(), true);
        for (monomial, coefficient) in expr.terms() {
            let mut factors = Vec::new();
            for (atom, power) in monomial.factors() {
                let factor = match atom {
                    Atom::Var(v) => Factor::Slot(slot(v).ok_or_else(|| v.clone())?),
                    Atom::FloorDiv(e, d) => Factor::FloorDiv(Box::new(Self::compile(e, slot)?), *d),
                    Atom::Mod(e, d) => Factor::Mod(Box::new(Self::compile(e, slot)?), *d),
                    Atom::Min(a, b) => Factor::Min(
                        Box::new(Self::compile(a, slot)?),
                        Box::new(Self::compile(b, slot)?),
                    ),
                    Atom::Max(a, b) => Factor::Max(
                        Box::new(Self::compile(a, slot)?),
                        Box::new(Self::compile(b, slot)?),
                    ),
                };
                factors.extend(std::iter::repeat_n(factor, *power as usize));
            }
            match factors.as_slice() {
                [] => base = coefficient,
                [Factor::Slot(s)] => terms.push((*s, coefficient)),
                _ => is_affine = false,
            }
            general.push((coefficient, factors));
        }
        Ok(if is_affine {
            IndexCode::Affine { base, terms }
        } else {
            IndexCode::General(general)
        })
    }

    /// The value; `None` when it leaves 64 bits.
    pub(super) fn eval(&self, slots: &[i64]) -> Option<i64> {
        match self {
            IndexCode::Affine { base, terms } => terms.iter().try_fold(*base, |sum, (slot, c)| {
                sum.checked_add(slots[*slot].checked_mul(*c)?)
            }),
            IndexCode::General(monomials) => monomials.iter().try_fold(0i64, |sum, (c, factors)| {
                let product = factors
                    .iter()
                    .try_fold(*c, |p, f| p.checked_mul(f.eval(slots)?))?;
                sum.checked_add(product)
            }),
        }
    }

    /// Smallest and largest value of an affine index over slots in `0..extent` (extents ≥ 1).
    pub(super) fn affine_range(&self, extents: &[i64]) -> Option<(i64, i64)> {
        let IndexCode::Affine { base, terms } = self else {
            return None;
        };
        terms.iter().try_fold((*base, *base), |(low, high), (slot, c)| {
            let end = extents[*slot].checked_sub(1)?.checked_mul(*c)?;
            Some((low.checked_add(end.min(0))?, high.checked_add(end.max(0))?))
        })
    }
}

impl Factor {
    fn eval(&self, slots: &[i64]) -> Option<i64> {
        Some(match self {
            Factor::Slot(s) => slots[*s],
            Factor::FloorDiv(e, d) => e.eval(slots)?.div_euclid(*d),
            Factor::Mod(e, d) => e.eval(slots)?.rem_euclid(*d),
            Factor::Min(a, b) => a.eval(slots)?.min(b.eval(slots)?),
            Factor::Max(a, b) => a.eval(slots)?.max(b.eval(slots)?),
        })
    }
}

/// Advances an odometer over `slots` with the last one fastest; false when it wraps around to all zeros.
pub(super) fn advance(values: &mut [i64], slots: &[usize], extents: &[i64]) -> bool {
    for &slot in slots.iter().rev() {
        values[slot] += 1;
        if values[slot] < extents[slot] {
            return true;
        }
        values[slot] = 0;
    }
    false
}
