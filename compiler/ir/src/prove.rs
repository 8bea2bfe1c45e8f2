//! The prover: what holds of symbolic integers under the declared ranges of their variables.
//!
//! Canonical form settles most equalities. The rest is interval arithmetic on the canonical polynomial, after a range-aware
//! simplification of floor division, modulo, minimum and maximum. Every answer is sound for all values inside the declared
//! ranges at which the expressions can be evaluated in 64 bits; `Unknown` and `None` are always allowed. Interval bounds are
//! exact for expressions in which every variable occurs in one monomial of one sign, and may be loose otherwise.

use crate::graph::SymDecl;
use crate::sym::{Atom, Monomial, SymExpr, SymVar};
use std::collections::BTreeMap;

/// What is known of the equality of two expressions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Proof {
    /// Equal for all values in range.
    Equal,
    /// Different for all values in range.
    Different,
    /// Neither could be shown.
    Unknown,
}

/// Declared ranges and the questions that can be asked under them.
#[derive(Clone, Debug, Default)]
pub struct Prover {
    ranges: BTreeMap<SymVar, Interval>,
}

/// An interval with inclusive, possibly infinite ends. Ends are `i128`, so products of 64-bit ends don't overflow; what leaves
/// 128 bits becomes infinite, and ends outside 64 bits are reported as infinite.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: Option<i128>,
    high: Option<i128>,
}

impl Interval {
    fn point(v: i64) -> Interval {
        Interval {
            low: Some(i128::from(v)),
            high: Some(i128::from(v)),
        }
    }
    fn all() -> Interval {
        Interval {
            low: None,
            high: None,
        }
    }
    fn add(self, o: Interval) -> Interval {
        let end = |a: Option<i128>, b: Option<i128>| a?.checked_add(b?);
        Interval {
            low: end(self.low, o.low),
            high: end(self.high, o.high),
        }
    }
    fn mul(self, o: Interval) -> Interval {
        // An end is a product of ends; an infinite end times zero is zero.
        let corners = [
            (End::low(self.low), End::low(o.low)),
            (End::low(self.low), End::high(o.high)),
            (End::high(self.high), End::low(o.low)),
            (End::high(self.high), End::high(o.high)),
        ]
        .map(|(a, b)| a.times(b));
        let low = corners.iter().copied().min().unwrap_or(End::MinusInfinity);
        let high = corners.iter().copied().max().unwrap_or(End::PlusInfinity);
        Interval {
            low: low.finite(),
            high: high.finite(),
        }
    }
    /// The power; an even power is never negative, which the product rule would not see.
    fn power(self, power: u32) -> Interval {
        let mut out = Interval::point(1);
        for _ in 0..power {
            out = out.mul(self);
        }
        if power % 2 == 0 {
            out.low = Some(out.low.map_or(0, |l| l.max(0)));
        }
        out
    }
    fn floor_div(self, d: i64) -> Interval {
        let end = |e: Option<i128>| e.map(|v| v.div_euclid(i128::from(d)));
        Interval {
            low: end(self.low),
            high: end(self.high),
        }
    }
    fn modulo(self, d: i64) -> Interval {
        let d = i128::from(d);
        match (self.low, self.high) {
            // Within one period the modulo is a shift.
            (Some(l), Some(h)) if l.div_euclid(d) == h.div_euclid(d) => Interval {
                low: Some(l.rem_euclid(d)),
                high: Some(h.rem_euclid(d)),
            },
            _ => Interval {
                low: Some(0),
                high: Some(d - 1),
            },
        }
    }
    fn min(self, o: Interval) -> Interval {
        let low = match (self.low, o.low) {
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => None,
        };
        let high = match (self.high, o.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Interval { low, high }
    }
    fn neg(self) -> Interval {
        let end = |e: Option<i128>| e.and_then(i128::checked_neg);
        Interval {
            low: end(self.high),
            high: end(self.low),
        }
    }
    fn max(self, o: Interval) -> Interval {
        self.neg().min(o.neg()).neg()
    }
}

/// An end of an interval, ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    MinusInfinity,
    Finite(i128),
    PlusInfinity,
}

