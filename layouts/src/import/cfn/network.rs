//! The network in the file: variables and functions, checked for form, not yet for what they mean.

use rustc_hash::FxHashMap;

use super::error::{CfnError, Fault, at};
use super::text::{Entry, Node, Value};
use crate::nearest::nearest;
use crate::problem::MAX_TOTAL;

/// A network of operators' and requests' variables. Costs are sums over all functions of the same variables.
pub(super) struct Network {
    pub name: String,
    /// Costs from here on are forbidden.
    pub top: u64,
    pub top_at: usize,
    pub operators: Vec<Operator>,
    /// By tensor, then by layout.
    pub hubs: Vec<Hub>,
    /// Per pair of operator and hub, in file order.
    pub tables: Vec<Table>,
}

/// An `x`.
pub(super) struct Operator {
    pub name: String,
    pub at: usize,
    /// How many values it has.
    pub size: usize,
    /// One per value once a function has given it costs; empty before, which stands for zeros.
    pub costs: Vec<u64>,
}

/// A `y`.
pub(super) struct Hub {
    pub name: String,
    pub at: usize,
    pub tensor: u64,
    pub layout: u64,
}

/// A function of both.
pub(super) struct Table {
    pub operator: usize,
    pub hub: usize,
    /// Of the first function.
    pub at: usize,
    /// Per configuration, the costs at 0 and 1; forbidden ones are `None`.
    pub costs: Vec<[Option<u64>; 2]>,
}

#[derive(Clone, Copy)]
enum Kind {
    Operator(usize),
    Hub(usize),
}

struct Variable {
    name: String,
    kind: Kind,
    size: usize,
    /// Names of the values, where they have some.
    values: FxHashMap<String, usize>,
}

/// A reader with what it has read.
struct Reader<'t> {
    text: &'t str,
    variables: Vec<Variable>,
    by_name: FxHashMap<String, usize>,
    network: Network,
    table_of: FxHashMap<(usize, usize), usize>,
    /// Numbers that the file may still stand for without writing them.
    unwritten: usize,
}

/// A file may stand for this many numbers (values of variables, default costs) and one more per byte: what is written in a line must not
/// take all memory.
const UNWRITTEN: usize = 1 << 22;

pub(super) fn read(text: &str, root: &Node<'_>) -> Result<Network, CfnError> {
    let mut fields = [None; 3];
    fill(text, root, &["problem", "variables", "functions"], &mut fields)?;
    let problem = required(text, root, fields[0], "problem")?;
    let variables = required(text, root, fields[1], "variables")?;
    let functions = required(text, root, fields[2], "functions")?;
    let (name, top, top_at) = header(text, problem)?;
    let mut reader = Reader {
        text,
        variables: Vec::new(),
        by_name: FxHashMap::default(),
        network: Network {
            name,
            top,
            top_at,
            operators: Vec::new(),
            hubs: Vec::new(),
            tables: Vec::new(),
        },
        table_of: FxHashMap::default(),
        unwritten: UNWRITTEN.saturating_add(text.len()),
    };
    for entry in map(text, variables)? {
        reader.variable(entry)?;
    }
    match &functions.value {
        Value::List(functions) => functions.iter().try_for_each(|f| reader.function(f))?,
        _ => {
            let entries = map(text, functions)?;
            unique(text, entries)?;
            entries.iter().try_for_each(|e| reader.function(&e.node))?;
        }
    }
    Ok(reader.network)
}

fn header(text: &str, node: &Node<'_>) -> Result<(String, u64, usize), CfnError> {
    let mut fields = [None; 2];
    fill(text, node, &["name", "mustbe"], &mut fields)?;
    let name = fields[0]
        .map(|n| string(text, n))
        .transpose()?
        .unwrap_or_default();
    let must_be = required(text, node, fields[1], "mustbe")?;
    let found = string(text, must_be)?;
    let top = found
        .strip_prefix('<')
        .and_then(|n| n.trim().parse().ok())
        .filter(|top| (1..=MAX_TOTAL + 1).contains(top));
    let top = top.ok_or_else(|| {
        let found = found.to_owned();
        at(text, must_be.at, Fault::MustBe { found })
    })?;
    Ok((name.to_owned(), top, must_be.at))
}

