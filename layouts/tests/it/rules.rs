//! `rule-based` and its relatives: each rule by a problem that shows it, and what holds of all of them.

use proptest::prelude::*;
use relayout_layouts::hints::{
    Condition, DimMap, Hints, LayoutHints, OperatorHints, Rule, TensorHints, Verdict,
};
use relayout_layouts::rng::SplitMix64;
use relayout_layouts::{
    Budget, ConfigSpec, OperatorSpec, Problem, ProblemBuilder, Solutions, Status, TensorSpec, Trace, check,
    json, strategy_by_name,
};

use crate::support::{X, bare_hints, builder, operator, small_problems, tensor};

const NAMES: [&str; 4] = ["rule-based", "xla", "smartmem", "neocpu"];

fn solve(strategy: &str, problem: &Problem) -> Solutions {
    strategy_by_name(strategy)
        .unwrap()
        .solve(problem, &Budget::default(), &mut Trace::silent())
        .unwrap()
}

fn plan(strategy: &str, problem: &Problem) -> Vec<u32> {
    let s = solve(strategy, problem);
    assert_eq!(s.status, Status::Feasible, "{strategy}");
    s.best().unwrap().assignment.iter().map(|c| c.0).collect()
}

/// A graph of matrices with hints. Every tensor has the layouts `r` (dimension 1 singled out: row-major), `c` (dimension 0)
/// and `b` (dimension 1 in form `block`), any of which converts to any other.
struct Graph {
    b: ProblemBuilder,
    h: Hints,
}

const R: usize = 0;
const C: usize = 1;
const B: usize = 2;

type Dims = [Option<u32>; 2];

fn dims(a: u32, b: u32) -> Dims {
    [Some(a), Some(b)]
}

impl Graph {
    fn new() -> Self {
        Self {
            b: builder(),
            h: Hints::default(),
        }
    }

    /// An operator with a result of its own; returns the result's index. `layouts`: per configuration, those of the inputs
    /// and that of the result.
    fn op(
        &mut self,
        kind: &str,
        inputs: &[(usize, Dims)],
        out: Dims,
        layouts: &[(&[usize], usize)],
        along: &[u32],
        preferred: &[usize],
    ) -> usize {
        let t = self.b.tensor(TensorSpec {
            name: kind.into(),
            layouts: ["r", "c", "b"].map(String::from).into(),
            transpose: (0..3)
                .map(|i| (0..3).map(|j| Some(u64::from(i != j))).collect())
                .collect(),
            ..TensorSpec::default()
        });
        let layout = |dim: usize, form: &str| LayoutHints {
            dim: Some(dim),
            form: form.into(),
            same_as: None,
        };
        self.h.tensors.push(TensorHints {
            rank: 2,
            size: 1,
            layouts: vec![layout(1, ""), layout(0, ""), layout(1, "block")],
        });
        self.b.operator(OperatorSpec {
            name: kind.into(),
            inputs: inputs.iter().map(|i| i.0).collect(),
            output: t,
            configs: layouts
                .iter()
                .map(|&(i, output)| ConfigSpec {
                    inputs: i.into(),
                    output,
                    ..ConfigSpec::default()
                })
                .collect(),
        });
        self.h.operators.push(OperatorHints {
            kind: kind.into(),
            dims: Some(DimMap {
                inputs: inputs.iter().map(|i| i.1.to_vec()).collect(),
                out: out.to_vec(),
            }),
            along: along.into(),
            preferred: preferred.into(),
        });
        t
    }

    /// A graph input, pinned to `r`.
    fn input(&mut self) -> usize {
        self.op("source", &[], dims(0, 1), &[(&[], R)], &[], &[])
    }

    /// A constant-like source of any layout.
    fn free(&mut self) -> usize {
        self.op(
            "source",
            &[],
            dims(0, 1),
            &[(&[], R), (&[], C), (&[], B)],
            &[],
            &[],
        )
    }

    /// Element by element: reads and writes one layout.
    fn map(&mut self, kind: &str, t: usize) -> usize {
        let same: [(&[usize], usize); 3] = [(&[R], R), (&[C], C), (&[B], B)];
        self.op(kind, &[(t, dims(0, 1))], dims(0, 1), &same, &[], &[])
    }

