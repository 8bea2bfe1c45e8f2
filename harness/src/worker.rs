//! The worker process: does one piece of a sweep and reports each step as a JSON line on standard output.
//!
//! Everything that may crash, hang or run out of memory happens here; the supervisor only reads lines. A request comes as one
//! JSON object on standard input.

use crate::commands::strategy_of;
use crate::config::Config;
use crate::frontend::{self, Loaded};
use crate::machine;
use crate::plan::Group;
use crate::profiler;
use crate::record::{
    BindingCost, CellRecord, CellStatus, CompileFacts, Conversion, CostSplit, Failure, GraphFacts,
    InstanceFacts, Latency, LatencyMode, MemoryKind, Phase, PhaseSeconds, PlanFacts, ProcessSamples,
    SolveFacts, SolverStatus, TensorLayout, TieFacts, TracePoint,
};
use crate::reference;
use relayout_compiler::apply::{Applied, apply};
use relayout_compiler::codegen::toolchain::Toolchain;
use relayout_compiler::cost::{CostModelKind, ProfileTable, Terms};
use relayout_compiler::extract::{CallSpec, CostModel, Extraction, Pricing, ShapeBinding, extract};
use relayout_compiler::pipeline::{self, CompileOptions};
use relayout_compiler::unit::unit_key;
use relayout_layouts::graph::Graph;
use relayout_layouts::{Budget, Status, Trace, decomposition};
use relayout_runtime::{Options, Session};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a worker is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Request {
    /// Compute the reference outputs of a group and write them to a file.
    Reference {
        /// The experiment.
        config: Config,
        /// The group.
        group: Group,
        /// Where to write.
        out: PathBuf,
    },
    /// Time the kernels that a group needs and that are neither in the table nor known to fail.
    Profile {
        /// The experiment.
        config: Config,
        /// The group.
        group: Group,
        /// Keys that need no timing.
        have: Vec<String>,
    },
    /// Run a cell.
    Cell {
        /// The experiment.
        config: Box<Config>,
        /// The group.
        group: Group,
        /// The strategy.
        strategy: crate::config::StrategyEntry,
        /// The record so far.
        record: Box<CellRecord>,
        /// Measured kernels, for the profiled model.
        table: Option<PathBuf>,
        /// The reference outputs.
        reference: PathBuf,
        /// Where to keep the module for further rounds.
        module: Option<PathBuf>,
    },
    /// Measure a module again, in a process of its own.
    Measure {
        /// The experiment.
        config: Box<Config>,
        /// The group.
        group: Group,
        /// The module.
        module: PathBuf,
    },
}

/// What a worker reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A phase begins.
    Starting {
        /// The phase.
        phase: Phase,
    },
    /// A phase ended; the record has all that is known.
    Phase {
        /// The phase.
        phase: Phase,
        /// The record.
        record: Box<CellRecord>,
    },
    /// The request is done.
    Finished,
    /// The request can't be done.
    Failed {
        /// Why.
        message: String,
    },
    /// How many kernels are to be timed.
    Planned {
        /// Number.
        units: usize,
    },
    /// A kernel is about to run.
    UnitStarting {
        /// Its key.
        key: String,
        /// What it is.
        description: String,
    },
    /// A kernel was timed.
    Unit(profiler::UnitTiming),
    /// A kernel can't be built.
    UnitFailed {
        /// Its key.
        key: String,
        /// Why.
        message: String,
    },
    /// Samples of a further round.
    Samples {
        /// The samples.
        samples: ProcessSamples,
    },
}

/// Writes one event as a line.
pub fn emit(event: &Event) {
    let mut out = std::io::stdout().lock();
    if let Ok(line) = serde_json::to_string(event) {
        // A supervisor that is gone can't be told so; the worker then ends by its own.
        let _ = writeln!(out, "{line}");
        let _ = out.flush();
    }
}

/// The body of the hidden `worker` command.
pub fn main() -> ExitCode {
    let mut text = String::new();
    if std::io::stdin().read_to_string(&mut text).is_err() {
        return ExitCode::from(2);
    }
    let request: Request = match serde_json::from_str(&text) {
        Ok(request) => request,
        Err(e) => {
            eprintln!("worker: not a request: {e}");
            return ExitCode::from(2);
        }
    };
    let outcome = match request {
        Request::Reference { config, group, out } => make_reference(&config, &group, &out),
        Request::Profile { config, group, have } => profiler::profile(&config, &group, &have),
        Request::Cell {
            config,
            group,
            strategy,
            record,
            table,
            reference,
            module,
        } => {
            let table = match table.map(|p| profiler::read_table(&p)).transpose() {
                Ok(table) => table.unwrap_or_default(),
                Err(e) => {
                    emit(&Event::Failed {
                        message: e.to_string(),
                    });
                    return ExitCode::SUCCESS;
                }
            };
            let cell = Cell {
                config: &config,
                group: &group,
                strategy: &strategy,
                table: &table.as_costs(),
            };
            run_cell(&cell, *record, &reference, module.as_deref());
            Ok(())
        }
        Request::Measure {
            config,
            group,
            module,
        } => measure_again(&config, &group, &module),
    };
    emit(&match outcome {
        Ok(()) => Event::Finished,
        Err(message) => Event::Failed { message },
    });
    ExitCode::SUCCESS
}

