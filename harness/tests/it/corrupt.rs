//! What is compiled computes what the reference computes, for every strategy; and a compiled model that is wrong in one
//! conversion or one packed weight does not pass the comparison that every latency stands behind.

use relayout::frontend::{self, TargetParts};
use relayout::reference;
use relayout_compiler::apply::{Applied, apply};
use relayout_compiler::extract::{
    CallSpec, CostModel, DomainPolicy, Extraction, Pricing, ShapeBinding, extract,
};
use relayout_compiler::pipeline::{self, CompileOptions};
use relayout_ir::graph::{Attr, Expr, Module};
use relayout_ir::op;
use relayout_layouts::{Budget, ConfigId, STRATEGIES, Trace, strategy_by_name};
use relayout_models::Model;
use relayout_runtime::module::{PackStep, Source};
use relayout_runtime::{HostTensor, Options, Session, pack};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SEED: u64 = 11;
const TOLERANCE: f64 = 1e-3;

/// A model ready for layout selection, with the reference outputs of each of its bindings.
struct Case {
    /// As imported, for inputs and the reference.
    model: Model,
    /// Canonicalised.
    module: Module,
    parts: TargetParts,
    extraction: Extraction,
    bindings: Vec<ShapeBinding>,
    shapes: Vec<(Vec<HostTensor>, Vec<HostTensor>)>,
}

fn case(text: &str, bindings: &[&[(&str, i64)]]) -> Case {
    let model = frontend::load(text, SEED, 1).expect("a zoo model").model;
    let bindings: Vec<ShapeBinding> = bindings
        .iter()
        .map(|values| {
            let dims: BTreeMap<String, i64> = values.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
            frontend::bind(&model, &dims).expect("a binding")
        })
        .collect();
    let parts = frontend::target("cpu").expect("the built-in target");
    let mut module = model.module.clone();
    pipeline::canonicalise(&mut module);
    let keys = |_: &CallSpec, _: &ShapeBinding| Ok(String::new());
    let pricing = Pricing {
        target: &parts.target,
        coefficients: &parts.coefficients,
        model: CostModel::Analytic,
        unit_key: &keys,
    };
    let extraction =
        extract(&module, text, None, &pricing, &bindings, DomainPolicy::Spread).expect("extraction");
    let shapes = bindings
        .iter()
        .map(|b| {
            let inputs = reference::inputs(&model, SEED, b).expect("inputs");
            (inputs, reference::run(&model, SEED, b).expect("the reference"))
        })
        .collect();
    Case {
        model,
        module,
        parts,
        extraction,
        bindings,
        shapes,
    }
}

impl Case {
    fn assignment(&self, strategy: &str) -> Vec<ConfigId> {
        let budget = Budget::default().with_time_limit(Duration::from_secs(10));
        let solutions = strategy_by_name(strategy)
            .expect("a strategy")
            .solve(&self.extraction.problem, &budget, &mut Trace::silent())
            .expect("an answer");
        solutions
            .best()
            .unwrap_or_else(|| panic!("{strategy}: {:?}", solutions.status))
            .assignment
            .clone()
    }

    fn selected(&self, strategy: &str) -> (Module, Applied) {
        let mut selected = self.module.clone();
        let applied =
            apply(&mut selected, &self.extraction, &self.assignment(strategy)).expect("application");
        (selected, applied)
    }

    fn compile(&self, selected: &Module) -> relayout_runtime::Module {
        let options = CompileOptions {
            name: self.model.name.clone(),
            ..CompileOptions::default()
        };
        pipeline::compile_selected(selected, &self.parts.target, &options)
            .expect("compilation")
            .module
    }

    /// The comparison at every shape: largest relative error, and whether it passed.
    fn compare(&self, module: relayout_runtime::Module) -> Vec<(Option<f64>, bool)> {
        let mut session = Session::new(
            module,
            &Options {
                threads: 1,
                ..Options::default()
            },
        )
        .expect("a session");
        self.shapes
            .iter()
            .map(|(inputs, expected)| {
                let found = session.run(None, inputs).expect("a run");
                let correctness = reference::compare(&found, expected, TOLERANCE);
                (correctness.max_relative_error, correctness.passed())
            })
            .collect()
    }

