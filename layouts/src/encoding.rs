//! The seed's MaxSAT encoding (section 3.2.2), once, as data: what the solvers are fed and the WCNF writer prints.
//!
//! Variables: `x(o, c)`, operator `o` takes configuration `c`; `y(t, l)`, some consumer requests tensor `t` in layout `l`
//! (made only for layouts that some configuration requests). Hard: each operator takes exactly one configuration; a
//! configuration implies its requests. Soft: `¬x(o, c)` at the configuration's cost; `¬x(p, c) ∨ ¬y(t, l')` at the
//! transpose cost, per configuration `c` of the producer `p` that writes `l` and per other layout `l'`. An impossible
//! transpose makes that clause hard. Soft clauses of weight zero are dropped. The weight of the violated soft clauses of
//! a model whose `y` are as small as they can be is the objective.

use crate::id::{ConfigId, LayoutId, OpId, TensorId};
use crate::problem::Problem;

/// A literal: variable `index / 2`, negated when the index is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Literal(pub u32);

impl Literal {
    /// The literal that is true when variable `v` is.
    pub fn positive(v: u32) -> Self {
        Self(v << 1)
    }

    /// The literal that is true when variable `v` is not.
    pub fn negative(v: u32) -> Self {
        Self(v << 1 | 1)
    }

    /// Its variable, counted from 0.
    pub fn variable(self) -> u32 {
        self.0 >> 1
    }

    /// Whether it is negated.
    pub fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    /// The DIMACS number: variables counted from 1, negated ones negative.
    pub fn dimacs(self) -> i64 {
        let v = i64::from(self.variable()) + 1;
        if self.is_negative() { -v } else { v }
    }
}

/// What a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The operator takes the configuration.
    Takes(OpId, ConfigId),
    /// Some consumer requests the tensor in the layout.
    Requested(TensorId, LayoutId),
}

/// A weighted partial MaxSAT instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// What each variable stands for.
    pub meanings: Vec<Meaning>,
    /// Clauses that must hold. The "at most one configuration" pairs are not here but in `groups`.
    pub hard: Vec<Vec<Literal>>,
    /// Per operator, its variables, of which exactly one is true: first variable and how many. The clause "at least one"
    /// is in `hard`; "at most one" is left to whoever knows a better encoding than pairs. See [`Encoding::pairs`].
    pub groups: Vec<(u32, u32)>,
    /// Clauses that cost their weight when they do not hold; no weight is zero.
    pub soft: Vec<(Vec<Literal>, u64)>,
}

impl Encoding {
    /// Encodes `problem`.
    pub fn new(problem: &Problem) -> Self {
        let mut e = Self::default();
        for o in problem.op_ids() {
            let n = problem.operator(o).num_configs() as u32;
            e.groups.push((e.meanings.len() as u32, n));
            e.meanings.extend((0..n).map(|c| Meaning::Takes(o, ConfigId(c))));
        }
        let mut requested: Vec<Vec<Option<u32>>> = Vec::with_capacity(problem.tensors().len());
        for t in problem.tensor_ids() {
            let mut of_tensor = vec![None; problem.tensor(t).layouts.len()];
            for &(o, position) in problem.uses(t) {
                for (_, config) in problem.operator(o).configs() {
                    of_tensor[config.inputs[position as usize].index()] = Some(0);
                }
            }
            for (l, variable) in of_tensor.iter_mut().enumerate().filter(|(_, v)| v.is_some()) {
                *variable = Some(e.meanings.len() as u32);
                e.meanings.push(Meaning::Requested(t, LayoutId(l as u32)));
            }
            requested.push(of_tensor);
        }
        for o in problem.op_ids() {
            let op = problem.operator(o);
            let (first, n) = e.groups[o.index()];
            e.hard.push((first..first + n).map(Literal::positive).collect());
            for (c, config) in op.configs() {
                let x = Literal::negative(first + c.0);
                if config.cost > 0 {
                    e.soft.push((vec![x], config.cost));
                }
                let mut implied: Vec<u32> = op
                    .inputs
                    .iter()
                    .zip(config.inputs)
                    .filter_map(|(t, l)| requested[t.index()][l.index()])
                    .collect();
                implied.sort_unstable();
                implied.dedup();
                e.hard
                    .extend(implied.into_iter().map(|y| vec![x, Literal::positive(y)]));
                for (l, y) in requested[op.output.index()].iter().enumerate() {
                    let Some(y) = *y else { continue };
                    let clause = vec![x, Literal::negative(y)];
                    match problem
                        .tensor(op.output)
                        .transpose(config.output, LayoutId(l as u32))
                    {
                        Some(0) => {}
                        Some(weight) => e.soft.push((clause, weight)),
                        None => e.hard.push(clause),
                    }
                }
            }
        }
        e
    }

    /// The "at most one configuration" clauses, as pairs.
    pub fn pairs(&self) -> impl Iterator<Item = [Literal; 2]> + '_ {
        self.groups.iter().flat_map(|&(first, n)| {
            let pair = move |a| (a + 1..first + n).map(move |b| [Literal::negative(a), Literal::negative(b)]);
            (first..first + n).flat_map(pair)
        })
    }

    /// The assignment that a model of the hard clauses stands for; `None` when some operator takes none.
    pub fn decode(&self, model: impl Fn(u32) -> bool) -> Option<Vec<ConfigId>> {
        let taken = |&(first, n): &(u32, u32)| (0..n).find(|c| model(first + c)).map(ConfigId);
        self.groups.iter().map(taken).collect()
    }
}
