//! `relayout exec`: a model or a compiled module, run on inputs that are given or drawn.

use super::compile::Recipe;
use super::instance::{dims, load, prepare_loaded};
use super::{CommandError, Exit, output};
use crate::cli::ExecArgs;
use crate::config::suggest;
use crate::npy;
use crate::reference;
use crate::stats::quantile_of;
use relayout_models::Model;
use relayout_runtime::generate::generate;
use relayout_runtime::module::{Dim, Distribution, Function, Generator, TensorType};
use relayout_runtime::{DType, EvalStack, HostTensor, Module, Options, Session};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A module with its inputs and the names of its outputs.
struct Job {
    module: Module,
    inputs: Vec<HostTensor>,
    outputs: Vec<String>,
}

/// Executes a model; prints or writes its outputs.
pub fn exec(args: &ExecArgs) -> Result<Exit, CommandError> {
    let given = read_inputs(&args.inputs)?;
    let job = match args.model.model.split_first() {
        Some((file, [])) if file.ends_with(".rlm") => module_job(args, Path::new(file), given)?,
        Some((file, [word, ..])) if file.ends_with(".rlm") => {
            let message = format!("a compiled module takes no overrides; found `{word}`");
            return Err(CommandError::Usage { message, help: None });
        }
        _ => model_job(args, given)?,
    };
    let options = Options {
        threads: args.threads.unwrap_or(0) as usize,
        ..Options::default()
    };
    let mut session = Session::new(job.module, &options).map_err(CommandError::failed)?;
    let threads = session.threads();
    let mut prepared = session.prepare(None, &job.inputs).map_err(CommandError::input)?;
    if args.repeat > 1 {
        prepared.run().map_err(CommandError::failed)?;
    }
    let mut samples = Vec::with_capacity(args.repeat as usize);
    for _ in 0..args.repeat {
        let start = Instant::now();
        prepared.run().map_err(CommandError::failed)?;
        samples.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let outputs = prepared.outputs().map_err(CommandError::failed)?;
    let files = write_outputs(args.output.as_deref(), &job.outputs, &outputs)?;
    if args.json {
        output::print_json(&object(&job.outputs, &files, &outputs, &samples, threads))?;
    } else {
        output::print(&text(&job.outputs, &files, &outputs, &samples, threads))?;
    }
    Ok(Exit::Success)
}

fn read_inputs(inputs: &[(String, PathBuf)]) -> Result<BTreeMap<String, HostTensor>, CommandError> {
    let mut given = BTreeMap::new();
    for (name, path) in inputs {
        let file = std::fs::File::open(path).map_err(|e| CommandError::in_file(path, e))?;
        let tensor = npy::read(std::io::BufReader::new(file)).map_err(|e| CommandError::in_file(path, e))?;
        if given.insert(name.clone(), tensor).is_some() {
            let message = format!("input `{name}` is given twice");
            return Err(CommandError::Usage { message, help: None });
        }
    }
    Ok(given)
}

/// Compiles a model; inputs that are not given are drawn as the reference draws them.
fn model_job(args: &ExecArgs, mut given: BTreeMap<String, HostTensor>) -> Result<Job, CommandError> {
    let recipe = Recipe::plain(&args.strategy, &args.limits, args.model.seed);
    recipe.check()?;
    let loaded = load(&args.model)?;
    known_inputs(&given, loaded.model.inputs.iter().map(|i| i.name.as_str()))?;
    let mut values = dims(&args.model)?;
    dims_of_inputs(&loaded.model, &given, &mut values);
    let mut prepared = prepare_loaded(&args.model, loaded, &values)?;
    if let Some(threads) = args.threads {
        prepared.target.target.threads = threads as usize;
    }
    let model = &prepared.loaded.model;
    let mut inputs =
        reference::inputs(model, args.model.seed, &prepared.binding).map_err(CommandError::input)?;
    for (input, tensor) in model.inputs.iter().zip(&mut inputs) {
        if let Some(own) = given.remove(&input.name) {
            *tensor = own;
        }
    }
    let outputs = model.outputs.clone();
    let module = recipe.compile(&prepared)?.module.module;
    Ok(Job {
        module,
        inputs,
        outputs,
    })
}

/// Symbolic dimensions that are not set take their values from the inputs that are given.
fn dims_of_inputs(model: &Model, given: &BTreeMap<String, HostTensor>, values: &mut BTreeMap<String, i64>) {
    for input in &model.inputs {
        let Some(tensor) = given.get(&input.name) else {
            continue;
        };
        for (dim, &extent) in input.dims.iter().zip(&tensor.shape) {
            let text = dim.to_string();
            if model.dims.iter().any(|d| d.decl.var.name() == text) {
                values.entry(text).or_insert(extent);
            }
        }
    }
}

fn known_inputs<'a>(
    given: &BTreeMap<String, HostTensor>,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), CommandError> {
    match given.keys().find(|name| !names.clone().any(|n| n == *name)) {
        None => Ok(()),
        Some(found) => {
            let help = suggest(found, names);
            Err(CommandError::Unknown {
                what: "input",
                found: found.clone(),
                help,
            })
        }
    }
}

