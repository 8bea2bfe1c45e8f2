//! From a problem to a cost function network.
//!
//! Variables: one per operator (its configurations); per tensor, where its producer has more configurations than the
//! tensor has layouts, the *produced layout*; per operator with many configurations and tensor it reads, the *request*
//! (the set of layouts it asks for); per tensor and layout that several operators can request, a *hub* that is 1 when one
//! of them does. Up to [`Hubs`]' limit, a tensor's hubs are one variable whose values are subsets, those that serve every
//! reader somehow. A layout that one operator alone can request needs no hub: a table between producer and consumer prices
//! it; nor does one whose conversions are all free or impossible, as a bundle's are. Requests that no produced layout pays
//! for are left out.
//!
//! The network is built tensor by tensor, so that an elimination can follow behind.

use std::ops::Range;

use super::Stop;
use super::network::{INF, Network, Var, plus};
use crate::id::{LayoutId, OpId, TensorId};
use crate::problem::Problem;

/// How the sharing of conversions is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hubs {
    /// One Boolean variable per shared layout.
    Boolean,
    /// One variable per tensor, whose values are the subsets of its shared layouts, where there are at most this many of
    /// them; Boolean ones elsewhere.
    Subsets(u32),
}

/// What the network is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modelling {
    pub hubs: Hubs,
    /// Operators with at least this many configurations get a variable for the produced layout.
    pub produced_from: usize,
    /// Operators with at least this many configurations get request variables.
    pub requests_from: usize,
}

/// No variable yet, or no class yet.
pub(super) const NONE: u32 = u32::MAX;

/// Builds a network piece by piece.
pub(super) struct Builder<'a> {
    problem: &'a Problem,
    modelling: Modelling,
    /// The variable of each operator.
    variables: Vec<Var>,
    /// Per variable, the operator it was made for, or for whose result it was made; and which of its variables it is, 0 being its own.
    origins: Vec<(OpId, u32)>,
    /// Sum of the least costs of the operators that have no variable yet: they count towards the lower bound.
    pub to_come: u64,
    scratch: Scratch,
}

/// The tensor at hand. Values of a variable that mean the same for it are one *class*.
#[derive(Default)]
struct Scratch {
    /// Per value of a variable, its class; several variables' one after the other.
    class_of: Vec<u32>,
    /// Per class of requests, which `layouts` it asks for, ascending and priced.
    sets: Vec<Range<usize>>,
    layouts: Vec<LayoutId>,
    /// Layouts that the producer can write.
    distinct: Vec<LayoutId>,
    readers: Vec<Reader>,
    /// Per layout.
    class_by_layout: Vec<u32>,
    priced: Vec<bool>,
    requesters: Vec<u32>,
    direct: Vec<bool>,
    /// Costs between two variables' classes.
    matrix: Vec<u64>,
    asked: Vec<LayoutId>,
    /// Layouts that several can request.
    shared: Vec<LayoutId>,
    hubs: Vec<Hub>,
    /// Subsets of hubs' layouts, as bits.
    subsets: Vec<u32>,
}

/// A hub variable: which of the shared layouts somebody requests.
#[derive(Clone, Debug)]
struct Hub {
    variable: Var,
    /// Which of the shared layouts.
    layouts: Range<usize>,
    /// Which subsets of them are its values.
    values: Range<usize>,
}

/// An operator that reads the tensor.
#[derive(Clone, Debug)]
struct Reader {
    op: OpId,
    class_of: Range<usize>,
    sets: Range<usize>,
}

/// A variable, and the class of each of its values.
#[derive(Clone, Debug)]
struct Side {
    variable: Var,
    class_of: Range<usize>,
}

/// Builds the whole network. Variable `o` is operator `o`; the others follow.
pub(super) fn build(problem: &Problem, modelling: Modelling, mut net: Network) -> Result<Network, Stop> {
    let mut builder = Builder::new(problem, modelling);
    for o in problem.op_ids() {
        builder.variable(&mut net, o)?;
    }
    for t in problem.tensor_ids() {
        builder.tensor(&mut net, t)?;
    }
    Ok(net)
}

impl<'a> Builder<'a> {
    pub fn new(problem: &'a Problem, modelling: Modelling) -> Self {
        Self {
            problem,
            modelling,
            variables: vec![NONE; problem.operators().len()],
            origins: Vec::new(),
            to_come: problem.sum_of_minimum_costs(),
            scratch: Scratch::default(),
        }
    }

