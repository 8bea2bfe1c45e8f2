//! The file format `layout-selection/1`: JSON, optionally compressed with zstd or gzip (recognised by their magic numbers).
//!
//! Readers ignore keys they do not know. Every fault is reported with its path, like `operators[3].configs[0].cost`.

use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::hints::Hints;
use crate::id::{ConfigId, LayoutId, TensorId};
use crate::problem::{
    ConfigSpec, CostTerms, OperatorSpec, Problem, ProblemBuilder, ProblemError, TensorSpec,
};

/// The value of the `format` key.
pub const FORMAT: &str = "layout-selection/1";

/// A compressed file may not expand beyond this: a guard against decompression bombs, far above any real instance.
const MAX_EXPANDED: u64 = 16 << 30;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why an instance could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("cannot read {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The compressed file is damaged or too large.
    #[error("cannot decompress: {0}")]
    Compression(String),
    /// Not JSON.
    #[error("not JSON: {message}")]
    Syntax {
        /// What and where, with line and column.
        message: String,
    },
    /// JSON, but a value has the wrong type or a key is missing.
    #[error("{path}: {message}")]
    Schema {
        /// Path to the fault.
        path: String,
        /// What was found and expected, with line and column.
        message: String,
    },
    /// The `format` key names another format.
    #[error("format: found {found:?}, expected {FORMAT:?}")]
    Format {
        /// What the key says.
        found: String,
    },
    /// Well-formed, but not a valid problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

#[derive(Deserialize)]
struct InstanceIn {
    format: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    unit: String,
    family: Option<String>,
    hints: Option<Hints>,
    tensors: Vec<TensorIn>,
    operators: Vec<OperatorIn>,
}

#[derive(Deserialize)]
struct TensorIn {
    #[serde(default)]
    name: String,
    layouts: Vec<String>,
    transpose: Vec<Vec<Option<u64>>>,
    #[serde(default)]
    constant: bool,
    #[serde(default)]
    bundle: bool,
    #[serde(default)]
    transpose_terms: Vec<Vec<Option<CostTerms>>>,
}

#[derive(Deserialize)]
struct OperatorIn {
    #[serde(default)]
    name: String,
    inputs: Vec<usize>,
    output: usize,
    configs: Vec<ConfigIn>,
}

#[derive(Deserialize)]
struct ConfigIn {
    r#in: Vec<usize>,
    out: usize,
    cost: u64,
    terms: Option<CostTerms>,
}

/// Reads an instance from a file, compressed or not.
///
/// # Errors
/// See [`ReadError`].
pub fn read_file(path: impl AsRef<Path>) -> Result<Problem, ReadError> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|source| ReadError::Io {
        file: path.display().to_string(),
        source,
    })?;
    read(&bytes)
}

/// Reads an instance from bytes, compressed or not.
///
/// # Errors
/// See [`ReadError`].
pub fn read(bytes: &[u8]) -> Result<Problem, ReadError> {
    let expanded = expand(bytes)?;
    let file: InstanceIn = parse(expanded.as_deref().unwrap_or(bytes))?;
    if file.format != FORMAT {
        return Err(ReadError::Format { found: file.format });
    }
    let tensor = |t: TensorIn| TensorSpec {
        name: t.name,
        layouts: t.layouts,
        transpose: t.transpose,
        constant: t.constant,
        bundle: t.bundle,
        transpose_terms: t.transpose_terms,
    };
    let config = |c: ConfigIn| ConfigSpec {
        inputs: c.r#in,
        output: c.out,
        cost: c.cost,
        terms: c.terms,
    };
    let operator = |o: OperatorIn| OperatorSpec {
        name: o.name,
        inputs: o.inputs,
        output: o.output,
        configs: o.configs.into_iter().map(config).collect(),
    };
    let builder = ProblemBuilder {
        name: file.name,
        unit: file.unit,
        family: file.family,
        hints: file.hints,
        tensors: file.tensors.into_iter().map(tensor).collect(),
        operators: file.operators.into_iter().map(operator).collect(),
    };
    Ok(builder.build()?)
}

/// Reads the `assignment` of a solution file: an object with one configuration index per operator, or `null`.
///
/// # Errors
/// See [`ReadError`]. Whether the indices exist is for [`crate::check::check`] to say.
pub fn read_assignment(bytes: &[u8]) -> Result<Option<Vec<ConfigId>>, ReadError> {
    #[derive(Deserialize)]
    struct SolutionIn {
        assignment: Option<Vec<u32>>,
    }
    let expanded = expand(bytes)?;
    let solution: SolutionIn = parse(expanded.as_deref().unwrap_or(bytes))?;
    Ok(solution.assignment.map(|a| a.into_iter().map(ConfigId).collect()))
}

