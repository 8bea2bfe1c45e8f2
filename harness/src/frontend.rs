//! From what the user names to what the compiler works on: models, shape bindings and targets by name.

use crate::config::{Known, suggest};
use relayout_compiler::cost::{CoefficientError, Coefficients};
use relayout_compiler::extract::ShapeBinding;
use relayout_compiler::target::{Target, TargetError};
use relayout_models::{Model, ModelSource, ModelSpec, OverrideValue, ZooError, onnx, spec, zoo};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Why something that the user named can't be had.
#[derive(Debug, thiserror::Error)]
pub enum FrontendError {
    /// The MODEL text is malformed.
    #[error(transparent)]
    Spec(#[from] spec::SpecError),
    /// The zoo refuses.
    #[error(transparent)]
    Zoo(#[from] ZooError),
    /// A model file can't be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An ONNX file can't be imported.
    #[error("{path}: {source}")]
    Onnx {
        /// The file.
        path: PathBuf,
        /// Why.
        source: onnx::OnnxError,
    },
    /// Overrides of a model that takes none.
    #[error("{path}: an ONNX model takes no overrides; found `{key}`")]
    Overrides {
        /// The file.
        path: PathBuf,
        /// The first of them.
        key: String,
    },
    /// A batch size for a model whose graph fixes it.
    #[error("{model} has a fixed batch; `batch: {batch}` can't be honoured (leave it at 1)")]
    Batch {
        /// The model.
        model: String,
        /// What was asked for.
        batch: u64,
    },
    /// A symbolic dimension that the model doesn't have.
    #[error("{model} has no symbolic dimension `{found}`{}", suffix(.help))]
    Dimension {
        /// The model.
        model: String,
        /// The name given.
        found: String,
        /// The nearest one, or all.
        help: Option<String>,
    },
    /// A value outside of a dimension's declared range.
    #[error("dimension `{dim}` is {found}; expected {low} or more{}", .high.map_or(String::new(), |h| format!(", at most {h}")))]
    Range {
        /// The dimension.
        dim: String,
        /// The value given.
        found: i64,
        /// Inclusive lower end.
        low: i64,
        /// Inclusive upper end.
        high: Option<i64>,
    },
    /// No such built-in target.
    #[error("unknown target `{found}`{}", suffix(.help))]
    Target {
        /// The name given.
        found: String,
        /// The nearest one, or all.
        help: Option<String>,
    },
    /// A target description is not usable.
    #[error(transparent)]
    Description(#[from] TargetError),
    /// A coefficient file is not usable.
    #[error("{path}: {source}")]
    Coefficients {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CoefficientError,
    },
}

fn suffix(text: &Option<String>) -> String {
    text.as_ref().map(|t| format!("; {t}")).unwrap_or_default()
}

/// A model as a configuration or command names it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// Its family label.
    pub family: String,
    /// The text it was named by.
    pub label: String,
}

/// The family label of a zoo model; `None` for a file.
pub fn family(text: &str) -> Option<String> {
    let name = text.split_whitespace().next()?;
    zoo::find(name).ok().map(|e| e.family.label().to_owned())
}

/// Hash of what a model text or target name stands for: the bytes of a model file, the resolved description and coefficients of a
/// target. `None` for a zoo model, which its name determines, and for what can't be read ([`load`] and [`target`] say why).
pub fn content(text: &str) -> Option<String> {
    let bytes = match ModelSpec::parse(text).ok()?.source {
        ModelSource::Onnx(path) => std::fs::read(path).ok()?,
        ModelSource::Zoo(_) => format!("{:?}", target(text).ok()?).into_bytes(),
    };
    Some(blake3::hash(&bytes).to_hex()[..32].to_owned())
}

/// Loads a model: a zoo name with overrides, or a path that ends in `.onnx`. Weights are drawn from the seed.
///
/// A batch of the model's own symbolic dimension is set by [`bind`], not here: for such models `batch` binds it.
///
/// # Errors
/// See [`FrontendError`].
pub fn load(text: &str, seed: u64, batch: u64) -> Result<Loaded, FrontendError> {
    let parsed = ModelSpec::parse(text)?;
    match parsed.source {
        ModelSource::Zoo(name) => {
            let mut overrides = parsed.overrides;
            let batch = match overrides.remove("batch") {
                Some(OverrideValue::Int(n)) if batch == 1 => u64::try_from(n).unwrap_or(0),
                _ => batch,
            };
            let model = zoo::build(
                &name,
                &overrides,
                seed,
                usize::try_from(batch).unwrap_or(usize::MAX),
            )?;
            Ok(Loaded {
                family: model.family.label().to_owned(),
                model,
                label: text.to_owned(),
            })
        }
        ModelSource::Onnx(path) => {
            if let Some(key) = parsed.overrides.keys().next() {
                return Err(FrontendError::Overrides {
                    path,
                    key: key.clone(),
                });
            }
            if batch != 1 {
                return Err(FrontendError::Batch {
                    model: path.display().to_string(),
                    batch,
                });
            }
            let bytes = std::fs::read(&path).map_err(|source| FrontendError::Read {
                path: path.clone(),
                source,
            })?;
            let name = path
                .file_stem()
                .map_or_else(|| "model".into(), |s| s.to_string_lossy().into_owned());
            let options = onnx::ImportOptions {
                f32_only: true,
                ..onnx::ImportOptions::new(&name, seed)
            };
            let model =
                onnx::import(&bytes, &options).map_err(|source| FrontendError::Onnx { path, source })?;
            Ok(Loaded {
                family: model.family.label().to_owned(),
                model,
                label: text.to_owned(),
            })
        }
    }
}

/// The binding of a model's symbolic dimensions: the given values over the defaults.
///
/// # Errors
/// For a name that the model doesn't have, or a value outside of its declared range.
pub fn bind(model: &Model, dims: &BTreeMap<String, i64>) -> Result<ShapeBinding, FrontendError> {
    let names: Vec<&str> = model.dims.iter().map(|d| d.decl.var.name()).collect();
    if let Some(found) = dims.keys().find(|k| !names.contains(&k.as_str())) {
        let help = if names.is_empty() {
            Some("all its dimensions are fixed".into())
        } else {
            suggest(found, names)
        };
        return Err(FrontendError::Dimension {
            model: model.name.clone(),
            found: found.clone(),
            help,
        });
    }
    let mut values = BTreeMap::new();
    for dim in &model.dims {
        let name = dim.decl.var.name();
        let found = dims.get(name).copied().unwrap_or(dim.default);
        if found < dim.decl.low || dim.decl.high.is_some_and(|h| found > h) {
            let (low, high) = (dim.decl.low, dim.decl.high);
            return Err(FrontendError::Range {
                dim: name.to_owned(),
                found,
                low,
                high,
            });
        }
        values.insert(name.to_owned(), found);
    }
    Ok(ShapeBinding { weight: 1, values })
}

/// A target with the coefficients of its analytic cost model.
#[derive(Clone, Debug)]
pub struct TargetParts {
    /// The description, resolved for this host.
    pub target: Target,
    /// Its coefficients.
    pub coefficients: Coefficients,
}

/// Names of the targets that are compiled in.
pub const TARGETS: [&str; 1] = ["cpu"];

/// A built-in target, or a description file (`DIR/NAME.yaml`) with `NAME-coefficients.yaml` beside it; without the latter the
/// built-in coefficients.
///
/// # Errors
/// When there is no such target or a file is not usable.
pub fn target(name: &str) -> Result<TargetParts, FrontendError> {
    let shipped = |source| FrontendError::Coefficients {
        path: "cpu-coefficients.yaml".into(),
        source,
    };
    if name == "cpu" {
        return Ok(TargetParts {
            target: Target::cpu()?,
            coefficients: Coefficients::cpu().map_err(shipped)?,
        });
    }
    if !name.ends_with(".yaml") {
        return Err(FrontendError::Target {
            found: name.to_owned(),
            help: suggest(name, TARGETS),
        });
    }
    let path = Path::new(name);
    let target = Target::load(path)?;
    let beside = path.with_file_name(format!(
        "{}-coefficients.yaml",
        path.file_stem().unwrap_or_default().to_string_lossy()
    ));
    let coefficients = match std::fs::read_to_string(&beside) {
        Ok(text) => Coefficients::parse(&text)
            .map_err(|source| FrontendError::Coefficients { path: beside, source })?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Coefficients::cpu().map_err(shipped)?,
        Err(source) => return Err(FrontendError::Read { path: beside, source }),
    };
    Ok(TargetParts { target, coefficients })
}

/// The names that a configuration may use.
pub fn known() -> Known {
    Known {
        models: zoo::list().iter().map(|e| e.name.to_owned()).collect(),
        targets: TARGETS.iter().map(|t| (*t).to_owned()).collect(),
        strategies: relayout_layouts::STRATEGIES
            .iter()
            .map(|s| s.name.to_owned())
            .collect(),
        solvers: relayout_layouts::STRATEGIES
            .iter()
            .map(|s| {
                (
                    s.name.to_owned(),
                    crate::commands::solvers(s.name)
                        .iter()
                        .map(|i| i.name.to_owned())
                        .collect(),
                )
            })
            .collect(),
    }
}
