//! Symbolic integers: one canonical form shared by graph shapes, loop bounds and buffer sizes.
//!
//! An expression is a polynomial with `i64` coefficients over *atoms*: variables, floor division and modulo by a positive
//! constant, and minimum/maximum. Two expressions that are equal as polynomials over the same atoms are equal as values
//! (`==`); deeper facts, under declared ranges, are the prover's (`prove.rs`). Divisors are constants only.
//! Coefficient arithmetic saturates; [`SymExpr::eval`] reports overflow as `None`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// A symbolic variable, scoped to the function that declares it; names are unique within the scope.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymVar(Arc<str>);

impl SymVar {
    /// A variable by name.
    pub fn new(name: impl AsRef<str>) -> Self {
        SymVar(Arc::from(name.as_ref()))
    }
    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SymVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SymVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a monomial multiplies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Atom {
    /// A variable.
    Var(SymVar),
    /// ⌊e / d⌋ with d > 1.
    FloorDiv(Box<SymExpr>, i64),
    /// e − d·⌊e / d⌋ with d > 1; never negative.
    Mod(Box<SymExpr>, i64),
    /// The smaller of the two (arguments in canonical order).
    Min(Box<SymExpr>, Box<SymExpr>),
    /// The larger of the two (arguments in canonical order).
    Max(Box<SymExpr>, Box<SymExpr>),
}

/// A product of atoms with positive powers, sorted by atom; the empty product is 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Monomial(Vec<(Atom, u32)>);

impl Monomial {
    /// The atoms and their powers.
    pub fn factors(&self) -> &[(Atom, u32)] {
        &self.0
    }
    fn times(&self, other: &Monomial) -> Monomial {
        let mut powers: BTreeMap<Atom, u32> = self.0.iter().cloned().collect();
        for (atom, power) in &other.0 {
            *powers.entry(atom.clone()).or_insert(0) += power;
        }
        Monomial(powers.into_iter().collect())
    }
}

/// A symbolic integer in canonical form: monomials with non-zero coefficients.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SymExpr {
    terms: BTreeMap<Monomial, i64>,
}

