//! `treewidth`: the seed's dynamic program over a nice tree decomposition (section 3.2.1, Theorem 4, Appendix B).
//!
//! A table's state is a configuration for every operator in the bag and, for the tensor each of them produces, the set of
//! layouts that consumers already forgotten have requested. A forget node charges the operator's cost, adds its requests
//! to the sets of producers still in the bag, and pays its output's conversions to its set joined with the requests of
//! consumers still in the bag. A join takes point-wise unions. Transitions go forward, from reachable states only.
//!
//! All or nothing: when a table would not fit, there is no assignment and no cost, and the bound is the sum of the
//! operators' minimum costs. Every table's size is counted from its reachable states *before* it is allocated, and so are
//! the back pointers and what a step needs beside its tables: the bytes wanted are what the run would have taken, not what
//! the theorem allows. (A test holds them against an allocator that counts.) That wall is a result of the seed's; the
//! strategy `exact` is the one without it.

use rustc_hash::FxHashMap;

use crate::decomposition::{self, NiceDecomposition, NiceNode, TreeDecomposition};
use crate::graph::Graph;
use crate::id::{ConfigId, LayoutId, OpId};
use crate::meter::{Exceeded, Meter};
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// The strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Treewidth;

impl Strategy for Treewidth {
    fn name(&self) -> &str {
        "treewidth"
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
        let graph = Graph::of(problem);
        let width = decomposition::treewidth(&graph, budget);
        let tree = TreeDecomposition::from_order(&graph, &width.order);
        let nice = NiceDecomposition::new(&tree);
        drop((graph, tree));
        let mut program = Program {
            problem,
            clock: Clock::new(budget),
            meter: Meter::new(budget.memory_limit),
            counters: Counters::default(),
            nodes: Vec::new(),
        };
        let outcome = match words_needed(problem, &nice) {
            1 => program.run::<1>(&nice),
            2 => program.run::<2>(&nice),
            3..=4 => program.run::<4>(&nice),
            5..=8 => program.run::<8>(&nice),
            9..=16 => program.run::<16>(&nice),
            17..=64 => program.run::<64>(&nice),
            words => {
                let what = format!("request sets of {} bits in one bag (at most 4096)", words * 64);
                return Err(SolveError::Unsupported {
                    strategy: "treewidth",
                    what,
                });
            }
        };
        let mut solutions = match outcome {
            Ok(Some((assignment, cost))) => {
                let solution = Solution::claimed(problem, assignment, cost)?;
                trace.incumbent(cost);
                trace.bound(cost);
                let proof = "dynamic program over a nice tree decomposition".into();
                Solutions {
                    proof,
                    ..Solutions::one(Status::Optimal, solution, cost)
                }
            }
            Ok(None) => {
                let proof = "no state reaches the root of the tree decomposition".into();
                Solutions {
                    proof,
                    ..Solutions::none(Status::Infeasible, bound)
                }
            }
            Err(Stop::Memory(Exceeded { wanted })) => {
                program.counters.wanted_bytes = wanted;
                Solutions::none(Status::OutOfMemory, bound)
            }
            Err(Stop::Time) => Solutions::none(Status::Timeout, bound),
        };
        let c = program.counters;
        solutions.peak_bytes = program.meter.peak();
        solutions.counters.extend([
            ("width", width.upper as u64),
            ("treewidth_lower_bound", width.lower as u64),
            ("treewidth_upper_bound", width.upper as u64),
            ("nice_nodes", nice.nodes.len() as u64),
            ("nodes_done", program.nodes.len() as u64),
            ("states", c.states),
            ("largest_table", c.largest_table),
            (
                "wanted_bytes",
                if c.wanted_bytes > 0 {
                    c.wanted_bytes
                } else {
                    program.meter.peak()
                },
            ),
        ]);
        Ok(solutions)
    }
}

enum Stop {
    Time,
    Memory(Exceeded),
}

impl From<Exceeded> for Stop {
    fn from(e: Exceeded) -> Self {
        Self::Memory(e)
    }
}

#[derive(Default)]
struct Counters {
    states: u64,
    largest_table: u64,
    wanted_bytes: u64,
}

