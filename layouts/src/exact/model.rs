//! From a problem to a cost function network.
//!
//! Variables: one per operator (its configurations); per tensor, where its producer has more configurations than the
//! tensor has layouts, the *produced layout*; per operator with many configurations and tensor it reads, the *request*
//! (the set of layouts it asks for); per tensor and layout that several operators can request, a *hub* that is 1 when one
//! of them does. Up to [`Hubs`]' limit, a tensor's hubs are one variable whose values are subsets. A layout that one
//! operator alone can request needs no hub: a table between producer and consumer prices it; nor does one whose
//! conversions are all free or impossible, as a bundle's are. Requests that no
//! produced layout pays for are left out.

use std::collections::BTreeMap;

use super::network::{Contradiction, INF, Network, Var, plus};
use crate::id::{ConfigId, LayoutId, OpId, TensorId};
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

/// Builds the network. Variable `o` is operator `o`; the others follow.
pub(super) fn build(problem: &Problem, modelling: Modelling) -> Result<Network, Contradiction> {
    let mut net = Network::default();
    for op in problem.operators() {
        let v = net.variable(op.configs().map(|(_, c)| c.cost).collect());
        net.settle_unary(v)?;
    }
    for t in problem.tensor_ids() {
        if !problem.uses(t).is_empty() {
            tensor(&mut net, problem, t, modelling)?;
        }
    }
    Ok(net)
}

/// Who writes or reads: a variable, and what each of its values means.
struct Side<T> {
    variable: Var,
    meaning: Vec<T>,
}

fn tensor(
    net: &mut Network,
    problem: &Problem,
    t: TensorId,
    modelling: Modelling,
) -> Result<(), Contradiction> {
    let layouts = problem.tensor(t).layouts.len();
    let price = |from: LayoutId, to: LayoutId| problem.tensor(t).transpose(from, to).unwrap_or(INF);
    let producer = problem.producer(t);
    let outputs: Vec<LayoutId> = problem
        .operator(producer)
        .configs()
        .map(|(_, c)| c.output)
        .collect();
    let mut distinct = outputs.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let priced: Vec<bool> = (0..layouts as u32)
        .map(|l| distinct.iter().any(|&from| price(from, LayoutId(l)) > 0))
        .collect();
    // Each reader's priced requests per configuration, ascending and distinct.
    let mut readers: Vec<(OpId, Vec<Vec<LayoutId>>)> = Vec::new();
    for &(o, _) in problem.uses(t) {
        if readers.last().is_some_and(|(last, _)| *last == o) {
            continue;
        }
        let requests: Vec<_> = problem
            .operator(o)
            .configs()
            .map(|(c, _)| requests(problem, o, c, t, &priced))
            .collect();
        if requests.iter().any(|r| !r.is_empty()) {
            readers.push((o, requests));
        }
    }
    if readers.is_empty() {
        return Ok(());
    }
    let writer = if outputs.len() >= modelling.produced_from && distinct.len() < outputs.len() {
        classify(net, producer.0, &outputs, &distinct)?
    } else {
        Side {
            variable: producer.0,
            meaning: outputs,
        }
    };
    let mut requesters = vec![0u32; layouts];
    for (_, requests) in &readers {
        let mut asked: Vec<LayoutId> = requests.iter().flatten().copied().collect();
        asked.sort_unstable();
        asked.dedup();
        asked.iter().for_each(|l| requesters[l.index()] += 1);
    }
    // Sharing saves nothing where conversions are free or impossible: each reader is then tied to the producer directly.
    let saves = |l: usize| {
        distinct
            .iter()
            .any(|&from| (1..INF).contains(&price(from, LayoutId(l as u32))))
    };
    let direct: Vec<bool> = (0..layouts).map(|l| requesters[l] == 1 || !saves(l)).collect();
    let shared: Vec<LayoutId> = (0..layouts as u32)
        .map(LayoutId)
        .filter(|l| requesters[l.index()] > 1 && !direct[l.index()])
        .collect();
    let hubs = hubs(net, &shared, modelling.hubs);
    for (hub, layouts) in &hubs {
        let costs = |&from: &LayoutId| {
            (0..1u32 << layouts.len())
                .map(move |s| chosen(layouts, s).fold(0, |sum, to| plus(sum, price(from, to))))
        };
        let data = writer.meaning.iter().flat_map(costs).collect();
        pair(net, writer.variable, *hub, data, 1 << layouts.len())?;
    }
    for (o, requests) in readers {
        let reader = reader(net, o, requests, modelling)?;
        // What nobody else can request, or nobody pays for, is priced directly.
        let alone = |r: &[LayoutId], from| {
            r.iter()
                .filter(|l| direct[l.index()])
                .fold(0, |sum, &to| plus(sum, price(from, to)))
        };
        if reader.meaning.iter().flatten().any(|l| direct[l.index()]) {
            let data = writer
                .meaning
                .iter()
                .flat_map(|&from| reader.meaning.iter().map(move |r| alone(r, from)));
            let data = data.collect();
            pair(net, writer.variable, reader.variable, data, reader.meaning.len())?;
        }
        for (hub, layouts) in &hubs {
            let missing = |r: &[LayoutId], s: u32| {
                layouts
                    .iter()
                    .enumerate()
                    .any(|(i, l)| s >> i & 1 == 0 && r.contains(l))
            };
            let forbid = |r: &Vec<LayoutId>| {
                let r = r.clone();
                (0..1u32 << layouts.len())
                    .map(move |s| if missing(&r, s) { INF } else { 0 })
                    .collect::<Vec<_>>()
            };
            let data: Vec<u64> = reader.meaning.iter().flat_map(forbid).collect();
            if data.contains(&INF) {
                pair(net, reader.variable, *hub, data, 1 << layouts.len())?;
            }
        }
    }
    Ok(())
}

