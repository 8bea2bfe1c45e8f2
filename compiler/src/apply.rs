//! Layout application: writes an assignment into the graph. Every value gets its producer's layout, every distinct requested
//! layout of a tensor one `layout_transform`, every operator the implementation that its configuration was priced with.

use crate::extract::{Extraction, Role};
use relayout_ir::annotation::Annotation;
use relayout_ir::builder::attrs;
use relayout_ir::graph::{Attr, Binding, Expr, Module, Value, ValueId};
use relayout_ir::layout::Layout;
use relayout_ir::op;
use relayout_layouts::ConfigId;
use std::collections::{BTreeSet, HashMap};

/// Why an assignment can't be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The assignment is not one of this instance.
    #[error("the assignment has {found} operators, the instance {expected}")]
    Length {
        /// The instance's.
        expected: usize,
        /// The assignment's.
        found: usize,
    },
    /// A configuration that the operator does not have.
    #[error("operator {operator} has no configuration {config}")]
    Config {
        /// Position of the operator.
        operator: usize,
        /// The configuration asked for.
        config: usize,
    },
    /// The module is not the one that was extracted from.
    #[error("the module is not the one that the instance was extracted from")]
    Module,
}

/// A conversion that application inserted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// The tensor.
    pub tensor: String,
    /// Its producer's layout.
    pub from: Layout,
    /// The requested layout.
    pub to: Layout,
    /// Whether the tensor is a constant, repacked ahead of time.
    pub constant: bool,
    /// Whether the two layouts are the same bytes.
    pub alias: bool,
}

/// What was applied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    /// Conversions, in graph order.
    pub conversions: Vec<Conversion>,
    /// Name and producer layout of every tensor, in graph order.
    pub layouts: Vec<(String, Layout)>,
}

/// Applies an assignment to (a clone of) the module that the instance was extracted from.
///
/// O(bindings + conversions).
///
/// # Errors
/// When assignment, instance and module do not belong together.
pub fn apply(
    module: &mut Module,
    extraction: &Extraction,
    assignment: &[ConfigId],
) -> Result<Applied, ApplyError> {
    if assignment.len() != extraction.roles.len() {
        return Err(ApplyError::Length {
            expected: extraction.roles.len(),
            found: assignment.len(),
        });
    }
    let entry = module.entry().ok_or(ApplyError::Module)?;
    let function = &mut module.functions[entry];
    let layouts: HashMap<ValueId, &Vec<Layout>> = extraction.tensors.iter().map(|(v, l)| (*v, l)).collect();
    let mut produced: HashMap<ValueId, Layout> = HashMap::new();
    let mut requested: HashMap<ValueId, BTreeSet<Layout>> = HashMap::new();
    let mut chosen: HashMap<ValueId, (&crate::extract::LayoutConfig, &String)> = HashMap::new();
    for (operator, (role, config)) in extraction.roles.iter().zip(assignment).enumerate() {
        let bad = || ApplyError::Config {
            operator,
            config: config.index(),
        };
        match role {
            Role::Parameter(v) => {
                let layouts = layouts.get(v).ok_or(ApplyError::Module)?;
                produced.insert(*v, layouts[0].clone());
            }
            Role::Constant(v) => {
                let layouts = layouts.get(v).ok_or(ApplyError::Module)?;
                produced.insert(*v, layouts.get(config.index()).ok_or_else(bad)?.clone());
            }
            Role::Call {
                value,
                configs,
                implementations,
            } => {
                let c = configs.get(config.index()).ok_or_else(bad)?;
                produced.insert(*value, c.out.clone());
                chosen.insert(*value, (c, &implementations[config.index()]));
            }
            Role::Result(v) => {
                let rank = layouts
                    .get(v)
                    .and_then(|l| l.first())
                    .ok_or(ApplyError::Module)?
                    .rank();
                requested.entry(*v).or_default().insert(Layout::row_major(rank));
            }
        }
    }
    for (value, (config, _)) in &chosen {
        let binding = function.bindings().find(|b| b.value == *value);
        let Some(Expr::Op { args, .. }) = binding.map(|b| &b.expr) else {
            return Err(ApplyError::Module);
        };
        for (arg, layout) in args.iter().zip(&config.args) {
            if let Some(layout) = layout {
                requested.entry(*arg).or_default().insert(layout.clone());
            }
        }
    }
    let transform = op::by_name("layout_transform").ok_or(ApplyError::Module)?;
    let mut applied = Applied::default();
    let mut converted: HashMap<(ValueId, Layout), ValueId> = HashMap::new();
    let mut rewriter = Rewriter {
        function,
        transform,
        produced: &produced,
        requested: &requested,
    };
    let params = rewriter.function.params.clone();
    let mut prologue = Vec::new();
    for param in params {
        rewriter.define(param, false, &mut prologue, &mut converted, &mut applied);
    }
    let blocks = std::mem::take(&mut rewriter.function.blocks);
    let mut out = Vec::with_capacity(blocks.len());
    for block in blocks {
        let mut bindings = std::mem::take(&mut prologue);
        for Binding { value, mut expr } in block.bindings {
            let constant = matches!(expr, Expr::Constant(_));
            match &mut expr {
                Expr::Op {
                    args, implementation, ..
                } => {
                    if let Some((config, name)) = chosen.get(&value) {
                        for (arg, layout) in args.iter_mut().zip(&config.args) {
                            if let Some(new) = layout.clone().and_then(|l| converted.get(&(*arg, l))) {
                                *arg = *new;
                            }
                        }
                        *implementation = Some((*name).clone());
                    }
                }
                Expr::Tuple(items) => {
                    for item in items.iter_mut() {
                        let abi = layouts
                            .get(item)
                            .and_then(|l| l.first())
                            .map(|l| Layout::row_major(l.rank()));
                        if let Some(new) = abi.and_then(|l| converted.get(&(*item, l))) {
                            *item = *new;
                        }
                    }
                }
                _ => {}
            }
            bindings.push(Binding { value, expr });
            rewriter.define(value, constant, &mut bindings, &mut converted, &mut applied);
        }
        out.push(relayout_ir::graph::Block {
            kind: block.kind,
            bindings,
        });
    }
    let function = rewriter.function;
    function.blocks = out;
    let abi = layouts
        .get(&function.result)
        .and_then(|l| l.first())
        .map(|l| Layout::row_major(l.rank()));
    if let Some(new) = abi.and_then(|l| converted.get(&(function.result, l))) {
        function.result = *new;
    }
    Ok(applied)
}

