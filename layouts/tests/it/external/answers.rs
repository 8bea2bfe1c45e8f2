//! What programs print when all is well.

use relayout_layouts::external::read_answer;
use relayout_layouts::{Status, TracePoint};

use super::*;

#[test]
fn a_proven_optimum_is_read_in_every_form() {
    for (problem, best) in solved_problems(30) {
        let model = model(&problem, &best.assignment);
        let (cost, list, bits) = (best.cost, literals(&model), bits(&model));
        // In the middle of a list a line may end.
        let middle = list
            .match_indices(' ')
            .nth(model.len() / 2)
            .map_or(list.len(), |(at, _)| at);
        let (head, tail) = list.split_at(middle);
        let values = values(&problem, &best.assignment);
        let named: Vec<String> = (0..values.len())
            .map(|v| match values.get(v) {
                Some(value) if v < problem.operators().len() => format!("x{v}={value}"),
                Some(value) => format!("y0_0=v{value}"),
                None => unreachable!(),
            })
            .collect();
        let prefixed: Vec<String> = values.iter().map(|v| format!("v{v}")).collect();
        let outputs = [
            (
                Format::Wcnf,
                format!("c hello\no {}\no {cost}\ns OPTIMUM FOUND\nv {list}\n", cost + 5),
            ),
            (Format::Wcnf, format!("s OPTIMUM FOUND\no {cost}\nv {list} 0\n")),
            (
                Format::Wcnf,
                format!("o {cost}\ns OPTIMUM FOUND\nv {head}\nv {tail} 0"),
            ),
            (Format::Wcnf, format!("o {cost}\ns OPTIMUM FOUND\nv {bits}\n")),
            (
                Format::Wcnf,
                format!("v\no {cost}\nv {bits}\r\ns  OPTIMUM FOUND \n"),
            ),
            // An incumbent's model is replaced by the next.
            (
                Format::Wcnf,
                format!("o {}\nv -1 0\no {cost}\nv {list} 0\ns OPTIMUM FOUND\n", cost + 1),
            ),
            (
                Format::Cfn,
                format!(
                    "Read 3 variables.\nInitial lower and upper bounds: [0, {0}] 9%\nNew solution: {cost} (0 backtracks, 1 nodes, depth 2)\n \
                     {1}\nOptimum: {cost} in 0 backtracks and 0.000 seconds.\nend.\n",
                    cost + 100,
                    joined(&values)
                ),
            ),
            (
                Format::Cfn,
                format!(
                    "New solution: {cost} (0)\n{}\nOptimality gap: [{cost}, {cost}] 0 %\nOptimum: {cost} in",
                    prefixed.join(" ")
                ),
            ),
            (
                Format::Cfn,
                format!(
                    "New solution: {cost} (0)\n {}\nOptimum: {cost} in",
                    named.join(" ")
                ),
            ),
        ];
        for (format, output) in outputs {
            let answer = read_answer(&problem, format, &output).unwrap_or_else(|e| panic!("{output}\n{e}"));
            assert_eq!(answer.status, Status::Optimal, "{output}");
            assert_eq!(answer.best(), Some(&best), "{output}");
            assert_eq!(answer.lower_bound, cost);
            assert!(answer.proof.contains("the program's word"), "{}", answer.proof);
        }
    }
}

#[test]
fn each_result_has_its_status() {
    let (problem, best) = solved_problems(5).last().unwrap();
    let sum = problem.sum_of_minimum_costs();
    let (cost, list) = (best.cost, literals(&model(&problem, &best.assignment)));
    let line = joined(&values(&problem, &best.assignment));
    let cases = [
        (
            Format::Wcnf,
            format!("o {cost}\ns SATISFIABLE\nv {list}\n"),
            Status::Feasible,
            true,
        ),
        (
            Format::Wcnf,
            format!("s SATISFIABLE\nv {list}\n"),
            Status::Feasible,
            true,
        ),
        (
            Format::Wcnf,
            format!("o {cost}\nv {list}\n"),
            Status::Feasible,
            true,
        ),
        (
            Format::Wcnf,
            format!("o {cost}\ns UNKNOWN\nv {list}\n"),
            Status::Timeout,
            true,
        ),
        (Format::Wcnf, "s UNKNOWN\n".into(), Status::Timeout, false),
        (
            Format::Wcnf,
            "s UNSATISFIABLE\n".into(),
            Status::Infeasible,
            false,
        ),
        (
            Format::Cfn,
            format!("New solution: {cost}\n{line}\n"),
            Status::Feasible,
            true,
        ),
        (
            Format::Cfn,
            format!("New solution: {cost}\n{line}\n\nTime limit expired... Aborting...\n"),
            Status::Timeout,
            true,
        ),
        (
            Format::Cfn,
            "No solution in 3 backtracks".into(),
            Status::Infeasible,
            false,
        ),
        (
            Format::Cfn,
            "No solution found by initial propagation!\n".into(),
            Status::Infeasible,
            false,
        ),
    ];
    for (format, output, status, found) in cases {
        let answer = read_answer(&problem, format, &output).unwrap_or_else(|e| panic!("{output}\n{e}"));
        assert_eq!(answer.status, status, "{output}");
        assert_eq!(answer.best(), found.then_some(&best), "{output}");
        assert_eq!(answer.lower_bound, sum, "{output}");
        assert_eq!(answer.proof.is_empty(), status != Status::Infeasible, "{output}");
    }
}

