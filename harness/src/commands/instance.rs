//! `relayout instance`, and what it shares with `compile` and `exec`: a model made ready for layout selection.

use super::{CommandError, Exit, output};
use crate::cli::{DomainChoice, InstanceArgs, ModelArgs};
use crate::config::suggest;
use crate::frontend::{self, Loaded, TargetParts};
use crate::{machine, profiler};
use relayout_compiler::codegen::toolchain::Toolchain;
use relayout_compiler::cost::CostModelKind;
use relayout_compiler::extract::{
    CallSpec, CostModel, DomainPolicy, Extraction, Pricing, ShapeBinding, extract,
};
use relayout_compiler::pipeline::canonicalise;
use relayout_compiler::unit::unit_key;
use relayout_layouts::json;
use std::collections::BTreeMap;
use std::path::Path;

/// A canonicalised model at given shapes, with its target.
pub struct Prepared {
    /// The model.
    pub loaded: Loaded,
    /// Values of its symbolic dimensions.
    pub binding: ShapeBinding,
    /// The target with its coefficients.
    pub target: TargetParts,
}

/// Extracts the instance of a model.
pub fn instance(args: &InstanceArgs) -> Result<Exit, CommandError> {
    let names = CostModelKind::ALL.map(|(_, name)| name);
    let kind = CostModelKind::ALL
        .into_iter()
        .find(|(_, name)| *name == args.cost_model)
        .map(|(kind, _)| kind);
    let policy = policy(args.domain);
    let extraction = match (kind, &args.profile) {
        (None, _) => {
            let help = suggest(&args.cost_model, names);
            return Err(CommandError::Unknown {
                what: "cost model",
                found: args.cost_model.clone(),
                help,
            });
        }
        (Some(CostModelKind::Analytic), None) => prepare(&args.model)?.extract(policy)?,
        (Some(CostModelKind::Analytic), Some(_)) => {
            let message = "`--profile` belongs to `--cost-model profiled`".to_owned();
            return Err(CommandError::Usage { message, help: None });
        }
        (Some(CostModelKind::Profiled), None) => {
            let message = "the profiled cost model needs measured kernels".to_owned();
            let help =
                "give `--profile RUN/profile.json` of a run of this model with `cost_models: [profiled]`";
            return Err(CommandError::Usage {
                message,
                help: Some(help.to_owned()),
            });
        }
        (Some(CostModelKind::Profiled), Some(table)) => {
            prepare(&args.model)?.extract_profiled(policy, table, args.threads)?
        }
    };
    let problem = &extraction.problem;
    output::write_file(&args.output, |file| json::write(problem, file))?;
    output::message(&format!(
        "{}: {} operators, {} tensors, costs in {}",
        problem.name(),
        problem.operators().len(),
        problem.tensors().len(),
        problem.unit()
    ));
    Ok(Exit::Success)
}

/// The extraction policy of a choice on the command line.
pub fn policy(choice: DomainChoice) -> DomainPolicy {
    match choice {
        DomainChoice::Spread => DomainPolicy::Spread,
        DomainChoice::Full => DomainPolicy::Full,
    }
}

/// The `--set` arguments as a map.
///
/// # Errors
/// When a dimension is given twice.
pub fn dims(args: &ModelArgs) -> Result<BTreeMap<String, i64>, CommandError> {
    let mut dims = BTreeMap::new();
    for (name, value) in &args.dims {
        if dims.insert(name.clone(), *value).is_some() {
            let message = format!("`--set {name}` is given twice");
            return Err(CommandError::Usage { message, help: None });
        }
    }
    Ok(dims)
}

/// Loads a model and its target, binds its dimensions and canonicalises it.
///
/// # Errors
/// For names that do not exist, unreadable files and values out of range.
pub fn prepare(args: &ModelArgs) -> Result<Prepared, CommandError> {
    let loaded = load(args)?;
    prepare_loaded(args, loaded, &dims(args)?)
}

/// Loads a model, as imported.
///
/// # Errors
/// For names that do not exist and unreadable files.
pub fn load(args: &ModelArgs) -> Result<Loaded, CommandError> {
    frontend::load(&args.text(), args.seed, args.batch).map_err(CommandError::input)
}

/// As [`prepare`], for a model that is loaded and dimensions that are known.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_loaded(
    args: &ModelArgs,
    mut loaded: Loaded,
    dims: &BTreeMap<String, i64>,
) -> Result<Prepared, CommandError> {
    let binding = frontend::bind(&loaded.model, dims).map_err(CommandError::input)?;
    let target = frontend::target(&args.target).map_err(CommandError::input)?;
    canonicalise(&mut loaded.model.module);
    Ok(Prepared {
        loaded,
        binding,
        target,
    })
}

impl Prepared {
    /// The model's name with its overrides; of a file, its stem: where the file lies is no property of what is made from it.
    pub fn name(&self) -> &str {
        let Loaded { model, label, .. } = &self.loaded;
        if label
            .split_whitespace()
            .next()
            .is_some_and(|word| word.ends_with(".onnx"))
        {
            &model.name
        } else {
            label
        }
    }

    /// The layout selection instance, priced by the analytic model.
    ///
    /// # Errors
    /// When the model can't be extracted.
    pub fn extract(&self, policy: DomainPolicy) -> Result<Extraction, CommandError> {
        // Only the profiled model asks for keys.
        let no_keys =
            |_: &CallSpec, _: &ShapeBinding| Err("the analytic cost model measures no kernels".to_owned());
        self.extract_with(policy, CostModel::Analytic, &no_keys)
    }

    /// The layout selection instance, priced by measured kernels.
    ///
    /// # Errors
    /// When the table can't be read or lacks a kernel, or the model can't be extracted.
    fn extract_profiled(
        &self,
        policy: DomainPolicy,
        table: &Path,
        threads: u32,
    ) -> Result<Extraction, CommandError> {
        if !table.is_file() {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(CommandError::in_file(table, source));
        }
        let costs = profiler::read_table(table)
            .map_err(CommandError::input)?
            .as_costs();
        let toolchain = Toolchain::detect().map_err(CommandError::failed)?;
        let machine = machine::fingerprint_hash();
        let keys = |spec: &CallSpec, binding: &ShapeBinding| {
            unit_key(spec, binding, &self.target.target, &toolchain, threads, &machine)
        };
        self.extract_with(policy, CostModel::Profiled(&costs), &keys)
    }

    fn extract_with(
        &self,
        policy: DomainPolicy,
        model: CostModel<'_>,
        unit_key: &dyn Fn(&CallSpec, &ShapeBinding) -> Result<String, String>,
    ) -> Result<Extraction, CommandError> {
        let TargetParts { target, coefficients } = &self.target;
        let pricing = Pricing {
            target,
            coefficients,
            model,
            unit_key,
        };
        let Loaded { model, family, .. } = &self.loaded;
        let name = self.name();
        let bindings = std::slice::from_ref(&self.binding);
        extract(&model.module, name, Some(family), &pricing, bindings, policy).map_err(CommandError::failed)
    }
}