struct Rewriter<'a> {
    function: &'a mut relayout_ir::graph::GraphFunction,
    transform: relayout_ir::op::OpId,
    produced: &'a HashMap<ValueId, Layout>,
    requested: &'a HashMap<ValueId, BTreeSet<Layout>>,
}

impl Rewriter<'_> {
    /// Gives a value its producer's layout and adds its conversions behind its definition.
    fn define(
        &mut self,
        value: ValueId,
        constant: bool,
        bindings: &mut Vec<Binding>,
        converted: &mut HashMap<(ValueId, Layout), ValueId>,
        applied: &mut Applied,
    ) {
        let Some(layout) = self.produced.get(&value) else {
            return;
        };
        let Annotation::Tensor(info) = &mut self.function.values[value].annotation else {
            return;
        };
        info.layout = Some(layout.clone());
        let (info, name) = (info.clone(), self.function.values[value].name.clone());
        applied.layouts.push((name.clone(), layout.clone()));
        let targets = self
            .requested
            .get(&value)
            .into_iter()
            .flatten()
            .filter(|l| *l != layout);
        for (number, to) in targets.enumerate() {
            let mut new_name = format!("{name}_to{number}");
            while self.function.values.iter().any(|(_, v)| v.name == new_name) {
                new_name.push('_');
            }
            let annotation = Annotation::Tensor(info.in_layout(to.clone()));
            let new = self.function.values.push(Value {
                name: new_name,
                annotation,
            });
            let attrs = attrs([("layout", Attr::Layout(to.clone()))]);
            let expr = Expr::Op {
                op: self.transform,
                args: vec![value],
                attrs,
                implementation: Some("generated".into()),
            };
            bindings.push(Binding { value: new, expr });
            converted.insert((value, to.clone()), new);
            let alias = info
                .dims()
                .is_some_and(|d| crate::alias::conversion_is_alias(d, layout, to));
            applied.conversions.push(Conversion {
                tensor: name.clone(),
                from: layout.clone(),
                to: to.clone(),
                constant,
                alias,
            });
        }
    }
}
