//! Extraction and application on whole models.

use relayout_compiler::affine::Ranges;
use relayout_compiler::apply::apply;
use relayout_compiler::canonicalise::canonicalise;
use relayout_compiler::cost::Coefficients;
use relayout_compiler::extract::{
    CallSpec, CostModel, DomainPolicy, Extraction, Pricing, Role, ShapeBinding, extract,
};
use relayout_compiler::pipeline::{CompileOptions, CompileReport, Pass, lower};
use relayout_compiler::schedule::schedule;
use relayout_compiler::stage_plan::Vectors;
use relayout_compiler::target::Target;
use relayout_ir::graph::{Expr, Module};
use relayout_ir::program::StageBody;
use relayout_ir::sym::SymExpr;
use relayout_layouts::{Budget, ConfigId, Solutions, Trace, check, strategy_by_name};
use relayout_models::zoo;
use std::collections::BTreeSet;

pub fn model(name: &str, overrides: &str) -> zoo_model::Built {
    zoo_model::build(name, overrides)
}

pub mod zoo_model {
    use super::*;
    /// A zoo model with the default value of each symbolic dimension.
    pub struct Built {
        pub module: Module,
        pub binding: ShapeBinding,
    }
    pub fn build(name: &str, overrides: &str) -> Built {
        let overrides = relayout_models::ModelSpec::parse(&format!("{name} {overrides}"))
            .expect("a model")
            .overrides;
        let model = zoo::build(name, &overrides, 0, 1).expect("a zoo model");
        let values = model
            .dims
            .iter()
            .map(|d| (d.decl.var.name().to_owned(), d.default))
            .collect();
        Built {
            module: model.module,
            binding: ShapeBinding { weight: 1, values },
        }
    }
}

fn no_units(spec: &CallSpec, _: &ShapeBinding) -> Result<String, String> {
    Err(format!("the analytic model asked for {}", spec.describe()))
}

pub fn extraction(module: &Module, binding: &ShapeBinding, policy: DomainPolicy) -> Extraction {
    let target = Target::cpu().expect("the shipped target");
    let coefficients = Coefficients::cpu().expect("the shipped coefficients");
    let pricing = Pricing {
        target: &target,
        coefficients: &coefficients,
        model: CostModel::Analytic,
        unit_key: &no_units,
    };
    extract(
        module,
        "test",
        None,
        &pricing,
        std::slice::from_ref(binding),
        policy,
    )
    .expect("extraction")
}

pub fn solve(extraction: &Extraction, strategy: &str) -> Solutions {
    let strategy = strategy_by_name(strategy).expect("a strategy");
    strategy
        .solve(&extraction.problem, &Budget::default(), &mut Trace::silent())
        .expect("an answer")
}

#[test]
fn strategies_are_ordered_and_the_binding_costs_add_up_to_the_objective() {
    for (name, overrides) in [
        ("small-cnn", ""),
        ("resnet50", "image=64"),
        ("bert", "layers=2 hidden=64 heads=4 vocab=100"),
        (
            "llama",
            "layers=1 hidden=64 heads=4 kv_heads=2 intermediate=128 vocab=100",
        ),
    ] {
        let built = model(name, overrides);
        let e = extraction(&built.module, &built.binding, DomainPolicy::Spread);
        let cost = |s: &str| solve(&e, s).ranked[0].cost;
        let (local, greedy, exact) = (cost("local"), cost("greedy"), cost("treewidth"));
        eprintln!(
            "{name}: {} operators, local {local} greedy {greedy} exact {exact}",
            e.problem.operators().len()
        );
        assert!(
            exact <= greedy && exact <= local,
            "{name}: local {local}, greedy {greedy}, exact {exact}"
        );
        let best = &solve(&e, "treewidth").ranked[0];
        let split = e.cost_per_binding(&best.assignment, 1);
        assert_eq!(split[0], (best.operator_cost, best.transpose_cost), "{name}");
    }
}

