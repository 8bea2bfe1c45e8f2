//! The instance behind a network.
//!
//! Per tensor, the operator whose functions cost something at `y = 1` is the producer (or, if conversions are all free, the one that forbids
//! nothing); the others are consumers. A configuration of a consumer reads the tensor once per layout that it requests, the most that one
//! requests being the number of arguments. A configuration of a producer writes a layout that is known by what conversions from it cost:
//! a requested layout to which that is nothing, where there is one, else a layout of its own.

use rustc_hash::FxHashMap;

use super::MAX_MATRICES;
use super::error::{CfnError, Fault, at};
use super::network::{Network, Table};
use crate::problem::{self, ConfigSpec, OperatorSpec, Problem, ProblemBuilder, TensorSpec};

/// What a function of an operator and a requested layout is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// All zero: a producer of free conversions, or a consumer that does not request this layout.
    Either,
    Producer,
    Consumer,
}

/// A tensor with its requested layouts.
struct Tensor {
    number: u64,
    /// Indices into the network's hubs, by layout.
    hubs: Vec<usize>,
    producer: usize,
}

pub(super) fn recover(text: &str, network: &Network) -> Result<Problem, CfnError> {
    let roles = roles(text, network)?;
    let mut tables_of_hub: Vec<Vec<usize>> = vec![Vec::new(); network.hubs.len()];
    for (i, table) in network.tables.iter().enumerate() {
        tables_of_hub[table.hub].push(i);
    }
    let tensors = tensors(text, network, &roles, &tables_of_hub)?;
    let mut output_of: Vec<Option<usize>> = vec![None; network.operators.len()];
    for (t, tensor) in tensors.iter().enumerate() {
        if let Some(first) = output_of[tensor.producer].replace(t) {
            let operator = &network.operators[tensor.producer];
            let fault = Fault::TwoOutputs {
                operator: operator.name.clone(),
                first: tensors[first].number,
                second: tensor.number,
            };
            return Err(at(text, operator.at, fault));
        }
    }
    let mut operators = configurations(network);
    for (t, tensor) in tensors.iter().enumerate() {
        requests(text, network, tensor, t, &tables_of_hub, &mut operators)?;
    }
    let mut builder = ProblemBuilder::new(network.name.clone(), "1");
    builder.tensors = vec![TensorSpec::default(); tensors.len()];
    let mut entries = 0usize;
    for (o, spec) in operators.iter_mut().enumerate() {
        let rows = match output_of[o] {
            Some(t) => charges(network, &tensors[t], &tables_of_hub),
            None => vec![Vec::new(); spec.configs.len()],
        };
        let (number, requested) = match output_of[o] {
            Some(t) => {
                let layouts = tensors[t].hubs.iter().map(|&h| network.hubs[h].layout).collect();
                (Some(tensors[t].number), layouts)
            }
            None => (None, Vec::new()),
        };
        let produced = produced(spec, rows, requested.len());
        let n = produced.layouts;
        entries = entries.saturating_add(n.saturating_mul(n));
        if entries > MAX_MATRICES {
            return Err(at(text, network.operators[o].at, Fault::Matrices));
        }
        let tensor = tensor_spec(number, &spec.name, &requested, &produced);
        spec.output = match output_of[o] {
            Some(t) => {
                builder.tensors[t] = tensor;
                t
            }
            None => builder.tensor(tensor),
        };
        for (config, &layout) in spec.configs.iter_mut().zip(&produced.of_config) {
            config.output = layout;
        }
    }
    builder.operators = operators;
    let problem = builder.build().map_err(|e| invalid(text, network, &e))?;
    let worst = crate::export::worst_case(&problem);
    if worst >= network.top {
        return Err(at(text, network.top_at, Fault::CutOff { worst }));
    }
    Ok(problem)
}

fn roles(text: &str, network: &Network) -> Result<Vec<Role>, CfnError> {
    let role = |table: &Table| {
        let mut role = Role::Either;
        for (value, pair) in table.costs.iter().enumerate() {
            let of_value = match pair {
                [Some(0), Some(0)] => continue,
                [Some(0), _] => Role::Producer,
                [None, Some(0)] => Role::Consumer,
                _ => Role::Either,
            };
            if of_value == Role::Either || role != Role::Either && role != of_value {
                let fault = Fault::Table {
                    operator: network.operators[table.operator].name.clone(),
                    hub: network.hubs[table.hub].name.clone(),
                    value,
                };
                return Err(at(text, table.at, fault));
            }
            role = of_value;
        }
        Ok(role)
    };
    network.tables.iter().map(role).collect()
}