fn load(config: &Config, group: &Group) -> Result<(Loaded, ShapeBinding), String> {
    let loaded = frontend::load(&group.entry.model, config.seed, group.batch).map_err(|e| e.to_string())?;
    let binding = frontend::bind(&loaded.model, &group.dims).map_err(|e| e.to_string())?;
    Ok((loaded, binding))
}

/// The model of a group, canonicalised, with its binding and target.
///
/// # Errors
/// The message for the user.
pub fn prepare(
    config: &Config,
    group: &Group,
) -> Result<(Loaded, ShapeBinding, frontend::TargetParts), String> {
    let (mut loaded, binding) = load(config, group)?;
    pipeline::canonicalise(&mut loaded.model.module);
    let target = frontend::target(&group.target).map_err(|e| e.to_string())?;
    Ok((loaded, binding, target))
}

fn make_reference(config: &Config, group: &Group, out: &std::path::Path) -> Result<(), String> {
    let (loaded, binding) = load(config, group)?;
    let outputs = reference::run(&loaded.model, config.seed, &binding).map_err(|e| e.to_string())?;
    reference::write(out, &outputs).map_err(|e| e.to_string())
}

fn measure_again(config: &Config, group: &Group, module: &std::path::Path) -> Result<(), String> {
    let (loaded, binding) = load(config, group)?;
    let module = relayout_runtime::Module::read(module).map_err(|e| e.to_string())?;
    let options = Options {
        threads: group.threads as usize,
        ..Options::default()
    };
    let mut session = Session::new(module, &options).map_err(|e| e.to_string())?;
    let inputs = reference::inputs(&loaded.model, config.seed, &binding).map_err(|e| e.to_string())?;
    let mut prepared = session.prepare(None, &inputs).map_err(|e| e.to_string())?;
    let samples = sample(config, &mut || prepared.run().map_err(|e| e.to_string()))?;
    emit(&Event::Samples { samples });
    Ok(())
}

struct Cell<'a> {
    config: &'a Config,
    group: &'a Group,
    strategy: &'a crate::config::StrategyEntry,
    table: &'a ProfileTable,
}

/// Why a cell ends early.
struct Stop {
    phase: Phase,
    status: CellStatus,
    message: String,
}

fn stop(phase: Phase, status: CellStatus) -> impl Fn(String) -> Stop {
    move |message| Stop {
        phase,
        status: status.clone(),
        message,
    }
}

fn run_cell(
    cell: &Cell<'_>,
    mut record: CellRecord,
    reference: &std::path::Path,
    module: Option<&std::path::Path>,
) {
    record.started_unix_ms = Some(machine::now_ms());
    if let Err(stop) = cell_phases(cell, &mut record, reference, module) {
        record.status = stop.status;
        record.failure = (!stop.message.is_empty()).then(|| Failure {
            phase: stop.phase,
            message: stop.message,
            stderr_tail: String::new(),
        });
    }
    record.finished_unix_ms = Some(machine::now_ms());
    emit(&Event::Phase {
        phase: Phase::Done,
        record: Box::new(record),
    });
}

