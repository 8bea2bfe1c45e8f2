//! Runs a worker under limits and turns whatever becomes of it into events: a line, a time-out, a death.
//!
//! A worker leads its own process group, so that nothing it starts outlives it. It is asked to stop (SIGTERM), then killed.

use crate::worker::{Event, Request};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a supervisor looks at the clock and at interrupts.
const TICK: Duration = Duration::from_millis(50);
/// How long a worker may take to stop after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the rest of a dead worker's standard error.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How much of a worker's standard error is kept.
const STDERR_TAIL: usize = 4096;

/// Counts interrupts: the first drains, the second stops.
#[derive(Clone, Debug, Default)]
pub struct Interrupts(Arc<AtomicUsize>);

impl Interrupts {
    /// Counts SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// When the handlers can't be installed.
    pub fn install() -> std::io::Result<Self> {
        let interrupts = Interrupts::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let count = interrupts.0.clone();
            // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
            unsafe {
                signal_hook::low_level::register(signal, move || {
                    count.fetch_add(1, Ordering::SeqCst);
                })
            }?;
        }
        Ok(interrupts)
    }
    /// Whether no further cell should start.
    pub fn drain(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= 1
    }
    /// Whether the running cell should be stopped.
    pub fn stop(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= 2
    }
}

/// How a worker ended.
#[derive(Debug)]
pub enum Ending {
    /// By itself; the status is that of a process that may still have died.
    Exited(ExitStatus),
    /// Stopped because the deadline passed.
    Deadline,
    /// Stopped because the user insisted.
    Interrupted,
}

/// What became of a worker.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// The last lines of its standard error.
    pub stderr_tail: String,
}

/// Starts a worker for a request and hands every event to `on_event`, which returns the time allowed until the next event
/// (`None`: as before).
///
/// # Errors
/// When the worker can't be started.
pub fn run(
    request: &Request,
    limit: Duration,
    memory: Option<u64>,
    interrupts: &Interrupts,
    on_event: &mut dyn FnMut(Event) -> Option<Duration>,
) -> std::io::Result<Outcome> {
    let mut child = start(memory)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A worker that died at once can't take its request; its exit status tells.
        let _ = stdin.write_all(serde_json::to_string(request).unwrap_or_default().as_bytes());
    }
    let (stderr, reader) = collect_stderr(&mut child);
    let lines = read_lines(&mut child);
    let mut deadline = Instant::now() + limit;
    let mut silent = false;
    let ending = loop {
        let heard = if silent {
            // A closed standard output is not yet an end: whatever it was that closed it, the limits go on.
            std::thread::sleep(TICK);
            Err(RecvTimeoutError::Timeout)
        } else {
            lines.recv_timeout(TICK)
        };
        match heard {
            Ok(line) => {
                // A line that is no event is the output of something the worker loaded; it is not ours to read.
                if let Ok(event) = serde_json::from_str(&line)
                    && let Some(limit) = on_event(event)
                {
                    deadline = Instant::now() + limit;
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                silent = true;
                if let Some(status) = ended_within(&mut child, LAST_WORDS)? {
                    break Ending::Exited(status);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if silent && let Some(status) = child.try_wait()? {
                    break Ending::Exited(status);
                }
                if interrupts.stop() {
                    stop(&mut child)?;
                    break Ending::Interrupted;
                }
                if Instant::now() > deadline {
                    stop(&mut child)?;
                    break Ending::Deadline;
                }
            }
        }
    };
    // The group may hold children of the worker (a compiler); none survives it.
    signal_group(&child, libc::SIGKILL);
    // The last words may still be in the pipe; they decide between a crash and a lack of memory.
    let until = Instant::now() + LAST_WORDS;
    while reader.as_ref().is_some_and(|r| !r.is_finished()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stderr_tail = stderr
        .lock()
        .map(|t| String::from_utf8_lossy(&t).into_owned())
        .unwrap_or_default();
    Ok(Outcome { ending, stderr_tail })
}

fn start(memory: Option<u64>) -> std::io::Result<Child> {
    // The running program itself, also when its file has been replaced by a newer build meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made (prctl, getppid, setrlimit).
    unsafe {
        command.pre_exec(move || {
            // A worker must not outlive its supervisor, even one that was killed.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as u32 != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            if let Some(bytes) = memory {
                let limit = libc::rlimit {
                    rlim_cur: bytes,
                    rlim_max: bytes,
                };
                if libc::setrlimit(libc::RLIMIT_AS, &limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    command.spawn()
}

fn collect_stderr(child: &mut Child) -> (Arc<Mutex<Vec<u8>>>, Option<JoinHandle<()>>) {
    let tail = Arc::new(Mutex::new(Vec::new()));
    let reader = child.stderr.take().map(|mut stderr| {
        let tail = tail.clone();
        std::thread::spawn(move || {
            let mut buffer = [0u8; 1024];
            while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                let Ok(mut tail) = tail.lock() else { return };
                tail.extend_from_slice(&buffer[..n]);
                let excess = tail.len().saturating_sub(STDERR_TAIL);
                tail.drain(..excess);
            }
        })
    });
    (tail, reader)
}

/// The status of a child that ends within a short time.
fn ended_within(child: &mut Child, time: Duration) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + time;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= until {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read_lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            // Bytes, not text: what a loaded library prints need not be UTF-8.
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(line) = line else { return };
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

fn stop(child: &mut Child) -> std::io::Result<()> {
    signal_group(child, libc::SIGTERM);
    let until = Instant::now() + GRACE;
    while Instant::now() < until {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(TICK);
    }
    signal_group(child, libc::SIGKILL);
    child.wait().map(|_| ())
}

fn signal_group(child: &Child, signal: i32) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // SAFETY: kill has no memory effects; a group that is gone is an error that we ignore on purpose.
        unsafe { libc::kill(-pid, signal) };
    }
}