/// The tensors by number, with their producers.
fn tensors(
    text: &str,
    network: &Network,
    roles: &[Role],
    tables_of_hub: &[Vec<usize>],
) -> Result<Vec<Tensor>, CfnError> {
    let mut hubs: Vec<usize> = (0..network.hubs.len()).collect();
    hubs.sort_by_key(|&h| (network.hubs[h].tensor, network.hubs[h].layout));
    let of_tensor = hubs.chunk_by(|&a, &b| network.hubs[a].tensor == network.hubs[b].tensor);
    let mut tensors = Vec::new();
    for hubs in of_tensor {
        let (number, place) = (network.hubs[hubs[0]].tensor, network.hubs[hubs[0]].at);
        // What is known of each operator that has a function of one of the tensor's layouts, in file order.
        let mut known: Vec<(usize, Role)> = Vec::new();
        let mut index = FxHashMap::default();
        for &i in hubs.iter().flat_map(|&h| &tables_of_hub[h]) {
            let (table, role) = (&network.tables[i], roles[i]);
            let slot = *index.entry(table.operator).or_insert_with(|| {
                known.push((table.operator, Role::Either));
                known.len() - 1
            });
            let of_operator = &mut known[slot].1;
            if role != Role::Either && *of_operator != Role::Either && *of_operator != role {
                let fault = Fault::Table {
                    operator: network.operators[table.operator].name.clone(),
                    hub: network.hubs[table.hub].name.clone(),
                    value: 0,
                };
                return Err(at(text, table.at, fault));
            }
            if role != Role::Either {
                *of_operator = role;
            }
        }
        let with = |role| known.iter().filter(move |k| k.1 == role).map(|k| k.0);
        let mut producers = with(Role::Producer).chain(with(Role::Either));
        let Some(producer) = producers.next() else {
            return Err(at(text, place, Fault::NoProducer { tensor: number }));
        };
        if let Some(second) = producers.next() {
            let name = |o: usize| network.operators[o].name.clone();
            let fault = Fault::TwoProducers {
                tensor: number,
                first: name(producer),
                second: name(second),
            };
            return Err(at(text, place, fault));
        }
        tensors.push(Tensor {
            number,
            hubs: hubs.to_vec(),
            producer,
        });
    }
    Ok(tensors)
}

/// The operators with their costs, without inputs.
fn configurations(network: &Network) -> Vec<OperatorSpec> {
    let spec = |operator: &super::network::Operator| OperatorSpec {
        name: operator.name.clone(),
        configs: (0..operator.size)
            .map(|c| ConfigSpec {
                cost: operator.costs.get(c).copied().unwrap_or(0),
                ..ConfigSpec::default()
            })
            .collect(),
        ..OperatorSpec::default()
    };
    network.operators.iter().map(spec).collect()
}

/// Adds a tensor to the inputs of its consumers.
fn requests(
    text: &str,
    network: &Network,
    tensor: &Tensor,
    t: usize,
    tables_of_hub: &[Vec<usize>],
    operators: &mut [OperatorSpec],
) -> Result<(), CfnError> {
    // Per consumer, in file order: its first function, and the layouts that each of its configurations requests.
    let mut consumers: Vec<(usize, usize, Vec<Vec<usize>>)> = Vec::new();
    let mut index = FxHashMap::default();
    for (layout, &hub) in tensor.hubs.iter().enumerate() {
        for &i in &tables_of_hub[hub] {
            let table = &network.tables[i];
            if table.operator == tensor.producer {
                continue;
            }
            let slot = *index.entry(table.operator).or_insert_with(|| {
                consumers.push((table.operator, table.at, vec![Vec::new(); table.costs.len()]));
                consumers.len() - 1
            });
            for (requested, pair) in consumers[slot].2.iter_mut().zip(&table.costs) {
                if pair[0].is_none() {
                    requested.push(layout);
                }
            }
        }
    }
    for (o, place, requested) in consumers {
        if let Some(value) = requested.iter().position(Vec::is_empty) {
            let fault = Fault::NoRequest {
                operator: network.operators[o].name.clone(),
                value,
                tensor: tensor.number,
            };
            return Err(at(text, place, fault));
        }
        let arguments = requested.iter().map(Vec::len).max().unwrap_or(0);
        operators[o].inputs.extend(std::iter::repeat_n(t, arguments));
        for (config, requested) in operators[o].configs.iter_mut().zip(requested) {
            // Fewer than arguments: the last one is requested again.
            let last = requested.last().copied().unwrap_or(0);
            let missing = arguments - requested.len();
            config.inputs.extend(requested);
            config.inputs.extend(std::iter::repeat_n(last, missing));
        }
    }
    Ok(())
}

