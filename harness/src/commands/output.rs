//! Where results and messages go.

use super::error::CommandError;
use crate::journal::{WriteError, atomic};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// Writes a result to standard output. A reader that went away (`| head`) is no failure.
///
/// # Errors
/// When standard output can't be written, such as a file on a full disk.
pub fn print(text: &str) -> Result<(), CommandError> {
    print_bytes(text.as_bytes())
}

/// As [`print()`], for bytes.
///
/// # Errors
/// As [`print()`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(CommandError::Stdout(e)),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as one JSON document.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<(), CommandError> {
    let mut text = serde_json::to_string_pretty(value).map_err(CommandError::failed)?;
    text.push('\n');
    print(&text)
}

/// A message on standard error. That it can't be shown is no reason to fail.
pub fn message(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A warning on standard error.
pub fn warn(text: &str) {
    message(&format!("{} {text}", label("warning:", "33")));
}

/// An error with its help on standard error.
pub fn report(error: &CommandError) {
    message(&format!("{} {error}", label("error:", "31")));
    if let Some(help) = error.help() {
        message(&format!("  {} {help}", label("help:", "36")));
    }
}

/// A label, bold and coloured on a terminal that wants it.
fn label(text: &str, colour: &str) -> String {
    let wanted = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if wanted {
        format!("\x1b[1;{colour}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Writes a file whole or not at all; `-` is standard output, and what is no regular file (a pipe, a device) is written in place.
/// A name that ends in `.zst` is compressed.
///
/// # Errors
/// When it can't be written.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CommandError> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        fill(&mut bytes).map_err(CommandError::Stdout)?;
        return print_bytes(&bytes);
    }
    let compressed = path.extension().is_some_and(|e| e == "zst");
    let write = |file: &mut std::fs::File| {
        if compressed {
            let mut encoder = zstd::Encoder::new(BufWriter::new(file), 9)?;
            fill(&mut encoder)?;
            encoder.finish()?.flush()
        } else {
            let mut buffered = BufWriter::new(file);
            fill(&mut buffered)?;
            buffered.flush()
        }
    };
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
    if special {
        let opened = OpenOptions::new().write(true).open(path);
        opened
            .and_then(|mut file| write(&mut file))
            .map_err(|e| WriteError::from_io(path, e))?;
    } else {
        atomic::write_with(path, write)?;
    }
    Ok(())
}

/// Columns of text, padded to the widest entry; the last column is not padded.
pub fn columns(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            match widths.get_mut(i) {
                Some(width) => *width = (*width).max(cell.chars().count()),
                None => widths.push(cell.chars().count()),
            }
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number of bytes for people: `1.5 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}