    /// Contracts dimension 1, in any layout, and prefers these configurations.
    fn contract(&mut self, t: usize, preferred: &[usize]) -> usize {
        let all: [(&[usize], usize); 4] = [(&[R], R), (&[C], R), (&[B], B), (&[R], B)];
        self.op("matmul", &[(t, dims(0, 1))], dims(0, 2), &all, &[1], preferred)
    }

    /// A graph output, pinned to `r`.
    fn output(&mut self, t: usize) -> usize {
        self.op("sink", &[(t, dims(0, 1))], dims(0, 1), &[(&[R], R)], &[], &[])
    }

    fn rule(&mut self, verdict: Verdict, kind: &str, condition: Condition) {
        self.h.rules.push(Rule {
            name: String::new(),
            verdict,
            kinds: vec![kind.into()],
            when: vec![condition],
        });
    }

    fn build(mut self) -> Problem {
        self.b.hints = Some(self.h);
        self.b.build().unwrap()
    }
}

#[test]
fn without_hints_the_answer_is_missing_hints() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0]]));
    b.operator(operator("x", &[], 0, &[(&[], 0, 4)]));
    let problem = b.build().unwrap();
    for name in NAMES {
        let s = solve(name, &problem);
        assert_eq!(
            (s.status, s.ranked.len(), s.lower_bound),
            (Status::MissingHints, 0, 4)
        );
    }
}

#[test]
fn preferences_propagate_forward_and_backward() {
    let mut g = Graph::new();
    let x = g.free();
    let before = g.map("relu", x);
    let product = g.contract(before, &[2]);
    let after = g.map("relu", product);
    g.map("relu", after);
    let problem = g.build();
    // The source and both sides take the preferred `b`.
    for name in ["rule-based", "xla"] {
        assert_eq!(plan(name, &problem), [2, 2, 2, 2, 2], "{name}");
    }
}

#[test]
fn a_preference_outranks_a_pinned_input_and_the_conversion_comes_first() {
    let mut g = Graph::new();
    let x = g.input();
    let y = g.map("relu", x);
    let z = g.contract(y, &[2]);
    g.output(z);
    let problem = g.build();
    assert_eq!(plan("rule-based", &problem), [0, 2, 2, 0]);
    // The same place in the queue for both: the relu is one step from either, and the input comes first.
    assert_eq!(plan("xla", &problem), [0, 0, 2, 0]);
}

#[test]
fn preferred_configurations_are_equals_among_which_neighbours_decide() {
    let mut g = Graph::new();
    let x = g.free();
    let y = g.contract(x, &[1, 2]);
    g.contract(y, &[2]);
    let problem = g.build();
    assert_eq!(plan("rule-based", &problem), [2, 2, 2]);
    // XLA's pass fixes an influential operator for itself alone.
    assert_eq!(plan("xla", &problem), [1, 1, 2]);
}

#[test]
fn a_logical_dimension_is_kept_in_another_form_where_the_form_is_not_to_be_had() {
    let mut g = Graph::new();
    let x = g.input();
    let product = g.contract(x, &[3]);
    let plain: [(&[usize], usize); 2] = [(&[C], C), (&[R], R)];
    let y = g.op("softmax", &[(product, dims(0, 1))], dims(0, 1), &plain, &[], &[]);
    g.op(
        "drop",
        &[(y, dims(0, 1))],
        dims(0, 1),
        &[(&[R], R), (&[C], C)],
        &[],
        &[],
    );
    let problem = g.build();
    // No configuration reads `b`, but one reads the same dimension unblocked; index order would have taken the other.
    assert_eq!(plan("rule-based", &problem), [0, 3, 1, 0]);
    assert_eq!(
        plan("xla", &problem)[2],
        0,
        "XLA's pass knows no logical dimensions"
    );
}