/// What backtracking needs of a node once its table is gone.
enum Back {
    Leaf,
    /// Entry `e` came from entry `e % child_len` under configuration `e / child_len`.
    Introduce {
        vertex: u32,
        child: u32,
        child_len: usize,
    },
    Forget {
        child: u32,
        from: Vec<u32>,
    },
    Join {
        left: u32,
        right: u32,
        from: Vec<[u32; 2]>,
    },
}

/// Request sets of all bag members, packed one after the other.
type Sets<const W: usize> = [u64; W];

struct Table<const W: usize> {
    /// The bag, in order of introduction.
    bag: Vec<u32>,
    /// First bit of each member's request set.
    offsets: Vec<usize>,
    bits: usize,
    /// Entries of bag labelling `f` are `starts[f]..starts[f + 1]`; the first member's configuration varies fastest.
    starts: Vec<usize>,
    sets: Vec<Sets<W>>,
    costs: Vec<u64>,
}

impl<const W: usize> Table<W> {
    fn bytes(labellings: usize, entries: usize) -> u64 {
        (labellings as u64 + 1) * 8 + Self::entry_bytes(entries)
    }

    fn entry_bytes(entries: usize) -> u64 {
        entries as u64 * (8 * W as u64 + 8)
    }

    fn own_bytes(&self) -> u64 {
        Self::bytes(self.starts.len() - 1, self.costs.len())
    }
}

struct Program<'a> {
    problem: &'a Problem,
    clock: Clock<'a>,
    meter: Meter,
    counters: Counters,
    nodes: Vec<Back>,
}