    /// Whether the interpreter gives the model's results for a module.
    fn means_the_same(&self, module: &Module) -> bool {
        let mut model = self.model.clone();
        model.module = module.clone();
        self.bindings
            .iter()
            .zip(&self.shapes)
            .all(|(binding, (_, expected))| {
                let found = reference::run(&model, SEED, binding).expect("the reference");
                reference::compare(&found, expected, TOLERANCE).passed()
            })
    }

    fn every_strategy_agrees_with_the_reference(&self, label: &str) {
        let mut modules: Vec<(Module, &str)> = Vec::new();
        for strategy in STRATEGIES {
            let (selected, _) = self.selected(strategy.name);
            // Optimal strategies mostly find the same plan; it is compiled once.
            if modules.iter().any(|(m, _)| *m == selected) {
                continue;
            }
            for (shape, (error, passed)) in self.compare(self.compile(&selected)).into_iter().enumerate() {
                assert!(
                    passed,
                    "{label} under {}, shape {shape}: relative error {error:?}",
                    strategy.name
                );
            }
            modules.push((selected, strategy.name));
        }
    }
}

#[test]
fn convolutional_models_agree_under_every_strategy() {
    case("small-cnn", &[&[]]).every_strategy_agrees_with_the_reference("small-cnn");
    case("example-fanout image=14 channels=32", &[&[]])
        .every_strategy_agrees_with_the_reference("example-fanout");
    case("example-reduce", &[&[]]).every_strategy_agrees_with_the_reference("example-reduce");
}

#[test]
fn bert_agrees_under_every_strategy() {
    let text = "bert layers=1 hidden=64 heads=4 intermediate=128 vocab=100 seq=24";
    case(text, &[&[]]).every_strategy_agrees_with_the_reference("bert");
}

#[test]
fn one_compiled_llama_agrees_at_two_shapes_under_every_strategy() {
    let text = "llama layers=1 hidden=64 heads=4 kv_heads=2 intermediate=128 vocab=100";
    let llama = case(text, &[&[("n", 1), ("s", 7)], &[("n", 3), ("s", 16)]]);
    llama.every_strategy_agrees_with_the_reference("llama");
}

/// Places of run-time conversions of square images in the graph: block, position.
fn conversions(module: &Module) -> Vec<(usize, usize)> {
    let function = &module.functions[module.entry().expect("main")];
    let constants: Vec<_> = function
        .bindings()
        .filter(|b| matches!(b.expr, Expr::Constant(_)))
        .map(|b| b.value)
        .collect();
    let mut found = Vec::new();
    for (block, contents) in function.blocks.iter().enumerate() {
        for (position, binding) in contents.bindings.iter().enumerate() {
            let Expr::Op { op, args, .. } = &binding.expr else {
                continue;
            };
            let info = function.values[binding.value]
                .annotation
                .as_tensor()
                .and_then(|t| t.dims().map(<[_]>::to_vec));
            let square = info.is_some_and(|d| d.len() == 4 && d[2] == d[3] && d[2].to_string() != "1");
            if op.name() == "layout_transform" && square && !constants.contains(&args[0]) {
                found.push((block, position));
            }
        }
    }
    found
}

#[test]
fn a_wrong_conversion_never_passes() {
    let cnn = case("small-cnn", &[&[]]);
    let (selected, applied) = cnn.selected("local");
    assert!(
        applied.conversions.iter().any(|c| !c.constant && !c.alias),
        "nothing to corrupt"
    );
    assert!(
        cnn.compare(cnn.compile(&selected))
            .iter()
            .all(|(_, passed)| *passed)
    );
    let places = conversions(&selected);
    assert!(!places.is_empty(), "no conversion of a square image");
    // Each of them alone moves element (h, w) to where (w, h) belongs, in the layout that its consumers expect. Where the model's
    // result does not depend on that (before the global mean), nothing is wrong.
    let permute = op::by_name("permute").expect("an operator");
    let mut corrupted = 0;
    for &(block, position) in &places {
        let mut wrong = selected.clone();
        let entry = wrong.entry().expect("main");
        let binding = &mut wrong.functions[entry].blocks[block].bindings[position];
        let Expr::Op { op, attrs, .. } = &mut binding.expr else {
            unreachable!("a conversion is an operator")
        };
        *op = permute;
        *attrs = BTreeMap::from([("perm".to_owned(), Attr::Ints(vec![0, 1, 3, 2]))]);
        if cnn.means_the_same(&wrong) {
            continue;
        }
        corrupted += 1;
        for (error, passed) in cnn.compare(cnn.compile(&wrong)) {
            assert!(
                !passed,
                "conversion {block}/{position}: passed with relative error {error:?}"
            );
        }
    }
    assert!(corrupted > 0, "no conversion that matters was corrupted");
}

