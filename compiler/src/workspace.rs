//! Explicit destinations and workspaces: `call_tir` and `call_dps_library` become allocations and destination-passing calls.
//!
//! This is the first half of memory planning (Relax §4.3: calls are lowered to explicit allocation before planning) together with
//! workspace lifting (Relax §4.4, figure 11): memory that a tensor program needs between its stages is allocated by the graph
//! function, where the planner can share it with other tensors.

use crate::error::CompileError;
use relayout_ir::annotation::{Annotation, DType, TensorInfo};
use relayout_ir::graph::{Binding, BlockKind, Callee, Expr, GraphFunction, Module, Value, ValueId};
use relayout_ir::index::Idx;
use relayout_ir::program::{BufferRole, TensorProgram};
use relayout_ir::sym::{SymExpr, product};

/// Makes every destination and workspace explicit.
///
/// # Errors
/// When a result's shape or type is not known.
pub fn lift_workspaces(module: &mut Module) -> Result<(), CompileError> {
    for f in module.functions.ids().collect::<Vec<_>>() {
        let mut function = module.functions[f].clone();
        for b in 0..function.blocks.len() {
            let mut out = Vec::new();
            for binding in std::mem::take(&mut function.blocks[b].bindings) {
                lower(module, &mut function, binding, &mut out)?;
            }
            // Destination-passing calls are side effects: from here on order is meaning.
            if out.iter().any(|b| matches!(b.expr, Expr::Invoke { .. })) {
                function.blocks[b].kind = BlockKind::Plain;
            }
            function.blocks[b].bindings = out;
        }
        module.functions[f] = function;
    }
    Ok(())
}

fn lower(
    module: &Module,
    function: &mut GraphFunction,
    binding: Binding,
    out: &mut Vec<Binding>,
) -> Result<(), CompileError> {
    let value = binding.value;
    match binding.expr {
        Expr::CallTir {
            program,
            args,
            sym_args,
        } => {
            allocate_result(function, value, out)?;
            let body = &module.programs[program];
            let mut outs = vec![value];
            for (id, buffer) in body
                .buffers
                .iter()
                .filter(|(_, b)| b.role == BufferRole::Workspace)
            {
                let shape: Vec<SymExpr> = buffer.shape.iter().map(|e| at_call(e, body, &sym_args)).collect();
                let name = fresh(
                    function,
                    &format!("{}_ws{}", function.values[value].name, id.index()),
                );
                let workspace = function.values.push(Value {
                    name,
                    annotation: Annotation::Tensor(TensorInfo::new(shape.clone(), buffer.dtype)),
                });
                allocate(function, workspace, &shape, buffer.dtype, out);
                outs.push(workspace);
            }
            invoke(
                function,
                value,
                Callee::Program(program),
                args,
                outs,
                sym_args,
                out,
            );
        }
        Expr::CallDpsLibrary {
            routine,
            args,
            attrs,
            sym_args,
        } => {
            allocate_result(function, value, out)?;
            invoke(
                function,
                value,
                Callee::Library(routine, attrs),
                args,
                vec![value],
                sym_args,
                out,
            );
        }
        expr => out.push(Binding { value, expr }),
    }
    Ok(())
}

/// An expression over a program's parameters, at a call.
pub fn at_call(e: &SymExpr, program: &TensorProgram, sym_args: &[SymExpr]) -> SymExpr {
    e.substitute(&|v| {
        let i = program.sym_params.iter().position(|p| p == v)?;
        sym_args.get(i).cloned()
    })
}

fn invoke(
    function: &mut GraphFunction,
    value: ValueId,
    callee: Callee,
    args: Vec<ValueId>,
    outs: Vec<ValueId>,
    sym_args: Vec<SymExpr>,
    out: &mut Vec<Binding>,
) {
    let name = fresh(function, &format!("{}_call", function.values[value].name));
    let done = function.values.push(Value {
        name,
        annotation: Annotation::Tuple(Vec::new()),
    });
    out.push(Binding {
        value: done,
        expr: Expr::Invoke {
            callee,
            args,
            outs,
            sym_args,
        },
    });
}

/// A name that no value of the function has.
pub fn fresh(function: &GraphFunction, hint: &str) -> String {
    let taken = |name: &str| function.values.iter().any(|(_, v)| v.name == name);
    if !taken(hint) {
        return hint.to_owned();
    }
    let mut i = 1;
    loop {
        let name = format!("{hint}_{i}");
        if !taken(&name) {
            return name;
        }
        i += 1;
    }
}

fn allocate_result(
    function: &mut GraphFunction,
    value: ValueId,
    out: &mut Vec<Binding>,
) -> Result<(), CompileError> {
    let (shape, dtype) = physical(function, value)?;
    allocate(function, value, &shape, dtype, out);
    Ok(())
}

/// The physical shape and the type of a tensor value.
///
/// # Errors
/// When it is not a tensor of known shape and type.
pub fn physical(function: &GraphFunction, value: ValueId) -> Result<(Vec<SymExpr>, DType), CompileError> {
    let v = &function.values[value];
    let known = v.annotation.as_tensor().and_then(|t| {
        let dims = t.dims()?;
        Some((t.layout_or_abi()?.physical_shape(dims), t.dtype?))
    });
    known.ok_or_else(|| CompileError::Value {
        function: function.name.clone(),
        value: v.name.clone(),
        expected: "a tensor of known shape and type",
        found: format!("{:?}", v.annotation),
    })
}

fn allocate(
    function: &mut GraphFunction,
    value: ValueId,
    shape: &[SymExpr],
    dtype: DType,
    out: &mut Vec<Binding>,
) {
    let name = fresh(function, &format!("{}_mem", function.values[value].name));
    let storage = function.values.push(Value {
        name,
        annotation: Annotation::Object,
    });
    out.push(Binding {
        value: storage,
        expr: Expr::AllocStorage {
            bytes: product(shape) * SymExpr::from(dtype.bytes()),
        },
    });
    out.push(Binding {
        value,
        expr: Expr::AllocTensor {
            storage,
            offset: SymExpr::zero(),
        },
    });
}
