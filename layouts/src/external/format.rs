//! What an outside program reads, and with it how its answer is read.

use std::io::Write;

use crate::export;
use crate::nearest::nearest;
use crate::problem::Problem;

/// The form of the instance file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Weighted CNF in the 2022 form of the MaxSAT Evaluation; the answer has its `o`, `s` and `v` lines.
    Wcnf,
    /// A cost function network; the answer is what toulbar2 prints, with its solutions (`-s`).
    Cfn,
}

/// No form has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no instance format is named {name:?}; did you mean {nearest:?}?")]
pub struct UnknownFormat {
    /// The name asked for.
    pub name: String,
    /// The nearest name there is.
    pub nearest: &'static str,
}

impl Format {
    /// Every form with its name in configurations.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Wcnf, "wcnf"), (Self::Cfn, "cfn")];

    /// The name in configurations, which is also the extension of the instance file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wcnf => "wcnf",
            Self::Cfn => "cfn",
        }
    }

    /// The form with this name.
    ///
    /// # Errors
    /// [`UnknownFormat`], with the nearest name.
    pub fn from_name(name: &str) -> Result<Self, UnknownFormat> {
        match Self::ALL.iter().find(|(_, n)| *n == name) {
            Some((format, _)) => Ok(*format),
            None => Err(UnknownFormat {
                name: name.into(),
                nearest: nearest(name, &Self::ALL.map(|(_, n)| n)),
            }),
        }
    }

    /// Writes the instance.
    pub(super) fn write(self, problem: &Problem, out: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Wcnf => export::wcnf(problem, out),
            Self::Cfn => export::cfn(problem, out),
        }
    }
}
