//! `rule-based`, and the published heuristics of its kind: `xla`, `smartmem`, `neocpu`.
//!
//! Rules never read costs. They work on a `view::View`, which has none, and their result goes through the checker like
//! every other. What they know comes with the instance as [`crate::hints`]; without hints the answer is `missing-hints`.
//!
//! `rule-based` (seed, section 4.1), in this order:
//! 1. *Groups.* Dimensions that operators map onto each other are one logical dimension (`groups.rs`).
//! 2. *Propagation.* Operators with known preferences (matmuls, convolutions) keep only their preferred choices; what they thereby
//!    decide about their tensors narrows their neighbours, and so on (`propagate.rs`). Operators without any choice (inputs and
//!    outputs in the ABI layout) start when that has come to rest, so that they never outrank a preference.
//! 3. *Components.* What is open falls apart into parts without an open tensor in common (`component.rs`).
//! 4. *Domain rules*, inside each component: rule by rule, in the order of the hints, each open operator of the rule's kinds keeps
//!    the choices that the rule prefers (or loses those that it avoids), if any is left; propagation after each rule.
//! 5. *Exhaustive search* of what remains in each component, by conversions and by agreement with the groups' demands, not by
//!    cost (`search.rs`). A component with more than [`LIMIT`] combinations is cut: its hub takes its best choice alone, and what that
//!    leaves open is split again.

mod component;
mod demand;
mod groups;
mod neocpu;
mod propagate;
mod search;
mod smartmem;
mod view;
mod xla;

use crate::hints::Verdict;
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};
use component::{combinations, components, hub};
use demand::Demand;
use groups::Groups;
use propagate::{Narrowed, Propagation};
use search::Search;
use view::View;

/// A component with more combinations is cut before it is searched.
pub const LIMIT: u64 = 1 << 16;

/// The strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleBased;

impl Strategy for RuleBased {
    fn name(&self) -> &str {
        "rule-based"
    }

    fn solve(
        &self,
        problem: &Problem,
        budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        answer(problem, trace, |view| rule_based(view, budget))
    }
}

/// A published heuristic of the same kind: rules that make a plan in one go.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    name: &'static str,
    rules: fn(&View<'_>) -> Plan,
}

/// XLA's layout assignment in three phases (`xla.rs`).
pub const XLA: Published = Published {
    name: "xla",
    rules: xla::three_phases,
};
/// SmartMem's layouts by reduction dimension (`smartmem.rs`).
pub const SMARTMEM: Published = Published {
    name: "smartmem",
    rules: smartmem::by_reduction_dimension,
};
/// NeoCPU's one blocked format for all convolutions (`neocpu.rs`).
pub const NEOCPU: Published = Published {
    name: "neocpu",
    rules: neocpu::blocked_flow,
};

impl Strategy for Published {
    fn name(&self) -> &str {
        self.name
    }

    fn solve(
        &self,
        problem: &Problem,
        _budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        answer(problem, trace, self.rules)
    }
}

/// What rules come to.
struct Plan {
    /// One choice per node; `None` when some node has none.
    chosen: Option<Vec<usize>>,
    /// What was counted on the way.
    counters: Vec<(&'static str, u64)>,
    /// Whether the budget ended it early.
    stopped: bool,
}

/// Has `rules` make a plan of what they may see of the problem, and the checker price it.
fn answer(
    problem: &Problem,
    trace: &mut Trace<'_>,
    rules: impl FnOnce(&View<'_>) -> Plan,
) -> Result<Solutions, SolveError> {
    let bound = problem.sum_of_minimum_costs();
    trace.bound(bound);
    if let Some(o) = problem.operator_without_configs() {
        return Ok(Solutions::operator_without_configs(problem, o));
    }
    let Some(hints) = problem.hints() else {
        return Ok(Solutions::none(Status::MissingHints, bound));
    };
    let view = View::of(problem, hints);
    let plan = rules(&view);
    let solution = plan
        .chosen
        .and_then(|chosen| Solution::new(problem, view.assignment(&chosen)).ok());
    let status = |otherwise| if plan.stopped { Status::Timeout } else { otherwise };
    let mut solutions = match solution {
        Some(solution) => {
            trace.incumbent(solution.cost);
            Solutions::one(status(Status::Feasible), solution, bound)
        }
        None => Solutions::none(status(Status::NoPlan), bound),
    };
    solutions.counters.extend(plan.counters);
    Ok(solutions)
}

/// The steps of the module's documentation.
fn rule_based(view: &View<'_>, budget: &Budget) -> Plan {
    let groups = Groups::of(view);
    let mut state = Propagation::new(view, Some(&groups));
    let all: Vec<usize> = (0..view.nodes().len()).collect();
    let anchors = || {
        all.iter()
            .copied()
            .filter(|&n| !view.nodes()[n].preferred.is_empty())
    };
    for anchor in anchors() {
        state.narrow(anchor, |c| view.nodes()[anchor].preferred.contains(&c));
        state.push(anchor);
    }
    state.run();
    for &node in all.iter().filter(|&&n| view.nodes()[n].choices() == 1) {
        state.push(node);
    }
    state.run();

    let parts = components(view, &state, &all);
    let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut counters = vec![
        ("groups", groups.count() as u64),
        ("anchors", anchors().count() as u64),
        ("components", parts.len() as u64),
        ("largest_component", largest as u64),
    ];
    let mut rules_applied = 0;
    for part in &parts {
        rules_applied += apply_rules(view, &mut state, part);
    }
    counters.push(("rules_applied", rules_applied));

    let Some(first) = state.first_choices() else {
        return Plan {
            chosen: None,
            counters,
            stopped: false,
        };
    };
    let demand = Demand::of(view, &groups, &state, anchors());
    let mut search = Search::new(view, &demand, first);
    let mut cuts = 0;
    let mut open: Vec<Vec<usize>> = parts;
    while let Some(part) = open.pop() {
        for part in components(view, &state, &part) {
            if search.stopped || budget.exhausted() {
                search.stopped = true;
                break;
            }
            let small = combinations(&state, &part) <= LIMIT;
            let nodes = match hub(view, &state, &part) {
                Some(hub) if !small => vec![hub],
                _ => part.clone(),
            };
            let best = search.best(&state, &nodes, budget);
            for (&node, &choice) in nodes.iter().zip(&best) {
                state.narrow(node, |c| c == choice);
            }
            state.run();
            for &node in &part {
                search.chosen[node] = state.candidates(node)[0] as usize;
            }
            if !small {
                cuts += 1;
                open.push(part);
            }
        }
    }
    counters.extend([
        ("cuts", cuts),
        ("visited", search.visited),
        ("narrowed", state.narrowed),
        ("conflicts", state.conflicts),
    ]);
    Plan {
        chosen: state.first_choices(),
        counters,
        stopped: search.stopped,
    }
}

/// Applies the domain rules to the open nodes of a component, earlier rules first; how often one narrowed a node.
fn apply_rules(view: &View<'_>, state: &mut Propagation<'_>, part: &[usize]) -> u64 {
    let mut applied = 0;
    for rule in view.rules() {
        for &node in part {
            if state.is_decided(node) || !rule.kinds.contains(&view.operator_hints(node).kind) {
                continue;
            }
            let wanted = rule.verdict == Verdict::Prefer;
            let outcome = state.narrow(node, |c| view.matches(node, c, &rule.when) == wanted);
            applied += u64::from(outcome == Narrowed::Less);
        }
        state.run();
    }
    applied
}
