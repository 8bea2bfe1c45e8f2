//! `external`: any program that reads WCNF or `.cfn` and prints a standard answer.
//!
//! The instance is written to a file, the program runs in a process group of its own under the budget, its lines are read as
//! they come (`answer`, with a reader per way of printing), and what it says is worth what the checker confirms: an assignment has the
//! cost that the checker computes, and `optimal` needs the program to have claimed exactly that. A lower bound and a claim of infeasibility are
//! the program's word, taken unless it contradicts itself.
//!
//! At the deadline, or when cancelled, the program and its children are asked to stop, which makes many solvers print their best
//! answer, and are killed half a second later.

mod answer;
mod error;
mod evaluation;
mod format;
mod process;
mod system;
mod template;
mod toulbar2;

use std::time::{Duration, Instant};

pub use error::{ExternalError, Fault};
pub use format::{Format, UnknownFormat};
pub use template::{PLACEHOLDERS, Template, TemplateError, placeholders};

use crate::meter::DEFAULT_LIMIT;
use crate::problem::Problem;
use crate::strategy::{Budget, Solutions, SolveError, Status, Strategy, Trace};
use answer::{Answer, Ending, Refused};
use process::{Event, Line, Process, Reaped};

/// Its name where strategies are named.
pub const NAME: &str = "external";

/// One line on what it does.
pub const DESCRIPTION: &str =
    "any program that reads WCNF or .cfn and prints a standard answer; needs a command and a format";

/// How often the budget is looked at while the program is silent.
const TICK: Duration = Duration::from_millis(10);

/// How long a program that was asked to stop may take.
const GRACE: Duration = Duration::from_millis(500);

/// Bytes that a line may have per variable of the instance (a literal and a blank, or a name and a value), and beside them.
const BYTES_PER_VARIABLE: usize = 32;
const BYTES_PER_LINE: usize = 1 << 16;

/// The strategy: a command and what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// What tables call it.
    pub label: String,
    /// The command.
    pub command: Template,
    /// What it reads, and with it how it answers.
    pub format: Format,
}

impl External {
    /// A program by its command, such as `toulbar2 {instance} -s`. See [`Template::parse`] and [`PLACEHOLDERS`].
    ///
    /// # Errors
    /// Those of the command.
    pub fn new(label: impl Into<String>, command: &str, format: Format) -> Result<Self, TemplateError> {
        Ok(Self {
            label: label.into(),
            command: Template::parse(command)?,
            format,
        })
    }

    fn failed(&self, fault: Fault, stderr_tail: String) -> SolveError {
        ExternalError {
            program: self.label.clone(),
            fault,
            stderr_tail,
        }
        .into()
    }
}

impl Strategy for External {
    fn name(&self) -> &str {
        &self.label
    }

    fn solve(
        &self,
        problem: &Problem,
        budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        let bound = problem.sum_of_minimum_costs();
        trace.bound(bound);
        if let Some(o) = problem.operator_without_configs() {
            return Ok(Solutions::operator_without_configs(problem, o));
        }
        let fault = |fault| self.failed(fault, String::new());
        let folder = tempfile::tempdir().map_err(|e| fault(Fault::Instance(e)))?;
        let instance = folder.path().join(format!("instance.{}", self.format.name()));
        write(problem, self.format, &instance).map_err(|e| fault(Fault::Instance(e)))?;
        if budget.exhausted() {
            return Ok(Solutions::none(Status::Timeout, bound));
        }
        let memory = budget.memory_limit.unwrap_or(DEFAULT_LIMIT);
        if self.command.wants_time_limit() && budget.deadline.is_none() {
            return Err(fault(Fault::NoTimeLimit));
        }
        let left = budget
            .deadline
            .map_or(Duration::ZERO, |d| d.saturating_duration_since(Instant::now()));
        let words = self.command.fill(&template::Values {
            instance: instance.as_os_str(),
            time_limit: left.as_secs() + u64::from(left.subsec_nanos() > 0),
            memory_limit: memory >> 20,
            seed: budget.seed,
            threads: budget.threads,
        });
        let mut answer = Answer::new(problem, self.format);
        let longest = BYTES_PER_LINE + BYTES_PER_VARIABLE * answer.variables();
        let mut process = match Process::start(&words, memory, longest) {
            Ok(process) => process,
            // The limit does not even hold the program.
            Err(e) if e.kind() == std::io::ErrorKind::OutOfMemory => {
                return Ok(Solutions::none(Status::OutOfMemory, bound));
            }
            Err(e) => return Err(fault(Fault::Start(e))),
        };
        let listened = listen(&mut process, &mut answer, longest, budget, trace);
        let reaped = process.end();
        let stderr_tail = process.stderr_tail();
        let outcome = listened.and_then(|stopped| {
            let reaped = reaped.map_err(Fault::Wait)?;
            let ending = if stopped {
                Ending::Stopped
            } else {
                ending(&reaped, &stderr_tail)
            };
            let mut solutions = answer.finish(&ending, trace)?;
            // Linux counts what the process had resident between fork and exec, which was ours. Its own can't pass the limit.
            solutions.peak_bytes = reaped.peak_bytes.min(memory);
            Ok(solutions)
        });
        outcome.map_err(|refused| match refused {
            Refused::Fault(fault) => self.failed(fault, stderr_tail),
            Refused::Checker(error) => error,
        })
    }
}