#[test]
fn domain_rules_decide_what_is_open_and_earlier_ones_win() {
    let along = |along| Condition {
        input: Some(0),
        along: Some(along),
        ..Condition::default()
    };
    let result = |dim: i64| Condition {
        dim: Some(dim),
        ..Condition::default()
    };
    let form = Condition {
        input: Some(0),
        form: Some("block".into()),
        ..Condition::default()
    };
    let graph = |rules: &[(Verdict, Condition)]| {
        let mut g = Graph::new();
        let x = g.free();
        let all: [(&[usize], usize); 3] = [(&[R], R), (&[C], C), (&[B], B)];
        let y = g.op("softmax", &[(x, dims(0, 1))], dims(0, 1), &all, &[0], &[]);
        g.map("relu", y);
        for (verdict, condition) in rules {
            g.rule(*verdict, "softmax", condition.clone());
        }
        plan("rule-based", &g.build())
    };
    assert_eq!(graph(&[]), [0, 0, 0]);
    // Dimension 0 is the one normalised; rules reach the neighbours by propagation.
    assert_eq!(graph(&[(Verdict::Prefer, along(true))]), [1, 1, 1]);
    assert_eq!(graph(&[(Verdict::Avoid, along(false))]), [1, 1, 1]);
    assert_eq!(graph(&[(Verdict::Prefer, form.clone())]), [2, 2, 2]);
    assert_eq!(graph(&[(Verdict::Prefer, result(0))]), [1, 1, 1]);
    assert_eq!(
        graph(&[(Verdict::Prefer, result(-1)), (Verdict::Avoid, result(1))]),
        [0, 0, 0]
    );
    let (first, second) = ((Verdict::Prefer, form), (Verdict::Prefer, along(true)));
    assert_eq!(graph(&[first.clone(), second.clone()]), [2, 2, 2]);
    assert_eq!(graph(&[second, first]), [1, 1, 1]);
    // A rule that would leave nothing is without effect.
    assert_eq!(graph(&[(Verdict::Prefer, result(7))]), [0, 0, 0]);
}

#[test]
fn rules_do_not_overrule_what_propagation_decided() {
    let mut g = Graph::new();
    let x = g.free();
    let y = g.contract(x, &[2]);
    let all: [(&[usize], usize); 3] = [(&[R], R), (&[C], C), (&[B], B)];
    g.op("softmax", &[(y, dims(0, 1))], dims(0, 1), &all, &[0], &[]);
    g.rule(
        Verdict::Prefer,
        "softmax",
        Condition {
            input: Some(0),
            along: Some(true),
            ..Condition::default()
        },
    );
    assert_eq!(plan("rule-based", &g.build()), [2, 2, 2]);
}

#[test]
fn the_search_moves_as_little_as_possible_between_what_is_decided() {
    // Two matrices pinned to `c` and an operator that reads neither so: it converts one of them twice, the other once.
    let graph = |sizes: [u64; 2]| {
        let mut g = Graph::new();
        let x = g.op("source", &[], dims(0, 1), &[(&[], C)], &[], &[]);
        let y = g.op("source", &[], dims(0, 1), &[(&[], C)], &[], &[]);
        let configs: [(&[usize], usize); 2] = [(&[R, B, R, R], R), (&[R, R, R, B], R)];
        let operands = [x, x, y, y].map(|t| (t, dims(0, 1)));
        g.op("add", &operands, dims(0, 1), &configs, &[], &[]);
        (g.h.tensors[x].size, g.h.tensors[y].size) = (sizes[0], sizes[1]);
        g.build()
    };
    assert_eq!(plan("rule-based", &graph([1, 9])), [0, 0, 0]);
    assert_eq!(plan("rule-based", &graph([9, 1])), [0, 0, 1]);
}

#[test]
fn converting_between_layouts_of_the_same_bytes_moves_nothing() {
    let graph = |same_as| {
        let mut g = Graph::new();
        let x = g.op("source", &[], dims(0, 1), &[(&[], C)], &[], &[]);
        g.op(
            "read",
            &[(x, dims(0, 1))],
            dims(0, 1),
            &[(&[B], R), (&[R], R)],
            &[],
            &[],
        );
        g.h.tensors[x].layouts[C].same_as = same_as;
        plan("rule-based", &g.build())
    };
    assert_eq!(graph(None), [0, 0]);
    assert_eq!(graph(Some(R)), [0, 1]);
}

