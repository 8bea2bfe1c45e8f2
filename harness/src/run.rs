//! `relayout run`: plan, references, profiles, cells, then the data set, the figures and the table.
//!
//! The journal is the truth: whatever is killed, a restart does what is missing and nothing else. References and profiles are
//! kept in the run directory; a cell is complete when its `done` record is durable.

use crate::analysis;
use crate::commands::{CommandError, strategy_of};
use crate::config::{Config, ConfigError};
use crate::filter::{Filter, FilterError};
use crate::frontend;
use crate::journal::{Journal, JournalError, WriteError, atomic};
use crate::machine;
use crate::plan::{Group, Plan, PlannedCell};
use crate::plots;
use crate::profiler::{self, Table, UnitFailure};
use crate::progress::Progress;
use crate::record::{
    CellRecord, CellStatus, Failure, Latency, LatencyMode, Phase, ProcessSamples, RunManifest,
};
use crate::records;
use crate::supervise::{self, Ending, Interrupts, Outcome};
use crate::worker::{Event, Request, status_of_death};
use relayout_compiler::cost::CostModelKind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `relayout run`.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// The run directory; `results/NAME` when absent.
    pub out: Option<PathBuf>,
    /// `key=value` arguments.
    pub overrides: Vec<String>,
    /// Which cells.
    pub filter: Option<String>,
    /// Show the plan and do nothing.
    pub dry_run: bool,
    /// Shard `i` of `n`, from 1.
    pub shard: Option<(usize, usize)>,
    /// Run complete cells of this status again (`failed`: every failure).
    pub rerun: Option<String>,
    /// Stop at the first failed cell.
    pub fail_fast: bool,
    /// Machine-readable plan or summary.
    pub json: bool,
}