/// The answer in what a program printed, for a run that happened elsewhere: the program ended by itself.
///
/// # Errors
/// As of a run.
pub fn read_answer(problem: &Problem, format: Format, output: &str) -> Result<Solutions, SolveError> {
    let trace = &mut Trace::silent();
    let mut answer = Answer::new(problem, format);
    let read = output.lines().try_for_each(|line| answer.line(line, trace));
    let ending = Ending::Itself("end of the output".into());
    let outcome = read.and_then(|()| answer.finish(&ending, trace));
    outcome.map_err(|refused| match refused {
        Refused::Fault(fault) => SolveError::from(ExternalError {
            program: "the program".into(),
            fault,
            stderr_tail: String::new(),
        }),
        Refused::Checker(error) => error,
    })
}

fn write(problem: &Problem, format: Format, path: &std::path::Path) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    format.write(problem, &mut out)?;
    std::io::Write::flush(&mut out)
}

/// Takes the program's lines until it ends or the budget does; says whether it was the budget.
fn listen(
    process: &mut Process,
    answer: &mut Answer<'_>,
    longest: usize,
    budget: &Budget,
    trace: &mut Trace<'_>,
) -> Result<bool, Refused> {
    let mut asked: Option<Instant> = None;
    loop {
        match process.next(TICK) {
            Event::Line(Line::Whole(line)) => answer.line(&line, trace)?,
            Event::Line(Line::TooLong) => return Err(Fault::LongLine(longest).into()),
            // What a stopped program was about to say is not known.
            Event::Line(Line::Cut(_)) if asked.is_some() => {}
            Event::Line(Line::Cut(line)) => answer.line(&line, trace)?,
            Event::Nothing => {}
            Event::End => return Ok(asked.is_some()),
        }
        match asked {
            None if budget.exhausted() => {
                process.ask_to_stop();
                asked = Some(Instant::now());
            }
            Some(at) if at.elapsed() > GRACE => return Ok(true),
            _ => {}
        }
    }
}

/// What runtimes say when they die of refused memory.
const NO_MEMORY: &[&str] = &[
    "bad_alloc",
    "memory allocation of",
    "MemoryError",
    "annot allocate memory",
    "ut of memory",
    "memory exhausted",
    "failed to map segment",
];

/// Exit codes that say how a search ended: the usual one, and those of the SAT and MaxSAT competitions.
const RESULT_CODES: &[i32] = &[0, 10, 20, 30];

/// How a program ended that nobody stopped.
fn ending(reaped: &Reaped, stderr: &str) -> Ending {
    let how = reaped.status.to_string();
    if reaped
        .status
        .code()
        .is_some_and(|code| RESULT_CODES.contains(&code))
    {
        Ending::Itself(how)
    } else if NO_MEMORY.iter().any(|words| stderr.contains(words)) {
        Ending::OutOfMemory
    } else {
        Ending::Died(how)
    }
}
