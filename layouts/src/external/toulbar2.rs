//! What toulbar2 prints: `New solution:` with a cost and, with `-s`, a line with a value per variable; bounds between; in the
//! end `Optimum:` or `No solution`.

use super::answer::{Claim, Dialect, Said, Wrong};
use crate::id::ConfigId;
use crate::problem::Problem;

/// Reads the lines.
pub(super) struct Toulbar2 {
    operators: usize,
    variables: usize,
    /// The last line announced a solution: the next one is its values, if they are printed.
    announced: bool,
}

impl Toulbar2 {
    pub fn new(problem: &Problem) -> Self {
        let operators = problem.operators().len();
        Self {
            operators,
            variables: operators + crate::export::requested(problem).len(),
            announced: false,
        }
    }

    /// The operators' values of a line of values: by position (`3` or, where values have names, `v3`), or by name (`x0=3`).
    /// `None` when it is no such line.
    fn values(&self, line: &str) -> Result<Option<Vec<ConfigId>>, Wrong> {
        let value = |word: &str| word.strip_prefix('v').unwrap_or(word).parse().ok().map(ConfigId);
        let mut assignment = Vec::with_capacity(self.operators);
        let mut words = 0;
        for word in line.split_ascii_whitespace() {
            let text = match word.split_once('=') {
                // Operators come first and in order, in the file and so here.
                Some((name, _)) if words < self.operators && name != format!("x{words}") => return Ok(None),
                Some((_, text)) => text,
                None => word,
            };
            let Some(value) = value(text) else { return Ok(None) };
            if words < self.operators {
                assignment.push(value);
            }
            words += 1;
        }
        if words == self.variables {
            Ok(Some(assignment))
        } else if self.announced && words > 0 {
            Err(Wrong::line(format!(
                "one value for each of the {} variables",
                self.variables
            )))
        } else {
            Ok(None)
        }
    }
}

impl Dialect for Toulbar2 {
    fn line(&mut self, line: &str) -> Result<Said, Wrong> {
        let values = self.values(line)?;
        self.announced = false;
        if let Some(assignment) = values {
            return Ok(Said::Assignment(assignment));
        }
        let after = |prefix: &str| line.strip_prefix(prefix).map(str::trim_start);
        let number = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            // A cost with a fraction or a sign is not one of ours.
            match text[end..].chars().next() {
                None | Some(' ' | ',' | ']') => text[..end].parse().ok(),
                _ => None,
            }
        };
        let expected = || Wrong::line("a cost (an integer from 0)");
        if let Some(rest) = after("New solution:") {
            self.announced = true;
            return number(rest).map(Said::Cost).ok_or_else(expected);
        }
        if let Some(rest) = after("Optimum:") {
            let cost = number(rest).ok_or_else(expected)?;
            return Ok(Said::Claim(Claim::OptimalAt(cost)));
        }
        let bounds = [
            "Optimality gap:",
            "Initial lower and upper bounds:",
            "Dual bound:",
        ];
        if let Some(rest) = bounds.iter().find_map(|p| after(p)) {
            // A bound below zero says nothing, and is no fault.
            let bound = number(rest.trim_start_matches('['));
            return Ok(bound.map_or(Said::Nothing, Said::Bound));
        }
        if line.starts_with("No solution") {
            return Ok(Said::Claim(Claim::Infeasible));
        }
        if line.starts_with("Time limit expired") {
            return Ok(Said::Claim(Claim::Unknown));
        }
        Ok(Said::Nothing)
    }

    fn finish(&mut self) -> Result<Option<Vec<ConfigId>>, Wrong> {
        Ok(None)
    }

    fn variables(&self) -> usize {
        self.variables
    }

    fn how_to_print(&self) -> &'static str {
        " (toulbar2 prints it with `-s`)"
    }
}
