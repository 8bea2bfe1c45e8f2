//! Core-guided search: OLL (Andres, Kaufmann, Matheis, Schaub 2012; in the RC2 form of Ignatiev, Morgado,
//! Marques-Silva 2019) with stratification by weight, core trimming and minimisation, core exhaustion, and hardening by
//! the incumbent. Cores are relaxed by incremental totalizers (rustsat).
//!
//! A query costs what its assumptions make the SAT solver propagate, and there are thousands of them. So cores are looked for in
//! windows of near operators first, then in wider ones, and among all assumptions only when no window has one.

use rustc_hash::{FxHashMap, FxHashSet};
use rustsat::encodings::card::{BoundUpper, BoundUpperIncremental, Totalizer};
use rustsat::instances::{BasicVarManager, Cnf, ManageVars};
use rustsat::types::{Lit, Var};

use super::assumptions::Assumptions;
use super::backend::{Answer, Sat};
use super::objective::Objective;
use crate::meter::Meter;
use crate::strategy::{Budget, SolveError, Status, Trace};

/// Decisions that a query about a window may take, and that exhausting a core may take per step.
const EFFORT: u64 = 2000;
/// Decisions that dropping one literal of a core may take. Few: with 2000, random instances of 100 operators take four times
/// as long, for cores a third shorter.
const MINIMISE_EFFORT: u64 = 50;
/// Assumptions in a window, from narrow to wide.
const WINDOWS: [usize; 3] = [24, 96, 384];
/// So few assumptions are asked for together at once.
const WINDOWED: usize = 400;
/// Cores longer than this are trimmed only: minimising them literal by literal does not pay.
const MINIMISE_UP_TO: usize = 40;

/// What a model of the hard clauses stands for: its cost, and an assignment of the caller's kind.
pub(crate) trait Models {
    /// What the caller wants to have of the best model.
    type Assignment;

    /// Reads the last model, in which these literals hold.
    fn read(&self, holds: &dyn Fn(Lit) -> bool) -> Result<(u64, Self::Assignment), SolveError>;
}

/// What a search came to.
pub(crate) struct Found<A> {
    pub status: Status,
    /// On the cost of every model.
    pub lower: u64,
    /// The best known, with its cost.
    pub best: Option<(u64, A)>,
    /// Estimated bytes of clauses and variables.
    pub peak_bytes: u64,
    pub counters: Vec<(&'static str, u64)>,
}

pub(crate) struct Search<'a, M: Models> {
    models: M,
    budget: &'a Budget,
    sat: Box<dyn Sat>,
    meter: Meter,
    variables: BasicVarManager,
    assumptions: Assumptions,
    /// Assumptions that no window had a core with.
    settled: FxHashSet<Lit>,
    /// Which totalizer's output an assumption negates, and how many of its inputs that allows to be true.
    outputs: FxHashMap<Lit, (usize, usize)>,
    sums: Vec<Totalizer>,
    lower: u64,
    best: Option<(u64, M::Assignment)>,
    cores: u64,
    core_literals: u64,
    hardened: u64,
    sat_calls: u64,
    wanted: u64,
    /// Decisions that the whole search may take.
    effort: u64,
}

/// Why the search stopped early.
enum Stop {
    Limit(Status),
    Error(SolveError),
}

impl From<SolveError> for Stop {
    fn from(e: SolveError) -> Self {
        Self::Error(e)
    }
}

impl<'a, M: Models> Search<'a, M> {
    /// A search for the least of `objective` under the clauses that `sat` has, the objective's own among them, from the best
    /// model known.
    pub fn new(
        models: M,
        objective: Objective,
        sat: Box<dyn Sat>,
        budget: &'a Budget,
        meter: Meter,
        best: Option<(u64, M::Assignment)>,
    ) -> Self {
        let mut assumptions = Assumptions::default();
        for (l, weight, place) in objective.literals {
            assumptions.add(!l, weight, place);
        }
        Self {
            models,
            budget,
            sat,
            meter,
            variables: BasicVarManager::from_next_free(Var::new(objective.next_variable)),
            assumptions,
            settled: FxHashSet::default(),
            outputs: FxHashMap::default(),
            sums: Vec::new(),
            lower: objective.constant,
            best,
            cores: 0,
            core_literals: 0,
            hardened: 0,
            sat_calls: 0,
            wanted: 0,
            effort: u64::MAX,
        }
    }

    /// Searches until the optimum is proven or a limit is met. `effort` limits the SAT solver's decisions.
    pub fn run(
        mut self,
        effort: Option<u64>,
        trace: &mut Trace<'_>,
    ) -> Result<Found<M::Assignment>, SolveError> {
        self.effort = effort.unwrap_or(u64::MAX);
        let status = match self.search(trace) {
            Ok(status) | Err(Stop::Limit(status)) => status,
            Err(Stop::Error(e)) => return Err(e),
        };
        let mut counters = vec![
            ("cores", self.cores),
            ("core_literals", self.core_literals),
            ("hardened", self.hardened),
            ("sat_calls", self.sat_calls),
        ];
        if self.wanted > 0 {
            counters.push(("wanted_bytes", self.wanted));
        }
        Ok(Found {
            status,
            // Refutations after hardening speak of better models only, so that the bound may run past the incumbent.
            lower: self.incumbent().map_or(self.lower, |cost| self.lower.min(cost)),
            peak_bytes: self.meter.peak(),
            counters,
            best: self.best,
        })
    }

