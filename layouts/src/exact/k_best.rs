//! The k cheapest assignments whose *induced programs* differ.
//!
//! A program is what an assignment makes a compiler emit: per tensor the layout its producer writes and the set of other
//! layouts it is converted to. Lawler's scheme (1972): the space left after a solution is split by the first tensor whose
//! part of the program differs; each piece is solved on its own, and the cheapest waiting piece gives the next solution.
//! With a minimum distance, what is too near to a solution that was given is passed over and split all the same.
//! A piece is an ordinary problem with constraints on some tensors, so that every reduction of the elimination stays
//! sound: none looks across pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Stop;
use super::network::{INF, Network, Var};
use super::solve::{Elimination, Outcome, Rules};
use crate::id::{ConfigId, LayoutId, OpId, TensorId};
use crate::problem::Problem;
use crate::strategy::Budget;

/// One tensor's part of a program: the produced layout, and the layouts it is converted to, ascending.
type Part = (LayoutId, Vec<LayoutId>);

/// A tensor of which more layouts can be asked for is not split on: the table of its parts would be too large.
const MOST_REQUESTS: usize = 12;

/// A set of programs: the first tensors are fixed, the next one must be none of some parts, the others are free.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    fixed: Vec<Part>,
    excluded: Vec<Part>,
}

/// What was found.
pub(super) struct Found {
    /// Cheapest first.
    pub solutions: Vec<(Vec<ConfigId>, u64)>,
    /// Whether these are all there are, or `k`; false when a limit cut the enumeration short.
    pub complete: bool,
    /// Eliminations that were run.
    pub solved: u64,
}

/// Enumerates from the optimum `first`. `base` is the unconstrained network.
pub(super) fn k_best(
    problem: &Problem,
    base: &Network,
    first: (Vec<ConfigId>, u64),
    rules: Rules,
    budget: &Budget,
) -> Found {
    let mut found = Found {
        solutions: Vec::new(),
        complete: true,
        solved: 0,
    };
    let mut waiting = BinaryHeap::from([Reverse((first.1, first.0, Piece::default()))]);
    // The programs of what was found.
    let mut programs: Vec<Vec<Part>> = Vec::new();
    while let Some(Reverse((cost, assignment, piece))) = waiting.pop() {
        let program: Vec<Part> = problem
            .tensor_ids()
            .map(|t| part(problem, t, &assignment))
            .collect();
        let near = |other: &Vec<Part>| distance(other, &program) < budget.min_distance;
        if !programs.iter().any(near) {
            found.solutions.push((assignment, cost));
            if found.solutions.len() == budget.k {
                break;
            }
            programs.push(program.clone());
        }
        for (i, own) in program.iter().enumerate().skip(piece.fixed.len()) {
            let mut excluded = if i == piece.fixed.len() {
                piece.excluded.clone()
            } else {
                Vec::new()
            };
            excluded.push(own.clone());
            let next = Piece {
                fixed: program[..i].to_vec(),
                excluded,
            };
            if possible(problem, TensorId::new(i)).len() > MOST_REQUESTS {
                found.complete = false;
                continue;
            }
            let Ok(network) = constrain(problem, base, &next) else {
                continue;
            };
            found.solved += 1;
            let mut elimination = Elimination::new(network, budget, rules);
            match elimination.run(usize::MAX) {
                Outcome::Solved(values) => {
                    let assignment = values[..problem.operators().len()]
                        .iter()
                        .map(|&v| ConfigId(v))
                        .collect();
                    waiting.push(Reverse((elimination.net.constant, assignment, next)));
                }
                Outcome::Infeasible => {}
                Outcome::OutOfMemory { .. } | Outcome::Timeout => {
                    found.complete = false;
                    return found;
                }
            }
        }
    }
    found
}