impl Program<'_> {
    /// The optimum, or `None` when no state reaches the root.
    fn run<const W: usize>(
        &mut self,
        nice: &NiceDecomposition,
    ) -> Result<Option<(Vec<ConfigId>, u64)>, Stop> {
        self.meter
            .take((nice.nodes.len() * (size_of::<NiceNode>() + size_of::<Back>())) as u64)?;
        self.nodes.reserve_exact(nice.nodes.len());
        // The tables that wait for their parent, by node.
        let mut live: FxHashMap<u32, Table<W>> = FxHashMap::default();
        for (node, at) in nice.nodes.iter().zip(0u32..) {
            self.clock.spend(1)?;
            let mut take = |child: u32| {
                live.remove(&child)
                    .expect("children come first and have one parent")
            };
            let (table, back) = match *node {
                NiceNode::Leaf => self.leaf()?,
                NiceNode::Introduce { vertex, child } => self.introduce(take(child), vertex, child)?,
                NiceNode::Forget { vertex, child } => self.forget(take(child), vertex, child)?,
                NiceNode::Join { left, right } => {
                    let (a, b) = (take(left), take(right));
                    self.join(a, b, left, right)?
                }
            };
            self.counters.states += table.costs.len() as u64;
            self.counters.largest_table = self.counters.largest_table.max(table.costs.len() as u64);
            live.insert(at, table);
            self.nodes.push(back);
        }
        // The root is the last node: no other table is left.
        let root = live.into_values().next();
        Ok(root
            .and_then(|t| t.costs.first().copied())
            .map(|cost| (self.backtrack(), cost)))
    }

    fn leaf<const W: usize>(&mut self) -> Result<(Table<W>, Back), Stop> {
        self.meter.take(Table::<W>::bytes(1, 1))?;
        let (bag, offsets) = (Vec::new(), Vec::new());
        Ok((
            Table {
                bag,
                offsets,
                bits: 0,
                starts: vec![0, 1],
                sets: vec![[0; W]],
                costs: vec![0],
            },
            Back::Leaf,
        ))
    }

    fn introduce<const W: usize>(
        &mut self,
        t: Table<W>,
        vertex: u32,
        child: u32,
    ) -> Result<(Table<W>, Back), Stop> {
        let op = self.problem.operator(OpId(vertex));
        let (configs, child_len) = (op.num_configs(), t.costs.len());
        let labellings = (t.starts.len() - 1).saturating_mul(configs);
        self.meter
            .take(Table::<W>::bytes(labellings, child_len.saturating_mul(configs)))?;
        let mut starts = Vec::with_capacity(labellings + 1);
        for c in 0..configs {
            starts.extend(t.starts[..t.starts.len() - 1].iter().map(|s| c * child_len + s));
        }
        starts.push(configs * child_len);
        let (sets, costs) = (t.sets.repeat(configs), t.costs.repeat(configs));
        self.meter.give(t.own_bytes());
        let (mut bag, mut offsets) = (t.bag, t.offsets);
        bag.push(vertex);
        offsets.push(t.bits);
        let bits = t.bits + self.problem.tensor(op.output).layouts.len();
        Ok((
            Table {
                bag,
                offsets,
                bits,
                starts,
                sets,
                costs,
            },
            Back::Introduce {
                vertex,
                child,
                child_len,
            },
        ))
    }

    fn forget<const W: usize>(
        &mut self,
        t: Table<W>,
        vertex: u32,
        child: u32,
    ) -> Result<(Table<W>, Back), Stop> {
        let forgetting = Forgetting::new(self.problem, &t, vertex);
        let labellings = (t.starts.len() - 1) / forgetting.configs;
        let most = (0..labellings)
            .map(|f| forgetting.candidates(&t, f))
            .max()
            .unwrap_or(0);
        let scratch_bytes = (most * size_of::<(Sets<W>, u64, usize)>()) as u64;
        self.meter.take(scratch_bytes)?;
        let mut scratch = Vec::with_capacity(most);
        // Counting first, filling second: the sizes are then exact.
        self.meter.take(Table::<W>::bytes(labellings, 0))?;
        let mut starts = Vec::with_capacity(labellings + 1);
        let mut entries = 0;
        starts.push(0);
        for f in 0..labellings {
            forgetting.gather(&t, f, &mut scratch);
            entries += scratch.len();
            starts.push(entries);
            self.clock.spend(1 + scratch.len() as u64)?;
        }
        self.meter
            .take(Table::<W>::entry_bytes(entries) + entries as u64 * 4)?;
        fits_u32(t.costs.len())?;
        let (mut sets, mut costs, mut from) = (
            Vec::with_capacity(entries),
            Vec::with_capacity(entries),
            Vec::with_capacity(entries),
        );
        for f in 0..labellings {
            forgetting.gather(&t, f, &mut scratch);
            for &(set, cost, entry) in &scratch {
                sets.push(set);
                costs.push(cost);
                from.push(entry as u32);
            }
            self.clock.spend(1 + scratch.len() as u64)?;
        }
        self.meter.give(t.own_bytes() + scratch_bytes);
        let Forgetting {
            bag, offsets, bits, ..
        } = forgetting;
        Ok((
            Table {
                bag,
                offsets,
                bits,
                starts,
                sets,
                costs,
            },
            Back::Forget { child, from },
        ))
    }

    fn join<const W: usize>(
        &mut self,
        a: Table<W>,
        b: Table<W>,
        left: u32,
        right: u32,
    ) -> Result<(Table<W>, Back), Stop> {
        let joining = Joining::new(self.problem, &a, &b);
        let labellings = a.starts.len() - 1;
        self.meter.take(Table::<W>::bytes(labellings, 0))?;
        let mut unions = Unions::default();
        let mut starts = Vec::with_capacity(labellings + 1);
        let (mut entries, mut most) = (0, 0);
        starts.push(0);
        for f in 0..labellings {
            joining.gather(&a, &b, f, &mut unions, &mut self.meter, &mut self.clock)?;
            most = most.max(unions.map.len());
            entries += unions.map.len();
            starts.push(entries);
        }
        let sorted_bytes = (most * size_of::<Union<W>>()) as u64;
        self.meter
            .take(Table::<W>::entry_bytes(entries) + entries as u64 * 8 + sorted_bytes)?;
        fits_u32(a.costs.len().max(b.costs.len()))?;
        let (mut sets, mut costs, mut from) = (
            Vec::with_capacity(entries),
            Vec::with_capacity(entries),
            Vec::with_capacity(entries),
        );
        let mut sorted: Vec<Union<W>> = Vec::with_capacity(most);
        for f in 0..labellings {
            joining.gather(&a, &b, f, &mut unions, &mut self.meter, &mut self.clock)?;
            sorted.clear();
            sorted.extend(unions.map.iter().map(|(&set, &(cost, i, j))| (set, cost, i, j)));
            sorted.sort_unstable();
            for &(set, cost, i, j) in &sorted {
                sets.push(set);
                costs.push(cost);
                from.push([i as u32, j as u32]);
            }
        }
        self.meter
            .give(a.own_bytes() + b.own_bytes() + sorted_bytes + unions.bytes());
        let Table {
            bag, offsets, bits, ..
        } = a;
        Ok((
            Table {
                bag,
                offsets,
                bits,
                starts,
                sets,
                costs,
            },
            Back::Join { left, right, from },
        ))
    }

    fn backtrack(&self) -> Vec<ConfigId> {
        let mut assignment = vec![ConfigId(0); self.problem.operators().len()];
        let mut stack = vec![(self.nodes.len() - 1, 0usize)];
        while let Some((node, entry)) = stack.pop() {
            match &self.nodes[node] {
                Back::Leaf => {}
                Back::Introduce {
                    vertex,
                    child,
                    child_len,
                } => {
                    assignment[*vertex as usize] = ConfigId((entry / child_len) as u32);
                    stack.push((*child as usize, entry % child_len));
                }
                Back::Forget { child, from } => stack.push((*child as usize, from[entry] as usize)),
                Back::Join { left, right, from } => {
                    let [i, j] = from[entry];
                    stack.extend([(*left as usize, i as usize), (*right as usize, j as usize)]);
                }
            }
        }
        assignment
    }
}