/// The bytes behind a compressed file (zstd or gzip, by its magic number); `None` when it is not compressed.
pub(crate) fn expand(bytes: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
    let fail = |e: std::io::Error| ReadError::Compression(e.to_string());
    let decoder: Box<dyn Read> = if bytes.starts_with(&ZSTD_MAGIC) {
        Box::new(zstd::Decoder::new(bytes).map_err(fail)?)
    } else if bytes.starts_with(&GZIP_MAGIC) {
        Box::new(flate2::read::MultiGzDecoder::new(bytes))
    } else {
        return Ok(None);
    };
    let mut out = Vec::new();
    decoder
        .take(MAX_EXPANDED + 1)
        .read_to_end(&mut out)
        .map_err(fail)?;
    if out.len() as u64 > MAX_EXPANDED {
        return Err(ReadError::Compression(format!(
            "expands to more than {MAX_EXPANDED} bytes"
        )));
    }
    Ok(Some(out))
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ReadError> {
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut de).map_err(|e| {
        let path = e.path().to_string();
        let path = if path == "." { "top level".into() } else { path };
        let inner = e.into_inner();
        match inner.classify() {
            serde_json::error::Category::Data => ReadError::Schema {
                path,
                message: inner.to_string(),
            },
            _ => ReadError::Syntax {
                message: format!("{inner} (in {path})"),
            },
        }
    })?;
    de.end().map_err(|e| ReadError::Syntax {
        message: e.to_string(),
    })?;
    Ok(value)
}

#[derive(Serialize)]
struct InstanceOut<'a> {
    format: &'static str,
    name: &'a str,
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<&'a Hints>,
    tensors: Vec<TensorOut<'a>>,
    operators: Vec<OperatorOut<'a>>,
}

#[derive(Serialize)]
struct TensorOut<'a> {
    name: &'a str,
    layouts: &'a [String],
    transpose: Vec<&'a [Option<u64>]>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    constant: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bundle: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transpose_terms: Vec<&'a [Option<CostTerms>]>,
}

#[derive(Serialize)]
struct OperatorOut<'a> {
    name: &'a str,
    inputs: &'a [TensorId],
    output: TensorId,
    configs: Vec<ConfigOut<'a>>,
}

#[derive(Serialize)]
struct ConfigOut<'a> {
    r#in: &'a [LayoutId],
    out: LayoutId,
    cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    terms: Option<&'a CostTerms>,
}

/// Writes an instance as one line of JSON.
///
/// # Errors
/// Those of the writer.
pub fn write(problem: &Problem, out: impl Write) -> std::io::Result<()> {
    let tensors = problem.tensors().map(|t| TensorOut {
        name: t.name(),
        layouts: t.layouts,
        transpose: t.transpose.chunks(t.layouts.len()).collect(),
        constant: t.constant,
        bundle: t.bundle,
        transpose_terms: t.transpose_terms().chunks(t.layouts.len()).collect(),
    });
    let operators = problem.operators().map(|o| OperatorOut {
        name: o.name(),
        inputs: o.inputs,
        output: o.output,
        configs: o
            .configs()
            .map(|(c, k)| ConfigOut {
                r#in: k.inputs,
                out: k.output,
                cost: k.cost,
                terms: o.terms(c),
            })
            .collect(),
    });
    let file = InstanceOut {
        format: FORMAT,
        name: problem.name(),
        unit: problem.unit(),
        family: problem.family(),
        hints: problem.hints(),
        tensors: tensors.collect(),
        operators: operators.collect(),
    };
    let mut out = std::io::BufWriter::new(out);
    serde_json::to_writer(&mut out, &file)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes an instance to a file, compressed when the name ends in `.zst`.
///
/// # Errors
/// Those of the file system.
pub fn write_file(problem: &Problem, path: impl AsRef<Path>) -> std::io::Result<()> {
    let path = path.as_ref();
    let file = std::fs::File::create(path)?;
    if path.extension().is_some_and(|e| e == "zst") {
        let mut encoder = zstd::Encoder::new(file, 9)?;
        write(problem, &mut encoder)?;
        encoder.finish()?.sync_all()
    } else {
        write(problem, file)
    }
}
