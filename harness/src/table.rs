//! The latency table (table 1 of the study): models by family, one column per strategy, the best and all close to it bold.

use crate::analysis::{Column, Facet, Settings};
use crate::record::{CellStatus, Latency};
use std::fmt::Write;

/// One cell of the table.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Median latency in milliseconds, and whether it is bold.
    Measured {
        /// Milliseconds.
        ms: f64,
        /// Best of its row, or close to it.
        bold: bool,
    },
    /// The cell's status in its place.
    Failed(CellStatus),
    /// The run has no such cell.
    Absent,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Family of the model.
    pub family: String,
    /// The case.
    pub model: String,
    /// One entry per column.
    pub entries: Vec<Entry>,
}

/// The latency table of one facet.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Target, cost model and threads in words.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// Rows grouped by family, in the facet's order.
    pub rows: Vec<Row>,
    /// Whether the times are simulated.
    pub simulated: bool,
    /// Relative distance from the best that is still bold.
    pub bold_within: f64,
}

/// Lays out the table of a facet.
pub fn latency_table(facet: &Facet<'_>, settings: &Settings) -> Table {
    let rows = facet
        .cases
        .iter()
        .map(|case| {
            let times: Vec<f64> = facet
                .columns
                .iter()
                .filter_map(|column| case.measured(column))
                .collect();
            let best = times
                .iter()
                .copied()
                .min_by(f64::total_cmp)
                .unwrap_or(f64::INFINITY);
            let entries = facet
                .columns
                .iter()
                .map(|column| match (case.cell(column), case.measured(column)) {
                    (_, Some(ms)) => Entry::Measured {
                        ms,
                        bold: ms <= best * (1.0 + settings.bold_within),
                    },
                    (Some(cell), None) => Entry::Failed(cell.status.clone()),
                    (None, None) => Entry::Absent,
                })
                .collect();
            Row {
                family: case.family.clone(),
                model: case.label.clone(),
                entries,
            }
        })
        .collect();
    let simulated = facet
        .cases
        .iter()
        .flat_map(|case| case.cells.values())
        .any(|cell| cell.simulated);
    Table {
        title: facet.title(),
        columns: facet.columns.clone(),
        rows,
        simulated,
        bold_within: settings.bold_within,
    }
}

impl Table {
    /// The table as Markdown, with a heading and a line that says what the numbers are.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let kind = if self.simulated { "simulated" } else { "measured" };
        let _ = writeln!(text, "### {}\n", self.title);
        let _ = writeln!(
            text,
            "Median execution time in {}, {kind}. Lower is better. The best result per model, and every result within \
             {}% of it, is bold.\n",
            Latency::UNIT,
            100.0 * self.bold_within
        );
        let labels: Vec<&str> = self.columns.iter().map(|column| column.label.as_str()).collect();
        let _ = writeln!(text, "| family | model | {} |", labels.join(" | "));
        let _ = writeln!(text, "|---|---|{}", "--:|".repeat(labels.len()));
        let mut previous: Option<&str> = None;
        for row in &self.rows {
            // A family is named once, in the first of its rows.
            let family = if previous == Some(row.family.as_str()) {
                ""
            } else {
                row.family.as_str()
            };
            previous = Some(row.family.as_str());
            let entries: Vec<String> = row.entries.iter().map(markdown_entry).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                escape(family),
                escape(&row.model),
                entries.join(" | ")
            );
        }
        text
    }

    /// The table as CSV: numbers and statuses in separate columns, so that no failure can be read as a number.
    pub fn csv(&self) -> String {
        let mut text = String::from("family,model");
        for column in &self.columns {
            let label = &column.label;
            let _ = write!(
                text,
                ",{},{}",
                csv_field(&format!("{label}_ms")),
                csv_field(&format!("{label}_status"))
            );
        }
        text.push('\n');
        for row in &self.rows {
            let _ = write!(text, "{},{}", csv_field(&row.family), csv_field(&row.model));
            for entry in &row.entries {
                let _ = match entry {
                    Entry::Measured { ms, .. } => write!(text, ",{ms},ok"),
                    Entry::Failed(status) => write!(text, ",,{}", csv_field(&status.to_string())),
                    Entry::Absent => write!(text, ",,absent"),
                };
            }
            text.push('\n');
        }
        text
    }
}

fn markdown_entry(entry: &Entry) -> String {
    match entry {
        Entry::Measured { ms, bold: true } => format!("**{}**", significant(*ms)),
        Entry::Measured { ms, bold: false } => significant(*ms),
        Entry::Failed(status) => format!("*{}*", status.name()),
        Entry::Absent => "–".to_owned(),
    }
}

/// Three significant digits, or all digits before the point where there are more.
fn significant(ms: f64) -> String {
    let magnitude = if ms > 0.0 { ms.log10().floor() as i32 } else { 0 };
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    format!("{ms:.decimals$}")
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A field of a CSV file, quoted where it must be.
pub(crate) fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
