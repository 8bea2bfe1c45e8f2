//! From the bytes of a file to a model.

use super::context::{Call, Context, Refusal, Value};
use super::error::{OnnxError, UnsupportedOperator};
use super::host;
use super::node::Node;
use super::ops;
use super::proto::{GraphProto, ModelProto, ValueInfo};
use super::roles::Consumers;
use super::wire;
use crate::inputs::DataInput;
use crate::model::{Dimension, Family, Model};
use crate::weights::Role;
use prost::Message;
use relayout_ir::annotation::{Annotation, DType};
use relayout_ir::builder::FunctionBuilder;
use relayout_ir::graph::{ConstantData, Module, SymDecl};
use relayout_ir::sym::{SymExpr, SymVar};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How to import.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportOptions {
    /// The name of the resulting model.
    pub name: String,
    /// The seed of the weights.
    pub seed: u64,
    /// Default values of symbolic dimensions by variable name; others default to 1 in leading axes and 128 elsewhere.
    pub dims: BTreeMap<String, i64>,
    /// Whether 16-bit floating-point tensors become `f32`.
    pub f32_only: bool,
}

impl ImportOptions {
    /// Defaults: element types as in the file.
    pub fn new(name: &str, seed: u64) -> Self {
        ImportOptions {
            name: name.to_owned(),
            seed,
            dims: BTreeMap::new(),
            f32_only: false,
        }
    }
}

/// The operator sets whose semantics the lowering knows.
const OPSETS: std::ops::RangeInclusive<i64> = 11..=21;

/// Imports an ONNX file.
///
/// Time and memory are linear in the file and in what is folded, which is bounded per value.
///
/// # Errors
/// For a truncated or corrupt file (byte offset and field), an ill-formed graph, or operators that can't be expressed: then one error
/// lists them all, with counts, reasons and one node each.
pub fn import(bytes: &[u8], options: &ImportOptions) -> Result<Model, OnnxError> {
    wire::check(bytes)?;
    let model = ModelProto::decode(bytes).map_err(|e| OnnxError::Decode(e.to_string()))?;
    let graph = model
        .graph
        .as_ref()
        .ok_or_else(|| OnnxError::Model("the file has no graph; expected an ONNX model".to_owned()))?;
    let opset = opset(&model)?;
    let mut module = Module::default();
    let builder = FunctionBuilder::new(&mut module, "main");
    let importer = Importer {
        graph,
        options,
        consumers: Consumers::new(graph),
        ctx: Context::new(builder, options.seed, opset, options.f32_only),
        env: HashMap::new(),
        shapes: HashMap::new(),
        inputs: Vec::new(),
        weights: Vec::new(),
        dims: Vec::new(),
        dim_names: HashMap::new(),
        refusals: BTreeMap::new(),
        declared: graph
            .value_info
            .iter()
            .chain(&graph.output)
            .map(|v| (v.name.as_str(), v))
            .collect(),
    };
    let listed = model
        .metadata_props
        .iter()
        .find(|p| p.key == "data_inputs")
        .map(|p| p.value.as_str());
    let parts = importer.run(listed)?;
    draw_integer_weights(&mut module, &parts.integer_weights);
    Ok(Model {
        name: options.name.clone(),
        family: family(graph, &parts.shapes),
        module,
        inputs: parts.inputs,
        outputs: graph.output.iter().map(|o| o.name.clone()).collect(),
        dims: parts.dims,
    })
}

fn opset(model: &ModelProto) -> Result<i64, OnnxError> {
    let own = model
        .opset_import
        .iter()
        .find(|o| o.domain.is_empty() || o.domain == "ai.onnx");
    let version = own
        .map(|o| o.version)
        .ok_or_else(|| OnnxError::Model("the file imports no version of ONNX's operator set".to_owned()))?;
    if OPSETS.contains(&version) {
        return Ok(version);
    }
    Err(OnnxError::Model(format!(
        "operator set {version}; expected {} to {}",
        OPSETS.start(),
        OPSETS.end()
    )))
}