impl SymExpr {
    /// The constant 0.
    pub fn zero() -> Self {
        Self::default()
    }
    /// A constant.
    pub fn constant(value: i64) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Monomial::default(), value);
        }
        SymExpr { terms }
    }
    /// A variable.
    pub fn var(var: &SymVar) -> Self {
        Self::atom(Atom::Var(var.clone()))
    }
    /// A variable by name.
    pub fn named(name: &str) -> Self {
        Self::var(&SymVar::new(name))
    }
    fn atom(atom: Atom) -> Self {
        SymExpr {
            terms: BTreeMap::from([(Monomial(vec![(atom, 1)]), 1)]),
        }
    }
    /// The value if there are no variables left.
    pub fn as_const(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Monomial::default()).copied(),
            _ => None,
        }
    }
    /// Whether this is the constant `value`.
    pub fn is_const(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }
    /// The variable, if the expression is exactly one variable.
    pub fn as_var(&self) -> Option<&SymVar> {
        match self.as_single_atom()? {
            Atom::Var(v) => Some(v),
            _ => None,
        }
    }
    /// The atom, if the expression is exactly one atom.
    pub fn as_single_atom(&self) -> Option<&Atom> {
        let (monomial, 1) = self.terms.iter().next().filter(|_| self.terms.len() == 1)? else {
            return None;
        };
        match monomial.0.as_slice() {
            [(atom, 1)] => Some(atom),
            _ => None,
        }
    }
    /// The monomials and coefficients, in canonical order.
    pub fn terms(&self) -> impl Iterator<Item = (&Monomial, i64)> {
        self.terms.iter().map(|(m, c)| (m, *c))
    }
    /// Builds from monomials and coefficients (zero coefficients are dropped).
    pub fn from_terms(terms: impl IntoIterator<Item = (Monomial, i64)>) -> Self {
        let mut out = SymExpr::zero();
        for (m, c) in terms {
            out.add_term(m, c);
        }
        out
    }
    fn add_term(&mut self, monomial: Monomial, coefficient: i64) {
        use std::collections::btree_map::Entry;
        if coefficient == 0 {
            return;
        }
        match self.terms.entry(monomial) {
            Entry::Vacant(e) => {
                e.insert(coefficient);
            }
            Entry::Occupied(mut e) => {
                let sum = e.get().saturating_add(coefficient);
                if sum == 0 {
                    e.remove();
                } else {
                    *e.get_mut() = sum;
                }
            }
        }
    }
    /// ⌊self / divisor⌋. The part of the polynomial whose coefficients the divisor divides leaves the floor.
    ///
    /// # Panics
    /// If `divisor < 1` (divisors are constants that the caller has checked).
    pub fn floor_div(&self, divisor: i64) -> Self {
        assert!(divisor >= 1, "divisors are positive constants");
        if divisor == 1 {
            return self.clone();
        }
        let (whole, rest) = self.split_by(divisor);
        let rest = match rest.as_const() {
            Some(c) => SymExpr::constant(c.div_euclid(divisor)),
            None => SymExpr::atom(Atom::FloorDiv(Box::new(rest), divisor)),
        };
        whole + rest
    }
    /// self modulo `divisor`, in `0..divisor`.
    ///
    /// # Panics
    /// If `divisor < 1`.
    pub fn modulo(&self, divisor: i64) -> Self {
        assert!(divisor >= 1, "divisors are positive constants");
        if divisor == 1 {
            return SymExpr::zero();
        }
        let (_, rest) = self.split_by(divisor);
        match rest.as_const() {
            Some(c) => SymExpr::constant(c.rem_euclid(divisor)),
            None => SymExpr::atom(Atom::Mod(Box::new(rest), divisor)),
        }
    }
    /// (q, r) with self = q·divisor + r, every term of r having a coefficient in `0..divisor`.
    fn split_by(&self, divisor: i64) -> (Self, Self) {
        let (mut whole, mut rest) = (SymExpr::zero(), SymExpr::zero());
        for (m, c) in &self.terms {
            whole.add_term(m.clone(), c.div_euclid(divisor));
            rest.add_term(m.clone(), c.rem_euclid(divisor));
        }
        (whole, rest)
    }
    /// ⌈self / divisor⌉.
    pub fn ceil_div(&self, divisor: i64) -> Self {
        (self.clone() + SymExpr::constant(divisor - 1)).floor_div(divisor)
    }
    /// The smaller of the two.
    pub fn minimum(&self, other: &SymExpr) -> Self {
        match (self.clone() - other.clone()).as_const() {
            Some(d) if d <= 0 => self.clone(),
            Some(_) => other.clone(),
            None => {
                let (a, b) = if self <= other {
                    (self, other)
                } else {
                    (other, self)
                };
                SymExpr::atom(Atom::Min(Box::new(a.clone()), Box::new(b.clone())))
            }
        }
    }
    /// The larger of the two.
    pub fn maximum(&self, other: &SymExpr) -> Self {
        match (self.clone() - other.clone()).as_const() {
            Some(d) if d >= 0 => self.clone(),
            Some(_) => other.clone(),
            None => {
                let (a, b) = if self <= other {
                    (self, other)
                } else {
                    (other, self)
                };
                SymExpr::atom(Atom::Max(Box::new(a.clone()), Box::new(b.clone())))
            }
        }
    }
    /// Replaces variables by expressions and brings the result into canonical form.
    pub fn substitute(&self, with: &dyn Fn(&SymVar) -> Option<SymExpr>) -> Self {
        let mut out = SymExpr::zero();
        for (monomial, c) in &self.terms {
            let mut product = SymExpr::constant(*c);
            for (atom, power) in &monomial.0 {
                let value = match atom {
                    Atom::Var(v) => with(v).unwrap_or_else(|| SymExpr::var(v)),
                    Atom::FloorDiv(e, d) => e.substitute(with).floor_div(*d),
                    Atom::Mod(e, d) => e.substitute(with).modulo(*d),
                    Atom::Min(a, b) => a.substitute(with).minimum(&b.substitute(with)),
                    Atom::Max(a, b) => a.substitute(with).maximum(&b.substitute(with)),
                };
                for _ in 0..*power {
                    product = product * value.clone();
                }
            }
            out = out + product;
        }
        out
    }
    /// The value under a binding of variables; `None` when one is unbound or the arithmetic overflows.
    pub fn eval(&self, binding: &dyn Fn(&SymVar) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i64;
        for (monomial, c) in &self.terms {
            let mut product = *c;
            for (atom, power) in &monomial.0 {
                let value = match atom {
                    Atom::Var(v) => binding(v)?,
                    Atom::FloorDiv(e, d) => e.eval(binding)?.div_euclid(*d),
                    Atom::Mod(e, d) => e.eval(binding)?.rem_euclid(*d),
                    Atom::Min(a, b) => a.eval(binding)?.min(b.eval(binding)?),
                    Atom::Max(a, b) => a.eval(binding)?.max(b.eval(binding)?),
                };
                for _ in 0..*power {
                    product = product.checked_mul(value)?;
                }
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }
    /// Adds every variable that occurs to `out`.
    pub fn collect_vars(&self, out: &mut BTreeSet<SymVar>) {
        for (atom, _) in self.terms.keys().flat_map(|m| &m.0) {
            match atom {
                Atom::Var(v) => {
                    out.insert(v.clone());
                }
                Atom::FloorDiv(e, _) | Atom::Mod(e, _) => e.collect_vars(out),
                Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.collect_vars(out);
                    b.collect_vars(out);
                }
            }
        }
    }
    /// The variables that occur.
    pub fn vars(&self) -> BTreeSet<SymVar> {
        let mut out = BTreeSet::new();
        self.collect_vars(&mut out);
        out
    }
}

