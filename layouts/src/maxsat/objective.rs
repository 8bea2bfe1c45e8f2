//! Soft clauses as weighted literals, using that exactly one configuration of an operator is taken.
//!
//! Soft clauses that differ only in which configuration of one operator they speak of exclude each other: at most one of
//! them is violated. (Of the unit ones exactly one is, so that the least weight is paid for certain.) Such a family with
//! distinct weights w1 < … < wm becomes a ladder: `r_j` is implied by every member of weight at least wj and by
//! `r_(j+1)`, and costs the step wj − w(j−1). The model's cost is unchanged, and a search by cores meets a few literals
//! per operator in place of one per configuration.

use rustc_hash::FxHashMap;
use rustsat::types::{Clause, Lit};

use crate::encoding::{Encoding, Literal};

/// What is minimised: `constant` plus the weights of the true literals.
pub(crate) struct Objective {
    pub constant: u64,
    /// Literals that cost their weight when true, each with its place: those of near places are searched together.
    pub literals: Vec<(Lit, u64, u32)>,
    /// Clauses that define them.
    pub clauses: Vec<Clause>,
    /// First unused variable.
    pub next_variable: u32,
}

pub(crate) fn lit(l: Literal) -> Lit {
    Lit::new(l.variable(), l.is_negative())
}

impl Objective {
    /// The soft clauses of `encoding`; `place` has one of each operator, which its literals get.
    pub fn new(encoding: &Encoding, place: &[u32]) -> Self {
        let mut group_of = vec![u32::MAX; encoding.meanings.len()];
        for (g, &(first, n)) in encoding.groups.iter().enumerate() {
            group_of[first as usize..(first + n) as usize].fill(g as u32);
        }
        // A family: the operator and the rest of the clause. Families keep the order of their first member.
        let mut families: Vec<Vec<(&[Literal], u64)>> = Vec::new();
        let mut index = FxHashMap::default();
        for (clause, weight) in &encoding.soft {
            let group = clause
                .iter()
                .map(|l| group_of[l.variable() as usize])
                .find(|&g| g != u32::MAX);
            let rest: Vec<Literal> = clause
                .iter()
                .copied()
                .filter(|l| group_of[l.variable() as usize] == u32::MAX)
                .collect();
            let family = *index.entry((group, rest)).or_insert_with(|| {
                families.push(Vec::new());
                families.len() - 1
            });
            families[family].push((clause, *weight));
        }
        let mut objective = Self {
            constant: 0,
            literals: Vec::new(),
            clauses: Vec::new(),
            next_variable: encoding.meanings.len() as u32,
        };
        for family in &mut families {
            objective.ladder(family, encoding, &group_of, place);
        }
        objective
    }

    fn ladder(
        &mut self,
        family: &mut [(&[Literal], u64)],
        encoding: &Encoding,
        group_of: &[u32],
        place: &[u32],
    ) {
        family.sort_by_key(|&(_, weight)| weight);
        let (mut below, mut previous) = (0, None);
        // All configurations cost something: the least is paid whatever happens.
        let unit = family.iter().all(|(clause, _)| clause.len() == 1);
        let group = family[0]
            .0
            .iter()
            .map(|l| group_of[l.variable() as usize])
            .find(|&g| g != u32::MAX);
        if let Some(group) = group.filter(|_| unit)
            && family.len() == encoding.groups[group as usize].1 as usize
        {
            below = family[0].1;
            self.constant += below;
        }
        let place = group.map_or(0, |g| place[g as usize]);
        for members in family.chunk_by(|a, b| a.1 == b.1) {
            let weight = members[0].1;
            if weight == below {
                continue;
            }
            let rung = Lit::new(self.next_variable, false);
            self.next_variable += 1;
            for (clause, _) in members {
                let mut clause: Clause = clause.iter().copied().map(lit).collect();
                clause.add(rung);
                self.clauses.push(clause);
            }
            if let Some(previous) = previous.replace(rung) {
                self.clauses.push([!rung, previous].into_iter().collect());
            }
            self.literals.push((rung, weight - below, place));
            below = weight;
        }
    }
}
