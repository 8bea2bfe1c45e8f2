//! `relayout doctor`: which optional parts are here, and how to get the others.

use super::{CommandError, Exit, output, solvers};
use crate::cli::ListArgs;
use crate::machine;
use serde::Serialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// One thing that may be here.
#[derive(Clone, Debug, Serialize)]
struct Part {
    /// What.
    name: String,
    /// Whether it is here.
    found: bool,
    /// Whether the main job needs it.
    required: bool,
    /// Version, size or path.
    detail: String,
    /// How to get it, where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<String>,
}

impl Part {
    fn fact(name: &str, detail: String) -> Part {
        Part {
            name: name.to_owned(),
            found: true,
            required: false,
            detail,
            how: None,
        }
    }
    fn optional(name: &str, detail: Option<String>, how: &str) -> Part {
        Part {
            name: name.to_owned(),
            found: detail.is_some(),
            required: false,
            how: detail.is_none().then(|| how.to_owned()),
            detail: detail.unwrap_or_default(),
        }
    }
}

/// Looks at the machine and the build. Succeeds whatever it finds.
pub fn doctor(args: &ListArgs) -> Result<Exit, CommandError> {
    let mut parts = vec![Part {
        required: true,
        ..Part::optional(
            "C compiler",
            compiler(),
            "install gcc or clang (Debian: `apt-get install gcc libc6-dev`), or set CC",
        )
    }];
    parts.extend(machine_parts());
    parts.extend(solver_parts());
    parts.extend(tools());
    parts.extend(measurement());
    if args.json {
        output::print_json(&parts)?;
        return Ok(Exit::Success);
    }
    let row = |part: &Part| {
        let state = match (part.found, part.required) {
            (true, _) => "yes",
            (false, true) => "MISSING",
            (false, false) => "no",
        };
        let detail = match &part.how {
            Some(how) if part.detail.is_empty() => how.clone(),
            Some(how) => format!("{}; {how}", part.detail),
            None => part.detail.clone(),
        };
        vec![state.to_owned(), part.name.clone(), detail]
    };
    output::print(&output::columns(&parts.iter().map(row).collect::<Vec<_>>()))?;
    Ok(Exit::Success)
}

/// The first line of `--version` of the compiler that kernels are built with.
fn compiler() -> Option<String> {
    let chosen = std::env::var("CC").ok().filter(|c| !c.trim().is_empty());
    let candidates = chosen.map_or_else(
        || vec!["cc".to_owned(), "gcc".to_owned(), "clang".to_owned()],
        |c| vec![c],
    );
    candidates
        .iter()
        .find_map(|name| version(name).map(|v| format!("{name}: {v}")))
}

/// The first line that a program prints for `--version`.
fn version(program: &str) -> Option<String> {
    let out = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    out.status
        .success()
        .then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Where a program is.
fn in_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn machine_parts() -> Vec<Part> {
    let machine = machine::fingerprint();
    let cores = match machine.physical_cores {
        Some(physical) => format!("{} threads on {physical} cores", machine.logical_cores),
        None => format!("{} threads", machine.logical_cores),
    };
    let caches: Vec<String> = machine
        .caches
        .iter()
        .map(|(name, bytes)| format!("{name} {}", output::human_bytes(*bytes)))
        .collect();
    vec![
        Part::fact(
            "CPU",
            format!("{}, {cores}, {} GiB", machine.cpu, machine.memory_gib),
        ),
        Part::fact(
            "instruction set",
            relayout_runtime::machine_isa().name().to_owned(),
        ),
        Part::optional(
            "cache sizes",
            (!caches.is_empty()).then(|| caches.join(", ")),
            "the system does not tell them; the target description's are used",
        ),
    ]
}

fn solver_parts() -> Vec<Part> {
    solvers("maxsat")
        .iter()
        .map(|solver| {
            let name = format!("maxsat solver {}", solver.name);
            let detail = solver.missing.is_none().then(|| solver.description.to_owned());
            Part::optional(&name, detail, solver.missing.unwrap_or_default())
        })
        .collect()
}

/// Outside tools that read what `export` writes.
fn tools() -> Vec<Part> {
    let tools = [
        (
            "toulbar2",
            "solves .cfn exports; Debian: `apt-get install toulbar2`, or PyPI's pytoulbar2",
        ),
        ("dot", "draws .dot exports; Debian: `apt-get install graphviz`"),
        (
            "perf",
            "looks inside kernels; Debian: `apt-get install linux-perf`",
        ),
        ("sbatch", "runs the shards of a sweep on a cluster; Slurm"),
    ];
    tools
        .into_iter()
        .map(|(name, how)| Part::optional(name, in_path(name).map(|p| p.display().to_string()), how))
        .collect()
}

/// What decides how far latencies can be trusted.
fn measurement() -> Vec<Part> {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let fixed = governor.as_deref() == Some("performance");
    let governor_help = "`cpupower frequency-set -g performance` steadies latencies";
    let mut parts = vec![Part {
        found: fixed,
        how: (!fixed && governor.is_some()).then(|| governor_help.to_owned()),
        ..Part::fact(
            "steady clock",
            governor.unwrap_or_else(|| "the system hides the governor".to_owned()),
        )
    }];
    parts.push(Part::optional(
        "clock frequency",
        machine::clock_mhz().map(|mhz| format!("{mhz:.0} MHz now")),
        "the system hides it; throttling can't be told",
    ));
    if let Some(source) = read("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        parts.push(Part::fact("clock source", source));
    }
    parts.push(match read("/proc/sys/kernel/perf_event_paranoid") {
        Some(level) => {
            let open = level.parse::<i32>().is_ok_and(|n| n <= 2);
            Part {
                found: open,
                how: (!open).then(|| "`sysctl kernel.perf_event_paranoid=2` opens them".to_owned()),
                ..Part::fact("performance counters", format!("perf_event_paranoid {level}"))
            }
        }
        None => Part::optional("performance counters", None, "this kernel has none"),
    });
    parts
}