fn fits_u32(entries: usize) -> Result<(), Stop> {
    // Back pointers have 32 bits; a table beyond them takes at least 64 GiB.
    if entries > u32::MAX as usize {
        Err(Stop::Memory(Exceeded {
            wanted: entries as u64 * 16,
        }))
    } else {
        Ok(())
    }
}

/// How one operator leaves the bag: everything that does not depend on the labelling is prepared here.
struct Forgetting<'a> {
    problem: &'a Problem,
    vertex: OpId,
    configs: usize,
    /// Labellings of the members before the vertex: the weight of its configuration in a labelling's number.
    stride: usize,
    /// Bits of the vertex's own request set.
    own: std::ops::Range<usize>,
    child_bits: usize,
    /// Per configuration: the request bits it adds, in the new packing.
    requests: Vec<Vec<usize>>,
    /// Consumers of the vertex's output that stay: weight and number of configurations in the new labelling, operator,
    /// argument position.
    readers: Vec<(usize, usize, OpId, usize)>,
    bag: Vec<u32>,
    offsets: Vec<usize>,
    bits: usize,
}

impl<'a> Forgetting<'a> {
    fn new<const W: usize>(problem: &'a Problem, t: &Table<W>, vertex: u32) -> Self {
        let at = t
            .bag
            .iter()
            .position(|&v| v == vertex)
            .expect("the forgotten vertex is in the bag");
        let op = problem.operator(OpId(vertex));
        let width = |v: u32| problem.tensor(problem.operator(OpId(v)).output).layouts.len();
        let bag: Vec<u32> = t.bag.iter().copied().filter(|&v| v != vertex).collect();
        let (mut offsets, mut bits, mut weights, mut weight) = (Vec::new(), 0, Vec::new(), 1);
        for &v in &bag {
            offsets.push(bits);
            bits += width(v);
            weights.push(weight);
            weight *= problem.operator(OpId(v)).num_configs();
        }
        let tracked = |k: usize| {
            bag.iter()
                .position(|&v| OpId(v) == problem.producer(op.inputs[k]))
        };
        let inputs: Vec<(usize, usize)> = (0..op.inputs.len())
            .filter_map(|k| tracked(k).map(|m| (k, offsets[m])))
            .collect();
        let requests = op
            .configs()
            .map(|(_, c)| {
                inputs
                    .iter()
                    .map(|&(k, first)| first + c.inputs[k].index())
                    .collect()
            })
            .collect();
        let member = |o: OpId| bag.iter().position(|&v| v == o.0);
        let readers = problem.uses(op.output).iter().filter_map(|&(o, position)| {
            member(o).map(|m| {
                (
                    weights[m],
                    problem.operator(o).num_configs(),
                    o,
                    position as usize,
                )
            })
        });
        Self {
            problem,
            vertex: OpId(vertex),
            configs: op.num_configs(),
            stride: t.bag[..at]
                .iter()
                .map(|&v| problem.operator(OpId(v)).num_configs())
                .product(),
            own: t.offsets[at]..t.offsets[at] + width(vertex),
            child_bits: t.bits,
            requests,
            readers: readers.collect(),
            bag,
            offsets,
            bits,
        }
    }

