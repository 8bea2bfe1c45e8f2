//! Solves one instance and prints one JSON object: what scripts read.
//!
//! `cargo run --release -p relayout-layouts --example solve_json -- FILE STRATEGY [--seconds S] [--bytes B] [--solver NAME]`
//!
//! `seconds` is the time of [`relayout_layouts::Strategy::solve`] alone, as that of other solvers is without reading, and
//! `cpu_seconds` what it had of the processor, which a busy machine does not lengthen. `rss_bytes` is the most that the whole
//! process had resident (Linux), `peak_bytes` what the strategy's tables took.

use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use relayout_layouts::{Budget, Trace, json, strategy_with_solver};
use serde_json::json;

const USAGE: &str = "usage: solve_json FILE STRATEGY [--seconds S] [--bytes B] [--solver NAME]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (file, name) = (arguments.next().ok_or(USAGE)?, arguments.next().ok_or(USAGE)?);
    let (mut seconds, mut bytes, mut solver) = (None, None, None);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match option.as_str() {
            "--seconds" => seconds = Some(Duration::try_from_secs_f64(value.parse()?)?),
            "--bytes" => bytes = Some(value.parse()?),
            "--solver" => solver = Some(value),
            _ => return Err(USAGE.into()),
        }
    }
    let problem = json::read_file(&file)?;
    let strategy = strategy_with_solver(&name, solver.as_deref())?;
    let before = peak_resident_bytes();
    let mut budget = Budget::default();
    if let Some(bytes) = bytes {
        budget = budget.with_memory_limit(bytes);
    }
    if let Some(seconds) = seconds {
        budget = budget.with_time_limit(seconds);
    }
    let (start, processor) = (Instant::now(), ProcessTime::now());
    let solutions = strategy.solve(&problem, &budget, &mut Trace::silent())?;
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), processor.elapsed().as_secs_f64());
    let best = solutions.best();
    let object = json!({
        "instance": problem.name(),
        "operators": problem.operators().len(),
        "strategy": name,
        "status": solutions.status.as_str(),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "cost": best.map(|s| s.cost),
        "lower_bound": solutions.lower_bound,
        "peak_bytes": solutions.peak_bytes,
        "rss_bytes": peak_resident_bytes(),
        "rss_bytes_before": before,
        "proof": solutions.proof,
        "counters": solutions.counters,
        "assignment": best.map(|s| &s.assignment),
    });
    println!("{object}");
    Ok(())
}

/// The most the process had resident so far; `None` where the system does not tell.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