fn cell_phases(
    cell: &Cell<'_>,
    record: &mut CellRecord,
    reference: &std::path::Path,
    keep: Option<&std::path::Path>,
) -> Result<(), Stop> {
    let done = |phase: Phase, record: &CellRecord| {
        emit(&Event::Phase {
            phase,
            record: Box::new(record.clone()),
        })
    };

    emit(&Event::Starting {
        phase: Phase::Instance,
    });
    let failed = stop(Phase::Instance, CellStatus::InstanceFailed);
    let (loaded, binding, parts) = prepare(cell.config, cell.group).map_err(&failed)?;
    let toolchain = Toolchain::detect().map_err(|e| failed(e.to_string()))?;
    let machine_hash = machine::fingerprint_hash();
    let keys = |spec: &CallSpec, binding: &ShapeBinding| {
        unit_key(
            spec,
            binding,
            &parts.target,
            &toolchain,
            cell.group.threads,
            &machine_hash,
        )
    };
    let pricing = Pricing {
        target: &parts.target,
        coefficients: &parts.coefficients,
        model: match cell.group.cost_model {
            CostModelKind::Analytic => CostModel::Analytic,
            CostModelKind::Profiled => CostModel::Profiled(cell.table),
        },
        unit_key: &keys,
    };
    let start = Instant::now();
    let bindings = std::slice::from_ref(&binding);
    let extraction = extract(
        &loaded.model.module,
        &loaded.label,
        Some(&loaded.family),
        &pricing,
        bindings,
        cell.config.domain,
    )
    .map_err(|e| failed(e.to_string()))?;
    let extract_seconds = start.elapsed().as_secs_f64();
    record.instance = Some(instance_facts(&extraction));
    done(Phase::Instance, record);

    emit(&Event::Starting { phase: Phase::Solve });
    let assignment = solve(cell, &extraction, &binding, record)?;
    if cell.group.cost_model == CostModelKind::Profiled {
        record.profiled_sum_ms = record.predicted_cost().map(|ns| ns as f64 / 1e6);
    }
    done(Phase::Solve, record);

    emit(&Event::Starting {
        phase: Phase::Compile,
    });
    let failed = stop(Phase::Compile, CellStatus::CompileError);
    let start = Instant::now();
    let mut selected = loaded.model.module.clone();
    let applied = apply(&mut selected, &extraction, &assignment).map_err(|e| failed(e.to_string()))?;
    record.plan = Some(plan_facts(&selected, &applied, &binding));
    let options = CompileOptions {
        name: loaded.label.clone(),
        toolchain: Some(toolchain.clone()),
        ..CompileOptions::default()
    };
    let compiled =
        pipeline::compile_selected(&selected, &parts.target, &options).map_err(|e| failed(e.to_string()))?;
    let solve_seconds = record.solve.as_ref().map_or(0.0, |s| s.seconds);
    let mut phases = vec![
        PhaseSeconds {
            phase: "extract".into(),
            seconds: extract_seconds,
        },
        PhaseSeconds {
            phase: "select".into(),
            seconds: solve_seconds,
        },
    ];
    phases.extend(compiled.report.times.iter().map(|(p, t)| PhaseSeconds {
        phase: p.name().into(),
        seconds: t.as_secs_f64(),
    }));
    let seconds = start.elapsed().as_secs_f64() + extract_seconds + solve_seconds;
    record.compile = Some(CompileFacts { seconds, phases });
    if let Some(path) = keep {
        compiled.module.write(path).map_err(|e| failed(e.to_string()))?;
    }
    done(Phase::Compile, record);

    emit(&Event::Starting { phase: Phase::Run });
    let failed = stop(Phase::Run, CellStatus::RunError);
    let expected = reference::read(reference).map_err(|e| failed(e.to_string()))?;
    let inputs =
        reference::inputs(&loaded.model, cell.config.seed, &binding).map_err(|e| failed(e.to_string()))?;
    let session_options = Options {
        threads: cell.group.threads as usize,
        ..Options::default()
    };
    let mut session = Session::new(compiled.module, &session_options).map_err(|e| failed(e.to_string()))?;
    if let Some(plan) = &mut record.plan {
        plan.repacked_constant_bytes = Some(session.load_report().repacked_bytes);
    }
    let mut prepared = session
        .prepare(None, &inputs)
        .map_err(|e| failed(e.to_string()))?;
    prepared.run().map_err(|e| failed(e.to_string()))?;
    let found = prepared.outputs().map_err(|e| failed(e.to_string()))?;
    let correctness = reference::compare(&found, &expected, cell.config.tolerance);
    record.correctness = Some(correctness);
    if !correctness.passed() {
        let message = match correctness.max_relative_error {
            Some(e) => format!(
                "largest relative error {e:.3e}, allowed {:.1e}",
                cell.config.tolerance
            ),
            None => "outputs differ in shape, type or finiteness from the reference".into(),
        };
        return Err(Stop {
            phase: Phase::Run,
            status: CellStatus::Mismatch,
            message,
        });
    }
    let before = machine::clock_mhz();
    let samples = sample(cell.config, &mut || prepared.run().map_err(|e| e.to_string())).map_err(&failed)?;
    record.clock = Some(machine::clock_evidence(before));
    let latency =
        Latency::from_processes(LatencyMode::Isolated, vec![samples]).map_err(|e| failed(e.to_string()))?;
    record.latency = Some(latency);
    record.status = CellStatus::Ok;
    done(Phase::Run, record);
    Ok(())
}

