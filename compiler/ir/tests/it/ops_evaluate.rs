//! Reference semantics on values worked out by hand or by the definition.

use super::cases::attrs;
use relayout_ir::annotation::DType;
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::op;
use relayout_ir::sym::{SymExpr, SymVar};
use relayout_ir::tensor::{RefValue, Tensor, TensorData};
use std::sync::Arc;

fn floats(shape: &[usize], values: &[f32]) -> RefValue {
    let t = Tensor::new(shape.to_vec(), DType::F32, TensorData::Float(values.to_vec()));
    RefValue::Tensor(Arc::new(t.unwrap()))
}

fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> RefValue {
    let t = Tensor::new(shape.to_vec(), dtype, TensorData::Int(values.to_vec()));
    RefValue::Tensor(Arc::new(t.unwrap()))
}

fn counting(shape: &[usize]) -> RefValue {
    let count = shape.iter().product::<usize>();
    floats(shape, &(0..count).map(|i| i as f32).collect::<Vec<_>>())
}

/// The result with every dimension variable bound to 3.
fn run(name: &str, args: &[RefValue], attrs: Attrs) -> RefValue {
    let op = op::by_name(name).unwrap().get();
    let eval = |e: &SymExpr| e.eval(&|_: &SymVar| Some(3));
    let plain = op.evaluate(args, &attrs, &eval).unwrap_or_else(|e| panic!("{e}"));
    let fast = op
        .evaluate_fast(args, &attrs, &eval)
        .unwrap_or_else(|e| panic!("{e}"));
    if !format!("{plain:?}").contains("NaN") {
        assert_eq!(plain, fast, "{name}");
    }
    plain
}

fn fails(name: &str, args: &[RefValue], attrs: Attrs) -> String {
    let op = op::by_name(name).unwrap().get();
    op.evaluate(args, &attrs, &|e| e.as_const())
        .unwrap_err()
        .to_string()
}

fn tensor(value: RefValue) -> Tensor {
    match value {
        RefValue::Tensor(t) => t.as_ref().clone(),
        other => panic!("expected a tensor, found {other:?}"),
    }
}

fn values(name: &str, args: &[RefValue], attrs: Attrs) -> Vec<f32> {
    tensor(run(name, args, attrs)).floats().unwrap().to_vec()
}

fn whole(name: &str, args: &[RefValue], attrs: Attrs) -> Vec<i64> {
    tensor(run(name, args, attrs)).ints().unwrap().to_vec()
}

fn near(found: &[f32], expected: &[f32]) {
    let close = found
        .iter()
        .zip(expected)
        .all(|(a, b)| (a - b).abs() < 1e-6 * (1.0 + b.abs()));
    assert!(
        close && found.len() == expected.len(),
        "found {found:?}, expected {expected:?}"
    );
}

#[test]
fn activations() {
    let x = || floats(&[4], &[-1.0, 0.0, 0.5, 3.0]);
    // x·Φ(x) with Φ(0.5) = 0.691462461…, Φ(1) = 0.841344746…, Φ(3) = 0.998650102….
    near(
        &values("gelu", &[x()], Attrs::new()),
        &[-0.158_655_25, 0.0, 0.345_731_23, 2.995_950_3],
    );
    let tangent = attrs([("approximate", Attr::Str("tanh".into()))]);
    near(
        &values("gelu", &[x()], tangent),
        &[-0.158_808, 0.0, 0.345_714, 2.996_363],
    );
    near(
        &values("silu", &[x()], Attrs::new()),
        &[-0.268_941_43, 0.0, 0.311_229_67, 2.857_722_3],
    );
    near(
        &values("hard_swish", &[x()], Attrs::new()),
        &[-1.0 / 3.0, 0.0, 0.291_666_66, 3.0],
    );
    near(
        &values("leaky_relu", &[x()], attrs([("alpha", Attr::Float(0.25))])),
        &[-0.25, 0.0, 0.5, 3.0],
    );
    let line = attrs([("alpha", Attr::Float(0.5)), ("beta", Attr::Float(0.25))]);
    near(&values("hard_sigmoid", &[x()], line), &[0.0, 0.25, 0.5, 1.0]);
    let nan = values("relu", &[floats(&[2], &[f32::NAN, -1.0])], Attrs::new());
    assert!(nan[0].is_nan() && nan[1] == 0.0);
}

