//! Timing of single instructions, in the device's own time.

/// What was timed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventKind {
    /// A kernel, all phases.
    Kernel,
    /// A library routine.
    Library,
}

/// One timed instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The function.
    pub function: &'a str,
    /// Position in its code.
    pub instruction: usize,
    /// What it calls.
    pub kind: EventKind,
    /// The kernel's or routine's name.
    pub name: &'a str,
    /// Duration. Includes the device's launch, not the VM's work.
    pub nanoseconds: u64,
}

/// Receives events in order of execution.
pub trait Profile {
    /// Takes one.
    fn record(&mut self, event: &Event<'_>);
}

/// A recorded event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The function.
    pub function: String,
    /// Position in its code.
    pub instruction: usize,
    /// What it calls.
    pub kind: EventKind,
    /// The kernel's or routine's name.
    pub name: String,
    /// Duration.
    pub nanoseconds: u64,
}

impl Profile for Vec<Sample> {
    fn record(&mut self, event: &Event<'_>) {
        self.push(Sample {
            function: event.function.to_owned(),
            instruction: event.instruction,
            kind: event.kind,
            name: event.name.to_owned(),
            nanoseconds: event.nanoseconds,
        });
    }
}