    /// The cost of the best model known.
    fn incumbent(&self) -> Option<u64> {
        self.best.as_ref().map(|&(cost, _)| cost)
    }

    fn search(&mut self, trace: &mut Trace<'_>) -> Result<Status, Stop> {
        trace.bound(self.lower);
        let mut stratum = self.assumptions.weights().max().unwrap_or(0);
        loop {
            self.windows(stratum, trace)?;
            if self.incumbent().is_some_and(|cost| cost <= self.lower) {
                return Ok(self.optimal(trace));
            }
            self.harden()?;
            match self.query(&self.assumptions.at_least(stratum), None)? {
                Some(Answer::Sat) => {
                    self.improve(trace)?;
                    let below = |limit: u64| self.assumptions.weights().filter(move |&w| w <= limit).max();
                    // Halving at least: strata of one weight each would mean a query per distinct weight.
                    match below(stratum / 2).or_else(|| below(stratum.saturating_sub(1))) {
                        Some(next) => stratum = next,
                        None => return Ok(self.optimal(trace)),
                    }
                }
                Some(Answer::Unsat(core)) if core.is_empty() => {
                    // Hardening forbids what cannot beat the incumbent, so an incumbent here is optimal.
                    return Ok(if self.best.is_some() {
                        self.optimal(trace)
                    } else {
                        Status::Infeasible
                    });
                }
                Some(Answer::Unsat(core)) => self.relax(core, trace)?,
                Some(Answer::Interrupted) | None => return Ok(Status::Timeout),
            }
        }
    }

    /// Relaxes the cores that lie within a window, until none has one that little effort finds. A window is asked about when
    /// something in it is new.
    fn windows(&mut self, stratum: u64, trace: &mut Trace<'_>) -> Result<(), Stop> {
        for size in WINDOWS {
            let active = self.assumptions.by_place(stratum);
            if active.len() <= size.max(WINDOWED) {
                break; // the query with all of them does the same
            }
            for window in active.chunks(size) {
                if window.iter().all(|(_, l)| self.settled.contains(l)) {
                    continue;
                }
                let (first, last) = (window[0].0, window[window.len() - 1].0);
                loop {
                    if self.budget.exhausted() {
                        return Err(Stop::Limit(Status::Timeout));
                    }
                    let assumed = self.assumptions.between(first, last, stratum);
                    match self.query(&assumed, Some(EFFORT))? {
                        Some(Answer::Unsat(core)) if core.is_empty() => return Ok(()),
                        Some(Answer::Unsat(core)) => self.relax(core, trace)?,
                        _ => break,
                    }
                }
            }
        }
        self.settled = self.assumptions.at_least(stratum).into_iter().collect();
        Ok(())
    }

    fn optimal(&mut self, trace: &mut Trace<'_>) -> Status {
        if let Some(cost) = self.incumbent() {
            self.lower = cost;
            trace.bound(cost);
        }
        Status::Optimal
    }

    /// One SAT query; `None` when the effort or the budget ran out.
    fn query(&mut self, assumptions: &[Lit], effort: Option<u64>) -> Result<Option<Answer>, Stop> {
        self.sat_calls += 1;
        let left = self.effort.saturating_sub(self.sat.spent());
        if left == 0 {
            return Ok(None);
        }
        let effort = Some(effort.map_or(left, |e| e.min(left)));
        Ok(match self.sat.solve(assumptions, effort)? {
            Answer::Interrupted => None,
            answer => Some(answer),
        })
    }

    /// Takes the last model as the incumbent if it is better.
    fn improve(&mut self, trace: &mut Trace<'_>) -> Result<(), Stop> {
        let (cost, assignment) = self.models.read(&|l| self.sat.holds(l))?;
        if self.incumbent().is_none_or(|best| cost < best) {
            trace.incumbent(cost);
            self.best = Some((cost, assignment));
        }
        Ok(())
    }

    /// An assumption that costs more than the gap holds in every better model: it becomes a fact.
    fn harden(&mut self) -> Result<(), Stop> {
        let Some(cost) = self.incumbent() else {
            return Ok(());
        };
        let gap = cost.saturating_sub(self.lower);
        for l in self.assumptions.at_least(gap.saturating_add(1)) {
            self.assumptions.remove(l);
            self.sat.add([l].into_iter().collect())?;
            self.hardened += 1;
        }
        Ok(())
    }

