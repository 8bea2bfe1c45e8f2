//! The command line: names, arguments and help texts. What the commands do is in [`crate::commands`].

mod parse;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use parse::{assignment, bytes, count, duration, input, range, shard};
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` says after the commands; the codes are those of [`crate::commands::Exit`].
const AFTER_HELP: &str = "\
Results go to standard output, progress and messages to standard error.

Exit codes:
  0    success (diff: the head is the same or better)
  1    what was asked for failed or is worse: a failed cell, no assignment found, an assignment that is
       invalid or costs other than claimed, a worse diff
  2    usage or configuration: bad arguments, unknown names, unreadable or malformed input, parts that
       this build lacks
  3    an output could not be written, such as on a full disk
  130  interrupted

MODEL is a name of `relayout models` with overrides (`llama layers=4 hidden=1024`) or a path to an .onnx file.
An output named `-` is standard output.";

/// A compiler that chooses tensor layouts with proofs, and the harness that measures what the choices are worth.
#[derive(Clone, Debug, Parser)]
#[command(name = "relayout", version, after_help = AFTER_HELP, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Run an experiment; an interrupted or killed one goes on where it was
    Run(RunArgs),
    /// Draw the figures and tables of a run
    Plot(PlotArgs),
    /// Compare two runs
    Diff(DiffArgs),
    /// Solve a layout selection instance
    Solve(SolveArgs),
    /// Recompute the cost of a solution, independently of every solver
    Check(CheckArgs),
    /// Extract the layout selection instance of a model
    Instance(InstanceArgs),
    /// Write an instance in the format of another tool
    Export(ExportArgs),
    /// Generate an instance
    #[command(subcommand)]
    Generate(GenerateCommand),
    /// Compile a model to a module file
    Compile(CompileArgs),
    /// Execute a model or a compiled module
    Exec(ExecArgs),
    /// Show a run's measured kernels, layout against layout
    Profile(ProfileArgs),
    /// Show or clear the cache of compiled kernels
    Cache(CacheArgs),
    /// List the models that are built in
    Models(ListArgs),
    /// List the strategies and their solvers
    Strategies(ListArgs),
    /// List the targets that are built in
    Targets(ListArgs),
    /// Print the JSON Schema of the experiment configuration
    Schema,
    /// Say which optional parts are here and how to get the others
    Doctor(ListArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// One piece of a run in a process of its own; a request comes on standard input
    #[command(hide = true)]
    Worker,
}

/// Arguments of the listing commands.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Limits of a strategy, and its solver.
#[derive(Clone, Debug, Args)]
pub struct LimitArgs {
    /// The strategy's solver, where it has a choice
    #[arg(long, value_name = "NAME")]
    pub solver: Option<String>,
    /// Time after which the best answer so far is given
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = duration)]
    pub time_limit: Duration,
    /// Bytes that the strategy's tables may take together
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = bytes)]
    pub memory_limit: u64,
}

/// What an outside solver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgramFormat {
    /// Weighted CNF (2022); answers with the MaxSAT Evaluation's o, s and v lines
    Wcnf,
    /// Cost function network; answers as toulbar2 does with -s
    Cfn,
}

/// Arguments of `solve`.
#[derive(Clone, Debug, Args)]
pub struct SolveArgs {
    /// The instance (layout-selection/1 JSON, .cfn, or the IOPDDL contest's JSON; zstd or gzip)
    pub instance: PathBuf,
    /// The strategy, one of `relayout strategies`
    #[arg(long, value_name = "NAME")]
    pub strategy: String,
    /// Of `external`: the program with its arguments; {instance} is the instance file, {time_limit} the seconds left,
    /// {memory_limit} MiB, {seed} and {threads} what they are here
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Of `external`: what the program reads
    #[arg(long, value_enum)]
    pub format: Option<ProgramFormat>,
    /// Of `exact`: reductions to leave out, such as `dominance,subsets`
    #[arg(long, value_name = "SWITCH,…", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Threads that may work side by side, where the strategy can use several
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub threads: usize,
    /// Of the contest's instances: leave their memory limit over time out
    #[arg(long)]
    pub ignore_usage_limit: bool,
    /// Solver and limits
    #[command(flatten)]
    pub limits: LimitArgs,
    /// How many solutions are wanted, cheapest first; strategies that cannot enumerate give one
    #[arg(short, value_name = "N", default_value_t = 1, value_parser = count)]
    pub k: usize,
    /// In how many tensors any two of the solutions must differ (layout produced or conversions), at least
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub min_distance: usize,
    /// Seed of whatever the strategy draws
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print incumbents and bounds to standard error as they come
    #[arg(short, long)]
    pub verbose: bool,
}

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The instance, of any form that `solve` reads
    pub instance: PathBuf,
    /// The solution: what `solve --json` prints, or an object with an `assignment`
    pub solution: PathBuf,
    /// Of the contest's instances: leave their memory limit over time out
    #[arg(long)]
    pub ignore_usage_limit: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A model at given shapes.
#[derive(Clone, Debug, Args)]
pub struct ModelArgs {
    /// A name of `relayout models` or a path to an .onnx file, then overrides as key=value
    #[arg(required = true, num_args = 1.., value_name = "MODEL [key=value]")]
    pub model: Vec<String>,
    /// A built-in target or a path to a description
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub target: String,
    /// Batch size
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub batch: u64,
    /// Value of a symbolic dimension
    #[arg(long = "set", value_name = "DIM=VALUE", value_parser = assignment)]
    pub dims: Vec<(String, i64)>,
    /// Seed of the weights (and of inputs, where they are drawn)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

impl ModelArgs {
    /// The model as one text: name or path, then overrides.
    pub fn text(&self) -> String {
        self.model.join(" ")
    }
}

/// Candidate layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DomainChoice {
    /// Layouts that spread from the layout-sensitive operators
    Spread,
    /// Every layout of every tensor
    Full,
}

/// Arguments of `instance`.
#[derive(Clone, Debug, Args)]
pub struct InstanceArgs {
    /// The model
    #[command(flatten)]
    pub model: ModelArgs,
    /// The cost model: analytic or profiled
    #[arg(long, value_name = "NAME", default_value = "analytic")]
    pub cost_model: String,
    /// Measured kernels for the profiled cost model: the `profile.json` of a run
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Threads that the kernels were measured on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Candidate layouts
    #[arg(long, value_enum, default_value_t = DomainChoice::Spread)]
    pub domain: DomainChoice,
    /// The instance file, compressed when its name ends in .zst
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Arguments of `compile`.
#[derive(Clone, Debug, Args)]
pub struct CompileArgs {
    /// The model
    #[command(flatten)]
    pub model: ModelArgs,
    /// The strategy that selects layouts, one of `relayout strategies`
    #[arg(long, value_name = "NAME", default_value = "exact")]
    pub strategy: String,
    /// Solver and limits
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Candidate layouts
    #[arg(long, value_enum, default_value_t = DomainChoice::Spread)]
    pub domain: DomainChoice,
    /// Print the IR (after `schedule`: the C text) as it is after a pass; may be given several times
    #[arg(long, value_name = "PASS")]
    pub dump_ir: Vec<String>,
    /// Leave an optional pass out; may be given several times
    #[arg(long, value_name = "PASS")]
    pub without: Vec<String>,
    /// The module file
    #[arg(short, long, value_name = "FILE.rlm")]
    pub output: PathBuf,
}

/// Arguments of `exec`.
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    /// The model; or a compiled module, a path to an .rlm file
    #[command(flatten)]
    pub model: ModelArgs,
    /// The strategy that selects layouts, one of `relayout strategies`
    #[arg(long, value_name = "NAME", default_value = "exact")]
    pub strategy: String,
    /// Solver and limits
    #[command(flatten)]
    pub limits: LimitArgs,
    /// An input (NumPy); those not given are drawn from the seed
    #[arg(long = "input", value_name = "NAME=FILE.npy", value_parser = input)]
    pub inputs: Vec<(String, PathBuf)>,
    /// Where each output is written as NAME.npy
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Timed runs; with more than one, an untimed run comes first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Threads of the device; by default one per available core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The experiment (YAML; `relayout schema` describes it)
    pub config: PathBuf,
    /// Overrides: `key=value`, `section.key=value`, `~key`
    #[arg(value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// The run's folder; by default results/NAME
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Only the cells that pass, such as `model=resnet50,strategy!=local`
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Show the plan and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Only shard I of N, counted from 1
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<(usize, usize)>,
    /// Run complete cells of this status again; `failed` is every failure
    #[arg(long, value_name = "STATUS", value_parser = clap::builder::PossibleValuesParser::new(RERUN))]
    pub rerun: Option<String>,
    /// Stop at the first failed cell
    #[arg(long)]
    pub fail_fast: bool,
    /// Print the plan or the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `--rerun` takes: every failure, or one status of a complete cell.
const RERUN: [&str; 18] = [
    "failed",
    "ok",
    "mismatch",
    "instance-failed",
    "solve-failed",
    "infeasible",
    "no-plan",
    "missing-hints",
    "solver-timeout",
    "solver-out-of-memory",
    "check-failed",
    "compile-error",
    "run-error",
    "crashed",
    "exited",
    "timeout",
    "out-of-memory",
    "skipped",
];

/// Arguments of `profile`.
#[derive(Clone, Debug, Args)]
pub struct ProfileArgs {
    /// The run's folder, or its profile.json
    pub run: PathBuf,
    /// Print every operation with all its variants
    #[arg(long, conflicts_with = "fit")]
    pub operations: bool,
    /// Print a coefficient file for the analytic cost model, fitted to these kernels
    #[arg(long, conflicts_with = "json")]
    pub fit: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cache`.