/// Convolutions over images make a vision network; attention without them a transformer.
fn family(graph: &GraphProto, shapes: &HashMap<String, Vec<usize>>) -> Family {
    let image = |n: &&super::proto::NodeProto| {
        n.op_type == "Conv"
            && n.input
                .get(1)
                .and_then(|w| shapes.get(w))
                .is_some_and(|s| s.len() >= 4)
    };
    let has = |op: &str| graph.node.iter().any(|n| n.op_type == op);
    if graph.node.iter().any(|n| image(&n)) {
        Family::Vision
    } else if has("TopK") && has("Softmax") {
        Family::MixtureOfExperts
    } else if has("Softmax") && (has("MatMul") || has("Gemm")) {
        Family::DenseTransformers
    } else {
        Family::Other
    }
}

/// Gives integer and Boolean weights the role that the whole graph says they have.
fn draw_integer_weights(module: &mut Module, roles: &HashMap<String, Role>) {
    for (_, constant) in module.constants.iter_mut() {
        if let ConstantData::Generated(generator) = &mut constant.data
            && let Some(role) = roles.get(&generator.key)
        {
            generator.distribution = role.distribution();
        }
    }
}

struct Importer<'a, 'm> {
    graph: &'a GraphProto,
    options: &'a ImportOptions,
    consumers: Consumers<'a>,
    ctx: Context<'m>,
    /// Values by name. A name that a refused node defines, and whose type the file does not record, has none.
    env: HashMap<&'a str, Option<Value>>,
    /// Extents by name, 1 standing for a symbolic one.
    shapes: HashMap<String, Vec<usize>>,
    inputs: Vec<DataInput>,
    weights: Vec<(String, DType, Vec<usize>)>,
    dims: Vec<Dimension>,
    dim_names: HashMap<String, SymVar>,
    refusals: BTreeMap<(String, String), (usize, String)>,
    /// Types that the file records, by name.
    declared: HashMap<&'a str, &'a ValueInfo>,
}

/// What is left of an import besides the module.
struct Parts {
    inputs: Vec<DataInput>,
    dims: Vec<Dimension>,
    shapes: HashMap<String, Vec<usize>>,
    integer_weights: HashMap<String, Role>,
}