#[test]
fn open_components_are_searched_for_the_fewest_conversions() {
    // Two free sources and two additions that want opposite combinations of them, except in `c`.
    let mut g = Graph::new();
    let x = g.free();
    let y = g.free();
    let first: [(&[usize], usize); 3] = [(&[R, B], R), (&[B, R], R), (&[C, C], R)];
    let second: [(&[usize], usize); 3] = [(&[R, R], R), (&[B, B], R), (&[C, C], R)];
    let operands = [(x, dims(0, 1)), (y, dims(0, 1))];
    g.op("add", &operands, dims(0, 1), &first, &[], &[]);
    g.op("add", &operands, dims(0, 1), &second, &[], &[]);
    let problem = g.build();
    assert_eq!(plan("rule-based", &problem), [1, 1, 2, 2]);
    let s = solve("rule-based", &problem);
    assert_eq!(
        (s.counters["components"], s.counters["largest_component"]),
        (1, 4)
    );
    assert_eq!(s.best().unwrap().transposes, 0);
}

#[test]
fn what_the_search_leaves_equal_goes_with_the_logical_dimension() {
    // Far from the matmul, but of its logical dimensions: the source's row dimension is what the matmul singles out.
    let mut g = Graph::new();
    let x = g.free();
    let wall: [(&[usize], usize); 2] = [(&[R], B), (&[C], B)];
    let y = g.op("copy", &[(x, dims(0, 1))], dims(0, 1), &wall, &[], &[]);
    g.op("matmul", &[(y, dims(0, 1))], dims(0, 2), &[(&[C], R)], &[1], &[0]);
    assert_eq!(plan("rule-based", &g.build()), [1, 1, 0]);
}

/// A chain in which nothing is known: every operator converts between any two layouts for itself.
fn loose_chain(operators: usize) -> Problem {
    let mut g = Graph::new();
    let mut t = g.free();
    let loose: [(&[usize], usize); 6] = [(&[R], R), (&[C], C), (&[B], B), (&[R], C), (&[C], B), (&[B], R)];
    for _ in 0..operators {
        t = g.op("loose", &[(t, dims(0, 1))], dims(0, 1), &loose, &[], &[]);
    }
    g.build()
}

#[test]
fn components_that_are_too_large_are_cut() {
    let s = solve("rule-based", &loose_chain(40));
    assert_eq!(s.status, Status::Feasible);
    assert!(s.counters["cuts"] > 0);
    assert_eq!(s.best().unwrap().transposes, 0);
}