#[test]
fn application_inserts_one_conversion_per_distinct_requested_layout() {
    let built = model("resnet50", "image=64");
    let e = extraction(&built.module, &built.binding, DomainPolicy::Spread);
    for strategy in ["local", "greedy", "treewidth"] {
        let best = &solve(&e, strategy).ranked[0];
        let checked = check(&e.problem, &best.assignment).expect("a valid assignment");
        let mut module = built.module.clone();
        let applied = apply(&mut module, &e, &best.assignment).expect("application");
        assert_eq!(applied.conversions.len(), checked.conversions.len(), "{strategy}");
        let entry = module.entry().expect("main");
        let transforms = module.functions[entry]
            .bindings()
            .filter(|b| matches!(&b.expr, Expr::Op { op, .. } if op.name() == "layout_transform"))
            .count();
        assert_eq!(transforms, applied.conversions.len(), "{strategy}");
    }
}

#[test]
fn the_imported_layout_is_every_operators_first_configuration() {
    let built = model("small-cnn", "");
    let e = extraction(&built.module, &built.binding, DomainPolicy::Full);
    for role in &e.roles {
        if let Role::Call { configs, .. } = role {
            assert!(configs[0].out.is_row_major());
            assert!(configs[0].args.iter().flatten().all(|l| l.is_row_major()));
        }
    }
}

/// Multiply-adds and text of every contraction of the lowered module that is computed one scalar at a time.
fn scalar_contractions(module: &Module, without: &[Pass]) -> BTreeSet<String> {
    let target = Target::cpu().expect("the shipped target");
    let options = CompileOptions {
        without: without.to_vec(),
        ..CompileOptions::default()
    };
    let mut lowered = module.clone();
    lower(
        &mut lowered,
        &target,
        &options,
        &mut CompileReport::default(),
        &mut |_, _| {},
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let mut found = BTreeSet::new();
    for (_, program) in lowered.programs.iter() {
        let ranges = Ranges::of_syms(&program.sym_params, &[]);
        for phase in schedule(program, &ranges, &target).phases {
            for plan in phase.stages {
                let contraction = matches!(plan.stage.body, StageBody::Contract { .. });
                if contraction && plan.vectors == Vectors::None {
                    let extents = plan.stage.loops.iter().map(|l| l.extent.clone());
                    let size = extents.fold(SymExpr::constant(1), |a, b| a * b);
                    found.insert(size.to_string());
                }
            }
        }
    }
    found
}

/// What a configuration was priced with is a kernel of its own; fusing others into it must leave it as fast.
#[test]
fn no_plan_takes_the_vectors_from_a_contraction() {
    for (name, overrides) in [
        ("small-cnn", ""),
        ("example-fanout", ""),
        ("resnet50", "depth=18 image=64"),
        ("bert", "layers=1 hidden=64 heads=4 vocab=100"),
        (
            "llama",
            "layers=1 hidden=64 heads=4 kv_heads=2 intermediate=128 vocab=100",
        ),
    ] {
        let mut built = model(name, overrides);
        canonicalise(&mut built.module);
        let e = extraction(&built.module, &built.binding, DomainPolicy::Spread);
        let mut plans: Vec<(String, Vec<ConfigId>)> = ["local", "greedy", "exact"]
            .map(|s| (s.to_owned(), solve(&e, s).ranked[0].assignment.clone()))
            .to_vec();
        let mut state = 7u64;
        for round in 0..4 {
            let operators = e.problem.operators();
            let assignment: Vec<ConfigId> = operators
                .map(|o| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ConfigId((state >> 33) as u32 % o.configs().len() as u32)
                })
                .collect();
            if check(&e.problem, &assignment).is_ok() {
                plans.push((format!("random {round}"), assignment));
            }
        }
        for (plan, assignment) in plans {
            let mut module = built.module.clone();
            apply(&mut module, &e, &assignment).expect("application");
            let alone = scalar_contractions(&module, &[Pass::FuseOps]);
            let whole = scalar_contractions(&module, &[]);
            assert!(
                whole.is_subset(&alone),
                "{name}, {plan}: contractions of these sizes lose their vectors by fusion: {:?}",
                whole.difference(&alone)
            );
        }
    }
}
