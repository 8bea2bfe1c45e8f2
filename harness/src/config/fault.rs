//! Faults of a configuration, collected so that all are shown at once.

use super::node::Place;
use std::fmt;

/// One fault: where, what, and what would have been right.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// The nearest valid name or the valid choices.
    pub help: Option<String>,
}

/// All faults of one configuration, with the file they are in.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigError {
    /// The file as the user named it.
    pub file: String,
    /// Its text, for the pointers.
    pub text: String,
    /// In file order.
    pub faults: Vec<Fault>,
}

impl std::error::Error for ConfigError {}

/// `file:line:column: message`, the line with a pointer under the place, and the help, for every fault.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            match &fault.place {
                Place::File { line, column } => {
                    writeln!(f, "{}:{line}:{column}: {}", self.file, fault.message)?;
                    let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
                    if let Some(source) = self.text.lines().nth(index) {
                        let margin = line.to_string().len();
                        writeln!(f, " {line} | {source}")?;
                        let indent = usize::try_from(column.saturating_sub(1))
                            .unwrap_or(0)
                            .min(source.chars().count());
                        writeln!(f, " {:margin$} | {:indent$}^", "", "")?;
                    }
                }
                Place::Argument(argument) => writeln!(f, "argument `{argument}`: {}", fault.message)?,
            }
            if let Some(help) = &fault.help {
                writeln!(f, "   help: {help}")?;
            }
        }
        let plural = if self.faults.len() == 1 { "" } else { "s" };
        write!(f, "{} error{plural} in {}", self.faults.len(), self.file)
    }
}

/// `did you mean `x`?` for the nearest candidate, or the list of all.
pub fn suggest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let nearest = candidates
        .iter()
        .map(|c| {
            (
                strsim::damerau_levenshtein(&found.to_lowercase(), &c.to_lowercase()),
                *c,
            )
        })
        .min()
        .filter(|(distance, c)| *distance <= 2.max(c.chars().count() / 3));
    match nearest {
        Some((_, name)) => Some(format!("did you mean `{name}`?")),
        None if candidates.is_empty() => None,
        None => Some(format!(
            "one of {}",
            candidates
                .iter()
                .map(|c| format!("`{c}`"))
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}
