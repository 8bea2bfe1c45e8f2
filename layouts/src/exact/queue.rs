//! What the order of elimination compares, and the queue of small messages.

use super::network::Var;

/// 64 times the binary logarithm, rounded down, of small numbers: made when the crate is compiled, since a small problem is
/// solved in the time that it takes.
const LOGARITHMS: [u16; 256] = {
    let mut table = [0; 256];
    let mut n = 1;
    while n < table.len() {
        table[n] = logarithm(n) as u16;
        n += 1;
    }
    table
};

/// 64 times the binary logarithm, rounded down.
pub(super) fn log2_64(n: usize) -> u32 {
    LOGARITHMS.get(n).map_or_else(|| logarithm(n), |&l| u32::from(l))
}

/// The integer part, then six digits of the fraction, each by squaring.
const fn logarithm(n: usize) -> u32 {
    let n = if n == 0 { 1 } else { n as u128 };
    let mut result = n.ilog2();
    // In [1, 2), with 62 digits after the point.
    let mut x = n << 62 >> result;
    let mut digits = 0;
    while digits < 6 {
        x = (x * x) >> 62;
        let digit = (x >> 63) as u32;
        x >>= digit;
        result = result * 2 + digit;
        digits += 1;
    }
    result
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
