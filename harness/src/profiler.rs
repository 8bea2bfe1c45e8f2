//! The profile of a group: every kernel that its configurations name, timed alone, before any cell runs.

use crate::config::Config;
use crate::journal::WriteError;
use crate::journal::atomic;
use crate::machine;
use crate::plan::Group;
use crate::worker::{Event, emit, prepare};
use relayout_compiler::codegen::toolchain::Toolchain;
use relayout_compiler::cost::{ProfileTable, UnitRequest};
use relayout_compiler::extract::{CallSpec, CostModel, Pricing, ShapeBinding, unit_requests};
use relayout_compiler::target::Target;
use relayout_compiler::unit::{UnitCall, build_units, unit_key};
use relayout_runtime::{DType, DeviceTensor, EvalStack, Options, RunError, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A timed kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitTiming {
    /// Content key.
    pub key: String,
    /// What is computed: operator, extents, attributes, values of symbolic dimensions.
    pub operation: String,
    /// How: layouts and implementation.
    pub variant: String,
    /// Cost terms, for a fit of coefficients.
    #[serde(default)]
    pub terms: BTreeMap<String, u64>,
    /// Median of the samples.
    pub nanoseconds: u64,
    /// Number of samples.
    pub samples: u32,
    /// Distinct sets of buffers that the samples rotated over.
    pub rotation: u32,
}

/// A kernel that could not be timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitFailure {
    /// Content key.
    pub key: String,
    /// What it is.
    pub description: String,
    /// Why.
    pub message: String,
}

/// The table of a run: `profile.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Timed kernels.
    pub units: Vec<UnitTiming>,
    /// Kernels that failed.
    #[serde(default)]
    pub failed: Vec<UnitFailure>,
}

/// Why a table can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TableError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: String,
}

impl Table {
    /// Keys that need no further timing.
    pub fn keys(&self) -> Vec<String> {
        self.units
            .iter()
            .map(|u| &u.key)
            .chain(self.failed.iter().map(|u| &u.key))
            .cloned()
            .collect()
    }
    /// The table as the cost model reads it.
    pub fn as_costs(&self) -> ProfileTable {
        let mut table = ProfileTable::new();
        self.units
            .iter()
            .for_each(|u| table.insert(u.key.clone(), u.nanoseconds));
        table
    }
    /// Writes the table atomically.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        atomic::write(
            path,
            serde_json::to_string_pretty(self).unwrap_or_default().as_bytes(),
        )
    }
}

/// Reads a table; an absent one is empty.
///
/// # Errors
/// When the file is there but not a table.
pub fn read_table(path: &Path) -> Result<Table, TableError> {
    let bad = |problem: String| TableError {
        path: path.to_owned(),
        problem,
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Table::default()),
        Err(e) => Err(bad(e.to_string())),
    }
}

/// Kernels per translation unit and session.
const CHUNK: usize = 48;

/// Times the kernels of a group that are not in `have`, in a worker.
///
/// # Errors
/// The message for the user, when the group can't be extracted at all.
pub fn profile(config: &Config, group: &Group, have: &[String]) -> Result<(), String> {
    let (loaded, binding, parts) = prepare(config, group)?;
    let toolchain = Toolchain::detect().map_err(|e| e.to_string())?;
    let machine_hash = machine::fingerprint_hash();
    let keys = |spec: &CallSpec, binding: &ShapeBinding| {
        unit_key(
            spec,
            binding,
            &parts.target,
            &toolchain,
            group.threads,
            &machine_hash,
        )
    };
    let pricing = Pricing {
        target: &parts.target,
        coefficients: &parts.coefficients,
        model: CostModel::Analytic,
        unit_key: &keys,
    };
    let requests = unit_requests(
        &loaded.model.module,
        &pricing,
        std::slice::from_ref(&binding),
        config.domain,
    )
    .map_err(|e| e.to_string())?;
    let known: std::collections::HashSet<&String> = have.iter().collect();
    let missing: Vec<UnitRequest> = requests.into_iter().filter(|r| !known.contains(&r.key)).collect();
    emit(&Event::Planned { units: missing.len() });
    for chunk in missing.chunks(CHUNK) {
        if time_chunk(config, group, &parts.target, &toolchain, chunk).is_err() && chunk.len() > 1 {
            // One bad kernel must not cost its neighbours: each alone.
            for one in chunk {
                if let Err(message) = time_chunk(
                    config,
                    group,
                    &parts.target,
                    &toolchain,
                    std::slice::from_ref(one),
                ) {
                    emit(&Event::UnitFailed {
                        key: one.key.clone(),
                        message,
                    });
                }
            }
        }
    }
    Ok(())
}

