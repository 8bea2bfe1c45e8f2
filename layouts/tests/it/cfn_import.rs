//! Cost function networks that map back: the ones we export, simple variants, and what is said about all others.

use relayout_layouts::generate::{Random, random};
use relayout_layouts::import::cfn::{CfnError, cfn};
use relayout_layouts::import::{UsageLimits, read_file};
use relayout_layouts::{Budget, Problem, Trace, check, export, json, strategy_by_name};

use crate::support::{all_assignments, shared, small_problems};

fn exported(problem: &Problem) -> String {
    let mut bytes = Vec::new();
    export::cfn(problem, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn optimum(problem: &Problem) -> Option<u64> {
    let exact = strategy_by_name("exact").unwrap();
    let answer = exact
        .solve(problem, &Budget::default(), &mut Trace::silent())
        .unwrap();
    answer.best().map(|s| s.cost)
}

#[test]
fn what_is_exported_comes_back_with_the_same_cost_for_every_assignment() {
    for (seed, problem) in small_problems(200) {
        let text = exported(&problem);
        let back = cfn(text.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert_eq!(back.name(), problem.name());
        let sizes = |p: &Problem| -> Vec<usize> { p.operators().map(|o| o.num_configs()).collect() };
        assert_eq!(sizes(&back), sizes(&problem), "seed {seed}");
        for assignment in all_assignments(&problem).into_iter().take(100) {
            let cost = |p: &Problem| check(p, &assignment).ok().map(|c| c.cost);
            assert_eq!(cost(&back), cost(&problem), "seed {seed}, {assignment:?}\n{text}");
        }
        assert_eq!(optimum(&back), optimum(&problem), "seed {seed}");
        // Once more: nothing is left to lose.
        let again = cfn(exported(&back).as_bytes()).unwrap();
        assert_eq!(exported(&again), exported(&back), "seed {seed}");
    }
}

#[test]
fn larger_instances_keep_their_optimum() {
    for seed in 0..6 {
        let p = Random {
            operators: 60,
            odd: seed >= 3,
            seed,
            ..Random::default()
        };
        let problem = random(&p).unwrap();
        let back = cfn(exported(&problem).as_bytes()).unwrap();
        assert_eq!(optimum(&back), optimum(&problem), "seed {seed}");
    }
}

#[test]
fn shared_instances_keep_their_optimum() {
    let Some(folder) = shared("instances") else { return };
    for name in ["small-cnn", "resnet50", "bert-base", "odd-300-171", "oct-30-1"] {
        let problem = json::read_file(folder.join(format!("{name}.json.zst"))).unwrap();
        let back = cfn(exported(&problem).as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(optimum(&back), optimum(&problem), "{name}");
    }
}

/// A source of two layouts, a consumer that reads one of them.
const PLAIN: &str = r#"{
"problem":{"name":"two","mustbe":"<100"},
"variables":{"x0":2,"x1":2,"y0_0":2,"y0_1":2},
"functions":{
 "u0":{"scope":["x0"],"costs":[3,4]},
 "u1":{"scope":["x1"],"costs":[7,0]},
 "p0":{"scope":["x0","y0_0"],"costs":[0,0,0,9]},
 "p1":{"scope":["x0","y0_1"],"costs":[0,5,0,0]},
 "r0":{"scope":["x1","y0_0"],"costs":[100,0,0,0]},
 "r1":{"scope":["x1","y0_1"],"costs":[0,0,100,0]}}}"#;

#[test]
fn variants_are_the_same_instance() {
    let plain = cfn(PLAIN.as_bytes()).unwrap();
    assert_eq!(optimum(&plain), Some(4));
    let mut json = Vec::new();
    json::write(&plain, &mut json).unwrap();
    expect_test::expect![[r#"
        {"format":"layout-selection/1","name":"two","unit":"1","tensors":[{"name":"t0","layouts":["l0","l1"],"transpose":[[0,5],[9,0]]},{"name":"x1.out","layouts":["p0"],"transpose":[[0]]}],"operators":[{"name":"x0","inputs":[],"output":0,"configs":[{"in":[],"out":0,"cost":3},{"in":[],"out":1,"cost":4}]},{"name":"x1","inputs":[0],"output":1,"configs":[{"in":[0],"out":0,"cost":7},{"in":[1],"out":0,"cost":0}]}]}
    "#]]
    .assert_eq(&String::from_utf8(json).unwrap());
    let changes: [(&str, &str); 9] = [
        // Values with names, scopes by number, the other order of a scope.
        (r#""x0":2"#, r#""x0":["first","second"]"#),
        (r#"["x1"]"#, "[1]"),
        (
            r#"["x0","y0_0"],"costs":[0,0,0,9]"#,
            r#"["y0_0","x0"],"costs":[0,0,0,9]"#,
        ),
        // A default cost, with values by number.
        (r#""costs":[0,0,0,9]"#, r#""defaultcost":0,"costs":[1,1,9]"#),
        (r#""costs":[100,0,0,0]"#, r#""costs":[0,0,5000],"defaultcost":0"#),
        // Costs in several functions.
        (r#""u1":{"#, r#""more":{"scope":["x1"],"costs":[1,0]},"u1":{"#),
        // Functions that say nothing.
        (
            r#""u0":{"#,
            r#""c":{"scope":[],"costs":[0]},"h":{"scope":["y0_1"],"costs":[0,0]},"u0":{"#,
        ),
        (r#""u0":{"#, "\n\t \"u\\u00300\":{"),
        (r#""<100""#, r#""< 50""#),
    ];
    for (i, (from, to)) in changes.iter().enumerate() {
        assert!(PLAIN.contains(from), "{from}");
        let text = PLAIN.replacen(from, to, 1);
        let variant = cfn(text.as_bytes()).unwrap_or_else(|e| panic!("{to}: {e}"));
        if i == 5 {
            assert_eq!(
                variant
                    .operator(relayout_layouts::OpId(1))
                    .config(relayout_layouts::ConfigId(0))
                    .cost,
                8
            );
        } else {
            assert_eq!(variant.hash(), plain.hash(), "{to}");
        }
    }
    // Functions without names, in a list.
    let (head, functions) = PLAIN.split_once(r#""functions":{"#).unwrap();
    let mut list = format!(r#"{head}"functions":["#) + &functions[..functions.len() - 2] + "]}";
    for name in ["u0", "u1", "p0", "p1", "r0", "r1"] {
        list = list.replace(&format!("\"{name}\":{{"), "{");
    }
    assert_eq!(cfn(list.as_bytes()).unwrap().hash(), plain.hash());
}

#[test]
fn a_configuration_may_read_one_tensor_in_several_layouts() {
    let text = PLAIN.replacen(
        r#""r1":{"scope":["x1","y0_1"],"costs":[0,0,100,0]}"#,
        r#""r1":{"scope":["x1","y0_1"],"costs":[100,0,100,0]}"#,
        1,
    );
    let problem = cfn(text.as_bytes()).unwrap();
    let consumer = problem.operator(relayout_layouts::OpId(1));
    assert_eq!(consumer.inputs.len(), 2);
    let inputs: Vec<Vec<u32>> = consumer
        .configs()
        .map(|(_, c)| c.inputs.iter().map(|l| l.0).collect())
        .collect();
    assert_eq!(inputs, [vec![0, 1], vec![1, 1]]);
}

/// What stands at the place that an error names.
fn place<'t>(text: &'t str, error: &CfnError) -> &'t str {
    let line = text.lines().nth(error.line - 1).unwrap_or("");
    let column = line.char_indices().nth(error.column - 1);
    column.map_or("", |(at, _)| &line[at..])
}

#[test]
fn faults_have_their_line_and_column() {
    // What is replaced by what; what stands at the fault; what is said about it.
    let cases = [
        (
            r#""x0":2,"#,
            r#""x0":2;"#,
            ";\"x1",
            "found ';', expected a comma or the end of the object",
        ),
        (
            r#""x0":2,"#,
            "x0:2,",
            "x0:2",
            "found 'x', expected a key in quotes",
        ),
        (
            r#""x0":2,"#,
            r#""x0" 2,"#,
            "2,\"x1",
            "found '2', expected a colon",
        ),
        (
            "[3,4]",
            "[3 4]",
            "4]}",
            "found '4', expected a comma or the end of the list",
        ),
        ("[3,4]", "[3,]", "]}", "found ']', expected a value"),
        (
            "0]}}}",
            "0]}} x",
            "x",
            "found 'x', expected a comma or the end of the object",
        ),
        ("0]}}}", "0]}}}}", "}", "found '}', expected the end of the file"),
        (
            "0]}}}",
            "0]}}",
            "",
            "found the end of the file, expected a comma or the end of the object",
        ),
        ("\"two\"", "\"two", "mustbe", "found"),
        ("0]}}}", "0],\"", "\"", "the text that begins here does not end"),
        (
            "\"two\"",
            r#""\q""#,
            "\"\\q",
            "an escape in this text is not JSON's",
        ),
        (
            "[3,4]",
            "[[[[[[[[[[[[[[[[3]]]]]]]]]]]]]]]]",
            "[[[3]",
            "nested deeper than a network is",
        ),
        (
            r#""problem":{"name":"two","mustbe":"<100"},"#,
            "",
            "{",
            "missing key \"problem\"",
        ),
        (r#","mustbe":"<100""#, "", "{", "missing key \"mustbe\""),
        (
            "mustbe",
            "mustbee",
            "\"mustbee",
            "unknown key \"mustbee\"; did you mean \"mustbe\"?",
        ),
        (
            "\"<100\"",
            "\">100\"",
            "\">100",
            "\">100\" is no upper bound of a minimisation in whole numbers",
        ),
        (
            "\"<100\"",
            "\"<100.5\"",
            "\"<100.5",
            "\"<100.5\" is no upper bound",
        ),
        ("\"<100\"", "100", "100}", "expected text, found `100`"),
        (
            r#""costs":[3,4]"#,
            r#""costs":[3,4],"type":"salldiff""#,
            "\"type",
            "unknown key \"type\"",
        ),
        (
            r#""u1":"#,
            r#""u0":"#,
            "\"u0\":{\"scope\":[\"x1",
            "\"u0\" is given twice",
        ),
        (r#""x1":2"#, r#""x0":2"#, "\"x0\":2,\"y", "\"x0\" is given twice"),
        (
            r#""x0":2"#,
            r#""x0":["a","a"]"#,
            "\"a\"],\"x1",
            "\"a\" is given twice",
        ),
        (
            r#""x0":2"#,
            r#""x0":-2"#,
            "-2",
            "expected a number of values or a list of their names, found `-2`",
        ),
        (r#""x0":2"#, r#""x0":0"#, "\"x0\":0", "an operator needs a value"),
        (r#""x0":2"#, r#""z0":2"#, "\"z0", "a variable is named `x…`"),
        (
            r#""y0_0":2"#,
            r#""y0_00":2"#,
            "\"y0_00",
            "a variable is named `x…`",
        ),
        (
            r#""y0_0":2"#,
            r#""y0_0":3"#,
            "\"y0_0\":3",
            "\"y0_0\" says whether a layout is requested and must have two values, not 3",
        ),
        (r#"["x0"]"#, r#"["x7"]"#, "\"x7", "no variable is named \"x7\""),
        (r#"["x0"]"#, "[9]", "9]", "there is no variable 9; there are 4"),
        (
            r#"["x0"]"#,
            "[null]",
            "null",
            "expected the name or number of a variable, found `null`",
        ),
        ("[3,4]", "[3,4,5]", "[3,4,5]", "found 3 costs, expected 2"),
        (
            "[3,4]",
            "[3,-4]",
            "-4",
            "a cost is a whole number from 0 to 2^62, found `-4`",
        ),
        (
            "[3,4]",
            "[3,4.5]",
            "4.5",
            "a cost is a whole number from 0 to 2^62, found `4.5`",
        ),
        (
            "[3,4]",
            "[3,1e3]",
            "1e3",
            "a cost is a whole number from 0 to 2^62, found `1e3`",
        ),
        ("[3,4]", "\"u1\"", "\"u1\"}", "expected a list, found \"u1\""),
        (
            r#""costs":[3,4]"#,
            r#""costs":[3,4,5],"defaultcost":0"#,
            "[3,4,5]",
            "with a default cost, costs come as values and a cost: 3 numbers are no multiple of 2",
        ),
        (
            r#""costs":[3,4]"#,
            r#""costs":[2,4],"defaultcost":0"#,
            "2,4",
            "variable \"x0\" has no value `2`; it has 2",
        ),
        (
            "[3,4]",
            "[3,100]",
            "{\"scope\":[\"x0\"]",
            "value 1 is forbidden here",
        ),
        (
            r#"["x0","y0_0"]"#,
            r#"["x0","x1"]"#,
            "[\"x0\",\"x1",
            "a function of two `x` does not map back",
        ),
        (
            r#"["x0","y0_0"]"#,
            r#"["y0_1","y0_0"]"#,
            "[\"y0_1\",\"y0_0",
            "a function of two `y` does not map back",
        ),
        (
            r#"["x0","y0_0"]"#,
            r#"["x0","x0"]"#,
            "[\"x0\",\"x0",
            "a function of three or more variables, or of one twice, does not map back",
        ),
        (
            r#"["x0","y0_0"],"#,
            r#"["x0","x1","y0_0"],"#,
            "[\"x0\",\"x1\",",
            "a function of three or more",
        ),
        (
            r#""scope":["x0"],"costs":[3,4]"#,
            r#""scope":[],"costs":[3]"#,
            "{\"scope\":[]",
            "this function costs something that no configuration",
        ),
        (
            r#""scope":["x0"],"costs":[3,4]"#,
            r#""scope":["y0_0"],"costs":[3,4]"#,
            "{\"scope\":[\"y0_0",
            "this function costs something",
        ),
        (
            "[0,0,0,9]",
            "[0,0,1,9]",
            "{\"scope\":[\"x0\",\"y0_0",
            "\"x0\" and \"y0_0\": with the operator first",
        ),
        (
            "[100,0,0,0]",
            "[100,0,0,9]",
            "{\"scope\":[\"x1\",\"y0_0",
            "\"x1\" and \"y0_0\"",
        ),
        (
            "[100,0,0,0]",
            "[0,9,0,0]",
            "{\"scope\":[\"x1\",\"y0_1",
            "\"x1\" and \"y0_1\"",
        ),
        (
            r#""r1":{"scope":["x1","y0_1"],"costs":[0,0,100,0]}"#,
            r#""r1":{"scope":["x1"],"costs":[0,0]}"#,
            "{\"scope\":[\"x1\",\"y0_0",
            "value 1 of \"x1\" requests no layout of tensor 0",
        ),
        (
            r#""y0_1":2"#,
            r#""y0_1":2,"y1_0":2"#,
            "\"y1_0",
            "no operator pays for conversions of tensor 1",
        ),
        (
            r#""u0":{"#,
            "\"again\":{\"scope\":[\"x1\",\"y1_0\"],\"costs\":[0,1,0,1]},\n\"u0\":{",
            "\"y1_0",
            "no variable is named \"y1_0\"",
        ),
        (
            "\"<100\"",
            "\"<20\"",
            "\"<20",
            "assignments may cost up to 20 and would be cut off",
        ),
    ];
    let mut wrong = Vec::new();
    for (from, to, here, expected) in cases {
        assert!(PLAIN.contains(from), "{from}");
        let text = PLAIN.replacen(from, to, 1);
        let error = cfn(text.as_bytes()).unwrap_err();
        let place = place(&text, &error);
        if !error.fault.to_string().starts_with(expected) || !place.starts_with(here) {
            wrong.push(format!(
                "{to}: {error}, at {place:?}; expected {expected:?} at {here:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn faults_of_the_whole_network_are_at_a_variable() {
    let error = |variables: &str, functions: &str| {
        let text = format!(
            "{{\"problem\":{{\"mustbe\":\"<100\"}},\n\"variables\":{{{variables}}},\n\"functions\":{{{functions}}}}}"
        );
        cfn(text.as_bytes()).unwrap_err().to_string()
    };
    let charge = |x: &str, y: &str| format!(r#""p{x}{y}":{{"scope":["{x}","{y}"],"costs":[0,1]}}"#);
    let request = |x: &str, y: &str| format!(r#""r{x}{y}":{{"scope":["{x}","{y}"],"costs":[100,0]}}"#);
    assert_eq!(
        error(
            r#""x0":1,"x1":1,"y0_0":2"#,
            &[charge("x0", "y0_0"), charge("x1", "y0_0")].join(",")
        ),
        "line 2, column 28: both \"x0\" and \"x1\" pay for conversions of tensor 0"
    );
    assert_eq!(
        error(
            r#""x0":1,"y0_0":2,"y1_0":2"#,
            &[charge("x0", "y0_0"), charge("x0", "y1_0")].join(",")
        ),
        "line 2, column 14: \"x0\" pays for conversions of both tensors 0 and 1; an operator writes one"
    );
    let circle = [
        charge("x0", "y0_0"),
        request("x0", "y1_0"),
        charge("x1", "y1_0"),
        request("x1", "y0_0"),
    ];
    assert_eq!(
        error(r#""x0":1,"x1":1,"y0_0":2,"y1_0":2"#, &circle.join(",")),
        "line 2, column 14: \"x0\" depends on its own output"
    );
    assert_eq!(
        error(r#""x0":99999999999"#, ""),
        "line 2, column 14: the variables and default costs up to here stand for more numbers than can be held"
    );
    assert_eq!(
        error(
            r#""x0":4100000"#,
            r#""u":{"scope":["x0"],"defaultcost":1,"costs":[]}"#
        ),
        "line 3, column 58: the variables and default costs up to here stand for more numbers than can be held"
    );
    // Values that nothing tells apart are layouts of their own.
    assert_eq!(
        error(r#""x0":5000"#, ""),
        "line 2, column 14: the conversion matrices of tensors up to this would have more than 16777216 entries"
    );
    let latin = cfn(b"{\"problem\":\n {\"name\":\"\xe9\"}}")
        .unwrap_err()
        .to_string();
    assert_eq!(latin, "line 2, column 11: the file is not UTF-8");
}

#[test]
fn files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        read_file(path, UsageLimits::Refuse)
    };
    let problem = random(&Random {
        operators: 12,
        ..Random::default()
    })
    .unwrap();
    let mut text = Vec::new();
    json::write(&problem, &mut text).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    for (name, bytes) in [
        ("a.json", text.clone()),
        ("b", zstd(&text)),
        ("c.json.gz", gzip(&text)),
    ] {
        assert_eq!(read(name, &bytes).unwrap(), problem, "{name}");
    }
    let plain = cfn(PLAIN.as_bytes()).unwrap();
    let network = PLAIN.as_bytes();
    for (name, bytes) in [
        ("a.cfn", network.to_vec()),
        ("b.cfn.zst", zstd(network)),
        ("c.cfn.gz", gzip(network)),
    ] {
        assert_eq!(read(name, &bytes).unwrap(), plain, "{name}");
    }
    let contest = br#" { "problem":{"name":"c","nodes":{"costs":[[1,2]]},"edges":{"nodes":[],"costs":[]}}}"#;
    for (name, bytes) in [("d.json", contest.to_vec()), ("d.json.gz", gzip(contest))] {
        assert_eq!(optimum(&read(name, &bytes).unwrap()), Some(1), "{name}");
    }
    let error = |name, bytes: &[u8]| read(name, bytes).unwrap_err().to_string();
    assert_eq!(
        error("e.cfn", b"{"),
        "line 1, column 2: found the end of the file, expected a key in quotes"
    );
    assert!(error("e.json", b"{").starts_with("not JSON"));
    assert!(error("e.json", b"\x1f\x8bnothing").starts_with("cannot decompress"));
    let missing = read_file(folder.path().join("none.cfn"), UsageLimits::Refuse).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read"), "{missing}");
    let many = format!(
        r#"{{"problem":{{"nodes":{{"costs":[[{}1]]}},"edges":{{"nodes":[],"costs":[]}}}}}}"#,
        "1,".repeat(5000)
    );
    assert!(error("f.json", many.as_bytes()).starts_with("problem.nodes.costs[0]: 5001 strategies here"));
}
