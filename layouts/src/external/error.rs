//! Why an outside program gave no answer.

/// The program, what went wrong, and the last of what it wrote to its standard error.
#[derive(Debug, thiserror::Error)]
#[error("{program} {fault}{}", tail(.stderr_tail))]
pub struct ExternalError {
    /// The program's name.
    pub program: String,
    /// What went wrong.
    pub fault: Fault,
    /// The last lines of its standard error.
    pub stderr_tail: String,
}

/// The ways in which an outside program can fail. Each message goes on after the program's name.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // each message says what the fields are
pub enum Fault {
    #[error("was not run: its instance file could not be written: {0}")]
    Instance(std::io::Error),
    #[error("was not run: its command uses {{time_limit}}, but there is no time limit")]
    NoTimeLimit,
    #[error("could not be started: {0}")]
    Start(std::io::Error),
    #[error("could not be waited for: {0}")]
    Wait(std::io::Error),
    #[error("died ({how}) without a complete answer")]
    Died { how: String },
    #[error("ended ({how}) without an answer: no line that says a cost, an assignment or a result")]
    NoAnswer { how: String },
    #[error("printed a line of more than {0} bytes")]
    LongLine(usize),
    #[error("printed, in line {line}, {found:?}; expected {expected}")]
    Malformed {
        line: u64,
        found: String,
        expected: String,
    },
    #[error("printed a model that is no assignment: {0}")]
    Model(String),
    #[error("says that it found the optimum, but not what it costs (an `o` line)")]
    NoCost,
    #[error("says that it found {what}, but printed no assignment{hint}")]
    NoAssignment { what: &'static str, hint: &'static str },
    #[error("says that there is no assignment, after one of cost {0}")]
    NotInfeasible(u64),
    #[error("claims that nothing is cheaper than {bound}, after an assignment of cost {cost}")]
    WrongBound { bound: u64, cost: u64 },
}

fn tail(stderr: &str) -> String {
    let stderr = stderr.trim_end();
    if stderr.is_empty() {
        String::new()
    } else {
        format!("; the end of its standard error:\n{stderr}")
    }
}
