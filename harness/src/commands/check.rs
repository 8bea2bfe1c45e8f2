//! `relayout check`.

use super::{CommandError, Exit, output, read_instance};
use crate::cli::CheckArgs;
use relayout_layouts::{Checked, ConfigId, Problem, json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;

/// What a solution file may claim beside its assignment.
#[derive(Debug, Deserialize)]
struct Claims {
    status: Option<String>,
    cost: Option<u64>,
    operator_cost: Option<u64>,
    transpose_cost: Option<u64>,
    transposes: Option<u64>,
    lower_bound: Option<u64>,
    #[serde(default)]
    solutions: Vec<Ranked>,
}

/// One of k solutions.
#[derive(Debug, Deserialize)]
struct Ranked {
    cost: u64,
    assignment: Vec<u32>,
}

/// Recomputes the cost of a solution. Code 1 when it is invalid or a claim of the file is wrong.
pub fn check(args: &CheckArgs) -> Result<Exit, CommandError> {
    let problem = read_instance(&args.instance, args.ignore_usage_limit)?;
    let bytes = std::fs::read(&args.solution).map_err(|e| CommandError::in_file(&args.solution, e))?;
    let assignment = json::read_assignment(&bytes).map_err(|e| CommandError::in_file(&args.solution, e))?;
    let claims: Claims =
        serde_json::from_slice(&bytes).map_err(|e| CommandError::in_file(&args.solution, e))?;
    let mut faults = Vec::new();
    let checked = match &assignment {
        None => {
            let status = claims
                .status
                .as_ref()
                .map_or(String::new(), |s| format!("; its status is {s}"));
            faults.push(format!("the solution has no assignment{status}"));
            None
        }
        Some(assignment) => match relayout_layouts::check(&problem, assignment) {
            Ok(checked) => {
                faults.extend(wrong_claims(&claims, &checked));
                Some(checked)
            }
            Err(error) => {
                faults.push(format!("the assignment is invalid: {error}"));
                None
            }
        },
    };
    for (rank, solution) in claims.solutions.iter().enumerate() {
        let assignment: Vec<ConfigId> = solution.assignment.iter().copied().map(ConfigId).collect();
        match relayout_layouts::check(&problem, &assignment) {
            Ok(checked) if checked.cost == solution.cost => {}
            Ok(checked) => faults.push(format!(
                "solutions[{rank}]: the file claims cost {}, recomputed {}",
                solution.cost, checked.cost
            )),
            Err(error) => faults.push(format!("solutions[{rank}]: the assignment is invalid: {error}")),
        }
    }
    if args.json {
        output::print_json(&object(&problem, checked.as_ref(), &claims, &faults))?;
    } else {
        output::print(&text(&problem, checked.as_ref(), &faults))?;
    }
    Ok(if faults.is_empty() {
        Exit::Success
    } else {
        Exit::Failed
    })
}

fn wrong_claims(claims: &Claims, checked: &Checked) -> Vec<String> {
    let pairs = [
        ("cost", claims.cost, checked.cost),
        ("operator_cost", claims.operator_cost, checked.operator_cost),
        ("transpose_cost", claims.transpose_cost, checked.transpose_cost),
        ("transposes", claims.transposes, checked.conversions.len() as u64),
    ];
    let mut wrong: Vec<String> = pairs
        .into_iter()
        .filter_map(|(name, claimed, found)| Some((name, claimed?, found)))
        .filter(|(_, claimed, found)| claimed != found)
        .map(|(name, claimed, found)| format!("the file claims {name} {claimed}, recomputed {found}"))
        .collect();
    if let Some(bound) = claims.lower_bound.filter(|b| *b > checked.cost) {
        wrong.push(format!(
            "the file claims lower_bound {bound}, but the assignment costs {}",
            checked.cost
        ));
    }
    wrong
}

fn object(problem: &Problem, checked: Option<&Checked>, claims: &Claims, faults: &[String]) -> Value {
    let conversions = checked.map(|c| {
        let one = |c: &relayout_layouts::Conversion| {
            let tensor = problem.tensor(c.tensor);
            json!({
                "tensor": tensor.name(),
                "index": c.tensor,
                "from": tensor.layouts[c.from.index()],
                "to": tensor.layouts[c.to.index()],
                "cost": c.cost,
            })
        };
        c.conversions.iter().map(one).collect::<Vec<_>>()
    });
    json!({
        "valid": checked.is_some(),
        "agrees": faults.is_empty(),
        "cost": checked.map(|c| c.cost),
        "operator_cost": checked.map(|c| c.operator_cost),
        "transpose_cost": checked.map(|c| c.transpose_cost),
        "transposes": checked.map(|c| c.conversions.len()),
        "constant_conversions": checked.map(|c| c.constant_conversions),
        "unit": problem.unit(),
        "claimed_cost": claims.cost,
        "faults": faults,
        "conversions": conversions,
    })
}

fn text(problem: &Problem, checked: Option<&Checked>, faults: &[String]) -> String {
    let mut text = String::new();
    if let Some(c) = checked {
        let unit = problem.unit();
        let _ = writeln!(text, "cost            {} {unit}", c.cost);
        let _ = writeln!(text, "operator cost   {}", c.operator_cost);
        let _ = writeln!(text, "transpose cost  {}", c.transpose_cost);
        let _ = writeln!(
            text,
            "transposes      {} ({} of constants)",
            c.conversions.len(),
            c.constant_conversions
        );
    }
    for fault in faults {
        let _ = writeln!(text, "wrong: {fault}");
    }
    if faults.is_empty() {
        text.push_str("valid\n");
    }
    text
}
