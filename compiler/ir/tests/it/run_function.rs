//! The graph interpreter at every stage of lowering.

use crate::run_program::floats;
use expect_test::{Expect, expect};
use relayout_ir::interpret::{
    ConstantStore, GraphOptions, InterpretError, LibraryCall, LibraryTable, NoLibrary, Reference,
    run_function,
};
use relayout_ir::tensor::{RefValue, Tensor};
use relayout_ir::text::parse;
use std::sync::Arc;

fn run_with(text: &str, args: &[Tensor], library: &dyn LibraryTable) -> Result<RefValue, InterpretError> {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let constants = ConstantStore::keeping();
    let args: Vec<RefValue> = args
        .iter()
        .map(|t| RefValue::Tensor(Arc::new(t.clone())))
        .collect();
    let run = |reference| {
        let options = GraphOptions {
            reference,
            library,
            constants: &constants,
        };
        run_function(&module, module.entry().expect("main"), &args, options)
    };
    let (plain, fast) = (run(Reference::Plain), run(Reference::Fast));
    assert_eq!(plain, fast);
    plain
}

fn tensor(value: Result<RefValue, InterpretError>) -> Tensor {
    match value {
        Ok(RefValue::Tensor(t)) => Arc::unwrap_or_clone(t),
        other => panic!("{other:?}"),
    }
}

fn refused(text: &str, args: &[Tensor], expected: Expect) {
    match run_with(text, args, &NoLibrary) {
        Ok(v) => panic!("{v:?}"),
        Err(e) => expected.assert_eq(&e.to_string()),
    }
}

const NEGATE: &str = r#"
program @neg(n) {
  input x: f32[n]
  output y: f32[n]
  for (i: n) {
    y[i] = neg(x[i])
  }
}
program @neg_nhwc(n) {
  input x: f32[n, 2, 3]
  output y: f32[3, n, 2]
  for (i: n, j: 2, k: 3) {
    y[k, i, j] = neg(x[i, j, k])
  }
}
"#;

#[test]
fn operators_constants_calls_and_tuples() {
    let text = r#"
constant @w: f32[2] = hex "0000803f00000040"
func @twice(%a: f32[k]) where k in 1.. {
  dataflow {
    %b: f32[k] = add(%a, %a)
  }
  return %b
}
func @main(%x: f32[n, 2]) where n in 1.. {
  dataflow {
    %w: f32[2] = constant @w
    %d: f32[2] = call @twice(%w)
    %y: f32[n, 2] = mul(%x, %d)
    %t: (f32[n, 2], f32[2]) = (%y, %d)
    %z: f32[n, 2] = %t[0]
  }
  return %z
}"#;
    let out = tensor(run_with(text, &[floats(&[2, 2], &[1., 2., 3., 4.])], &NoLibrary));
    assert_eq!(out, floats(&[2, 2], &[2., 8., 6., 16.]));
}

#[test]
fn programs_see_physical_tensors() {
    // %a is held as (0,2,1): physical [n, 2, 3] of logical [n, 3, 2]; the result is held as (2,0,1).
    let text = format!(
        "{NEGATE}func @main(%x: f32[n, 3, 2]) where n in 1.. {{
  dataflow {{
    %a: f32[n, 3, 2] @(0,2,1) = layout_transform(%x) {{layout: layout(0,2,1)}}
    %b: f32[n, 3, 2] @(1,0,2) = call_tir @neg_nhwc(%a) syms(n)
    %c: f32[n, 3, 2] = layout_transform(%b) {{layout: layout(0,1,2)}}
  }}
  return %c
}}"
    );
    let values: Vec<f32> = (0..12u8).map(f32::from).collect();
    let out = tensor(run_with(&text, &[floats(&[2, 3, 2], &values)], &NoLibrary));
    let negated: Vec<f32> = values.iter().map(|v| -v).collect();
    assert_eq!(out, floats(&[2, 3, 2], &negated));
}

