//! The MODEL argument: a zoo name or an `.onnx` path, with `key=value` overrides.

use crate::overrides::{OverrideValue, Overrides};
use std::path::PathBuf;

/// What the first word of a MODEL argument names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelSource {
    /// A zoo model.
    Zoo(String),
    /// An ONNX file.
    Onnx(PathBuf),
}

/// A parsed MODEL argument.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelSpec {
    /// Zoo name or file.
    pub source: ModelSource,
    /// Overrides.
    pub overrides: Overrides,
}

/// Why a MODEL argument can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing there.
    #[error("no model named: expected a zoo name or a path that ends in .onnx")]
    Empty,
    /// A word after the name that is no `key=value`.
    #[error("`{0}` after the model: expected key=value")]
    NotAnOverride(String),
    /// A key twice.
    #[error("override `{0}` is given twice")]
    Twice(String),
}

impl ModelSpec {
    /// Reads words such as `["llama", "layers=4", "hidden=1024"]`.
    ///
    /// # Errors
    /// When there is no name, or a further word is not one `key=value`.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, SpecError> {
        let mut words = words.into_iter();
        let name = words.next().filter(|w| !w.is_empty()).ok_or(SpecError::Empty)?;
        let source = if name.to_ascii_lowercase().ends_with(".onnx") {
            ModelSource::Onnx(PathBuf::from(name))
        } else {
            ModelSource::Zoo(name.to_owned())
        };
        let mut overrides = Overrides::new();
        for word in words {
            let (key, value) = word
                .split_once('=')
                .filter(|(key, value)| !key.is_empty() && !value.is_empty())
                .ok_or_else(|| SpecError::NotAnOverride(word.to_owned()))?;
            if overrides
                .insert(key.to_owned(), OverrideValue::parse(value))
                .is_some()
            {
                return Err(SpecError::Twice(key.to_owned()));
            }
        }
        Ok(ModelSpec { source, overrides })
    }
    /// Reads one line such as `llama layers=4 hidden=1024`, split at white space.
    ///
    /// # Errors
    /// As [`ModelSpec::from_words`].
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::from_words(text.split_whitespace())
    }
}

/// The candidate nearest in edit distance, or the empty string when there are none.
pub fn nearest<'a>(found: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    candidates
        .min_by_key(|c| strsim::damerau_levenshtein(found, c))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_overrides() {
        let spec = ModelSpec::parse("llama layers=4  hidden=1_024").expect("valid");
        assert_eq!(spec.source, ModelSource::Zoo("llama".to_owned()));
        assert_eq!(spec.overrides.get("layers"), Some(&OverrideValue::Int(4)));
        assert_eq!(spec.overrides.get("hidden"), Some(&OverrideValue::Int(1024)));
        let spec = ModelSpec::parse("dir/net.ONNX").expect("valid");
        assert_eq!(spec.source, ModelSource::Onnx(PathBuf::from("dir/net.ONNX")));
    }

    #[test]
    fn what_is_no_override_is_refused() {
        assert_eq!(ModelSpec::parse("  "), Err(SpecError::Empty));
        assert_eq!(
            ModelSpec::parse("bert layers"),
            Err(SpecError::NotAnOverride("layers".to_owned()))
        );
        assert_eq!(
            ModelSpec::parse("bert =2"),
            Err(SpecError::NotAnOverride("=2".to_owned()))
        );
        assert_eq!(
            ModelSpec::parse("bert seq=1 seq=2"),
            Err(SpecError::Twice("seq".to_owned()))
        );
    }
}
