//! The same encoding under z3's optimiser, an independent MaxSAT solver.
//!
//! z3 runs in a thread of its own, whose context ends with it; a second one interrupts it when the budget ends; the
//! caller's thread takes the models as they come. Costs are recomputed from models: z3's upper bound can be looser.
//! The memory limit covers the encoding only, what z3 takes while it searches is not metered.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use z3::ast::Bool;
use z3::{Context, Model, Optimize, Params, SatResult};

use super::backend;
use crate::encoding::{Encoding, Literal};
use crate::greedy::Greedy;
use crate::meter::Meter;
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// How often the budget is looked at while z3 searches.
const WATCH: Duration = Duration::from_millis(5);

/// The strategy `maxsat` with z3 as its solver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Z3;

/// How z3 ended.
struct Outcome {
    result: SatResult,
    /// The values of the variables in the last model.
    model: Option<Vec<bool>>,
    /// z3's lower bound on the weight of the violated soft clauses.
    lower: Option<u64>,
    reason: String,
}

fn failed(message: impl Into<String>) -> SolveError {
    SolveError::Backend {
        library: "z3",
        message: message.into(),
    }
}

impl Strategy for Z3 {
    fn name(&self) -> &str {
        "maxsat"
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
        let mut best = Greedy.solve(problem, budget, trace)?.ranked.into_iter().next();
        let encoding = Encoding::new(problem);
        let mut meter = Meter::new(budget.memory_limit);
        if let Err(e) = meter.take(backend::estimated_bytes(&encoding)) {
            let mut solutions = Solutions::none(Status::OutOfMemory, bound);
            solutions.ranked.extend(best);
            solutions.counters.insert("wanted_bytes", e.wanted);
            return Ok(solutions);
        }
        let mut models = 0;
        let mut streamed = bound;
        let (send, receive) = channel();
        let outcome = std::thread::scope(|scope| {
            let solver = scope.spawn(|| optimise(&encoding, budget, send));
            for (model, lower) in receive {
                // An unfinished model may leave an operator without configuration; only the last one has to be whole.
                let assignment = encoding.decode(|v| model[v as usize]);
                if let Some(solution) = assignment.and_then(|a| Solution::new(problem, a).ok()) {
                    models += 1;
                    keep(&mut best, solution, trace);
                }
                // As at the end, a bound is kept only beside an assignment that it is held against.
                if let (Some(b), Some(lower)) = (&best, lower) {
                    streamed = streamed.max(lower.min(b.cost));
                    trace.bound(streamed);
                }
            }
            solver.join()
        })
        .map_err(|_| failed("the solver's thread panicked"))?;
        if let Some(model) = &outcome.model {
            match encoding.decode(|v| model[v as usize]) {
                Some(assignment) => match Solution::new(problem, assignment) {
                    Ok(solution) => keep(&mut best, solution, trace),
                    Err(source) if outcome.result == SatResult::Sat => {
                        let claimed = outcome.lower.unwrap_or(bound);
                        return Err(SolveError::Invalid { claimed, source });
                    }
                    Err(_) => {}
                },
                None if outcome.result == SatResult::Sat => {
                    return Err(failed(
                        "a model of the hard clauses leaves an operator without configuration",
                    ));
                }
                None => {}
            }
        }
        let (status, proof) = judge(&outcome, best.as_ref(), budget)?;
        let lower = match (&best, status) {
            (Some(b), Status::Optimal) => b.cost,
            (Some(b), _) => outcome.lower.unwrap_or(0).max(streamed).min(b.cost),
            // Without a model z3's bound may speak of better models than one it did not show.
            (None, _) => bound,
        };
        trace.bound(lower);
        let mut solutions = Solutions::none(status, lower);
        solutions.ranked.extend(best);
        solutions.proof = proof.into();
        solutions.peak_bytes = meter.peak();
        solutions.counters.extend([
            ("variables", encoding.meanings.len() as u64),
            (
                "hard_clauses",
                encoding.hard.len() as u64 + encoding.pairs().count() as u64,
            ),
            ("soft_clauses", encoding.soft.len() as u64),
            ("models", models),
        ]);
        Ok(solutions)
    }
}

/// What z3's answer says, held against the best assignment known.
fn judge(
    outcome: &Outcome,
    best: Option<&Solution>,
    budget: &Budget,
) -> Result<(Status, &'static str), SolveError> {
    let stopped = budget.exhausted()
        || ["timeout", "cancel", "interrupt"]
            .iter()
            .any(|w| outcome.reason.contains(w));
    match (outcome.result, best) {
        (SatResult::Sat, Some(b)) => {
            if outcome.lower.is_some_and(|l| l < b.cost) {
                // Satisfied but not optimised: an answer of a search that was stopped.
                return if stopped {
                    Ok((Status::Timeout, ""))
                } else {
                    Err(failed(format!(
                        "ended with a bound of {:?} below the model's cost of {}",
                        outcome.lower, b.cost
                    )))
                };
            }
            Ok((Status::Optimal, "z3 proved the model's cost least"))
        }
        (SatResult::Sat, None) => Err(failed("satisfiable, but without a model")),
        (SatResult::Unsat, None) => Ok((Status::Infeasible, "the hard clauses are unsatisfiable")),
        (SatResult::Unsat, Some(b)) => Err(failed(format!(
            "calls a problem infeasible that has an assignment of cost {}",
            b.cost
        ))),
        (SatResult::Unknown, _) if stopped => Ok((Status::Timeout, "")),
        (SatResult::Unknown, _) => Err(failed(format!("gave up: {}", outcome.reason))),
    }
}

