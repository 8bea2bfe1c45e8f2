//! Typed reading of a configuration tree that goes on after a fault.

use super::fault::{Fault, suggest};
use super::node::{Node, Place, Value};
use std::time::Duration;

/// Collects faults while values are read.
#[derive(Default, Debug)]
pub struct Reader {
    /// What was found so far.
    pub faults: Vec<Fault>,
}

/// A mapping under reading: every key must be taken or it is unknown.
pub struct Fields<'a> {
    entries: &'a [(String, Place, Node)],
    known: Vec<&'static str>,
}

impl Reader {
    /// Records a fault.
    pub fn fault(&mut self, place: &Place, message: impl Into<String>, help: Option<String>) {
        self.faults.push(Fault {
            place: place.clone(),
            message: message.into(),
            help,
        });
    }
    fn expected(&mut self, node: &Node, what: &str) {
        self.fault(
            &node.place,
            format!("expected {what}, found {}", node.value.kind()),
            None,
        );
    }
    /// A mapping.
    pub fn fields<'a>(&mut self, node: &'a Node, what: &str) -> Option<Fields<'a>> {
        match &node.value {
            Value::Map(entries) => {
                for (i, (key, place, _)) in entries.iter().enumerate() {
                    if entries[..i].iter().any(|(k, ..)| k == key) {
                        self.fault(place, format!("key `{key}` is given twice"), None);
                    }
                }
                Some(Fields {
                    entries,
                    known: Vec::new(),
                })
            }
            _ => {
                self.expected(node, &format!("{what} (a mapping)"));
                None
            }
        }
    }
    /// A list; a single value stands for a list of one.
    pub fn list<'a>(&mut self, node: &'a Node) -> Vec<&'a Node> {
        match &node.value {
            Value::List(items) => items.iter().collect(),
            Value::Null => Vec::new(),
            _ => vec![node],
        }
    }
    /// Text; numbers and truth values are read as they are written.
    pub fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.value {
            Value::Text(t) => Some(t.clone()),
            Value::Int(i) => Some(i.to_string()),
            Value::Float(x) => Some(x.to_string()),
            Value::Bool(b) => Some(b.to_string()),
            _ => {
                self.expected(node, what);
                None
            }
        }
    }
    /// An integer within bounds.
    pub fn int(&mut self, node: &Node, what: &str, low: i64, high: i64) -> Option<i64> {
        match node.value {
            Value::Int(i) if (low..=high).contains(&i) => Some(i),
            Value::Int(i) => {
                self.fault(
                    &node.place,
                    format!("{what} is {i}; it must be between {low} and {high}"),
                    None,
                );
                None
            }
            _ => {
                self.expected(node, &format!("{what} (an integer)"));
                None
            }
        }
    }
    /// A finite number, at least `low`.
    pub fn number(&mut self, node: &Node, what: &str, low: f64) -> Option<f64> {
        let value = match node.value {
            Value::Int(i) => i as f64,
            Value::Float(x) => x,
            _ => {
                self.expected(node, &format!("{what} (a number)"));
                return None;
            }
        };
        if value.is_finite() && value >= low {
            return Some(value);
        }
        self.fault(
            &node.place,
            format!("{what} is {value}; it must be a finite number, at least {low}"),
            None,
        );
        None
    }
    /// A duration such as `90s`, `250ms`, `2min`; a bare number is seconds.
    pub fn duration(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let text = self.text(node, what)?;
        let parsed = parse_duration(&text);
        if parsed.is_none() {
            self.fault(
                &node.place,
                format!("{what}: `{text}` is not a duration"),
                Some("write a number with `ms`, `s`, `min` or `h`, such as `90s`, at most a year".into()),
            );
        }
        parsed
    }
    /// A size such as `2GiB`, `512MiB`; a bare number is bytes.
    pub fn bytes(&mut self, node: &Node, what: &str) -> Option<u64> {
        let text = self.text(node, what)?;
        let parsed = parse_bytes(&text);
        if parsed.is_none() {
            self.fault(
                &node.place,
                format!("{what}: `{text}` is not a size"),
                Some("write a number with `KiB`, `MiB` or `GiB`, such as `2GiB`".into()),
            );
        }
        parsed
    }
    /// One of a list of names.
    pub fn name<'c>(&mut self, node: &Node, what: &str, choices: &[&'c str]) -> Option<&'c str> {
        let text = self.text(node, what)?;
        let found = choices.iter().find(|c| **c == text).copied();
        if found.is_none() {
            self.fault(
                &node.place,
                format!("unknown {what} `{text}`"),
                suggest(&text, choices.iter().copied()),
            );
        }
        found
    }
}

impl<'a> Fields<'a> {
    /// The value of a key, if it is given.
    pub fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push(key);
        self.entries
            .iter()
            .find(|(k, ..)| k == key)
            .map(|(.., node)| node)
    }
    /// The value of a key that must be given.
    pub fn require(&mut self, reader: &mut Reader, key: &'static str, owner: &Node) -> Option<&'a Node> {
        let found = self.take(key);
        if found.is_none() {
            reader.fault(&owner.place, format!("missing key `{key}`"), None);
        }
        found
    }
    /// Reports every key that was not asked for.
    pub fn finish(self, reader: &mut Reader) {
        for (key, place, _) in self.entries {
            if !self.known.contains(&key.as_str()) {
                reader.fault(
                    place,
                    format!("unknown key `{key}`"),
                    suggest(key, self.known.iter().copied()),
                );
            }
        }
    }
}

/// No duration of a configuration is longer: a year. A bound keeps every sum with a clock's time representable.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A number with `ms`, `s`, `min` or `h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let seconds = match unit {
        "" | "s" => number,
        "ms" => number / 1e3,
        "min" | "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| *d <= LONGEST)
}

/// A number with `KiB`, `MiB` or `GiB` (or `kB`, `MB`, `GB`); a bare number is bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let scale = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    let bytes = number * scale;
    (bytes.is_finite() && (0.0..1.8e19).contains(&bytes)).then_some(bytes as u64)
}

fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}
