//! The forms of a comparison: text for a terminal, Markdown for a pull request, JSON for programs, JUnit for CI.

use super::{CellDiff, RunDiff, Verdict};
use std::fmt::Write;

/// Layout changes listed per cell in the text form.
const LAYOUTS_SHOWN: usize = 10;

impl RunDiff {
    /// Plain text: every cell whose decisions or latency changed, then the counts.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| is_news(cell)) {
            let _ = writeln!(
                text,
                "{}: {} {} ({}): {}",
                cell.verdict.name(),
                cell.model,
                cell.strategy,
                cell.setting,
                summary(cell)
            );
            for change in cell.layouts.iter().take(LAYOUTS_SHOWN) {
                let side = |layout: &Option<String>| layout.clone().unwrap_or_else(|| "absent".to_owned());
                let _ = writeln!(
                    text,
                    "    {}: {} to {}",
                    change.tensor,
                    side(&change.base),
                    side(&change.head)
                );
            }
            if cell.layouts.len() > LAYOUTS_SHOWN {
                let _ = writeln!(
                    text,
                    "    and {} more tensors",
                    cell.layouts.len() - LAYOUTS_SHOWN
                );
            }
        }
        for (side, cells) in [("base", &self.only_base), ("head", &self.only_head)] {
            for cell in cells {
                let _ = writeln!(text, "only in {side}: {cell}");
            }
        }
        let _ = writeln!(text, "{}", self.counts());
        text
    }

    /// Markdown with a marker by which a bot finds its comment again; the worst cells first, at most the policy's rows.
    pub fn markdown(&self) -> String {
        let mut text = format!("<!-- relayout-diff -->\n**{}**\n", self.counts());
        let news: Vec<&CellDiff> = self.cells.iter().filter(|cell| is_news(cell)).collect();
        if !news.is_empty() {
            text.push_str("\n| verdict | model | strategy | setting | what changed | layouts |\n|---|---|---|---|---|--:|\n");
        }
        for cell in news.iter().take(self.policy.max_rows) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                cell.verdict.name(),
                escape(&cell.model),
                escape(&cell.strategy),
                escape(&cell.setting),
                escape(&summary(cell)),
                cell.layouts.len()
            );
        }
        if news.len() > self.policy.max_rows {
            let _ = writeln!(
                text,
                "\nAnd {} more cells with changes.",
                news.len() - self.policy.max_rows
            );
        }
        if !self.only_base.is_empty() || !self.only_head.is_empty() {
            let (base, head) = (self.only_base.len(), self.only_head.len());
            let _ = writeln!(text, "\n{base} cells only in the base, {head} only in the head.");
        }
        text
    }

    /// JSON, one object, with a format version.
    ///
    /// # Errors
    /// The encoder's.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// JUnit XML: one test case a cell; worse ones fail, undecided ones are skipped with the reason.
    pub fn junit(&self) -> String {
        let failures = self.cells.iter().filter(|cell| self.is_worse(cell)).count();
        let undecided =
            |cell: &CellDiff| matches!(cell.verdict, Verdict::Incomparable | Verdict::Inconclusive);
        let skipped = self
            .cells
            .iter()
            .filter(|cell| !self.is_worse(cell) && undecided(cell))
            .count();
        let tests = self.cells.len();
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        let _ = writeln!(
            text,
            "  <testsuite name=\"relayout diff\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">"
        );
        for cell in &self.cells {
            let _ = write!(
                text,
                "    <testcase classname=\"{}\" name=\"{} {}\"",
                xml(&cell.setting),
                xml(&cell.model),
                xml(&cell.strategy)
            );
            let message = xml(&format!("{}: {}", cell.verdict.name(), summary(cell)));
            if self.is_worse(cell) {
                let _ = writeln!(text, "><failure message=\"{message}\"/></testcase>");
            } else if undecided(cell) {
                let _ = writeln!(text, "><skipped message=\"{message}\"/></testcase>");
            } else {
                text.push_str("/>\n");
            }
        }
        text.push_str("  </testsuite>\n</testsuites>\n");
        text
    }

    fn counts(&self) -> String {
        let counts: Vec<String> = Verdict::ALL
            .into_iter()
            .map(|verdict| (self.count(verdict), verdict.name()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        match counts.len() {
            0 => "no cells in common".to_owned(),
            _ => format!("{} cells compared: {}", self.cells.len(), counts.join(", ")),
        }
    }
}

/// Whether a cell is worth a line.
fn is_news(cell: &CellDiff) -> bool {
    let latency = cell
        .latency
        .as_ref()
        .is_some_and(|latency| matches!(latency.verdict, Verdict::Regressed | Verdict::Improved));
    cell.verdict != Verdict::Same
        || !cell.layouts.is_empty()
        || cell.conversions.base != cell.conversions.head
        || latency
}

/// What changed, in a line.
fn summary(cell: &CellDiff) -> String {
    let mut parts = cell.reasons.clone();
    if let (Some(base), Some(head)) = (cell.conversions.base, cell.conversions.head)
        && base != head
    {
        parts.push(format!("conversions: {base} to {head}"));
    }
    if !cell.layouts.is_empty() {
        parts.push(format!("layouts changed: {}", cell.layouts.len()));
    }
    if let Some(latency) = &cell.latency
        && latency.verdict != Verdict::Same
    {
        parts.push(format!("latency {}: {}", latency.verdict.name(), latency.reason));
    }
    if parts.is_empty() {
        "no change".to_owned()
    } else {
        parts.join("; ")
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Text for an XML attribute. Control characters, which XML can't hold, become spaces.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