#[test]
fn bounds_and_incumbents_reach_the_trace_and_the_answer() {
    // An assignment that is not the cheapest, then the cheapest.
    let (problem, best, other) = solved_problems(40)
        .find_map(|(problem, best)| {
            let dearer = crate::support::all_assignments(&problem)
                .into_iter()
                .find_map(|a| Solution::new(&problem, a).ok().filter(|s| s.cost > best.cost))?;
            (best.cost > problem.sum_of_minimum_costs()).then_some((problem, best, dearer))
        })
        .unwrap();
    let (sum, top) = (problem.sum_of_minimum_costs(), other.cost + 50);
    let fake = Fake::printing(&format!(
        "Initial lower and upper bounds: [0, {top}] 10%\nNew solution: {} (1)\n {}\nOptimality gap: [{}, {}] 3 %\nNew solution: {} (2)\n {}\n",
        other.cost,
        joined(&values(&problem, &other.assignment)),
        best.cost,
        other.cost,
        best.cost,
        joined(&values(&problem, &best.assignment)),
    ));
    let mut points: Vec<TracePoint> = Vec::new();
    let answer = fake
        .strategy(Format::Cfn)
        .solve(&problem, &Budget::default(), &mut Trace::new(|p| points.push(p)))
        .unwrap();
    assert_eq!(answer.status, Status::Feasible);
    assert_eq!(answer.best(), Some(&best));
    assert_eq!(answer.lower_bound, best.cost, "the program's bound is taken");
    assert!(
        answer.peak_bytes > 100_000,
        "the memory of the process: {}",
        answer.peak_bytes
    );
    assert_eq!(
        (answer.counters["output_lines"], answer.counters["costs_said"]),
        (6, 2)
    );
    let pairs: Vec<_> = points.iter().map(|p| (p.incumbent, p.bound)).collect();
    assert_eq!(
        pairs,
        [
            (None, Some(sum)),
            (Some(other.cost), Some(sum)),
            (Some(other.cost), Some(best.cost)),
            (Some(best.cost), Some(best.cost)),
        ]
    );
}

#[test]
fn the_program_gets_the_instance_and_the_limits() {
    let (problem, best) = solved_problems(3).last().unwrap();
    let model = bits(&model(&problem, &best.assignment));
    let fake = Fake::new(
        "cp \"$1\" {folder}/copy; echo \"$@\" > {folder}/arguments; printf 's OPTIMUM FOUND\\n'; cat {folder}/out",
    );
    std::fs::write(fake.path("out"), format!("o {}\nv {model}\n", best.cost)).unwrap();
    let command = format!(
        "sh {} {{instance}} -t={{time_limit}} -m={{memory_limit}} -s={{seed}}",
        fake.path("solver").display()
    );
    let budget = Budget {
        seed: 42,
        ..Budget::default()
    }
    .with_time_limit(std::time::Duration::from_millis(29_500))
    .with_memory_limit(2 << 30);
    let strategy = External::new("mine", &command, Format::Wcnf).unwrap();
    assert_eq!(strategy.name(), "mine");
    let answer = strategy.solve(&problem, &budget, &mut Trace::silent()).unwrap();
    assert_eq!(answer.best(), Some(&best));
    let arguments = fake.wrote("arguments");
    let (instance, rest) = arguments.split_once(' ').unwrap();
    assert!(instance.ends_with("instance.wcnf"), "{instance}");
    assert!(!Path::new(instance).exists(), "the instance file is removed");
    // Less than half a second has gone by; the limit is rounded up.
    assert_eq!(rest, "-t=30 -m=2048 -s=42");
    let mut expected = Vec::new();
    relayout_layouts::export::wcnf(&problem, &mut expected).unwrap();
    assert_eq!(std::fs::read(fake.path("copy")).unwrap(), expected);
    let unlimited = message(strategy.solve(&problem, &Budget::default(), &mut Trace::silent()));
    assert!(unlimited.contains("there is no time limit"), "{unlimited}");
}

#[test]
fn an_operator_without_configurations_needs_no_program() {
    use crate::support::{builder, operator, tensor};
    let mut b = builder();
    b.tensor(tensor("a", &[&[0]]));
    b.operator(operator("x", &[], 0, &[]));
    let answer = Fake::new("exit 3")
        .solve(Format::Wcnf, &b.build().unwrap(), &Budget::default())
        .unwrap();
    assert_eq!(answer.status, Status::Infeasible);
}
