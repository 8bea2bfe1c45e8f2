//! Parse errors.

/// Where and why text is not a module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}{}", hint(.nearest))]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What would have been right here.
    pub expected: String,
    /// What stands here.
    pub found: String,
    /// The valid name closest to the one found.
    pub nearest: Option<String>,
}

fn hint(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or(String::new(), |n| format!("; did you mean `{n}`?"))
}

/// The candidate closest to `name` by edit distance, if it is close enough to be a likely slip: within a third of the length,
/// or 2. Ties go to the first. Time is the product of the lengths, for each candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let name: Vec<char> = name.chars().take(64).collect();
    let allowed = (name.len() / 3).max(2);
    candidates
        .into_iter()
        .filter(|c| c.len() <= 256)
        .map(|c| (distance(&name, c), c))
        .filter(|(d, _)| *d <= allowed && *d < name.len().max(1))
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c.to_owned())
}

/// Levenshtein distance.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, ca) in a.iter().enumerate() {
            let substituted = diagonal + usize::from(*ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[a.len()]
}
