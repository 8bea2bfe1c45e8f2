//! From charts to files.

use super::chart::Chart;
use super::figures::{Figure, Skipped, figures};
use super::{draw, style};
use crate::analysis::{Settings, facets, group, summarise};
use crate::journal::atomic::{self, WriteError};
use crate::record::CellRecord;
use crate::table::latency_table;
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the figures could not be made.
#[derive(Debug, Error)]
pub enum PlotError {
    /// The plotting library failed.
    #[error("cannot draw {figure}: {message}")]
    Draw {
        /// The figure.
        figure: String,
        /// Its error.
        message: String,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The folder for intermediate files can't be used.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// What [`plot`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plotted {
    /// Files written, in the order of the index.
    pub files: Vec<PathBuf>,
    /// Figures not drawn.
    pub skipped: Vec<Skipped>,
}

/// Draws a chart as SVG text, sized in inches for a paper's column.
///
/// # Errors
/// [`PlotError::Draw`].
pub fn svg(figure: &Figure) -> Result<String, PlotError> {
    let failed = |message: String| PlotError::Draw {
        figure: figure.name.clone(),
        message,
    };
    style::register_fonts().map_err(|message| failed(message.to_owned()))?;
    let (width, height) = (style::WIDTH, figure.chart.height());
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        draw::draw(&area, &figure.chart).map_err(|error| failed(error.to_string()))?;
        area.present().map_err(|error| failed(error.to_string()))?;
    }
    // The drawing's units are fine ones, since the library's coordinates are whole numbers; the file has its true size.
    let inches = |units: u32| f64::from(units) / f64::from(style::UNITS_PER_INCH);
    let header = format!("<svg width=\"{width}\" height=\"{height}\"");
    let sized = format!(
        "<svg width=\"{:.2}in\" height=\"{:.2}in\"",
        inches(width),
        inches(height)
    );
    Ok(text.replacen(&header, &sized, 1))
}

/// Draws a chart as a PNG file at `path`, 300 pixels an inch.
///
/// # Errors
/// [`PlotError`]; what stood at `path` before is then still there.
pub fn png(figure: &Figure, path: &Path) -> Result<(), PlotError> {
    let failed = |message: String| PlotError::Draw {
        figure: figure.name.clone(),
        message,
    };
    style::register_fonts().map_err(|message| failed(message.to_owned()))?;
    // The encoder goes by the extension and writes to a path: it gets one of its own, and the bytes are then moved in whole.
    let scratch = tempfile::Builder::new()
        .suffix(".png")
        .tempfile()
        .map_err(|source| PlotError::Io {
            path: std::env::temp_dir(),
            source,
        })?;
    {
        let size = (style::WIDTH, figure.chart.height());
        let area = BitMapBackend::new(scratch.path(), size).into_drawing_area();
        draw::draw(&area, &figure.chart).map_err(|error| failed(error.to_string()))?;
        area.present().map_err(|error| failed(error.to_string()))?;
    }
    let bytes = fs::read(scratch.path()).map_err(|source| PlotError::Io {
        path: scratch.path().to_owned(),
        source,
    })?;
    atomic::write(path, &bytes)?;
    Ok(())
}

/// Draws every figure of a run into `folder`, with data, the latency table, the measures and an index beside them.
///
/// Written are per figure `NAME.svg`, `NAME.png` and `NAME.csv`, then `latency.md`, `latency.csv` (with a suffix per facet when
/// there are several), `measures.md`, `measures.json` and `README.md`.
///
/// # Errors
/// [`PlotError`]. Files written before the failure stay, each whole.
pub fn plot(records: &[CellRecord], settings: &Settings, folder: &Path) -> Result<Plotted, PlotError> {
    fs::create_dir_all(folder).map_err(|source| PlotError::Write(WriteError::from_io(folder, source)))?;
    let grouped = group(records);
    let facets = facets(&grouped.cases, settings);
    let mut result = Plotted::default();
    let mut put = |name: String, bytes: &[u8]| -> Result<(), PlotError> {
        let path = folder.join(name);
        atomic::write(&path, bytes)?;
        result.files.push(path);
        Ok(())
    };
    let mut index = String::from(
        "# Figures\n\nDrawn from the run's records; the same records give the same bytes. The data of each figure is in the CSV \
         file of its name. [Measures in numbers](measures.md).\n",
    );
    let mut drawn = Vec::new();
    let mut tables = String::new();
    for facet in &facets {
        let suffix = if facets.len() > 1 {
            format!("-{}", facet.slug())
        } else {
            String::new()
        };
        if facets.len() > 1 {
            let _ = write!(index, "\n## {}\n", facet.title());
        }
        for outcome in figures(facet, settings, &suffix) {
            match outcome {
                Ok(figure) => {
                    let Figure {
                        name, title, caption, ..
                    } = &figure;
                    let _ = write!(index, "\n### {title}\n\n![{title}]({name}.svg)\n\n{caption}\n");
                    put(format!("{name}.svg"), svg(&figure)?.as_bytes())?;
                    put(format!("{name}.csv"), figure.csv.as_bytes())?;
                    drawn.push(figure);
                }
                Err(skip) => {
                    let _ = write!(index, "\n### {}\n\nNot drawn: {}.\n", skip.name, skip.reason);
                    result.skipped.push(skip);
                }
            }
        }
        let table = latency_table(facet, settings);
        put(format!("latency{suffix}.csv"), table.csv().as_bytes())?;
        let _ = writeln!(tables, "{}", table.markdown());
    }
    if facets.is_empty() {
        index.push_str("\nThe run has no comparable cells.\n");
    }
    let _ = write!(index, "\n## Latency\n\n{tables}");
    let summary = summarise(records, settings);
    put("latency.md".to_owned(), tables.as_bytes())?;
    put("measures.md".to_owned(), summary.markdown().as_bytes())?;
    let json = serde_json::to_string_pretty(&summary).map_err(|error| PlotError::Draw {
        figure: "measures.json".to_owned(),
        message: error.to_string(),
    })?;
    put("measures.json".to_owned(), format!("{json}\n").as_bytes())?;
    put("README.md".to_owned(), index.as_bytes())?;
    for figure in &drawn {
        let path = folder.join(format!("{}.png", figure.name));
        png(figure, &path)?;
        result.files.push(path);
    }
    Ok(result)
}

impl Chart {
    /// A figure of this chart alone, for callers that build their own.
    pub fn into_figure(self, name: &str) -> Figure {
        Figure {
            name: name.to_owned(),
            title: name.to_owned(),
            caption: String::new(),
            chart: self,
            csv: String::new(),
        }
    }
}
