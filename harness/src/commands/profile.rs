//! `relayout profile`: the measured kernels of a run, layout against layout.

use super::{CommandError, Exit, RunFolder, output};
use crate::analysis::{kernel_classes, kernel_operations};
use crate::cli::ProfileArgs;
use crate::profiler::{Table, read_table};
use relayout_compiler::cost::{Coefficients, FitSample, fit};
use serde_json::json;

/// Prints, per operator and variant, how often it is the fastest and where it leads most; with `--operations` every operation.
pub fn profile(args: &ProfileArgs) -> Result<Exit, CommandError> {
    let file = match args.run.is_dir() {
        true => args.run.join("profile.json"),
        false => args.run.clone(),
    };
    if !file.is_file() {
        let message = format!("{}: no profile", file.display());
        let help = Some(
            "name the folder of a run whose `cost_models` have `profiled`, or its profile.json".to_owned(),
        );
        return Err(CommandError::Usage { message, help });
    }
    let table = read_table(&file).map_err(CommandError::input)?;
    if args.fit {
        let folder = file.parent().unwrap_or(&file);
        let cpu = RunFolder::manifest(folder)?.map(|m| m.machine.cpu);
        return fitted(&table, cpu.as_deref().unwrap_or("an unknown machine"));
    }
    let operations = kernel_operations(&table.units);
    let classes = kernel_classes(&operations);
    if args.json {
        let object = json!({
            "kernels": table.units.len(),
            "failed": table.failed.len(),
            "classes": classes,
            "operations": operations,
        });
        output::print_json(&object)?;
        return Ok(Exit::Success);
    }
    let mut rows = Vec::new();
    if args.operations {
        for operation in &operations {
            rows.push(vec![operation.operation.clone()]);
            for v in &operation.variants {
                let times = v.nanoseconds as f64 / operation.variants[0].nanoseconds.max(1) as f64;
                rows.push(vec![format!(
                    "  {:>10.1} us  {times:>6.2}x  {}",
                    v.nanoseconds as f64 / 1e3,
                    v.variant
                )]);
            }
        }
    } else {
        let head = ["operator", "fastest", "of", "lead", "variant", "leads most at"];
        rows.push(head.map(str::to_owned).to_vec());
        for class in &classes {
            let (lead, place) = match &class.best {
                Some((lead, place)) => (format!("{lead:.2}x"), place.clone()),
                None => ("-".to_owned(), "-".to_owned()),
            };
            rows.push(vec![
                class.operator.clone(),
                class.fastest.to_string(),
                class.compared.to_string(),
                lead,
                class.variant.clone(),
                place,
            ]);
        }
    }
    output::print(&output::columns(&rows))?;
    output::message(&format!(
        "{} kernels timed, {} failed, {} operations with several variants",
        table.units.len(),
        table.failed.len(),
        operations.len()
    ));
    Ok(Exit::Success)
}

/// Coefficients of the shipped `cpu` target, fitted to the table's kernels, as a coefficient file; `cpu` is where they were timed.
fn fitted(table: &Table, cpu: &str) -> Result<Exit, CommandError> {
    let samples: Vec<FitSample> = table
        .units
        .iter()
        .filter(|u| !u.terms.is_empty())
        .map(|u| FitSample {
            terms: u.terms.clone(),
            nanoseconds: u.nanoseconds,
        })
        .collect();
    if samples.is_empty() {
        return Err(CommandError::failed("the profile has no kernel with cost terms"));
    }
    let start = Coefficients::cpu().map_err(CommandError::failed)?;
    let fit = fit(&samples, &start).map_err(CommandError::failed)?;
    let mut text = format!(
        "# Nanoseconds per unit of each cost term on one core (compiler/src/cost/terms.rs has the units). The analytic model is the
# product of a configuration's terms with these. Fitted by `relayout profile RUN --fit` to {} kernels timed alone on
# {cpu}: median deviation {:.0}%, before {:.0}%. At each term: in how many of these kernels it occurs; those
# that occur in none are estimates.\n",
        samples.len(),
        100.0 * fit.error_after,
        100.0 * fit.error_before,
    );
    let width = fit.seen.keys().map(|n| n.len()).max().unwrap_or(0);
    for name in relayout_compiler::cost::TERM_NAMES {
        let entry = format!("{name}: {}", fit.coefficients.get(name));
        text.push_str(&format!("{entry:0$}# {1}\n", width + 12, fit.seen[name]));
    }
    output::print(&text)?;
    Ok(Exit::Success)
}
