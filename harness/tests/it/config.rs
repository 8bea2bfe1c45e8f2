//! Configurations: what is wrong is said at once and in place; what means the same is the same.

use expect_test::expect;
use proptest::prelude::*;
use relayout::config::{Config, ConfigError, Known};
use relayout::plan::Plan;
use std::collections::BTreeMap;

fn known() -> Known {
    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect();
    Known {
        models: names(&["small-cnn", "bert", "llama", "example-reduce"]),
        targets: names(&["cpu"]),
        strategies: names(&["local", "greedy", "maxsat", "exact"]),
        solvers: BTreeMap::from([("maxsat".to_owned(), names(&["rustsat", "cadical"]))]),
    }
}

fn read_with(text: &str, arguments: &[&str]) -> Result<Config, ConfigError> {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    Config::read("e.yaml", text, &arguments, &known())
}

fn read(text: &str) -> Config {
    read_with(text, &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn message(text: &str, arguments: &[&str]) -> String {
    read_with(text, arguments)
        .expect_err("a wrong configuration")
        .to_string()
}

const GOOD: &str = "\
name: good
seed: 3
models:
  - bert layers=2
  - { model: llama, batch: [1, 4], dims: { s: [16, 32], n: 1 } }
targets: [cpu]
cost_models: [analytic, profiled]
strategies: [local, { strategy: maxsat, solver: rustsat, label: sat }]
solver_based: sat
budget: { time: 90s, memory: 2GiB }
measure: { samples: 5, threads: [1, 2] }
tolerance: 1e-3
";

#[test]
fn all_faults_are_shown_at_once_in_the_order_of_the_file() {
    let wrong = "\
name: bad
modles: 3
models:
  - smal-cnn
  - model: bert layers=2
    batsh: 2
    dims: { s: 0, n: [] }
targets: [cpuu]
cost_models: [analitic]
strategies:
  - locl
  - { strategy: maxsat, solver: ruststa }
  - exact
  - { strategy: greedy, label: exact }
solver_based: exat
budget: { time: 10 parsecs, memory: 3 pounds }
measure: { samples: none, threads: [] }
limits: [1, 2]
tolerance: -1
";
    expect![[r#"
        e.yaml:2:1: unknown key `modles`
         2 | modles: 3
           | ^
           help: did you mean `models`?

        e.yaml:4:5: unknown model `smal-cnn`
         4 |   - smal-cnn
           |     ^
           help: did you mean `small-cnn`?

        e.yaml:6:5: unknown key `batsh`
         6 |     batsh: 2
           |     ^
           help: did you mean `batch`?

        e.yaml:7:16: dimension is 0; it must be between 1 and 1073741824
         7 |     dims: { s: 0, n: [] }
           |                ^

        e.yaml:7:22: `n` is empty
         7 |     dims: { s: 0, n: [] }
           |                      ^

        e.yaml:8:11: unknown target `cpuu`
         8 | targets: [cpuu]
           |           ^
           help: did you mean `cpu`?

        e.yaml:9:15: unknown cost model `analitic`
         9 | cost_models: [analitic]
           |               ^
           help: did you mean `analytic`?

        e.yaml:11:5: unknown strategy `locl`
         11 |   - locl
            |     ^
           help: did you mean `local`?

        e.yaml:12:33: unknown solver `ruststa`
         12 |   - { strategy: maxsat, solver: ruststa }
            |                                 ^
           help: did you mean `rustsat`?

        e.yaml:14:5: two strategies have the label `exact`
         14 |   - { strategy: greedy, label: exact }
            |     ^
           help: give one of them another `label`

        e.yaml:15:15: unknown strategy label `exat`
         15 | solver_based: exat
            |               ^
           help: did you mean `exact`?

        e.yaml:16:37: memory: `3 pounds` is not a size
         16 | budget: { time: 10 parsecs, memory: 3 pounds }
            |                                     ^
           help: write a number with `KiB`, `MiB` or `GiB`, such as `2GiB`

        e.yaml:17:21: expected samples (an integer), found text
         17 | measure: { samples: none, threads: [] }
            |                     ^

        e.yaml:17:36: `threads` is empty
         17 | measure: { samples: none, threads: [] }
            |                                    ^

        e.yaml:18:9: expected limits (a mapping), found a list
         18 | limits: [1, 2]
            |         ^

        e.yaml:19:12: tolerance is -1; it must be a finite number, at least 0
         19 | tolerance: -1
            |            ^

        argument `seed`: not an override
           help: an override is `key=value`, `section.key=value` or `~key`

        argument `budget.time=never`: time: `never` is not a duration
           help: write a number with `ms`, `s`, `min` or `h`, such as `90s`, at most a year

        argument `mesure.samples=3`: unknown key `mesure`
           help: did you mean `measure`?
        19 errors in e.yaml"#]]
    .assert_eq(&message(
        wrong,
        &["budget.time=never", "mesure.samples=3", "seed"],
    ));
}

#[test]
fn faults_of_arguments_name_the_argument() {
    for (argument, expected) in [
        ("name.first=3", "goes through text, which has no keys"),
        ("models.0=bert", "goes through a list, which has no keys"),
        ("seed=many", "expected seed (an integer), found text"),
        ("seed=-1", "it must be between 0 and"),
        ("seed=[1", "the value is not valid YAML"),
        ("budget=3", "expected a budget (a mapping), found an integer"),
        ("budget.tine=3s", "did you mean `time`?"),
        ("measure.samples=0", "it must be between 1 and"),
        ("strategies=[]", "`strategies` is empty"),
        ("strategies=", "`strategies` is empty"),
        ("=3", "unknown key ``"),
        ("~tolerence", "there is no `tolerence` to remove"),
        ("~models", "missing key `models`"),
        ("models", "an override is `key=value`"),
        ("budget.time=9223372036854775807", "is not a duration"),
        ("tolerance=.nan", "non-finite"),
    ] {
        let text = message(GOOD, &[argument]);
        assert!(
            text.contains(expected),
            "{argument}: {expected:?} is not in\n{text}"
        );
        if argument != "~models" {
            assert!(text.contains(&format!("argument `{argument}`: ")), "{text}");
        }
    }
}

#[test]
fn arguments_replace_add_and_remove() {
    let config = read_with(
        GOOD,
        &[
            "seed=7",
            "measure.samples=9",
            "limits.run=2min",
            "models=[small-cnn]",
            "~budget.memory",
            "~solver_based",
        ],
    )
    .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (config.seed, config.measure.samples, config.limits.run),
        (7, 9, 120.0)
    );
    assert_eq!(
        config.measure.threads,
        [1, 2],
        "what is beside an overridden key stays"
    );
    assert_eq!(config.models.len(), 1);
    assert_eq!(config.budget.time, 90.0);
    assert_ne!(config.budget.memory, 2 << 30);
    assert_eq!(config.solver_based, None);
    let written = GOOD.replace("seed: 3", "seed: 7");
    assert_eq!(
        read(&written).hash(),
        read_with(GOOD, &["seed=7"]).expect("good").hash()
    );
}

#[test]
fn keys_given_twice_and_texts_that_are_no_mapping_are_refused() {
    let twice = GOOD.replace("seed: 3", "seed: 3\nseed: 4");
    assert!(message(&twice, &[]).contains("seed"), "{}", message(&twice, &[]));
    let nested = GOOD.replace("time: 90s", "time: 90s, time: 80s");
    assert!(
        message(&nested, &[]).contains("time"),
        "{}",
        message(&nested, &[])
    );
    for (text, expected) in [
        ("a: [1, 2", "not valid YAML"),
        ("a: b: c", "e.yaml:1:"),
        ("", "a configuration (a mapping), found nothing"),
        ("3", "a configuration (a mapping), found an integer"),
        ("- a", "a configuration (a mapping), found a list"),
        ("{}", "missing key `models`"),
        ("{}", "missing key `strategies`"),
        ("models: []\nstrategies: [local]", "e.yaml:1:9: `models` is empty"),
        (
            "models: [bert]\nstrategies: []",
            "e.yaml:2:13: `strategies` is empty",
        ),
        (
            "models: [{model: bert, batch: []}]\nstrategies: [local]",
            "`batch` is empty",
        ),
        (
            "models: [{model: bert, dims: {s: []}}]\nstrategies: [local]",
            "`s` is empty",
        ),
        ("models: [{batch: 2}]\nstrategies: [local]", "missing key `model`"),
        (
            "models: [bert]\nstrategies: [local, local]",
            "two strategies have the label `local`",
        ),
        (
            "models: [bert]\nstrategies: [local]\nmeasure: {threads: 0}",
            "threads is 0",
        ),
    ] {
        let found = message(text, &[]);
        assert!(
            found.contains(expected),
            "{text:?}: {expected:?} is not in\n{found}"
        );
    }
}

fn ids(config: &Config) -> Vec<String> {
    ids_of(config, &|_| None)
}

fn ids_of(config: &Config, content: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let family = |_: &str| Some("test".to_owned());
    Plan::new(config, &family, content)
        .cells
        .into_iter()
        .map(|c| c.id)
        .collect()
}

#[test]
fn another_content_behind_the_same_name_is_another_cell() {
    let config = read(GOOD);
    let before = ids_of(&config, &|_| Some("before".to_owned()));
    let target = config.targets[0].as_str();
    let model = config.models[0].model.as_str();
    for changed in [target.to_owned(), model.to_owned()] {
        let after = ids_of(&config, &|name: &str| {
            Some(if name == changed { "after" } else { "before" }.to_owned())
        });
        assert_eq!(before.len(), after.len());
        assert_ne!(before[0], after[0], "{changed}");
    }
}

#[test]
fn order_of_keys_white_space_and_comments_change_neither_hash_nor_cells() {
    let plain = read(GOOD);
    let other = "\
# The same, written by someone else.
tolerance:   0.001
measure:
    threads: [ 1, 2 ]
    samples: 5
budget: {memory: 2048MiB, time: 1.5min}
solver_based: 'sat'
strategies:
- local
- label: sat
  solver: rustsat
  strategy: maxsat
cost_models: [\"analytic\", profiled]
models: [bert   layers=2, {dims: {n: [1], s: [16, 32]}, batch: [1, 4], model: llama}]
seed: 3
name: good
";
    let other = read(other);
    assert_eq!(plain, other);
    assert_eq!(plain.hash(), other.hash());
    assert_eq!(ids(&plain), ids(&other));
    // bert: 1 shape; llama: 2 batches × 2 lengths; × 2 cost models × 2 thread counts × 2 strategies.
    assert_eq!(ids(&plain).len(), 5 * 8);
    let distinct: std::collections::BTreeSet<String> = ids(&plain).into_iter().collect();
    assert_eq!(distinct.len(), 5 * 8);
}

#[test]
fn what_decides_results_changes_the_cells_and_what_only_adds_cells_keeps_the_others() {
    let plain = read(GOOD);
    for change in [
        "seed=4",
        "tolerance=1e-2",
        "budget.time=91s",
        "budget.memory=3GiB",
        "measure.samples=6",
        "domain=full",
        "measure.rounds=2",
    ] {
        let changed = read_with(GOOD, &[change]).unwrap_or_else(|e| panic!("{e}"));
        assert_ne!(plain.hash(), changed.hash(), "{change}");
        let kept = ids(&plain).iter().filter(|id| ids(&changed).contains(id)).count();
        assert_eq!(kept, 0, "{change} decides results");
    }
    for addition in [
        "strategies=[local, {strategy: maxsat, solver: rustsat, label: sat}, exact]",
        "measure.threads=[1, 2, 4]",
    ] {
        let changed = read_with(GOOD, &[addition]).unwrap_or_else(|e| panic!("{e}"));
        assert_ne!(plain.hash(), changed.hash(), "{addition}");
        assert!(
            ids(&plain).iter().all(|id| ids(&changed).contains(id)),
            "{addition} only adds cells"
        );
        assert!(ids(&changed).len() > ids(&plain).len());
    }
    let renamed = read_with(GOOD, &["name=other", "limits.run=1h"]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        ids(&plain),
        ids(&renamed),
        "neither the name nor a wall-clock limit decides a result"
    );
}

#[test]
fn a_resolved_configuration_survives_the_way_to_a_worker() {
    let plain = read(GOOD);
    let text = serde_json::to_string(&plain).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Config>(&text).expect("a configuration"),
        plain
    );
}

#[test]
fn deep_nesting_and_aliases_end_in_an_answer() {
    for text in [
        format!("a: {}", "[".repeat(100_000)),
        format!("a: {}{}", "[".repeat(50_000), "]".repeat(50_000)),
        format!("{}1", "- ".repeat(20_000)),
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nmodels: *c\nstrategies: *c".to_owned(),
    ] {
        assert!(read_with(&text, &[]).is_err());
    }
}

/// Pieces that matter to the reader, for texts that get beyond the YAML parser.
const PIECES: [&str; 30] = [
    "models",
    "strategies",
    "measure",
    "budget",
    "dims",
    "batch",
    "threads",
    ": ",
    ":\n  ",
    "\n",
    "\n- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "0",
    "-1",
    "1e999",
    "99999999999999999999",
    ".inf",
    "null",
    "~",
    "local",
    "bert",
    "'",
    "\"",
    "&a ",
    "*a",
    "é\u{0}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", argument in "\\PC{0,30}") {
        if let Err(e) = read_with(&text, &[&argument]) {
            prop_assert!(!e.faults.is_empty() && !e.to_string().is_empty());
        }
    }

    #[test]
    fn no_heap_of_pieces_panics(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        if let Err(e) = read_with(&pieces.concat(), &[]) {
            prop_assert!(!e.faults.is_empty() && !e.to_string().is_empty());
        }
    }

    #[test]
    fn no_damage_to_a_good_text_panics_and_every_refusal_says_why(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..8usize, prop::sample::select(&PIECES[..])), 1..6),
    ) {
        let mut text: Vec<char> = GOOD.chars().collect();
        for (index, cut, piece) in damage {
            let at = index.index(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, piece.chars());
        }
        let text: String = text.into_iter().collect();
        match read_with(&text, &[]) {
            Ok(config) => prop_assert!(!ids(&config).is_empty()),
            Err(e) => prop_assert!(!e.faults.is_empty() && e.to_string().contains("e.yaml")),
        }
    }
}

