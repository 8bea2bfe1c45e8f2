//! The price of a configuration: which implementation runs, what it does, what that costs.

use super::configs::{LayoutConfig, is_alias};
use super::view::{Call, GraphView, Producer, TensorView};
use super::{ExtractError, ShapeBinding};
use crate::cost::{CallShape, Coefficients, ProfileTable, Terms, config_terms, conversion_terms};
use crate::implementation::implementation_of;
use crate::target::Target;
use relayout_ir::annotation::{DType, TensorInfo};
use relayout_ir::graph::{Attr, Attrs, SymDecl};
use relayout_ir::index::Idx;
use relayout_ir::layout::Layout;
use relayout_ir::op::{self, LayoutRule, LegaliseCall, OpId};
use relayout_ir::sym::SymExpr;

/// A call with its layouts chosen: what pricing, profiling and lowering agree on.
#[derive(Clone, PartialEq, Debug)]
pub struct CallSpec {
    /// The operator.
    pub op: OpId,
    /// Its attributes.
    pub attrs: Attrs,
    /// Tensor operands with layouts.
    pub args: Vec<TensorInfo>,
    /// The result with its layout.
    pub out: TensorInfo,
    /// Symbolic variables in scope.
    pub syms: Vec<SymDecl>,
    /// The implementation that runs.
    pub implementation: String,
    /// Whether nothing runs because the result is the operand's bytes.
    pub alias: bool,
}

impl CallSpec {
    /// The call in the registry's form.
    pub fn legalise_call(&self, name: &str) -> LegaliseCall<'_> {
        LegaliseCall {
            args: self.args.clone(),
            out: self.out.clone(),
            attrs: &self.attrs,
            name: name.to_owned(),
            syms: self.syms.clone(),
        }
    }
    /// One line for people.
    pub fn describe(&self) -> String {
        format!("{} {}", self.operation(), self.variant())
    }
    /// What is computed, whatever the layouts: operator, attributes, extents. Variants of one operation compete.
    pub fn operation(&self) -> String {
        let dims = |t: &TensorInfo| {
            let dims = t.dims().unwrap_or_default();
            dims.iter().map(SymExpr::to_string).collect::<Vec<_>>().join("x")
        };
        let mut attrs = self.attrs.clone();
        // A conversion's target layout is part of the variant.
        attrs.retain(|_, value| !matches!(value, Attr::Layout(_)));
        let args: Vec<String> = self.args.iter().map(dims).collect();
        let attrs = relayout_ir::text::print_attrs(&attrs);
        format!(
            "{} {} -> {}{attrs}",
            self.op.name(),
            args.join(" "),
            dims(&self.out)
        )
    }
    /// How it is computed: layouts of operands and result, implementation.
    pub fn variant(&self) -> String {
        let layout = |t: &TensorInfo| t.layout_or_abi().map(|l| l.to_string()).unwrap_or_default();
        let args: Vec<String> = self.args.iter().map(layout).collect();
        format!(
            "{} -> {} [{}]",
            args.join(" "),
            layout(&self.out),
            self.implementation
        )
    }
    /// A conversion of a tensor.
    pub fn conversion(view: &GraphView<'_>, tensor: &TensorView<'_>, from: &Layout, to: &Layout) -> Self {
        let info = TensorInfo::new(tensor.dims.clone(), tensor.dtype);
        CallSpec {
            op: layout_transform(),
            attrs: relayout_ir::builder::attrs([("layout", Attr::Layout(to.clone()))]),
            args: vec![info.in_layout(from.clone())],
            out: info.in_layout(to.clone()),
            syms: view.function.syms.clone(),
            implementation: "generated".into(),
            alias: false,
        }
    }
}

/// The conversion operator.
fn layout_transform() -> OpId {
    op::by_name("layout_transform").expect("the registry has layout_transform")
}

/// How amounts become costs.
#[derive(Clone, Copy)]
pub enum CostModel<'a> {
    /// Terms times coefficients.
    Analytic,
    /// Measured kernels by key.
    Profiled(&'a ProfileTable),
}