#[test]
fn a_large_graph_takes_near_linear_time() {
    let start = std::time::Instant::now();
    assert_eq!(solve("rule-based", &loose_chain(20_000)).status, Status::Feasible);
    let mut g = Graph::new();
    let mut t = g.input();
    for i in 0..20_000 {
        t = if i % 5 == 0 {
            g.contract(t, &[1, 2])
        } else {
            g.map("relu", t)
        };
    }
    let problem = g.build();
    for name in NAMES {
        assert_eq!(solve(name, &problem).status, Status::Feasible, "{name}");
    }
    let took = start.elapsed();
    println!("two graphs of 20,000 operators under all rules: {took:?}");
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

#[test]
fn constants_are_converted_for_nothing() {
    let mut g = Graph::new();
    let w = g.free();
    g.b.tensors[w].constant = true;
    g.b.tensors[w].transpose = vec![vec![Some(0); 3]; 3];
    let x = g.input();
    let operands = [(w, dims(0, 1)), (x, dims(0, 1))];
    // Moving the input would be the only conversion that counts.
    g.op(
        "add",
        &operands,
        dims(0, 1),
        &[(&[R, C], R), (&[B, R], R)],
        &[],
        &[],
    );
    g.op("read", &[(w, dims(0, 1))], dims(0, 1), &[(&[C], R)], &[], &[]);
    let s = solve("rule-based", &g.build());
    assert_eq!(s.best().unwrap().assignment[2].0, 1);
    assert_eq!(s.best().unwrap().transpose_cost, 0);
}

#[test]
fn projections_follow_their_operator() {
    let mut b = builder();
    b.tensor(TensorSpec {
        bundle: true,
        ..tensor("pair", &[&[0, X], &[X, 0]])
    });
    b.tensor(tensor("first", &[&[0, 8], &[8, 0]]));
    b.tensor(tensor("second", &[&[0, 8], &[8, 0]]));
    b.tensor(tensor("end", &[&[0]]));
    b.operator(operator("split", &[], 0, &[(&[], 0, 0), (&[], 1, 0)]));
    b.operator(operator("p0", &[0], 1, &[(&[0], 0, 0), (&[1], 1, 0)]));
    b.operator(operator("p1", &[0], 2, &[(&[0], 0, 0), (&[1], 1, 0)]));
    b.operator(operator("use", &[2, 1], 3, &[(&[0, 0], 0, 0), (&[1, 1], 0, 0)]));
    let mut hints = bare_hints(&b);
    hints.operators[3].preferred = vec![1];
    b.hints = Some(hints);
    let problem = b.build().unwrap();
    assert_eq!(plan("rule-based", &problem), [1, 1, 1, 1]);
    for name in NAMES {
        assert_eq!(solve(name, &problem).status, Status::Feasible, "{name}");
    }
}

#[test]
fn an_impossible_conversion_is_no_plan() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, X], &[X, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 0)]));
    b.operator(operator("use", &[0], 1, &[(&[0], 0, 0), (&[1], 0, 0)]));
    let mut hints = bare_hints(&b);
    hints.operators[1].preferred = vec![1];
    hints.tensors[0].rank = 1;
    let map = DimMap {
        inputs: vec![vec![Some(0)]],
        out: vec![],
    };
    hints.operators[1].dims = Some(map);
    hints.operators[1].along = vec![0];
    b.hints = Some(hints);
    let problem = b.build().unwrap();
    for name in NAMES {
        let s = solve(name, &problem);
        assert_eq!((s.status, s.ranked.len()), (Status::NoPlan, 0), "{name}");
    }
}

#[test]
fn smartmem_reads_along_the_reduction_dimension_and_spares_conversions_elsewhere() {
    let mut g = Graph::new();
    let x = g.input();
    let y = g.map("relu", x);
    // Contracts dimension 1: `c` is the one layout that does not single it out. Listed first, to be passed over.
    let all: [(&[usize], usize); 3] = [(&[C], R), (&[R], R), (&[R], C)];
    let z = g.op("matmul", &[(y, dims(0, 1))], dims(0, 2), &all, &[1], &[]);
    // Reduces dimension 0 of the product, so that it likes `c`: the product is written for its reader.
    let s: [(&[usize], usize); 2] = [(&[R], R), (&[C], R)];
    g.op("sum", &[(z, dims(0, 1))], dims(2, 1), &s, &[0], &[]);
    let problem = g.build();
    assert_eq!(plan("smartmem", &problem), [0, 0, 2, 1]);
    let s = solve("smartmem", &problem);
    assert_eq!(
        (s.counters["layout_dependent"], s.counters["layout_independent"]),
        (2, 2)
    );
    assert_eq!(s.best().unwrap().transposes, 0);
}

#[test]
fn neocpu_keeps_one_blocked_format_until_something_depends_on_the_default() {
    let mut g = Graph::new();
    let x = g.input();
    let y = g.contract(x, &[3]);
    let z = g.map("relu", y);
    let z = g.map("pool", z);
    let flat: [(&[usize], usize); 2] = [(&[R], R), (&[C], C)];
    let f = g.op("flatten", &[(z, dims(0, 1))], [None, None], &flat, &[], &[]);
    g.output(f);
    let problem = g.build();
    assert_eq!(plan("neocpu", &problem), [0, 3, 2, 2, 0, 0]);
    let s = solve("neocpu", &problem);
    assert_eq!(
        (
            s.counters["blocked_operators"],
            s.counters["layout_tolerant"],
            s.counters["layout_dependent"]
        ),
        (1, 3, 1)
    );
}

#[test]
fn neocpu_takes_the_block_that_most_convolutions_can_write() {
    let mut g = Graph::new();
    let x = g.input();
    // Prefers the plain result but can write blocks, as can the second; the third can not.
    let y = g.contract(x, &[0]);
    let y = g.contract(y, &[2]);
    g.op(
        "matmul",
        &[(y, dims(0, 1))],
        dims(0, 2),
        &[(&[R], R), (&[C], R)],
        &[1],
        &[1],
    );
    assert_eq!(plan("neocpu", &g.build()), [0, 2, 2, 1]);
}