#[derive(Clone, Debug, Args)]
pub struct CacheArgs {
    /// Remove every kernel
    #[arg(long)]
    pub clear: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Formats of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Weighted CNF of the MaxSAT Evaluation (2022)
    Wcnf,
    /// Cost function network of toulbar2
    Cfn,
    /// Operator graph, PACE
    Gr,
    /// Tree decomposition of the operator graph, PACE
    Td,
    /// Graphviz
    Dot,
}

/// Arguments of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// The instance, of any form that `solve` reads
    pub instance: PathBuf,
    /// Of the contest's instances: leave their memory limit over time out
    #[arg(long)]
    pub ignore_usage_limit: bool,
    /// The format
    #[arg(long, value_enum)]
    pub to: ExportFormat,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// What to generate.
#[derive(Clone, Debug, Subcommand)]
pub enum GenerateCommand {
    /// A random acyclic graph
    Random(RandomArgs),
    /// The seed paper's reduction from a random 3-SAT formula
    Sat(SatArgs),
    /// The seed paper's reduction from odd cycle transversal of a random graph
    Oct(OctArgs),
    /// One random layer, repeated
    Blocks(BlocksArgs),
}

/// Parameters of random graphs.
#[derive(Clone, Debug, Args)]
pub struct RandomParameters {
    /// An operator reads among this many tensors before it
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub window: usize,
    /// Most inputs of an operator
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub arity: usize,
    /// Fewest and most layouts of a tensor
    #[arg(long, value_name = "LOW..HIGH", default_value = "2..3", value_parser = range)]
    pub layouts: (u64, u64),
    /// Least and greatest share of configurations that are feasible, in percent
    #[arg(long, value_name = "LOW..HIGH", default_value = "30..90", value_parser = range)]
    pub feasible: (u64, u64),
    /// Least and greatest cost of a configuration
    #[arg(long, value_name = "LOW..HIGH", default_value = "0..40", value_parser = range)]
    pub costs: (u64, u64),
    /// Least and greatest cost of a conversion
    #[arg(long, value_name = "LOW..HIGH", default_value = "1..20", value_parser = range)]
    pub transposes: (u64, u64),
    /// Add what trips an encoding: tensors read twice, impossible and free conversions, constants, bundles
    #[arg(long)]
    pub odd: bool,
}