    /// Entries of the child that new labelling `f` is made of.
    fn candidates<const W: usize>(&self, t: &Table<W>, f: usize) -> usize {
        let (low, high) = (f % self.stride, f / self.stride);
        let child = |c| low + (c + high * self.configs) * self.stride;
        (0..self.configs)
            .map(|c| t.starts[child(c) + 1] - t.starts[child(c)])
            .sum()
    }

    /// The entries of new labelling `f`: distinct request sets, ascending, each with its least cost and the entry it
    /// came from (the first such).
    fn gather<const W: usize>(&self, t: &Table<W>, f: usize, out: &mut Vec<(Sets<W>, u64, usize)>) {
        out.clear();
        let op = self.problem.operator(self.vertex);
        let tensor = self.problem.tensor(op.output);
        let (low, high) = (f % self.stride, f / self.stride);
        let mut here = vec![false; tensor.layouts.len()];
        for &(weight, configs, o, position) in &self.readers {
            let c = ConfigId((f / weight % configs) as u32);
            here[self.problem.operator(o).config(c).inputs[position].index()] = true;
        }
        for (c, config) in op.configs() {
            let child = low + (c.index() + high * self.configs) * self.stride;
            'entries: for e in t.starts[child]..t.starts[child + 1] {
                let mut cost = t.costs[e] + config.cost;
                for (l, &wanted) in here.iter().enumerate() {
                    if wanted || bit(&t.sets[e], self.own.start + l) {
                        match tensor.transpose(config.output, LayoutId(l as u32)) {
                            Some(transpose) => cost += transpose,
                            None => continue 'entries,
                        }
                    }
                }
                let mut set = [0; W];
                copy_bits(&t.sets[e], 0, &mut set, 0, self.own.start);
                copy_bits(
                    &t.sets[e],
                    self.own.end,
                    &mut set,
                    self.own.start,
                    self.child_bits - self.own.end,
                );
                self.requests[c.index()]
                    .iter()
                    .for_each(|&b| set[b / 64] |= 1 << (b % 64));
                out.push((set, cost, e));
            }
        }
        out.sort_unstable();
        out.dedup_by_key(|(set, ..)| *set);
    }
}

/// A state of a join: its request sets, the least cost, and the entries left and right that it came from.
type Union<const W: usize> = (Sets<W>, u64, usize, usize);

/// The states of one labelling while they are collected, without the order. Metered: one labelling may have as many states
/// as there are sets.
struct Unions<const W: usize> {
    map: FxHashMap<Sets<W>, (u64, usize, usize)>,
}

impl<const W: usize> Default for Unions<W> {
    fn default() -> Self {
        Self {
            map: FxHashMap::default(),
        }
    }
}

impl<const W: usize> Unions<W> {
    /// Bytes of a hash table of this capacity: it is filled to seven eighths at most, its size is a power of two, and each
    /// place has a byte beside its entry.
    fn bytes_of(capacity: usize) -> u64 {
        if capacity == 0 {
            return 0;
        }
        let places = (capacity * 8).div_ceil(7).next_power_of_two() as u64;
        places * (size_of::<(Sets<W>, (u64, usize, usize))>() as u64 + 1)
    }

    fn bytes(&self) -> u64 {
        Self::bytes_of(self.map.capacity())
    }

    fn insert(
        &mut self,
        set: Sets<W>,
        found: (u64, usize, usize),
        meter: &mut Meter,
    ) -> Result<(), Exceeded> {
        if let Some(best) = self.map.get_mut(&set) {
            *best = found.min(*best);
            return Ok(());
        }
        let before = self.map.capacity();
        if self.map.len() == before {
            // While it grows, both tables are there.
            let old = Self::bytes_of(before);
            meter.take(Self::bytes_of(before + 1))?;
            self.map.reserve(1);
            meter.give(old);
        }
        self.map.insert(set, found);
        Ok(())
    }
}

/// Reads the budget's clock now and then, however the work is cut up.
struct Clock<'a> {
    budget: &'a Budget,
    until_look: u64,
}