#[test]
fn integer_division_is_total() {
    let a = || ints(DType::I8, &[5], &[7, -7, -128, 5, -5]);
    let b = || ints(DType::I8, &[5], &[-2, 2, -1, 0, 3]);
    assert_eq!(whole("div", &[a(), b()], Attrs::new()), [-3, -3, -128, 0, -1]);
    assert_eq!(whole("mod", &[a(), b()], Attrs::new()), [-1, 1, 0, 0, 1]);
    near(
        &values(
            "mod",
            &[floats(&[2], &[-7.5, 7.5]), floats(&[2], &[2.0, -2.0])],
            Attrs::new(),
        ),
        &[0.5, -0.5],
    );
}

#[test]
fn small_arithmetic_wraps_and_rounds() {
    let sum = |dtype, a, b| {
        whole(
            "add",
            &[ints(dtype, &[1], &[a]), ints(dtype, &[1], &[b])],
            Attrs::new(),
        )[0]
    };
    assert_eq!(sum(DType::U8, 200, 100), 44);
    assert_eq!(sum(DType::I8, 100, 100), -56);
    let half = |v: f32| {
        let t = Tensor::new(vec![1], DType::F16, TensorData::Float(vec![v])).unwrap();
        RefValue::Tensor(Arc::new(t))
    };
    // 2048 + 1 lies between two 16-bit floats and goes to the even one.
    assert_eq!(values("add", &[half(2048.0), half(1.0)], Attrs::new()), [2048.0]);
}

#[test]
fn contractions() {
    let product = values("matmul", &[counting(&[2, 3]), counting(&[3, 2])], Attrs::new());
    assert_eq!(product, [10.0, 13.0, 28.0, 40.0]);
    let both = attrs([
        ("transpose_a", Attr::Bool(true)),
        ("transpose_b", Attr::Bool(true)),
    ]);
    assert_eq!(
        values("matmul", &[counting(&[3, 2]), counting(&[2, 3])], both),
        [10.0, 28.0, 13.0, 40.0]
    );
    // A 2×2 kernel of ones sums neighbourhoods; padding above and to the left only.
    let ones = floats(&[1, 1, 2, 2], &[1.0; 4]);
    let padded = attrs([("pads", Attr::Ints(vec![1, 1, 0, 0]))]);
    let sums = values("conv2d", &[counting(&[1, 1, 2, 3]), ones], padded);
    assert_eq!(sums, [0.0, 1.0, 3.0, 3.0, 8.0, 12.0]);
    // Depthwise: each channel by its own factor.
    let factors = floats(&[2, 1, 1, 1], &[2.0, -1.0]);
    let depthwise = attrs([("groups", Attr::Int(2))]);
    assert_eq!(
        values("conv2d", &[counting(&[1, 2, 1, 2]), factors], depthwise),
        [0.0, 2.0, -2.0, -3.0]
    );
    let empty = tensor(run(
        "matmul",
        &[counting(&[2, 0]), counting(&[0, 2])],
        Attrs::new(),
    ));
    assert_eq!(empty.floats().unwrap(), [0.0; 4]);
}

#[test]
fn pools_count_as_asked() {
    let x = || floats(&[1, 1, 3, 3], &[1.0; 9]);
    let pool = |ceil, include| {
        attrs([
            ("kernel", Attr::Ints(vec![2, 2])),
            ("strides", Attr::Ints(vec![2, 2])),
            ("pads", Attr::Ints(vec![1, 1, 0, 0])),
            ("ceil_mode", Attr::Bool(ceil)),
            ("count_include_pad", Attr::Bool(include)),
        ])
    };
    // The corner window holds one element of the input and three of padding.
    assert_eq!(
        values("avg_pool2d", &[x()], pool(false, true)),
        [0.25, 0.5, 0.5, 1.0]
    );
    assert_eq!(values("avg_pool2d", &[x()], pool(false, false)), [1.0; 4]);
    // Without leading padding, rounding up adds windows that are cut by the end; what is cut never counts.
    let ceil = |include| {
        attrs([
            ("kernel", Attr::Ints(vec![2, 2])),
            ("strides", Attr::Ints(vec![2, 2])),
            ("ceil_mode", Attr::Bool(true)),
            ("count_include_pad", Attr::Bool(include)),
        ])
    };
    assert_eq!(
        values("avg_pool2d", &[counting(&[1, 1, 3, 3])], ceil(true)),
        [2.0, 3.5, 6.5, 8.0]
    );
    let max = attrs([
        ("kernel", Attr::Ints(vec![2, 2])),
        ("pads", Attr::Ints(vec![1, 1, 0, 0])),
    ]);
    assert_eq!(
        values(
            "max_pool2d",
            &[floats(&[1, 1, 2, 2], &[-1.0, -2.0, -3.0, -4.0])],
            max
        ),
        [-1.0, -1.0, -1.0, -1.0]
    );
}