impl Reader<'_> {
    fn variable(&mut self, entry: &Entry<'_>) -> Result<(), CfnError> {
        let fail = |fault| at(self.text, entry.at, fault);
        let name = entry.key.to_string();
        let mut values = FxHashMap::default();
        let size = match &entry.node.value {
            Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    let value = string(self.text, item)?.to_owned();
                    if let Some(_first) = values.insert(value.clone(), i) {
                        return Err(at(self.text, item.at, Fault::Twice { name: value }));
                    }
                }
                items.len()
            }
            _ => integer(
                self.text,
                &entry.node,
                "a number of values or a list of their names",
            )?,
        };
        self.spend(size, entry.at)?;
        let index = self.variables.len();
        if self.by_name.insert(name.clone(), index).is_some() {
            return Err(fail(Fault::Twice { name }));
        }
        let kind = if name.starts_with('x') {
            if size == 0 {
                return Err(fail(Fault::NoValues));
            }
            self.network.operators.push(Operator {
                name: name.clone(),
                at: entry.at,
                size,
                costs: Vec::new(),
            });
            Kind::Operator(self.network.operators.len() - 1)
        } else if let Some((tensor, layout)) = hub_name(&name) {
            if size != 2 {
                return Err(fail(Fault::HubValues { name, found: size }));
            }
            self.network.hubs.push(Hub {
                name: name.clone(),
                at: entry.at,
                tensor,
                layout,
            });
            Kind::Hub(self.network.hubs.len() - 1)
        } else {
            return Err(fail(Fault::VariableName { name }));
        };
        self.variables.push(Variable {
            name,
            kind,
            size,
            values,
        });
        Ok(())
    }

    /// Counts numbers that are not written out.
    fn spend(&mut self, numbers: usize, position: usize) -> Result<(), CfnError> {
        let left = self.unwritten.checked_sub(numbers);
        self.unwritten = left.ok_or_else(|| at(self.text, position, Fault::TooLarge))?;
        Ok(())
    }

    fn function(&mut self, node: &Node<'_>) -> Result<(), CfnError> {
        let text = self.text;
        let mut fields = [None; 3];
        fill(text, node, &["scope", "costs", "defaultcost"], &mut fields)?;
        let scope = required(text, node, fields[0], "scope")?;
        let costs = required(text, node, fields[1], "costs")?;
        let (default, scope_at) = (fields[2], scope.at);
        let scope = list(text, scope)?
            .iter()
            .map(|n| self.scope_variable(n))
            .collect::<Result<Vec<_>, _>>()?;
        let kinds: Vec<Kind> = scope.iter().map(|&v| self.variables[v].kind).collect();
        let table = self.table(&scope, scope_at, costs, default)?;
        let stray = || at(text, node.at, Fault::StrayCost);
        match kinds[..] {
            [] | [Kind::Hub(_)] if table.iter().all(|c| *c == Some(0)) => Ok(()),
            [] | [Kind::Hub(_)] => Err(stray()),
            [Kind::Operator(o)] => {
                let sums = &mut self.network.operators[o].costs;
                sums.resize(table.len(), 0);
                for (value, (sum, cost)) in sums.iter_mut().zip(table).enumerate() {
                    let cost = cost.ok_or_else(|| at(text, node.at, Fault::ForbiddenValue { value }))?;
                    *sum = add(*sum, cost).ok_or_else(|| at(text, node.at, Fault::CostOverflow))?;
                }
                Ok(())
            }
            [Kind::Operator(o), Kind::Hub(h)] => self.add_table(o, h, node.at, |c, y| table[2 * c + y]),
            [Kind::Hub(h), Kind::Operator(o)] => {
                let n = table.len() / 2;
                self.add_table(o, h, node.at, |c, y| table[y * n + c])
            }
            [Kind::Operator(_), Kind::Operator(_)] => {
                Err(at(text, scope_at, Fault::Scope { found: "two `x`" }))
            }
            [Kind::Hub(_), Kind::Hub(_)] => Err(at(text, scope_at, Fault::Scope { found: "two `y`" })),
            _ => {
                let found = "three or more variables";
                Err(at(text, scope_at, Fault::Scope { found }))
            }
        }
    }

    fn scope_variable(&self, node: &Node<'_>) -> Result<usize, CfnError> {
        match &node.value {
            Value::Text(name) => self.by_name.get(name.as_ref()).copied().ok_or_else(|| {
                let name = name.to_string();
                at(self.text, node.at, Fault::NoSuchVariable { name })
            }),
            _ => {
                let index = integer(self.text, node, "the name or number of a variable")?;
                let variables = self.variables.len();
                if index < variables {
                    Ok(index)
                } else {
                    Err(at(self.text, node.at, Fault::NoSuchIndex { index, variables }))
                }
            }
        }
    }

    /// The costs of all combinations, the last variable fastest; forbidden ones are `None`.
    fn table(
        &mut self,
        scope: &[usize],
        scope_at: usize,
        costs: &Node<'_>,
        default: Option<&Node<'_>>,
    ) -> Result<Vec<Option<u64>>, CfnError> {
        let text = self.text;
        let items = list(text, costs)?;
        let sizes: Vec<usize> = scope.iter().map(|&v| self.variables[v].size).collect();
        if scope.len() > 2 || scope.len() == 2 && scope[0] == scope[1] {
            let found = "three or more variables, or of one twice,";
            return Err(at(text, scope_at, Fault::Scope { found }));
        }
        let combinations = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        let Some(default) = default else {
            if combinations != Some(items.len()) {
                let (found, expected) = (items.len(), combinations.unwrap_or(usize::MAX));
                return Err(at(text, costs.at, Fault::CostCount { found, expected }));
            }
            return items.iter().map(|c| self.cost(c)).collect();
        };
        let default = self.cost(default)?;
        let each = scope.len() + 1;
        if items.len() % each != 0 {
            let found = items.len();
            return Err(at(text, costs.at, Fault::TupleCount { found, each }));
        }
        let combinations = combinations.unwrap_or(usize::MAX);
        self.spend(combinations, costs.at)?;
        let mut table = vec![default; combinations];
        for tuple in items.chunks_exact(each) {
            let mut index = 0;
            for (&v, node) in scope.iter().zip(tuple) {
                index = index * self.variables[v].size + self.value(v, node)?;
            }
            table[index] = self.cost(&tuple[each - 1])?;
        }
        Ok(table)
    }

    fn value(&self, variable: usize, node: &Node<'_>) -> Result<usize, CfnError> {
        let v = &self.variables[variable];
        let found = match &node.value {
            Value::Text(name) => v.values.get(name.as_ref()).copied(),
            _ => Some(integer(self.text, node, "the name or number of a value")?).filter(|&i| i < v.size),
        };
        found.ok_or_else(|| {
            let fault = Fault::NoSuchValue {
                name: v.name.clone(),
                found: node.value.kind(),
                values: v.size,
            };
            at(self.text, node.at, fault)
        })
    }

    fn cost(&self, node: &Node<'_>) -> Result<Option<u64>, CfnError> {
        let read = match &node.value {
            Value::Word(word) => word.parse().ok().filter(|c| *c <= MAX_TOTAL + 1),
            _ => None,
        };
        let fault = || Fault::Cost {
            found: node.value.kind(),
        };
        let cost = read.ok_or_else(|| at(self.text, node.at, fault()))?;
        Ok((cost < self.network.top).then_some(cost))
    }

    fn add_table(
        &mut self,
        operator: usize,
        hub: usize,
        position: usize,
        cost: impl Fn(usize, usize) -> Option<u64>,
    ) -> Result<(), CfnError> {
        let tables = &mut self.network.tables;
        let index = *self.table_of.entry((operator, hub)).or_insert(tables.len());
        if index == tables.len() {
            tables.push(Table {
                operator,
                hub,
                at: position,
                costs: Vec::new(),
            });
        }
        let sums = &mut tables[index].costs;
        sums.resize(self.network.operators[operator].size, [Some(0); 2]);
        for (c, pair) in sums.iter_mut().enumerate() {
            for (y, sum) in pair.iter_mut().enumerate() {
                *sum = match (*sum, cost(c, y)) {
                    (Some(a), Some(b)) => {
                        Some(add(a, b).ok_or_else(|| at(self.text, position, Fault::CostOverflow))?)
                    }
                    _ => None,
                };
            }
        }
        Ok(())
    }
}

