//! Partial library lowering: calls whose implementation is a library routine become `call_dps_library`; everything else stays for
//! legalisation.

use crate::error::CompileError;
use crate::implementation::{Implementation, gemm_attrs, implementation_of};
use crate::legalise::legalise_call;
use crate::target::Target;
use relayout_ir::graph::{Expr, Module};

/// Lowers library calls. The implementation is the one that layout selection recorded; where none is recorded it is chosen here
/// by the same function.
///
/// # Errors
/// When a recorded implementation is unknown or does not fit its call.
pub fn library_lowering(module: &mut Module, target: &Target) -> Result<(), CompileError> {
    for f in module.functions.ids().collect::<Vec<_>>() {
        let function = module.functions[f].clone();
        for binding in module.functions[f]
            .blocks
            .iter_mut()
            .flat_map(|b| &mut b.bindings)
        {
            let Expr::Op {
                op,
                args,
                attrs,
                implementation,
            } = &binding.expr
            else {
                continue;
            };
            let bound = function.values[binding.value].annotation.as_tensor();
            if bound.and_then(|t| t.dims()).is_none() {
                continue;
            }
            let name = function.values[binding.value].name.clone();
            let bad = |found: &str, problem: String| CompileError::Implementation {
                function: function.name.clone(),
                binding: name.clone(),
                found: found.to_owned(),
                problem,
            };
            let call = legalise_call(&function, binding.value, args, attrs)?;
            let chosen = match implementation {
                Some(text) => text.parse().map_err(|e| bad(text, e))?,
                None => implementation_of(&call, *op, target),
            };
            let Implementation::Library(routine) = chosen else {
                continue;
            };
            let gemm = (op.name() == "matmul" && routine == "gemm.matmul")
                .then(|| gemm_attrs(&call.args, &call.out, attrs))
                .flatten();
            let Some(gemm) = gemm else {
                return Err(bad(
                    &format!("library:{routine}"),
                    format!("`{}` with these layouts can't be expressed by it", op.name()),
                ));
            };
            binding.expr = Expr::CallDpsLibrary {
                routine,
                args: args.clone(),
                attrs: gemm,
                sym_args: Vec::new(),
            };
        }
    }
    Ok(())
}

/// Records for every operator call that its kernel is generated: library lowering switched off.
pub fn generate_all(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        for binding in function.blocks.iter_mut().flat_map(|b| &mut b.bindings) {
            if let Expr::Op { implementation, .. } = &mut binding.expr {
                *implementation = Some(Implementation::Generated.to_string());
            }
        }
    }
}
