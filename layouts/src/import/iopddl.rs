//! Reader for the instances of the ASPLOS 2025 contest on inter-operator parallelism (IOPDDL, repository google/iopddl).
//!
//! A node has strategies with costs; an edge has a cost per combination of its nodes' strategies. Mapped to Layout
//! Selection: a node is a source whose tensor has one layout per strategy and cannot be converted; an edge is an operator
//! that reads its nodes' tensors and has a configuration per combination, at the edge's cost. The optimum is the same.
//! Costs of 10^18 and more are the contest's infinity: those configurations are left out.

use serde::Deserialize;

use super::{ImportError, MAX_MATRICES};
use crate::json::{self, ReadError};
use crate::problem::{ConfigSpec, OperatorSpec, Problem, ProblemBuilder, TensorSpec};

/// The contest's infinity.
const INFINITE: u64 = 1_000_000_000_000_000_000;

/// An edge does not fit its nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("problem.edges.{place}: found {found}, expected {expected}")]
pub struct EdgeError {
    /// Path below `edges`.
    pub place: String,
    /// What is there.
    pub found: usize,
    /// What should be.
    pub expected: String,
}

/// What to do about memory limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageLimits {
    /// An instance that has one is an error.
    #[default]
    Refuse,
    /// The instance without its limit is read.
    Ignore,
}

#[derive(Deserialize)]
struct File {
    problem: Contest,
}

#[derive(Deserialize)]
struct Contest {
    #[serde(default)]
    name: String,
    nodes: Nodes,
    edges: Edges,
    usage_limit: Option<u64>,
}

#[derive(Deserialize)]
struct Nodes {
    costs: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
struct Edges {
    nodes: Vec<Vec<usize>>,
    costs: Vec<Vec<u64>>,
}

/// Imports an instance, compressed or not.
///
/// # Errors
/// See [`ImportError`].
pub fn iopddl(bytes: &[u8], limits: UsageLimits) -> Result<Problem, ImportError> {
    let expanded = json::expand(bytes)?;
    let File { problem } = json::parse(expanded.as_deref().unwrap_or(bytes))?;
    if let (Some(limit), UsageLimits::Refuse) = (problem.usage_limit, limits) {
        return Err(ImportError::UsageLimit(limit));
    }
    let mut b = ProblemBuilder::new(problem.name, "1");
    let strategies = problem.nodes.costs;
    let mut entries = 0usize;
    for (i, costs) in strategies.iter().enumerate() {
        let n = costs.len();
        entries = entries.saturating_add(n.saturating_mul(n));
        if entries > MAX_MATRICES {
            return Err(ImportError::Matrices {
                path: format!("problem.nodes.costs[{i}]"),
                strategies: n,
            });
        }
        let transpose = (0..n)
            .map(|from| (0..n).map(|to| (from == to).then_some(0)).collect())
            .collect();
        let layouts = (0..n).map(|s| s.to_string()).collect();
        let output = b.tensor(TensorSpec {
            name: format!("node{i}"),
            layouts,
            transpose,
            ..TensorSpec::default()
        });
        let finite = costs.iter().enumerate().filter(|(_, cost)| **cost < INFINITE);
        let configs = finite
            .map(|(output, &cost)| ConfigSpec {
                output,
                cost,
                ..ConfigSpec::default()
            })
            .collect();
        b.operator(OperatorSpec {
            name: format!("node{i}"),
            inputs: Vec::new(),
            output,
            configs,
        });
    }
    let edges = problem.edges;
    if edges.costs.len() != edges.nodes.len() {
        let expected = format!("{} (one list per edge)", edges.nodes.len());
        return Err(EdgeError {
            place: "costs".into(),
            found: edges.costs.len(),
            expected,
        }
        .into());
    }
    for (i, (nodes, costs)) in edges.nodes.into_iter().zip(edges.costs).enumerate() {
        if let Some(&found) = nodes.iter().find(|&&v| v >= strategies.len()) {
            let expected = format!("a node below {}", strategies.len());
            return Err(EdgeError {
                place: format!("nodes[{i}]"),
                found,
                expected,
            }
            .into());
        }
        let sizes: Vec<usize> = nodes.iter().map(|&v| strategies[v].len()).collect();
        let tuples = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        if tuples != Some(costs.len()) {
            let expected = format!("the product of {sizes:?}");
            return Err(EdgeError {
                place: format!("costs[{i}]"),
                found: costs.len(),
                expected,
            }
            .into());
        }
        let output = b.tensor(TensorSpec {
            name: format!("edge{i}"),
            layouts: vec!["-".into()],
            transpose: vec![vec![Some(0)]],
            ..TensorSpec::default()
        });
        // The last node's strategy varies fastest.
        let inputs_of = |index: usize| {
            let mut rest = index;
            let mut inputs: Vec<usize> = sizes.iter().rev().map(|&s| (rest % s, rest /= s).0).collect();
            inputs.reverse();
            inputs
        };
        let finite = costs.iter().enumerate().filter(|(_, cost)| **cost < INFINITE);
        let configs = finite.map(|(k, &cost)| ConfigSpec {
            inputs: inputs_of(k),
            cost,
            ..ConfigSpec::default()
        });
        let configs = configs.collect();
        b.operator(OperatorSpec {
            name: format!("edge{i}"),
            inputs: nodes,
            output,
            configs,
        });
    }
    Ok(b.build().map_err(ReadError::from)?)
}