/// The layouts of `t` that configuration `c` of `o` requests and that can cost anything, ascending, each once.
fn requests(problem: &Problem, o: OpId, c: ConfigId, t: TensorId, priced: &[bool]) -> Vec<LayoutId> {
    let op = problem.operator(o);
    let asked = op
        .inputs
        .iter()
        .zip(op.config(c).inputs)
        .filter(|(u, l)| **u == t && priced[l.index()]);
    let mut asked: Vec<LayoutId> = asked.map(|(_, l)| *l).collect();
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// A variable for the class of another's value, tied to it by a table.
fn classify<T: Clone + PartialEq>(
    net: &mut Network,
    of: Var,
    meaning: &[T],
    classes: &[T],
) -> Result<Side<T>, Contradiction> {
    let variable = net.variable(vec![0; classes.len()]);
    let data = meaning
        .iter()
        .flat_map(|m| classes.iter().map(move |c| if m == c { 0 } else { INF }))
        .collect();
    pair(net, of, variable, data, classes.len())?;
    Ok(Side {
        variable,
        meaning: classes.to_vec(),
    })
}

fn reader(
    net: &mut Network,
    o: OpId,
    requests: Vec<Vec<LayoutId>>,
    modelling: Modelling,
) -> Result<Side<Vec<LayoutId>>, Contradiction> {
    if requests.len() >= modelling.requests_from {
        let classes: Vec<_> = requests
            .iter()
            .map(|r| (r.clone(), ()))
            .collect::<BTreeMap<_, _>>()
            .into_keys()
            .collect();
        if classes.len() * 2 <= requests.len() {
            return classify(net, o.0, &requests, &classes);
        }
    }
    Ok(Side {
        variable: o.0,
        meaning: requests,
    })
}

/// The hub variables of a tensor, each with the layouts whose subsets are its values.
fn hubs(net: &mut Network, shared: &[LayoutId], how: Hubs) -> Vec<(Var, Vec<LayoutId>)> {
    let mut hub = |layouts: &[LayoutId]| (net.variable(vec![0; 1 << layouts.len()]), layouts.to_vec());
    match how {
        Hubs::Subsets(most) if !shared.is_empty() && shared.len() <= most.min(16) as usize => {
            vec![hub(shared)]
        }
        _ => shared.chunks(1).map(hub).collect(),
    }
}

fn chosen(layouts: &[LayoutId], subset: u32) -> impl Iterator<Item = LayoutId> + '_ {
    layouts
        .iter()
        .enumerate()
        .filter(move |(i, _)| subset >> i & 1 == 1)
        .map(|(_, l)| *l)
}

/// Adds a table over two variables, given with `a` varying slowest and `columns` values of `b`.
fn pair(net: &mut Network, a: Var, b: Var, data: Vec<u64>, columns: usize) -> Result<(), Contradiction> {
    if a < b {
        return net.add(vec![a, b], data);
    }
    let rows = data.len() / columns;
    let turned = (0..columns)
        .flat_map(|c| (0..rows).map(move |r| (r, c)))
        .map(|(r, c)| data[r * columns + c])
        .collect();
    net.add(vec![b, a], turned)
}
