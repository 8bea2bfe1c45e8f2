//! What the order of elimination compares, and the queue of small messages.

use super::network::Var;

/// 64 times the binary logarithm, rounded down; of small numbers from a table.
pub(super) struct Logarithms(Vec<u32>);

impl Default for Logarithms {
    fn default() -> Self {
        Self((0..256).map(logarithm).collect())
    }
}

impl Logarithms {
    pub fn of(&self, n: usize) -> u32 {
        self.0.get(n).copied().unwrap_or_else(|| logarithm(n))
    }
}

fn logarithm(n: usize) -> u32 {
    ((n.max(1) as f64).log2() * 64.0) as u32
}

/// The message's size (64 log2), then the number of neighbours.
pub(super) fn key(size: u64, neighbours: usize) -> u64 {
    size << 20 | neighbours.min((1 << 20) - 1) as u64
}

/// A queue by size, half a bit each, for keys of messages up to 2^15 entries. Within a bucket the newest comes first.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    of: [Vec<(u64, Var)>; 32],
    /// Which are not empty.
    filled: u32,
}

impl Buckets {
    pub fn push(&mut self, key: u64, v: Var) {
        let bucket = (key >> 20) as usize / 32;
        self.of[bucket].push((key, v));
        self.filled |= 1 << bucket;
    }

    pub fn pop(&mut self) -> Option<(u64, Var)> {
        let bucket = self.of.get_mut(self.filled.trailing_zeros() as usize)?;
        let next = bucket.pop();
        if bucket.is_empty() {
            self.filled &= self.filled - 1;
        }
        next
    }
}
