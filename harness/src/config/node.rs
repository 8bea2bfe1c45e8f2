//! A YAML document as a tree in which every key and value knows its place, so that all faults can be reported at once.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{Location, Spanned};
use std::fmt;

/// A place in a configuration: line and column of the file, or a command-line override.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// 1-based line and column in the file.
    File {
        /// Line.
        line: u64,
        /// Column.
        column: u64,
    },
    /// The text of a `key=value` argument.
    Argument(String),
}

impl From<Location> for Place {
    fn from(l: Location) -> Self {
        Place::File {
            line: l.line(),
            column: l.column(),
        }
    }
}

/// A value with its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub value: Value,
}

/// What a YAML value is.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `null` or nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction or exponent.
    Float(f64),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in file order: key, place of the key, value.
    Map(Vec<(String, Place, Node)>),
}

impl Value {
    /// The kind in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Reads a document.
///
/// # Errors
/// The parser's message with line and column, when the text is not YAML.
pub fn parse(text: &str) -> Result<Node, serde_yaml::Error> {
    let raw: Spanned<Raw> = serde_yaml::from_str(text)?;
    Ok(place(raw))
}

/// Reads the value of a command-line override, giving every part of it the argument as its place.
///
/// # Errors
/// When the value is not YAML.
pub fn parse_argument(text: &str, argument: &str) -> Result<Node, serde_yaml::Error> {
    fn relocate(node: &mut Node, place: &Place) {
        node.place = place.clone();
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|n| relocate(n, place)),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, p, n)| {
                *p = place.clone();
                relocate(n, place);
            }),
            _ => {}
        }
    }
    let place = Place::Argument(argument.to_owned());
    let mut node = if text.is_empty() {
        Node {
            place: place.clone(),
            value: Value::Null,
        }
    } else {
        parse(text)?
    };
    relocate(&mut node, &place);
    Ok(node)
}

fn place(raw: Spanned<Raw>) -> Node {
    let value = match raw.value {
        Raw::Leaf(value) => value,
        Raw::List(items) => Value::List(items.into_iter().map(place).collect()),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(k, v)| (k.value, k.referenced.into(), place(v)))
                .collect(),
        ),
    };
    Node {
        place: raw.referenced.into(),
        value,
    }
}

/// The tree as the deserialiser builds it.
enum Raw {
    Leaf(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }
    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Null))
    }
    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Null))
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Raw, D::Error> {
        Raw::deserialize(d)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Bool(v)))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Int(v)))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Raw, E> {
        Ok(Raw::Leaf(
            i64::try_from(v).map_or(Value::Float(v as f64), Value::Int),
        ))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Float(v)))
    }
    fn visit_str<E>(self, v: &str) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Text(v.to_owned())))
    }
    fn visit_string<E>(self, v: String) -> Result<Raw, E> {
        Ok(Raw::Leaf(Value::Text(v)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}