    /// The variable of each operator, once each has one.
    pub fn into_variables(self) -> Vec<Var> {
        self.variables
    }

    /// The operator's variable, made if there was none.
    pub fn variable(&mut self, net: &mut Network, o: OpId) -> Result<Var, Stop> {
        if self.variables[o.index()] == NONE {
            let op = self.problem.operator(o);
            let v = net.variable(op.configs().map(|(_, c)| c.cost))?;
            net.settle_unary(v)?;
            self.own(o, v);
        }
        Ok(self.variables[o.index()])
    }

    fn own(&mut self, o: OpId, v: Var) {
        self.variables[o.index()] = v;
        self.origins.push((o, 0));
        self.to_come -= self.problem.operator(o).min_cost().unwrap_or(0);
    }

    /// The operator's variable, [`NONE`] if there is none yet.
    pub fn variable_of(&self, o: OpId) -> Var {
        self.variables[o.index()]
    }

    /// The operator that a variable was made for, or for whose result; and which of its variables it is, 0 being its own.
    pub fn origin(&self, v: Var) -> (OpId, u32) {
        self.origins[v as usize]
    }

    /// Makes variables without values in place of the operator's, if it has none, and of so many for its result; the first of these.
    pub fn pass(&mut self, net: &mut Network, o: OpId, results: u32) -> Result<Var, Stop> {
        if self.variables[o.index()] == NONE {
            let v = net.placeholder()?;
            self.own(o, v);
        }
        let first = net.len() as Var;
        for i in 1..=results {
            net.placeholder()?;
            self.origins.push((o, i));
        }
        Ok(first)
    }

    /// Adds everything about `t`: variables of its producer and of the readers whose requests can cost anything, and the tables between
    /// them. Variables from the
    /// returned one on are no operators': all their tables are there.
    pub fn tensor(&mut self, net: &mut Network, t: TensorId) -> Result<Var, Stop> {
        let others = self.tables(net, t)?;
        let made = net.len() as Var - others;
        let producer = self.problem.producer(t);
        self.origins.extend((1..=made).map(|i| (producer, i)));
        Ok(others)
    }

    fn tables(&mut self, net: &mut Network, t: TensorId) -> Result<Var, Stop> {
        let producer = self.problem.producer(t);
        let writer = self.variable(net, producer)?;
        self.scratch.clear(self.problem.tensor(t).layouts.len());
        self.outputs(t);
        self.read(t);
        for i in 0..self.scratch.readers.len() {
            self.variable(net, self.scratch.readers[i].op)?;
        }
        let others = net.len() as Var;
        if self.scratch.readers.is_empty() {
            return Ok(others);
        }
        let (s, problem, variables) = (&mut self.scratch, self.problem, &self.variables);
        let price = |from: LayoutId, to: LayoutId| problem.tensor(t).transpose(from, to).unwrap_or(INF);
        let outputs = problem.operator(producer).num_configs();
        let mut writer = Side {
            variable: writer,
            class_of: 0..outputs,
        };
        let distinct = s.distinct.len();
        if outputs >= self.modelling.produced_from && distinct < outputs {
            writer = s.classify(net, writer, distinct)?;
        }
        // Sharing saves nothing where conversions are free or impossible: each reader is then tied to the producer.
        for l in 0..s.direct.len() {
            let saves = |&from: &LayoutId| (1..INF).contains(&price(from, LayoutId(l as u32)));
            s.direct[l] = s.requesters[l] == 1 || !s.distinct.iter().any(saves);
        }
        let shared = (0..s.direct.len()).filter(|&l| s.requesters[l] > 1 && !s.direct[l]);
        s.shared.extend(shared.map(|l| LayoutId(l as u32)));
        s.hubs(net, self.modelling.hubs)?;
        for h in 0..s.hubs.len() {
            let hub = s.hubs[h].clone();
            let (layouts, values) = (&s.shared[hub.layouts], &s.subsets[hub.values]);
            let subsets = values.len();
            s.matrix.clear();
            for &from in &s.distinct {
                let sum =
                    |&subset: &u32| chosen(layouts, subset).fold(0, |sum, to| plus(sum, price(from, to)));
                s.matrix.extend(values.iter().map(sum));
            }
            let hub = s.identity(hub.variable, subsets);
            s.expand(net, &writer, &hub, subsets)?;
        }
        for i in 0..s.readers.len() {
            let Reader { op, class_of, sets } = s.readers[i].clone();
            let classes = sets.len();
            let configs = class_of.len();
            let mut reader = Side {
                variable: variables[op.index()],
                class_of,
            };
            if configs >= self.modelling.requests_from && classes * 2 <= configs {
                reader = s.classify(net, reader, classes)?;
            }
            let sets = &s.sets[sets];
            // What nobody else can request, or nobody pays for, is priced directly.
            let layouts = &s.layouts[..];
            if sets
                .iter()
                .any(|set| layouts[set.clone()].iter().any(|l| s.direct[l.index()]))
            {
                s.matrix.clear();
                for &from in &s.distinct {
                    s.matrix.extend(sets.iter().map(|set| {
                        let direct = layouts[set.clone()].iter().filter(|l| s.direct[l.index()]);
                        direct.fold(0, |sum, &to| plus(sum, price(from, to)))
                    }));
                }
                s.expand(net, &writer, &reader, classes)?;
            }
            for h in 0..s.hubs.len() {
                let hub = s.hubs[h].clone();
                let subsets = hub.values.len();
                s.matrix.clear();
                for class in s.readers[i].sets.clone() {
                    for v in hub.values.clone() {
                        let serves = s.serves(&hub.layouts, s.subsets[v], class);
                        s.matrix.push(if serves { 0 } else { INF });
                    }
                }
                if s.matrix.contains(&INF) {
                    let hub = s.identity(hub.variable, subsets);
                    s.expand(net, &reader, &hub, subsets)?;
                }
            }
        }
        Ok(others)
    }