/// A configuration whose second strategy is this.
fn with_strategy(entry: &str) -> String {
    format!("models: [bert]\nstrategies:\n  - local\n  - {entry}\n")
}

#[test]
fn an_outside_solver_is_a_strategy() {
    let entry = "{ external: toulbar2, command: 'toulbar2 {instance} -s -timer={time_limit}', format: cfn }";
    let config = read(&format!("{}solver_based: toulbar2\n", with_strategy(entry)));
    let strategy = &config.strategies[1];
    assert_eq!(
        (strategy.label.as_str(), strategy.strategy.as_str()),
        ("toulbar2", "external")
    );
    let program = strategy.external.as_ref().expect("a program");
    assert_eq!(program.command, "toulbar2 {instance} -s -timer={time_limit}");
    assert_eq!(program.format.name(), "cfn");
    let text = serde_json::to_string(&config).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Config>(&text).expect("a configuration"),
        config
    );
    // What is run decides the result; strategies without a program are as they were.
    let before = ids(&config);
    for (from, to) in [
        ("-s ", "-s -B=1 "),
        ("format: cfn", "format: wcnf"),
        ("external: toulbar2", "external: other"),
    ] {
        let changed = read(&with_strategy(&entry.replace(from, to)));
        let after = ids(&changed);
        assert_eq!(before[0], after[0], "{to}");
        assert_ne!(before[1], after[1], "{to}");
    }
    assert!(
        !serde_json::to_string(&read(GOOD))
            .expect("JSON")
            .contains("external")
    );
}

