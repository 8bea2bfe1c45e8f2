//! The model families: each file builds one from checked sizes.

pub mod bert;
pub mod cnn;
pub mod examples;
pub mod llama;
pub mod resnet;

use crate::inputs::DataInput;
use crate::model::{Dimension, Family, Model};
use crate::nn::Scope;
use crate::weights::Role;
use crate::zoo::ZooError;
use relayout_ir::annotation::{Annotation, DType};
use relayout_ir::builder::{BuildError, FunctionBuilder};
use relayout_ir::graph::{Module, ValueId};
use relayout_ir::sym::SymExpr;

/// A model under construction: the function with what a [`Model`] records of it.
struct Assembly<'m> {
    builder: FunctionBuilder<'m>,
    inputs: Vec<DataInput>,
}

impl Assembly<'_> {
    /// Adds a data input with the role that draws it.
    fn input(&mut self, name: &str, dims: Vec<SymExpr>, dtype: DType, role: Role) -> ValueId {
        self.inputs.push(DataInput {
            name: name.to_owned(),
            dims: dims.clone(),
            dtype,
            distribution: role.distribution(),
        });
        self.builder.param(name, Annotation::tensor(dims, dtype))
    }
    /// An `f32` image batch.
    fn image(&mut self, name: &str, shape: [usize; 4]) -> ValueId {
        let dims = shape.iter().map(|d| SymExpr::from(*d)).collect();
        self.input(name, dims, DType::F32, Role::Value)
    }
}

/// Named results of a model.
type Results = Vec<(&'static str, ValueId)>;

/// Runs a family's body in a fresh module and wraps the result.
fn assemble(
    name: &str,
    family: Family,
    seed: u64,
    dims: &[Dimension],
    body: impl FnOnce(&mut Assembly<'_>, u64) -> Result<Results, BuildError>,
) -> Result<Model, ZooError> {
    let mut module = Module::default();
    let mut assembly = Assembly {
        builder: FunctionBuilder::new(&mut module, "main"),
        inputs: Vec::new(),
    };
    for dim in dims {
        assembly
            .builder
            .sym(dim.decl.var.name(), dim.decl.low, dim.decl.high);
    }
    let results = body(&mut assembly, seed).map_err(|source| ZooError::Build {
        model: name.to_owned(),
        source,
    })?;
    let Assembly { builder, inputs } = assembly;
    let values: Vec<ValueId> = results.iter().map(|(_, v)| *v).collect();
    builder.finish(&values);
    Ok(Model {
        name: name.to_owned(),
        family,
        module,
        inputs,
        outputs: results.iter().map(|(n, _)| (*n).to_owned()).collect(),
        dims: dims.to_vec(),
    })
}

/// The root scope of an assembly.
fn root<'a, 'm>(assembly: &'a mut Assembly<'m>, seed: u64) -> Scope<'a, 'm> {
    Scope::root(&mut assembly.builder, seed)
}