    /// The producer's classes: the layouts it can write; and which requests cost anything.
    fn outputs(&mut self, t: TensorId) {
        let s = &mut self.scratch;
        let tensor = self.problem.tensor(t);
        for (_, c) in self.problem.operator(self.problem.producer(t)).configs() {
            let class = &mut s.class_by_layout[c.output.index()];
            if *class == NONE {
                *class = s.distinct.len() as u32;
                s.distinct.push(c.output);
            }
            s.class_of.push(*class);
        }
        for l in 0..s.priced.len() {
            let to = LayoutId(l as u32);
            s.priced[l] = s
                .distinct
                .iter()
                .any(|&from| tensor.transpose(from, to) != Some(0));
        }
    }

    /// The readers' classes: the sets of priced layouts that their configurations request.
    fn read(&mut self, t: TensorId) {
        let s = &mut self.scratch;
        let uses = self.problem.uses(t);
        for group in uses.chunk_by(|a, b| a.0 == b.0) {
            let op = group[0].0;
            let (first_value, first_set, first_layout) = (s.class_of.len(), s.sets.len(), s.layouts.len());
            s.class_by_layout.fill(NONE);
            let mut empty = NONE;
            for (_, c) in self.problem.operator(op).configs() {
                s.asked.clear();
                let inputs = group.iter().map(|&(_, position)| c.inputs[position as usize]);
                s.asked.extend(inputs.filter(|l| s.priced[l.index()]));
                if s.asked.len() > 1 {
                    s.asked.sort_unstable();
                    s.asked.dedup();
                }
                let known = match s.asked[..] {
                    [] => empty,
                    [l] => s.class_by_layout[l.index()],
                    _ => s.sets[first_set..]
                        .iter()
                        .position(|set| s.layouts[set.clone()] == s.asked[..])
                        .map_or(NONE, |at| at as u32),
                };
                let class = if known == NONE {
                    let start = s.layouts.len();
                    s.layouts.extend_from_slice(&s.asked);
                    s.sets.push(start..s.layouts.len());
                    let class = (s.sets.len() - 1 - first_set) as u32;
                    match s.asked[..] {
                        [] => empty = class,
                        [l] => s.class_by_layout[l.index()] = class,
                        _ => {}
                    }
                    class
                } else {
                    known
                };
                s.class_of.push(class);
            }
            if s.layouts.len() == first_layout {
                // Nothing it can request costs anything.
                s.class_of.truncate(first_value);
                s.sets.truncate(first_set);
                continue;
            }
            s.asked.clear();
            s.asked.extend_from_slice(&s.layouts[first_layout..]);
            s.asked.sort_unstable();
            s.asked.dedup();
            s.asked.iter().for_each(|l| s.requesters[l.index()] += 1);
            s.readers.push(Reader {
                op,
                class_of: first_value..s.class_of.len(),
                sets: first_set..s.sets.len(),
            });
        }
    }
}

