//! `--filter`: which cells of a plan to run. `field=glob` terms joined by commas must all hold; `field!=glob` negates.

use crate::config::suggest;
use crate::record::CellKey;

/// Fields that a filter may name.
pub const FIELDS: [&str; 8] = [
    "model",
    "family",
    "target",
    "cost_model",
    "strategy",
    "batch",
    "threads",
    "dims",
];

/// A parsed filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter(Vec<(String, bool, String)>);

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A term without `=`.
    #[error("filter term `{0}`: expected FIELD=GLOB or FIELD!=GLOB")]
    Term(String),
    /// An unknown field.
    #[error("filter field `{found}`{}", .help.as_ref().map(|h| format!("; {h}")).unwrap_or_default())]
    Field {
        /// The field given.
        found: String,
        /// The nearest one, or all.
        help: Option<String>,
    },
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let term = |term: &str| {
            let (field, glob) = term
                .split_once('=')
                .ok_or_else(|| FilterError::Term(term.to_owned()))?;
            let (field, positive) = field.strip_suffix('!').map_or((field, true), |f| (f, false));
            let field = field.trim();
            if !FIELDS.contains(&field) {
                return Err(FilterError::Field {
                    found: field.to_owned(),
                    help: suggest(field, FIELDS),
                });
            }
            Ok((field.to_owned(), positive, glob.trim().to_owned()))
        };
        text.split(',').map(term).collect::<Result<_, _>>().map(Filter)
    }
    /// Whether a cell passes.
    pub fn accepts(&self, key: &CellKey) -> bool {
        self.0.iter().all(|(field, positive, pattern)| {
            let value = match field.as_str() {
                "model" => key.model_label(),
                "family" => key.family.clone(),
                "target" => key.target.clone(),
                "cost_model" => key.cost_model.clone(),
                "strategy" => key.strategy.clone(),
                "batch" => key.batch.map(|b| b.to_string()).unwrap_or_default(),
                "threads" => key.threads.to_string(),
                _ => key
                    .dims
                    .iter()
                    .map(|(k, v)| format!("{k}={v}"))
                    .collect::<Vec<_>>()
                    .join(" "),
            };
            // A model's name alone matches all its sizes.
            let hit = glob(pattern, &value) || (field == "model" && glob(pattern, &key.model));
            hit == *positive
        })
    }
}

/// `*` stands for any text. O(pattern × text).
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, expected) in [
            ("bert", "bert", true),
            ("bert", "bert layers=2", false),
            ("bert*", "bert layers=2", true),
            ("*layers=*", "bert layers=2", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn unknown_fields_name_the_nearest() {
        let error = Filter::parse("stratgy=local").expect_err("a typo");
        assert_eq!(
            error.to_string(),
            "filter field `stratgy`; did you mean `strategy`?"
        );
    }
}
