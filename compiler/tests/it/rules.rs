//! Hints that extraction writes, and what the rule-based strategies make of them on whole models.

use relayout_compiler::apply::apply;
use relayout_compiler::extract::{DomainPolicy, Extraction};
use relayout_compiler::target::Target;
use relayout_layouts::hints::{DimMap, OperatorHints};
use relayout_layouts::{OpId, Status, check, json};

use crate::extract::{extraction, model, solve};

const MODELS: [(&str, &str); 6] = [
    ("example-reduce", ""),
    ("example-fanout", ""),
    ("small-cnn", ""),
    ("resnet50", "image=64"),
    ("bert", "layers=2 hidden=64 heads=4 vocab=100"),
    (
        "llama",
        "layers=1 hidden=64 heads=4 kv_heads=2 intermediate=128 vocab=100",
    ),
];

fn of(name: &str, overrides: &str, policy: DomainPolicy) -> Extraction {
    let built = model(name, overrides);
    extraction(&built.module, &built.binding, policy)
}

fn first<'a>(e: &'a Extraction, kind: &str) -> (OpId, &'a OperatorHints) {
    let hints = e.problem.hints().expect("hints");
    let found = e
        .problem
        .op_ids()
        .zip(&hints.operators)
        .find(|(_, h)| h.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} in the model"))
}

fn labels(of: &[i64]) -> Vec<Option<u32>> {
    of.iter().map(|&l| u32::try_from(l).ok()).collect()
}

/// The map of the first operator of a kind, −1 for no label; and what it works along.
fn map(e: &Extraction, kind: &str) -> (Vec<Vec<i64>>, Vec<i64>, Vec<u32>) {
    let (_, h) = first(e, kind);
    let DimMap { inputs, out } = h.dims.clone().expect("a map");
    let plain = |l: Vec<Option<u32>>| l.into_iter().map(|l| l.map_or(-1, i64::from)).collect();
    (
        inputs.into_iter().map(plain).collect(),
        plain(out),
        h.along.clone(),
    )
}

#[test]
fn every_strategy_has_a_plan_that_can_be_applied() {
    for (name, overrides) in MODELS {
        let built = model(name, overrides);
        let e = extraction(&built.module, &built.binding, DomainPolicy::Spread);
        let optimum = solve(&e, "exact").ranked[0].cost;
        for strategy in ["local", "greedy", "rule-based", "xla", "smartmem", "neocpu"] {
            let s = solve(&e, strategy);
            assert_eq!(s.status, Status::Feasible, "{strategy} on {name}");
            let best = s.best().expect("a plan");
            println!(
                "{name} {strategy}: {} ({:.3} of the optimum), {} conversions, {:?}",
                best.cost,
                best.cost as f64 / optimum as f64,
                best.transposes,
                s.counters
            );
            let checked = check(&e.problem, &best.assignment).expect("a valid assignment");
            assert_eq!(checked.cost, best.cost);
            let mut module = built.module.clone();
            let applied = apply(&mut module, &e, &best.assignment).expect("application");
            assert_eq!(applied.conversions.len(), checked.conversions.len());
            relayout_ir::verify::verify(&module).unwrap_or_else(|e| panic!("{strategy} on {name}: {e:?}"));
        }
    }
}

#[test]
fn hints_are_valid_under_the_full_domain_and_survive_the_file() {
    let e = of("small-cnn", "", DomainPolicy::Full);
    let mut bytes = Vec::new();
    json::write(&e.problem, &mut bytes).expect("writing");
    let again = json::read(&bytes).expect("reading");
    assert_eq!(again.hash(), e.problem.hash());
    assert_eq!(again.hints(), e.problem.hints());
    assert_eq!(solve(&e, "rule-based").status, Status::Feasible);
}

#[test]
fn convolutions_prefer_the_widest_block_that_fits() {
    let e = of("resnet50", "image=64", DomainPolicy::Spread);
    let hints = e.problem.hints().expect("hints");
    let mut seen = 0;
    for (o, h) in e
        .problem
        .op_ids()
        .zip(&hints.operators)
        .filter(|(_, h)| h.kind == "conv2d")
    {
        let op = e.problem.operator(o);
        for &c in &h.preferred {
            let (_, config) = op.configs().nth(c).expect("a configuration");
            let layout = &hints.tensors[op.output.index()].layouts[config.output.index()];
            assert_eq!((layout.form.as_str(), layout.dim), ("block16", Some(1)));
            seen += 1;
        }
        assert!(!h.preferred.is_empty());
    }
    assert!(seen > 50);
}