/// Random hints of the right shape on any problem.
fn random_hints(problem: &Problem, seed: u64) -> Hints {
    let mut rng = SplitMix64::new(seed);
    let mut pick = move |n: u64| rng.below(n);
    let ranks: Vec<usize> = problem.tensors().map(|_| pick(3) as usize).collect();
    let mut hints = Hints::default();
    for (t, &rank) in problem.tensors().zip(&ranks) {
        let layouts = (0..t.layouts.len())
            .map(|l| LayoutHints {
                dim: (rank > 0).then(|| pick(rank as u64) as usize),
                form: ["", "block"][pick(2) as usize].into(),
                same_as: (l > 0 && pick(6) == 0).then(|| pick(l as u64) as usize),
            })
            .collect();
        hints.tensors.push(TensorHints {
            rank,
            size: pick(5),
            layouts,
        });
    }
    for op in problem.operators() {
        let shift = pick(2) as u32;
        let labels =
            |t: &relayout_layouts::TensorId| (0..ranks[t.index()] as u32).map(|d| Some(d + shift)).collect();
        let map = DimMap {
            inputs: op.inputs.iter().map(labels).collect(),
            out: labels(&op.output),
        };
        let along = map
            .inputs
            .iter()
            .flatten()
            .flatten()
            .take(pick(2) as usize)
            .copied()
            .collect();
        let wanted = pick(3) as usize;
        hints.operators.push(OperatorHints {
            kind: ["a", "b", "c"][pick(3) as usize].into(),
            dims: Some(map),
            along,
            preferred: (0..op.num_configs())
                .filter(|_| pick(3) == 0)
                .take(wanted)
                .collect(),
        });
    }
    for kind in ["a", "c"] {
        hints.rules.push(Rule {
            name: "r".into(),
            verdict: [Verdict::Prefer, Verdict::Avoid][pick(2) as usize],
            kinds: vec![kind.into()],
            when: vec![Condition {
                input: (pick(2) == 0).then_some(0),
                dim: Some(pick(3) as i64 - 1),
                along: (pick(2) == 0).then_some(true),
                form: None,
            }],
        });
    }
    hints
}

/// The problem as a builder, with its costs changed by `cost`.
fn rebuilt(problem: &Problem, hints: Hints, mut cost: impl FnMut(u64) -> u64) -> Problem {
    let mut b = ProblemBuilder::new("again", problem.unit());
    for t in problem.tensors() {
        let n = t.layouts.len();
        let entry = |(i, c): (usize, &Option<u64>)| {
            c.map(|c| {
                if t.constant || i % (n + 1) == 0 {
                    c
                } else {
                    cost(c)
                }
            })
        };
        let transpose: Vec<Option<u64>> = t.transpose.iter().enumerate().map(entry).collect();
        b.tensor(TensorSpec {
            name: t.name().to_owned(),
            layouts: t.layouts.to_vec(),
            transpose: transpose.chunks(n).map(<[_]>::to_vec).collect(),
            constant: t.constant,
            bundle: t.bundle,
            transpose_terms: Vec::new(),
        });
    }
    for o in problem.op_ids() {
        let op = problem.operator(o);
        b.operator(OperatorSpec {
            name: op.name().to_owned(),
            inputs: op.inputs.iter().map(|t| t.index()).collect(),
            output: op.output.index(),
            configs: op
                .configs()
                .map(|(_, k)| ConfigSpec {
                    inputs: k.inputs.iter().map(|l| l.index()).collect(),
                    output: k.output.index(),
                    cost: if problem.is_projection(o) { 0 } else { cost(k.cost) },
                    terms: None,
                })
                .collect(),
        });
    }
    b.hints = Some(hints);
    b.build().unwrap()
}