#[test]
fn normalisations() {
    let soft = attrs([("axis", Attr::Int(0))]);
    near(
        &values("softmax", &[floats(&[3], &[1.0, 2.0, 3.0])], soft.clone()),
        &[0.090_030_57, 0.244_728_48, 0.665_240_94],
    );
    // Large inputs do not overflow.
    near(
        &values("softmax", &[floats(&[2], &[1e4, 1e4])], soft.clone()),
        &[0.5, 0.5],
    );
    near(
        &values("log_softmax", &[floats(&[2], &[0.0, 0.0])], soft),
        &[-(2f32.ln()); 2],
    );
    let eps = || ("eps", Attr::Float(0.0));
    let layer = attrs([("axis", Attr::Int(1)), eps()]);
    near(
        &values("layer_norm", &[floats(&[1, 2], &[1.0, 3.0])], layer),
        &[-1.0, 1.0],
    );
    let scale = floats(&[2], &[1.0, 2.0]);
    // √((9 + 16)/2) = 3.5355339.
    near(
        &values(
            "rms_norm",
            &[floats(&[1, 2], &[3.0, 4.0]), scale.clone()],
            attrs([eps()]),
        ),
        &[0.848_528_15, 2.262_741_7],
    );
    let p = |v: [f32; 2]| floats(&[2], &v);
    let args = [
        floats(&[1, 2], &[5.0, 7.0]),
        scale,
        p([1.0, 0.0]),
        p([3.0, 3.0]),
        p([4.0, 16.0]),
    ];
    near(&values("batch_norm", &args, attrs([eps()])), &[2.0, 2.0]);
    let group = attrs([("groups", Attr::Int(2)), eps()]);
    let args = [
        floats(&[1, 4], &[1.0, 3.0, 10.0, 20.0]),
        floats(&[4], &[1.0, 1.0, 2.0, 2.0]),
        floats(&[4], &[0.0, 0.0, 1.0, 1.0]),
    ];
    near(&values("group_norm", &args, group), &[-1.0, 1.0, -1.0, 3.0]);
}

#[test]
fn reductions_and_scans() {
    let axes = |a: &[i64]| attrs([("axes", Attr::Ints(a.to_vec()))]);
    assert_eq!(
        values("reduce_sum", &[counting(&[2, 3])], axes(&[0])),
        [3.0, 5.0, 7.0]
    );
    assert_eq!(
        values("reduce_mean", &[counting(&[2, 3])], axes(&[1])),
        [1.0, 4.0]
    );
    assert_eq!(
        values("reduce_max", &[counting(&[0])], axes(&[0])),
        [f32::NEG_INFINITY]
    );
    assert_eq!(
        whole("reduce_prod", &[ints(DType::I64, &[3], &[2, 3, 4])], axes(&[0])),
        [24]
    );
    let axis = |a| attrs([("axis", Attr::Int(a))]);
    assert_eq!(
        values("cumsum", &[counting(&[2, 2])], axis(0)),
        [0.0, 1.0, 2.0, 4.0]
    );
    assert_eq!(
        whole(
            "argmax",
            &[floats(&[2, 3], &[1.0, 5.0, 5.0, 0.0, -1.0, -2.0])],
            axis(1)
        ),
        [1, 0]
    );
    assert!(fails("argmax", &[counting(&[2, 0])], axis(1)).contains("axis 1"));
}

