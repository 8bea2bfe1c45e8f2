//! Values of arguments. Errors are what clap shows after the argument's name.

use std::path::PathBuf;
use std::time::Duration;

/// A duration such as `600s`, `250ms`, `2min`.
pub fn duration(text: &str) -> Result<Duration, String> {
    crate::config::parse_duration(text)
        .ok_or_else(|| "expected a number with `ms`, `s`, `min` or `h`, such as `600s`".to_owned())
}

/// A size such as `8GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    crate::config::parse_bytes(text)
        .ok_or_else(|| "expected a number with `KiB`, `MiB` or `GiB`, such as `8GiB`".to_owned())
}

/// At least 1.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| *n >= 1)
        .ok_or_else(|| "expected an integer, at least 1".to_owned())
}

/// `LOW..HIGH`, both inclusive, or one number for both.
pub fn range(text: &str) -> Result<(u64, u64), String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if low <= high => Ok((low, high)),
        _ => Err("expected `LOW..HIGH` with LOW no more than HIGH, such as `2..3`".to_owned()),
    }
}

/// `DIM=VALUE`.
pub fn assignment(text: &str) -> Result<(String, i64), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)));
    match parsed {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value)),
        _ => Err("expected `dim=value` with an integer value, such as `n=8`".to_owned()),
    }
}

/// `NAME=FILE`.
pub fn input(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(file)))
        }
        _ => Err("expected `NAME=FILE.npy`".to_owned()),
    }
}

/// `I/N` with 1 <= I <= N.
pub fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    parsed
        .filter(|(i, n)| (1..=*n).contains(i))
        .ok_or_else(|| "expected `I/N` with I from 1 to N, such as `1/4`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_assignments() {
        assert_eq!(range("2..3"), Ok((2, 3)));
        assert_eq!(range("4"), Ok((4, 4)));
        assert!(range("3..2").is_err() && range("a").is_err() && range("1..").is_err());
        assert_eq!(assignment("n=8"), Ok(("n".to_owned(), 8)));
        assert_eq!(shard("2/4"), Ok((2, 4)));
        assert!(shard("0/4").is_err() && shard("5/4").is_err() && shard("4").is_err());
        assert!(assignment("=8").is_err() && assignment("n=x").is_err() && assignment("n").is_err());
    }
}
