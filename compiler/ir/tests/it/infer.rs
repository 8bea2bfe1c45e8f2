//! Deduction over functions and calls: the examples of Relax's figures 3 and 7.

use expect_test::{Expect, expect};
use relayout_ir::graph::Module;
use relayout_ir::infer::infer_function;
use relayout_ir::text::{parse, print_annotation};

fn module(text: &str) -> Module {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Deduces `main` and shows the annotation of every binding, or the error.
fn check(text: &str, expected: Expect) {
    let mut m = module(text);
    let main = m.entry().expect("main");
    let shown = match infer_function(&mut m, main) {
        Err(e) => e.to_string(),
        Ok(()) => {
            let f = &m.functions[main];
            let line = |v| {
                format!(
                    "{}: {}\n",
                    f.values[v].name,
                    print_annotation(&f.values[v].annotation)
                )
            };
            f.bindings().map(|b| line(b.value)).collect()
        }
    };
    expected.assert_eq(&shown);
}

#[test]
fn figure_3_shapes_stay_related_and_match_cast_names_the_unknown() {
    check(
        r#"
func @unique(%x: f32[rank 1]) {
  dataflow {
    %y: f32[rank 1] = identity(%x)
  }
  return %y
}
func @main(%x: f32[n, 2, 2]) where n in 1.., m in 1.. {
  plain {
    %lv0: object = reshape(%x) {shape: shape(n, 4)}
    %lv1: object = reshape(%lv0) {shape: shape(n*4)}
    %lv2: object = call @unique(%lv1)
    %lv3: object = match_cast(%lv2, f32[m])
    %lv4: object = exp(%lv3)
  }
  return %lv4
}"#,
        expect![[r#"
            lv0: f32[n, 4]
            lv1: f32[n*4]
            lv2: f32[rank 1]
            lv3: f32[m]
            lv4: f32[m]
        "#]],
    );
}

const SUBFN: &str = r#"
func @subfn(%s: shape(n, m)) where n in 1..=64, m in 1.. {
  dataflow {
    %r: f32[n*m] = full() {dtype: f32, shape: shape(n*m), value: 0.0}
  }
  return %r
}
"#;

#[test]
fn figure_7_calls_are_deduced_from_the_signature() {
    let main = r#"func @main(%x: f32[n, 4], %y: shape(rank 2)) where n in 1..=32 {
  dataflow {
    %s0: object = shape(n, 4)
    %f0: object = call @subfn(%s0)
    %s1: object = shape(3, 4)
    %f1: object = call @subfn(%s1)
    %s2: object = shape(n + 1, 4)
    %f2: object = call @subfn(%s2)
    %f3: object = call @subfn(%y)
  }
  return %f0
}"#;
    check(
        &format!("{SUBFN}{main}"),
        expect![[r#"
            s0: shape(n, 4)
            f0: f32[n*4]
            s1: shape(3, 4)
            f1: f32[12]
            s2: shape(n + 1, 4)
            f2: f32[n*4 + 4]
            f3: f32[rank 1]
        "#]],
    );
}

#[test]
fn calls_that_cannot_fit_are_refused() {
    let call = |dims: &str| {
        format!(
            "{SUBFN}func @main(%x: f32[4]) {{\n  dataflow {{\n    %s: object = shape({dims})\n    %f: object = call @subfn(%s)\n  }}\n  return %f\n}}"
        )
    };
    check(
        &call("1, 2, 3"),
        expect![
            "function `main`, binding `%f`: call of `subfn`: argument 0: expected shape(1, 2), found shape(1, 2, 3)"
        ],
    );
    check(
        &call("65, 1"),
        expect![
            "function `main`, binding `%f`: call of `subfn`: argument 0: `n` is declared in 1..=64, found 65"
        ],
    );
}

#[test]
fn layouts_survive_and_stale_shapes_are_replaced() {
    check(
        "func @main(%x: f32[n, 4]) where n in 1.. {\n  dataflow {\n    %y: f32[7, 7] @(1,0) = relu(%x)\n    %z: object = %y[0]\n  }\n  return %y\n}",
        expect!["function `main`, binding `%z`: element 0 of f32[n, 4] @(1,0)"],
    );
}
