//! The commands, one file each, and what they share: exit codes, errors, output.

mod cache;
mod check;
mod compile;
mod completions;
mod diff;
mod doctor;
mod error;
mod exec;
mod export;
mod generate;
mod input;
mod instance;
mod list;
pub mod output;
mod plot;
mod profile;
mod run_folder;
mod schema;
mod solve;
mod strategy;

pub use error::CommandError;
pub use input::read_instance;
pub use run_folder::RunFolder;
pub use schema::schema;
pub use strategy::{exact_without, external_program, solvers, strategy_of, strategy_with_solver};

use crate::cli::{Cli, Command, RunArgs};
use crate::run::{self, RunOptions};
use crate::worker;
use clap::Parser;
use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success; of `diff`: the same or better.
    Success = 0,
    /// What was asked for failed or is worse.
    Failed = 1,
    /// Usage or configuration error; unreadable input.
    Usage = 2,
    /// An output could not be written.
    Io = 3,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    // Prints help and usage errors itself, with codes 0 and 2.
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            output::report(&error);
            error.exit().into()
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Run(args) => return Ok(run::run(&run_options(args))),
        Command::Worker => return Ok(worker::main()),
        Command::Plot(args) => plot::plot(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Solve(args) => solve::solve(&args),
        Command::Check(args) => check::check(&args),
        Command::Instance(args) => instance::instance(&args),
        Command::Export(args) => export::export(&args),
        Command::Generate(args) => generate::generate(&args),
        Command::Compile(args) => compile::compile(&args),
        Command::Exec(args) => exec::exec(&args),
        Command::Profile(args) => profile::profile(&args),
        Command::Cache(args) => cache::cache(&args),
        Command::Models(args) => list::models(&args),
        Command::Strategies(args) => list::strategies(&args),
        Command::Targets(args) => list::targets(&args),
        Command::Schema => schema::print(),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions { shell } => completions::completions(shell),
    }
    .map(ExitCode::from)
}

fn run_options(args: RunArgs) -> RunOptions {
    RunOptions {
        config: args.config,
        out: args.output,
        overrides: args.overrides,
        filter: args.filter,
        dry_run: args.dry_run,
        shard: args.shard,
        rerun: args.rerun,
        fail_fast: args.fail_fast,
        json: args.json,
    }
}
