//! Figures: the same bytes from the same records, few models and many, failures without numbers.

use crate::support::{cell, failed, optimal, study};
use relayout::analysis::{Settings, facets, group};
use relayout::plots::{Chart, figures, plot};
use relayout::record::{CellRecord, CellStatus};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn the_same_records_in_any_order_give_the_same_bytes() {
    let records = study(6);
    let mut reversed = records.clone();
    reversed.reverse();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let done = plot(&records, &Settings::default(), first.path()).unwrap();
    plot(&reversed, &Settings::default(), second.path()).unwrap();
    assert!(done.skipped.is_empty(), "{:?}", done.skipped);
    let (first, second) = (files(first.path()), files(second.path()));
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    for figure in [
        "fig5-relative-performance",
        "fig6a-treewidth",
        "fig6b-solver-runtime",
        "fig7a-optimality-gap",
    ] {
        for extension in ["svg", "png", "csv"] {
            assert!(
                names.contains(&format!("{figure}.{extension}").as_str()),
                "{names:?}"
            );
        }
    }
    assert!(
        names.contains(&"README.md") && names.contains(&"latency.csv") && names.contains(&"measures.json")
    );
    assert_eq!(done.files.len(), names.len());
    for (name, bytes) in &first {
        assert!(second[name] == *bytes, "{name} differs");
    }
}

#[test]
fn png_files_are_pngs_and_svg_files_have_their_true_size() {
    let folder = tempfile::tempdir().unwrap();
    plot(&study(3), &Settings::default(), folder.path()).unwrap();
    for (name, bytes) in files(folder.path()) {
        if name.ends_with(".png") {
            assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "{name}");
        }
        if name.ends_with(".svg") {
            let text = String::from_utf8(bytes).unwrap();
            assert!(
                text.starts_with("<svg width=\"3.36in\""),
                "{name}: {}",
                &text[..60]
            );
            assert!(text.trim_end().ends_with("</svg>"), "{name}");
        }
    }
}

#[test]
fn figures_without_data_are_skipped_with_a_reason() {
    let records = vec![
        failed("a", "local", CellStatus::Crashed { signal: 11 }),
        failed("a", "maxsat", CellStatus::SolverTimeout),
    ];
    let folder = tempfile::tempdir().unwrap();
    let done = plot(&records, &Settings::default(), folder.path()).unwrap();
    assert_eq!(done.skipped.len(), 5);
    assert!(done.skipped.iter().all(|skip| !skip.reason.is_empty()));
    let readme = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(
        readme.contains("Not drawn: no model has a measured latency"),
        "{readme}"
    );
    assert!(readme.contains("*crashed*"), "{readme}");
    assert!(
        !files(folder.path())
            .keys()
            .any(|name| name.ends_with(".svg") || name.ends_with(".png"))
    );

    let empty = tempfile::tempdir().unwrap();
    plot(&[], &Settings::default(), empty.path()).unwrap();
    assert!(
        fs::read_to_string(empty.path().join("README.md"))
            .unwrap()
            .contains("no comparable cells")
    );
}

#[test]
fn a_failed_cell_shortens_its_curve_and_adds_no_number() {
    let mut records = study(4);
    for record in &mut records {
        if record.key.model == "model-01" && record.key.strategy == "greedy" {
            *record = CellRecord {
                ..failed("model-01", "greedy", CellStatus::Crashed { signal: 11 })
            };
        }
    }
    let grouped = group(&records);
    let facet = &facets(&grouped.cases, &Settings::default())[0];
    let figure = figures(facet, &Settings::default(), "")[0].clone().unwrap();
    let Chart::Lines(chart) = &figure.chart else {
        panic!("figure 5 is a line chart")
    };
    let greedy = chart
        .lines
        .iter()
        .find(|line| line.label.starts_with("greedy"))
        .unwrap();
    assert_eq!(greedy.label, "greedy, 3 of 4");
    assert_eq!((greedy.steps.len(), greedy.steps[0].from), (3, 25.0));
    assert!(
        chart
            .lines
            .iter()
            .filter(|line| !line.label.starts_with("greedy"))
            .all(|line| line.steps.len() == 4)
    );
    assert_eq!(
        figure
            .csv
            .lines()
            .filter(|line| line.starts_with("greedy"))
            .count(),
        3
    );
    for line in &chart.lines {
        assert!(
            line.steps.windows(2).all(|pair| pair[0].y <= pair[1].y),
            "curves never fall"
        );
    }
}

#[test]
fn two_cost_models_give_two_sets_of_figures() {
    let mut records = study(2);
    for record in study(2) {
        let mut key = record.key.clone();
        key.cost_model = "profiled".to_owned();
        records.push(CellRecord {
            id: key.id(),
            key,
            ..record
        });
    }
    let folder = tempfile::tempdir().unwrap();
    plot(&records, &Settings::default(), folder.path()).unwrap();
    let names = files(folder.path());
    assert!(
        names.contains_key("fig5-relative-performance-cpu-analytic-1t.svg"),
        "{:?}",
        names.keys()
    );
    assert!(names.contains_key("fig5-relative-performance-cpu-profiled-1t.svg"));
}

#[test]
fn unproven_gaps_are_hollow() {
    let mut bounded = cell("a", "maxsat", 110, 1.0, "q");
    if let Some(solve) = &mut bounded.solve {
        solve.lower_bound = Some(100);
    }
    let records = vec![
        cell("a", "local", 120, 1.0, "p"),
        bounded,
        cell("b", "local", 5, 1.0, "p"),
        optimal("b", "maxsat", 5, 1.0, "q"),
    ];
    let grouped = group(&records);
    let facet = &facets(&grouped.cases, &Settings::default())[0];
    let figure = figures(facet, &Settings::default(), "")[3].clone().unwrap();
    let Chart::Lines(chart) = &figure.chart else {
        panic!("figure 7a is a line chart")
    };
    let hollow: Vec<Vec<(f64, bool)>> = chart
        .lines
        .iter()
        .map(|line| line.steps.iter().map(|step| (step.y, step.hollow)).collect())
        .collect();
    assert_eq!(
        hollow,
        [vec![(20.0, true), (0.0, false)], vec![(10.0, true), (0.0, false)]]
    );
    assert!(
        figure.caption.contains("For 1 model no optimum is proven"),
        "{}",
        figure.caption
    );
}

/// Writes the figures of 3, 12 and 200 synthetic models where `RELAYOUT_PLOT_SAMPLES` says, to be looked at.
#[test]
fn samples_for_the_eye() {
    let Some(folder) = std::env::var_os("RELAYOUT_PLOT_SAMPLES") else {
        println!("skipped: RELAYOUT_PLOT_SAMPLES names no folder");
        return;
    };
    for models in [3, 12, 200] {
        plot(
            &study(models),
            &Settings::default(),
            &Path::new(&folder).join(models.to_string()),
        )
        .unwrap();
    }
}