    fn relax(&mut self, core: Vec<Lit>, trace: &mut Trace<'_>) -> Result<(), Stop> {
        let core = self.minimise(core)?;
        if core.is_empty() {
            return Ok(()); // unsatisfiable without assumptions: the next query says so again
        }
        let result = self.relax_minimised(&core);
        trace.bound(self.lower.min(self.incumbent().unwrap_or(u64::MAX)));
        result
    }

    fn relax_minimised(&mut self, core: &[Lit]) -> Result<(), Stop> {
        self.cores += 1;
        self.core_literals += core.len() as u64;
        let weights = core.iter().filter_map(|&l| self.assumptions.weight(l));
        let weight = weights.min().unwrap_or(0);
        let places = core.iter().filter_map(|&l| self.assumptions.place(l));
        let place = places.min().unwrap_or(0);
        self.lower += weight;
        for &l in core {
            let own = self.assumptions.place(l).unwrap_or(place);
            self.assumptions.spend(l, weight);
            if let Some(&(sum, allowed)) = self.outputs.get(&l) {
                self.assume_output(sum, allowed + 1, weight, own)?;
            }
        }
        if let [l] = core[..] {
            self.sat.add([!l].into_iter().collect())?;
            return Ok(());
        }
        self.sat.add(core.iter().map(|&l| !l).collect())?;
        // Building the tree takes a node per literal; its clauses come with the outputs.
        self.take(core.len() as u64 * 64)?;
        self.sums
            .push(Totalizer::from(core.iter().map(|&l| !l).collect::<Vec<_>>()));
        let sum = self.sums.len() - 1;
        let allowed = self.exhaust(sum, core.len(), weight)?;
        self.assume_output(sum, allowed, weight, place)
    }

    /// Raises the bound of a fresh core's sum while that alone is refuted: each step is a core of its own.
    fn exhaust(&mut self, sum: usize, len: usize, weight: u64) -> Result<usize, Stop> {
        let mut allowed = 1;
        while allowed < len {
            let Some(output) = self.output(sum, allowed)? else {
                break;
            };
            match self.query(&[output], Some(EFFORT))? {
                Some(Answer::Unsat(_)) => {
                    self.sat.add([!output].into_iter().collect())?;
                    self.lower += weight;
                    allowed += 1;
                }
                _ => break,
            }
        }
        Ok(allowed)
    }

    /// Assumes at the given weight that at most `allowed` inputs of the sum are true.
    fn assume_output(&mut self, sum: usize, allowed: usize, weight: u64, place: u32) -> Result<(), Stop> {
        if let Some(output) = self.output(sum, allowed)? {
            self.assumptions.add(output, weight, place);
            self.outputs.insert(output, (sum, allowed));
        }
        Ok(())
    }

    /// The literal that says "at most `allowed` inputs are true"; `None` when there are no more inputs than that.
    fn output(&mut self, sum: usize, allowed: usize) -> Result<Option<Lit>, Stop> {
        let mut clauses = Cnf::new();
        let before = self.variables.n_used();
        let totalizer = &mut self.sums[sum];
        let fail = |e: &dyn std::fmt::Display| SolveError::Backend {
            library: "rustsat",
            message: e.to_string(),
        };
        totalizer
            .encode_ub_change(allowed..=allowed, &mut clauses, &mut self.variables)
            .map_err(|e| fail(&e))?;
        let enforced = totalizer.enforce_ub(allowed).map_err(|e| fail(&e))?;
        let literals: u64 = clauses.iter().map(|c| 44 + 4 * c.len() as u64).sum();
        self.take(literals + u64::from(self.variables.n_used() - before) * 96)?;
        for clause in clauses {
            self.sat.add(clause)?;
        }
        Ok(enforced.first().copied())
    }

    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        self.meter.take(bytes).map_err(|e| {
            self.wanted = e.wanted;
            Stop::Limit(Status::OutOfMemory)
        })
    }

    /// Trims the core by asking again, then drops literals one by one while little effort shows the rest to be a core.
    fn minimise(&mut self, mut core: Vec<Lit>) -> Result<Vec<Lit>, Stop> {
        for _ in 0..3 {
            match self.query(&core, Some(10 * EFFORT))? {
                Some(Answer::Unsat(smaller)) if smaller.len() < core.len() => core = smaller,
                _ => break,
            }
        }
        if core.len() > MINIMISE_UP_TO {
            return Ok(core);
        }
        // Heavy literals first: the core's least weight is what the bound gains.
        core.sort_by_key(|l| (self.assumptions.weight(*l).unwrap_or(0), *l));
        let mut i = 0;
        while i < core.len() && core.len() > 1 {
            if self.budget.exhausted() {
                break;
            }
            let rest: Vec<Lit> = core
                .iter()
                .enumerate()
                .filter(|&(j, _)| j != i)
                .map(|(_, l)| *l)
                .collect();
            match self.query(&rest, Some(MINIMISE_EFFORT))? {
                Some(Answer::Unsat(smaller)) => {
                    core.retain(|l| smaller.contains(l));
                    i = 0;
                }
                _ => i += 1,
            }
        }
        Ok(core)
    }
}
