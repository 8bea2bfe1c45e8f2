//! A walk over the wire format of an ONNX file before it is decoded, which finds where it is broken: byte offset and field path.

use super::error::OnnxError;

/// A message type whose fields are walked into.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    /// A message whose own fields are only skipped over.
    Plain,
}

impl Message {
    /// The message type and name of a length-delimited field, or `None` when it is text, bytes or packed numbers.
    fn field(self, number: u64) -> Option<(Message, &'static str)> {
        Some(match (self, number) {
            (Message::Model, 7) => (Message::Graph, "graph"),
            (Message::Model, 8) => (Message::Plain, "opset_import"),
            (Message::Model, 14) => (Message::Plain, "metadata_props"),
            (Message::Graph, 1) => (Message::Node, "node"),
            (Message::Graph, 5) => (Message::Plain, "initializer"),
            (Message::Graph, 11) => (Message::ValueInfo, "input"),
            (Message::Graph, 12) => (Message::ValueInfo, "output"),
            (Message::Graph, 13) => (Message::ValueInfo, "value_info"),
            (Message::Node, 5) => (Message::Attribute, "attribute"),
            (Message::Attribute, 5) => (Message::Plain, "t"),
            (Message::ValueInfo, 2) => (Message::Type, "type"),
            (Message::Type, 1) => (Message::TensorType, "tensor_type"),
            (Message::TensorType, 2) => (Message::Shape, "shape"),
            (Message::Shape, 1) => (Message::Plain, "dim"),
            _ => return None,
        })
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<(&'static str, usize)>,
}

impl Walk<'_> {
    fn error(&self, offset: usize, problem: impl Into<String>) -> OnnxError {
        let path: Vec<String> = self
            .path
            .iter()
            .map(|(name, index)| format!("{name}[{index}]"))
            .collect();
        OnnxError::Wire {
            offset,
            field: if path.is_empty() {
                "the file".to_owned()
            } else {
                path.join(".")
            },
            problem: problem.into(),
        }
    }

    fn varint(&mut self, end: usize) -> Result<u64, OnnxError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = match self.bytes[..end].get(self.at) {
                Some(byte) => *byte,
                None => return Err(self.error(start, "a number is cut off")),
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(start, "a number of more than 10 bytes"))
    }

    fn skip(&mut self, count: u64, end: usize, start: usize) -> Result<(), OnnxError> {
        let left = end - self.at;
        match usize::try_from(count).ok().filter(|c| *c <= left) {
            Some(count) => {
                self.at += count;
                Ok(())
            }
            None => Err(self.error(start, format!("a field of {count} bytes, where {left} are left"))),
        }
    }

    fn message(&mut self, kind: Message, end: usize) -> Result<(), OnnxError> {
        let mut seen: Vec<(u64, usize)> = Vec::new();
        while self.at < end {
            let start = self.at;
            let key = self.varint(end)?;
            let (number, wire) = (key >> 3, key & 7);
            if number == 0 {
                return Err(self.error(start, "field number 0"));
            }
            match wire {
                0 => {
                    self.varint(end)?;
                }
                1 => self.skip(8, end, start)?,
                5 => self.skip(4, end, start)?,
                2 => {
                    let length = self.varint(end)?;
                    let body = self.at;
                    self.skip(length, end, start)?;
                    if let Some((inner, name)) = kind.field(number) {
                        let index = match seen.iter_mut().find(|(n, _)| *n == number) {
                            Some((_, count)) => {
                                *count += 1;
                                *count
                            }
                            None => {
                                seen.push((number, 0));
                                0
                            }
                        };
                        let body_end = self.at;
                        self.at = body;
                        self.path.push((name, index));
                        self.message(inner, body_end)?;
                        self.path.pop();
                    }
                }
                other => {
                    return Err(self.error(
                        start,
                        format!("wire type {other}, which protobuf does not use here"),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Checks that the bytes are a well-formed message as far as the walk knows. Depth is bounded by the table above; time is linear.
pub(super) fn check(bytes: &[u8]) -> Result<(), OnnxError> {
    let mut walk = Walk {
        bytes,
        at: 0,
        path: Vec::new(),
    };
    walk.message(Message::Model, bytes.len())
}
