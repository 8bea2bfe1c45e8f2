//! Simplification of index expressions under the ranges of their variables.
//!
//! Indices of blocked layouts are sums of loop variables on one side and quotients and remainders on the other;
//! `(i1*16 + i4) // 16` is `i1` when `0 ≤ i4 < 16`. The canonical form of [`SymExpr`] already moves the multiples of a divisor out of
//! a quotient; what is added here is the knowledge of ranges.

use crate::graph::SymDecl;
use crate::sym::{Atom, Monomial, SymExpr, SymVar};
use std::collections::BTreeMap;

/// Inclusive bounds; `None` is unbounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Lower end.
    pub low: Option<i64>,
    /// Upper end.
    pub high: Option<i64>,
}

impl Interval {
    const UNBOUNDED: Interval = Interval {
        low: None,
        high: None,
    };

    fn point(value: i64) -> Self {
        Interval {
            low: Some(value),
            high: Some(value),
        }
    }
    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<i64>, b: Option<i64>| a?.checked_add(b?);
        Interval {
            low: sum(self.low, other.low),
            high: sum(self.high, other.high),
        }
    }
    fn times(self, other: Self) -> Self {
        if let (Some(a), Some(b), Some(c), Some(d)) = (self.low, self.high, other.low, other.high) {
            let products = [(a, c), (a, d), (b, c), (b, d)].map(|(x, y)| x.checked_mul(y));
            let all: Option<Vec<i64>> = products.into_iter().collect();
            return match all {
                Some(all) => Interval {
                    low: all.iter().min().copied(),
                    high: all.iter().max().copied(),
                },
                None => Self::UNBOUNDED,
            };
        }
        let non_negative = |i: Self| i.low.is_some_and(|l| l >= 0);
        let product = |a: Option<i64>, b: Option<i64>| a?.checked_mul(b?);
        match (non_negative(self), non_negative(other)) {
            (true, true) => Interval {
                low: product(self.low, other.low),
                high: product(self.high, other.high),
            },
            _ => Self::UNBOUNDED,
        }
    }
    /// Multiplication by a constant, which also turns half-bounded intervals around.
    fn scale(self, by: i64) -> Self {
        let end = |x: Option<i64>| x.and_then(|x| x.checked_mul(by));
        let (a, b) = (end(self.low), end(self.high));
        if by >= 0 {
            Interval { low: a, high: b }
        } else {
            Interval { low: b, high: a }
        }
    }
    /// Whether every value lies in `0..limit`.
    fn within(self, limit: i64) -> bool {
        self.low.is_some_and(|l| l >= 0) && self.high.is_some_and(|h| h < limit)
    }
}

/// Ranges of variables. A variable that was not declared is unbounded.
#[derive(Clone, Default, Debug)]
pub struct Ranges {
    vars: BTreeMap<SymVar, Interval>,
}

impl Ranges {
    /// The declared ranges of a function's symbolic variables.
    pub fn new(syms: &[SymDecl]) -> Self {
        let range = |d: &SymDecl| Interval {
            low: Some(d.low),
            high: d.high,
        };
        Ranges {
            vars: syms.iter().map(|d| (d.var.clone(), range(d))).collect(),
        }
    }
    /// Adds a loop variable that runs from 0 to `extent`, exclusive.
    pub fn add_loop(&mut self, var: &SymVar, extent: &SymExpr) {
        let high = self.bounds(extent).high.map(|h| h.saturating_sub(1));
        self.vars.insert(var.clone(), Interval { low: Some(0), high });
    }
    /// Bounds of an expression. Each term is bounded by itself, so they may be wider than need be, never too narrow.
    pub fn bounds(&self, expr: &SymExpr) -> Interval {
        expr.terms().fold(Interval::point(0), |sum, (monomial, c)| {
            sum.plus(self.monomial_bounds(monomial).scale(c))
        })
    }
    fn monomial_bounds(&self, monomial: &Monomial) -> Interval {
        let mut product = Interval::point(1);
        for (atom, power) in monomial.factors() {
            for _ in 0..*power {
                product = product.times(self.atom_bounds(atom));
            }
        }
        product
    }
    fn atom_bounds(&self, atom: &Atom) -> Interval {
        match atom {
            Atom::Var(v) => self.vars.get(v).copied().unwrap_or(Interval::UNBOUNDED),
            Atom::FloorDiv(e, d) => {
                let inner = self.bounds(e);
                Interval {
                    low: inner.low.map(|x| x.div_euclid(*d)),
                    high: inner.high.map(|x| x.div_euclid(*d)),
                }
            }
            Atom::Mod(e, d) => {
                let inner = self.bounds(e);
                if inner.within(*d) {
                    return inner;
                }
                Interval {
                    low: Some(0),
                    high: Some(d - 1),
                }
            }
            Atom::Min(a, b) => {
                let (a, b) = (self.bounds(a), self.bounds(b));
                Interval {
                    low: a.low.zip(b.low).map(|(x, y)| x.min(y)),
                    high: [a.high, b.high].into_iter().flatten().min(),
                }
            }
            Atom::Max(a, b) => {
                let (a, b) = (self.bounds(a), self.bounds(b));
                Interval {
                    low: [a.low, b.low].into_iter().flatten().max(),
                    high: a.high.zip(b.high).map(|(x, y)| x.max(y)),
                }
            }
        }
    }
}

