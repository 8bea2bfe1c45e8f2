//! Every pass keeps what the program means (executed before and after by the interpreter) and leaves a module that verifies; and
//! what each pass does, as text.

use crate::common::{
    Cases, arguments, assert_same, compile, execute, f32s, host, interpret, options, toolchain,
};
use expect_test::{Expect, expect};
use relayout_compiler::canonicalise::canonicalise;
use relayout_compiler::pipeline::{CompileOptions, CompileReport, Pass, lower};
use relayout_compiler::target::Target;
use relayout_ir::annotation::{Annotation, DType};
use relayout_ir::builder::attrs;
use relayout_ir::graph::{Attr, Attrs, Constant, ConstantData, Expr, Module};
use relayout_ir::text;
use relayout_ir::verify::verify;
use relayout_models::zoo;

/// A target whose matmuls are all generated, since the interpreter has no library.
fn target() -> Target {
    let mut target = Target::cpu().expect("the shipped target");
    target.library_threshold = u64::MAX;
    target
}

fn model(spec: &str) -> (Module, Vec<(String, i64)>) {
    let overrides = relayout_models::ModelSpec::parse(spec)
        .expect("a model")
        .overrides;
    let name = spec.split(' ').next().unwrap_or(spec);
    let model = zoo::build(name, &overrides, 0, 1).expect("a zoo model");
    let dims = model
        .dims
        .iter()
        .map(|d| (d.decl.var.name().to_owned(), d.default.min(5)))
        .collect();
    (model.module, dims)
}

const MODELS: [&str; 3] = [
    "small-cnn",
    "bert layers=1 hidden=32 heads=2 vocab=50",
    "llama layers=1 hidden=32 heads=2 kv_heads=1 intermediate=48 vocab=50",
];

#[test]
fn every_pass_keeps_the_meaning_of_whole_models() {
    for spec in MODELS {
        let (module, dims) = model(spec);
        let value = |name: &str| dims.iter().find(|d| d.0 == name).map_or(3, |d| d.1);
        let args = arguments(&module, &value, (-1.0, 1.0));
        let expected = interpret(&module, &args);
        let check = |pass: &str, module: &Module| {
            verify(module).unwrap_or_else(|e| panic!("{spec}, after {pass}: {e:?}"));
            for (e, f) in expected.iter().zip(&interpret(module, &args)) {
                assert_same(&format!("{spec}, after {pass}"), e, &host(f), 2e-5);
            }
        };
        let mut canonical = module.clone();
        canonicalise(&mut canonical);
        check("canonicalise", &canonical);
        let mut twice = canonical.clone();
        canonicalise(&mut twice);
        assert_eq!(twice, canonical, "{spec}: canonical form is a fixed point");
        for options in [
            CompileOptions::default(),
            CompileOptions {
                without: vec![Pass::FuseOps, Pass::PlanMemory],
                ..CompileOptions::default()
            },
            CompileOptions {
                upper_bounds: true,
                ..CompileOptions::default()
            },
        ] {
            let mut lowered = canonical.clone();
            lower(
                &mut lowered,
                &target(),
                &options,
                &mut CompileReport::default(),
                &mut |pass, module| {
                    // The variants differ from the default only at the end. Storages at the upper bounds of a symbolic model are
                    // gigabytes; those are only verified.
                    if options.upper_bounds && !dims.is_empty() {
                        verify(module).unwrap_or_else(|e| panic!("{spec}: {e:?}"));
                    } else if options.without.is_empty() && !options.upper_bounds || pass == Pass::PlanMemory
                    {
                        check(pass.name(), module);
                    }
                },
            )
            .unwrap_or_else(|e| panic!("{spec}: {e}"));
        }
    }
}

#[test]
fn whole_models_compile_to_what_the_interpreter_says() {
    let Some(toolchain) = toolchain() else { return };
    for spec in MODELS {
        let (mut module, dims) = model(spec);
        let value = |name: &str| dims.iter().find(|d| d.0 == name).map_or(3, |d| d.1);
        let args = arguments(&module, &value, (-1.0, 1.0));
        let expected = interpret(&module, &args);
        canonicalise(&mut module);
        let target = Target::cpu().expect("the shipped target");
        let compiled = compile(&module, &target, &options(&toolchain));
        let one = execute(&compiled, &args, 1);
        assert_eq!(
            one,
            execute(&compiled, &args, 2),
            "{spec}: bit-identical on any number of threads"
        );
        for (e, f) in expected.iter().zip(&one) {
            assert_same(spec, e, f, 2e-5);
        }
        // Without fusion there are more calls, with it no storage more.
        let mut apart = options(&toolchain);
        apart.without = vec![Pass::FuseOps];
        let unfused = compile(&module, &target, &apart);
        assert!(
            unfused.report.calls > compiled.report.calls,
            "{spec}: fusion merges calls"
        );
        for (e, f) in expected.iter().zip(&execute(&unfused, &args, 1)) {
            assert_same(spec, e, f, 2e-5);
        }
    }
}