/// Why a run can't go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration can't be read.
    #[error("{path}: {source}")]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The filter is wrong.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// Nothing to do by mistake.
    #[error("no cell passes the filter `{0}`")]
    Nothing(String),
    /// The shard is wrong.
    #[error("shard {0}/{1}: expected 1 to n of n")]
    Shard(usize, usize),
    /// A model can't be had; all of them at once.
    #[error("{}", .0.join("\n"))]
    Models(Vec<String>),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file of the run directory can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The profile can't be read.
    #[error(transparent)]
    Table(#[from] profiler::TableError),
    /// The data set.
    #[error(transparent)]
    Records(#[from] records::RecordsError),
    /// The figures.
    #[error(transparent)]
    Plots(#[from] plots::PlotError),
    /// A worker can't be started, or signals can't be handled.
    #[error("worker: {0}")]
    Worker(#[from] std::io::Error),
}

impl RunError {
    fn code(&self) -> u8 {
        match self {
            RunError::ReadConfig { .. }
            | RunError::Config(_)
            | RunError::Filter(_)
            | RunError::Nothing(_)
            | RunError::Shard(..)
            | RunError::Models(_)
            | RunError::Table(_) => 2,
            RunError::Journal(_)
            | RunError::Write(_)
            | RunError::Records(_)
            | RunError::Plots(_)
            | RunError::Worker(_) => 3,
        }
    }
}

/// Exit code of an interrupted run.
const INTERRUPTED: u8 = 130;

/// Runs an experiment. Exit codes: 0 all cells well or at a solver's limit, 1 some failed, 2 wrong arguments or configuration, 3 the run directory can't
/// be written, 130 interrupted.
pub fn run(options: &RunOptions) -> ExitCode {
    match execute(options) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(e.code())
        }
    }
}

fn execute(options: &RunOptions) -> Result<u8, RunError> {
    let file = options.config.display().to_string();
    let text = std::fs::read_to_string(&options.config).map_err(|source| RunError::ReadConfig {
        path: options.config.clone(),
        source,
    })?;
    let config = Config::read(&file, &text, &options.overrides, &frontend::known())?;
    let mut plan = Plan::new(&config, &frontend::family, &frontend::content);
    check_models(&config, &plan)?;
    if let Some(text) = &options.filter {
        let filter = Filter::parse(text)?;
        plan.cells.retain(|c| filter.accepts(&c.key));
        if plan.cells.is_empty() {
            return Err(RunError::Nothing(text.clone()));
        }
    }
    if let Some((index, count)) = options.shard {
        if index == 0 || index > count {
            return Err(RunError::Shard(index, count));
        }
        plan.shard(index - 1, count);
    }
    let directory = options
        .out
        .clone()
        .unwrap_or_else(|| Path::new("results").join(&config.name));
    if options.dry_run {
        show_plan(&plan, &directory, options.json)?;
        return Ok(0);
    }
    let journal = Journal::open(&directory.join("journal"))?;
    sweep_leftovers(&directory);
    let contents = journal.read()?;
    for bad in &contents.corrupt {
        eprintln!(
            "warning: {}: {}; the cell runs again",
            bad.path.display(),
            bad.reason
        );
    }
    let again = |status: &CellStatus| match options.rerun.as_deref() {
        None => false,
        Some("failed") => status.is_failure(),
        Some(name) => status.name() == name,
    };
    let resumption = contents.resume(plan.cells.iter().map(|c| c.id.as_str()), again);
    let complete: BTreeSet<&String> = resumption.complete.iter().collect();
    let pending: Vec<&PlannedCell> = plan.cells.iter().filter(|c| !complete.contains(&c.id)).collect();
    let mut manifest = read_manifest(&directory).unwrap_or_default();
    if pending.is_empty() {
        eprintln!(
            "{}: all {} cells are complete; nothing to do",
            directory.display(),
            plan.cells.len()
        );
    } else {
        manifest = new_manifest(&config);
        write_manifest(&directory, &manifest)?;
    }
    for cell in resumption
        .rerun
        .iter()
        .chain(resumption.interrupted.iter().map(|(c, _)| c))
    {
        journal.forget(cell)?;
    }
    let interrupts = Interrupts::install()?;
    let sweep = Sweep {
        config: &config,
        plan: &plan,
        directory: &directory,
        journal: &journal,
        interrupts: &interrupts,
    };
    let interrupted = if pending.is_empty() {
        false
    } else {
        sweep.run(&pending, options.fail_fast)?
    };
    if !pending.is_empty() {
        manifest.finished_unix_ms = Some(machine::now_ms());
        write_manifest(&directory, &manifest)?;
    }
    let contents = journal.read()?;
    let records: Vec<CellRecord> = plan
        .cells
        .iter()
        .filter_map(|c| contents.done(&c.id))
        .cloned()
        .collect();
    records::derive(&directory, &records)?;
    let settings = settings_of(&manifest);
    let plotted = plots::plot(&records, &settings, &directory.join("plots"))?;
    report(&plan, &records, &settings, &directory, &plotted, options.json)?;
    if interrupted {
        eprintln!("interrupted; run the same command again to go on");
        return Ok(INTERRUPTED);
    }
    Ok(u8::from(records.iter().any(|r| is_fault(&r.status))))
}

/// Whether a status is a fault of the run. A solver that reaches its limit without an answer is a result of the study, recorded
/// and shown, but no fault.
fn is_fault(status: &CellStatus) -> bool {
    status.is_failure()
        && !matches!(
            status,
            CellStatus::SolverTimeout
                | CellStatus::SolverOutOfMemory
                | CellStatus::NoPlan
                | CellStatus::Infeasible
                | CellStatus::MissingHints
        )
}

/// The settings of figures and tables that a run's manifest fixes.
pub fn settings_of(manifest: &RunManifest) -> analysis::Settings {
    analysis::Settings {
        solver_based: manifest.solver_based.clone(),
        fallback_reference: manifest.reference_strategy.clone(),
        ..analysis::Settings::default()
    }
}

/// Removes what a killed run left behind: temporary files, and modules, which a cell that runs again makes anew. The caller
/// holds the journal's lock, so their writers are gone. What can't be removed costs space and nothing else.
fn sweep_leftovers(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory.join("modules"));
    for folder in [
        directory.to_owned(),
        directory.join("reference"),
        directory.join("plots"),
    ] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if atomic::is_temporary(&entry.file_name().to_string_lossy()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Every model of the plan loads and takes its dimensions; all faults at once.
fn check_models(config: &Config, plan: &Plan) -> Result<(), RunError> {
    let mut faults = Vec::new();
    for group in &plan.groups {
        let checked = frontend::load(&group.entry.model, config.seed, group.batch)
            .and_then(|loaded| frontend::bind(&loaded.model, &group.dims).map(|_| ()))
            .and_then(|()| frontend::target(&group.target).map(|_| ()));
        if let Err(e) = checked {
            let text = format!("model `{}`: {e}", group.entry.model);
            if !faults.contains(&text) {
                faults.push(text);
            }
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(RunError::Models(faults))
    }
}

fn show_plan(plan: &Plan, directory: &Path, json: bool) -> Result<(), RunError> {
    let contents = crate::journal::read(&directory.join("journal")).ok();
    let state = |cell: &PlannedCell| {
        contents
            .as_ref()
            .and_then(|c| c.done(&cell.id))
            .map_or("new", |r| r.status.name())
    };
    if json {
        let cells: Vec<_> = plan
            .cells
            .iter()
            .map(|c| serde_json::json!({"id": c.id, "key": c.key, "state": state(c)}))
            .collect();
        println!("{}", serde_json::json!({"cells": cells}));
        return Ok(());
    }
    for c in &plan.cells {
        let k = &c.key;
        println!(
            "{}  {:<8} {} {} {} {} threads={}",
            &c.id[..12],
            state(c),
            k.model_label(),
            k.target,
            k.cost_model,
            k.strategy,
            k.threads
        );
    }
    let groups: BTreeSet<usize> = plan.cells.iter().map(|c| c.group).collect();
    println!("{} cells in {} groups", plan.cells.len(), groups.len());
    Ok(())
}

fn new_manifest(config: &Config) -> RunManifest {
    let (commit, dirty) = machine::commit();
    RunManifest {
        schema: crate::record::SCHEMA,
        config: serde_json::to_value(config).unwrap_or_default(),
        config_hash: config.hash(),
        commit,
        dirty,
        machine: machine::fingerprint(),
        tools: machine::tools(),
        argv: std::env::args().collect(),
        started_unix_ms: machine::now_ms(),
        finished_unix_ms: None,
        solver_based: config.solver_based.clone(),
        reference_strategy: None,
    }
}

/// Reads `run.json` of a run directory.
pub fn read_manifest(directory: &Path) -> Option<RunManifest> {
    serde_json::from_slice(&std::fs::read(directory.join("run.json")).ok()?).ok()
}

fn write_manifest(directory: &Path, manifest: &RunManifest) -> Result<(), WriteError> {
    let text = serde_json::to_string_pretty(manifest).unwrap_or_default();
    atomic::write(&directory.join("run.json"), text.as_bytes())
}

struct Sweep<'a> {
    config: &'a Config,
    plan: &'a Plan,
    directory: &'a Path,
    journal: &'a Journal,
    interrupts: &'a Interrupts,
}

impl Sweep<'_> {
    /// Runs what is pending; whether the user interrupted.
    fn run(&self, pending: &[&PlannedCell], fail_fast: bool) -> Result<bool, RunError> {
        let groups: BTreeSet<usize> = pending.iter().map(|c| c.group).collect();
        std::fs::create_dir_all(self.directory.join("reference"))?;
        std::fs::create_dir_all(self.directory.join("modules"))?;
        let broken = self.references(&groups)?;
        self.profiles(&groups, &broken)?;
        let mut progress = Progress::new("cells", pending.len() as u64);
        for &group in &groups {
            let cells: Vec<&PlannedCell> = pending.iter().filter(|c| c.group == group).copied().collect();
            let mut measured = Vec::new();
            for &cell in &cells {
                if self.interrupts.drain() {
                    progress.finish();
                    return Ok(true);
                }
                progress.doing(&format!("{} {}", cell.key.model_label(), cell.key.strategy));
                let record = match broken.get(&group) {
                    Some(message) => self.no_reference(cell, message),
                    None => self.cell(cell)?,
                };
                let failed = record.status.is_failure();
                if record.status == CellStatus::Ok && self.config.measure.rounds > 1 {
                    measured.push((cell, record));
                } else {
                    progress.step(&describe(&record));
                    if record.status != CellStatus::Pending {
                        self.journal.write(Phase::Done, &record)?;
                    }
                }
                if self.interrupts.stop() {
                    progress.finish();
                    return Ok(true);
                }
                if failed && fail_fast {
                    progress.finish();
                    return Ok(false);
                }
            }
            let Some(records) = self.rounds(measured)? else {
                progress.finish();
                return Ok(true);
            };
            for record in records {
                progress.step(&describe(&record));
                self.journal.write(Phase::Done, &record)?;
            }
            for cell in &cells {
                // A module is as large as its constants; it is kept only while its cell is measured.
                let _ = std::fs::remove_file(self.module_path(cell));
            }
        }
        progress.finish();
        Ok(false)
    }

    fn reference_path(&self, group: &Group) -> PathBuf {
        let text = format!(
            "{} {} {} {:?} {}",
            group.entry.model, group.model_content, group.batch, group.dims, self.config.seed
        );
        self.directory
            .join("reference")
            .join(format!("{}.bin", &blake3::hash(text.as_bytes()).to_hex()[..24]))
    }

    fn module_path(&self, cell: &PlannedCell) -> PathBuf {
        self.directory.join("modules").join(format!("{}.rlm", cell.id))
    }

    fn table_path(&self) -> PathBuf {
        self.directory.join("profile.json")
    }

    /// Makes the reference outputs that are missing; the groups whose reference can't be made, with why.
    fn references(&self, groups: &BTreeSet<usize>) -> Result<BTreeMap<usize, String>, RunError> {
        let mut broken = BTreeMap::new();
        let mut progress = Progress::new("references", groups.len() as u64);
        for &index in groups {
            let group = &self.plan.groups[index];
            let out = self.reference_path(group);
            if self.interrupts.drain() {
                break;
            }
            if crate::reference::read(&out).is_ok() {
                progress.tick();
                continue;
            }
            progress.doing(&group.entry.model);
            let request = Request::Reference {
                config: self.config.clone(),
                group: group.clone(),
                out,
            };
            let mut failure = None;
            let mut finished = false;
            let limit = Duration::from_secs_f64(self.config.limits.reference);
            let outcome = supervise::run(&request, limit, None, self.interrupts, &mut |event| {
                match event {
                    Event::Finished => finished = true,
                    Event::Failed { message } => failure = Some(message),
                    _ => {}
                }
                None
            })?;
            let problem = if finished {
                None
            } else {
                Some(failure.unwrap_or_else(|| death(&outcome)))
            };
            match problem {
                Some(message) => {
                    progress.step(&format!("reference {}: {message}", group.entry.model));
                    broken.insert(index, message);
                }
                None => progress.step(&format!("reference {}", group.entry.model)),
            }
        }
        progress.finish();
        Ok(broken)
    }

    /// Times the kernels that the profiled groups need, serially, before any cell. A kernel that kills its worker costs itself.
    fn profiles(&self, groups: &BTreeSet<usize>, broken: &BTreeMap<usize, String>) -> Result<(), RunError> {
        let path = self.table_path();
        let mut table = profiler::read_table(&path)?;
        for &index in groups {
            let group = &self.plan.groups[index];
            if group.cost_model != CostModelKind::Profiled || broken.contains_key(&index) {
                continue;
            }
            while !self.interrupts.drain() && self.profile_group(group, &mut table)? {
                table.write(&path)?;
            }
            table.write(&path)?;
        }
        Ok(())
    }

    /// One worker's worth of profiling; whether another is needed because this one died.
    fn profile_group(&self, group: &Group, table: &mut Table) -> Result<bool, RunError> {
        let request = Request::Profile {
            config: self.config.clone(),
            group: group.clone(),
            have: table.keys(),
        };
        let mut progress: Option<Progress> = None;
        let mut running: Option<(String, String)> = None;
        let mut finished = false;
        let mut failure = None;
        let per_unit = Duration::from_secs_f64(self.config.limits.run);
        let limit = Duration::from_secs_f64(self.config.limits.compile + self.config.limits.instance);
        let path = self.table_path();
        let mut unsaved = 0;
        let mut write_fault = None;
        let outcome = supervise::run(&request, limit, None, self.interrupts, &mut |event| {
            match event {
                Event::Planned { units } => {
                    eprintln!("profile {}: {units} kernels", group.entry.model);
                    progress = Some(Progress::new("kernels", units as u64));
                }
                Event::UnitStarting { key, description } => {
                    running = Some((key, description));
                    return Some(per_unit);
                }
                Event::Unit(timing) => {
                    table.units.push(timing);
                    running = None;
                    unsaved += 1;
                    if let Some(p) = &mut progress {
                        p.tick();
                    }
                }
                Event::UnitFailed { key, message } => {
                    let description = running.take().map(|(_, d)| d).unwrap_or_default();
                    table.failed.push(UnitFailure {
                        key,
                        description,
                        message,
                    });
                }
                Event::Finished => finished = true,
                Event::Failed { message } => failure = Some(message),
                _ => {}
            }
            if unsaved >= 100 {
                unsaved = 0;
                write_fault = table.write(&path).err();
            }
            Some(limit)
        })?;
        if let Some(p) = progress {
            p.finish();
        }
        if let Some(e) = write_fault {
            return Err(e.into());
        }
        if let Some(message) = failure {
            // The group's cells will say the same, each in its own record.
            eprintln!("profile {}: {message}", group.entry.model);
            return Ok(false);
        }
        if finished || matches!(outcome.ending, Ending::Interrupted) {
            return Ok(false);
        }
        let Some((key, description)) = running else {
            eprintln!("profile {}: {}", group.entry.model, death(&outcome));
            return Ok(false);
        };
        eprintln!(
            "profile {}: {description}: {}",
            group.entry.model,
            death(&outcome)
        );
        table.failed.push(UnitFailure {
            key,
            description,
            message: death(&outcome),
        });
        Ok(true)
    }

    fn new_record(&self, cell: &PlannedCell) -> CellRecord {
        let mut record = CellRecord::new(cell.key.clone());
        record.id.clone_from(&cell.id);
        record
    }

    fn no_reference(&self, cell: &PlannedCell, message: &str) -> CellRecord {
        let mut record = self.new_record(cell);
        record.status = CellStatus::InstanceFailed;
        record.failure = Some(Failure {
            phase: Phase::Instance,
            message: format!("no reference output: {message}"),
            stderr_tail: String::new(),
        });
        record
    }

    /// Runs one cell in its own process; the final record, or a pending one when the user stopped it.
    fn cell(&self, cell: &PlannedCell) -> Result<CellRecord, RunError> {
        if let Err(CommandError::NotBuiltIn { what, help }) = strategy_of(&cell.strategy) {
            let mut record = self.new_record(cell);
            let reason = format!("{what} is not built in: {help}");
            record.status = CellStatus::Skipped { reason };
            return Ok(record);
        }
        let group = &self.plan.groups[cell.group];
        let keep = self.config.measure.rounds > 1;
        let request = Request::Cell {
            config: Box::new(self.config.clone()),
            group: group.clone(),
            strategy: cell.strategy.clone(),
            record: Box::new(self.new_record(cell)),
            table: (group.cost_model == CostModelKind::Profiled).then(|| self.table_path()),
            reference: self.reference_path(group),
            module: keep.then(|| self.module_path(cell)),
        };
        let limits = &self.config.limits;
        let mut last = self.new_record(cell);
        let mut phase = Phase::Instance;
        let mut finished = false;
        let mut fault = None;
        let first = Duration::from_secs_f64(limits.instance);
        let outcome = supervise::run(
            &request,
            first,
            limits.memory,
            self.interrupts,
            &mut |event| match event {
                Event::Starting { phase: next } => {
                    phase = next;
                    Some(Duration::from_secs_f64(match next {
                        Phase::Instance => limits.instance,
                        Phase::Solve => limits.solve,
                        Phase::Compile => limits.compile,
                        Phase::Run | Phase::Done => limits.run,
                    }))
                }
                Event::Phase {
                    phase: reached,
                    record,
                } => {
                    last = *record;
                    finished = reached == Phase::Done;
                    if !finished {
                        fault = self.journal.write(reached, &last).err().or(fault.take());
                    }
                    None
                }
                Event::Failed { message } => {
                    last.status = CellStatus::SolveFailed;
                    last.failure = Some(Failure {
                        phase,
                        message,
                        stderr_tail: String::new(),
                    });
                    finished = true;
                    None
                }
                _ => None,
            },
        )?;
        if let Some(e) = fault {
            return Err(e.into());
        }
        if !finished {
            let status = match outcome.ending {
                Ending::Deadline => CellStatus::Timeout { phase },
                Ending::Interrupted => CellStatus::Pending,
                Ending::Exited(status) => status_of_death(status, &outcome.stderr_tail),
            };
            // A failure is never a number: what was measured before the death is not a result.
            last.latency = None;
            last.status = status;
            last.failure = Some(Failure {
                phase,
                message: death(&outcome),
                stderr_tail: outcome.stderr_tail.clone(),
            });
            last.finished_unix_ms = Some(machine::now_ms());
        }
        Ok(last)
    }

    /// Further rounds, each in processes of their own, interleaved over the strategies: forward, then backward (ABBA).
    /// `None` when the user interrupted: a cell with fewer processes than asked for is not complete.
    fn rounds(
        &self,
        mut measured: Vec<(&PlannedCell, CellRecord)>,
    ) -> Result<Option<Vec<CellRecord>>, RunError> {
        for round in 1..self.config.measure.rounds {
            let mut order: Vec<usize> = (0..measured.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                if self.interrupts.drain() {
                    return Ok(None);
                }
                let (cell, record) = &mut measured[index];
                let request = Request::Measure {
                    config: Box::new(self.config.clone()),
                    group: self.plan.groups[cell.group].clone(),
                    module: self.module_path(cell),
                };
                let mut samples: Option<ProcessSamples> = None;
                let limit = Duration::from_secs_f64(self.config.limits.run);
                let outcome = supervise::run(&request, limit, None, self.interrupts, &mut |event| {
                    if let Event::Samples { samples: s } = event {
                        samples = Some(s);
                    }
                    None
                })?;
                if matches!(outcome.ending, Ending::Interrupted) {
                    return Ok(None);
                }
                let processes = record.latency.take().map(|l| l.processes).unwrap_or_default();
                record.latency = Latency::from_processes(
                    LatencyMode::Isolated,
                    processes.into_iter().chain(samples).collect(),
                )
                .ok();
            }
        }
        for (_, record) in &mut measured {
            if let Some(latency) = &mut record.latency {
                latency.noise = noise(&latency.processes);
            }
        }
        Ok(Some(measured.into_iter().map(|(_, r)| r).collect()))
    }
}

/// The A/A noise: largest relative difference of the medians of two processes that ran the same module.
fn noise(processes: &[ProcessSamples]) -> Option<f64> {
    let mut medians: Vec<f64> = processes
        .iter()
        .filter_map(|p| {
            let mut sorted = p.samples_ms.clone();
            sorted.sort_by(f64::total_cmp);
            crate::stats::quantile(&sorted, 0.5)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    match (medians.first(), medians.last()) {
        (Some(low), Some(high)) if medians.len() > 1 => Some((high - low) / low),
        _ => None,
    }
}

fn death(outcome: &Outcome) -> String {
    let tail = outcome.stderr_tail.lines().last().unwrap_or_default();
    let what = match &outcome.ending {
        Ending::Deadline => "over its time limit, stopped".to_owned(),
        Ending::Interrupted => "stopped by the user".to_owned(),
        Ending::Exited(status) => status_of_death(*status, &outcome.stderr_tail).to_string(),
    };
    if tail.is_empty() {
        what
    } else {
        format!("{what}: {tail}")
    }
}

fn describe(record: &CellRecord) -> String {
    let k = &record.key;
    let mut line = format!("{} {} {}", k.model_label(), k.cost_model, k.strategy);
    if let Some(cost) = record.predicted_cost() {
        line.push_str(&format!("  predicted {:.3} ms", cost as f64 / 1e6));
    }
    if let Some(plan) = &record.plan {
        line.push_str(&format!(", {} conversions", plan.conversions));
    }
    match (record.median_ms(), &record.failure) {
        (Some(ms), _) => line.push_str(&format!(", measured {ms:.3} ms")),
        (None, Some(f)) => line.push_str(&format!("  {}: {}", record.status, f.message)),
        (None, None) => line.push_str(&format!("  {}", record.status)),
    }
    line
}

fn report(
    plan: &Plan,
    records: &[CellRecord],
    settings: &analysis::Settings,
    directory: &Path,
    plotted: &plots::Plotted,
    json: bool,
) -> Result<(), RunError> {
    let summary = analysis::summarise(records, settings);
    if json {
        let value = serde_json::json!({
            "directory": directory,
            "planned": plan.cells.len(),
            "complete": records.len(),
            "failed": records.iter().filter(|r| r.status.is_failure()).count(),
            "summary": summary,
        });
        println!("{value}");
        return Ok(());
    }
    let grouped = analysis::group(records);
    for facet in analysis::facets(&grouped.cases, settings) {
        println!("## {}\n", facet.title());
        println!("{}", crate::table::latency_table(&facet, settings).markdown());
    }
    println!("{}", summary.markdown());
    let failed: Vec<&CellRecord> = records.iter().filter(|r| r.status.is_failure()).collect();
    println!(
        "{} cells: {} well, {} failed",
        plan.cells.len(),
        records.len() - failed.len(),
        failed.len()
    );
    for record in failed {
        println!("- {}", describe(record));
    }
    println!(
        "\nFigures, tables and measures: {}",
        directory.join("plots").display()
    );
    println!("Records: {}", directory.join("cells.parquet").display());
    for skipped in &plotted.skipped {
        eprintln!("no figure {}: {}", skipped.name, skipped.reason);
    }
    Ok(())
}
