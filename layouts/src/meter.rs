//! Counts the bytes of a strategy's tables against its limit, before they are allocated.

/// The limit of a budget that names none, 8 GiB: a table that no machine could hold must not be asked of the allocator.
pub(crate) const DEFAULT_LIMIT: u64 = 8 << 30;

/// Bytes in use, the most there were, and the limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    limit: u64,
    used: u64,
    peak: u64,
}

/// The tables would not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// Bytes that would have been in use.
    pub wanted: u64,
}

impl Meter {
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            limit: limit.unwrap_or(DEFAULT_LIMIT),
            used: 0,
            peak: 0,
        }
    }

    /// Announces an allocation.
    pub fn take(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let wanted = self.used.saturating_add(bytes);
        if wanted > self.limit {
            return Err(Exceeded { wanted });
        }
        self.used = wanted;
        self.peak = self.peak.max(wanted);
        Ok(())
    }

    /// Whether an allocation would fit.
    pub fn check(&self, bytes: u64) -> Result<(), Exceeded> {
        let wanted = self.used.saturating_add(bytes);
        if wanted > self.limit {
            return Err(Exceeded { wanted });
        }
        Ok(())
    }

    /// Announces that an allocation was returned.
    pub fn give(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    pub fn peak(&self) -> u64 {
        self.peak
    }
}
