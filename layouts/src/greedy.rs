//! `greedy`: construction in topological order, then sweeps (seed, section 4.1; it mimics XLA's layout assignment).
//!
//! Construction gives each operator the configuration with the least operator cost plus *marginal* input conversions: a
//! layout that an earlier consumer already requests is free. Then operators are visited in topological order again and
//! again, each moving to its best configuration against the full objective, on strict improvement only, until a sweep
//! changes nothing. Ties go to the lowest index. A projection moves with its operator.
//!
//! Impossible conversions are compared first: costs here are pairs (number of impossible conversions, finite cost), so
//! that sweeps can leave a dead end. What still has one at the end is `no-plan`.
//! Each visit costs O(configurations × arity); the sweeps end since the pair falls strictly with every move.

use crate::id::{ConfigId, LayoutId, OpId, TensorId};
use crate::local::{Ties, UNSET, cheapest};
use crate::problem::Problem;
use crate::projection::{Units, follow};
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// So many operators are constructed properly even after the deadline: some milliseconds. There is to be a plan whatever the
/// clock says; a larger problem's rest is put together blind to conversions' costs, as `local` would.
const UNHURRIED: usize = 10_000;

/// The strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Strategy for Greedy {
    fn name(&self) -> &str {
        "greedy"
    }

    fn solve(
        &self,
        problem: &Problem,
        budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        let bound = problem.sum_of_minimum_costs();
        trace.bound(bound);
        if let Some(o) = problem.operator_without_configs() {
            return Ok(Solutions::operator_without_configs(problem, o));
        }
        let mut late = problem.operators().len() > UNHURRIED && budget.exhausted();
        if late && let Some(solution) = hurried(problem, vec![UNSET; problem.operators().len()]) {
            return Ok(timeout(solution, bound, trace));
        }
        let mut search = Search::new(problem);
        let units = Units::new(problem);
        let mut stopped = late;
        for (i, unit) in units.iter().enumerate() {
            if stopped && !late && i > UNHURRIED {
                late = true;
                if let Some(solution) = hurried(problem, search.assignment.clone()) {
                    return Ok(timeout(solution, bound, trace));
                }
            }
            // The cheapest configurations cannot all be had: blind to conversions' costs, but not to their being impossible.
            if !(late && i > UNHURRIED && search.hurry(unit)) {
                search.construct(unit);
            }
            stopped = stopped || i % 64 == 0 && budget.exhausted();
        }
        let (mut sweeps, mut moves) = (0, 0);
        let mut improved = !stopped;
        while improved {
            improved = false;
            sweeps += 1;
            for (i, unit) in units.iter().enumerate() {
                if search.improve(unit) {
                    moves += 1;
                    improved = true;
                }
                if i % 64 == 0 && budget.exhausted() {
                    (stopped, improved) = (true, false);
                    break;
                }
            }
        }
        let mut solutions = match Solution::new(problem, search.assignment) {
            Ok(solution) => {
                trace.incumbent(solution.cost);
                let status = if stopped {
                    Status::Timeout
                } else {
                    Status::Feasible
                };
                Solutions::one(status, solution, bound)
            }
            Err(_) => Solutions::none(if stopped { Status::Timeout } else { Status::NoPlan }, bound),
        };
        solutions.counters.extend([("sweeps", sweeps), ("moves", moves)]);
        Ok(solutions)
    }
}

/// The plan in which operators that have no configuration yet take their cheapest, if its conversions are possible.
fn hurried(problem: &Problem, assignment: Vec<ConfigId>) -> Option<Solution> {
    cheapest(problem, assignment, Ties::Lowest).and_then(|a| Solution::new(problem, a).ok())
}

fn timeout(solution: Solution, bound: u64, trace: &mut Trace<'_>) -> Solutions {
    trace.incumbent(solution.cost);
    let counters = [("sweeps", 0), ("moves", 0)].into();
    Solutions {
        counters,
        ..Solutions::one(Status::Timeout, solution, bound)
    }
}

/// Impossible conversions first, then finite cost.
type Price = (u32, u64);