fn time_chunk(
    config: &Config,
    group: &Group,
    target: &Target,
    toolchain: &Toolchain,
    chunk: &[UnitRequest],
) -> Result<(), String> {
    let bindings: Vec<ShapeBinding> = chunk
        .iter()
        .map(|r| ShapeBinding {
            weight: 1,
            values: r.binding.clone(),
        })
        .collect();
    let specs: Vec<(&CallSpec, &ShapeBinding)> = chunk.iter().map(|r| &r.spec).zip(&bindings).collect();
    let batch = build_units(&specs, target, toolchain).map_err(|e| e.to_string())?;
    let options = Options {
        threads: group.threads as usize,
        ..Options::default()
    };
    let mut session = Session::new(batch.module, &options).map_err(|e| e.to_string())?;
    for (request, call) in chunk.iter().zip(&batch.calls) {
        emit(&Event::UnitStarting {
            key: request.key.clone(),
            description: request.description.clone(),
        });
        match time_unit(
            &mut session,
            call,
            config.measure.profile_samples,
            target.caches.l3,
        ) {
            Ok((nanoseconds, samples, rotation)) => emit(&Event::Unit(UnitTiming {
                key: request.key.clone(),
                operation: operation(request),
                variant: request.spec.variant(),
                terms: request.terms.iter().map(|(n, a)| (n.to_owned(), a)).collect(),
                nanoseconds,
                samples,
                rotation,
            })),
            Err(e) => emit(&Event::UnitFailed {
                key: request.key.clone(),
                message: e,
            }),
        }
        session.trim();
    }
    Ok(())
}

/// The operation with the values of the symbolic dimensions, where it has some.
fn operation(request: &UnitRequest) -> String {
    let values: Vec<String> = request.binding.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let at = if values.is_empty() { "" } else { " at " };
    format!("{}{at}{}", request.spec.operation(), values.join(" "))
}

/// Most sets of buffers that samples rotate over; small tensors then stay in the last-level cache, as they do in a model.
const MAX_ROTATION: u64 = 64;
/// A unit's samples take at least and at most about this long.
const MIN_TIME: Duration = Duration::from_millis(3);
const MAX_TIME: Duration = Duration::from_millis(250);

/// Median time of a unit. Buffers rotate over sets that together exceed twice the last-level cache, as far as
/// [`MAX_ROTATION`] allows. They hold small pseudo-random values, so that no kernel runs on denormal numbers.
fn time_unit(
    session: &mut Session,
    call: &UnitCall,
    samples: u32,
    cache: u64,
) -> Result<(u64, u32, u32), String> {
    let tensors = operand_shapes(session, call)?;
    let bytes: u64 = tensors
        .iter()
        .map(|(d, shape)| elements(shape) * d.bytes() as u64)
        .sum();
    let rotation = (2 * cache).div_ceil(bytes.max(1)).clamp(1, MAX_ROTATION);
    let mut sets: Vec<Vec<DeviceTensor>> = Vec::new();
    for number in 0..rotation {
        let set = tensors
            .iter()
            .map(|(d, shape)| filled(session, *d, shape, number))
            .collect::<Result<_, RunError>>();
        sets.push(set.map_err(|e| e.to_string())?);
    }
    let mut times = Vec::new();
    let start = Instant::now();
    let mut turn = 0usize;
    loop {
        let set = &sets[turn % sets.len()];
        let time = run_once(session, call, set).map_err(|e| e.to_string())?;
        // The first run of a kernel loads its code; it is no sample.
        if turn > 0 {
            times.push(time);
        }
        turn += 1;
        let elapsed = start.elapsed();
        let enough = times.len() >= samples as usize && elapsed >= MIN_TIME;
        if enough || (elapsed >= MAX_TIME && times.len() >= 3) {
            break;
        }
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], times.len() as u32, rotation as u32))
}

fn elements(shape: &[i64]) -> u64 {
    shape.iter().map(|d| d.unsigned_abs()).product()
}

fn operand_shapes(session: &Session, call: &UnitCall) -> Result<Vec<(DType, Vec<i64>)>, String> {
    match call {
        UnitCall::Library { args, out, .. } => Ok(args.iter().chain([out]).cloned().collect()),
        UnitCall::Kernel { kernel, syms } => {
            let declared = session
                .module()
                .kernels
                .get(kernel.index())
                .ok_or("no such kernel")?;
            let mut stack = EvalStack::new();
            declared
                .params
                .iter()
                .map(|p| {
                    let bytes = p.bytes.eval(syms, &mut stack).map_err(|e| e.to_string())?;
                    Ok((p.dtype, vec![bytes / p.dtype.bytes() as i64]))
                })
                .collect()
        }
    }
}

fn filled(session: &mut Session, dtype: DType, shape: &[i64], number: u64) -> Result<DeviceTensor, RunError> {
    let count = elements(shape) as usize;
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as u32
    };
    let bytes = match dtype {
        DType::F32 => (0..count)
            .flat_map(|_| (next() as f32 / 16_777_216.0 + 0.25).to_le_bytes())
            .collect(),
        // 1.0 in both 16-bit formats' neighbourhood, and small integers that are valid indices of anything.
        DType::F16 => (0..count).flat_map(|_| 0x3c00u16.to_le_bytes()).collect(),
        DType::BF16 => (0..count).flat_map(|_| 0x3f80u16.to_le_bytes()).collect(),
        _ => vec![0; count * dtype.bytes()],
    };
    session.upload(&relayout_runtime::HostTensor {
        dtype,
        shape: shape.to_vec(),
        bytes,
    })
}

fn run_once(session: &mut Session, call: &UnitCall, tensors: &[DeviceTensor]) -> Result<u64, RunError> {
    let refs: Vec<&DeviceTensor> = tensors.iter().collect();
    match call {
        UnitCall::Kernel { kernel, syms } => session.run_kernel(*kernel, &refs, syms),
        UnitCall::Library {
            routine, attrs, args, ..
        } => session.run_library(routine, attrs, &refs[..args.len()], &refs[args.len()..], &[]),
    }
}
