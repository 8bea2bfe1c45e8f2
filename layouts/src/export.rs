//! Writers for the formats of other tools. All take any `Write`; wrap a file in a `BufWriter`.

use std::io::{Result, Write};

use crate::decomposition::TreeDecomposition;
use crate::encoding::{Encoding, Literal};
use crate::graph::Graph;
use crate::id::{LayoutId, TensorId};
use crate::problem::Problem;

/// WCNF in the 2022 format of the MaxSAT Evaluation: `h` clauses are hard, others start with their weight. The seed's
/// encoding, "at most one" as pairs. Comments name the variables.
///
/// # Errors
/// Those of the writer.
pub fn wcnf(problem: &Problem, out: &mut impl Write) -> Result<()> {
    let encoding = Encoding::new(problem);
    writeln!(
        out,
        "c {} ({})",
        one_line(problem.name()),
        one_line(problem.unit())
    )?;
    writeln!(
        out,
        "c variable 1 + k of operator o is its configuration k; operators' variables come first, in order"
    )?;
    for (o, &(first, n)) in encoding.groups.iter().enumerate() {
        writeln!(out, "c operator {o}: variables {}..{}", first + 1, first + n)?;
    }
    let clause = |out: &mut dyn Write, literals: &[Literal]| {
        literals.iter().try_for_each(|l| write!(out, " {}", l.dimacs()))?;
        writeln!(out, " 0")
    };
    for literals in &encoding.hard {
        write!(out, "h")?;
        clause(out, literals)?;
    }
    for pair in encoding.pairs() {
        write!(out, "h")?;
        clause(out, &pair)?;
    }
    for (literals, weight) in &encoding.soft {
        write!(out, "{weight}")?;
        clause(out, literals)?;
    }
    Ok(())
}

/// Toulbar2's `.cfn`: a cost function network in JSON.
///
/// Variables: `x<o>` per operator, one value per configuration; `y<t>_<l>` per tensor and layout that some configuration
/// requests, with values 0 and 1. Unary costs on `x`; a binary function between each consumer and `y` forbids a request
/// with `y = 0`; a binary function between the producer and `y` charges the conversion when `y = 1`. All costs are
/// integers, and `mustbe` is above every finite total.
///
/// # Errors
/// Those of the writer.
pub fn cfn(problem: &Problem, out: &mut impl Write) -> Result<()> {
    let top = worst_case(problem) + 1;
    let name = serde_json::Value::from(problem.name()).to_string();
    writeln!(
        out,
        "{{\n\"problem\":{{\"name\":{name},\"mustbe\":\"<{top}\"}},\n\"variables\":{{"
    )?;
    let hubs = requested(problem);
    let mut separator = "";
    for (o, op) in problem.operators().enumerate() {
        write!(out, "{separator}\"x{o}\":{}", op.num_configs())?;
        separator = ",\n";
    }
    for (t, l) in &hubs {
        write!(out, "{separator}\"y{t}_{l}\":2")?;
        separator = ",\n";
    }
    writeln!(out, "\n}},\n\"functions\":{{")?;
    separator = "";
    for (o, op) in problem.operators().enumerate() {
        let costs: Vec<String> = op.configs().map(|(_, c)| c.cost.to_string()).collect();
        write!(
            out,
            "{separator}\"u{o}\":{{\"scope\":[\"x{o}\"],\"costs\":[{}]}}",
            costs.join(",")
        )?;
        separator = ",\n";
    }
    for &(t, l) in &hubs {
        let producer = problem.producer(t);
        let finite = |cost: Option<u64>| cost.unwrap_or(top);
        let charge = problem
            .operator(producer)
            .configs()
            .map(|(_, c)| finite(problem.tensor(t).transpose(c.output, l)));
        let costs: Vec<String> = charge.map(|cost| format!("0,{cost}")).collect();
        let scope = format!("\"x{producer}\",\"y{t}_{l}\"");
        write!(
            out,
            "{separator}\"p{t}_{l}\":{{\"scope\":[{scope}],\"costs\":[{}]}}",
            costs.join(",")
        )?;
        let mut consumers: Vec<_> = problem.uses(t).iter().map(|&(o, _)| o).collect();
        consumers.dedup();
        for o in consumers {
            let op = problem.operator(o);
            let asks = |c: crate::problem::Config<'_>| {
                op.inputs.iter().zip(c.inputs).any(|(&u, &m)| (u, m) == (t, l))
            };
            let costs: Vec<String> = op
                .configs()
                .map(|(_, c)| format!("{},0", if asks(c) { top } else { 0 }))
                .collect();
            let scope = format!("\"x{o}\",\"y{t}_{l}\"");
            write!(
                out,
                "{separator}\"r{o}_{t}_{l}\":{{\"scope\":[{scope}],\"costs\":[{}]}}",
                costs.join(",")
            )?;
        }
    }
    writeln!(out, "\n}}\n}}")
}

