//! `relayout completions`.

use super::{CommandError, Exit, output};
use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "relayout", &mut script);
    output::print_bytes(&script)?;
    Ok(Exit::Success)
}
