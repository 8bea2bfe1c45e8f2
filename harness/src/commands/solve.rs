//! `relayout solve`.

use super::{
    CommandError, Exit, exact_without, external_program, output, read_instance, strategy_with_solver,
};
use crate::cli::{ProgramFormat, SolveArgs};
use relayout_layouts::external::{self, Format};
use relayout_layouts::{
    Budget, Problem, Solution, Solutions, SolveError, Status, Strategy, Trace, TracePoint, check,
};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Solves an instance and prints the answer. Code 1 when there is no assignment, unless that is proven.
pub fn solve(args: &SolveArgs) -> Result<Exit, CommandError> {
    let strategy = strategy(args)?;
    let problem = read_instance(&args.instance, args.ignore_usage_limit)?;
    let mut points = Vec::new();
    let start = Instant::now();
    let (answer, interrupted) = interruptible(|cancel| {
        let budget = Budget {
            k: args.k,
            seed: args.seed,
            threads: args.threads,
            min_distance: args.min_distance,
            cancel,
            ..Budget::default()
        }
        .with_memory_limit(args.limits.memory_limit)
        .with_time_limit(args.limits.time_limit);
        let mut trace = Trace::new(|point| {
            if args.verbose {
                output::message(&progress(&point));
            }
            points.push(point);
        });
        strategy.solve(&problem, &budget, &mut trace)
    });
    let seconds = start.elapsed().as_secs_f64();
    let solutions = answer.map_err(|error| match error {
        SolveError::Unsupported { .. } => CommandError::input(error),
        error => CommandError::failed(error),
    })?;
    solutions
        .ranked
        .iter()
        .try_for_each(|solution| recheck(&problem, solution))?;
    if args.json {
        output::print_json(&object(args, &problem, &solutions, seconds, &points))?;
    } else {
        output::print(&text(args, &problem, &solutions, seconds))?;
    }
    Ok(if interrupted {
        Exit::Interrupted
    } else if solutions.best().is_some() || solutions.status == Status::Infeasible {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// The strategy with what belongs to it.
fn strategy(args: &SolveArgs) -> Result<Box<dyn Strategy>, CommandError> {
    let name = args.strategy.as_str();
    let misplaced = |option: &str, owner: &str| CommandError::Usage {
        message: format!("`{option}` is for the strategy `{owner}`, not `{name}`"),
        help: Some(format!("leave `{option}` out")),
    };
    let (is_external, is_exact) = (name == external::NAME, name == "exact");
    if !is_external {
        for (given, option) in [
            (args.command.is_some(), "--command"),
            (args.format.is_some(), "--format"),
        ] {
            if given {
                return Err(misplaced(option, external::NAME));
            }
        }
    }
    if !args.without.is_empty() && !is_exact {
        return Err(misplaced("--without", "exact"));
    }
    match (is_external, &args.command, args.format) {
        (true, Some(command), Some(format)) if args.limits.solver.is_none() => {
            let format = match format {
                ProgramFormat::Wcnf => Format::Wcnf,
                ProgramFormat::Cfn => Format::Cfn,
            };
            // Messages name the program, not the strategy.
            let program = command.split_whitespace().next().unwrap_or(external::NAME);
            external_program(program, command, format)
        }
        _ if is_exact && !args.without.is_empty() && args.limits.solver.is_none() => {
            exact_without(&args.without)
        }
        _ => strategy_with_solver(name, args.limits.solver.as_deref()),
    }
}

/// Runs `work` with a flag that the first interrupt sets, so that a strategy gives its best answer; the second interrupt, or one
/// after `work`, ends the program. Says whether the flag was set.
pub fn interruptible<T>(work: impl FnOnce(Arc<AtomicBool>) -> T) -> (T, bool) {
    let (cancel, armed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let code = i32::from(Exit::Interrupted as u8);
    // Handlers run in the order of registration. Where they can't be installed, an interrupt ends the program at once.
    if flag::register_conditional_shutdown(SIGINT, code, armed.clone()).is_ok() {
        let _ = flag::register(SIGINT, armed.clone());
        let _ = flag::register(SIGINT, cancel.clone());
    }
    let result = work(cancel.clone());
    armed.store(true, Ordering::Relaxed);
    (result, cancel.load(Ordering::Relaxed))
}

/// Compares what the strategy says about a solution with the checker's own computation.
///
/// # Errors
/// When they differ: a bug of the strategy.
pub fn recheck(problem: &Problem, solution: &Solution) -> Result<(), CommandError> {
    let claimed = solution.cost;
    let checked = check(problem, &solution.assignment)
        .map_err(|source| CommandError::failed(SolveError::Invalid { claimed, source }))?;
    let agrees = checked.cost == claimed
        && checked.operator_cost == solution.operator_cost
        && checked.transpose_cost == solution.transpose_cost
        && checked.conversions.len() as u64 == solution.transposes;
    if agrees {
        Ok(())
    } else {
        Err(CommandError::failed(SolveError::Mismatch {
            claimed,
            recomputed: checked.cost,
        }))
    }
}

fn progress(point: &TracePoint) -> String {
    let shown = |value: Option<u64>| value.map_or("-".to_owned(), |v| v.to_string());
    format!(
        "{:10.3} s  incumbent {}  bound {}",
        point.seconds,
        shown(point.incumbent),
        shown(point.bound)
    )
}

fn object(
    args: &SolveArgs,
    problem: &Problem,
    solutions: &Solutions,
    seconds: f64,
    trace: &[TracePoint],
) -> Value {
    let best = solutions.best();
    let mut object = json!({
        "strategy": args.strategy,
        "solver": args.limits.solver,
        "status": solutions.status.as_str(),
        "cost": best.map(|s| s.cost),
        "operator_cost": best.map(|s| s.operator_cost),
        "transpose_cost": best.map(|s| s.transpose_cost),
        "transposes": best.map(|s| s.transposes),
        "lower_bound": solutions.lower_bound,
        "seconds": seconds,
        "peak_bytes": solutions.peak_bytes,
        "unit": problem.unit(),
        "instance": problem.name(),
        "instance_hash": problem.hash(),
        "seed": args.seed,
        "proof": solutions.proof,
        "counters": solutions.counters,
        "trace": trace,
        "assignment": best.map(|s| &s.assignment),
    });
    if let Some(command) = &args.command {
        object["command"] = json!(command);
    }
    if !args.without.is_empty() {
        object["without"] = json!(args.without);
    }
    if args.k > 1 {
        object["solutions"] = json!(solutions.ranked);
    }
    object
}

fn text(args: &SolveArgs, problem: &Problem, solutions: &Solutions, seconds: f64) -> String {
    let unit = problem.unit();
    let solver = args
        .limits
        .solver
        .as_ref()
        .map(|s| format!("/{s}"))
        .unwrap_or_default();
    let mut rows = vec![
        vec!["instance".to_owned(), problem.name().to_owned()],
        vec![
            "size".to_owned(),
            format!(
                "{} operators, {} tensors",
                problem.operators().len(),
                problem.tensors().len()
            ),
        ],
        vec!["strategy".to_owned(), format!("{}{solver}", args.strategy)],
        vec!["status".to_owned(), solutions.status.to_string()],
    ];
    for (rank, solution) in solutions.ranked.iter().enumerate() {
        let name = if rank == 0 {
            "cost".to_owned()
        } else {
            format!("cost {}", rank + 1)
        };
        rows.push(vec![
            name,
            format!(
                "{} {unit} (operators {}, {} conversions {})",
                solution.cost, solution.operator_cost, solution.transposes, solution.transpose_cost
            ),
        ]);
    }
    if solutions.ranked.is_empty() {
        rows.push(vec!["cost".to_owned(), "none: there is no assignment".to_owned()]);
    }
    rows.push(vec![
        "lower bound".to_owned(),
        format!("{} {unit}", solutions.lower_bound),
    ]);
    if !solutions.proof.is_empty() {
        rows.push(vec!["proof".to_owned(), solutions.proof.clone()]);
    }
    rows.push(vec!["time".to_owned(), format!("{seconds:.4} s")]);
    rows.push(vec![
        "tables".to_owned(),
        output::human_bytes(solutions.peak_bytes),
    ]);
    for (name, value) in &solutions.counters {
        rows.push(vec![(*name).to_owned(), value.to_string()]);
    }
    output::columns(&rows)
}
