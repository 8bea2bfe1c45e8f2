//! `relayout models`, `strategies` and `targets`.

use super::{CommandError, Exit, output, solvers};
use crate::cli::ListArgs;
use crate::frontend;
use relayout_layouts::{STRATEGIES, external};
use relayout_models::zoo;
use serde_json::{Value, json};

/// Lists the zoo.
pub fn models(args: &ListArgs) -> Result<Exit, CommandError> {
    if args.json {
        let overrides = |entry: &zoo::Entry| -> Vec<Value> {
            let one = |o: &relayout_models::overrides::OverrideSpec| json!({ "name": o.name, "default": o.default, "expected": o.kind.to_string(), "help": o.help });
            entry.overrides.iter().map(one).collect()
        };
        let all: Vec<Value> = zoo::list()
            .iter()
            .map(|e| {
                json!({
                    "name": e.name,
                    "family": e.family.label(),
                    "description": e.description,
                    "overrides": overrides(e),
                })
            })
            .collect();
        output::print_json(&all)?;
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    for entry in zoo::list() {
        text.push_str(&format!(
            "{} ({}): {}\n",
            entry.name, entry.family, entry.description
        ));
        let row = |o: &relayout_models::overrides::OverrideSpec| {
            vec![
                format!("    {}={}", o.name, o.default),
                format!("{}; {}", o.help, o.kind),
            ]
        };
        text.push_str(&output::columns(
            &entry.overrides.iter().map(row).collect::<Vec<_>>(),
        ));
    }
    output::print(&text)?;
    Ok(Exit::Success)
}

/// Lists the strategies with their solvers.
pub fn strategies(args: &ListArgs) -> Result<Exit, CommandError> {
    if args.json {
        let mut all: Vec<Value> = STRATEGIES
            .iter()
            .map(|s| {
                let solvers: Vec<Value> = solvers(s.name)
                    .iter()
                    .map(|v| {
                        json!({
                            "name": v.name,
                            "description": v.description,
                            "available": v.missing.is_none(),
                            "how": v.missing,
                        })
                    })
                    .collect();
                json!({
                    "name": s.name,
                    "description": s.description,
                    "exact": s.exact,
                    "available": s.missing.is_none(),
                    "how": s.missing,
                    "solvers": solvers,
                })
            })
            .collect();
        all.push(json!({
            "name": external::NAME,
            "description": external::DESCRIPTION,
            // As exact as the program is.
            "exact": null,
            "available": true,
            "how": null,
            "solvers": [],
            "formats": external::Format::ALL.map(|(_, name)| name),
        }));
        output::print_json(&all)?;
        return Ok(Exit::Success);
    }
    let missing = |how: Option<&str>| how.map_or(String::new(), |h| format!(" [not built in: {h}]"));
    let mut rows = Vec::new();
    for s in STRATEGIES {
        let kind = if s.exact { "exact" } else { "heuristic" };
        rows.push(vec![
            s.name.to_owned(),
            kind.to_owned(),
            format!("{}{}", s.description, missing(s.missing)),
        ]);
        for v in solvers(s.name) {
            rows.push(vec![
                format!("  --solver {}", v.name),
                String::new(),
                format!("{}{}", v.description, missing(v.missing)),
            ]);
        }
    }
    rows.push(vec![
        external::NAME.to_owned(),
        "outside".to_owned(),
        external::DESCRIPTION.to_owned(),
    ]);
    output::print(&output::columns(&rows))?;
    Ok(Exit::Success)
}

/// Lists the built-in targets as resolved for this machine.
pub fn targets(args: &ListArgs) -> Result<Exit, CommandError> {
    let mut objects = Vec::new();
    let mut rows = Vec::new();
    for name in frontend::TARGETS {
        let target = frontend::target(name).map_err(CommandError::failed)?.target;
        objects.push(json!({
            "name": target.name,
            "isa": target.isa.name(),
            "threads": target.threads,
            "caches": { "l1": target.caches.l1, "l2": target.caches.l2, "l3": target.caches.l3 },
            "blocks": target.blocks,
            "libraries": target.libraries,
            "library_threshold": target.library_threshold,
        }));
        let size = |bytes| output::human_bytes(bytes);
        let blocks: Vec<String> = target.blocks.iter().map(u32::to_string).collect();
        rows.push(vec![
            target.name,
            format!("isa {}", target.isa.name()),
            format!("threads {}", target.threads),
            format!(
                "caches {} / {} / {}",
                size(target.caches.l1),
                size(target.caches.l2),
                size(target.caches.l3)
            ),
            format!("blocks {}", blocks.join(", ")),
            format!("libraries {}", target.libraries.join(", ")),
        ]);
    }
    if args.json {
        output::print_json(&objects)?;
    } else {
        output::print(&output::columns(&rows))?;
    }
    Ok(Exit::Success)
}
