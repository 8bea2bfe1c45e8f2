//! A search by cores (see [`crate::maxsat`]) in what elimination has left.
//!
//! Where what is left asks for a combination without faults rather than for a cheap one (few tuples have a cost, and few distinct
//! ones: satisfiability), messages grow and say little, while a few hundred clauses over the variables that are
//! left are soon solved. Each tuple with a cost becomes a soft clause, each box of forbidden tuples a hard one: what is left
//! is small by then, in place of the whole problem's encoding with a variable per configuration.

use rustsat::types::{Clause, Lit};

use super::boxes;
use super::network::{INF, Network, Table, Var};
use crate::maxsat::SatSolver;
use crate::maxsat::backend;
use crate::maxsat::objective::Objective;
use crate::maxsat::oll::{Models, Search};
use crate::strategy::{Budget, SolveError, Status, Trace};

/// More distinct costs than this are weights, which elimination is better at.
const COSTS: usize = 8;

/// At most one tuple in so many has a cost.
const UNPRICED: usize = 4;

/// Tables of more entries altogether, and variables of more values, take longer to look at than to eliminate.
const ENTRIES: usize = 1 << 14;
const VALUES: usize = 64;

/// More clauses than this take longer to state than tables take to fill.
const CLAUSES: usize = 4096;

/// Decisions that the SAT solver may take: some milliseconds.
const EFFORT: u64 = 20_000;

/// What the search proved.
pub(super) enum Answer {
    /// The least that the tables left can cost, and the original value of each variable left that costs it.
    Optimal {
        cost: u64,
        values: Vec<(Var, u32)>,
    },
    Infeasible,
}

