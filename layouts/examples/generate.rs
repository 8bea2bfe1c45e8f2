//! Writes a generated instance: `cargo run --release -p relayout-layouts --example generate -- KIND [KEY=VALUE …] OUT`.
//!
//! - `random operators window arity layouts-from layouts-to feasible-from feasible-to odd seed`
//! - `blocks layers operators skip perturb share shuffle window layouts-from layouts-to seed`
//! - `sat variables clauses seed` and `oct vertices percent seed`, the hardness reductions
//!
//! OUT is compressed when its name ends in `.zst`.

use std::collections::BTreeMap;

use relayout_layouts::generate::{Blocks, Random, blocks, oct, random, random_3sat, random_graph, sat};
use relayout_layouts::{Problem, json};

type Failure = Box<dyn std::error::Error>;

/// The settings given, each to be asked for once.
struct Settings(BTreeMap<String, u64>);

impl Settings {
    fn take(&mut self, key: &str, default: u64) -> u64 {
        self.0.remove(key).unwrap_or(default)
    }

    fn random(&mut self, operators: u64) -> Random {
        let d = Random::default();
        Random {
            operators: self.take("operators", operators) as usize,
            window: self.take("window", d.window as u64) as usize,
            arity: self.take("arity", d.arity as u64) as usize,
            layouts: (
                self.take("layouts-from", d.layouts.0 as u64) as usize,
                self.take("layouts-to", d.layouts.1 as u64) as usize,
            ),
            feasible: (
                self.take("feasible-from", d.feasible.0),
                self.take("feasible-to", d.feasible.1),
            ),
            odd: self.take("odd", u64::from(d.odd)) == 1,
            seed: self.take("seed", d.seed),
            ..d
        }
    }
}

fn generated(kind: &str, s: &mut Settings) -> Result<Problem, Failure> {
    Ok(match kind {
        "random" => random(&s.random(100))?,
        "blocks" => blocks(&Blocks {
            layers: s.take("layers", 10) as usize,
            skip: s.take("skip", 1) == 1,
            perturb: s.take("perturb", 0),
            share: s.take("share", 100),
            shuffle: s.take("shuffle", 0) == 1,
            layer: s.random(20),
        })?,
        "sat" => {
            let (variables, clauses) = (s.take("variables", 30) as usize, s.take("clauses", 120) as usize);
            let seed = s.take("seed", 0);
            sat(
                &format!("sat-{variables}-{clauses}-{seed}"),
                variables,
                &random_3sat(variables, clauses, seed)?,
            )?
        }
        "oct" => {
            let (vertices, percent) = (s.take("vertices", 30) as usize, s.take("percent", 15));
            let seed = s.take("seed", 0);
            oct(
                &format!("oct-{vertices}-{percent}-{seed}"),
                vertices,
                &random_graph(vertices, percent, seed),
            )?
        }
        other => return Err(format!("no generator is named {other:?}: random, blocks, sat, oct").into()),
    })
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, settings @ .., out] = &arguments[..] else {
        return Err("usage: generate KIND [KEY=VALUE …] OUT".into());
    };
    let mut given = Settings(BTreeMap::new());
    for setting in settings {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("{setting:?} is not KEY=VALUE"))?;
        given.0.insert(key.into(), value.parse()?);
    }
    let problem = generated(kind, &mut given)?;
    if let Some(key) = given.0.keys().next() {
        return Err(format!("{kind} has no setting {key:?}").into());
    }
    json::write_file(&problem, out)?;
    println!(
        "{} {} operators {}",
        problem.name(),
        problem.operators().len(),
        problem.hash()
    );
    Ok(())
}
