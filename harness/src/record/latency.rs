//! Measured execution time of a cell.

use crate::stats;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What one sample is the time of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyMode {
    /// One call, waited for, per sample.
    #[default]
    Isolated,
    /// Calls queued back to back; a sample is the mean over the queue.
    Queued,
}

impl LatencyMode {
    /// The name in records and tables.
    pub fn name(self) -> &'static str {
        match self {
            LatencyMode::Isolated => "isolated",
            LatencyMode::Queued => "queued",
        }
    }
}

/// The samples of one process. Samples of one process are not independent of each other; processes are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessSamples {
    /// Calls made and thrown away before the first sample.
    pub warm_up: u32,
    /// Milliseconds, in order of time.
    pub samples_ms: Vec<f64>,
}

/// Statistics over all samples of a cell, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Median over all samples.
    pub median: f64,
    /// Fastest sample.
    pub min: f64,
    /// 90th percentile, linearly interpolated.
    pub p90: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for a single sample.
    pub stddev: f64,
    /// Number of samples.
    pub samples: u64,
    /// Samples beyond 1.5 interquartile ranges from the quartiles. They are counted and kept.
    pub outliers: u64,
}

/// Measured execution time of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// What one sample is the time of. Latencies of different modes are never compared.
    #[serde(default)]
    pub mode: LatencyMode,
    /// All samples by process.
    pub processes: Vec<ProcessSamples>,
    /// Statistics over them.
    pub summary: LatencySummary,
    /// The samples drift: the last third of a process's samples is, in the median, further from its first third than the
    /// spread explains.
    #[serde(default)]
    pub non_steady: bool,
    /// Relative difference of the same module measured against itself, where an A/A control ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
}

/// Why samples do not make a latency.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LatencyError {
    /// There are no samples at all.
    #[error("a latency needs at least one sample, found none in {processes} processes")]
    NoSamples {
        /// Number of processes given.
        processes: usize,
    },
    /// A sample is not a positive, finite number of milliseconds.
    #[error("sample {index} of process {process} is {value} ms; expected a positive, finite number")]
    BadSample {
        /// Process index.
        process: usize,
        /// Sample index in the process.
        index: usize,
        /// What was found.
        value: f64,
    },
}

impl Latency {
    /// Unit of every number here.
    pub const UNIT: &'static str = "ms";

    /// Summarises samples. Sorts once: O(n log n).
    ///
    /// # Errors
    /// [`LatencyError`] when there is no sample, or one that is not positive and finite.
    pub fn from_processes(
        mode: LatencyMode,
        processes: Vec<ProcessSamples>,
    ) -> Result<Latency, LatencyError> {
        for (process, samples) in processes.iter().enumerate() {
            for (index, &value) in samples.samples_ms.iter().enumerate() {
                if !value.is_finite() || value <= 0.0 {
                    return Err(LatencyError::BadSample {
                        process,
                        index,
                        value,
                    });
                }
            }
        }
        let mut sorted: Vec<f64> = processes
            .iter()
            .flat_map(|p| p.samples_ms.iter().copied())
            .collect();
        sorted.sort_by(f64::total_cmp);
        let none = LatencyError::NoSamples {
            processes: processes.len(),
        };
        let (Some(&min), Some(median), Some(p90), Some(mean)) = (
            sorted.first(),
            stats::quantile(&sorted, 0.5),
            stats::quantile(&sorted, 0.9),
            stats::mean(&sorted),
        ) else {
            return Err(none);
        };
        let summary = LatencySummary {
            median,
            min,
            p90,
            mean,
            stddev: stats::stddev(&sorted),
            samples: sorted.len() as u64,
            outliers: stats::tukey_outliers(&sorted) as u64,
        };
        let non_steady = processes.iter().any(|p| stats::drifts(&p.samples_ms));
        Ok(Latency {
            mode,
            processes,
            summary,
            non_steady,
            noise: None,
        })
    }

    /// One number per process, its median: the independent observations that a test between runs may use.
    pub fn process_medians(&self) -> Vec<f64> {
        self.processes
            .iter()
            .filter_map(|process| {
                let mut sorted = process.samples_ms.clone();
                sorted.sort_by(f64::total_cmp);
                stats::quantile(&sorted, 0.5)
            })
            .collect()
    }
}

/// What is known about clocks during a measurement; a fact that can't be read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockEvidence {
    /// Clock of the CPU before the samples, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz_before: Option<f64>,
    /// Clock of the CPU after the samples, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz_after: Option<f64>,
    /// Smallest step of the timer that was seen, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_tick_ns: Option<f64>,
    /// The clock fell below three quarters of its earlier value: a slow cell is then throttled, not regressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
}
