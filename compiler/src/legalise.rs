//! Legalisation: every operator call becomes `call_tir` of its tensor program, and what is the same bytes becomes a view.

use crate::alias::is_alias;
use crate::error::CompileError;
use relayout_ir::annotation::{Annotation, TensorInfo};
use relayout_ir::graph::{Attrs, Expr, GraphFunction, Module, ValueId};
use relayout_ir::op::{LegaliseCall, OpId};
use relayout_ir::sym::SymExpr;

/// The operands (tensors only) and result of an operator call as legalisation sees them.
///
/// # Errors
/// When the result is not a tensor.
pub fn legalise_call<'a>(
    function: &GraphFunction,
    value: ValueId,
    args: &[ValueId],
    attrs: &'a Attrs,
) -> Result<LegaliseCall<'a>, CompileError> {
    let tensors: Vec<TensorInfo> = args
        .iter()
        .filter_map(|a| function.values[*a].annotation.as_tensor().cloned())
        .collect();
    let bound = &function.values[value];
    let Annotation::Tensor(out) = &bound.annotation else {
        return Err(CompileError::Value {
            function: function.name.clone(),
            value: bound.name.clone(),
            expected: "a tensor",
            found: format!("{:?}", bound.annotation),
        });
    };
    Ok(LegaliseCall {
        args: tensors,
        out: out.clone(),
        attrs,
        name: bound.name.clone(),
        syms: function.syms.clone(),
    })
}

/// Lowers every remaining operator call of the module. A `layout_transform` of a constant becomes the constant in that layout: it is
/// packed ahead of time, never at run time.
///
/// # Errors
/// When an operator can't be legalised under its layouts.
pub fn legalise(module: &mut Module) -> Result<(), CompileError> {
    for f in module.functions.ids().collect::<Vec<_>>() {
        let mut function = module.functions[f].clone();
        let constants: std::collections::BTreeMap<ValueId, relayout_ir::graph::ConstId> = function
            .bindings()
            .filter_map(|b| match b.expr {
                Expr::Constant(c) => Some((b.value, c)),
                _ => None,
            })
            .collect();
        let mut blocks = function.blocks.clone();
        for binding in blocks.iter_mut().flat_map(|b| &mut b.bindings) {
            let Expr::Op { op, args, attrs, .. } = &binding.expr else {
                continue;
            };
            let lowered = lower(module, &function, &constants, binding.value, *op, args, attrs)?;
            binding.expr = lowered;
        }
        function.blocks = blocks;
        module.functions[f] = function;
    }
    Ok(())
}

fn lower(
    module: &mut Module,
    function: &GraphFunction,
    constants: &std::collections::BTreeMap<ValueId, relayout_ir::graph::ConstId>,
    value: ValueId,
    op: OpId,
    args: &[ValueId],
    attrs: &Attrs,
) -> Result<Expr, CompileError> {
    let call = legalise_call(function, value, args, attrs)?;
    if op.name() == "layout_transform"
        && let Some(c) = args.first().and_then(|a| constants.get(a))
    {
        return Ok(Expr::Constant(*c));
    }
    if let ([input], Some(arg)) = (&call.args[..], args.first())
        && is_alias(op.name(), attrs, input, &call.out)
    {
        return Ok(Expr::View(*arg));
    }
    let program = op
        .get()
        .legalise(&call)
        .map_err(|source| CompileError::Operator {
            function: function.name.clone(),
            binding: call.name.clone(),
            source,
        })?;
    let sym_args = program.sym_params.iter().map(SymExpr::var).collect();
    let tensors = args
        .iter()
        .copied()
        .filter(|a| function.values[*a].annotation.as_tensor().is_some())
        .collect();
    let program = module.programs.push(program);
    Ok(Expr::CallTir {
        program,
        args: tensors,
        sym_args,
    })
}
