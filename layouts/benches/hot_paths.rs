//! The hot paths on generated instances, so that a change can be compared with what was there before it:
//! `cargo bench -p relayout-layouts`, or `cargo bench -p relayout-layouts -- exact` for some of them.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use relayout_layouts::decomposition::eliminate::{min_degree, min_fill};
use relayout_layouts::decomposition::treewidth;
use relayout_layouts::generate::{Blocks, Random, blocks, random};
use relayout_layouts::graph::Graph;
use relayout_layouts::import::cfn::cfn;
use relayout_layouts::{Budget, ConfigId, Problem, Solutions, Trace, check, export, json, strategy_by_name};

/// Random graphs are those of the shared suite's families.
fn dag(operators: usize, window: usize, layouts: (usize, usize)) -> Problem {
    let p = Random {
        operators,
        window,
        layouts,
        seed: 1,
        ..Random::default()
    };
    random(&p).expect("parameters are in range")
}

/// A model of repeated layers.
fn model(layers: usize) -> Problem {
    let p = Blocks {
        layers,
        ..Blocks::default()
    };
    blocks(&p).expect("parameters are in range")
}

fn solve(problem: &Problem, strategy: &str, k: usize) -> Solutions {
    let strategy = strategy_by_name(strategy).expect("a strategy");
    let budget = Budget {
        k,
        ..Budget::default()
    };
    let answer = strategy.solve(problem, &budget, &mut Trace::silent());
    answer.expect("an answer")
}

fn exact(c: &mut Criterion) {
    let mut group = c.benchmark_group("exact");
    for (name, problem) in [
        ("random-300-w4-l3", dag(300, 4, (2, 3))),
        ("random-1000-w3-l3", dag(1000, 3, (2, 3))),
        ("random-3000-w3-l2", dag(3000, 3, (2, 2))),
        ("model-100x20", model(100)),
    ] {
        group.bench_function(name, |b| b.iter(|| solve(black_box(&problem), "exact", 1)));
    }
    let small = dag(100, 3, (2, 3));
    group.bench_function("8-best-of-random-100-w3-l3", |b| {
        b.iter(|| solve(black_box(&small), "exact", 8));
    });
    group.finish();
}

fn maxsat(c: &mut Criterion) {
    let mut group = c.benchmark_group("maxsat");
    group.sample_size(20);
    let problem = dag(30, 3, (2, 3));
    group.bench_function("random-30-w3-l3", |b| {
        b.iter(|| solve(black_box(&problem), "maxsat", 1))
    });
    group.finish();
}

fn heuristics(c: &mut Criterion) {
    let problem = model(250);
    let mut group = c.benchmark_group("heuristics");
    group.throughput(Throughput::Elements(problem.operators().len() as u64));
    for name in ["local", "greedy"] {
        group.bench_function(name, |b| b.iter(|| solve(black_box(&problem), name, 1)));
    }
    group.finish();
}

fn widths(c: &mut Criterion) {
    let mut group = c.benchmark_group("width");
    let large = Graph::of(&model(250));
    group.bench_function("min-fill-of-model-250x20", |b| {
        b.iter(|| min_fill(black_box(&large)))
    });
    group.bench_function("min-degree-of-model-250x20", |b| {
        b.iter(|| min_degree(black_box(&large)))
    });
    let small = Graph::of(&dag(300, 4, (2, 3)));
    group.bench_function("treewidth-of-random-300-w4", |b| {
        b.iter(|| treewidth(black_box(&small), &Budget::default()));
    });
    group.finish();
}

fn files(c: &mut Criterion) {
    let problem = model(250);
    let mut text = Vec::new();
    json::write(&problem, &mut text).expect("writing to memory");
    let mut network = Vec::new();
    export::cfn(&problem, &mut network).expect("writing to memory");
    let compressed = zstd::encode_all(&text[..], 9).expect("compressing in memory");
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("json", |b| {
        b.iter(|| json::read(black_box(&text)).expect("valid"))
    });
    group.bench_function("json.zst", |b| {
        b.iter(|| json::read(black_box(&compressed)).expect("valid"));
    });
    group.throughput(Throughput::Bytes(network.len() as u64));
    group.bench_function("cfn", |b| b.iter(|| cfn(black_box(&network)).expect("valid")));
    group.finish();
    let mut group = c.benchmark_group("write");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("json", |b| {
        b.iter_batched_ref(
            || Vec::with_capacity(text.len()),
            |out| json::write(&problem, out).expect("writing to memory"),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn checking(c: &mut Criterion) {
    let problem = model(250);
    let assignment = solve(&problem, "greedy", 1).ranked.remove(0).assignment;
    let mut group = c.benchmark_group("check");
    group.throughput(Throughput::Elements(problem.operators().len() as u64));
    group.bench_function("model-250x20", |b| {
        b.iter(|| check(black_box(&problem), black_box(&assignment) as &[ConfigId]).expect("valid"));
    });
    group.bench_function("hash-of-model-250x20", |b| b.iter(|| black_box(&problem).hash()));
    group.finish();
}

criterion_group!(hot_paths, exact, maxsat, heuristics, widths, files, checking);
criterion_main!(hot_paths);
