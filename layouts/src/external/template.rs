//! The command of an outside program: words as a shell would split them, with places to fill in. No shell runs it, so that
//! nothing in a path can be taken for anything but a path.

use std::ffi::{OsStr, OsString};

use crate::nearest::nearest;

/// The names that may stand in braces, and what replaces them.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("instance", "path of the instance file"),
    ("time_limit", "seconds that are left, a whole number, rounded up"),
    ("memory_limit", "the memory limit in MiB, rounded down"),
    ("seed", "the budget's seed"),
    ("threads", "how many threads may be used"),
];

/// The placeholders in a sentence, for help texts.
pub fn placeholders() -> String {
    let one = |(name, meaning): &(&str, &str)| format!("`{{{name}}}` ({meaning})");
    PLACEHOLDERS.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Why a text is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is no word in it.
    #[error("the command is empty")]
    Empty,
    /// The text ends inside quotes or after a backslash.
    #[error("column {column}: the {what} here is not closed")]
    Unclosed {
        /// Counted in characters from 1.
        column: usize,
        /// What is open.
        what: &'static str,
    },
    /// No placeholder has this name.
    #[error(
        "column {column}: no placeholder is named {{{name}}}; did you mean {{{nearest}}}? (Two braces stand for one.)"
    )]
    Unknown {
        /// Counted in characters from 1.
        column: usize,
        /// The name found.
        name: String,
        /// The nearest name there is.
        nearest: &'static str,
    },
    /// Nothing tells the program where its instance is.
    #[error("the command does not say where {{instance}} goes")]
    NoInstance,
}

/// What fills the places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub instance: &'a OsStr,
    pub time_limit: u64,
    pub memory_limit: u64,
    pub seed: u64,
    pub threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    Instance,
    TimeLimit,
    MemoryLimit,
    Seed,
    Threads,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Hole(Hole),
}

/// A checked command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    words: Vec<Vec<Piece>>,
}

impl Template {
    /// Splits and checks a command. Blanks separate words; quotes, single and double, and a backslash work as in a shell;
    /// `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let words = split(text)?
            .into_iter()
            .map(|word| pieces(&word))
            .collect::<Result<Vec<_>, _>>()?;
        if words.is_empty() {
            return Err(TemplateError::Empty);
        }
        let named = words.iter().flatten().any(|p| *p == Piece::Hole(Hole::Instance));
        if !named {
            return Err(TemplateError::NoInstance);
        }
        Ok(Self { words })
    }

    /// Whether the command wants to know how much time there is.
    pub(super) fn wants_time_limit(&self) -> bool {
        let hole = Piece::Hole(Hole::TimeLimit);
        self.words.iter().flatten().any(|p| *p == hole)
    }

    /// The program and its arguments.
    pub(super) fn fill(&self, values: &Values<'_>) -> Vec<OsString> {
        let word = |pieces: &Vec<Piece>| {
            let mut word = OsString::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => word.push(text),
                    Piece::Hole(Hole::Instance) => word.push(values.instance),
                    Piece::Hole(Hole::TimeLimit) => word.push(values.time_limit.to_string()),
                    Piece::Hole(Hole::MemoryLimit) => word.push(values.memory_limit.to_string()),
                    Piece::Hole(Hole::Seed) => word.push(values.seed.to_string()),
                    Piece::Hole(Hole::Threads) => word.push(values.threads.to_string()),
                }
            }
            word
        };
        self.words.iter().map(word).collect()
    }
}

/// Words with the column of each character, quotes removed.
fn split(text: &str) -> Result<Vec<Vec<(usize, char)>>, TemplateError> {
    let mut words = Vec::new();
    // `Some` inside a word, which quotes may leave empty.
    let mut word: Option<Vec<(usize, char)>> = None;
    let mut characters = text.chars().zip(1..);
    while let Some((c, column)) = characters.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => {
                let what = "backslash";
                let (next, at) = characters
                    .next()
                    .ok_or(TemplateError::Unclosed { column, what })?;
                word.get_or_insert_default().push((at, next));
            }
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    let what = "quote";
                    let (next, at) = characters
                        .next()
                        .ok_or(TemplateError::Unclosed { column, what })?;
                    if next == c {
                        break;
                    }
                    // Inside double quotes a backslash protects a quote and itself only, as in a shell.
                    let escaped = if c == '"' && next == '\\' {
                        characters.clone().next().filter(|(n, _)| matches!(n, '"' | '\\'))
                    } else {
                        None
                    };
                    word.push(match escaped {
                        Some((n, at)) => {
                            characters.next();
                            (at, n)
                        }
                        None => (at, next),
                    });
                }
            }
            _ => word.get_or_insert_default().push((column, c)),
        }
    }
    words.extend(word);
    Ok(words)
}