/// Most samples of a process that are kept. A model of microseconds takes some hundred thousand in the least time; then every
/// second one is kept, every fourth, and so on, all over that time.
const MAX_SAMPLES: usize = 4096;

/// Warm-up, then samples until both the number and the time asked for are reached, or the time allowed is over.
fn sample(config: &Config, run: &mut dyn FnMut() -> Result<(), String>) -> Result<ProcessSamples, String> {
    let policy = &config.measure;
    for _ in 0..policy.warmup {
        run()?;
    }
    let start = Instant::now();
    let most = MAX_SAMPLES.max(2 * policy.samples as usize);
    let mut samples_ms = Vec::with_capacity(policy.samples as usize);
    let mut stride = 1u64;
    for number in 0u64.. {
        let before = Instant::now();
        run()?;
        if number.is_multiple_of(stride) {
            samples_ms.push(before.elapsed().as_secs_f64() * 1e3);
        }
        if samples_ms.len() > most {
            let mut index = 0;
            samples_ms.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            stride *= 2;
        }
        let elapsed = start.elapsed().as_secs_f64();
        let enough = samples_ms.len() >= policy.samples as usize && elapsed >= policy.min_time;
        // A median needs three samples, however slow they are.
        if enough || (elapsed >= policy.max_time && samples_ms.len() >= 3) {
            break;
        }
    }
    Ok(ProcessSamples {
        warm_up: policy.warmup,
        samples_ms,
    })
}

fn instance_facts(extraction: &Extraction) -> InstanceFacts {
    let problem = &extraction.problem;
    let facts = |graph: &Graph, tensors: usize| {
        let width =
            decomposition::treewidth(graph, &Budget::default().with_time_limit(Duration::from_secs(5)));
        GraphFacts {
            operators: graph.len() as u64,
            tensors: tensors as u64,
            treewidth_lower: u32::try_from(width.lower).ok(),
            treewidth_upper: u32::try_from(width.upper).ok(),
        }
    };
    let (plain, kept) = Graph::without_constants(problem);
    InstanceFacts {
        hash: problem.hash(),
        graph: facts(&Graph::of(problem), problem.tensors().len()),
        without_constants: Some(facts(&plain, kept.len())),
        granularity: Some(
            "operators of the canonicalised graph, before fusion; parameters, constants and results included"
                .into(),
        ),
        domain_policy: serde_json::to_value(extraction.policy)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned)),
    }
}

fn solve(
    cell: &Cell<'_>,
    extraction: &Extraction,
    binding: &ShapeBinding,
    record: &mut CellRecord,
) -> Result<Vec<relayout_layouts::ConfigId>, Stop> {
    let failed = stop(Phase::Solve, CellStatus::SolveFailed);
    let problem = &extraction.problem;
    let strategy = strategy_of(cell.strategy).map_err(|e| failed(e.to_string()))?;
    let budget = Budget {
        seed: cell.config.seed,
        ..Budget::default()
    }
    .with_time_limit(Duration::from_secs_f64(cell.config.budget.time))
    .with_memory_limit(cell.config.budget.memory);
    let mut trace = Vec::new();
    let start = Instant::now();
    let answer = strategy.solve(
        problem,
        &budget,
        &mut Trace::new(|p| {
            trace.push(TracePoint {
                seconds: p.seconds,
                incumbent: p.incumbent,
                bound: p.bound,
            })
        }),
    );
    let seconds = start.elapsed().as_secs_f64();
    let solutions = answer.map_err(|e| failed(e.to_string()))?;
    let status = match solutions.status {
        Status::Optimal => SolverStatus::Optimal,
        Status::Feasible => SolverStatus::Feasible,
        Status::Infeasible => SolverStatus::Infeasible,
        Status::NoPlan => SolverStatus::NoPlan,
        Status::Timeout => SolverStatus::Timeout,
        Status::OutOfMemory => SolverStatus::OutOfMemory,
        Status::MissingHints => SolverStatus::MissingHints,
    };
    let best = solutions.best();
    let mut facts = SolveFacts {
        status,
        unit: problem.unit().to_owned(),
        cost: None,
        per_binding: Vec::new(),
        lower_bound: Some(solutions.lower_bound),
        seconds,
        peak_bytes: Some(solutions.peak_bytes),
        trace,
        ties: solutions
            .counters
            .get("tied_operators")
            .map(|&tied_operators| TieFacts {
                tied_operators,
                reversed_cost: solutions.counters.get("cost_under_reversed_ties").copied(),
            }),
        terms: Default::default(),
        counters: solutions
            .counters
            .iter()
            .map(|(k, v)| ((*k).to_owned(), *v))
            .collect(),
    };
    let Some(best) = best else {
        record.solve = Some(facts);
        let status = match status {
            SolverStatus::Infeasible => CellStatus::Infeasible,
            SolverStatus::NoPlan => CellStatus::NoPlan,
            SolverStatus::Timeout => CellStatus::SolverTimeout,
            SolverStatus::OutOfMemory => CellStatus::SolverOutOfMemory,
            SolverStatus::MissingHints => CellStatus::MissingHints,
            _ => CellStatus::SolveFailed,
        };
        let message = format!(
            "`{}` ended with `{}` and no assignment",
            cell.strategy.label, solutions.status
        );
        return Err(Stop {
            phase: Phase::Solve,
            status,
            message,
        });
    };
    // The checker, not the solver, says what the assignment costs.
    let wrong = stop(Phase::Solve, CellStatus::CheckFailed);
    let checked = relayout_layouts::check(problem, &best.assignment).map_err(|e| wrong(e.to_string()))?;
    if checked.cost != best.cost {
        return Err(wrong(format!(
            "bug: the strategy claims cost {}, the checker computes {}",
            best.cost, checked.cost
        )));
    }
    facts.cost = Some(CostSplit {
        operator_cost: checked.operator_cost,
        transpose_cost: checked.transpose_cost,
    });
    facts.per_binding = extraction
        .cost_per_binding(&best.assignment, 1)
        .into_iter()
        .map(|(operator_cost, transpose_cost)| BindingCost {
            dims: binding
                .values
                .iter()
                .map(|(k, v)| (k.clone(), v.unsigned_abs()))
                .collect(),
            cost: CostSplit {
                operator_cost,
                transpose_cost,
            },
        })
        .collect();
    let mut terms = Terms::none();
    for (op, config) in best.assignment.iter().enumerate() {
        terms.add_all(&extraction.terms[op][config.index()]);
    }
    facts.terms = terms.iter().map(|(n, a)| (n.to_owned(), a as f64)).collect();
    record.solve = Some(facts);
    Ok(best.assignment.clone())
}

