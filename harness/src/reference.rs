//! Reference outputs: what the fast interpreter makes of a model under a binding, computed once and shared by all its cells,
//! and the comparison that every latency stands behind.

use crate::journal::WriteError;
use crate::journal::atomic;
use crate::record::Correctness;
use relayout_compiler::canonicalise::encode;
use relayout_compiler::extract::ShapeBinding;
use relayout_compiler::vmgen;
use relayout_ir::generate::generate;
use relayout_ir::interpret::{
    ConstantStore, GraphOptions, InterpretError, NoLibrary, Reference, run_function,
};
use relayout_ir::tensor::RefValue;
use relayout_models::{Model, draw_inputs, inputs::InputError};
use relayout_runtime::{DType, HostTensor};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a reference can't be made or read.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// Inputs can't be drawn.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The interpreter refuses.
    #[error("reference interpreter: {0}")]
    Interpret(#[from] InterpretError),
    /// The module has no entry.
    #[error("the module has no entry function `main`")]
    NoEntry,
    /// The file can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file can't be read.
    #[error("{path}: {problem}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The inputs of a model as drawn from the seed.
///
/// # Errors
/// When a dimension has no valid value.
pub fn inputs(model: &Model, seed: u64, binding: &ShapeBinding) -> Result<Vec<HostTensor>, ReferenceError> {
    let drawn = draw_inputs(model, seed, &|v| binding.values.get(v.name()).copied())?;
    Ok(drawn
        .iter()
        .map(|i| host(&generate(&i.generator, &i.shape, i.dtype)))
        .collect())
}

fn host(tensor: &relayout_ir::tensor::Tensor) -> HostTensor {
    HostTensor {
        dtype: vmgen::dtype(tensor.dtype),
        shape: tensor
            .shape
            .iter()
            .map(|&d| i64::try_from(d).unwrap_or(i64::MAX))
            .collect(),
        bytes: encode(tensor),
    }
}

/// Runs the model, as imported, by the fast reference.
///
/// # Errors
/// See [`ReferenceError`].
pub fn run(model: &Model, seed: u64, binding: &ShapeBinding) -> Result<Vec<HostTensor>, ReferenceError> {
    let drawn = draw_inputs(model, seed, &|v| binding.values.get(v.name()).copied())?;
    let args: Vec<RefValue> = drawn
        .iter()
        .map(|i| RefValue::Tensor(Arc::new(generate(&i.generator, &i.shape, i.dtype))))
        .collect();
    let constants = ConstantStore::transient();
    let options = GraphOptions {
        reference: Reference::Fast,
        library: &NoLibrary,
        constants: &constants,
    };
    let entry = model.module.entry().ok_or(ReferenceError::NoEntry)?;
    let mut out = Vec::new();
    flatten(&run_function(&model.module, entry, &args, options)?, &mut out);
    Ok(out)
}

fn flatten(value: &RefValue, out: &mut Vec<HostTensor>) {
    match value {
        RefValue::Tensor(t) => out.push(host(t)),
        RefValue::Tuple(items) => items.iter().for_each(|v| flatten(v, out)),
        RefValue::Shape(_) => {}
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    tensors: Vec<(String, Vec<i64>, usize)>,
}

const FORMAT: &str = "relayout-reference/1";

/// Writes outputs to a file: one JSON line of types, shapes and byte counts, then the bytes.
///
/// # Errors
/// When the file can't be written; a full disk is told apart.
pub fn write(path: &Path, outputs: &[HostTensor]) -> Result<(), ReferenceError> {
    let header = Header {
        format: FORMAT.into(),
        tensors: outputs
            .iter()
            .map(|t| (t.dtype.name().to_owned(), t.shape.clone(), t.bytes.len()))
            .collect(),
    };
    let line = serde_json::to_string(&header).unwrap_or_default();
    atomic::write_with(path, |file| {
        writeln!(file, "{line}")?;
        outputs.iter().try_for_each(|t| file.write_all(&t.bytes))
    })?;
    Ok(())
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// When the file is missing or not whole.
pub fn read(path: &Path) -> Result<Vec<HostTensor>, ReferenceError> {
    let bad = |problem: String| ReferenceError::Read {
        path: path.to_owned(),
        problem,
    };
    let file = std::fs::File::open(path).map_err(|e| bad(e.to_string()))?;
    let size = file.metadata().map_err(|e| bad(e.to_string()))?.len();
    let mut reader = std::io::BufReader::new(file);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(|e| bad(e.to_string()))?;
    let header: Header = serde_json::from_str(&line).map_err(|e| bad(e.to_string()))?;
    if header.format != FORMAT {
        return Err(bad(format!("expected {FORMAT}, found {}", header.format)));
    }
    let total = header
        .tensors
        .iter()
        .try_fold(line.len() as u64, |sum, t| sum.checked_add(t.2 as u64));
    if total != Some(size) {
        return Err(bad("the file is truncated".into()));
    }
    let mut outputs = Vec::new();
    for (name, shape, bytes) in header.tensors {
        let dtype = DType::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| bad(format!("type `{name}`")))?;
        let mut tensor = HostTensor {
            dtype,
            shape,
            bytes: vec![0; bytes],
        };
        reader
            .read_exact(&mut tensor.bytes)
            .map_err(|e| bad(e.to_string()))?;
        outputs.push(tensor);
    }
    Ok(outputs)
}

/// The largest absolute difference over the largest absolute reference value, of the worst output. Differing shapes or types,
/// and values that are not finite on one side only, never pass.
pub fn compare(found: &[HostTensor], reference: &[HostTensor], tolerance: f64) -> Correctness {
    let mut worst = Some(0.0f64);
    if found.len() != reference.len() {
        worst = None;
    }
    for (a, b) in found.iter().zip(reference) {
        let same = a.dtype == b.dtype && a.shape == b.shape && a.bytes.len() == b.bytes.len();
        let error = if same { relative_error(a, b) } else { None };
        worst = match (worst, error) {
            (Some(w), Some(e)) => Some(w.max(e)),
            _ => None,
        };
    }
    Correctness {
        max_relative_error: worst,
        tolerance,
    }
}

fn relative_error(a: &HostTensor, b: &HostTensor) -> Option<f64> {
    if a.dtype != DType::F32 {
        return Some(if a.bytes == b.bytes { 0.0 } else { 1.0 });
    }
    let floats = |t: &'_ HostTensor| -> Vec<f32> {
        t.bytes
            .chunks_exact(4)
            .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect()
    };
    let (a, b) = (floats(a), floats(b));
    let scale = b
        .iter()
        .filter(|v| v.is_finite())
        .fold(0.0f64, |m, v| m.max(f64::from(v.abs())));
    let mut worst = 0.0f64;
    for (x, y) in a.iter().zip(&b) {
        if x.is_finite() && y.is_finite() {
            worst = worst.max((f64::from(*x) - f64::from(*y)).abs());
        } else if x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan()) {
            return None;
        }
    }
    Some(if worst == 0.0 {
        0.0
    } else {
        worst / scale.max(f64::from(f32::MIN_POSITIVE))
    })
}