impl<'a> Clock<'a> {
    /// States handled between two looks: a few milliseconds.
    const STEPS: u64 = 1 << 16;

    fn new(budget: &'a Budget) -> Self {
        Self {
            budget,
            until_look: 0,
        }
    }

    /// Accounts for `steps` and, when enough came together, for the time.
    fn spend(&mut self, steps: u64) -> Result<(), Stop> {
        if steps < self.until_look {
            self.until_look -= steps;
            return Ok(());
        }
        self.until_look = Self::STEPS;
        if self.budget.exhausted() {
            return Err(Stop::Time);
        }
        Ok(())
    }
}

/// How two tables of one bag, possibly in different orders, are brought together.
struct Joining {
    /// Per member in the left order: its number of configurations, its weight in right labellings, its bits left and
    /// right, and how many.
    members: Vec<(usize, usize, usize, usize, usize)>,
}

impl Joining {
    fn new<const W: usize>(problem: &Problem, a: &Table<W>, b: &Table<W>) -> Self {
        let (mut weights, mut weight) = (Vec::with_capacity(b.bag.len()), 1);
        for &v in &b.bag {
            weights.push(weight);
            weight *= problem.operator(OpId(v)).num_configs();
        }
        let members = a.bag.iter().enumerate().map(|(i, &v)| {
            let j = b.bag.iter().position(|&u| u == v).expect("joined bags are equal");
            let op = problem.operator(OpId(v));
            (
                op.num_configs(),
                weights[j],
                a.offsets[i],
                b.offsets[j],
                problem.tensor(op.output).layouts.len(),
            )
        });
        Self {
            members: members.collect(),
        }
    }

    fn gather<const W: usize>(
        &self,
        a: &Table<W>,
        b: &Table<W>,
        f: usize,
        out: &mut Unions<W>,
        meter: &mut Meter,
        clock: &mut Clock<'_>,
    ) -> Result<(), Stop> {
        out.map.clear();
        let (mut rest, mut g) = (f, 0);
        for &(configs, weight, ..) in &self.members {
            g += rest % configs * weight;
            rest /= configs;
        }
        for j in b.starts[g]..b.starts[g + 1] {
            let mut right = [0; W];
            for &(_, _, left_bit, right_bit, n) in &self.members {
                copy_bits(&b.sets[j], right_bit, &mut right, left_bit, n);
            }
            for i in a.starts[f]..a.starts[f + 1] {
                let mut set = right;
                set.iter_mut().zip(&a.sets[i]).for_each(|(r, l)| *r |= l);
                out.insert(set, (a.costs[i] + b.costs[j], i, j), meter)?;
            }
            clock.spend(1 + (a.starts[f + 1] - a.starts[f]) as u64)?;
        }
        clock.spend(1)
    }
}

fn words_needed(problem: &Problem, nice: &NiceDecomposition) -> usize {
    let layouts = |v: u32| problem.tensor(problem.operator(OpId(v)).output).layouts.len();
    let mut bits: Vec<usize> = Vec::with_capacity(nice.nodes.len());
    for node in &nice.nodes {
        bits.push(match *node {
            NiceNode::Leaf => 0,
            NiceNode::Introduce { vertex, child } => bits[child as usize] + layouts(vertex),
            NiceNode::Forget { vertex, child } => bits[child as usize] - layouts(vertex),
            NiceNode::Join { left, .. } => bits[left as usize],
        });
    }
    bits.into_iter().max().unwrap_or(0).div_ceil(64).max(1)
}

fn bit<const W: usize>(set: &Sets<W>, b: usize) -> bool {
    set[b / 64] >> (b % 64) & 1 == 1
}

/// Ors `n` bits of `from`, starting at `at`, into `to`, starting at `into`.
fn copy_bits<const W: usize>(from: &Sets<W>, mut at: usize, to: &mut Sets<W>, mut into: usize, mut n: usize) {
    while n > 0 {
        let step = n.min(64 - at % 64).min(64 - into % 64);
        let mask = if step == 64 { u64::MAX } else { (1 << step) - 1 };
        to[into / 64] |= (from[at / 64] >> (at % 64) & mask) << (into % 64);
        (at, into, n) = (at + step, into + step, n - step);
    }
}