impl<'a> Importer<'a, '_> {
    fn run(mut self, data_inputs: Option<&str>) -> Result<Parts, OnnxError> {
        self.initializers()?;
        self.graph_inputs(data_inputs)?;
        for (index, proto) in self.graph.node.iter().enumerate() {
            self.node(Node { proto, index })?;
        }
        let mut results = Vec::with_capacity(self.graph.output.len());
        for output in &self.graph.output {
            let refuse = |problem: String| OnnxError::Value {
                kind: "output",
                name: output.name.clone(),
                problem,
            };
            match self.env.get(output.name.as_str()) {
                Some(Some(value)) => {
                    let value = value.clone();
                    results.push(self.ctx.ir(&value, &output.name).map_err(|r| refuse(r.0))?);
                }
                Some(None) => {}
                None => return Err(refuse("nothing defines it".to_owned())),
            }
        }
        if !self.refusals.is_empty() {
            let list = std::mem::take(&mut self.refusals).into_iter();
            return Err(OnnxError::Unsupported(
                list.map(|((op, reason), (count, node))| UnsupportedOperator {
                    op,
                    reason,
                    count,
                    node,
                })
                .collect(),
            ));
        }
        if results.is_empty() {
            return Err(OnnxError::Model("the graph has no outputs".to_owned()));
        }
        let extents = |name: &str| self.shapes.get(name).cloned();
        for input in &mut self.inputs {
            if !input.dtype.is_float() {
                let bound = self.consumers.index_bound(&input.name, &extents);
                input.distribution = Role::of_integers(input.dtype, None, false, bound).distribution();
            }
        }
        let integer_weights = self
            .weights
            .iter()
            .filter(|(_, dtype, _)| !dtype.is_float())
            .map(|(name, dtype, shape)| {
                let bound = self.consumers.index_bound(name, &extents);
                (
                    name.clone(),
                    Role::of_integers(*dtype, shape.last().copied(), true, bound),
                )
            })
            .collect();
        self.ctx.builder.finish(&results);
        Ok(Parts {
            inputs: self.inputs,
            dims: self.dims,
            shapes: self.shapes,
            integer_weights,
        })
    }

    fn define(&mut self, name: &'a str, value: Option<Value>) {
        if let Some(dims) = value.as_ref().and_then(|v| self.ctx.dims(v).ok()) {
            let extent = |d: &SymExpr| d.as_const().and_then(|d| usize::try_from(d).ok()).unwrap_or(1);
            self.shapes
                .insert(name.to_owned(), dims.iter().map(extent).collect());
        }
        self.env.insert(name, value);
    }

    fn initializers(&mut self) -> Result<(), OnnxError> {
        for tensor in &self.graph.initializer {
            let mut host = host::from_proto(tensor)?;
            if self.options.f32_only && host.dtype.is_float() {
                host.dtype = DType::F32;
            }
            let value = self.ctx.host(host);
            self.define(&tensor.name, Some(value));
        }
        Ok(())
    }

    fn graph_inputs(&mut self, data_inputs: Option<&str>) -> Result<(), OnnxError> {
        let listed: Option<HashSet<&str>> =
            data_inputs.map(|d| d.split(',').map(str::trim).filter(|n| !n.is_empty()).collect());
        for name in listed.iter().flatten() {
            if !self.graph.input.iter().any(|i| i.name == *name) {
                let names = self.graph.input.iter().map(|i| i.name.as_str());
                return Err(OnnxError::Value {
                    kind: "input",
                    name: (*name).to_owned(),
                    problem: format!(
                        "`data_inputs` names it, but the graph has no such input; the nearest is `{}`",
                        crate::spec::nearest(name, names)
                    ),
                });
            }
        }
        for input in &self.graph.input {
            if self.env.contains_key(input.name.as_str()) {
                continue;
            }
            let is_data = listed.as_ref().is_none_or(|l| l.contains(input.name.as_str()));
            let (dims, dtype) = self.typed(input)?;
            let value = if is_data {
                let id = self
                    .ctx
                    .builder
                    .param(&input.name, Annotation::tensor(dims.clone(), dtype));
                let role = if dtype.is_float() { Role::Value } else { Role::Ones };
                self.inputs.push(DataInput {
                    name: input.name.clone(),
                    dims,
                    dtype,
                    distribution: role.distribution(),
                });
                Value::Ir(id)
            } else {
                let fixed = |d: &SymExpr| d.as_const().and_then(|d| usize::try_from(d).ok());
                let shape: Option<Vec<usize>> = dims.iter().map(fixed).collect();
                let shape = shape.filter(|s| host::elements(s).is_some()).ok_or_else(|| OnnxError::Value {
                    kind: "input",
                    name: input.name.clone(),
                    problem: format!("a weight of shape {dims:?}; expected constant dimensions (is it missing in `data_inputs`?)"),
                })?;
                let role = if dtype.is_float() {
                    self.consumers.float_role(&input.name, &shape)
                } else {
                    Role::Ones
                };
                self.weights.push((input.name.clone(), dtype, shape.clone()));
                self.ctx.weight(&input.name, shape, dtype, role)
            };
            self.define(&input.name, Some(value));
        }
        Ok(())
    }

    /// The type and shape that the file declares for an input; named and unnamed dimensions become variables.
    fn typed(&mut self, info: &ValueInfo) -> Result<(Vec<SymExpr>, DType), OnnxError> {
        let refuse = |problem: String| OnnxError::Value {
            kind: "input",
            name: info.name.clone(),
            problem,
        };
        let tensor = info
            .r#type
            .as_ref()
            .and_then(|t| t.tensor_type.as_ref())
            .ok_or_else(|| refuse("it is no tensor".to_owned()))?;
        let dtype = self.ctx.dtype_of(i64::from(tensor.elem_type)).map_err(refuse)?;
        let shape = tensor
            .shape
            .as_ref()
            .ok_or_else(|| refuse("its rank is not recorded".to_owned()))?;
        let mut dims = Vec::with_capacity(shape.dim.len());
        for (axis, dim) in shape.dim.iter().enumerate() {
            match (dim.dim_value, dim.dim_param.as_deref()) {
                (Some(v), _) if v >= 0 => dims.push(SymExpr::from(v)),
                (Some(v), _) => return Err(refuse(format!("dimension {axis} is {v}; expected 0 or more"))),
                (None, Some(p)) if !p.is_empty() => dims.push(self.dimension(p, axis)),
                (None, _) => dims.push(self.dimension(&format!("{}_{axis}", info.name), axis)),
            }
        }
        Ok((dims, dtype))
    }

    /// The variable of a named dimension; the name is brought into the form of identifiers.
    fn dimension(&mut self, name: &str, axis: usize) -> SymExpr {
        if let Some(var) = self.dim_names.get(name) {
            return SymExpr::var(var);
        }
        let mut clean: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        if clean.starts_with(|c: char| c.is_ascii_digit()) {
            clean.insert(0, 'd');
        }
        while self.dims.iter().any(|d| d.decl.var.name() == clean) {
            clean.push('_');
        }
        let var = SymVar::new(&clean);
        let default = self.options.dims.get(&clean).copied();
        self.dims.push(Dimension {
            decl: SymDecl {
                var: var.clone(),
                low: 1,
                high: None,
            },
            default: default.unwrap_or(if axis == 0 { 1 } else { 128 }).max(1),
        });
        self.dim_names.insert(name.to_owned(), var.clone());
        self.ctx.builder.sym(&clean, 1, None)
    }

    fn node(&mut self, node: Node<'a>) -> Result<(), OnnxError> {
        let mut args = Vec::with_capacity(node.proto.input.len());
        let mut complete = true;
        for name in &node.proto.input {
            match self.env.get(name.as_str()) {
                _ if name.is_empty() => args.push(None),
                Some(Some(value)) => args.push(Some(value.clone())),
                Some(None) => complete = false,
                None => {
                    return Err(OnnxError::Undefined {
                        node: node.name(),
                        op: node.op(),
                        value: name.clone(),
                    });
                }
            }
        }
        let op = node.op();
        let results = match ops::lowering(&op) {
            None => Err(Refusal("no such operator here".to_owned())),
            // Something before it was refused and left no type: its own reasons can't be known.
            Some(_) if !complete => Ok(Vec::new()),
            Some(lower) => lower(&mut self.ctx, &Call { node, args }),
        };
        let results = results.and_then(|r| self.as_declared(node, r));
        let results = results.unwrap_or_else(|refusal| {
            let entry = self.refusals.entry((op, refusal.0));
            entry.or_insert_with(|| (0, node.name())).0 += 1;
            Vec::new()
        });
        let mut results = results.into_iter();
        for name in &node.proto.output {
            let value = results.next();
            if name.is_empty() {
                continue;
            }
            // After a refusal the declared type stands in, so that later nodes can still be judged.
            let value = value.or_else(|| self.stand_in(name));
            self.define(name, value);
        }
        Ok(())
    }

    fn declared(&self, name: &str) -> Option<(Vec<i64>, DType)> {
        let tensor = self.declared.get(name)?.r#type.as_ref()?.tensor_type.as_ref()?;
        let dims = tensor
            .shape
            .as_ref()?
            .dim
            .iter()
            .map(|d| d.dim_value)
            .collect::<Option<_>>()?;
        Some((dims, self.ctx.dtype_of(i64::from(tensor.elem_type)).ok()?))
    }

    /// Compares what lowering gave with what the file records.
    fn as_declared(&self, node: Node<'a>, results: Vec<Value>) -> Result<Vec<Value>, Refusal> {
        for (name, value) in node
            .proto
            .output
            .iter()
            .zip(&results)
            .filter(|(n, _)| !n.is_empty())
        {
            let (Some((want, dtype)), Ok(have)) = (self.declared(name), self.ctx.dims(value)) else {
                continue;
            };
            let differs = have.len() != want.len()
                || have
                    .iter()
                    .zip(&want)
                    .any(|(h, w)| h.as_const().is_some_and(|h| h != *w));
            if differs {
                return Err(Refusal(format!(
                    "the result has shape {have:?}; the file records {want:?}"
                )));
            }
            let found = self.ctx.dtype(value)?;
            if found != dtype {
                return Err(Refusal(format!(
                    "the result has type {found}; the file records {dtype}"
                )));
            }
        }
        Ok(results)
    }

    fn stand_in(&mut self, name: &str) -> Option<Value> {
        let (dims, dtype) = self.declared(name)?;
        let dims = dims.into_iter().map(SymExpr::from).collect();
        Some(Value::Ir(
            self.ctx.builder.param(name, Annotation::tensor(dims, dtype)),
        ))
    }
}
