//! JSON as a tree in which every value and key knows where it stands.
//!
//! Not serde_json's values: those have forgotten their places by the time that a scope names a variable that does not exist.

use std::borrow::Cow;

use super::error::{CfnError, Fault, at};

/// Deeper than any network is; a bound keeps the reader's stack small.
const DEEPEST: usize = 16;

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub at: usize,
    pub value: Value<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// `null`, `true`, `false`, and numbers, as they are written.
    Word(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Where the key begins.
    pub at: usize,
    pub key: Cow<'a, str>,
    pub node: Node<'a>,
}

impl Value<'_> {
    /// In words, for errors.
    pub fn kind(&self) -> String {
        match self {
            Value::Word(word) => format!("`{word}`"),
            Value::Text(text) => format!("{text:?}"),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "an object".into(),
        }
    }
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Node<'_>, CfnError> {
    let mut reader = Reader { text, position: 0 };
    let node = reader.value(0)?;
    reader.blanks();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.unexpected("the end of the file")),
    }
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    /// The next byte after blanks, taken when it is this one.
    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn unexpected(&self, expected: &'static str) -> CfnError {
        let found = match self.text[self.position..].chars().next() {
            Some(c) => format!("{c:?}"),
            None => "the end of the file".into(),
        };
        at(self.text, self.position, Fault::Syntax { found, expected })
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, CfnError> {
        self.blanks();
        let position = self.position;
        let value = match self.peek() {
            Some(b'{' | b'[') if depth == DEEPEST => return Err(at(self.text, position, Fault::TooDeep)),
            Some(b'{') => Value::Map(self.map(depth)?),
            Some(b'[') => Value::List(self.list(depth)?),
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => Value::Word(self.word()),
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { at: position, value })
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry<'a>>, CfnError> {
        self.position += 1;
        let mut entries = Vec::new();
        if self.take(b'}') {
            return Ok(entries);
        }
        loop {
            self.blanks();
            let position = self.position;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in quotes"));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return Err(self.unexpected("a colon"));
            }
            let node = self.value(depth + 1)?;
            entries.push(Entry {
                at: position,
                key,
                node,
            });
            if self.take(b'}') {
                return Ok(entries);
            }
            if !self.take(b',') {
                return Err(self.unexpected("a comma or the end of the object"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node<'a>>, CfnError> {
        self.position += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.unexpected("a comma or the end of the list"));
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.position..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.position += word.len();
        word
    }

    fn string(&mut self) -> Result<Cow<'a, str>, CfnError> {
        let open = self.position;
        let start = open + 1;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        self.position = start;
        loop {
            match self.peek() {
                None => return Err(at(self.text, open, Fault::OpenString)),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    // Whatever follows, a quote among it, is the escape's; a character of several bytes is read on as such.
                    self.position += 1 + usize::from(self.position + 1 < bytes.len());
                }
                Some(_) => self.position += 1,
            }
        }
        self.position += 1;
        if !escaped {
            return Ok(Cow::Borrowed(&self.text[start..self.position - 1]));
        }
        match serde_json::from_str(&self.text[open..self.position]) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(_) => Err(at(self.text, open, Fault::Escape)),
        }
    }
}