/// Everything that prices a configuration.
pub struct Pricing<'a> {
    /// The target.
    pub target: &'a Target,
    /// Its coefficients.
    pub coefficients: &'a Coefficients,
    /// The model.
    pub model: CostModel<'a>,
    /// The content-addressed key of a kernel under a binding, or why it can't be generated.
    #[allow(clippy::type_complexity)]
    pub unit_key: &'a dyn Fn(&CallSpec, &ShapeBinding) -> Result<String, String>,
}

/// Costs per binding, and terms summed over bindings.
pub struct Priced {
    /// Nanoseconds per binding.
    pub costs: Vec<u64>,
    /// Terms.
    pub terms: Terms,
}

impl Pricing<'_> {
    /// The key of a kernel under a binding.
    pub fn key(&self, spec: &CallSpec, binding: &ShapeBinding) -> Result<String, ExtractError> {
        (self.unit_key)(spec, binding).map_err(|problem| ExtractError::Unit {
            description: spec.describe(),
            problem,
        })
    }

    /// The call under a configuration.
    pub fn spec(&self, view: &GraphView<'_>, call: &Call<'_>, config: &LayoutConfig) -> CallSpec {
        let info = |value: relayout_ir::graph::ValueId, layout: &Layout| {
            view.function.values[value]
                .annotation
                .as_tensor()
                .map(|t| t.in_layout(layout.clone()))
        };
        let args = call.args.iter().zip(&config.args);
        let mut spec = CallSpec {
            op: call.op,
            attrs: call.attrs.clone(),
            args: args
                .filter_map(|(a, l)| l.as_ref().and_then(|l| info(*a, l)))
                .collect(),
            out: info(call.value, &config.out).unwrap_or_else(|| TensorInfo::new(Vec::new(), DType::F32)),
            syms: view.function.syms.clone(),
            implementation: String::new(),
            alias: config
                .args
                .first()
                .and_then(Option::as_ref)
                .is_some_and(|from| is_alias(call, from, &config.out)),
        };
        spec.implementation =
            implementation_of(&spec.legalise_call("unit"), spec.op, self.target).to_string();
        spec
    }

    /// What a call does under a binding; `name` is that of its result, for errors.
    pub fn terms(
        &self,
        call: &Call<'_>,
        spec: &CallSpec,
        fused: bool,
        binding: &ShapeBinding,
        name: &str,
    ) -> Result<Terms, ExtractError> {
        let bound = |info: &TensorInfo| bind(info, binding, name);
        Ok(config_terms(&CallShape {
            op: spec.op.name(),
            rule: &call.rule,
            args: spec.args.iter().map(bound).collect::<Result<_, _>>()?,
            out: bound(&spec.out)?,
            strides: pair(&spec.attrs, "strides"),
            window: pair(&spec.attrs, "kernel"),
            padded: matches!(spec.attrs.get("pads"), Some(Attr::Ints(p)) if p.iter().any(|&x| x != 0)),
            library: spec.implementation != "generated",
            fused,
            alias: spec.alias,
            cache_bytes: self.target.caches.l3,
        }))
    }

    /// What a conversion does under a binding.
    pub fn conversion_terms(
        &self,
        tensor: &TensorView<'_>,
        from: &Layout,
        to: &Layout,
        binding: &ShapeBinding,
    ) -> Result<Terms, ExtractError> {
        let info = TensorInfo::new(tensor.dims.clone(), tensor.dtype);
        let (dims, dtype, _) = bind(&info, binding, tensor.name)?;
        Ok(conversion_terms(&dims, dtype, from, to))
    }

    /// The price of a call.
    pub fn call(
        &self,
        view: &GraphView<'_>,
        call: &Call<'_>,
        spec: &CallSpec,
        fused: bool,
        bindings: &[ShapeBinding],
    ) -> Result<Priced, ExtractError> {
        let name = &view.function.values[call.value].name;
        let mut priced = Priced {
            costs: Vec::new(),
            terms: Terms::none(),
        };
        for binding in bindings {
            let terms = self.terms(call, spec, fused, binding, name)?;
            priced.costs.push(match self.model {
                CostModel::Profiled(table) if !fused && !spec.alias => self.measured(table, spec, binding)?,
                _ => self.coefficients.cost(&terms),
            });
            priced.terms.add_all(&terms);
        }
        Ok(priced)
    }

    /// The price of a conversion that moves bytes.
    pub fn conversion(
        &self,
        view: &GraphView<'_>,
        tensor: &TensorView<'_>,
        from: &Layout,
        to: &Layout,
        bindings: &[ShapeBinding],
    ) -> Result<Priced, ExtractError> {
        let mut priced = Priced {
            costs: Vec::new(),
            terms: Terms::none(),
        };
        for binding in bindings {
            let terms = self.conversion_terms(tensor, from, to, binding)?;
            priced.costs.push(match self.model {
                CostModel::Profiled(table) => {
                    self.measured(table, &CallSpec::conversion(view, tensor, from, to), binding)?
                }
                CostModel::Analytic => self.coefficients.cost(&terms),
            });
            priced.terms.add_all(&terms);
        }
        Ok(priced)
    }

    fn measured(
        &self,
        table: &ProfileTable,
        spec: &CallSpec,
        binding: &ShapeBinding,
    ) -> Result<u64, ExtractError> {
        let key = self.key(spec, binding)?;
        table.get(&key).ok_or_else(|| ExtractError::Unprofiled {
            description: spec.describe(),
            key,
        })
    }
}

