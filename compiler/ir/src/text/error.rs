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

/// Insertions, deletions, substitutions and exchanges of neighbours that turn one into the other.
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before = vec![0; a.len() + 1];
    let mut last: Vec<usize> = (0..=a.len()).collect();
    for i in 0..b.len() {
        let mut row = vec![i + 1; a.len() + 1];
        for j in 0..a.len() {
            let substituted = last[j] + usize::from(a[j] != b[i]);
            row[j + 1] = substituted.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[j] == b[i - 1] && a[j - 1] == b[i] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[a.len()]
}