fn keep(best: &mut Option<Solution>, solution: Solution, trace: &mut Trace<'_>) {
    trace.incumbent(solution.cost);
    if best.as_ref().is_none_or(|b| solution.cost < b.cost) {
        *best = Some(solution);
    }
}

/// The values of the variables in a model, and the lower bound at that moment.
type Found = (Vec<bool>, Option<u64>);

/// Runs z3 on the encoding; every model goes through `models` as it is found, with the bound that z3 then has.
fn optimise(encoding: &Encoding, budget: &Budget, models: Sender<Found>) -> Outcome {
    let stopped = || Outcome {
        result: SatResult::Unknown,
        model: None,
        lower: None,
        reason: "timeout".into(),
    };
    let variables: Vec<Bool> = (0..encoding.meanings.len() as u32).map(Bool::new_const).collect();
    let clause = |literals: &[Literal]| {
        let literals: Vec<Bool> = literals
            .iter()
            .map(|l| {
                let v = &variables[l.variable() as usize];
                if l.is_negative() { v.not() } else { v.clone() }
            })
            .collect();
        Bool::or(&literals)
    };
    let optimize = Rc::new(Optimize::new());
    let pairs = encoding.pairs().map(|p| p.to_vec());
    for (i, literals) in encoding.hard.iter().cloned().chain(pairs).enumerate() {
        if i % 1024 == 0 && budget.exhausted() {
            return stopped();
        }
        optimize.assert(clause(&literals));
    }
    for (i, (literals, weight)) in encoding.soft.iter().enumerate() {
        if i % 1024 == 0 && budget.exhausted() {
            return stopped();
        }
        optimize.assert_soft(&clause(literals), *weight, None);
    }
    let (watched, bounded) = (variables.clone(), !encoding.soft.is_empty());
    // Weak: the optimiser owns its handler.
    let asked = Rc::downgrade(&optimize);
    optimize.set_model_handler(move |model| {
        let lower = asked.upgrade().filter(|_| bounded).and_then(|o| lower_bound(&o));
        // A caller that is gone wants no more models; it has its reasons.
        let _ = models.send((values(model, &watched), lower));
    });
    if let Some(deadline) = budget.deadline {
        // 0 and the largest number mean "no limit" to z3.
        let left = deadline.saturating_duration_since(Instant::now()).as_millis() + 1;
        if left < u128::from(u32::MAX) {
            let mut params = Params::new();
            params.set_u32("timeout", left as u32);
            optimize.set_params(&params);
        }
    }
    let result = check_watched(&optimize, budget);
    let lower = if encoding.soft.is_empty() {
        Some(0)
    } else {
        lower_bound(&optimize)
    };
    let model = match result {
        SatResult::Unsat => None,
        _ => optimize.get_model().map(|m| values(&m, &variables)),
    };
    Outcome {
        result,
        model,
        lower,
        reason: optimize.get_reason_unknown().unwrap_or_default(),
    }
}

fn lower_bound(optimize: &Optimize) -> Option<u64> {
    optimize.get_lower(0).and_then(|l| integer(&l.to_string()))
}

/// Checks while another thread watches the budget.
fn check_watched(optimize: &Optimize, budget: &Budget) -> SatResult {
    let context = Context::thread_local();
    let handle = context.handle();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                // An interrupt that comes before the search has begun is lost, so that one is not enough.
                if budget.exhausted() {
                    handle.interrupt();
                }
                std::thread::park_timeout(WATCH);
            }
        });
        let result = optimize.check(&[]);
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        result
    })
}

/// The values of the variables; one that the model leaves open is false.
fn values(model: &Model, variables: &[Bool]) -> Vec<bool> {
    let value = |v: &Bool| model.get_const_interp(v).and_then(|b| b.as_bool());
    variables.iter().map(|v| value(v).unwrap_or(false)).collect()
}

/// A non-negative whole number as z3 prints it: `12`, or `12.0` for a real.
fn integer(text: &str) -> Option<u64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::integer;

    #[test]
    fn bounds_are_read_as_printed() {
        assert_eq!(integer("12"), Some(12));
        assert_eq!(integer("12.0"), Some(12));
        assert_eq!(integer("18446744073709551615"), Some(u64::MAX));
        for not in ["(- 1)", "oo", "(/ 1 2)", "0.5", ""] {
            assert_eq!(integer(not), None, "{not}");
        }
    }
}
