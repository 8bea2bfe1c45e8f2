//! Material for a comparison of answers: `cargo run --release -p relayout-layouts --example differential -- FIRST COUNT DIR`.
//!
//! Writes the medium random instances of seeds FIRST, FIRST + 1, … to DIR as `.json`, `.cfn` and `.wcnf`, and prints a JSON line each
//! with what `exact` answers. They have 20 to 60 operators, 2 to 4 layouts and, in two of three, every oddity of the generator.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use relayout_layouts::generate::{Random, random};
use relayout_layouts::{Budget, Problem, Trace, export, json, strategy_by_name};
use serde_json::json;

/// The instance of a seed: every size, width and number of layouts comes up, in every combination.
fn medium(seed: u64) -> Result<Problem, relayout_layouts::generate::GenerateError> {
    random(&Random {
        operators: 20 + (seed % 41) as usize,
        window: 2 + (seed / 3 % 4) as usize,
        arity: 2 + (seed / 5 % 2) as usize,
        layouts: (1 + (seed / 7 % 2) as usize, 2 + (seed / 11 % 3) as usize),
        // Now and then so few configurations that nothing may be left.
        feasible: if seed.is_multiple_of(13) {
            (2, 20)
        } else {
            (25, 90)
        },
        odd: !seed.is_multiple_of(3),
        seed,
        ..Random::default()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, count, folder] = &arguments[..] else {
        return Err("usage: differential FIRST COUNT DIR".into());
    };
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let exact = strategy_by_name("exact")?;
    for seed in first..first + count {
        let problem = medium(seed)?;
        let path = |ending: &str| Path::new(folder).join(format!("medium-{seed}.{ending}"));
        json::write_file(&problem, path("json"))?;
        let mut out = BufWriter::new(std::fs::File::create(path("cfn"))?);
        export::cfn(&problem, &mut out)?;
        out.flush()?;
        let mut out = BufWriter::new(std::fs::File::create(path("wcnf"))?);
        export::wcnf(&problem, &mut out)?;
        out.flush()?;
        let budget = Budget::default().with_time_limit(Duration::from_secs(60));
        let solutions = exact.solve(&problem, &budget, &mut Trace::silent())?;
        let best = solutions.best();
        let line = json!({
            "name": format!("medium-{seed}"),
            "status": solutions.status.as_str(),
            "cost": best.map(|s| s.cost),
            "assignment": best.map(|s| &s.assignment),
        });
        println!("{line}");
    }
    Ok(())
}
