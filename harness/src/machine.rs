//! The machine and the tools, as a run records them.

use crate::record::{ClockEvidence, MachineFingerprint};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// What identifies this machine between boots: never a clock, never a load.
pub fn fingerprint() -> MachineFingerprint {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo
            .lines()
            .find(|l| l.starts_with(name))
            .and_then(|l| l.split_once(':'))
            .map(|(_, v)| v.trim().to_owned())
    };
    let cores: std::collections::BTreeSet<(Option<&str>, &str)> = cpuinfo
        .split("\n\n")
        .filter_map(|block| {
            let get = |name: &str| {
                block
                    .lines()
                    .find(|l| l.starts_with(name))
                    .and_then(|l| l.split_once(':'))
                    .map(|(_, v)| v.trim())
            };
            Some((get("physical id"), get("core id")?))
        })
        .collect();
    const FLAGS: [&str; 10] = [
        "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512vl", "amx_tile",
    ];
    let flags = field("flags").unwrap_or_default();
    MachineFingerprint {
        cpu: field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        logical_cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        physical_cores: (!cores.is_empty()).then_some(cores.len() as u32),
        caches: caches(),
        isa_flags: flags
            .split_whitespace()
            .filter(|f| FLAGS.contains(f))
            .map(str::to_owned)
            .collect(),
        memory_gib: memory_gib(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
    }
}

/// The fingerprint as one short text, for keys.
pub fn fingerprint_hash() -> String {
    let text = serde_json::to_string(&fingerprint()).unwrap_or_default();
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

fn caches() -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for index in 0..8 {
        let read = |name: &str| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"))
                .map(|t| t.trim().to_owned())
                .ok()
        };
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else {
            continue;
        };
        let suffix = match kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let scale = if size.ends_with('M') { 1 << 20 } else { 1 << 10 };
        if let Ok(n) = size.trim_end_matches(['K', 'M']).parse::<u64>() {
            found.insert(format!("L{level}{suffix}"), n * scale);
        }
    }
    found
}

fn memory_gib() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))
        .and_then(|v| v.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(0, |k| k.div_ceil(1 << 20))
}

/// Versions of the tools that decide results.
pub fn tools() -> BTreeMap<String, String> {
    let mut found = BTreeMap::from([("relayout".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    if let Ok(toolchain) = relayout_compiler::codegen::toolchain::Toolchain::detect() {
        found.insert("cc".into(), toolchain.version().to_owned());
    }
    found
}

/// The commit of the working tree that the program was started in, and whether it has changes.
pub fn commit() -> (Option<String>, Option<bool>) {
    let git = |args: &[&str]| {
        let out = Command::new("git")
            .args(args)
            .stderr(std::process::Stdio::null())
            .output()
            .ok()?;
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    (
        git(&["rev-parse", "HEAD"]),
        git(&["status", "--porcelain", "-uno"]).map(|s| !s.is_empty()),
    )
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Current clock of the first core in MHz, where the kernel tells.
pub fn clock_mhz() -> Option<f64> {
    if let Ok(khz) = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq") {
        return khz.trim().parse::<f64>().ok().map(|k| k / 1e3);
    }
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    info.lines()
        .find(|l| l.starts_with("cpu MHz"))?
        .split_once(':')?
        .1
        .trim()
        .parse()
        .ok()
}

/// The clock before and after a measurement; now is after.
pub fn clock_evidence(before: Option<f64>) -> ClockEvidence {
    let after = clock_mhz();
    ClockEvidence {
        mhz_before: before,
        mhz_after: after,
        timer_tick_ns: None,
        throttled: before.zip(after).map(|(b, a)| a < 0.75 * b),
    }
}
