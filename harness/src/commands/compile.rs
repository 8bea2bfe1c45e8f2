//! `relayout compile`, and what `exec` shares with it: from a prepared model to a runtime module.

use super::instance::{Prepared, policy, prepare};
use super::solve::{interruptible, recheck};
use super::{CommandError, Exit, output, strategy_with_solver};
use crate::cli::{CompileArgs, DomainChoice, LimitArgs};
use crate::config::suggest;
use relayout_compiler::apply::apply;
use relayout_compiler::extract::DomainPolicy;
use relayout_compiler::pipeline::{CompileOptions, CompiledModule, Pass, compile_selected};
use relayout_ir::text;
use relayout_layouts::{Budget, Trace};
use relayout_runtime::WriteError as ModuleError;

/// Names under which the IR before the pass list can be shown.
const EARLY: [&str; 2] = ["canonicalise", "select-layouts"];

/// How a model is compiled.
pub struct Recipe<'a> {
    /// The strategy.
    pub strategy: &'a str,
    /// Its solver and limits.
    pub limits: &'a LimitArgs,
    /// Seed of the strategy.
    pub seed: u64,
    /// Candidate layouts.
    pub policy: DomainPolicy,
    /// Names of passes after which the IR is kept.
    pub dump: Vec<String>,
    /// Optional passes that are left out.
    pub without: Vec<Pass>,
}

/// A compiled model.
pub struct Compiled {
    /// The module with the compiler's report.
    pub module: CompiledModule,
    /// IR before the pass list, by name.
    pub early_dumps: Vec<(&'static str, String)>,
}

/// Compiles a model to a file.
pub fn compile(args: &CompileArgs) -> Result<Exit, CommandError> {
    if args.output.as_os_str() == "-" && !args.dump_ir.is_empty() {
        let message = "module and `--dump-ir` can't both go to standard output".to_owned();
        return Err(CommandError::Usage {
            message,
            help: Some("give `-o` a file".to_owned()),
        });
    }
    let recipe = Recipe {
        strategy: &args.strategy,
        limits: &args.limits,
        seed: args.model.seed,
        policy: policy(args.domain),
        dump: args.dump_ir.clone(),
        without: args
            .without
            .iter()
            .map(|name| optional_pass(name))
            .collect::<Result<_, _>>()?,
    };
    recipe.check()?;
    let compiled = recipe.compile(&prepare(&args.model)?)?;
    let bytes = compiled
        .module
        .module
        .to_bytes()
        .map_err(|e: ModuleError| CommandError::failed(e))?;
    output::write_file(&args.output, |file| file.write_all(&bytes))?;
    let report = &compiled.module.report;
    for (name, text) in &compiled.early_dumps {
        output::print(&format!("# after {name}\n{text}\n"))?;
    }
    for (pass, text) in &report.dumps {
        output::print(&format!("# after {}\n{text}\n", pass.name()))?;
    }
    let seconds: f64 = report.times.iter().map(|(_, time)| time.as_secs_f64()).sum();
    output::message(&format!(
        "{}: {} kernels, {} calls, {} storages, {} in {seconds:.2} s",
        args.output.display(),
        report.kernels,
        report.calls,
        report.storages,
        output::human_bytes(bytes.len() as u64)
    ));
    Ok(Exit::Success)
}

fn pass(name: &str) -> Result<Pass, CommandError> {
    Pass::by_name(name).ok_or_else(|| {
        let names = EARLY.into_iter().chain(Pass::ORDER.map(Pass::name));
        CommandError::Unknown {
            what: "pass",
            found: name.to_owned(),
            help: suggest(name, names),
        }
    })
}

fn optional_pass(name: &str) -> Result<Pass, CommandError> {
    let found = pass(name)?;
    if found.optional() {
        return Ok(found);
    }
    let names: Vec<&str> = Pass::ORDER
        .into_iter()
        .filter(|p| p.optional())
        .map(Pass::name)
        .collect();
    let help = Some(format!("optional are {}", names.join(", ")));
    Err(CommandError::Usage {
        message: format!("pass `{name}` can't be left out"),
        help,
    })
}

impl Recipe<'_> {
    /// The recipe of a strategy with the default candidates and all passes.
    pub fn plain<'a>(strategy: &'a str, limits: &'a LimitArgs, seed: u64) -> Recipe<'a> {
        let policy = policy(DomainChoice::Spread);
        Recipe {
            strategy,
            limits,
            seed,
            policy,
            dump: Vec::new(),
            without: Vec::new(),
        }
    }

    /// Finds unknown names before anything expensive is done.
    ///
    /// # Errors
    /// For a strategy, solver or pass that does not exist.
    pub fn check(&self) -> Result<(), CommandError> {
        strategy_with_solver(self.strategy, self.limits.solver.as_deref())?;
        self.passes().map(|_| ())
    }

    fn passes(&self) -> Result<Vec<Pass>, CommandError> {
        self.dump
            .iter()
            .filter(|name| !EARLY.contains(&name.as_str()))
            .map(|name| pass(name))
            .collect()
    }

    /// Selects layouts, applies them and generates code.
    ///
    /// # Errors
    /// When the strategy finds no assignment, or a step fails.
    pub fn compile(&self, prepared: &Prepared) -> Result<Compiled, CommandError> {
        let strategy = strategy_with_solver(self.strategy, self.limits.solver.as_deref())?;
        let wanted = |name: &str| self.dump.iter().any(|d| d == name);
        let mut early_dumps = Vec::new();
        if wanted(EARLY[0]) {
            early_dumps.push((EARLY[0], text::print(&prepared.loaded.model.module)));
        }
        let extraction = prepared.extract(self.policy)?;
        let (answer, interrupted) = interruptible(|cancel| {
            let budget = Budget {
                seed: self.seed,
                cancel,
                ..Budget::default()
            }
            .with_memory_limit(self.limits.memory_limit)
            .with_time_limit(self.limits.time_limit);
            strategy.solve(&extraction.problem, &budget, &mut Trace::silent())
        });
        let solutions = answer.map_err(CommandError::failed)?;
        if interrupted {
            return Err(CommandError::Interrupted);
        }
        let Some(best) = solutions.best() else {
            let message = format!(
                "`{}` ended with `{}` and no assignment",
                self.strategy, solutions.status
            );
            return Err(CommandError::failed(message));
        };
        recheck(&extraction.problem, best)?;
        let mut selected = prepared.loaded.model.module.clone();
        let applied = apply(&mut selected, &extraction, &best.assignment).map_err(CommandError::failed)?;
        if wanted(EARLY[1]) {
            early_dumps.push((EARLY[1], text::print(&selected)));
        }
        let run_time = applied
            .conversions
            .iter()
            .filter(|c| !c.constant && !c.alias)
            .count();
        output::message(&format!(
            "{}: {} ({}), predicted {} {}, {run_time} conversions at run time",
            prepared.name(),
            self.strategy,
            solutions.status,
            best.cost,
            extraction.problem.unit()
        ));
        let options = CompileOptions {
            name: prepared.name().to_owned(),
            without: self.without.clone(),
            dump: self.passes()?,
            ..CompileOptions::default()
        };
        let module =
            compile_selected(&selected, &prepared.target.target, &options).map_err(CommandError::failed)?;
        Ok(Compiled { module, early_dumps })
    }
}
