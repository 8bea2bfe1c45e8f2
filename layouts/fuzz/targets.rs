//! What is fuzzed, one function per reader: whatever the bytes, an answer or an error, no panic and no hang; and what a reader accepts is
//! whole. Shared by the coverage-guided targets of this folder and the mutation test of the test command.

use relayout_layouts::external::{Format, read_answer};
use relayout_layouts::import::{UsageLimits, cfn::cfn, iopddl};
use relayout_layouts::{Budget, ConfigId, Problem, Trace, check, export, json, strategy_by_name};

/// What is done with an input.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("instance", instance),
    ("solution", solution),
    ("cfn", network),
    ("iopddl", contest),
    ("evaluation", evaluation),
    ("toulbar2", toulbar2),
];

/// The instance that solutions and answers are for.
const ANSWERED: &[u8] = include_bytes!("corpus/instance/answered.json");

fn answered() -> Problem {
    json::read(ANSWERED).expect("the corpus has this instance")
}

/// `layout-selection/1`, compressed or not.
pub fn instance(data: &[u8]) {
    let Ok(problem) = json::read(data) else { return };
    let mut text = Vec::new();
    json::write(&problem, &mut text).expect("writing to memory");
    let again = json::read(&text).expect("what we write, we read");
    assert_eq!(again.hash(), problem.hash());
    used(&problem);
}

/// The assignment of a solution file.
pub fn solution(data: &[u8]) {
    if let Ok(Some(assignment)) = json::read_assignment(data) {
        // Whether the checker takes it is its business.
        let _ = check(&answered(), &assignment);
    }
}

/// A cost function network.
pub fn network(data: &[u8]) {
    if let Ok(problem) = cfn(data) {
        used(&problem);
    }
}

/// The contest's instances.
pub fn contest(data: &[u8]) {
    let refused = iopddl(data, UsageLimits::Refuse).is_err();
    match iopddl(data, UsageLimits::Ignore) {
        Ok(problem) => used(&problem),
        Err(_) => assert!(
            refused,
            "a limit that is refused does less harm than one that is ignored"
        ),
    }
}

/// Output in the MaxSAT Evaluation's form.
pub fn evaluation(data: &[u8]) {
    answer(data, Format::Wcnf);
}

/// Output of toulbar2.
pub fn toulbar2(data: &[u8]) {
    answer(data, Format::Cfn);
}

fn answer(data: &[u8], format: Format) {
    let problem = answered();
    if let Ok(solutions) = read_answer(&problem, format, &String::from_utf8_lossy(data)) {
        for solution in &solutions.ranked {
            let checked = check(&problem, &solution.assignment).expect("the checker was asked before");
            assert_eq!(checked.cost, solution.cost);
            assert!(solutions.lower_bound <= solution.cost);
        }
    }
}

/// What everybody does with an instance.
fn used(problem: &Problem) {
    assert_eq!(problem.topological_order().len(), problem.operators().len());
    let _ = check(problem, &vec![ConfigId(0); problem.operators().len()]);
    for name in ["local", "greedy"] {
        let strategy = strategy_by_name(name).expect("a strategy");
        let answer = strategy.solve(problem, &Budget::default(), &mut Trace::silent());
        answer.expect("heuristics have no limits to run into");
    }
    let mut text = Vec::new();
    export::cfn(problem, &mut text).expect("writing to memory");
    // Not every instance maps back: an operator may have no configuration.
    if let Ok(back) = cfn(&text) {
        assert_eq!(back.operators().len(), problem.operators().len());
    }
    export::wcnf(problem, &mut std::io::sink()).expect("writing to nowhere");
}