fn pair(attrs: &Attrs, name: &str) -> (u64, u64) {
    match attrs.get(name) {
        Some(Attr::Ints(v)) if v.len() == 2 => (v[0].max(1).unsigned_abs(), v[1].max(1).unsigned_abs()),
        _ => (1, 1),
    }
}

fn bind(
    info: &TensorInfo,
    binding: &ShapeBinding,
    tensor: &str,
) -> Result<(Vec<u64>, DType, Layout), ExtractError> {
    let dims = info.dims().unwrap_or_default();
    let extents = dims
        .iter()
        .map(|d| {
            let value = d.eval(&|v| binding.values.get(v.name()).copied());
            value
                .and_then(|v| u64::try_from(v).ok())
                .ok_or_else(|| ExtractError::Unbound {
                    tensor: tensor.to_owned(),
                    dim: d.to_string(),
                    binding: format!("{:?}", binding.values),
                })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let layout = info
        .layout_or_abi()
        .unwrap_or_else(|| Layout::row_major(dims.len()));
    Ok((extents, info.dtype.unwrap_or(DType::F32), layout))
}

/// Whether an elementwise call runs inside the kernel of its producer when the two agree on the layout: an operand of the
/// result's shape comes from a generated kernel that can take an epilogue, and nothing else reads it. What `fuse_ops` fuses.
pub fn is_fused(view: &GraphView<'_>, call: &Call<'_>, pricing: &Pricing<'_>) -> bool {
    matches!(call.rule, LayoutRule::Elementwise)
        && call.args.iter().zip(&call.shapes.args).any(|(arg, dims)| {
            let Some(position) = view.position[arg.index()] else {
                return false;
            };
            let tensor = &view.tensors[position];
            tensor.reads == 1
                && dims.as_deref() == Some(call.shapes.out.as_slice())
                && takes_epilogue(view, tensor, pricing)
        })
}

fn takes_epilogue(view: &GraphView<'_>, tensor: &TensorView<'_>, pricing: &Pricing<'_>) -> bool {
    let Producer::Call(producer) = &tensor.producer else {
        return false;
    };
    match producer.rule {
        LayoutRule::Conv2d { .. }
        | LayoutRule::Elementwise
        | LayoutRule::Pool2d
        | LayoutRule::Reduce { .. } => true,
        LayoutRule::Matmul => {
            let rm = |d: &Option<Vec<SymExpr>>| d.as_ref().map(|d| Layout::row_major(d.len()));
            let config = LayoutConfig {
                args: producer.shapes.args.iter().map(rm).collect(),
                out: Layout::row_major(producer.shapes.out.len()),
            };
            pricing.spec(view, producer, &config).implementation == "generated"
        }
        _ => false,
    }
}
