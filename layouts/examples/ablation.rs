//! What each switch of `exact` buys: `cargo run --release -p relayout-layouts --example ablation -- INSTANCE…`.
//!
//! Prints two Markdown tables over the given files and three generated instances, with everything on and with one switch
//! off: entries of all messages (which do not depend on the machine), and milliseconds on the processor (the least of three
//! runs, if they are short; those of this run compare with each other). A dash is a run that met the limit of 30 seconds or 4 GiB.

use std::time::Duration;

use relayout_layouts::exact::{Exact, SWITCHES};
use relayout_layouts::generate::{Blocks, Random, blocks, random};
use relayout_layouts::{Budget, Problem, Status, Strategy, Trace, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut problems = Vec::new();
    for file in std::env::args().skip(1) {
        problems.push(json::read_file(&file)?);
    }
    for window in [4, 6] {
        problems.push(random(&Random {
            operators: 10_000,
            window,
            layouts: (2, 4),
            seed: 1,
            ..Random::default()
        })?);
    }
    problems.push(blocks(&Blocks {
        layers: 2_500,
        perturb: 1,
        shuffle: true,
        ..Blocks::default()
    })?);
    let mut variants = vec![("all on".to_string(), Exact::default())];
    for (name, _) in SWITCHES {
        variants.push((format!("−{name}"), Exact::default().without(name)?));
    }
    let names: Vec<&str> = variants.iter().map(|v| v.0.as_str()).collect();
    let (mut entries, mut times) = (Vec::new(), Vec::new());
    for problem in &problems {
        eprintln!("{}", problem.name());
        let cells: Vec<(String, String)> = variants.iter().map(|v| measure(problem, &v.1)).collect();
        entries.push((
            problem.name(),
            cells.iter().map(|c| c.0.clone()).collect::<Vec<_>>(),
        ));
        times.push((problem.name(), cells.into_iter().map(|c| c.1).collect::<Vec<_>>()));
    }
    for (title, rows) in [("entries", entries), ("ms", times)] {
        println!("\n| {title} | {} |", names.join(" | "));
        println!("|---|{}", "--:|".repeat(names.len()));
        for (name, cells) in rows {
            println!("| {name} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

/// Entries and milliseconds.
fn measure(problem: &Problem, exact: &Exact) -> (String, String) {
    let mut entries = None;
    let mut least = f64::MAX;
    for _ in 0..3 {
        let budget = Budget::default()
            .with_time_limit(Duration::from_secs(30))
            .with_memory_limit(4 << 30);
        let start = on_processor();
        let Ok(s) = exact.solve(problem, &budget, &mut Trace::silent()) else {
            return ("bug".into(), "bug".into());
        };
        least = least.min(on_processor() - start);
        if s.status != Status::Optimal {
            return ("–".into(), "–".into());
        }
        entries = s.counters.get("table_entries").copied();
        if least > 0.5 {
            break;
        }
    }
    let entries = entries.map_or_else(|| "by search".into(), grouped);
    (entries, format!("{:.1}", least * 1e3))
}

/// With a comma between groups of three digits.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// Seconds that this thread ran, which other work on the machine does not lengthen; 0 where the system does not tell.
fn on_processor() -> f64 {
    std::thread::yield_now(); // the system brings the count up to date when it schedules
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    nanoseconds.unwrap_or(0) as f64 / 1e9
}