fn plan_facts(module: &relayout_ir::graph::Module, applied: &Applied, binding: &ShapeBinding) -> PlanFacts {
    let function = module.entry().map(|e| &module.functions[e]);
    let bytes_of = |tensor: &str| {
        let info = function?
            .values
            .iter()
            .find(|(_, v)| v.name == tensor)?
            .1
            .annotation
            .as_tensor()?
            .clone();
        let value = |v: &relayout_ir::sym::SymVar| binding.values.get(v.name()).copied();
        let elements = relayout_ir::sym::product(info.dims()?).eval(&value)?;
        Some(elements.unsigned_abs() * info.dtype?.bytes() as u64)
    };
    let run_time: Vec<_> = applied
        .conversions
        .iter()
        .filter(|c| !c.constant && !c.alias)
        .collect();
    let list: Vec<Conversion> = run_time
        .iter()
        .map(|c| Conversion {
            tensor: c.tensor.clone(),
            from: c.from.to_string(),
            to: c.to.to_string(),
            bytes: bytes_of(&c.tensor),
        })
        .collect();
    let layouts: Vec<TensorLayout> = applied
        .layouts
        .iter()
        .map(|(t, l)| TensorLayout {
            tensor: t.clone(),
            layout: l.to_string(),
        })
        .collect();
    let mut hasher = blake3::Hasher::new();
    for l in &layouts {
        hasher.update(format!("{} {}\n", l.tensor, l.layout).as_bytes());
    }
    for c in &applied.conversions {
        hasher.update(format!("{} {} {}\n", c.tensor, c.from, c.to).as_bytes());
    }
    PlanFacts {
        hash: hasher.finalize().to_hex()[..16].to_owned(),
        conversions: list.len() as u64,
        conversion_bytes: list.iter().map(|c| c.bytes).sum(),
        repacked_constant_bytes: None,
        layouts,
        conversion_list: list,
    }
}

/// The status of a worker that died without a last word.
pub fn status_of_death(status: std::process::ExitStatus, stderr: &str) -> CellStatus {
    use std::os::unix::process::ExitStatusExt;
    let no_memory = stderr.contains("memory allocation of") || stderr.contains("std::bad_alloc");
    match (status.signal(), status.code()) {
        (Some(_), _) if no_memory => CellStatus::OutOfMemory {
            memory: MemoryKind::Host,
        },
        (Some(signal), _) => CellStatus::Crashed { signal },
        (None, Some(code)) => CellStatus::Exited { code },
        (None, None) => CellStatus::Exited { code: -1 },
    }
}