/// An expression of the same value for every binding within the ranges, with fewer quotients, remainders, minima and maxima where
/// the ranges decide them.
pub fn simplify(expr: &SymExpr, ranges: &Ranges) -> SymExpr {
    let mut sum = SymExpr::zero();
    for (monomial, c) in expr.terms() {
        let mut product = SymExpr::constant(c);
        for (atom, power) in monomial.factors() {
            let value = simplify_atom(atom, ranges);
            for _ in 0..*power {
                product = product * value.clone();
            }
        }
        sum = sum + product;
    }
    sum
}

fn simplify_atom(atom: &Atom, ranges: &Ranges) -> SymExpr {
    match atom {
        Atom::Var(v) => SymExpr::var(v),
        Atom::FloorDiv(e, d) => quotient(&simplify(e, ranges), *d, ranges),
        Atom::Mod(e, d) => remainder(&simplify(e, ranges), *d, ranges),
        Atom::Min(a, b) | Atom::Max(a, b) => {
            let (a, b) = (simplify(a, ranges), simplify(b, ranges));
            let difference = ranges.bounds(&(a.clone() - b.clone()));
            let a_is_less = difference.high.is_some_and(|h| h <= 0);
            let b_is_less = difference.low.is_some_and(|l| l >= 0);
            match (atom, a_is_less, b_is_less) {
                (Atom::Min(..), true, _) | (Atom::Max(..), _, true) => a,
                (Atom::Min(..), _, true) | (Atom::Max(..), true, _) => b,
                (Atom::Min(..), ..) => a.minimum(&b),
                _ => a.maximum(&b),
            }
        }
    }
}

/// (q, r) with `expr = q·divisor + r` and every coefficient of r in `0..divisor`.
fn split_by(expr: &SymExpr, divisor: i64) -> (SymExpr, SymExpr) {
    let parts =
        |f: fn(i64, i64) -> i64| SymExpr::from_terms(expr.terms().map(|(m, c)| (m.clone(), f(c, divisor))));
    (parts(i64::div_euclid), parts(i64::rem_euclid))
}