impl End {
    fn low(v: Option<i128>) -> End {
        v.map_or(End::MinusInfinity, End::Finite)
    }
    fn high(v: Option<i128>) -> End {
        v.map_or(End::PlusInfinity, End::Finite)
    }
    fn sign(self) -> i128 {
        match self {
            End::MinusInfinity => -1,
            End::Finite(v) => v.signum(),
            End::PlusInfinity => 1,
        }
    }
    fn times(self, o: End) -> End {
        let infinite = |sign: i128| match sign {
            0 => End::Finite(0),
            1 => End::PlusInfinity,
            _ => End::MinusInfinity,
        };
        match (self, o) {
            (End::Finite(a), End::Finite(b)) => a
                .checked_mul(b)
                .map_or(infinite(a.signum() * b.signum()), End::Finite),
            _ => infinite(self.sign() * o.sign()),
        }
    }
    fn finite(self) -> Option<i128> {
        match self {
            End::Finite(v) => Some(v),
            _ => None,
        }
    }
}

impl Prover {
    /// A prover under declared ranges. Variables that are not declared may have any value.
    pub fn new(declarations: &[SymDecl]) -> Self {
        let range = |d: &SymDecl| Interval {
            low: Some(i128::from(d.low)),
            high: d.high.map(i128::from),
        };
        Prover {
            ranges: declarations.iter().map(|d| (d.var.clone(), range(d))).collect(),
        }
    }

    fn interval(&self, e: &SymExpr) -> Interval {
        e.terms().fold(Interval::point(0), |sum, (monomial, c)| {
            let product = monomial
                .factors()
                .iter()
                .fold(Interval::point(c), |p, (atom, power)| {
                    p.mul(self.atom_interval(atom).power(*power))
                });
            sum.add(product)
        })
    }

    fn atom_interval(&self, atom: &Atom) -> Interval {
        match atom {
            Atom::Var(v) => self.ranges.get(v).copied().unwrap_or(Interval::all()),
            Atom::FloorDiv(e, d) => self.interval(e).floor_div(*d),
            Atom::Mod(e, d) => self.interval(e).modulo(*d),
            Atom::Min(a, b) => self.interval(a).min(self.interval(b)),
            Atom::Max(a, b) => self.interval(a).max(self.interval(b)),
        }
    }

    /// Inclusive lower and upper bounds; `None` where there is none, or none that fits 64 bits.
    pub fn bounds(&self, e: &SymExpr) -> (Option<i64>, Option<i64>) {
        let ends = |i: Interval| {
            let fit = |v: Option<i128>| v.and_then(|v| i64::try_from(v).ok());
            (fit(i.low), fit(i.high))
        };
        let (plain, simple) = (ends(self.interval(e)), ends(self.interval(&self.simplify(e))));
        let tighter = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        (
            tighter(plain.0, simple.0, i64::max),
            tighter(plain.1, simple.1, i64::min),
        )
    }

    /// An expression of the same value for all values in range: floor divisions and modulos by a divisor of the dividend, or of
    /// a dividend inside one period, disappear, and so do minima and maxima whose arguments are ordered.
    pub fn simplify(&self, e: &SymExpr) -> SymExpr {
        e.terms().fold(SymExpr::zero(), |sum, (monomial, c)| {
            let product = monomial
                .factors()
                .iter()
                .fold(SymExpr::constant(c), |p, (atom, power)| {
                    let value = self.simplify_atom(atom);
                    (0..*power).fold(p, |p, _| p * value.clone())
                });
            sum + product
        })
    }

