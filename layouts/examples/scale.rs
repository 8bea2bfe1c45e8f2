//! Solves one generated instance with `exact` and prints what it took:
//! `cargo run --release -p relayout-layouts --example scale -- blocks LAYERS [PERTURB[/SHARE] [shuffle]]`, or
//! `… -- random OPERATORS WINDOW LAYOUTS SEED`. `-SWITCH` anywhere turns a reduction off, `SECONDSs` and `BYTESb` limit it.
//!
//! A layer of `blocks` has 20 operators, so that 50,000 layers are a million.

use std::time::{Duration, Instant};

use relayout_layouts::exact::Exact;
use relayout_layouts::generate::{Blocks, Random, blocks, random};
use relayout_layouts::{Budget, Strategy, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut exact = Exact::default();
    let mut budget = Budget::default();
    let mut seconds = None;
    let mut words = Vec::new();
    for word in std::env::args().skip(1) {
        if let Some(switch) = word.strip_prefix('-') {
            exact = exact.without(switch)?;
        } else if let Some(limit) = word.strip_suffix('s').and_then(|w| w.parse().ok()) {
            seconds = Some(Duration::try_from_secs_f64(limit)?);
        } else if let Some(bytes) = word.strip_suffix('b').and_then(|w| w.parse().ok()) {
            budget = budget.with_memory_limit(bytes);
        } else {
            words.push(word);
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let start = Instant::now();
    let problem = match words[..] {
        ["blocks", layers, ref rest @ ..] => {
            let perturb = rest.first().unwrap_or(&"0");
            let (perturb, share) = perturb.split_once('/').unwrap_or((perturb, "100"));
            blocks(&Blocks {
                layers: layers.parse()?,
                layer: Random {
                    operators: 19,
                    seed: 3,
                    ..Random::default()
                },
                perturb: perturb.parse()?,
                share: share.parse()?,
                shuffle: rest.get(1) == Some(&"shuffle"),
                ..Blocks::default()
            })?
        }
        ["random", operators, window, layouts, seed] => random(&Random {
            operators: operators.parse()?,
            window: window.parse()?,
            layouts: (2, layouts.parse()?),
            seed: seed.parse()?,
            ..Random::default()
        })?,
        _ => {
            return Err(
                "usage: scale blocks LAYERS [PERTURB[/SHARE] [shuffle]] | random OPERATORS WINDOW LAYOUTS SEED"
                    .into(),
            );
        }
    };
    let generated = start.elapsed().as_secs_f64();
    println!(
        "{}: {} operators, generated in {generated:.2} s, {} MiB so far",
        problem.name(),
        problem.operators().len(),
        resident_peak() >> 20
    );
    if let Some(limit) = seconds {
        budget = budget.with_time_limit(limit);
    }
    let (start, worked) = (Instant::now(), on_processor());
    let s = exact.solve(&problem, &budget, &mut Trace::silent())?;
    println!(
        "{} {:?} bound {} in {:.3} s ({:.3} s on the processor), tables {} MiB, process {} MiB at most",
        s.status,
        s.best().map(|b| b.cost),
        s.lower_bound,
        start.elapsed().as_secs_f64(),
        on_processor() - worked,
        s.peak_bytes >> 20,
        resident_peak() >> 20
    );
    for (name, count) in &s.counters {
        println!("  {name} {count}");
    }
    Ok(())
}

/// Seconds that this thread ran, which other work on the machine does not lengthen; 0 where the system does not tell.
fn on_processor() -> f64 {
    std::thread::yield_now(); // the system brings the count up to date when it schedules
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    nanoseconds.unwrap_or(0) as f64 / 1e9
}

/// The most memory the process had at once, in bytes; 0 where the system does not tell.
fn resident_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
