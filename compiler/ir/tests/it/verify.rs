//! One case per rule of the verifier, each with its error text.

use expect_test::{Expect, expect};
use relayout_ir::text::parse;
use relayout_ir::verify::verify;

fn check(text: &str, expected: Expect) {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let shown = match verify(&module) {
        Ok(()) => "ok".to_owned(),
        Err(errors) => errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    expected.assert_eq(&shown);
}

const ADD: &str = r#"
program @add1(n) {
  input x: f32[n]
  output y: f32[n]
  for (i: n) {
    y[i] = add(x[i], f32(1.0))
  }
}
"#;

fn in_main(kind: &str, lines: &[&str], result: &str) -> String {
    let body: String = lines.iter().map(|l| format!("    {l}\n")).collect();
    format!(
        "{ADD}func @main(%x: f32[n]) where n in 1..=64, m in 1.. {{\n  {kind} {{\n{body}  }}\n  return {result}\n}}\n"
    )
}

#[test]
fn lowered_and_planned_functions_verify() {
    check(
        &in_main("dataflow", &["%y: f32[n] = call_tir @add1(%x) syms(n)"], "%y"),
        expect!["ok"],
    );
    let planned = [
        "%s: object = alloc_storage(n*4)",
        "%t: f32[n] = alloc_tensor(%s, 0)",
        "%i: () = invoke @add1(%x) -> (%t) syms(n)",
        "%y: f32[n] = relu(%t)",
        "%k: () = kill(%s)",
    ];
    check(&in_main("plain", &planned, "%y"), expect!["ok"]);
}

#[test]
fn annotations_claim_only_what_is_deduced() {
    check(
        &in_main("dataflow", &["%y: f32[n + 1] = relu(%x)"], "%y"),
        expect!["function `main`, binding `%y`: annotated f32[n + 1], but deduction gives f32[n]"],
    );
    check(
        &in_main("dataflow", &["%y: f32[rank 1] = relu(%x)"], "%y"),
        expect!["ok"],
    );
    check(
        &in_main("dataflow", &["%y: f32[m] = relu(%x)"], "%y"),
        expect![[r#"
        function `main`, binding `%y`: the annotation uses `m`, which nothing before binds
        function `main`, binding `%y`: annotated f32[m], but deduction gives f32[n]"#]],
    );
    check(
        &in_main("dataflow", &["%y: f32[q] = relu(%x)"], "%y"),
        expect![[r#"
        function `main`, binding `%y`: the annotation uses `q`, which the function does not declare
        function `main`, binding `%y`: annotated f32[q], but deduction gives f32[n]"#]],
    );
    check(
        &in_main(
            "plain",
            &["%y: f32[m] = match_cast(%x, f32[m])", "%z: f32[m] = relu(%y)"],
            "%z",
        ),
        expect!["ok"],
    );
}

#[test]
fn calls_agree_with_their_programs() {
    check(
        &in_main("dataflow", &["%y: f32[n] = call_tir @add1(%x, %x) syms(n)"], "%y"),
        expect!["function `main`, binding `%y`: passes 2 tensors to `add1`, which takes 1"],
    );
    check(
        &in_main("dataflow", &["%y: f32[n] = call_tir @add1(%x)"], "%y"),
        expect!["function `main`, binding `%y`: passes 0 symbolic arguments to `add1`, which takes 1"],
    );
    check(
        &in_main("dataflow", &["%y: f32[n*2] = call_tir @add1(%x) syms(n)"], "%y"),
        expect![
            "function `main`, binding `%y`: `%y` is physically f32[n*2], but buffer `y` of `add1` is f32[n]"
        ],
    );
    check(
        &in_main("dataflow", &["%y: f32[n*2] = view(%x)"], "%y"),
        expect!["function `main`, binding `%y`: a view of f32[n] as f32[n*2]"],
    );
}

#[test]
fn layouts_fit_and_boundaries_are_abi() {
    check(
        "func @main(%x: f32[4, 4] @(1,0)) {\n  dataflow {\n    %y: f32[4, 4] @(0) = relu(%x)\n  }\n  return %y\n}",
        expect![[r#"
            function `main`, parameter `%x`: layout (1,0) at a function boundary, expected the ABI layout
            function `main`, binding `%y`: layout (0) does not fit rank 2: axis 1 has 0 outer pieces; exactly one is needed, before its inner pieces"#]],
    );
}

#[test]
fn lifetimes() {
    let planned = [
        "%s: object = alloc_storage(n*4)",
        "%t: f32[n] = alloc_tensor(%s, 4)",
        "%k: () = kill(%s)",
        "%y: f32[n] = relu(%t)",
        "%k2: () = kill(%s)",
        "%i: () = invoke @add1(%x) -> (%y) syms(n)",
    ];
    check(
        &in_main("plain", &planned, "%t"),
        expect![[r#"
        function `main`, binding `%t`: ends at byte n*4 + 4 of a storage of n*4 bytes
        function `main`, binding `%y`: uses `%t` after its storage `%s` was killed
        function `main`, binding `%k2`: kills `%s` after it was killed
        function `main`, binding `%i`: writes to `%y`, which is in no storage
        function `main`, result `%t`: its storage is killed"#]],
    );
    check(
        &in_main("dataflow", &["%k: () = kill(%x)"], "%x"),
        expect![[r#"
        function `main`, binding `%k`: a side effect in a dataflow block
        function `main`, result `%x`: is killed"#]],
    );
}

#[test]
fn programs() {
    check(
        "program @p(n, n) {\n  output y: f32[n]\n  input x: f32[q]\n  for (i: i, reduce k: 2) {\n    y[i, k] = add(x[j], i32(1.0))\n  }\n  for (i: n) {\n    x[i] = reduced\n  }\n}\n",
        expect![[r#"
            program `p`: symbolic parameter `n` is declared twice
            program `p`: buffers out of order, expected inputs, then the output, then workspaces
            program `p`: the shape of buffer `x` uses `q`, which is not in scope
            program `p`, stage 0: the extent of loop `i` uses `i`, which is not in scope
            program `p`, stage 0: the output index has 2 indices into `y`, which has 1 dimensions
            program `p`, stage 0: the output index uses `k`, which is not in scope
            program `p`, stage 0: a map with reduce loops
            program `p`, stage 0: the value uses `j`, which is not in scope
            program `p`, stage 0: add: expected f32, found i32
            program `p`, stage 1: writes input `x`
            program `p`, stage 1: `reduced` outside the epilogue of a reduction or contraction"#]],
    );
}

#[test]
fn constants() {
    check(
        "constant @a: f32[2] = hex \"00\"\nconstant @b: f32[2] = generate(seed 1, key \"b\", integers(0, 2))\nconstant @c: i64[2] = generate(seed 1, key \"c\", integers(2, 2))\n",
        expect![[r#"
            constant `a`: 1 bytes, expected 8 for f32[2]
            constant `b`: integers for f32, expected a uniform distribution
            constant `c`: the empty range 2..2"#]],
    );
}
