//! Integer tensors of rank 0 or 1 whose elements are symbolic: what `Shape` gives for dynamic dimensions, and the arithmetic that
//! exporters do on it.

use relayout_ir::sym::{Atom, SymExpr, product};

/// A scalar or vector of symbolic integers.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SymVector {
    pub(super) items: Vec<SymExpr>,
    pub(super) scalar: bool,
}

impl SymVector {
    pub(super) fn vector(items: Vec<SymExpr>) -> Self {
        SymVector { items, scalar: false }
    }
    /// All elements, when they are constants.
    pub(super) fn constants(&self) -> Option<Vec<i64>> {
        self.items.iter().map(SymExpr::as_const).collect()
    }
    /// Elementwise with broadcasting of one element; `None` when the lengths differ or the operator can't be applied.
    pub(super) fn zip(
        &self,
        other: &SymVector,
        f: impl Fn(&SymExpr, &SymExpr) -> Option<SymExpr>,
    ) -> Option<SymVector> {
        let length = self.items.len().max(other.items.len());
        let pick = |v: &SymVector, i: usize| match v.items.len() {
            1 => v.items.first().cloned(),
            n if n == length => v.items.get(i).cloned(),
            _ => None,
        };
        let items = (0..length)
            .map(|i| f(&pick(self, i)?, &pick(other, i)?))
            .collect::<Option<Vec<_>>>()?;
        Some(SymVector {
            items,
            scalar: self.scalar && other.scalar,
        })
    }
}

fn atom(atom: &Atom) -> SymExpr {
    match atom {
        Atom::Var(v) => SymExpr::var(v),
        Atom::FloorDiv(e, d) => e.floor_div(*d),
        Atom::Mod(e, d) => e.modulo(*d),
        Atom::Min(a, b) => a.minimum(b),
        Atom::Max(a, b) => a.maximum(b),
    }
}

/// `numerator / denominator` when it is exact term by term and the denominator is one monomial; dimensions are positive.
pub(super) fn divide_exact(numerator: &SymExpr, denominator: &SymExpr) -> Option<SymExpr> {
    if numerator == denominator {
        return Some(SymExpr::constant(1));
    }
    let mut terms = denominator.terms();
    let (monomial, coefficient) = terms.next()?;
    if terms.next().is_some() || coefficient == 0 {
        return None;
    }
    let mut quotient = SymExpr::zero();
    for (m, c) in numerator.terms() {
        if c % coefficient != 0 {
            return None;
        }
        let mut powers: Vec<(Atom, u32)> = m.factors().to_vec();
        for (a, power) in monomial.factors() {
            let (_, have) = powers.iter_mut().find(|(b, _)| b == a)?;
            *have = have.checked_sub(*power)?;
        }
        let factors: Vec<SymExpr> = powers
            .iter()
            .flat_map(|(a, power)| std::iter::repeat_n(atom(a), *power as usize))
            .collect();
        quotient = quotient + SymExpr::constant(c / coefficient) * product(&factors);
    }
    Some(quotient)
}

/// `a / b` of shape arithmetic: exact, or the floor by a positive constant.
pub(super) fn divide(a: &SymExpr, b: &SymExpr) -> Option<SymExpr> {
    match b.as_const() {
        Some(d) if d > 0 => Some(a.floor_div(d)),
        Some(_) => None,
        None => divide_exact(a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_division_cancels_variables_and_coefficients() {
        let (n, s) = (SymExpr::named("n"), SymExpr::named("s"));
        let whole = n.clone() * s.clone() * SymExpr::from(64i64);
        assert_eq!(
            divide_exact(&whole, &(n.clone() * SymExpr::from(16i64))),
            Some(s.clone() * SymExpr::from(4i64))
        );
        assert_eq!(divide_exact(&whole, &SymExpr::from(48i64)), None);
        assert_eq!(divide_exact(&n, &s), None);
        assert_eq!(divide_exact(&n, &(n.clone() + s)), None);
    }
}
