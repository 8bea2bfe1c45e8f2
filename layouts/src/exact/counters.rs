//! What an elimination counts.

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub dominated: u64,
    pub fixed: u64,
    pub eliminated: u64,
    pub entries: u64,
    pub largest_table: u64,
    /// Most neighbours of an eliminated variable.
    pub width: u64,
    pub split: u64,
    /// Variables that a message says to have nothing to do with the others.
    pub decomposed: u64,
    /// Operators that were not eliminated, being copies of others.
    pub repeated: u64,
}

impl Counters {
    /// Adds what another elimination counted.
    pub fn add(&mut self, other: &Self) {
        self.dominated += other.dominated;
        self.fixed += other.fixed;
        self.eliminated += other.eliminated;
        self.entries += other.entries;
        self.largest_table = self.largest_table.max(other.largest_table);
        self.width = self.width.max(other.width);
        self.split += other.split;
        self.decomposed += other.decomposed;
        self.repeated += other.repeated;
    }

    /// Adds what was counted from one moment to another, so many times.
    pub fn repeat(&mut self, from: &Self, to: &Self, times: u64) {
        self.dominated += times * (to.dominated - from.dominated);
        self.fixed += times * (to.fixed - from.fixed);
        self.eliminated += times * (to.eliminated - from.eliminated);
        self.entries += times * (to.entries - from.entries);
        self.decomposed += times * (to.decomposed - from.decomposed);
    }
}