/// What every generator takes.
#[derive(Clone, Debug, Args)]
pub struct GenerateOutput {
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// The instance file, compressed when its name ends in .zst
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Arguments of `generate random`.
#[derive(Clone, Debug, Args)]
pub struct RandomArgs {
    /// Number of operators
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub operators: usize,
    /// The graph
    #[command(flatten)]
    pub graph: RandomParameters,
    /// Seed and file
    #[command(flatten)]
    pub output: GenerateOutput,
}

/// Arguments of `generate sat`.
#[derive(Clone, Debug, Args)]
pub struct SatArgs {
    /// Number of variables
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub variables: usize,
    /// Number of clauses; by default 4.26 per variable, where formulas are hardest
    #[arg(long, value_name = "N")]
    pub clauses: Option<usize>,
    /// Seed and file
    #[command(flatten)]
    pub output: GenerateOutput,
}

/// Arguments of `generate oct`.
#[derive(Clone, Debug, Args)]
pub struct OctArgs {
    /// Number of vertices
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub vertices: usize,
    /// Chance of an edge between two vertices, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub percent: u64,
    /// Seed and file
    #[command(flatten)]
    pub output: GenerateOutput,
}

/// Arguments of `generate blocks`.
#[derive(Clone, Debug, Args)]
pub struct BlocksArgs {
    /// Number of layers
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub layers: usize,
    /// Operators of a layer
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub operators: usize,
    /// No residual connection around a layer
    #[arg(long)]
    pub no_skip: bool,
    /// Scale costs at random within this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub perturb: u64,
    /// Scale this many percent of the costs, drawn at random
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub share: u64,
    /// Renumber operators and tensors at random and drop names
    #[arg(long)]
    pub shuffle: bool,
    /// The layer
    #[command(flatten)]
    pub graph: RandomParameters,
    /// Seed and file
    #[command(flatten)]
    pub output: GenerateOutput,
}

/// Arguments of `plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// The run's folder
    pub run: PathBuf,
    /// Where the figures go; by default `plots` inside the run's folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For a terminal
    Text,
    /// Markdown, for a pull request
    Md,
    /// One JSON object
    Json,
    /// JUnit XML, for CI
    Junit,
}

/// Arguments of `diff`.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The run's folder to compare with
    pub base: PathBuf,
    /// The run's folder that is compared
    pub head: PathBuf,
    /// What decides and from where on (YAML)
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The form
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub format: DiffFormat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