/// `rest = g·high + low` with `0 ≤ low < g` for a factor g > 1 of the divisor: (g, high, low).
fn split_low(rest: &SymExpr, divisor: i64, ranges: &Ranges) -> Option<(i64, SymExpr, SymExpr)> {
    let mut factors: Vec<i64> = rest
        .terms()
        .map(|(_, c)| gcd(c, divisor))
        .filter(|g| *g > 1)
        .collect();
    factors.sort_unstable();
    factors.dedup();
    factors.into_iter().rev().find_map(|g| {
        let high = SymExpr::from_terms(
            rest.terms()
                .filter(|(_, c)| c % g == 0)
                .map(|(m, c)| (m.clone(), c / g)),
        );
        let low = SymExpr::from_terms(
            rest.terms()
                .filter(|(_, c)| c % g != 0)
                .map(|(m, c)| (m.clone(), c)),
        );
        ranges.bounds(&low).within(g).then_some((g, high, low))
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

fn quotient(expr: &SymExpr, divisor: i64, ranges: &Ranges) -> SymExpr {
    let (whole, rest) = split_by(expr, divisor);
    if ranges.bounds(&rest).within(divisor) {
        return whole;
    }
    if let Some((g, high, _)) = split_low(&rest, divisor, ranges) {
        return whole + quotient(&high, divisor / g, ranges);
    }
    if let Some(Atom::FloorDiv(inner, d)) = rest.as_single_atom()
        && let Some(both) = d.checked_mul(divisor)
    {
        return whole + quotient(inner, both, ranges);
    }
    whole + rest.floor_div(divisor)
}

fn remainder(expr: &SymExpr, divisor: i64, ranges: &Ranges) -> SymExpr {
    let (_, rest) = split_by(expr, divisor);
    if ranges.bounds(&rest).within(divisor) {
        return rest;
    }
    if let Some((g, high, low)) = split_low(&rest, divisor, ranges) {
        return remainder(&high, divisor / g, ranges) * SymExpr::constant(g) + low;
    }
    rest.modulo(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(name: &str) -> SymExpr {
        SymExpr::named(name)
    }
    fn k(value: i64) -> SymExpr {
        SymExpr::constant(value)
    }
    /// i1 < n (symbolic, at most 64), i4 < 16, j < 4, k < 8.
    fn ranges() -> Ranges {
        let mut r = Ranges::new(&[SymDecl {
            var: SymVar::new("n"),
            low: 1,
            high: Some(64),
        }]);
        for (name, extent) in [("i1", v("n")), ("i4", k(16)), ("j", k(4)), ("k", k(8))] {
            r.add_loop(&SymVar::new(name), &extent);
        }
        r
    }

    #[test]
    fn blocked_indices_collapse() {
        let blocked = v("i1") * k(16) + v("i4");
        let halves = v("i1") * k(32) + v("j") * k(8) + v("k");
        let cases = [
            (blocked.floor_div(16), "i1"),
            (blocked.modulo(16), "i4"),
            // The operand's block is larger: the low digits stay, the rest is divided.
            ((v("i1") * k(4) + v("j")).floor_div(16), "(i1 // 4)"),
            ((v("i1") * k(4) + v("j")).modulo(16), "(i1 % 4)*4 + j"),
            // The operand's block is smaller.
            (blocked.floor_div(4), "i1*4 + (i4 // 4)"),
            (blocked.modulo(4), "(i4 % 4)"),
            (halves.floor_div(8), "i1*4 + j"),
            (halves.floor_div(8).modulo(4), "j"),
            // Nothing is known of m.
            (v("m").floor_div(4), "(m // 4)"),
            (v("i4").minimum(&k(16)), "i4"),
            (v("i4").maximum(&k(3)), "max(3, i4)"),
        ];
        for (expr, expected) in cases {
            assert_eq!(simplify(&expr, &ranges()).to_string(), expected, "from {expr}");
        }
    }

    #[test]
    fn values_are_kept() {
        // Every binding of small loops, every pair of block sizes, negative offsets included.
        let digits = v("i4") * k(12) + v("j") * k(3) - v("k") + k(5);
        for d in [2, 3, 4, 6, 8, 12, 16, 24] {
            for e in [
                digits.floor_div(d),
                digits.modulo(d),
                digits.floor_div(d).modulo(3),
                digits.floor_div(2).floor_div(d),
            ] {
                let s = simplify(&e, &ranges());
                for (i, j, k) in
                    (0..16).flat_map(|i| (0..4).flat_map(move |j| (0..8).map(move |k| (i, j, k))))
                {
                    let bind = |v: &SymVar| match v.name() {
                        "i4" => Some(i),
                        "j" => Some(j),
                        "k" => Some(k),
                        _ => None,
                    };
                    assert_eq!(e.eval(&bind), s.eval(&bind), "{e} became {s}");
                }
            }
        }
    }
}
