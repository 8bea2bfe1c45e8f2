//! The output format of the MaxSAT Evaluation: `o` lines (a cost), one `s` line (the result), `v` lines (a model, either a
//! list of literals over several lines or one string of zeros and ones).

use super::answer::{Claim, Dialect, Said, Wrong};
use crate::encoding::Encoding;
use crate::id::ConfigId;
use crate::problem::Problem;

/// Reads the lines.
pub(super) struct Evaluation {
    /// Per operator, its variables: the first one (from 0) and how many.
    groups: Vec<(u32, u32)>,
    variables: usize,
    model: Option<Vec<bool>>,
    /// The model is complete: its literals' closing 0 was read, or a cost came after it.
    closed: bool,
}

impl Evaluation {
    pub fn new(problem: &Problem) -> Self {
        let encoding = Encoding::new(problem);
        Self {
            variables: encoding.meanings.len(),
            groups: encoding.groups,
            model: None,
            closed: false,
        }
    }

    fn values(&mut self, text: &str) -> Result<(), Wrong> {
        let mut words = text.split_ascii_whitespace().peekable();
        let n = self.variables;
        if let Some(bits) = words.next_if(|w| self.is_bits(w)) {
            if bits.len() != n || words.next().is_some() {
                return Err(Wrong::line(format!("one value for each of the {n} variables")));
            }
            self.model = Some(bits.bytes().map(|b| b == b'1').collect());
            self.closed = true;
            return Ok(());
        }
        if std::mem::take(&mut self.closed) {
            self.model = None;
        }
        let model = self.model.get_or_insert_with(|| vec![false; n]);
        for word in words {
            let literal: i64 = word
                .parse()
                .map_err(|_| Wrong::line("literals or a string of zeros and ones"))?;
            if literal == 0 {
                self.closed = true;
                continue;
            }
            let slot = usize::try_from(literal.unsigned_abs() - 1)
                .ok()
                .and_then(|v| model.get_mut(v))
                .ok_or_else(|| Wrong::line(format!("literals of the variables 1 to {n}")))?;
            *slot = literal > 0;
        }
        Ok(())
    }

    /// Whether a word is of the string form: zeros and ones, and either of the right length or no literal (which `00` and a
    /// number above the variables are not). Where a word could be both, there is one variable, and both mean the same.
    fn is_bits(&self, word: &str) -> bool {
        let zeros_and_ones = !word.is_empty() && word.bytes().all(|b| matches!(b, b'0' | b'1'));
        let literal = || {
            word == "0" || !word.starts_with('0') && word.parse().is_ok_and(|l: usize| l <= self.variables)
        };
        zeros_and_ones && (word.len() == self.variables || !literal())
    }
}

impl Dialect for Evaluation {
    fn line(&mut self, line: &str) -> Result<Said, Wrong> {
        let (kind, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        match kind {
            "o" => {
                // Values printed before belong to another cost.
                self.closed = true;
                let cost = rest.trim().parse();
                cost.map(Said::Cost)
                    .map_err(|_| Wrong::line("a cost (an integer from 0) after `o`"))
            }
            "s" => match rest.trim() {
                "OPTIMUM FOUND" => Ok(Said::Claim(Claim::Optimal)),
                "SATISFIABLE" => Ok(Said::Claim(Claim::Feasible)),
                "UNSATISFIABLE" => Ok(Said::Claim(Claim::Infeasible)),
                "UNKNOWN" => Ok(Said::Claim(Claim::Unknown)),
                _ => Err(Wrong::line(
                    "`s` with OPTIMUM FOUND, SATISFIABLE, UNSATISFIABLE or UNKNOWN",
                )),
            },
            "v" => self.values(rest).map(|()| Said::Nothing),
            _ => Ok(Said::Nothing),
        }
    }

    fn finish(&mut self) -> Result<Option<Vec<ConfigId>>, Wrong> {
        let Some(model) = self.model.take() else {
            return Ok(None);
        };
        let mut assignment = Vec::with_capacity(self.groups.len());
        for (o, &(first, n)) in self.groups.iter().enumerate() {
            let of_operator = &model[first as usize..(first + n) as usize];
            let mut taken = (0..n).filter(|&c| of_operator[c as usize]);
            match (taken.next(), taken.next()) {
                (Some(c), None) => assignment.push(ConfigId(c)),
                (None, _) => return Err(Wrong::Model(format!("operator {o} takes no configuration"))),
                (Some(a), Some(b)) => {
                    let both = format!("operator {o} takes configurations {a} and {b}");
                    return Err(Wrong::Model(both));
                }
            }
        }
        Ok(Some(assignment))
    }

    fn variables(&self) -> usize {
        self.variables
    }

    fn how_to_print(&self) -> &'static str {
        " (`v` lines)"
    }
}