    fn simplify_atom(&self, atom: &Atom) -> SymExpr {
        match atom {
            Atom::Var(v) => {
                let range = self.ranges.get(v).copied().unwrap_or(Interval::all());
                match (range.low, range.high) {
                    (Some(l), Some(h)) if l == h => {
                        i64::try_from(l).map_or_else(|_| SymExpr::var(v), SymExpr::constant)
                    }
                    _ => SymExpr::var(v),
                }
            }
            Atom::FloorDiv(e, d) => self.quotient(&self.simplify(e), *d),
            Atom::Mod(e, d) => self.remainder(&self.simplify(e), *d),
            Atom::Min(a, b) => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                if self.less_equal_simple(&a, &b) {
                    a
                } else if self.less_equal_simple(&b, &a) {
                    b
                } else {
                    a.minimum(&b)
                }
            }
            Atom::Max(a, b) => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                if self.less_equal_simple(&a, &b) {
                    b
                } else if self.less_equal_simple(&b, &a) {
                    a
                } else {
                    a.maximum(&b)
                }
            }
        }
    }

    /// Splits `e` as q·d + r, where the quotient of r by d is one known constant; otherwise `None`.
    fn split(&self, e: &SymExpr, d: i64) -> Option<(SymExpr, SymExpr)> {
        let (mut whole, mut rest) = (SymExpr::zero(), SymExpr::zero());
        for (m, c) in e.terms() {
            let term = |c| SymExpr::from_terms([(m.clone(), c)]);
            if c % d == 0 {
                whole = whole + term(c / d);
            } else if let Some(quotient) = self.exact_quotient(m, c, d) {
                whole = whole + quotient;
            } else {
                rest = rest + term(c);
            }
        }
        let range = self.interval(&rest);
        let (low, high) = (
            range.low?.div_euclid(i128::from(d)),
            range.high?.div_euclid(i128::from(d)),
        );
        let period = i64::try_from(low).ok().filter(|_| low == high)?;
        let shift = period.checked_mul(d)?;
        Some((whole + SymExpr::constant(period), rest - SymExpr::constant(shift)))
    }

    /// c·m / d where d divides it though it doesn't divide c: a factor is a single product whose coefficient supplies what is
    /// missing, such as `(n*4 - n*4 % 8)`; only plain monomials are considered.
    fn exact_quotient(&self, m: &Monomial, c: i64, d: i64) -> Option<SymExpr> {
        // x·(e mod k) and the like have no such structure; e // k · k is the common one: (e // k)·c with c·k' = d.
        let [(Atom::FloorDiv(inner, k), 1)] = m.factors() else {
            return None;
        };
        // (inner // k)·c / d is whole when inner is provably divisible by k·d/gcd(c, d).
        let g = gcd(c, d);
        let multiple = k.checked_mul(d / g)?;
        self.divisible_simple(inner, multiple)
            .then(|| inner.floor_div(multiple) * SymExpr::constant(c / g))
    }

    fn quotient(&self, e: &SymExpr, d: i64) -> SymExpr {
        if let Some((whole, _)) = self.split(e, d) {
            return whole;
        }
        // ⌊⌊x / a⌋ / d⌋ = ⌊x / (a·d)⌋ for positive a, d.
        if let Some(Atom::FloorDiv(inner, a)) = e.as_single_atom() {
            if let Some(product) = a.checked_mul(d) {
                return self.quotient(inner, product);
            }
        }
        // Common factors of the coefficients and the divisor cancel.
        let g = e.terms().fold(d, |g, (_, c)| gcd(g, c));
        if g > 1 {
            let reduced = SymExpr::from_terms(e.terms().map(|(m, c)| (m.clone(), c / g)));
            return reduced.floor_div(d / g);
        }
        e.floor_div(d)
    }

    fn remainder(&self, e: &SymExpr, d: i64) -> SymExpr {
        if let Some((_, rest)) = self.split(e, d) {
            return rest;
        }
        // (x mod a) mod d = x mod d where d divides a.
        if let Some(Atom::Mod(inner, a)) = e.as_single_atom() {
            if a % d == 0 {
                return self.remainder(inner, d);
            }
        }
        e.modulo(d)
    }

    /// Whether two expressions are equal, different, or neither provably.
    pub fn equal(&self, a: &SymExpr, b: &SymExpr) -> Proof {
        if a == b {
            return Proof::Equal;
        }
        let difference = self.simplify(&(self.simplify(a) - self.simplify(b)));
        match (difference.as_const(), self.bounds(&difference)) {
            (Some(0), _) => Proof::Equal,
            (Some(_), _) => Proof::Different,
            (None, (Some(low), _)) if low > 0 => Proof::Different,
            (None, (_, Some(high))) if high < 0 => Proof::Different,
            (None, (Some(0), Some(0))) => Proof::Equal,
            _ if without_modulo(&difference) == SymExpr::zero() => Proof::Equal,
            _ if self.differs_modulo(&difference) => Proof::Different,
            _ => Proof::Unknown,
        }
    }

    /// A difference whose variable part is a multiple of some g, and whose constant is not, is never zero.
    fn differs_modulo(&self, difference: &SymExpr) -> bool {
        let (mut g, mut constant) = (0, 0);
        for (m, c) in difference.terms() {
            if m.factors().is_empty() {
                constant = c;
            } else {
                g = gcd(g, c);
            }
        }
        g > 1 && constant % g != 0
    }

    /// Whether a ≤ b for all values in range; `false` means that it could not be shown.
    pub fn less_equal(&self, a: &SymExpr, b: &SymExpr) -> bool {
        self.less_equal_simple(&self.simplify(a), &self.simplify(b))
    }

    fn less_equal_simple(&self, a: &SymExpr, b: &SymExpr) -> bool {
        let difference = b.clone() - a.clone();
        if self.interval(&difference).low.is_some_and(|low| low >= 0) {
            return true;
        }
        // min(x, y) ≤ b when one of them is, and dually.
        match (a.as_single_atom(), b.as_single_atom()) {
            (Some(Atom::Min(x, y)), _) if self.less_equal_simple(x, b) || self.less_equal_simple(y, b) => {
                true
            }
            (Some(Atom::Max(x, y)), _) if self.less_equal_simple(x, b) && self.less_equal_simple(y, b) => {
                true
            }
            (_, Some(Atom::Max(x, y))) if self.less_equal_simple(a, x) || self.less_equal_simple(a, y) => {
                true
            }
            (_, Some(Atom::Min(x, y))) if self.less_equal_simple(a, x) && self.less_equal_simple(a, y) => {
                true
            }
            _ => false,
        }
    }

    /// Whether `divisor` divides `e` for all values in range; `false` means that it could not be shown. `divisor` ≥ 1.
    pub fn divisible(&self, e: &SymExpr, divisor: i64) -> bool {
        divisor >= 1 && self.divisible_simple(&self.simplify(e), divisor)
    }

    fn divisible_simple(&self, e: &SymExpr, divisor: i64) -> bool {
        e.terms().all(|(m, c)| {
            // What the coefficient leaves must come from the known divisors of the factors.
            let mut missing = divisor / gcd(divisor, c);
            for (atom, power) in m.factors() {
                let known = self.known_divisor(atom);
                for _ in 0..*power {
                    missing /= gcd(missing, known);
                }
            }
            missing == 1
        })
    }

    /// A number that divides an atom: 1 if nothing better is known.
    fn known_divisor(&self, atom: &Atom) -> i64 {
        let content = |e: &SymExpr| e.terms().fold(0, |g, (_, c)| gcd(g, c)).max(1);
        match atom {
            Atom::Var(_) | Atom::FloorDiv(..) => 1,
            Atom::Mod(e, d) => gcd(content(e), *d),
            Atom::Min(a, b) | Atom::Max(a, b) => gcd(content(a), content(b)),
        }
    }
}