/// The answer, if what is left of the network asks for this search and little effort finds one; and what was counted.
pub(super) type Found<A> = Option<(A, Vec<(&'static str, u64)>)>;

/// Searches in the variables `left` of the network, ascending: all that are not eliminated.
pub(super) fn search(net: &Network, left: Vec<Var>, budget: &Budget) -> Result<Found<Answer>, SolveError> {
    if !is_nearly_unpriced(net, &left) {
        return Ok(None);
    }
    let Some(formula) = Formula::new(net, left) else {
        return Ok(None);
    };
    let mut meter = net.meter;
    // A clause of these has a handful of literals, two watches, and a variable that relaxes it.
    if meter.take(formula.clauses.len() as u64 * 256).is_err() {
        return Ok(None);
    }
    let mut sat = backend::open(SatSolver::default(), budget);
    for clause in formula.clauses {
        sat.add(clause)?;
    }
    let models = Values {
        net,
        variables: formula.variables,
    };
    let search = Search::new(models, formula.objective, sat, budget, meter, None);
    let found = search.run(Some(EFFORT), &mut Trace::silent())?;
    let answer = match (found.status, found.best) {
        (Status::Optimal, Some((cost, values))) => Answer::Optimal { cost, values },
        (Status::Infeasible, None) => Answer::Infeasible,
        _ => return Ok(None),
    };
    Ok(Some((answer, found.counters)))
}

/// The literals of a network variable.
#[derive(Clone, Copy, Debug)]
struct Literals {
    variable: Var,
    /// The first SAT variable: one that says "the second value" where there are two values, else one per value.
    first: u32,
    size: u32,
}

impl Literals {
    /// The literal that is true when the variable has the value at this position.
    fn has(self, position: usize) -> Lit {
        match self.size {
            2 => Lit::new(self.first, position == 0),
            _ => Lit::new(self.first + position as u32, false),
        }
    }
}

struct Formula {
    variables: Vec<Literals>,
    clauses: Vec<Clause>,
    objective: Objective,
}

impl Formula {
    /// The network as clauses; `None` when these would be many or their weights would differ much.
    fn new(net: &Network, left: Vec<Var>) -> Option<Self> {
        let mut formula = Self {
            variables: Vec::new(),
            clauses: Vec::new(),
            objective: Objective {
                constant: 0,
                literals: Vec::new(),
                clauses: Vec::new(),
                next_variable: 0,
            },
        };
        let next = &mut formula.objective.next_variable;
        for variable in left {
            let size = net.size(variable) as u32;
            let literals = Literals {
                variable,
                first: *next,
                size,
            };
            formula.variables.push(literals);
            if size == 2 {
                *next += 1;
                continue;
            }
            *next += size;
            let all = (0..size as usize).map(|p| literals.has(p));
            formula.clauses.push(all.clone().collect());
            for (i, a) in all.enumerate() {
                let clash = |p| [!a, !literals.has(p)].into_iter().collect::<Clause>();
                formula.clauses.extend((0..i).map(clash));
            }
            if formula.clauses.len() > CLAUSES {
                return None;
            }
        }
        for at in 0..formula.variables.len() {
            let v = formula.variables[at].variable;
            formula.table(&[at], &net.unary[v as usize])?;
            for table in tables_from(net, v) {
                let scope: Vec<usize> = table.scope.iter().map(|&u| formula.position(u)).collect();
                formula.table(&scope, &table.data)?;
            }
        }
        Some(formula)
    }

    /// States a table over the variables at these positions.
    fn table(&mut self, scope: &[usize], data: &[u64]) -> Option<()> {
        let of: Vec<Literals> = scope.iter().map(|&at| self.variables[at]).collect();
        let sizes: Vec<usize> = of.iter().map(|l| l.size as usize).collect();
        let strides = boxes::strides(&sizes);
        for (tuple, &cost) in data.iter().enumerate().filter(|&(_, &c)| 0 < c && c < INF) {
            let relaxed = Lit::new(self.objective.next_variable, false);
            self.objective.next_variable += 1;
            self.objective.literals.push((relaxed, cost, scope[0] as u32));
            let digits = of.iter().zip(&strides);
            let mut clause: Clause = digits
                .map(|(l, &stride)| !l.has(tuple / stride % l.size as usize))
                .collect();
            clause.add(relaxed);
            self.clauses.push(clause);
        }
        for inside in boxes::cover(data, &sizes) {
            // At least one variable is outside the box.
            let mut clause = Clause::new();
            for (l, members) in of.iter().zip(&inside) {
                match members[..] {
                    [only] => clause.add(!l.has(only)),
                    _ => {
                        let outside = (0..l.size as usize).filter(|p| !members.contains(p));
                        clause.extend(outside.map(|p| l.has(p)));
                    }
                }
            }
            self.clauses.push(clause);
        }
        (self.clauses.len() <= CLAUSES).then_some(())
    }

    fn position(&self, variable: Var) -> usize {
        position(&self.variables, variable)
    }
}

/// Whether few tuples have a price, and few different ones.
fn is_nearly_unpriced(net: &Network, left: &[Var]) -> bool {
    let mut costs = Vec::with_capacity(COSTS);
    let (mut priced, mut all) = (0, 0);
    for &v in left {
        if net.size(v) > VALUES {
            return false;
        }
        for data in tables_from(net, v)
            .map(|t| &t.data)
            .chain([&net.unary[v as usize]])
        {
            all += data.len();
            if all > ENTRIES {
                return false;
            }
            for &cost in data.iter().filter(|&&c| 0 < c && c < INF) {
                priced += 1;
                if let Err(at) = costs.binary_search(&cost) {
                    costs.insert(at, cost);
                }
                if costs.len() > COSTS || priced > CLAUSES {
                    return false;
                }
            }
        }
    }
    priced * UNPRICED <= all
}

/// The tables whose first variable this is: so each is met once.
fn tables_from(net: &Network, v: Var) -> impl Iterator<Item = &Table> {
    let of = net.of[v as usize].iter().map(|&t| &net.tables[t as usize]);
    of.filter(move |t| t.scope[0] == v)
}

/// Where a variable that is left stands among them.
fn position(variables: &[Literals], variable: Var) -> usize {
    variables.partition_point(|l| l.variable < variable)
}

/// Models are values of the variables left.
struct Values<'a> {
    net: &'a Network,
    variables: Vec<Literals>,
}

impl Models for Values<'_> {
    type Assignment = Vec<(Var, u32)>;

    fn read(&self, holds: &dyn Fn(Lit) -> bool) -> Result<(u64, Self::Assignment), SolveError> {
        let wrong = |message: &str| SolveError::Backend {
            library: "rustsat",
            message: message.into(),
        };
        let taken = |l: &Literals| (0..l.size as usize).find(|&p| holds(l.has(p)));
        let positions: Option<Vec<usize>> = self.variables.iter().map(taken).collect();
        let positions = positions.ok_or_else(|| wrong("a model leaves a variable without value"))?;
        let mut cost = 0u64;
        for (literals, &position) in self.variables.iter().zip(&positions) {
            let v = literals.variable as usize;
            cost = cost.saturating_add(self.net.unary[v][position]);
            for table in tables_from(self.net, literals.variable) {
                let at = table.scope.iter().fold(0, |at, &u| {
                    at * self.net.size(u) + positions[self::position(&self.variables, u)]
                });
                cost = cost.saturating_add(table.data[at]);
            }
        }
        if cost >= INF {
            return Err(wrong("a model takes a forbidden tuple"));
        }
        let original = |(l, &p): (&Literals, &usize)| {
            let domain = self.net.domain(l.variable);
            (l.variable, self.net.value(domain, p as u32))
        };
        Ok((
            cost,
            self.variables.iter().zip(&positions).map(original).collect(),
        ))
    }
}