impl Scratch {
    fn clear(&mut self, layouts: usize) {
        self.class_of.clear();
        self.sets.clear();
        self.layouts.clear();
        self.distinct.clear();
        self.readers.clear();
        self.shared.clear();
        self.hubs.clear();
        self.subsets.clear();
        fill(&mut self.class_by_layout, layouts, NONE);
        fill(&mut self.priced, layouts, false);
        fill(&mut self.requesters, layouts, 0);
        fill(&mut self.direct, layouts, false);
    }

    /// Makes the hub variables of the shared layouts. Subsets that leave some reader without any request are no values.
    fn hubs(&mut self, net: &mut Network, how: Hubs) -> Result<(), Stop> {
        let shared = self.shared.len();
        let together = match how {
            Hubs::Subsets(most) if shared <= most.min(16) as usize => shared.max(1),
            _ => 1,
        };
        for first in (0..shared).step_by(together) {
            let layouts = first..shared.min(first + together);
            let start = self.subsets.len();
            for subset in 0..1u32 << layouts.len() {
                let served = |r: &Reader| r.sets.clone().any(|class| self.serves(&layouts, subset, class));
                if self.readers.iter().all(served) {
                    self.subsets.push(subset);
                }
            }
            let values = start..self.subsets.len();
            let variable = net.variable(values.clone().map(|_| 0))?;
            self.hubs.push(Hub {
                variable,
                layouts,
                values,
            });
        }
        Ok(())
    }

    /// Whether a subset of a hub's layouts has all that a class of requests asks for among them.
    fn serves(&self, layouts: &Range<usize>, subset: u32, class: usize) -> bool {
        let asked = &self.layouts[self.sets[class].clone()];
        let mut missing = (0..)
            .zip(&self.shared[layouts.clone()])
            .filter(|(i, _)| subset >> i & 1 == 0);
        missing.all(|(_, l)| !asked.contains(l))
    }

    /// A variable whose values are classes of their own.
    fn identity(&mut self, variable: Var, classes: usize) -> Side {
        let start = self.class_of.len();
        self.class_of.extend(0..classes as u32);
        Side {
            variable,
            class_of: start..self.class_of.len(),
        }
    }

    /// A variable for the class of another's value, tied to it by a table.
    fn classify(&mut self, net: &mut Network, of: Side, classes: usize) -> Result<Side, Stop> {
        let variable = net.variable((0..classes).map(|_| 0))?;
        self.matrix.clear();
        let tie = (0..classes).flat_map(|a| (0..classes).map(move |b| if a == b { 0 } else { INF }));
        self.matrix.extend(tie);
        let side = self.identity(variable, classes);
        self.expand(net, &of, &side, classes)?;
        Ok(side)
    }

    /// Adds the table over two variables whose costs between classes are in `matrix`; `b` has this many classes.
    fn expand(&self, net: &mut Network, a: &Side, b: &Side, columns: usize) -> Result<(), Stop> {
        let (rows_of, columns_of) = (
            &self.class_of[a.class_of.clone()],
            &self.class_of[b.class_of.clone()],
        );
        let entries = rows_of.len() * columns_of.len();
        net.meter.check(entries as u64 * 8)?;
        let mut data = net.buffer(entries);
        let mut scope = net.scope();
        if a.variable < b.variable {
            scope.extend([a.variable, b.variable]);
            for &i in rows_of {
                let row = &self.matrix[i as usize * columns..][..columns];
                data.extend(columns_of.iter().map(|&j| row[j as usize]));
            }
        } else {
            scope.extend([b.variable, a.variable]);
            for &j in columns_of {
                data.extend(
                    rows_of
                        .iter()
                        .map(|&i| self.matrix[i as usize * columns + j as usize]),
                );
            }
        }
        net.add(scope, data)
    }
}

fn chosen(layouts: &[LayoutId], subset: u32) -> impl Iterator<Item = LayoutId> + '_ {
    layouts
        .iter()
        .enumerate()
        .filter(move |(i, _)| subset >> i & 1 == 1)
        .map(|(_, l)| *l)
}

fn fill<T: Copy>(items: &mut Vec<T>, len: usize, with: T) {
    items.clear();
    items.resize(len, with);
}
