//! The nearest valid name, for error messages.

/// The name with the least edit distance to `name` (ties: the first); empty when there are none.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> &'a str {
    names
        .iter()
        .copied()
        .min_by_key(|n| distance(name, n))
        .unwrap_or("")
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}