#[test]
fn views_keep_bytes() {
    let text = "func @main(%x: f32[2, 3]) {\n  dataflow {\n    %t: f32[3, 2] @(1,0) = view(%x)\n    %r: f32[6] = view(%x)\n    %p: (f32[3, 2], f32[6]) = (%t, %r)\n    %y: f32[3, 2] = %p[0]\n  }\n  return %y\n}";
    let out = tensor(run_with(
        text,
        &[floats(&[2, 3], &[1., 2., 3., 4., 5., 6.])],
        &NoLibrary,
    ));
    assert_eq!(out, floats(&[3, 2], &[1., 4., 2., 5., 3., 6.]));
}

fn planned(second_offset: &str, kill: &str) -> String {
    format!(
        "{NEGATE}func @main(%x: f32[n]) where n in 1.. {{
  plain {{
    %s: object = alloc_storage(n*8)
    %a: f32[n] = alloc_tensor(%s, 0)
    %i: () = invoke @neg(%x) -> (%a) syms(n)
    %b: f32[n] = alloc_tensor(%s, {second_offset})
    %j: () = invoke @neg(%a) -> (%b) syms(n)
    {kill}
    %y: f32[n] = add(%a, %b)
  }}
  return %y
}}"
    )
}

#[test]
fn storages_are_bytes() {
    let x = [floats(&[2], &[1., 2.])];
    assert_eq!(
        tensor(run_with(&planned("n*4", ""), &x, &NoLibrary)),
        floats(&[2], &[0., 0.])
    );
    // A plan that puts %b over %a while %a is still needed gives another result.
    assert_eq!(
        tensor(run_with(&planned("0", ""), &x, &NoLibrary)),
        floats(&[2], &[2., 4.])
    );
    refused(
        &planned("n*4", "%k: () = kill(%s)"),
        &x,
        expect!["function `main`, value `%a`: its storage has been killed"],
    );
    refused(
        &planned("n*4 + 1", ""),
        &x,
        expect!["function `main`, value `%b`: reaches beyond its storage"],
    );
}

struct Doubler;

impl LibraryTable for Doubler {
    fn call(&self, call: &LibraryCall<'_>) -> Result<Tensor, String> {
        match call.routine {
            "test.double" => {
                let x = &call.args[0].tensor;
                Ok(floats(
                    &x.shape,
                    &x.floats()
                        .unwrap_or(&[])
                        .iter()
                        .map(|v| v * 2.0)
                        .collect::<Vec<_>>(),
                ))
            }
            other => Err(format!("no routine `{other}`")),
        }
    }
}

#[test]
fn library_routines_come_from_the_caller() {
    let text = "func @main(%x: f32[n]) where n in 1.. {\n  dataflow {\n    %y: f32[n] = call_dps_library \"test.double\"(%x)\n  }\n  return %y\n}";
    let x = [floats(&[2], &[1., 2.])];
    assert_eq!(tensor(run_with(text, &x, &Doubler)), floats(&[2], &[2., 4.]));
    refused(
        text,
        &x,
        expect!["function `main`, value `%y`: library routine `test.double`: no library is available"],
    );
}

#[test]
fn annotations_are_checked_at_run_time() {
    let text = "func @main(%x: f32[n, 2], %y: f32[n*2]) where n in 1..=4, m in 3.. {\n  plain {\n    %z: f32[m] = match_cast(%y, f32[m])\n  }\n  return %z\n}";
    let args = |n: usize, m: usize| [floats(&[n, 2], &vec![0.; n * 2]), floats(&[m], &vec![0.; m])];
    assert_eq!(tensor(run_with(text, &args(2, 4), &NoLibrary)).shape, [4]);
    refused(
        text,
        &args(2, 3),
        expect!["function `main`, value `%y`: expected f32[n*2] where n = 2, found f32[3]"],
    );
    refused(
        text,
        &args(5, 10),
        expect!["function `main`, variable `n`: expected a value from 1 to 4, found 5"],
    );
    refused(
        text,
        &args(1, 2),
        expect!["function `main`, variable `m`: expected a value from 3 to any, found 2"],
    );
    refused(
        text,
        &args(1, 2)[..1],
        expect!["main: takes 2 arguments, found 1"],
    );
    let endless =
        "func @main(%x: f32[1]) {\n  dataflow {\n    %y: f32[1] = call @main(%x)\n  }\n  return %y\n}";
    refused(
        endless,
        &[floats(&[1], &[0.])],
        expect!["@f0: calls nest too deeply"],
    );
}