#[test]
fn answers_check_and_costs_are_never_read() {
    let mut plans = 0;
    for (seed, problem) in small_problems(300) {
        let hints = random_hints(&problem, seed);
        let original = rebuilt(&problem, hints.clone(), |c| c);
        let mut rng = SplitMix64::new(seed ^ 77);
        let other = rebuilt(&problem, hints, |_| rng.below(1000));
        for name in NAMES {
            let (s, again) = (solve(name, &original), solve(name, &other));
            assert_eq!(s.status, again.status, "{name}, seed {seed}");
            assert_eq!(s.counters, again.counters, "{name}, seed {seed}");
            match (s.status, s.best(), again.best()) {
                (Status::Feasible, Some(best), Some(again)) => {
                    assert_eq!(
                        best.assignment, again.assignment,
                        "{name}, seed {seed}: costs were read"
                    );
                    assert_eq!(check(&original, &best.assignment).unwrap().cost, best.cost);
                    assert!(best.cost >= s.lower_bound);
                    plans += 1;
                }
                (Status::NoPlan | Status::Infeasible, None, None) => {}
                other => panic!("{name}, seed {seed}: {other:?}"),
            }
        }
    }
    assert!(plans > 300, "only {plans} plans to look at");
}

#[test]
fn a_stopped_run_says_so_and_keeps_its_plan() {
    let mut g = Graph::new();
    let x = g.free();
    g.map("relu", x);
    let budget = Budget::default().with_time_limit(std::time::Duration::ZERO);
    let s = strategy_by_name("rule-based")
        .unwrap()
        .solve(&g.build(), &budget, &mut Trace::silent())
        .unwrap();
    assert_eq!((s.status, s.ranked.len()), (Status::Timeout, 1));
}

const HINTED: &str = r#"{"format":"layout-selection/1","name":"n","unit":"cycles","tensors":[
    {"name":"t","layouts":["p","q"],"transpose":[[0,9],[7,0]]},{"name":"u","layouts":["p"],"transpose":[[0]]}],
    "operators":[{"name":"x","inputs":[],"output":0,"configs":[{"in":[],"out":0,"cost":3},{"in":[],"out":1,"cost":3}]},
    {"name":"y","inputs":[0],"output":1,"configs":[{"in":[1],"out":0,"cost":3}]}],
    "hints":{"tensors":[{"rank":2,"size":8,"layouts":[{"dim":1},{"dim":0,"form":"block","same_as":0}]},{"rank":1,"layouts":[{}]}],
    "operators":[{"kind":"source"},{"kind":"sum","dims":{"in":[[3,5]],"out":[3]},"along":[5],"preferred":[0]}],
    "rules":[{"name":"unit stride","verdict":"prefer","kinds":["sum"],"when":[{"input":0,"along":true}]}]}}"#;

#[test]
fn hints_survive_writing_and_reading() {
    let problem = json::read(HINTED.as_bytes()).unwrap();
    let hints = problem.hints().unwrap();
    assert_eq!(hints.tensors[0].layouts[1].same_as, Some(0));
    assert_eq!((hints.tensors[0].size, hints.tensors[1].size), (8, 1));
    assert_eq!(hints.operators[1].label(Some(0), Some(1)), Some(5));
    let mut bytes = Vec::new();
    json::write(&problem, &mut bytes).unwrap();
    assert_eq!(json::read(&bytes).unwrap(), problem);
    for name in NAMES {
        assert_eq!(solve(name, &problem).status, Status::Feasible, "{name}");
    }
}

#[test]
fn the_hash_sees_hints_but_not_the_names_of_rules() {
    let hash = |from: &str, to: &str| {
        assert!(HINTED.contains(from));
        json::read(HINTED.replacen(from, to, 1).as_bytes())
            .unwrap()
            .hash()
    };
    let base = hash("sum", "sum");
    assert_eq!(base, hash("unit stride", "another name"));
    assert_ne!(base, hash("\"dim\":1", "\"dim\":0"));
    assert_ne!(base, hash("\"preferred\":[0]", "\"preferred\":[]"));
    assert_ne!(base, hash("prefer\"", "avoid\""));
    // That of an instance without hints is what it was before there were any: BLAKE3 of the bytes, written by other means.
    let bare = r#"{"format":"layout-selection/1","name":"n","unit":"cycles","tensors":[
        {"name":"t","layouts":["p","q"],"transpose":[[0,9],[null,0]]}],
        "operators":[{"name":"x","inputs":[],"output":0,"configs":[{"in":[],"out":0,"cost":3}]}]}"#;
    assert_eq!(
        json::read(bare.as_bytes()).unwrap().hash(),
        "44d2ca6c9674b2f633a880c11b12afe0"
    );
}