#[test]
fn faults_of_outside_solvers_are_in_place() {
    let wrong = "\
models: [bert]
strategies:
  - external
  - { strategy: external }
  - { external: a, format: cfn }
  - { external: b, command: 'solver', format: cnf }
  - { external: c, command: 'solver {instanse}', format: wcnf, solver: z3 }
  - { external: local, command: 's {instance}', format: wcnf }
  - local
";
    expect![[r#"
        e.yaml:3:5: `external` needs a command and a format
         3 |   - external
           |     ^
           help: write `{ external: LABEL, command: "… {instance} …", format: wcnf or cfn }`

        e.yaml:4:17: `external` needs a command and a format
         4 |   - { strategy: external }
           |                 ^
           help: write `{ external: LABEL, command: "… {instance} …", format: wcnf or cfn }`

        e.yaml:5:5: missing key `command`
         5 |   - { external: a, format: cfn }
           |     ^

        e.yaml:6:29: the command of an external solver: the command does not say where {instance} goes
         6 |   - { external: b, command: 'solver', format: cnf }
           |                             ^
           help: placeholders are `{instance}` (path of the instance file), `{time_limit}` (seconds that are left, a whole number, rounded up), `{memory_limit}` (the memory limit in MiB, rounded down), `{seed}` (the budget's seed), `{threads}` (how many threads may be used)

        e.yaml:6:47: unknown format `cnf`
         6 |   - { external: b, command: 'solver', format: cnf }
           |                                               ^
           help: did you mean `cfn`?

        e.yaml:7:29: the command of an external solver: column 8: no placeholder is named {instanse}; did you mean {instance}? (Two braces stand for one.)
         7 |   - { external: c, command: 'solver {instanse}', format: wcnf, solver: z3 }
           |                             ^
           help: placeholders are `{instance}` (path of the instance file), `{time_limit}` (seconds that are left, a whole number, rounded up), `{memory_limit}` (the memory limit in MiB, rounded down), `{seed}` (the budget's seed), `{threads}` (how many threads may be used)

        e.yaml:7:64: unknown key `solver`
         7 |   - { external: c, command: 'solver {instanse}', format: wcnf, solver: z3 }
           |                                                                ^
           help: one of `external`, `command`, `format`

        e.yaml:9:5: two strategies have the label `local`
         9 |   - local
           |     ^
           help: give one of them another `label`
        8 errors in e.yaml"#]]
    .assert_eq(&message(wrong, &[]));
}

#[test]
fn a_name_is_a_folder_in_results_and_nowhere_else() {
    for name in ["../up", "a/b", ".hidden", "' padded'", "''", "\"a\\nb\""] {
        let text = format!("name: {name}\nmodels: small-cnn\n");
        assert!(message(&text, &[]).contains("is no name for a run"), "{name}");
    }
    for name in ["quick", "v1.2 + fast_math-off", "größer"] {
        let text = format!("name: {name}\nmodels: small-cnn\nstrategies: local\n");
        assert_eq!(read(&text).name, name);
    }
}
