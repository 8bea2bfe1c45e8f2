//! A node with typed access to its attributes.

use super::proto::{NodeProto, TensorProto};

/// A node of the graph being imported.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) proto: &'a NodeProto,
    pub(super) index: usize,
}

impl<'a> Node<'a> {
    /// The operator, with a foreign domain as prefix.
    pub(super) fn op(&self) -> String {
        match self.proto.domain.as_str() {
            "" | "ai.onnx" => self.proto.op_type.clone(),
            domain => format!("{domain}.{}", self.proto.op_type),
        }
    }
    /// The node's name, or its first output's, or its number.
    pub(super) fn name(&self) -> String {
        let outputs = self.proto.output.iter();
        std::iter::once(&self.proto.name)
            .chain(outputs)
            .find(|n| !n.is_empty())
            .cloned()
            .unwrap_or_else(|| format!("number {}", self.index))
    }
    /// The base name for values that this node defines.
    pub(super) fn label(&self) -> &'a str {
        self.proto
            .output
            .iter()
            .find(|n| !n.is_empty())
            .map_or("value", String::as_str)
    }
    fn find(&self, name: &str) -> Option<&'a super::proto::AttributeProto> {
        self.proto.attribute.iter().find(|a| a.name == name)
    }
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        self.find(name).map_or(default, |a| a.i)
    }
    pub(super) fn flag(&self, name: &str) -> bool {
        self.int(name, 0) != 0
    }
    pub(super) fn float(&self, name: &str, default: f32) -> f64 {
        f64::from(self.find(name).map_or(default, |a| a.f))
    }
    pub(super) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.find(name).map(|a| a.ints.as_slice())
    }
    pub(super) fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.find(name).map(|a| a.floats.as_slice())
    }
    pub(super) fn text(&self, name: &str, default: &str) -> String {
        self.find(name).map_or_else(
            || default.to_owned(),
            |a| String::from_utf8_lossy(&a.s).into_owned(),
        )
    }
    pub(super) fn tensor(&self, name: &str) -> Option<&'a TensorProto> {
        self.find(name).and_then(|a| a.t.as_ref())
    }
    /// Whether result `i` is asked for.
    pub(super) fn has_output(&self, i: usize) -> bool {
        self.proto.output.get(i).is_some_and(|n| !n.is_empty())
    }
}
