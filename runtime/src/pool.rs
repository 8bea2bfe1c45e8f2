//! The CPU device's persistent thread pool.
//!
//! The caller takes part in every job, and the job ends when its chunks are done, whether or not every worker woke up in time: a worker has
//! to *join* a job, and the gate closes when the caller finds no chunk left. So a machine that is busy with other things delays a job by
//! what the joined workers do, never by a worker that sleeps. Workers spin for a short time after a job (kernels follow each
//! other within microseconds) and then sleep.
//!
//! Chunks are dealt out in one contiguous share per worker, and who is done takes from the others' shares: neighbouring kernels touch
//! the same part of a tensor on the same core as long as the load is even. Which worker runs a chunk has no influence on what the chunk computes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker looks for the next job before it sleeps. Waking a sleeping thread costs 5 to 50 µs on Linux; the gap between
/// two kernels of a model is below 2 µs, a serial kernel between two parallel ones usually below 50.
const SPIN: Duration = Duration::from_micros(60);

/// Set in the gate while no worker may join.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// A share of the chunks; on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Share {
    next: AtomicUsize,
    end: AtomicUsize,
}

/// A borrowed job whose lifetime the gate enforces.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize, usize) + Sync));

// SAFETY: the closure is `Sync`, and `ThreadPool::run` keeps it alive while any worker has joined.
unsafe impl Send for Job {}

struct Shared {
    /// Number of jobs submitted.
    epoch: AtomicU64,
    /// Number of workers that joined the current job, and `CLOSED`.
    gate: AtomicUsize,
    job: Mutex<Option<Job>>,
    shares: Vec<Share>,
    panicked: AtomicBool,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    spin: bool,
}

/// A code of a worker panicked; the job's results are unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// Persistent worker threads. One job at a time, from one caller.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool")
            .field("threads", &self.threads())
            .finish()
    }
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller's among them (so `threads − 1` are started; 0 counts as 1).
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        // More threads than cores: spinning would take the time of a thread that has work.
        let spin = std::thread::available_parallelism().is_ok_and(|n| n.get() >= threads);
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            gate: AtomicUsize::new(CLOSED),
            job: Mutex::new(None),
            shares: (0..threads).map(|_| Share::default()).collect(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            spin,
        });
        let mut pool = ThreadPool {
            shared,
            workers: Vec::new(),
        };
        for worker in 1..threads {
            let shared = pool.shared.clone();
            // A failure drops `pool`, which ends the threads started so far.
            pool.workers.push(
                std::thread::Builder::new()
                    .name(format!("relayout-{worker}"))
                    .spawn(move || shared.work(worker))?,
            );
        }
        Ok(pool)
    }

    /// The number of threads that take part, the caller's among them.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `chunk(worker, i)` once for every i in `0..chunks`; `worker` is below [`ThreadPool::threads`] and no two calls at one time have
    /// the same. Everything the chunks wrote is visible on return.
    ///
    /// # Errors
    /// When a call panicked.
    pub fn run(&mut self, chunks: usize, chunk: &(dyn Fn(usize, usize) + Sync)) -> Result<(), Panicked> {
        if self.workers.is_empty() || chunks <= 1 {
            let serial = catch_unwind(AssertUnwindSafe(|| (0..chunks).for_each(|i| chunk(0, i))));
            return serial.map_err(|_| Panicked);
        }
        let shared = &*self.shared;
        let threads = shared.shares.len();
        for (i, share) in shared.shares.iter().enumerate() {
            share.next.store(i * chunks / threads, Ordering::Relaxed);
            share.end.store((i + 1) * chunks / threads, Ordering::Relaxed);
        }
        shared.panicked.store(false, Ordering::Relaxed);
        // SAFETY: only the lifetime is erased. The closure outlives this call, and this call returns only after the gate is closed and every
        // worker that joined has left; a worker reads the job only between joining and leaving.
        let job: *const (dyn Fn(usize, usize) + Sync) = unsafe { std::mem::transmute(chunk) };
        *shared.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(Job(job));
        shared.gate.store(0, Ordering::Release);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        // A worker counts itself a sleeper before it looks at the epoch a last time, so one of the two sees the other.
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = shared.sleep.lock().unwrap_or_else(PoisonError::into_inner);
            shared.wake.notify_all();
        }
        shared.take_chunks(0, chunk);
        shared.gate.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0u32;
        while shared.gate.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if shared.spin && spins < 20_000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        if shared.panicked.load(Ordering::Relaxed) {
            Err(Panicked)
        } else {
            Ok(())
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        {
            let _guard = self.shared.sleep.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // Workers catch panics of jobs; nothing is left to report here.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            seen = self.next_epoch(seen);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if !self.join() {
                continue;
            }
            let job = *self.job.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Job(chunk)) = job {
                // SAFETY: this worker has joined, so the caller waits for it before the closure's lifetime ends.
                self.take_chunks(worker, unsafe { &*chunk });
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for an epoch other than `seen`.
    fn next_epoch(&self, seen: u64) -> u64 {
        if self.spin {
            let start = Instant::now();
            loop {
                // Reading the clock costs more than looking at the epoch.
                for _ in 0..64 {
                    let epoch = self.epoch.load(Ordering::Acquire);
                    if epoch != seen {
                        return epoch;
                    }
                    std::hint::spin_loop();
                }
                if start.elapsed() > SPIN {
                    break;
                }
            }
        }
        let mut guard = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let epoch = loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            if epoch != seen {
                break epoch;
            }
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        epoch
    }

    fn join(&self) -> bool {
        let enter = |gate: usize| (gate & CLOSED == 0).then_some(gate + 1);
        self.gate
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, enter)
            .is_ok()
    }

    /// Runs chunks of the worker's own share, then of the others'.
    fn take_chunks(&self, worker: usize, chunk: &(dyn Fn(usize, usize) + Sync)) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for offset in 0..self.shares.len() {
                let share = &self.shares[(worker + offset) % self.shares.len()];
                let end = share.end.load(Ordering::Relaxed);
                while share.next.load(Ordering::Relaxed) < end {
                    let i = share.next.fetch_add(1, Ordering::Relaxed);
                    if i >= end {
                        break;
                    }
                    chunk(worker, i);
                }
            }
        }));
        if outcome.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once_and_results_are_visible() {
        for threads in [1, 2, 3, 8] {
            let mut pool = ThreadPool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            for round in 0..300usize {
                let chunks = round % 37;
                let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(chunks, &|worker, i| {
                    assert!(worker < threads);
                    counts[i].fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
                if round % 100 == 0 {
                    // Long enough for the workers to fall asleep.
                    std::thread::sleep(SPIN * 3);
                }
            }
        }
    }

    #[test]
    fn no_two_workers_share_a_number() {
        let mut pool = ThreadPool::new(4).unwrap();
        let busy: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
        pool.run(400, &|worker, _| {
            assert!(!busy[worker].swap(true, Ordering::SeqCst));
            std::thread::yield_now();
            busy[worker].store(false, Ordering::SeqCst);
        })
        .unwrap();
    }

    #[test]
    fn a_panic_is_reported_and_the_pool_stays_usable() {
        for threads in [1, 3] {
            let mut pool = ThreadPool::new(threads).unwrap();
            let failed = pool.run(10, &|_, i| {
                if i == 7 {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
            });
            assert_eq!(failed, Err(Panicked));
            assert_eq!(pool.run(10, &|_, _| {}), Ok(()));
        }
    }
}