#[test]
fn malformed_hints_are_reported_with_their_path() {
    let cases = [
        (r#""rank":2,"#, "", "hints.tensors[0]: missing field `rank`"),
        (
            r#""dim":1"#,
            r#""dim":"w""#,
            "hints.tensors[0].layouts[0].dim: invalid type: string \"w\"",
        ),
        (
            r#""dim":1"#,
            r#""dim":2"#,
            "hints.tensors[0].layouts[0].dim: no dimension has index 2; the tensor has 2",
        ),
        (
            r#""same_as":0"#,
            r#""same_as":1"#,
            "hints.tensors[0].layouts[1].same_as: expected an earlier layout",
        ),
        (
            r#"{"dim":1},"#,
            "",
            "hints.tensors[0].layouts: found 1 entries, expected 2 (one per layout)",
        ),
        (
            r#",{"rank":1,"layouts":[{}]}"#,
            "",
            "hints.tensors: found 1 entries, expected 2 (one per tensor)",
        ),
        (
            r#"{"kind":"source"},"#,
            "",
            "hints.operators: found 1 entries, expected 2 (one per operator)",
        ),
        (
            r#"{"kind":"source"}"#,
            r#"{"kind":7}"#,
            "hints.operators[0].kind: invalid type: integer `7`",
        ),
        (
            r#""in":[[3,5]]"#,
            r#""in":[]"#,
            "hints.operators[1].dims.in: found 0 entries, expected 1 (one per input)",
        ),
        (
            r#"[[3,5]]"#,
            r#"[[3]]"#,
            "hints.operators[1].dims.in[0]: found 1 entries, expected 2 (one per dimension)",
        ),
        (
            r#"[[3,5]]"#,
            r#"[[5,5]]"#,
            "hints.operators[1].dims.in[0][1]: label 5 stands twice in one operand",
        ),
        (
            r#""out":[3]}"#,
            r#""out":[3,4]}"#,
            "hints.operators[1].dims.out: found 2 entries, expected 1 (one per dimension)",
        ),
        (
            r#""along":[5]"#,
            r#""along":[5,6]"#,
            "hints.operators[1].along[1]: no dimension of this operator has label 6",
        ),
        (
            r#""preferred":[0]"#,
            r#""preferred":[1]"#,
            "hints.operators[1].preferred[0]: no configuration has index 1; the operator has 1",
        ),
        (
            r#""preferred":[0]"#,
            r#""preferred":[0,0]"#,
            "hints.operators[1].preferred[1]: configuration 0 is already listed",
        ),
        (
            r#""verdict":"prefer""#,
            r#""verdict":"like""#,
            "hints.rules[0].verdict: unknown variant `like`, expected `prefer` or `avoid`",
        ),
        (
            r#""kinds":["sum"]"#,
            r#""kinds":[]"#,
            "hints.rules[0].kinds: a rule needs at least one kind",
        ),
        (
            r#"[{"input":0,"along":true}]"#,
            "[]",
            "hints.rules[0].when: a rule needs at least one condition",
        ),
        (
            r#","along":true}"#,
            "}",
            "hints.rules[0].when[0]: a condition needs at least one of",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(HINTED.contains(from), "{from}");
        let found = json::read(HINTED.replacen(from, to, 1).as_bytes())
            .unwrap_err()
            .to_string();
        assert!(found.starts_with(expected), "{from} → {to}: {found}");
    }
}

proptest! {
    #[test]
    fn damaged_hints_never_panic(at in 0usize..700, byte in 32u8..127) {
        let mut text = HINTED.as_bytes().to_vec();
        let start = HINTED.find("\"hints\"").unwrap();
        let at = start + at % (text.len() - start);
        text[at] = byte;
        if let Ok(problem) = json::read(&text) {
            for name in NAMES {
                solve(name, &problem);
            }
        }
    }
}