#[test]
fn maps_say_which_dimensions_are_one() {
    let cnn = of("resnet50", "image=64", DomainPolicy::Spread);
    assert_eq!(
        map(&cnn, "conv2d"),
        (
            vec![vec![0, 1, 2, 3], vec![4, 1, 5, 6]],
            vec![0, 4, 2, 3],
            vec![1, 5, 6]
        )
    );
    assert_eq!(
        map(&cnn, "max_pool2d"),
        (vec![vec![0, 1, 2, 3]], vec![0, 1, 2, 3], vec![2, 3])
    );
    let bert = of(
        "bert",
        "layers=1 hidden=64 heads=4 vocab=100",
        DomainPolicy::Spread,
    );
    let (inputs, out, along) = map(&bert, "softmax");
    assert_eq!((inputs[0].clone(), along), (out.clone(), vec![3]));
    let (inputs, out, _) = map(&bert, "permute");
    let mut sorted = out.clone();
    sorted.sort_unstable();
    assert_eq!(inputs[0], sorted);
    assert_ne!(inputs[0], out);
    // Splitting the hidden dimension into heads: it is that of the innermost factor.
    let hints = bert.problem.hints().expect("hints");
    let split = hints
        .operators
        .iter()
        .filter(|h| h.kind == "reshape")
        .filter_map(|h| h.dims.as_ref());
    let split = split
        .into_iter()
        .find(|m| m.inputs[0].len() == 3 && m.out.len() == 4)
        .expect("a split");
    assert_eq!(split.out, labels(&[0, 1, 2, 3]));
    assert_eq!(split.inputs[0], labels(&[0, 1, 3]));
}

#[test]
fn sizes_are_bytes() {
    let e = of("small-cnn", "", DomainPolicy::Spread);
    let (o, _) = first(&e, "conv2d");
    let hints = e.problem.hints().expect("hints");
    let t = e.problem.operator(o).output;
    let info = &hints.tensors[t.index()];
    assert_eq!(info.rank, 4);
    assert!(info.size >= 4 && info.size.is_multiple_of(4), "{}", info.size);
    // Layouts of the same bytes point to the first of them, and nothing else does.
    for (i, l) in info.layouts.iter().enumerate() {
        let tensor = e.problem.tensor(t);
        let free = (0..i).find(|&j| {
            let id = |k: usize| relayout_layouts::LayoutId::new(k);
            tensor.transpose(id(j), id(i)) == Some(0)
        });
        assert_eq!(l.same_as, free);
    }
}

#[test]
fn a_target_without_layout_rules_still_says_what_belongs_together() {
    let text = include_str!("../../../configs/targets/cpu.yaml");
    let bare = &text[..text.find("layout_rules:").expect("the key")];
    let target = Target::parse(bare, "bare").expect("a target");
    assert_eq!(
        target.layout_rules,
        relayout_compiler::target::LayoutRules::default()
    );
    assert!(
        !Target::cpu()
            .expect("the shipped target")
            .layout_rules
            .rules
            .is_empty()
    );
}

#[test]
fn faults_in_layout_rules_name_their_place() {
    let text = include_str!("../../../configs/targets/cpu.yaml");
    let cases = [
        (
            "kinds: [matmul], when",
            "kinds: [matmull], when",
            "preferred[2].kinds[0]: no operator is named \"matmull\"",
        ),
        (
            "alias: true",
            "when: []",
            "preferred[0]: expected at least one of",
        ),
        (
            "when: [{ form: block8 }]",
            "when: [{ input: 1 }]",
            "preferred[5].when[0]: expected at least one of",
        ),
        (
            "when: [{ input: 0, along: true }]",
            "when: []",
            "rules[1].when: a rule needs at least one condition",
        ),
        ("verdict: prefer", "verdict: perhaps", "perhaps"),
    ];
    for (from, to, expected) in cases {
        assert!(text.contains(from), "{from}");
        let error = Target::parse(&text.replacen(from, to, 1), "broken").expect_err("a fault");
        let found = error.to_string();
        assert!(found.contains(expected), "{found}");
    }
}
