//! Solves one instance: `cargo run --release -p relayout-layouts --example solve -- FILE STRATEGY [SECONDS [BYTES]]`.
//!
//! Prints incumbents and bounds as they come, then the answer. `exact-dominance-subsets` is `exact` without these switches.

use std::time::{Duration, Instant};

use relayout_layouts::exact::Exact;
use relayout_layouts::{Budget, Strategy, Trace, json, strategy_by_name};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, strategy, rest @ ..] = &arguments[..] else {
        return Err("usage: solve FILE STRATEGY [SECONDS [BYTES]]".into());
    };
    let problem = json::read_file(file)?;
    let mut budget = Budget::default();
    if let Some(seconds) = rest.first() {
        budget = budget.with_time_limit(Duration::try_from_secs_f64(seconds.parse()?)?);
    }
    if let Some(bytes) = rest.get(1) {
        budget = budget.with_memory_limit(bytes.parse()?);
    }
    let strategy: Box<dyn Strategy> = match strategy.split_once('-') {
        Some(("exact", off)) => Box::new(
            off.split('-')
                .try_fold(Exact::default(), |e, switch| e.without(switch))?,
        ),
        _ => strategy_by_name(strategy)?,
    };
    let mut trace = Trace::new(|p| {
        eprintln!(
            "{:9.4} s  incumbent {:?}  bound {:?}",
            p.seconds, p.incumbent, p.bound
        )
    });
    let start = Instant::now();
    let solutions = strategy.solve(&problem, &budget, &mut trace)?;
    let seconds = start.elapsed().as_secs_f64();
    print!("{} {} {}", problem.name(), strategy.name(), solutions.status);
    if let Some(best) = solutions.best() {
        print!(
            " cost {} (operators {}, {} conversions {})",
            best.cost, best.operator_cost, best.transposes, best.transpose_cost
        );
    }
    println!(
        " bound {} in {seconds:.4} s, {} bytes {:?}",
        solutions.lower_bound, solutions.peak_bytes, solutions.counters
    );
    Ok(())
}