fn constant(c: &mut Cases<'_>, name: &str, shape: &[usize], values: &[f32]) -> relayout_ir::graph::ValueId {
    c.b.constant(Constant {
        name: name.to_owned(),
        shape: shape.to_vec(),
        dtype: DType::F32,
        data: ConstantData::Inline(
            values
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect::<Vec<u8>>()
                .into(),
        ),
    })
}

/// The text of the module after a pass.
fn after(module: &Module, pass: Pass) -> String {
    let mut module = module.clone();
    let mut out = String::new();
    lower(
        &mut module,
        &target(),
        &CompileOptions::default(),
        &mut CompileReport::default(),
        &mut |p, m| {
            if p == pass {
                out = text::print(m);
            }
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    out
}

fn snapshot(found: &str, expected: &Expect) {
    expected.assert_eq(found);
}

/// A blocked convolution with a folded normalisation, a residual addition and an activation.
fn residual() -> Module {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let l = "0,1,2,3,1:8";
    let x = c.given(&f32s(&[1, 8, 4, 4], l));
    let w = c.given(&f32s(&[8, 8, 1, 1], "0,1,2,3,1:8,0:8"));
    let y = c.op("conv2d", &[x, w], Attrs::new(), l);
    let s = constant(&mut c, "s", &[8, 1, 1], &[2.0; 8]);
    let s = c.convert(s, "0,1,2,0:8");
    let z = c.op("mul", &[y, s], Attrs::new(), l);
    let z = c.op("add", &[z, x], Attrs::new(), l);
    let z = c.op("relu", &[z], Attrs::new(), l);
    c.results.push(z);
    c.finish();
    m
}

#[test]
fn canonicalise_folds_normalisation_and_splits() {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let x = c.given(&f32s(&[1, 2, 2, 3], ""));
    let statistics: Vec<_> = ["scale", "bias", "mean", "var"]
        .into_iter()
        .map(|n| constant(&mut c, n, &[2], &[1.0, 4.0]))
        .collect();
    let args = [vec![x], statistics].concat();
    let y = c.op("batch_norm", &args, attrs([("eps", Attr::Float(0.0))]), "");
    let y = c.op("identity", &[y], Attrs::new(), "");
    let shape = |d: &[i64]| Attr::Shape(d.iter().map(|d| (*d).into()).collect());
    let y = c.op("reshape", &[y], attrs([("shape", shape(&[2, 6]))]), "");
    let y = c.op("reshape", &[y], attrs([("shape", shape(&[4, 3]))]), "");
    let t = c.op(
        "split",
        &[y],
        attrs([("axis", Attr::Int(1)), ("sizes", shape(&[1, 2]))]),
        "",
    );
    let z = c.b.tuple_get("z", t, 1).expect("an element");
    c.op("exp", &[z], Attrs::new(), "");
    c.results.push(z);
    c.finish();
    canonicalise(&mut m);
    snapshot(
        &text::print(&m),
        &expect![[r#"
        constant @batch_norm_scale: f32[2, 1, 1] = hex "0000803f00000040"
        constant @batch_norm_shift: f32[2, 1, 1] = hex "00000000000080c0"

        func @main(%x1: f32[1, 2, 2, 3]) {
          values %x1, %scale: f32[2], %bias: f32[2], %mean: f32[2], %var: f32[2], %batch_norm, %identity: f32[1, 2, 2, 3], %reshape: f32[2, 6], %reshape_1, %split: (f32[4, 1], f32[4, 2]), %z: f32[4, 2], %exp: f32[4, 2], %results, %batch_norm_scale, %batch_norm_shift, %batch_norm_scaled, %split_0: f32[4, 1], %split_1
          dataflow {
            %batch_norm_scale: f32[2, 1, 1] = constant @batch_norm_scale
            %batch_norm_shift: f32[2, 1, 1] = constant @batch_norm_shift
            %batch_norm_scaled: f32[1, 2, 2, 3] = mul(%x1, %batch_norm_scale)
            %batch_norm: f32[1, 2, 2, 3] = add(%batch_norm_scaled, %batch_norm_shift)
            %reshape_1: f32[4, 3] = reshape(%batch_norm) {shape: shape(4, 3)}
            %split_1: f32[4, 2] = slice(%reshape_1) {axes: [1], begin: shape(1), end: shape(3), steps: [1]}
            %results: (f32[4, 2],) = (%split_1,)
          }
          return %results
        }
    "#]],
    );
}

#[test]
fn legalise_makes_programs_and_packs_constants() {
    snapshot(
        &after(&residual(), Pass::Legalise),
        &expect![[r#"
        constant @s: f32[8, 1, 1] = hex "0000004000000040000000400000004000000040000000400000004000000040"

        program @conv2d() {
          input in0: f32[1, 1, 4, 4, 8]
          input in1: f32[1, 1, 1, 1, 8, 8]
          output out: f32[1, 1, 4, 4, 8]
          for (i0: 1, i1: 1, i2: 4, i3: 4, i4: 8, reduce r0: 1, reduce r1: 1, reduce r2: 1, reduce r3: 8) {
            out[i0, i1, i2, i3, i4] = contract(in0[i0, r0, i2 + r1, i3 + r2, r3], in1[i1, r0, r1, r2, r3, i4])
          }
        }

        program @mul() {
          input in0: f32[1, 1, 4, 4, 8]
          input in1: f32[1, 1, 1, 8]
          output out: f32[1, 1, 4, 4, 8]
          for (i0: 1, i1: 1, i2: 4, i3: 4, i4: 8) {
            out[i0, i1, i2, i3, i4] = mul(in0[i0, i1, i2, i3, i4], in1[i1, 0, 0, i4])
          }
        }

        program @add() {
          input in0: f32[1, 1, 4, 4, 8]
          input in1: f32[1, 1, 4, 4, 8]
          output out: f32[1, 1, 4, 4, 8]
          for (i0: 1, i1: 1, i2: 4, i3: 4, i4: 8) {
            out[i0, i1, i2, i3, i4] = add(in0[i0, i1, i2, i3, i4], in1[i0, i1, i2, i3, i4])
          }
        }

        program @relu() {
          input in0: f32[1, 1, 4, 4, 8]
          output out: f32[1, 1, 4, 4, 8]
          for (i0: 1, i1: 1, i2: 4, i3: 4, i4: 8) {
            out[i0, i1, i2, i3, i4] = max(in0[i0, i1, i2, i3, i4], f32(0.0))
          }
        }

        func @main(%x1: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %x2: f32[8, 8, 1, 1] @(0,1,2,3,1:8,0:8)) {
          dataflow {
            %conv2d: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @conv2d(%x1, %x2)
            %s: f32[8, 1, 1] = constant @s
            %l: f32[8, 1, 1] @(0,1,2,0:8) = constant @s
            %mul: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @mul(%conv2d, %l)
            %add: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @add(%mul, %x1)
            %relu: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @relu(%add)
            %results: (f32[1, 8, 4, 4] @(0,1,2,3,1:8),) = (%relu,)
          }
          return %results
        }
    "#]],
    );
}

#[test]
fn fuse_ops_lifts_a_group() {
    let text = after(&residual(), Pass::FuseOps);
    let functions = text.find("\nfunc @").map_or("", |at| &text[at..]);
    snapshot(
        functions,
        &expect![[r#"

            func @main(%x1: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %x2: f32[8, 8, 1, 1] @(0,1,2,3,1:8,0:8)) {
              values %x1, %x2, %conv2d: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %s, %l, %mul: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %add: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %relu, %results
              dataflow {
                %s: f32[8, 1, 1] = constant @s
                %l: f32[8, 1, 1] @(0,1,2,0:8) = constant @s
                %relu: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call @fused_0_relu(%x1, %x2, %l)
                %results: (f32[1, 8, 4, 4] @(0,1,2,3,1:8),) = (%relu,)
              }
              return %results
            }

            func @fused_0_relu(%x1: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %x2: f32[8, 8, 1, 1] @(0,1,2,3,1:8,0:8), %l: f32[8, 1, 1] @(0,1,2,0:8)) {
              dataflow {
                %conv2d: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @conv2d(%x1, %x2)
                %mul: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @mul(%conv2d, %l)
                %add: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @add(%mul, %x1)
                %relu: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @relu(%add)
              }
              return %relu
            }
        "#]],
    );
}

#[test]
fn fuse_tensor_ir_merges_the_group() {
    let text = after(&residual(), Pass::FuseTensorIr);
    let program = text.find("program @fused").map_or("", |at| &text[at..]);
    snapshot(
        program,
        &expect![[r#"
        program @fused_0_relu() {
          input in0: f32[1, 1, 4, 4, 8]
          input in1: f32[1, 1, 1, 1, 8, 8]
          input in2: f32[1, 1, 1, 8]
          output out: f32[1, 1, 4, 4, 8]
          for (i0_m0: 1, i1_m0: 1, i2_m0: 4, i3_m0: 4, i4_m0: 8, reduce r0_m0: 1, reduce r1_m0: 1, reduce r2_m0: 1, reduce r3_m0: 8) {
            out[i0_m0, i1_m0, i2_m0, i3_m0, i4_m0] = contract(in0[i0_m0, r0_m0, i2_m0 + r1_m0, i3_m0 + r2_m0, r3_m0], in1[i1_m0, r0_m0, r1_m0, r2_m0, r3_m0, i4_m0]) then max(add(mul(reduced, in2[i1_m0, 0, 0, i4_m0]), in0[i0_m0, i1_m0, i2_m0, i3_m0, i4_m0]), f32(0.0))
          }
        }

        func @main(%x1: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %x2: f32[8, 8, 1, 1] @(0,1,2,3,1:8,0:8)) {
          values %x1, %x2, %conv2d: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %s, %l, %mul: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %add: f32[1, 8, 4, 4] @(0,1,2,3,1:8), %relu, %results
          dataflow {
            %s: f32[8, 1, 1] = constant @s
            %l: f32[8, 1, 1] @(0,1,2,0:8) = constant @s
            %relu: f32[1, 8, 4, 4] @(0,1,2,3,1:8) = call_tir @fused_0_relu(%x1, %x2, %l)
            %results: (f32[1, 8, 4, 4] @(0,1,2,3,1:8),) = (%relu,)
          }
          return %results
        }
    "#]],
    );
}

#[test]
fn memory_planning_shares_storages_of_equal_symbolic_size() {
    // Figure 10 of the Relax paper: exp, transpose, relu, transpose over (2, n) and (n, 2).
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let n = c.b.sym("n", 1, Some(64));
    let x =
        c.b.param("x", Annotation::tensor(vec![2usize.into(), n], DType::F32));
    let a = c.op("exp", &[x], Attrs::new(), "");
    let b = c.op("permute", &[a], attrs([("perm", Attr::Ints(vec![1, 0]))]), "");
    let d = c.op("relu", &[b], Attrs::new(), "");
    let e = c.op("permute", &[d], attrs([("perm", Attr::Ints(vec![1, 0]))]), "");
    let f = c.op("softmax", &[e], attrs([("axis", Attr::Int(0))]), "");
    c.results.push(f);
    c.finish();
    let plan = |options: &CompileOptions| {
        let mut module = m.clone();
        let storages = lower(
            &mut module,
            &target(),
            options,
            &mut CompileReport::default(),
            &mut |_, _| {},
        )
        .unwrap_or_else(|e| panic!("{e}"));
        storages
            .iter()
            .map(|s| format!("{} bytes: {}\n", s.bytes, s.tensors.join(" ")))
            .collect::<String>()
    };
    let unfused = CompileOptions {
        without: vec![Pass::FuseOps],
        ..CompileOptions::default()
    };
    snapshot(
        &plan(&unfused),
        &expect![[r#"
        n*8 bytes: exp relu softmax
        n*8 bytes: permute permute_1
        n*4 bytes: softmax_ws2
        n*4 bytes: softmax_ws3
    "#]],
    );
    let bounded = CompileOptions {
        upper_bounds: true,
        ..unfused
    };
    snapshot(
        &plan(&bounded),
        &expect![[r#"
        512 bytes: exp relu softmax
        512 bytes: permute permute_1
        256 bytes: softmax_ws2
        256 bytes: softmax_ws3
    "#]],
    );
}

#[test]
fn a_recorded_implementation_that_does_not_fit_is_an_error() {
    let mut m = residual();
    let main = m.entry().expect("main");
    for b in m.functions[main].blocks.iter_mut().flat_map(|b| &mut b.bindings) {
        if let Expr::Op {
            op, implementation, ..
        } = &mut b.expr
            && op.name() == "conv2d"
        {
            *implementation = Some("library:gemm.matmul".to_owned());
        }
    }
    let error = lower(
        &mut m,
        &target(),
        &CompileOptions::default(),
        &mut CompileReport::default(),
        &mut |_, _| {},
    )
    .expect_err("a convolution is no matmul")
    .to_string();
    assert!(
        error.contains("conv2d") && error.contains("gemm.matmul"),
        "{error}"
    );
}
