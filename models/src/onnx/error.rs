//! Why an ONNX file can't be imported.

use std::fmt;

/// Operators of a file that import can't express, all at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// The operator, with its domain when that is not ONNX's own.
    pub op: String,
    /// Why: an operator that is not known, or an attribute or operand that is not covered.
    pub reason: String,
    /// How many nodes.
    pub count: usize,
    /// One of them.
    pub node: String,
}

impl fmt::Display for UnsupportedOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} × {}: {} (node `{}`)",
            self.count, self.op, self.reason, self.node
        )
    }
}

/// A list, one per line.
fn lines(list: &[UnsupportedOperator]) -> String {
    list.iter().map(|u| format!("\n  {u}")).collect()
}

/// Why an ONNX file can't be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnnxError {
    /// Truncated or corrupt protobuf.
    #[error("not a valid ONNX file: at byte {offset}, in {field}: {problem}")]
    Wire {
        /// Offset in the file.
        offset: usize,
        /// The innermost message, as a path.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// Protobuf that is well-formed but not ONNX's messages.
    #[error("not a valid ONNX file: {0}")]
    Decode(String),
    /// A model without a graph, or an operator set that import does not know.
    #[error("{0}")]
    Model(String),
    /// A graph input, output or initializer that is not acceptable.
    #[error("{kind} `{name}`: {problem}")]
    Value {
        /// `input`, `output` or `initializer`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A node that reads what no earlier node, input or initializer defines.
    #[error("node `{node}` ({op}) reads `{value}`, which nothing before it defines")]
    Undefined {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The name read.
        value: String,
    },
    /// Operators that can't be expressed; the whole list.
    #[error("{} of the file's operators can't be imported:{}", .0.len(), lines(.0))]
    Unsupported(Vec<UnsupportedOperator>),
}