/// PACE's `.gr`: the simple undirected operator graph, vertex = operator index + 1.
///
/// # Errors
/// Those of the writer.
pub fn gr(problem: &Problem, out: &mut impl Write) -> Result<()> {
    let graph = Graph::of(problem);
    let edges: Vec<_> = graph.edges().collect();
    writeln!(out, "c {}", one_line(problem.name()))?;
    writeln!(out, "p tw {} {}", graph.len(), edges.len())?;
    edges
        .into_iter()
        .try_for_each(|(u, v)| writeln!(out, "{} {}", u + 1, v + 1))
}

/// PACE's `.td`: a tree decomposition of the operator graph. The roots of several components are chained, since the
/// format wants one tree.
///
/// # Errors
/// Those of the writer.
pub fn td(graph: &Graph, tree: &TreeDecomposition, out: &mut impl Write) -> Result<()> {
    let width = tree.bags.iter().map(Vec::len).max().unwrap_or(0);
    writeln!(out, "s td {} {width} {}", tree.bags.len(), graph.len())?;
    for (i, bag) in tree.bags.iter().enumerate() {
        write!(out, "b {}", i + 1)?;
        bag.iter().try_for_each(|v| write!(out, " {}", v + 1))?;
        writeln!(out)?;
    }
    let mut last_root: Option<usize> = None;
    for (i, parent) in tree.parents.iter().enumerate() {
        match parent {
            Some(p) => writeln!(out, "{} {}", i + 1, p + 1)?,
            None => {
                if let Some(last) = last_root.replace(i) {
                    writeln!(out, "{} {}", last + 1, i + 1)?;
                }
            }
        }
    }
    Ok(())
}

/// Graphviz: operators as boxes, tensors as labelled edges from producer to consumer.
///
/// # Errors
/// Those of the writer.
pub fn dot(problem: &Problem, out: &mut impl Write) -> Result<()> {
    let quote = |s: &str| {
        format!(
            "\"{}\"",
            s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
        )
    };
    writeln!(out, "digraph {} {{\n  node [shape=box];", quote(problem.name()))?;
    for (o, op) in problem.operators().enumerate() {
        writeln!(
            out,
            "  o{o} [label={}];",
            quote(&format!("{}\n{} configurations", op.name(), op.num_configs()))
        )?;
    }
    for t in problem.tensor_ids() {
        let tensor = problem.tensor(t);
        let label = quote(&format!("{}\n{}", tensor.name(), tensor.layouts.join(" ")));
        let style = if tensor.constant { ", style=dashed" } else { "" };
        for (o, _) in problem.uses(t) {
            writeln!(out, "  o{} -> o{o} [label={label}{style}];", problem.producer(t))?;
        }
    }
    writeln!(out, "}}")
}

/// Tensors with layouts that some configuration requests, in order.
pub(crate) fn requested(problem: &Problem) -> Vec<(TensorId, LayoutId)> {
    let mut hubs = Vec::new();
    for t in problem.tensor_ids() {
        let mut asked = vec![false; problem.tensor(t).layouts.len()];
        for &(o, position) in problem.uses(t) {
            problem
                .operator(o)
                .configs()
                .for_each(|(_, c)| asked[c.inputs[position as usize].index()] = true);
        }
        hubs.extend(
            (0u32..)
                .zip(asked)
                .filter(|(_, a)| *a)
                .map(|(l, _)| (t, LayoutId(l))),
        );
    }
    hubs
}

/// An upper bound on every finite objective.
pub(crate) fn worst_case(problem: &Problem) -> u64 {
    let dearest = |op: crate::problem::Operator<'_>| op.configs().map(|(_, c)| c.cost).max().unwrap_or(0);
    let row = |t: crate::problem::Tensor<'_>| {
        t.transpose
            .chunks(t.layouts.len())
            .map(|r| r.iter().flatten().sum())
            .max()
    };
    problem.operators().map(dearest).sum::<u64>()
        + problem.tensors().map(|t| row(t).unwrap_or(0)).sum::<u64>()
}

fn one_line(s: &str) -> String {
    s.replace(['\n', '\r'], " ")
}