/// The steps with two outer pieces of equally long axes exchanged, if there are such: the same packed shape, another order.
fn exchanged(shape: &[u64], steps: &[PackStep]) -> Option<Vec<PackStep>> {
    let PackStep::Layout(splits) = steps.first()? else {
        return None;
    };
    let right = pack::packed_shape(shape, steps).ok()?;
    for i in 0..splits.len() {
        for j in i + 1..splits.len() {
            let (a, b) = (splits[i], splits[j]);
            let extents = |s: u8| shape.get(usize::from(s)).copied().unwrap_or(1);
            if a.axis == b.axis || extents(a.axis) <= 1 || extents(a.axis) != extents(b.axis) {
                continue;
            }
            let mut other = splits.clone();
            other.swap(i, j);
            let mut wrong = steps.to_vec();
            wrong[0] = PackStep::Layout(other);
            if pack::packed_shape(shape, &wrong).is_ok_and(|s| s == right) {
                return Some(wrong);
            }
        }
    }
    None
}

#[test]
fn a_wrongly_packed_weight_never_passes() {
    let cnn = case("small-cnn", &[&[]]);
    let (mut orders, mut values) = (0, 0);
    for strategy in ["local", "exact"] {
        let right = cnn.compile(&cnn.selected(strategy).0);
        assert!(cnn.compare(right.clone()).iter().all(|(_, passed)| *passed));
        for (index, constant) in right
            .constants
            .iter()
            .enumerate()
            .filter(|(_, c)| !c.pack.is_empty())
        {
            if let Some(steps) = exchanged(&constant.shape, &constant.pack)
                && orders < 6
            {
                let mut wrong = right.clone();
                wrong.constants[index].pack = steps;
                for (error, passed) in cnn.compare(wrong) {
                    assert!(
                        !passed,
                        "{}, packed in another order: passed with relative error {error:?}",
                        constant.name
                    );
                }
                orders += 1;
            }
            if values >= 6 {
                continue;
            }
            let mut wrong = right.clone();
            wrong.constants[index].source = match &constant.source {
                Source::Generated(generator) => {
                    let mut generator = generator.clone();
                    generator.key.push('x');
                    Source::Generated(generator)
                }
                Source::Inline(bytes) => {
                    let mut bytes = bytes.to_vec();
                    bytes.rotate_left(constant.dtype.bytes());
                    Source::Inline(Arc::from(bytes))
                }
                Source::External { .. } => continue,
            };
            for (error, passed) in cnn.compare(wrong) {
                assert!(
                    !passed,
                    "{}, other values: passed with relative error {error:?}",
                    constant.name
                );
            }
            values += 1;
        }
    }
    assert!(
        orders > 0 && values > 0,
        "{orders} orders and {values} values were tried"
    );
}

#[test]
fn a_comparison_refuses_other_shapes_counts_and_values_that_are_not_finite() {
    let cnn = case("small-cnn", &[&[]]);
    let expected = &cnn.shapes[0].1;
    let passed = |found: &[HostTensor]| reference::compare(found, expected, TOLERANCE).passed();
    assert!(passed(expected));
    assert!(!passed(&[]));
    let with = |change: &dyn Fn(&mut HostTensor)| {
        let mut found = expected.clone();
        change(&mut found[0]);
        found
    };
    assert!(!passed(&with(&|t| t.shape.push(1))));
    assert!(!passed(&with(
        &|t| t.bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes())
    )));
    assert!(!passed(&with(
        &|t| t.bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes())
    )));
    assert!(!passed(&with(
        &|t| t.bytes[..4].copy_from_slice(&1e9f32.to_le_bytes())
    )));
    assert!(
        !passed(&with(&|t| t.bytes.truncate(4))),
        "a tensor with too few bytes"
    );
}
