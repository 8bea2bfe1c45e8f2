//! The data set of a run: `cells.parquet`, `cells.csv` and `samples.parquet`, derived from the journal.
//!
//! Each file is replaced in one step, the version of the record schema stands in its metadata and in its column `schema`, and
//! deriving twice gives the same bytes. One row per cell, failed ones too: a value that was not measured is null. polars is used
//! here and nowhere else.

mod columns;

use crate::journal::atomic::{self, WriteError};
use crate::record::{CellRecord, Latency, SCHEMA};
use columns::{CELLS, Extract};
use polars::prelude::{AnyValue, Column, DataFrame, NamedFrom, PolarsError, Series};
use polars_io::SerReader;
use polars_io::SerWriter;
use polars_io::prelude::{CsvWriter, KeyValueMetadata, ParquetReader, ParquetWriter};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Metadata key of the schema's version.
const VERSION_KEY: &str = "relayout.schema";
/// Metadata key of the table's name.
const TABLE_KEY: &str = "relayout.table";

/// Why a data set could not be written or read.
#[derive(Debug, Error)]
pub enum RecordsError {
    /// A file could not be replaced; the previous one is intact.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file can't be opened.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A table could not be built, encoded or decoded.
    #[error("{}: {message}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What the table library says.
        message: String,
    },
    /// The file's schema version is missing or newer than this build's.
    #[error("{}: schema version {found}; this build reads 1 to {SCHEMA}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What stands in its metadata.
        found: String,
    },
}

fn table_error(path: &Path) -> impl Fn(PolarsError) -> RecordsError + '_ {
    move |error| RecordsError::Table {
        path: path.to_owned(),
        message: error.to_string(),
    }
}

/// A table as plain values: what [`read`] gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Schema version that the file was written with.
    pub schema: u32,
    /// Name of the table: `cells` or `samples`.
    pub table: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Rows, one value per column.
    pub rows: Vec<Vec<Value>>,
}

impl Rows {
    /// The values of a column; `None` when there is no such column.
    pub fn column(&self, name: &str) -> Option<Vec<&Value>> {
        let index = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().filter_map(|row| row.get(index)).collect())
    }
}

/// Writes `cells.parquet`, `cells.csv` and `samples.parquet` into `folder`. Rows are in order of cell id.
///
/// # Errors
/// [`RecordsError`]. A file that fails keeps its previous contents.
pub fn derive(folder: &Path, records: &[CellRecord]) -> Result<(), RecordsError> {
    let mut sorted: Vec<&CellRecord> = records.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let cells_path = folder.join("cells.parquet");
    let mut cells = cells_frame(&sorted).map_err(table_error(&cells_path))?;
    write_parquet(&cells_path, "cells", &mut cells)?;
    write_csv(&folder.join("cells.csv"), &mut cells)?;
    let samples_path = folder.join("samples.parquet");
    let mut samples = samples_frame(&sorted).map_err(table_error(&samples_path))?;
    write_parquet(&samples_path, "samples", &mut samples)
}

/// Reads a Parquet file that [`derive()`] wrote.
///
/// # Errors
/// [`RecordsError`]; a file without a version, or of a later one, is refused.
pub fn read(path: &Path) -> Result<Rows, RecordsError> {
    let failed = table_error(path);
    let file = File::open(path).map_err(|source| RecordsError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = ParquetReader::new(file);
    let metadata = reader
        .get_metadata()
        .map_err(&failed)?
        .key_value_metadata()
        .clone()
        .unwrap_or_default();
    let value = |key: &str| {
        metadata
            .iter()
            .find(|pair| pair.key == key)
            .and_then(|pair| pair.value.clone())
    };
    let version = value(VERSION_KEY).unwrap_or_else(|| "none".to_owned());
    let schema = match version.parse::<u32>() {
        Ok(schema) if (1..=SCHEMA).contains(&schema) => schema,
        _ => {
            return Err(RecordsError::Version {
                path: path.to_owned(),
                found: version,
            });
        }
    };
    let table = value(TABLE_KEY).unwrap_or_default();
    let frame = reader.finish().map_err(&failed)?;
    let columns: Vec<String> = frame
        .get_column_names()
        .iter()
        .map(|name| name.to_string())
        .collect();
    let mut rows = vec![Vec::with_capacity(columns.len()); frame.height()];
    for column in frame.columns() {
        for (index, row) in rows.iter_mut().enumerate() {
            row.push(plain(column.get(index).map_err(&failed)?));
        }
    }
    Ok(Rows {
        schema,
        table,
        columns,
        rows,
    })
}

fn plain(value: AnyValue<'_>) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(flag) => Value::from(flag),
        AnyValue::UInt64(number) => Value::from(number),
        AnyValue::Float64(number) => Value::from(number),
        AnyValue::String(text) => Value::from(text),
        other => Value::from(other.to_string()),
    }
}

