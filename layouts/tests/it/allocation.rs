//! What `treewidth` says it takes, against an allocator that counts: wanted and allocated bytes differ by a tenth at most.
//!
//! The allocator is the whole test program's; it counts each thread by itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use relayout_layouts::generate::{Random, random};
use relayout_layouts::{Budget, Problem, Status, Trace, json, strategy_by_name};

thread_local! {
    /// Bytes that this thread has allocated and not returned, and the most there were. Tests run in threads of their own.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: i64) {
    // A thread that is being torn down has no counters any more, and no test to count for.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator with the same arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those of `System::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the pointer came from `System` with this layout, by the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as in `dealloc`; the size is the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// (status, wanted, allocated) of a run of `treewidth`.
fn measured(problem: &Problem, budget: &Budget) -> (Status, u64, u64) {
    let strategy = strategy_by_name("treewidth").unwrap();
    let before = LIVE.get();
    PEAK.set(before);
    let solutions = strategy.solve(problem, budget, &mut Trace::silent()).unwrap();
    let allocated = (PEAK.get() - before) as u64;
    (solutions.status, solutions.counters["wanted_bytes"], allocated)
}

fn check(name: &str, problem: &Problem) -> bool {
    let limit = 1 << 26;
    let (status, wanted, allocated) = measured(problem, &Budget::default().with_memory_limit(limit));
    println!("{name}: {status}, wanted {wanted}, allocated {allocated}");
    if !matches!(status, Status::Optimal | Status::Infeasible) {
        // What it wanted was not allocated.
        assert!(
            wanted > limit && allocated < limit + limit / 10,
            "{name}: {allocated}"
        );
        return false;
    }
    // Below, the lists of the problem's size weigh as much as the tables.
    if allocated > 1 << 20 {
        assert!(
            wanted.abs_diff(allocated) * 10 <= allocated,
            "{name}: wanted {wanted}, allocated {allocated}"
        );
        return true;
    }
    assert!(
        allocated < wanted + (1 << 20),
        "{name}: wanted {wanted}, allocated {allocated}"
    );
    false
}

#[test]
fn wanted_bytes_are_what_a_finishing_run_allocates() {
    let mut compared = 0;
    for seed in 0..14 {
        let p = Random {
            operators: 60 + 20 * (seed as usize % 3),
            window: 3 + (seed % 3) as usize,
            layouts: (2, 2 + (seed % 2) as usize),
            odd: seed % 4 == 3,
            seed,
            ..Random::default()
        };
        compared += usize::from(check(&format!("random {seed}"), &random(&p).unwrap()));
    }
    assert!(compared >= 4, "{compared}");
}

#[test]
fn so_they_are_on_the_shared_instances() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/instances"));
    if !folder.is_dir() {
        println!("skipped: instances are not in the shared folder next to the repository");
        return;
    }
    let mut compared = 0;
    for name in [
        "resnet50",
        "bert-base",
        "llama3-8b",
        "swin-t",
        "random-100-w3-l3-1",
        "odd-100-170",
        "sat-40-1",
    ] {
        let problem = json::read_file(folder.join(format!("{name}.json.zst"))).unwrap();
        compared += usize::from(check(name, &problem));
    }
    assert!(compared >= 2, "{compared}");
}