struct Search<'a> {
    problem: &'a Problem,
    assignment: Vec<ConfigId>,
    /// For every tensor and layout, at `starts[tensor] + layout`: how many argument positions request it.
    requests: Vec<u32>,
    starts: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem) -> Self {
        let mut starts = Vec::with_capacity(problem.tensors().len());
        let mut total = 0;
        for t in problem.tensors() {
            starts.push(total);
            total += t.layouts.len();
        }
        let assignment = vec![UNSET; problem.operators().len()];
        Self {
            problem,
            assignment,
            requests: vec![0; total],
            starts,
        }
    }

    fn construct(&mut self, unit: &[OpId]) {
        self.place(unit);
        self.count(unit, 1);
    }

    /// Gives the unit the cheapest configuration whose conversions are possible, if there is one.
    fn hurry(&mut self, unit: &[OpId]) -> bool {
        let op = self.problem.operator(unit[0]);
        let mut best: Option<(u64, ConfigId)> = None;
        for (c, config) in op.configs() {
            let possible = |(&t, &to): (&TensorId, &LayoutId)| {
                self.problem.tensor(t).transpose(self.produced(t), to).is_some()
            };
            if best.is_none_or(|(least, _)| config.cost < least)
                && op.inputs.iter().zip(config.inputs).all(possible)
            {
                best = Some((config.cost, c));
            }
        }
        let Some((_, c)) = best else { return false };
        let followed = self.set(unit, c) == unit.len();
        if followed {
            self.count(unit, 1);
        }
        followed
    }

    /// Moves the unit to its best configuration; whether that is a strict improvement.
    fn improve(&mut self, unit: &[OpId]) -> bool {
        let head = unit[0].index();
        let before = self.assignment[head];
        self.count(unit, -1);
        let now = self.price(unit, before);
        let best = self.place(unit);
        let improved = best < now;
        if !improved {
            self.set(unit, before);
        }
        self.count(unit, 1);
        improved
    }

    /// Gives the unit, whose requests are not counted, its best configuration and returns that one's price.
    fn place(&mut self, unit: &[OpId]) -> Price {
        let configs = self.problem.operator(unit[0]).num_configs() as u32;
        let mut best = ((u32::MAX, u64::MAX), ConfigId(0));
        for c in (0..configs).map(ConfigId) {
            let price = self.price(unit, c);
            if price < best.0 {
                best = (price, c);
            }
        }
        self.set(unit, best.1);
        best.0
    }

    /// The part of the objective that depends on the unit when its first member takes `c`. During construction nobody
    /// requests its outputs yet, so that only operator cost and marginal input conversions remain.
    fn price(&mut self, unit: &[OpId], c: ConfigId) -> Price {
        let followed = self.set(unit, c);
        let mut price = (unit.len() as u32 - followed as u32, 0);
        for (i, &o) in unit[..followed].iter().enumerate() {
            let op = self.problem.operator(o);
            let config = op.config(self.assignment[o.index()]);
            price.1 += config.cost;
            for (k, (&t, &to)) in op.inputs.iter().zip(config.inputs).enumerate() {
                let again = op.inputs[..k]
                    .iter()
                    .zip(config.inputs)
                    .any(|(&u, &l)| u == t && l == to);
                let requested = self.requests[self.starts[t.index()] + to.index()] > 0;
                if i == 0 && !again && !requested {
                    self.add_transpose(&mut price, t, self.produced(t), to);
                }
            }
            for to in 0..self.problem.tensor(op.output).layouts.len() {
                if self.requests[self.starts[op.output.index()] + to] > 0 {
                    self.add_transpose(&mut price, op.output, config.output, LayoutId(to as u32));
                }
            }
        }
        price
    }

    fn add_transpose(&self, price: &mut Price, t: TensorId, from: LayoutId, to: LayoutId) {
        match self.problem.tensor(t).transpose(from, to) {
            Some(cost) => price.1 += cost,
            None => price.0 += 1,
        }
    }

    fn produced(&self, t: TensorId) -> LayoutId {
        let producer = self.problem.producer(t);
        self.problem
            .operator(producer)
            .config(self.assignment[producer.index()])
            .output
    }

    /// Sets the first member and lets the projections follow; returns how many members could be set.
    fn set(&mut self, unit: &[OpId], c: ConfigId) -> usize {
        self.assignment[unit[0].index()] = c;
        for (i, &o) in unit.iter().enumerate().skip(1) {
            match follow(self.problem, o, &self.assignment) {
                Some(c) => self.assignment[o.index()] = c,
                None => return i,
            }
        }
        unit.len()
    }

    fn count(&mut self, unit: &[OpId], by: i32) {
        for &o in unit {
            let op = self.problem.operator(o);
            if op.num_configs() == 0 {
                continue;
            }
            for (&t, &l) in op.inputs.iter().zip(op.config(self.assignment[o.index()]).inputs) {
                let count = &mut self.requests[self.starts[t.index()] + l.index()];
                *count = count.wrapping_add_signed(by);
            }
        }
    }
}