fn cells_frame(records: &[&CellRecord]) -> Result<DataFrame, PolarsError> {
    let columns = CELLS
        .iter()
        .map(|(name, extract)| {
            let series = match extract {
                Extract::Text(of) => Series::new(
                    (*name).into(),
                    records.iter().map(|r| of(r)).collect::<Vec<Option<String>>>(),
                ),
                Extract::Count(of) => Series::new(
                    (*name).into(),
                    records.iter().map(|r| of(r)).collect::<Vec<Option<u64>>>(),
                ),
                Extract::Real(of) => Series::new(
                    (*name).into(),
                    records.iter().map(|r| of(r)).collect::<Vec<Option<f64>>>(),
                ),
                Extract::Flag(of) => Series::new(
                    (*name).into(),
                    records.iter().map(|r| of(r)).collect::<Vec<Option<bool>>>(),
                ),
            };
            Column::from(series)
        })
        .collect();
    DataFrame::new(records.len(), columns)
}

/// One row per sample, in order of cell, process and time.
fn samples_frame(records: &[&CellRecord]) -> Result<DataFrame, PolarsError> {
    let (mut schema, mut cell, mut model, mut strategy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut mode, mut unit, mut simulated) = (Vec::new(), Vec::new(), Vec::new());
    let (mut process, mut warm_up, mut index, mut value) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for record in records {
        let Some(latency) = &record.latency else { continue };
        for (process_index, samples) in latency.processes.iter().enumerate() {
            for (sample_index, &ms) in samples.samples_ms.iter().enumerate() {
                schema.push(u64::from(record.schema));
                cell.push(record.id.as_str());
                model.push(record.key.model_label());
                strategy.push(record.key.strategy.as_str());
                mode.push(latency.mode.name());
                unit.push(Latency::UNIT);
                simulated.push(record.simulated);
                process.push(process_index as u64);
                warm_up.push(u64::from(samples.warm_up));
                index.push(sample_index as u64);
                value.push(ms);
            }
        }
    }
    let height = value.len();
    let columns = [
        Series::new("schema".into(), schema),
        Series::new("cell".into(), cell),
        Series::new("model".into(), model),
        Series::new("strategy".into(), strategy),
        Series::new("mode".into(), mode),
        Series::new("unit".into(), unit),
        Series::new("simulated".into(), simulated),
        Series::new("process".into(), process),
        Series::new("warm_up".into(), warm_up),
        Series::new("index".into(), index),
        Series::new("value".into(), value),
    ];
    DataFrame::new(height, columns.into_iter().map(Column::from).collect())
}

/// Encodes in memory, then replaces the file in one step. Data sets of a sweep are small beside the memory they came from.
fn write_parquet(path: &Path, table: &str, frame: &mut DataFrame) -> Result<(), RecordsError> {
    let metadata = KeyValueMetadata::from_static(vec![
        (VERSION_KEY.to_owned(), SCHEMA.to_string()),
        (TABLE_KEY.to_owned(), table.to_owned()),
    ]);
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .with_key_value_metadata(Some(metadata))
        .set_parallel(false)
        .finish(frame)
        .map_err(table_error(path))?;
    atomic::write(path, &bytes)?;
    Ok(())
}

fn write_csv(path: &Path, frame: &mut DataFrame) -> Result<(), RecordsError> {
    let mut bytes = Vec::new();
    CsvWriter::new(&mut bytes)
        .finish(frame)
        .map_err(table_error(path))?;
    atomic::write(path, &bytes)?;
    Ok(())
}
