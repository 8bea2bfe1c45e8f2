//! Why a command could not do what was asked, and the exit code that says so.

use crate::commands::Exit;
use crate::journal::WriteError;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Something that the user named does not exist.
    #[error("unknown {what} `{found}`")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// The name given.
        found: String,
        /// The nearest name, or all.
        help: Option<String>,
    },
    /// Arguments that do not go together.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What would be right.
        help: Option<String>,
    },
    /// A part that this build lacks.
    #[error("{what} is not built in")]
    NotBuiltIn {
        /// The part.
        what: String,
        /// How to get it.
        help: String,
    },
    /// An input can't be read or is malformed.
    #[error("{}{source}", .path.as_ref().map_or(String::new(), |p| format!("{}: ", p.display())))]
    Input {
        /// The file, where the cause does not name it.
        path: Option<PathBuf>,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// What was asked for failed.
    #[error("{source}")]
    Failed {
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Standard output could not be written.
    #[error("cannot write the result to standard output: {0}")]
    Stdout(std::io::Error),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl CommandError {
    /// A malformed or unreadable input whose error names its place.
    pub fn input(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        CommandError::Input {
            path: None,
            source: source.into(),
        }
    }
    /// A malformed or unreadable file.
    pub fn in_file(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        CommandError::Input {
            path: Some(path.to_owned()),
            source: source.into(),
        }
    }
    /// Something that was tried and failed.
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        CommandError::Failed {
            source: source.into(),
        }
    }
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            CommandError::Unknown { .. }
            | CommandError::Usage { .. }
            | CommandError::NotBuiltIn { .. }
            | CommandError::Input { .. } => Exit::Usage,
            CommandError::Failed { .. } => Exit::Failed,
            CommandError::Interrupted => Exit::Interrupted,
            CommandError::Stdout(_) | CommandError::Write(_) => Exit::Io,
        }
    }
    /// A line of help, where there is one.
    pub fn help(&self) -> Option<&str> {
        match self {
            CommandError::Unknown { help, .. } | CommandError::Usage { help, .. } => help.as_deref(),
            CommandError::NotBuiltIn { help, .. } => Some(help),
            _ => None,
        }
    }
}
