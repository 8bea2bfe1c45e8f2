//! A program in a process group of its own: its lines as they come, a limit on its memory, and its end, which its children share.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::system;

/// How much of the standard error is kept.
const STDERR_TAIL: usize = 4096;

/// Lines that may wait to be read: beyond them, a program that prints faster than we read is held up.
const WAITING_LINES: usize = 1024;

/// How long the pipes of a dead program are read on: a child of it may hold them open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running program. Dropped, it and its children are killed.
pub(super) struct Process {
    child: Child,
    lines: Receiver<Line>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// When it was seen to have ended by itself.
    ended: Option<Instant>,
    reaped: Option<Reaped>,
}

/// A line of the standard output.
pub(super) enum Line {
    /// With its end, or the last one.
    Whole(String),
    /// The output ended in it.
    Cut(String),
    TooLong,
}

/// What happened while waiting.
pub(super) enum Event {
    Line(Line),
    /// Nothing for the time given.
    Nothing,
    /// Nothing more will come.
    End,
}

/// What is known of an ended program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaped {
    pub status: ExitStatus,
    /// The most memory that one process of it had resident, where the system says so.
    pub peak_bytes: u64,
}

impl Process {
    /// Starts a program that may use `memory` bytes of address space, and whose lines are at most `longest` bytes long.
    pub fn start(words: &[OsString], memory: u64, longest: usize) -> std::io::Result<Self> {
        let [program, arguments @ ..] = words else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        system::confine(&mut command, memory);
        let mut child = command.spawn()?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(pipe) = child.stderr.take() {
            let tail = stderr.clone();
            std::thread::spawn(move || keep_tail(pipe, &tail));
        }
        let (sender, lines) = sync_channel(WAITING_LINES);
        if let Some(pipe) = child.stdout.take() {
            std::thread::spawn(move || read_lines(pipe, longest, |line| sender.send(line).is_ok()));
        }
        Ok(Self {
            child,
            lines,
            stderr,
            ended: None,
            reaped: None,
        })
    }

    /// Waits for a line, at most for `patience`.
    pub fn next(&mut self, patience: Duration) -> Event {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Event::Line(line),
            Err(RecvTimeoutError::Disconnected) => {
                if self.has_ended() {
                    return Event::End;
                }
                // It closed its output and runs on.
                std::thread::sleep(patience);
                Event::Nothing
            }
            Err(RecvTimeoutError::Timeout) if self.has_ended() => match self.ended {
                Some(at) if at.elapsed() > LAST_WORDS => Event::End,
                _ => Event::Nothing,
            },
            Err(RecvTimeoutError::Timeout) => Event::Nothing,
        }
    }

    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() && system::has_ended(&mut self.child) {
            self.ended = Some(Instant::now());
        }
        self.ended.is_some()
    }

    /// Asks it and its children to stop. A solver that listens prints its best answer then.
    pub fn ask_to_stop(&mut self) {
        if self.reaped.is_none() {
            system::terminate(&mut self.child);
        }
    }

    /// Kills what is left of it and its children, and takes leave.
    pub fn end(&mut self) -> std::io::Result<Reaped> {
        if let Some(reaped) = self.reaped {
            return Ok(reaped);
        }
        // Before it is reaped: until then nobody else can have its number.
        system::kill(&mut self.child);
        let reaped = system::reap(&mut self.child)?;
        self.reaped = Some(reaped);
        Ok(reaped)
    }

    /// The last of its standard error; call it after its end.
    pub fn stderr_tail(&self) -> String {
        // The reader holds the other reference until the pipe is closed.
        let until = Instant::now() + LAST_WORDS;
        while Arc::strong_count(&self.stderr) > 1 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tail = self.stderr.lock().unwrap_or_else(|e| e.into_inner());
        String::from_utf8_lossy(&tail).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a process that can't be waited for.
        let _ = self.end();
    }
}

/// Reads `pipe` to its end and keeps what came last.
fn keep_tail(mut pipe: impl Read, tail: &Mutex<Vec<u8>>) {
    let mut buffer = [0u8; 1024];
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        let mut tail = tail.lock().unwrap_or_else(|e| e.into_inner());
        tail.extend_from_slice(&buffer[..n]);
        let excess = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..excess);
    }
}

/// Hands on each line of `pipe`, until it ends, a line is too long or nobody listens.
fn read_lines(pipe: impl Read, longest: usize, mut send: impl FnMut(Line) -> bool) {
    let mut pipe = BufReader::new(pipe);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = (&mut pipe).take(longest as u64 + 1).read_until(b'\n', &mut bytes);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let line = match bytes.strip_suffix(b"\n") {
            Some(line) => Line::Whole(text(line.strip_suffix(b"\r").unwrap_or(line))),
            None if bytes.len() > longest => Line::TooLong,
            None => Line::Cut(text(&bytes)),
        };
        let last = !matches!(line, Line::Whole(_));
        if !send(line) || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], longest: usize) -> Vec<String> {
        let mut all = Vec::new();
        read_lines(text, longest, |line| {
            all.push(match line {
                Line::Whole(text) => text,
                Line::Cut(text) => format!("{text}…"),
                Line::TooLong => "too long".into(),
            });
            true
        });
        all
    }

    #[test]
    fn lines_end_as_they_do() {
        assert_eq!(lines(b"a\nbc\r\n\nd", 5), ["a", "bc", "", "d…"]);
        assert_eq!(lines(b"12345\n123456\n1\n", 5), ["12345", "too long"]);
        assert_eq!(lines(b"", 5), [""; 0]);
        assert_eq!(lines(b"\xff\n", 5), ["\u{fffd}"]);
    }

    #[test]
    fn the_tail_is_what_came_last() {
        let all: Vec<u8> = (0..10_000u32).map(|i| b'a' + (i % 26) as u8).collect();
        let tail = Mutex::new(Vec::new());
        keep_tail(&all[..], &tail);
        assert_eq!(*tail.lock().unwrap(), all[all.len() - STDERR_TAIL..]);
    }
}