/// In how many tensors' parts two programs differ.
fn distance(a: &[Part], b: &[Part]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

/// The part of the program that concerns `t`.
fn part(problem: &Problem, t: TensorId, assignment: &[ConfigId]) -> Part {
    let config = |o: OpId| problem.operator(o).config(assignment[o.index()]);
    let produced = config(problem.producer(t)).output;
    let mut asked: Vec<LayoutId> = problem
        .uses(t)
        .iter()
        .map(|&(o, position)| config(o).inputs[position as usize])
        .filter(|&l| l != produced)
        .collect();
    asked.sort_unstable();
    asked.dedup();
    (produced, asked)
}

fn constrain(problem: &Problem, base: &Network, piece: &Piece) -> Result<Network, Stop> {
    let mut net = base.clone();
    for (t, (produced, converted)) in problem.tensor_ids().zip(&piece.fixed) {
        let allowed = |l: LayoutId| l == *produced || converted.contains(&l);
        forbid(&mut net, problem, problem.producer(t), |c| {
            problem.operator(problem.producer(t)).config(c).output != *produced
        })?;
        for o in readers(problem, t) {
            forbid(&mut net, problem, o, |c| {
                requests(problem, o, c, t).any(|l| !allowed(l))
            })?;
        }
        for &l in converted {
            let asked = asked(&mut net, problem, t, l)?;
            net.unary[asked as usize][0] = INF;
            net.settle_unary(asked)?;
        }
    }
    let t = TensorId::new(piece.fixed.len());
    let layouts = problem.tensor(t).layouts.len();
    let producer = problem.producer(t);
    // The produced layout as a variable, and for each layout whether it is asked for; the excluded parts are tuples.
    let produced = net.variable((0..layouts).map(|_| 0))?;
    let operator = problem.operator(producer);
    let tie = operator
        .configs()
        .flat_map(|(_, c)| (0..layouts).map(move |l| if c.output.index() == l { 0 } else { INF }));
    net.add(vec![producer.0, produced], tie.collect())?;
    let possible = possible(problem, t);
    let mut scope = vec![produced];
    for &l in &possible {
        scope.push(asked(&mut net, problem, t, l)?);
    }
    let subsets = 1usize << possible.len();
    let mut data = Vec::with_capacity(layouts * subsets);
    for from in (0..layouts as u32).map(LayoutId) {
        for set in 0..subsets {
            // The scope's last variable varies fastest.
            let is_in = |i: usize| set >> (possible.len() - 1 - i) & 1 == 1;
            let converted: Vec<LayoutId> = possible
                .iter()
                .enumerate()
                .filter(|&(i, &l)| is_in(i) && l != from)
                .map(|(_, &l)| l)
                .collect();
            data.push(if piece.excluded.contains(&(from, converted)) {
                INF
            } else {
                0
            });
        }
    }
    net.add(scope, data)?;
    Ok(net)
}

/// Layouts of `t` that some reader can ask for.
fn possible(problem: &Problem, t: TensorId) -> Vec<LayoutId> {
    let readers = readers(problem, t);
    let layouts = (0..problem.tensor(t).layouts.len() as u32).map(LayoutId);
    layouts
        .filter(|&l| readers.iter().any(|&o| can_request(problem, o, t, l)))
        .collect()
}

fn forbid(net: &mut Network, problem: &Problem, o: OpId, bad: impl Fn(ConfigId) -> bool) -> Result<(), Stop> {
    for (c, _) in problem.operator(o).configs() {
        if bad(c) {
            net.unary[o.index()][c.index()] = INF;
        }
    }
    net.settle_unary(o.0)
}

/// Operators that read `t`, each once.
fn readers(problem: &Problem, t: TensorId) -> Vec<OpId> {
    let mut readers: Vec<OpId> = problem.uses(t).iter().map(|&(o, _)| o).collect();
    readers.dedup();
    readers
}

fn requests(problem: &Problem, o: OpId, c: ConfigId, t: TensorId) -> impl Iterator<Item = LayoutId> + '_ {
    let op = problem.operator(o);
    op.inputs
        .iter()
        .zip(op.config(c).inputs)
        .filter(move |(u, _)| **u == t)
        .map(|(_, l)| *l)
}

fn can_request(problem: &Problem, o: OpId, t: TensorId, l: LayoutId) -> bool {
    problem
        .operator(o)
        .configs()
        .any(|(c, _)| requests(problem, o, c, t).any(|m| m == l))
}

/// A Boolean variable that is 1 exactly when some reader asks for `t` in `l`: a chain of disjunctions over the readers.
fn asked(net: &mut Network, problem: &Problem, t: TensorId, l: LayoutId) -> Result<Var, Stop> {
    let mut so_far: Option<Var> = None;
    for o in readers(problem, t)
        .into_iter()
        .filter(|&o| can_request(problem, o, t, l))
    {
        let next = net.variable([0, 0].into_iter())?;
        let mut data = Vec::new();
        for (c, _) in problem.operator(o).configs() {
            let here = requests(problem, o, c, t).any(|m| m == l);
            for before in if so_far.is_some() {
                &[false, true][..]
            } else {
                &[false][..]
            } {
                data.extend([false, true].map(|after| if after == (here || *before) { 0 } else { INF }));
            }
        }
        // Operators' variables come first, chains later: the scope ascends as it must.
        let scope = std::iter::once(o.0).chain(so_far).chain([next]).collect();
        net.add(scope, data)?;
        so_far = Some(next);
    }
    match so_far {
        Some(asked) => Ok(asked),
        None => net.variable([0, INF].into_iter()),
    }
}