#[test]
fn pieces_and_look_ups() {
    let axis = |a| attrs([("axis", Attr::Int(a))]);
    let joined = values("concat", &[counting(&[2, 1]), counting(&[2, 2])], axis(1));
    assert_eq!(joined, [0.0, 0.0, 1.0, 1.0, 2.0, 3.0]);
    let one = |v: i64| Attr::Shape(vec![SymExpr::constant(v)]);
    let sliced = attrs([
        ("axes", Attr::Ints(vec![1])),
        ("begin", one(1)),
        // The end is symbolic: n + 2 is 5 here.
        (
            "end",
            Attr::Shape(vec![SymExpr::named("n") + SymExpr::constant(2)]),
        ),
        ("steps", Attr::Ints(vec![3])),
    ]);
    assert_eq!(
        values("slice", &[counting(&[2, 5])], sliced),
        [1.0, 4.0, 6.0, 9.0]
    );
    // −1 is the last, 9 and −9 are clamped.
    let rows = ints(DType::I64, &[4], &[-1, 9, -9, 1]);
    assert_eq!(
        values("take", &[counting(&[3, 2]), rows], axis(0)),
        [4.0, 5.0, 4.0, 5.0, 0.0, 1.0, 2.0, 3.0]
    );
    let sizes = Attr::Shape(vec![SymExpr::constant(1), SymExpr::named("n")]);
    let RefValue::Tuple(parts) = run(
        "split",
        &[counting(&[2, 4])],
        attrs([("axis", Attr::Int(1)), ("sizes", sizes)]),
    ) else {
        panic!("a split gives a tuple");
    };
    let parts: Vec<Tensor> = parts.into_iter().map(tensor).collect();
    assert_eq!(parts[0].floats().unwrap(), [0.0, 4.0]);
    assert_eq!(
        (parts[1].shape.as_slice(), parts[1].floats().unwrap()),
        (&[2, 3][..], &[1.0, 2.0, 3.0, 5.0, 6.0, 7.0][..])
    );
    let pads = attrs([
        ("pads_begin", Attr::Ints(vec![1])),
        ("pads_end", Attr::Ints(vec![2])),
        ("value", Attr::Float(-1.0)),
    ]);
    assert_eq!(
        values("pad", &[counting(&[2])], pads),
        [-1.0, 0.0, 1.0, -1.0, -1.0]
    );
    let scales = attrs([("scales", Attr::Ints(vec![1, 2]))]);
    assert_eq!(
        values("resize2d", &[counting(&[1, 1, 1, 2])], scales),
        [0.0, 0.0, 1.0, 1.0]
    );
    let mask = attrs([("rows", one(2)), ("cols", one(3)), ("offset", one(1))]);
    assert_eq!(whole("tril_mask", &[], mask), [1, 1, 0, 1, 1, 1]);
    let range = attrs([
        ("n", Attr::Shape(vec![SymExpr::named("n")])),
        ("start", Attr::Int(-1)),
        ("dtype", Attr::DType(DType::F32)),
    ]);
    assert_eq!(values("arange", &[], range), [-1.0, 0.0, 1.0]);
}

#[test]
fn bad_operands_are_refused_at_run_time() {
    let reshape = attrs([("shape", Attr::Shape(vec![SymExpr::named("n")]))]);
    assert!(fails("reshape", &[counting(&[4])], reshape).contains("n has no value"));
    let five = attrs([("shape", Attr::Shape(vec![SymExpr::constant(5)]))]);
    assert!(fails("reshape", &[counting(&[4])], five).contains("4 elements"));
    assert!(fails("add", &[counting(&[4]), counting(&[3])], Attrs::new()).contains("extent 4 or 1"));
    assert!(fails("relu", &[RefValue::Shape(vec![1])], Attrs::new()).contains("found a shape"));
    let negative = attrs([
        ("shape", Attr::Shape(vec![SymExpr::constant(-1)])),
        ("value", Attr::Float(0.0)),
        ("dtype", Attr::DType(DType::F32)),
    ]);
    assert!(fails("full", &[], negative).contains("at least 0"));
}
