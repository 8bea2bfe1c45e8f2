//! The text form: snapshots, round trips, errors, and text that is not a module.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use relayout_ir::text::{parse, print};

/// One module with every form; it need not verify.
pub const EVERYTHING: &str = r#"constant @w: f32[4, 2] = generate(seed 7, key "w \"quoted\"", uniform(-0.1, 0.1))
constant @"odd name": i64[2] = hex "0100000000000000ffffffffffffffff"
constant @ids: u8[] = generate(seed 18446744073709551615, key "ids", integers(-3, 9))

program @matmul(n) kind output_ewise_fusible {
  input a: f32[n, 4]
  input b: f32[4, 2]
  output c: f32[n, 2]
  workspace w: f32[n, (n // 16)]
  for (i: n, j: 2, reduce k: 4) {
    c[i, j] = contract(a[i, k], b[k, j]) then max(reduced, f32(-0.0))
  }
  for (i: n, j: 2, reduce k: 4) {
    c[i, j] = reduce max(select(less(index(i - 1), index(n)), a[i, k], f32(-inf)))
  }
  for (i: n) {
    c[i, 0] = cast(f32, gather(b, index(i), i64(-1.0)))
  }
}

func @helper(%s: shape(n, m)) where n in 1.., m in 1..=8 {
  dataflow {
    %f: f32[n*m] = full() {dtype: f32, shape: shape(n*m), value: 0.5}
  }
  return %f
}

func @main(%x: f32[n, 4], %t: (f32[n], object), %u: tensor[?], %g: fn(f32[rank 2]) -> shape(rank 1)) where n in 1..=64, k in -2.. {
  values %x, %t, %u, %g, %gone: f32[1], %y, %s, %c, %p, %z, %st, %m, %i, %q, %v, %r
  dataflow {
    %y: f32[n, 4] @(1,0) = relu(%x) via "kernel.relu"
    %s: shape(n, 2) = shape(n, 2)
    %c: f32[4, 2] = constant @w
    %p: f32[n, 2] @(0,1,1:16)@p1@onchip = call_tir @matmul(%x, %c) syms(n)
    %z: f32[n, 2] = call_dps_library "gemm.matmul"(%x, %c) {flag: true, layout: layout(0,1), list: [1, -2], name: "a\nb", scale: 1e-7, to: bf16} syms(n + 1)
  }
  plain {
    %st: object = alloc_storage(n*8 + 64)
    %m: f32[n, 2] = alloc_tensor(%st, n*4)
    %i: () = invoke @matmul(%x, %c) -> (%m, %p) syms(n)
    %q: f32[k, 4] = match_cast(%x, f32[k, 4])
    %v: f32[n*2] = view(%m)
    %r: (f32[n*2],) = (%v,)
    %"k 1": () = kill(%st)
    %h: f32[n*2] = call @helper(%s)
    %e: f32[n*2] = %r[0]
    %l: () = invoke "lib.copy"(%x) {n: 3} -> (%m)
  }
  return %e
}
"#;

#[test]
fn every_form_prints_as_it_was_written() {
    let module = parse(EVERYTHING).unwrap_or_else(|e| panic!("{e}"));
    let text = print(&module);
    // The listing of values is complete once printed.
    let listed = EVERYTHING.replace("%v, %r\n", "%v, %r, %\"k 1\", %h, %e, %l\n");
    assert_eq!(text, listed);
    assert_eq!(parse(&text).as_ref(), Ok(&module));
}

#[test]
fn floats_and_extreme_integers_survive() {
    let body = |scalar: &str| {
        format!("program @p() {{\n  output y: f32[1]\n  for (i: 1) {{\n    y[i] = {scalar}\n  }}\n}}\n")
    };
    for scalar in [
        "f32(0.1)",
        "f32(-0.0)",
        "f32(5e-324)",
        "f32(1.7976931348623157e308)",
        "f32(inf)",
        "f32(nan(0x7ff8000000000001))",
        "f32(-inf)",
        "index(-9223372036854775808*i + 9223372036854775807)",
        "index(-i)",
    ] {
        let module = parse(&body(scalar)).unwrap_or_else(|e| panic!("{scalar}: {e}"));
        let printed = print(&module);
        assert_eq!(
            print(&parse(&printed).unwrap_or_else(|e| panic!("{printed}: {e}"))),
            printed
        );
    }
}

fn refused(text: &str, expected: Expect) {
    match parse(text) {
        Ok(_) => panic!("parsed: {text}"),
        Err(e) => expected.assert_eq(&e.to_string()),
    }
}

#[test]
fn errors_name_place_found_expected_and_nearest() {
    let function = |line: &str| {
        format!("func @main(%input: f32[4]) {{\n  dataflow {{\n    {line}\n  }}\n  return %input\n}}\n")
    };
    refused(
        &function("%y: f32[4] = rellu(%input)"),
        expect!["line 3, column 18: expected an operator, found `rellu`; did you mean `relu`?"],
    );
    refused(
        &function("%y: f32[4] = relu(%inptu)"),
        expect!["line 3, column 23: expected a value defined above, found `%inptu`; did you mean `input`?"],
    );
    refused(
        &function("%y: f23[4] = relu(%input)"),
        expect!["line 3, column 9: expected an annotation, found `f23`; did you mean `f32`?"],
    );
    refused(
        &function("%input: f32[4] = relu(%input)"),
        expect!["line 3, column 5: expected a name not yet used in this function, found `%input`"],
    );
    refused(
        &function("%y: f32[(n // 0)] = relu(%input)"),
        expect!["line 3, column 19: expected a positive divisor, found `0`"],
    );
    refused(
        &function("%y: f32[4] @(0,0) = relu(%input)"),
        expect![
            "line 3, column 18: expected a valid layout (axis 0 has 2 outer pieces; exactly one is needed, before its inner pieces), found `0`"
        ],
    );
    refused(
        "programm @p() {}",
        expect![
            "line 1, column 1: expected `constant`, `program` or `func`, found `programm`; did you mean `program`?"
        ],
    );
    refused(
        "func @main(",
        expect!["line 1, column 12: expected a value such as `%x`, found the end of the text"],
    );
    refused(
        "constant @c: f32[1] = hex \"0g\"",
        expect!["line 1, column 27: expected an even number of hexadecimal digits, found `\"0g\"`"],
    );
    refused(
        "func $",
        expect!["line 1, column 6: expected a global name such as `@main`, found `$`"],
    );
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "(".repeat(100_000);
    let error = parse(&format!("func @main(%x: {deep}")).map_err(|e| e.expected);
    assert_eq!(error.err().as_deref(), Some("at most 256 levels of nesting"));
    let deep = "exp(".repeat(100_000);
    let error = parse(&format!(
        "program @p() {{ output y: f32[1] for (i: 1) {{ y[i] = {deep}"
    ))
    .map_err(|e| e.expected);
    assert_eq!(error.err().as_deref(), Some("at most 256 levels of nesting"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn damaged_text_never_panics(
        cut in 0usize..=EVERYTHING.len(),
        edits in prop::collection::vec((0usize..EVERYTHING.len(), "[ -~\n]{0,3}|[0-9(){}@%]|\u{1F600}"), 0..4),
        truncate in any::<bool>(),
    ) {
        let mut chars: Vec<char> = EVERYTHING.chars().collect();
        for (at, with) in edits {
            let at = at.min(chars.len());
            let end = (at + 1).min(chars.len());
            chars.splice(at..end, with.chars());
        }
        if truncate {
            chars.truncate(cut);
        }
        let text: String = chars.into_iter().collect();
        if let Ok(module) = parse(&text) {
            let printed = print(&module);
            prop_assert_eq!(parse(&printed).map(|m| print(&m)), Ok(printed));
            // The verifier accepts or refuses; it does not panic.
            let _ = relayout_ir::verify::verify(&module);
        }
    }
}
