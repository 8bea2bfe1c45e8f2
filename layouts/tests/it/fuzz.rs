//! The fuzz targets under mutations of their corpora: drawn from a seed, so that every run of the test command does the same. The same
//! targets run under coverage guidance in `fuzz/`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use relayout_layouts::rng::SplitMix64;

use crate::support::slow;

#[path = "../../fuzz/targets.rs"]
mod targets;

/// Inputs per target in every run, and in a slow one.
const SHORT: u64 = 5_000;
const LONG: u64 = 300_000;

/// No input of a few KiB takes this long.
const HANG: Duration = Duration::from_secs(20);

/// Inputs do not grow beyond this.
const LONGEST: usize = 1 << 16;

/// Numbers where readers are most likely to be wrong.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "00",
    "1.5",
    "1e9",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "1000000000000000000",
    "4611686018427387904",
    "4611686018427387905",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus")).join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus for {target}");
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A corpus input, changed a few times.
fn mutant(corpus: &[Vec<u8>], rng: &mut SplitMix64) -> Vec<u8> {
    let pick = |rng: &mut SplitMix64| &corpus[rng.below(corpus.len() as u64) as usize];
    let mut data = pick(rng).clone();
    // What is inside a compressed file is changed too, half of the time.
    let inside = match data.get(..4) {
        Some([0x28, 0xb5, 0x2f, 0xfd]) if rng.percent(50) => zstd::decode_all(&data[..]).ok(),
        _ => None,
    };
    let compressed = inside.is_some();
    data = inside.unwrap_or(data);
    for _ in 0..rng.between(1, 4) {
        change(&mut data, pick(rng), rng);
        data.truncate(LONGEST);
    }
    if compressed {
        data = zstd::encode_all(&data[..], 1).expect("compressing in memory");
    }
    data
}

fn change(data: &mut Vec<u8>, other: &[u8], rng: &mut SplitMix64) {
    let at = rng.below(data.len() as u64 + 1) as usize;
    let scale = rng.below(9);
    let end = (at + 1 + rng.below(1 << scale) as usize).min(data.len());
    match rng.below(10) {
        0 => {
            if let Some(byte) = data.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            if let Some(byte) = data.get_mut(at) {
                *byte = rng.bits() as u8;
            }
        }
        2 => data.truncate(at),
        3 => drop(data.drain(at.min(end)..end)),
        4 => {
            let copy = data[at.min(end)..end].to_vec();
            let to = rng.below(data.len() as u64 + 1) as usize;
            data.splice(to..to, copy);
        }
        5 => {
            // The head of one, the tail of another.
            let from = rng.below(other.len() as u64 + 1) as usize;
            data.truncate(at);
            data.extend_from_slice(&other[from..]);
        }
        6 => {
            // Much of the same: deep nesting, long lists.
            let copy = data[at.min(end)..end].repeat(rng.between(2, 200) as usize);
            data.splice(at..at, copy);
        }
        _ => {
            // Another number in place of one.
            let is_digit = |i: &usize| data[*i].is_ascii_digit();
            let Some(start) = (at..data.len()).find(is_digit) else {
                return;
            };
            let stop = (start..data.len()).find(|i| !is_digit(i)).unwrap_or(data.len());
            let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
            data.splice(start..stop, number.bytes());
        }
    }
}

/// Runs a target on `count` mutants; an input that makes it panic or hang is kept in a file.
fn fuzz(name: &'static str, target: targets::Target, count: u64) {
    let corpus = corpus(name);
    let (sender, receiver) = channel::<Vec<u8>>();
    let (done, outcomes) = channel();
    // The thread is left behind when it hangs: nothing can stop it.
    std::thread::spawn(move || {
        for data in receiver {
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&data)));
            if done.send(outcome.is_ok()).is_err() {
                return;
            }
        }
    });
    let keep = |data: &[u8]| {
        let file = std::env::temp_dir().join(format!("relayout-fuzz-{name}-{}", blake3::hash(data).to_hex()));
        std::fs::write(&file, data).unwrap();
        file
    };
    let mut rng = SplitMix64::new(0x6675_7a7a);
    let mutants = (0..count).map(|_| mutant(&corpus, &mut rng));
    for data in corpus.iter().cloned().chain(mutants) {
        sender.send(data.clone()).expect("the thread waits for inputs");
        match outcomes.recv_timeout(HANG) {
            Ok(true) => {}
            Ok(false) => panic!("{name} panics on {}", keep(&data).display()),
            Err(RecvTimeoutError::Timeout) => panic!("{name} hangs on {}", keep(&data).display()),
            Err(RecvTimeoutError::Disconnected) => panic!("{name} aborts on {}", keep(&data).display()),
        }
    }
}

#[test]
fn no_damaged_input_makes_a_reader_panic_or_hang() {
    for &(name, target) in targets::TARGETS {
        fuzz(name, target, SHORT);
    }
}

#[test]
fn many_damaged_inputs() {
    if slow("hundreds of thousands of damaged inputs per reader") {
        for &(name, target) in targets::TARGETS {
            fuzz(name, target, LONG);
        }
    }
}

#[test]
fn the_corpora_get_past_the_first_checks() {
    use relayout_layouts::external::{Format, read_answer};
    use relayout_layouts::import::{UsageLimits, cfn::cfn, iopddl};
    use relayout_layouts::json;
    let accepted =
        |target, accept: &dyn Fn(&[u8]) -> bool| corpus(target).iter().filter(|d| accept(d)).count();
    let count = |target| corpus(target).len();
    assert_eq!(
        accepted("instance", &|d| json::read(d).is_ok()),
        count("instance")
    );
    assert_eq!(
        accepted("solution", &|d| json::read_assignment(d).is_ok()),
        count("solution")
    );
    assert_eq!(accepted("cfn", &|d| cfn(d).is_ok()), count("cfn"));
    assert_eq!(
        accepted("iopddl", &|d| iopddl(d, UsageLimits::Ignore).is_ok()),
        count("iopddl")
    );
    let instance = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fuzz/corpus/instance/answered.json"
    ))
    .unwrap();
    let problem = json::read(&instance).unwrap();
    for (target, format) in [("evaluation", Format::Wcnf), ("toulbar2", Format::Cfn)] {
        let optimal = accepted(target, &|d| {
            let text = String::from_utf8_lossy(d);
            read_answer(&problem, format, &text).is_ok_and(|s| s.best().is_some())
        });
        assert!(optimal >= 2, "{target}: {optimal} answers with an assignment");
    }
}