/// The same value with every e mod d written as e − d·⌊e / d⌋, so that both cancel against each other.
fn without_modulo(e: &SymExpr) -> SymExpr {
    e.terms().fold(SymExpr::zero(), |sum, (monomial, c)| {
        let product = monomial
            .factors()
            .iter()
            .fold(SymExpr::constant(c), |p, (atom, power)| {
                let value = match atom {
                    Atom::Var(v) => SymExpr::var(v),
                    Atom::FloorDiv(e, d) => without_modulo(e).floor_div(*d),
                    Atom::Mod(e, d) => {
                        let e = without_modulo(e);
                        e.clone() - e.floor_div(*d) * SymExpr::constant(*d)
                    }
                    Atom::Min(a, b) => without_modulo(a).minimum(&without_modulo(b)),
                    Atom::Max(a, b) => without_modulo(a).maximum(&without_modulo(b)),
                };
                (0..*power).fold(p, |p, _| p * value.clone())
            });
        sum + product
    })
}

/// Greatest common divisor of the magnitudes; gcd(0, b) = |b|. `i64::MIN` counts as 2^62, which divides it.
fn gcd(a: i64, b: i64) -> i64 {
    let magnitude = |v: i64| v.checked_abs().unwrap_or(1 << 62);
    let (mut a, mut b) = (magnitude(a), magnitude(b));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