fn add(a: u64, b: u64) -> Option<u64> {
    a.checked_add(b).filter(|&sum| sum <= MAX_TOTAL)
}

/// `y<tensor>_<layout>`.
fn hub_name(name: &str) -> Option<(u64, u64)> {
    let number = |s: &str| {
        let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        // Numbers with leading zeros would make two names one.
        let plain = digits && (s == "0" || !s.starts_with('0'));
        plain.then(|| s.parse().ok()).flatten()
    };
    let (tensor, layout) = name.strip_prefix('y')?.split_once('_')?;
    Some((number(tensor)?, number(layout)?))
}

/// Puts the values of an object's keys where `slots` wants them; other keys are faults.
fn fill<'n, 'a>(
    text: &str,
    node: &'n Node<'a>,
    keys: &[&'static str],
    slots: &mut [Option<&'n Node<'a>>],
) -> Result<(), CfnError> {
    let entries = map(text, node)?;
    unique(text, entries)?;
    for entry in entries {
        let Some(index) = keys.iter().position(|k| *k == entry.key) else {
            let key = entry.key.to_string();
            let nearest = nearest(&key, keys);
            return Err(at(text, entry.at, Fault::UnknownKey { key, nearest }));
        };
        slots[index] = Some(&entry.node);
    }
    Ok(())
}

fn required<'n, 'a>(
    text: &str,
    owner: &Node<'_>,
    found: Option<&'n Node<'a>>,
    key: &'static str,
) -> Result<&'n Node<'a>, CfnError> {
    found.ok_or_else(|| at(text, owner.at, Fault::MissingKey { key }))
}

fn unique(text: &str, entries: &[Entry<'_>]) -> Result<(), CfnError> {
    let mut seen = FxHashMap::default();
    for entry in entries {
        if seen.insert(entry.key.as_ref(), ()).is_some() {
            let name = entry.key.to_string();
            return Err(at(text, entry.at, Fault::Twice { name }));
        }
    }
    Ok(())
}

fn kind(text: &str, node: &Node<'_>, expected: &'static str) -> CfnError {
    let found = node.value.kind();
    at(text, node.at, Fault::Kind { expected, found })
}

fn map<'n, 'a>(text: &str, node: &'n Node<'a>) -> Result<&'n [Entry<'a>], CfnError> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        _ => Err(kind(text, node, "an object")),
    }
}

fn list<'n, 'a>(text: &str, node: &'n Node<'a>) -> Result<&'n [Node<'a>], CfnError> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(kind(text, node, "a list")),
    }
}

fn string<'n>(text: &str, node: &'n Node<'_>) -> Result<&'n str, CfnError> {
    match &node.value {
        Value::Text(found) => Ok(found),
        _ => Err(kind(text, node, "text")),
    }
}

fn integer(text: &str, node: &Node<'_>, expected: &'static str) -> Result<usize, CfnError> {
    match &node.value {
        Value::Word(word) => word.parse().map_err(|_| kind(text, node, expected)),
        _ => Err(kind(text, node, expected)),
    }
}
