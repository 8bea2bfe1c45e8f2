//! The stated error bounds of the elementary functions.

use crate::common::{compile, execute, options, toolchain};
use relayout_compiler::target::Target;
use relayout_ir::annotation::{Annotation, DType};
use relayout_ir::builder::FunctionBuilder;
use relayout_ir::graph::{Attrs, Module};
use relayout_ir::sym::SymExpr;
use relayout_ir::tensor::{Tensor, TensorData};

/// A function's name, its exact form, and its bound in units of the last place.
type Function = (&'static str, fn(f64) -> f64, f64);

/// Distance in units of the last place of the correctly rounded result (of a denormal for results below 2⁻¹²⁶).
fn ulps(expected: f64, found: f32) -> f64 {
    let rounded = expected as f32;
    if rounded == found || rounded.is_nan() && found.is_nan() {
        return 0.0;
    }
    let exponent = expected.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (f64::from(found) - expected).abs() / (exponent - 23.0).exp2()
}

/// The error function in double precision: the series for small arguments, else the continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 3.0 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > 1e-18 * sum {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
    } else {
        let mut f = 0.0;
        for k in (1..60).rev() {
            f = f64::from(k) / 2.0 / (a + f);
        }
        1.0 - (-a * a).exp() / (std::f64::consts::PI.sqrt() * (a + f))
    };
    value.copysign(x)
}

#[test]
fn errors_are_within_the_stated_bounds() {
    let Some(toolchain) = toolchain() else { return };
    // Dense around zero, logarithmic beyond, both signs, the ends of the range, and the special values. The length is no multiple
    // of a vector, so that scalar remainders are covered too.
    let mut xs: Vec<f32> = (-40_000..=40_000).map(|i| i as f32 * 2.5e-4).collect();
    xs.extend((0..4000).flat_map(|i| {
        let x = (i as f32 * 0.05 - 140.0).exp2();
        [x, -x]
    }));
    xs.extend((-1100..=900).map(|i| i as f32 * 0.1));
    xs.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
    ]);
    let functions: [Function; 4] = [
        ("exp", f64::exp, 2.0),
        ("tanh", f64::tanh, 4.0),
        ("erf", erf, 4.0),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), 4.0),
    ];
    let mut m = Module::default();
    let mut b = FunctionBuilder::new(&mut m, "main");
    let x = b.param("x", Annotation::tensor(vec![SymExpr::from(xs.len())], DType::F32));
    let results: Vec<_> = functions
        .iter()
        .map(|(n, ..)| b.op(n, n, &[x], Attrs::new()).expect("an operator"))
        .collect();
    b.finish(&results);
    let target = Target::cpu().expect("the shipped target");
    let compiled = compile(&m, &target, &options(&toolchain));
    let input = Tensor {
        shape: vec![xs.len()],
        dtype: DType::F32,
        data: TensorData::Float(xs.clone()),
    };
    let outputs = execute(&compiled, &[input], 1);
    for ((name, exact, bound), out) in functions.iter().zip(&outputs) {
        let mut worst = (0.0, 0.0f32, 0.0f32);
        for (x, y) in xs.iter().zip(out.to_f32().expect("floats")) {
            let error = ulps(exact(f64::from(*x)), y);
            assert!(!error.is_nan(), "{name}({x}) = {y}");
            if error > worst.0 {
                worst = (error, *x, y);
            }
        }
        println!("{name}: {:.2} ulp at {} (found {})", worst.0, worst.1, worst.2);
        assert!(
            worst.0 <= *bound,
            "{name}: {:.2} ulp at {} (found {})",
            worst.0,
            worst.1,
            worst.2
        );
    }
}