fn pieces(word: &[(usize, char)]) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = word;
    while let [(column, c), tail @ ..] = rest {
        rest = tail;
        match (c, tail.first()) {
            ('{', Some((_, '{'))) | ('}', Some((_, '}'))) => {
                text.push(*c);
                rest = &tail[1..];
            }
            ('{', _) => {
                let column = *column;
                let end = tail.iter().position(|(_, c)| *c == '}');
                let what = "brace";
                let end = end.ok_or(TemplateError::Unclosed { column, what })?;
                let name: String = tail[..end].iter().map(|(_, c)| c).collect();
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Hole(hole(column, name)?));
                rest = &tail[end + 1..];
            }
            _ => text.push(*c),
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn hole(column: usize, name: String) -> Result<Hole, TemplateError> {
    match name.as_str() {
        "instance" => Ok(Hole::Instance),
        "time_limit" => Ok(Hole::TimeLimit),
        "memory_limit" => Ok(Hole::MemoryLimit),
        "seed" => Ok(Hole::Seed),
        "threads" => Ok(Hole::Threads),
        _ => {
            let names: Vec<&'static str> = PLACEHOLDERS.iter().map(|p| p.0).collect();
            let nearest = nearest(&name, &names);
            Err(TemplateError::Unknown {
                column,
                name,
                nearest,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Vec<String> {
        let values = Values {
            instance: OsStr::new("/a b/i.wcnf"),
            time_limit: 7,
            memory_limit: 64,
            seed: 3,
            threads: 2,
        };
        let words = Template::parse(text).unwrap().fill(&values);
        words.into_iter().map(|w| w.into_string().unwrap()).collect()
    }

    #[test]
    fn words_are_split_like_a_shell_would() {
        assert_eq!(filled(" solver  {instance}\t"), ["solver", "/a b/i.wcnf"]);
        assert_eq!(
            filled(r#"'a b' "c \" d \n" e\ f '' x"y"z {instance}"#),
            ["a b", r#"c " d \n"#, "e f", "", "xyz", "/a b/i.wcnf"]
        );
        assert_eq!(
            filled("s -t={time_limit} -m {memory_limit} --seed={seed} -j{threads} in:{instance}!"),
            ["s", "-t=7", "-m", "64", "--seed=3", "-j2", "in:/a b/i.wcnf!"]
        );
        assert_eq!(
            filled("s {{instance}} '{instance}'"),
            ["s", "{instance}", "/a b/i.wcnf"]
        );
    }

    #[test]
    fn what_every_placeholder_name_says_is_read() {
        for (name, _) in PLACEHOLDERS {
            assert!(
                Template::parse(&format!("s {{instance}} {{{name}}}")).is_ok(),
                "{name}"
            );
        }
        assert!(
            Template::parse("s {instance} {time_limit}")
                .unwrap()
                .wants_time_limit()
        );
        assert!(!Template::parse("s {instance}").unwrap().wants_time_limit());
    }

    #[test]
    fn faults_have_their_column() {
        let fault = |text| Template::parse(text).unwrap_err().to_string();
        assert_eq!(fault("  "), "the command is empty");
        assert_eq!(fault("solver"), "the command does not say where {instance} goes");
        assert_eq!(fault("s 'a {instance}"), "column 3: the quote here is not closed");
        assert_eq!(fault("s \\"), "column 3: the backslash here is not closed");
        assert_eq!(fault("s {instance"), "column 3: the brace here is not closed");
        assert_eq!(
            fault("s 'ü' {instanse}"),
            "column 7: no placeholder is named {instanse}; did you mean {instance}? (Two braces stand for one.)"
        );
    }
}