/// The product of dimensions: the number of elements of a shape.
pub fn product(dims: &[SymExpr]) -> SymExpr {
    dims.iter().fold(SymExpr::constant(1), |acc, d| acc * d.clone())
}

impl From<i64> for SymExpr {
    fn from(value: i64) -> Self {
        SymExpr::constant(value)
    }
}

impl From<usize> for SymExpr {
    fn from(value: usize) -> Self {
        SymExpr::constant(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&SymVar> for SymExpr {
    fn from(value: &SymVar) -> Self {
        SymExpr::var(value)
    }
}

impl Add for SymExpr {
    type Output = SymExpr;
    fn add(mut self, rhs: SymExpr) -> SymExpr {
        for (m, c) in rhs.terms {
            self.add_term(m, c);
        }
        self
    }
}

impl Neg for SymExpr {
    type Output = SymExpr;
    fn neg(mut self) -> SymExpr {
        for c in self.terms.values_mut() {
            *c = c.saturating_neg();
        }
        self
    }
}

impl Sub for SymExpr {
    type Output = SymExpr;
    fn sub(self, rhs: SymExpr) -> SymExpr {
        self + -rhs
    }
}

impl Mul for SymExpr {
    type Output = SymExpr;
    fn mul(self, rhs: SymExpr) -> SymExpr {
        let mut out = SymExpr::zero();
        for (ma, ca) in &self.terms {
            for (mb, cb) in &rhs.terms {
                out.add_term(ma.times(mb), ca.saturating_mul(*cb));
            }
        }
        out
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Var(v) => write!(f, "{v}"),
            Atom::FloorDiv(e, d) => write!(f, "({e} // {d})"),
            Atom::Mod(e, d) => write!(f, "({e} % {d})"),
            Atom::Min(a, b) => write!(f, "min({a}, {b})"),
            Atom::Max(a, b) => write!(f, "max({a}, {b})"),
        }
    }
}

impl fmt::Display for SymExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // Variables first, the constant last: `n*4 + 1`.
        let ordered = self.terms.iter().filter(|(m, _)| !m.0.is_empty());
        let ordered = ordered.chain(self.terms.iter().filter(|(m, _)| m.0.is_empty()));
        for (i, (monomial, c)) in ordered.enumerate() {
            let sign = if *c < 0 { "-" } else { "+" };
            match (i, *c < 0) {
                (0, false) => {}
                (0, true) => f.write_str("-")?,
                _ => write!(f, " {sign} ")?,
            }
            let magnitude = c.unsigned_abs();
            if monomial.0.is_empty() {
                write!(f, "{magnitude}")?;
                continue;
            }
            for (j, (atom, power)) in monomial
                .0
                .iter()
                .flat_map(|(a, p)| std::iter::repeat_n((a, p), *p as usize))
                .enumerate()
            {
                let _ = power;
                if j > 0 {
                    f.write_str("*")?;
                }
                write!(f, "{atom}")?;
            }
            if magnitude != 1 {
                write!(f, "*{magnitude}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SymExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
