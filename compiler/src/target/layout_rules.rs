//! What a target knows about layouts without a cost model: data for the rule-based strategies, from the target description.

use relayout_ir::op;
use relayout_layouts::hints::{Condition, Rule};
use serde::Deserialize;

/// The `layout_rules` of a target description. A target without any has none to offer: its instances say which dimensions
/// belong together, but not what is good.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutRules {
    /// What operators are known to want. For each operator the first that some of its configurations match counts, and all of
    /// these are preferred alike.
    #[serde(default)]
    pub preferred: Vec<Preference>,
    /// Domain rules, handed on with every instance.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// Which configurations some kinds of operators are known to want: those of which everything said here is true.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preference {
    /// Names of operators.
    pub kinds: Vec<String>,
    /// Whether nothing runs, because the result is the operand's bytes.
    pub alias: Option<bool>,
    /// What runs, like `library:gemm.matmul`.
    pub implementation: Option<String>,
    /// What the layouts look like.
    #[serde(default)]
    pub when: Vec<Condition>,
}

impl LayoutRules {
    /// Checks that everything named exists and no rule is empty; what is wrong, with its place.
    ///
    /// # Errors
    /// The first fault.
    pub fn validate(&self) -> Result<(), String> {
        for (i, p) in self.preferred.iter().enumerate() {
            let place = format!("preferred[{i}]");
            kinds(&place, &p.kinds)?;
            if p.kinds.is_empty() {
                return Err(format!("{place}.kinds: expected at least one operator"));
            }
            if p.alias.is_none() && p.implementation.is_none() && p.when.is_empty() {
                return Err(format!(
                    "{place}: expected at least one of `alias`, `implementation`, `when`"
                ));
            }
            if let Some(k) = p.when.iter().position(Condition::asks_nothing) {
                return Err(format!(
                    "{place}.when[{k}]: expected at least one of `dim`, `along`, `form`"
                ));
            }
        }
        for (i, rule) in self.rules.iter().enumerate() {
            rule.validate(&format!("rules[{i}]")).map_err(|e| e.to_string())?;
            kinds(&format!("rules[{i}]"), &rule.kinds)?;
        }
        Ok(())
    }
}

fn kinds(place: &str, kinds: &[String]) -> Result<(), String> {
    match kinds.iter().position(|k| op::by_name(k).is_none()) {
        Some(k) => Err(format!("{place}.kinds[{k}]: no operator is named {:?}", kinds[k])),
        None => Ok(()),
    }
}