/// Reads a compiled module; inputs that are not given are drawn by name, shape and element type.
fn module_job(
    args: &ExecArgs,
    path: &Path,
    mut given: BTreeMap<String, HostTensor>,
) -> Result<Job, CommandError> {
    let module = Module::read(path).map_err(|e| CommandError::in_file(path, e))?;
    module.validate().map_err(|e| CommandError::in_file(path, e))?;
    let function = module
        .entries
        .first()
        .and_then(|entry| module.functions.get(entry.function.index()))
        .ok_or_else(|| CommandError::in_file(path, "the module has no entry"))?;
    known_inputs(&given, function.params.iter().map(|p| p.name.as_str()))?;
    let slots = slots(function, &dims(&args.model)?, &given)?;
    let mut inputs = Vec::new();
    for param in &function.params {
        match (given.remove(&param.name), param.ty.tensors()) {
            (Some(tensor), _) => inputs.push(tensor),
            (None, [ty]) => inputs.push(draw(&param.name, ty, function, &slots, args.model.seed)?),
            (None, _) => {
                let message = format!("input `{}` is a tuple, which can't be drawn", param.name);
                return Err(CommandError::Usage { message, help: None });
            }
        }
    }
    let results = function.result.tensors().len();
    let outputs = match &function.result_names[..] {
        [] => (0..results).map(|i| format!("output{i}")).collect(),
        names => names.to_vec(),
    };
    Ok(Job {
        module,
        inputs,
        outputs,
    })
}

/// Values of the function's symbolic dimensions: from `--set`, else from the inputs that are given.
fn slots(
    function: &Function,
    dims: &BTreeMap<String, i64>,
    given: &BTreeMap<String, HostTensor>,
) -> Result<Vec<Option<i64>>, CommandError> {
    let bound: Vec<(&str, usize)> = function
        .params
        .iter()
        .flat_map(|p| p.ty.tensors())
        .flat_map(|t| &t.dims)
        .filter_map(|d| match d {
            Dim::Bind(slot) => Some((function.slots.get(slot.index())?.name.as_str(), slot.index())),
            _ => None,
        })
        .collect();
    if let Some(found) = dims.keys().find(|name| !bound.iter().any(|(n, _)| n == name)) {
        let help = match bound.is_empty() {
            true => Some("all dimensions of the module are fixed".to_owned()),
            false => suggest(found, bound.iter().map(|b| b.0)),
        };
        return Err(CommandError::Unknown {
            what: "dimension",
            found: found.clone(),
            help,
        });
    }
    let mut slots = vec![None; function.slots.len()];
    for (name, slot) in &bound {
        slots[*slot] = dims.get(*name).copied();
    }
    for param in &function.params {
        let (Some(tensor), [ty]) = (given.get(&param.name), param.ty.tensors()) else {
            continue;
        };
        for (dim, &extent) in ty.dims.iter().zip(&tensor.shape) {
            if let Dim::Bind(slot) = dim
                && let Some(value) = slots.get_mut(slot.index())
            {
                value.get_or_insert(extent);
            }
        }
    }
    Ok(slots)
}