/// What conversions to the requested layouts cost, per configuration of the producer.
fn charges(network: &Network, tensor: &Tensor, tables_of_hub: &[Vec<usize>]) -> Vec<Vec<Option<u64>>> {
    let configs = network.operators[tensor.producer].size;
    let mut rows = vec![vec![Some(0); tensor.hubs.len()]; configs];
    for (layout, &hub) in tensor.hubs.iter().enumerate() {
        let of_producer = |&&i: &&usize| network.tables[i].operator == tensor.producer;
        if let Some(&i) = tables_of_hub[hub].iter().find(of_producer) {
            for (row, pair) in rows.iter_mut().zip(&network.tables[i].costs) {
                row[layout] = pair[1];
            }
        }
    }
    rows
}

/// The layouts that an operator writes.
struct Produced {
    /// How many layouts its output has; the requested ones come first.
    layouts: usize,
    /// Per configuration.
    of_config: Vec<usize>,
    /// Per layout that is written, what conversions to the requested ones cost.
    rows: FxHashMap<usize, Vec<Option<u64>>>,
}

/// Finds as few layouts as keep configurations apart: those that write alike share one, unless they also read alike.
fn produced(spec: &OperatorSpec, rows: Vec<Vec<Option<u64>>>, requested: usize) -> Produced {
    // A class: what conversions cost, and how many configurations before it read and cost the same.
    let mut classes: Vec<(Vec<Option<u64>>, usize)> = Vec::new();
    let mut class_index: FxHashMap<(Vec<Option<u64>>, usize), usize> = FxHashMap::default();
    let mut alike: FxHashMap<(&[usize], Vec<Option<u64>>), usize> = FxHashMap::default();
    let mut class_of = Vec::with_capacity(rows.len());
    for (config, row) in spec.configs.iter().zip(rows) {
        let count = alike.entry((&config.inputs, row.clone())).or_insert(0);
        let class = (row, *count);
        *count += 1;
        class_of.push(*class_index.entry(class.clone()).or_insert_with(|| {
            classes.push(class);
            classes.len() - 1
        }));
    }
    // Those with the fewest free conversions choose first.
    let free = |class: usize| {
        let row = &classes[class].0;
        (0..requested).filter(|&l| row[l] == Some(0))
    };
    let mut order: Vec<usize> = (0..classes.len()).collect();
    order.sort_by_cached_key(|&class| (classes[class].1, free(class).count()));
    let mut taken = vec![false; requested];
    let mut layouts = requested;
    let mut layout_of = vec![0; classes.len()];
    for class in order {
        layout_of[class] = match free(class).find(|&l| !taken[l]) {
            Some(layout) => {
                taken[layout] = true;
                layout
            }
            None => {
                layouts += 1;
                layouts - 1
            }
        };
    }
    Produced {
        // A tensor that nobody reads and nobody writes in more than one way has a layout too.
        layouts: layouts.max(1),
        of_config: class_of.iter().map(|&class| layout_of[class]).collect(),
        rows: layout_of
            .into_iter()
            .zip(classes.into_iter().map(|c| c.0))
            .collect(),
    }
}

fn tensor_spec(number: Option<u64>, operator: &str, requested: &[u64], produced: &Produced) -> TensorSpec {
    let n = produced.layouts;
    let name = number.map_or_else(|| format!("{operator}.out"), |t| format!("t{t}"));
    let own = (requested.len()..n).map(|l| format!("p{}", l - requested.len()));
    let layouts = requested.iter().map(|l| format!("l{l}")).chain(own).collect();
    let cost = |from: usize, to: usize| {
        if from == to {
            return Some(0);
        }
        produced
            .rows
            .get(&from)
            .and_then(|row| row.get(to).copied().flatten())
    };
    TensorSpec {
        name,
        layouts,
        transpose: (0..n)
            .map(|from| (0..n).map(|to| cost(from, to)).collect())
            .collect(),
        ..TensorSpec::default()
    }
}

/// A fault that only the whole shows, at the variable it is about.
fn invalid(text: &str, network: &Network, error: &problem::ProblemError) -> CfnError {
    if let problem::Fault::Cycle { operator } = error.fault {
        let operator = &network.operators[operator];
        let name = operator.name.clone();
        return at(text, operator.at, Fault::Cycle { operator: name });
    }
    let operator = error
        .path
        .strip_prefix("operators[")
        .and_then(|p| p.split_once(']'))
        .and_then(|(index, _)| index.parse::<usize>().ok())
        .and_then(|index| network.operators.get(index));
    let place = operator.map_or(network.top_at, |o| o.at);
    at(text, place, Fault::Problem(error.to_string()))
}
