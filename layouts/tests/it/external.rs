//! `external`: what programs print is read, confirmed and mapped to a status; what they do otherwise is contained. The programs are
//! shell scripts that print lines computed here; real solvers follow where they are installed.

mod answers;
mod budget;
mod differential;
mod faults;

use std::path::{Path, PathBuf};

use relayout_layouts::encoding::{Encoding, Meaning};
use relayout_layouts::external::{External, Format};
use relayout_layouts::{
    Budget, ConfigId, Problem, Solution, Solutions, SolveError, Strategy, Trace, strategy_by_name,
};

use crate::support::{brute_force, small_problems};

/// Small problems that have an assignment, with a cheapest one.
fn solved_problems(count: usize) -> impl Iterator<Item = (Problem, Solution)> {
    small_problems(2 * count)
        .filter_map(|(_, problem)| {
            let answer = strategy_by_name("exact")
                .unwrap()
                .solve(&problem, &Budget::default(), &mut Trace::silent())
                .unwrap();
            let best = answer.ranked.into_iter().next()?;
            assert_eq!(Some(best.cost), brute_force(&problem));
            Some((problem, best))
        })
        .take(count)
}

/// The model of the WCNF that stands for an assignment: requested layouts are true exactly where somebody asks.
fn model(problem: &Problem, assignment: &[ConfigId]) -> Vec<bool> {
    let asked = |t, l| {
        let reads = |(op, &c): (relayout_layouts::problem::Operator<'_>, &ConfigId)| {
            op.inputs
                .iter()
                .zip(op.config(c).inputs)
                .any(|(&u, &m)| (u, m) == (t, l))
        };
        problem.operators().zip(assignment).any(reads)
    };
    let holds = |m: &Meaning| match *m {
        Meaning::Takes(o, c) => assignment[o.index()] == c,
        Meaning::Requested(t, l) => asked(t, l),
    };
    Encoding::new(problem).meanings.iter().map(holds).collect()
}

fn literals(model: &[bool]) -> String {
    let literal = |(v, &value): (usize, &bool)| {
        if value {
            (v + 1).to_string()
        } else {
            format!("-{}", v + 1)
        }
    };
    model
        .iter()
        .enumerate()
        .map(literal)
        .collect::<Vec<_>>()
        .join(" ")
}

fn bits(model: &[bool]) -> String {
    model.iter().map(|&v| if v { '1' } else { '0' }).collect()
}

/// The values of the `.cfn`'s variables: operators, then requested layouts, as in the WCNF.
fn values(problem: &Problem, assignment: &[ConfigId]) -> Vec<usize> {
    let model = model(problem, assignment);
    let configs: usize = problem.operators().map(|op| op.num_configs()).sum();
    let hubs = model[configs..].iter().map(|&v| usize::from(v));
    assignment.iter().map(|c| c.index()).chain(hubs).collect()
}

fn joined(values: &[usize]) -> String {
    values.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

/// A program: a shell script in a folder that lives as long as this.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    /// `$1` is the instance, `$2` the time limit where there is one; `{folder}` stands for the script's folder.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = script.replace("{folder}", folder.path().to_str().unwrap());
        std::fs::write(folder.path().join("solver"), script).unwrap();
        Self { folder }
    }

    /// Prints `text` and ends.
    fn printing(text: &str) -> Self {
        let fake = Self::new("cat {folder}/out");
        std::fs::write(fake.path("out"), text).unwrap();
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn strategy(&self, format: Format) -> External {
        let command = format!("sh '{}' {{instance}}", self.path("solver").display());
        External::new("fake", &command, format).unwrap()
    }

    fn solve(&self, format: Format, problem: &Problem, budget: &Budget) -> Result<Solutions, SolveError> {
        self.strategy(format).solve(problem, budget, &mut Trace::silent())
    }

    /// What it wrote to a file, once it is there.
    fn wrote(&self, name: &str) -> String {
        wait_for(&self.path(name))
    }
}

fn wait_for(file: &Path) -> String {
    for _ in 0..500 {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
    panic!("{} was not written", file.display());
}

fn message(result: Result<Solutions, SolveError>) -> String {
    match result {
        Ok(solutions) => panic!("an answer: {solutions:?}"),
        Err(error) => error.to_string(),
    }
}