/// Draws an input of a compiled module: uniform in [-1, 1), integers 0 and 1.
fn draw(
    name: &str,
    ty: &TensorType,
    function: &Function,
    slots: &[Option<i64>],
    seed: u64,
) -> Result<HostTensor, CommandError> {
    let unset = |what: &str, help: String| CommandError::Usage {
        message: format!("input `{name}`: {what}"),
        help: Some(help),
    };
    let dense: Vec<i64> = slots.iter().map(|s| s.unwrap_or(0)).collect();
    let mut stack = EvalStack::new();
    let mut shape = Vec::new();
    for dim in &ty.dims {
        let slot_name = |i: usize| function.slots.get(i).map_or("?", |s| s.name.as_str());
        let missing = |i: usize| {
            let n = slot_name(i);
            unset(
                &format!("dimension `{n}` has no value"),
                format!("give `--set {n}=VALUE`, or the input itself"),
            )
        };
        let extent = match dim {
            Dim::Bind(slot) => slots
                .get(slot.index())
                .copied()
                .flatten()
                .ok_or_else(|| missing(slot.index()))?,
            Dim::Check(expr) => {
                if let Some(slot) = expr
                    .slots()
                    .find(|s| slots.get(s.index()).copied().flatten().is_none())
                {
                    return Err(missing(slot.index()));
                }
                expr.eval(&dense, &mut stack).map_err(CommandError::input)?
            }
            Dim::Any => {
                return Err(unset(
                    "a dimension is open",
                    format!("give `--input {name}=FILE.npy`"),
                ));
            }
        };
        shape.push(extent);
    }
    let bytes = shape
        .iter()
        .try_fold(ty.dtype.bytes(), |bytes, &d| {
            bytes.checked_mul(usize::try_from(d).ok()?)
        })
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or_else(|| {
            unset(
                &format!("the shape {shape:?} has no size"),
                "give other dimensions".to_owned(),
            )
        })?;
    let distribution = match ty.dtype.is_float() {
        true => Distribution::Uniform { low: -1.0, high: 1.0 },
        false => Distribution::Integers { low: 0, high: 2 },
    };
    let generator = Generator {
        seed,
        key: name.to_owned(),
        distribution,
    };
    let mut tensor = HostTensor {
        dtype: ty.dtype,
        shape,
        bytes: vec![0; bytes],
    };
    generate(&generator, ty.dtype, &mut tensor.bytes, 1).map_err(CommandError::input)?;
    Ok(tensor)
}

/// Writes each output; the paths, or nothing where no folder was asked for.
fn write_outputs(
    folder: Option<&Path>,
    names: &[String],
    outputs: &[HostTensor],
) -> Result<Vec<Option<PathBuf>>, CommandError> {
    let Some(folder) = folder else {
        return Ok(vec![None; outputs.len()]);
    };
    std::fs::create_dir_all(folder).map_err(|e| crate::journal::WriteError::from_io(folder, e))?;
    let mut taken: Vec<String> = Vec::new();
    let mut files = Vec::new();
    for (i, tensor) in outputs.iter().enumerate() {
        let mut stem = file_stem(names.get(i).map_or("", String::as_str));
        if stem.is_empty() || taken.contains(&stem) {
            stem = format!("{stem}_{i}");
        }
        let path = folder.join(format!("{stem}.npy"));
        output::write_file(&path, |mut file| npy::write(tensor, &mut file))?;
        taken.push(stem);
        files.push(Some(path));
    }
    Ok(files)
}

/// A name as a file's: what is not a letter, digit, `-`, `_` or `.` becomes `_`.
fn file_stem(name: &str) -> String {
    let stem: String = name
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    // A leading dot would hide the file.
    stem.trim_start_matches('.').to_owned()
}

fn object(
    names: &[String],
    files: &[Option<PathBuf>],
    outputs: &[HostTensor],
    samples: &[f64],
    threads: usize,
) -> Value {
    let all: Vec<Value> = outputs
        .iter()
        .enumerate()
        .map(|(i, tensor)| {
            json!({
                "name": names.get(i),
                "file": files[i].as_ref().map(|f| f.display().to_string()),
                "shape": tensor.shape,
                "dtype": tensor.dtype.name(),
            })
        })
        .collect();
    json!({
        "outputs": all,
        "latency_ms": {
            "median": quantile_of(samples, 0.5),
            "min": quantile_of(samples, 0.0),
            "p90": quantile_of(samples, 0.9),
            "samples": samples.len(),
        },
        "samples_ms": samples,
        "threads": threads,
    })
}

fn text(
    names: &[String],
    files: &[Option<PathBuf>],
    outputs: &[HostTensor],
    samples: &[f64],
    threads: usize,
) -> String {
    let row = |(i, tensor): (usize, &HostTensor)| {
        vec![
            names.get(i).cloned().unwrap_or_default(),
            format!("{}{:?}", tensor.dtype, tensor.shape),
            summary(tensor).unwrap_or_default(),
            files[i]
                .as_ref()
                .map(|f| f.display().to_string())
                .unwrap_or_default(),
        ]
    };
    let mut text = output::columns(&outputs.iter().enumerate().map(row).collect::<Vec<_>>());
    let at = |q| quantile_of(samples, q).unwrap_or_default();
    text.push_str(&format!(
        "latency  median {:.3} ms, min {:.3}, p90 {:.3} ({} samples, {threads} threads)\n",
        at(0.5),
        at(0.0),
        at(0.9),
        samples.len()
    ));
    text
}

/// Least, greatest and mean value of a tensor of f32.
fn summary(tensor: &HostTensor) -> Option<String> {
    let values = (tensor.dtype == DType::F32).then(|| tensor.to_f32())??;
    let (low, high) = values
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &v| {
            (l.min(v), h.max(v))
        });
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len().max(1) as f64;
    (!values.is_empty()).then(|| format!("min {low:.5}, max {high:.5}, mean {mean:.5}"))
}
