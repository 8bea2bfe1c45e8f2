//! The module file: a versioned header, a table of checksummed sections, and the sections.
//!
//! ```text
//! 0   magic "RLMODULE"
//! 8   version (u32), number of sections (u32)
//! 16  per section: kind (u32), zero (u32), offset (u64), length (u64), BLAKE3 of the payload (32 bytes)
//!     BLAKE3 of everything before (32 bytes)
//!     the sections, in the order of the table, each at the next multiple of 64 after the one before; gaps are zeros
//! ```
//!
//! Integers are little-endian. Every section but the last holds postcard items, preceded by their number; the last, `data`, holds the bytes of
//! inline constants and native code that the items refer to by offset. Every byte of the file is covered by a checksum or must be
//! zero. A new version of the format gets a new number; readers refuse what they don't know.

use crate::module::{Constant, Generator, Isa, Module, NativeCode, PackStep, Source, Target};
use crate::validate::ValidateError;
use crate::{DType, module};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"RLMODULE";
/// The version of the format that this crate reads and writes.
pub const VERSION: u32 = 1;
const ALIGN: usize = 64;
const TABLE: usize = 16;
const ROW: usize = 56;

/// A part of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Section {
    Header,
    Meta,
    Entries,
    Functions,
    Kernels,
    Native,
    Constants,
    StoragePlan,
    Data,
}

impl Section {
    /// The sections of a file, in order.
    const ORDER: [Section; 8] = [
        Section::Meta,
        Section::Entries,
        Section::Functions,
        Section::Kernels,
        Section::Native,
        Section::Constants,
        Section::StoragePlan,
        Section::Data,
    ];
    fn kind(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Header => "header",
            Section::Meta => "meta",
            Section::Entries => "entries",
            Section::Functions => "functions",
            Section::Kernels => "kernels",
            Section::Native => "native",
            Section::Constants => "constants",
            Section::StoragePlan => "storage plan",
            Section::Data => "data",
        })
    }
}

/// Why a file is not a module. Offsets are bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file starts with something else.
    #[error("not a module: the file starts with {found:?}, not with \"RLMODULE\"")]
    Magic {
        /// The first bytes, as text.
        found: String,
    },
    /// Another version of the format.
    #[error("module format version {found}; this program reads version {VERSION}")]
    Version {
        /// The version of the file.
        found: u32,
    },
    /// The file ends too early.
    #[error("truncated in {section} at offset {offset}: {needed} bytes needed, {available} there")]
    Truncated {
        /// The section.
        section: Section,
        /// Where the missing part starts.
        offset: usize,
        /// Bytes needed from there.
        needed: usize,
        /// Bytes there.
        available: usize,
    },
    /// A section's bytes are not those that were written.
    #[error("{section} at offset {offset}: the checksum does not match; the file is damaged")]
    Checksum {
        /// The section.
        section: Section,
        /// Where the section starts.
        offset: usize,
    },
    /// The file is inconsistent.
    #[error("{section} at offset {offset}: {what}")]
    Format {
        /// The section.
        section: Section,
        /// Where.
        offset: usize,
        /// What was found and what was expected.
        what: FormatError,
    },
    /// The file is well formed, but what it says is not a module.
    #[error(transparent)]
    Invalid(#[from] ValidateError),
}

/// An inconsistency inside a section.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Not the section expected in this row of the table.
    #[error("section kind {found}, expected {expected}")]
    Kind {
        /// The kind found.
        found: u32,
        /// The kind expected.
        expected: u32,
    },
    /// A wrong number of sections.
    #[error("{found} sections, expected {expected}")]
    Count {
        /// The number found.
        found: u32,
        /// The number expected.
        expected: usize,
    },
    /// A section that starts elsewhere than right after the one before.
    #[error("the section starts at {found}, expected {expected}")]
    Offset {
        /// The offset found.
        found: u64,
        /// The offset expected.
        expected: usize,
    },
    /// Bytes that must be zero.
    #[error("non-zero padding")]
    Padding,
    /// Bytes after the last item or the last section.
    #[error("{0} bytes after the end")]
    Trailing(usize),
    /// An item that cannot be decoded.
    #[error("item {item}: {source}")]
    Decode {
        /// Which item of the section.
        item: usize,
        /// The cause.
        source: postcard::Error,
    },
    /// A reference beyond the data section.
    #[error("item {item} refers to bytes {start}+{length} of a data section of {size}")]
    Range {
        /// Which item of the section.
        item: usize,
        /// Where the bytes start.
        start: u64,
        /// How many.
        length: u64,
        /// The size of the data section.
        size: usize,
    },
}

/// Why a module cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The module would be refused when loaded.
    #[error(transparent)]
    Invalid(#[from] ValidateError),
    /// An item cannot be encoded.
    #[error("encoding: {0}")]
    Encode(#[from] postcard::Error),
    /// The file cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// Bytes of the data section.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Range {
    start: u64,
    length: u64,
}

#[derive(Serialize, Deserialize)]
struct MetaItem {
    name: String,
    target: Target,
}

#[derive(Serialize, Deserialize)]
struct NativeItem {
    isa: Isa,
    bytes: Range,
}

#[derive(Serialize, Deserialize)]
enum SourceItem {
    Inline(Range),
    Generated(Generator),
    External { path: String, blake3: [u8; 32] },
}

#[derive(Serialize, Deserialize)]
struct ConstantItem {
    name: String,
    shape: Vec<u64>,
    dtype: DType,
    source: SourceItem,
    pack: Vec<PackStep>,
}

impl Module {
    /// The file's bytes. Equal modules give equal bytes.
    ///
    /// # Errors
    /// When the module is invalid.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        self.validate()?;
        let mut data: Vec<u8> = Vec::new();
        let mut store = |bytes: &[u8]| {
            data.resize(data.len().next_multiple_of(ALIGN), 0);
            let start = data.len() as u64;
            data.extend_from_slice(bytes);
            Range {
                start,
                length: bytes.len() as u64,
            }
        };
        let native: Vec<NativeItem> = self
            .native
            .iter()
            .map(|n| NativeItem {
                isa: n.isa,
                bytes: store(&n.bytes),
            })
            .collect();
        let constants: Vec<ConstantItem> = self
            .constants
            .iter()
            .map(|c| ConstantItem {
                name: c.name.clone(),
                shape: c.shape.clone(),
                dtype: c.dtype,
                source: match &c.source {
                    Source::Inline(bytes) => SourceItem::Inline(store(bytes)),
                    Source::Generated(generator) => SourceItem::Generated(generator.clone()),
                    Source::External { path, blake3 } => SourceItem::External {
                        path: path.clone(),
                        blake3: *blake3,
                    },
                },
                pack: c.pack.clone(),
            })
            .collect();
        let meta = MetaItem {
            name: self.name.clone(),
            target: self.target.clone(),
        };
        let payloads: [Vec<u8>; Section::ORDER.len()] = [
            encode(std::slice::from_ref(&meta))?,
            encode(&self.entries)?,
            encode(&self.functions)?,
            encode(&self.kernels)?,
            encode(&native)?,
            encode(&constants)?,
            encode(&self.storage_plan)?,
            data,
        ];
        Ok(assemble(&payloads))
    }

    /// Decodes and validates. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// The first fault, with its section and offset.
    pub fn from_bytes(bytes: &[u8]) -> Result<Module, LoadError> {
        let [meta, entries, functions, kernels, native, constants, plan, data] = sections(bytes)?;
        let meta_items: Vec<MetaItem> = decode(bytes, &meta)?;
        let count = meta_items.len();
        let meta = meta_items
            .into_iter()
            .next()
            .filter(|_| count == 1)
            .ok_or_else(|| {
                meta.fault(FormatError::Count {
                    found: count.try_into().unwrap_or(u32::MAX),
                    expected: 1,
                })
            })?;
        let native_items: Vec<NativeItem> = decode(bytes, &native)?;
        let constant_items: Vec<ConstantItem> = decode(bytes, &constants)?;
        let slice = |from: &Payload, item: usize, range: Range| -> Result<Arc<[u8]>, LoadError> {
            let all = &bytes[data.start..data.end];
            usize::try_from(range.start)
                .ok()
                .zip(usize::try_from(range.length).ok())
                .and_then(|(start, length)| all.get(start..start.checked_add(length)?))
                .map(Arc::from)
                .ok_or_else(|| {
                    from.fault(FormatError::Range {
                        item,
                        start: range.start,
                        length: range.length,
                        size: all.len(),
                    })
                })
        };
        let module = Module {
            name: meta.name,
            target: meta.target,
            entries: decode(bytes, &entries)?,
            functions: decode(bytes, &functions)?,
            kernels: decode(bytes, &kernels)?,
            native: native_items
                .into_iter()
                .enumerate()
                .map(|(i, n)| {
                    Ok(NativeCode {
                        isa: n.isa,
                        bytes: slice(&native, i, n.bytes)?,
                    })
                })
                .collect::<Result<_, LoadError>>()?,
            constants: constant_items
                .into_iter()
                .enumerate()
                .map(|(i, c)| {
                    Ok(Constant {
                        name: c.name,
                        shape: c.shape,
                        dtype: c.dtype,
                        source: match c.source {
                            SourceItem::Inline(range) => Source::Inline(slice(&constants, i, range)?),
                            SourceItem::Generated(generator) => Source::Generated(generator),
                            SourceItem::External { path, blake3 } => Source::External { path, blake3 },
                        },
                        pack: c.pack,
                    })
                })
                .collect::<Result<_, LoadError>>()?,
            storage_plan: decode::<module::PlannedStorage>(bytes, &plan)?,
        };
        module.validate()?;
        Ok(module)
    }

    /// Writes the file: complete under a temporary name beside it, then renamed.
    ///
    /// # Errors
    /// When the module is invalid or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        let bytes = self.to_bytes()?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.partial", std::process::id()));
        let temporary = PathBuf::from(temporary);
        std::fs::write(&temporary, &bytes)
            .and_then(|()| std::fs::rename(&temporary, path))
            .map_err(|source| {
                // The partial file may not exist; there is nothing more to do about it then.
                let _ = std::fs::remove_file(&temporary);
                WriteError::Io {
                    path: path.to_owned(),
                    source,
                }
            })
    }

    /// Reads and validates a file.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or is not a valid module.
    pub fn read(path: &Path) -> Result<Module, LoadError> {
        let bytes = std::fs::read(path).map_err(|source| LoadError::Io {
            path: path.to_owned(),
            source,
        })?;
        Module::from_bytes(&bytes)
    }
}

fn encode<T: Serialize>(items: &[T]) -> Result<Vec<u8>, postcard::Error> {
    let mut out = postcard::to_stdvec(&(items.len() as u64))?;
    for item in items {
        out = postcard::to_extend(item, out)?;
    }
    Ok(out)
}

fn assemble(payloads: &[Vec<u8>; Section::ORDER.len()]) -> Vec<u8> {
    let table_end = TABLE + ROW * payloads.len() + blake3::OUT_LEN;
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(payloads.len() as u32).to_le_bytes());
    let mut offset = table_end;
    for (section, payload) in Section::ORDER.iter().zip(payloads) {
        offset = offset.next_multiple_of(ALIGN);
        out.extend_from_slice(&section.kind().to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&(offset as u64).to_le_bytes());
        out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        out.extend_from_slice(blake3::hash(payload).as_bytes());
        offset += payload.len();
    }
    let hash = blake3::hash(&out);
    out.extend_from_slice(hash.as_bytes());
    for payload in payloads {
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        out.extend_from_slice(payload);
    }
    out
}

/// A verified section: its bytes of the file.
#[derive(Clone, Copy)]
struct Payload {
    section: Section,
    start: usize,
    end: usize,
}

impl Payload {
    fn fault(&self, what: FormatError) -> LoadError {
        LoadError::Format {
            section: self.section,
            offset: self.start,
            what,
        }
    }
}

fn sections(bytes: &[u8]) -> Result<[Payload; Section::ORDER.len()], LoadError> {
    let header = |offset: usize, what: FormatError| LoadError::Format {
        section: Section::Header,
        offset,
        what,
    };
    if !bytes.starts_with(MAGIC) {
        let head = &bytes[..bytes.len().min(MAGIC.len())];
        if MAGIC.starts_with(head) {
            return Err(LoadError::Truncated {
                section: Section::Header,
                offset: 0,
                needed: TABLE,
                available: bytes.len(),
            });
        }
        return Err(LoadError::Magic {
            found: String::from_utf8_lossy(head).into_owned(),
        });
    }
    let table_end = TABLE + ROW * Section::ORDER.len() + blake3::OUT_LEN;
    let truncated = |section: Section, offset: usize, needed: usize| LoadError::Truncated {
        section,
        offset,
        needed,
        available: bytes.len().saturating_sub(offset),
    };
    let version = read_u32(bytes, 8).ok_or_else(|| truncated(Section::Header, 8, 8))?;
    if version != VERSION {
        return Err(LoadError::Version { found: version });
    }
    let count = read_u32(bytes, 12).ok_or_else(|| truncated(Section::Header, 12, 4))?;
    if count as usize != Section::ORDER.len() {
        return Err(header(
            12,
            FormatError::Count {
                found: count,
                expected: Section::ORDER.len(),
            },
        ));
    }
    if bytes.len() < table_end {
        return Err(truncated(Section::Header, TABLE, table_end - TABLE));
    }
    let hash_at = table_end - blake3::OUT_LEN;
    if blake3::hash(&bytes[..hash_at]).as_bytes()[..] != bytes[hash_at..table_end] {
        return Err(LoadError::Checksum {
            section: Section::Header,
            offset: 0,
        });
    }
    let mut payloads = [Payload {
        section: Section::Header,
        start: 0,
        end: 0,
    }; Section::ORDER.len()];
    let mut end = table_end;
    for (i, section) in Section::ORDER.into_iter().enumerate() {
        let row = TABLE + ROW * i;
        let kind = read_u32(bytes, row).unwrap_or(0);
        if kind != section.kind() {
            let expected = section.kind();
            return Err(header(
                row,
                FormatError::Kind {
                    found: kind,
                    expected,
                },
            ));
        }
        if read_u32(bytes, row + 4) != Some(0) {
            return Err(header(row + 4, FormatError::Padding));
        }
        let start = end.next_multiple_of(ALIGN);
        let offset = read_u64(bytes, row + 8).unwrap_or(0);
        if offset != start as u64 {
            return Err(header(
                row + 8,
                FormatError::Offset {
                    found: offset,
                    expected: start,
                },
            ));
        }
        let length = read_u64(bytes, row + 16).unwrap_or(0);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let payload = start
            .checked_add(length)
            .and_then(|stop| bytes.get(start..stop))
            .ok_or_else(|| truncated(section, start, length))?;
        if bytes[end..start].iter().any(|b| *b != 0) {
            return Err(header(end, FormatError::Padding));
        }
        if blake3::hash(payload).as_bytes()[..] != bytes[row + 24..row + ROW] {
            return Err(LoadError::Checksum {
                section,
                offset: start,
            });
        }
        end = start + length;
        payloads[i] = Payload { section, start, end };
    }
    if end != bytes.len() {
        return Err(header(end, FormatError::Trailing(bytes.len() - end)));
    }
    Ok(payloads)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

/// Decodes a section's items one by one, so that a fault has the offset of its item.
fn decode<T: DeserializeOwned>(bytes: &[u8], payload: &Payload) -> Result<Vec<T>, LoadError> {
    let all = &bytes[payload.start..payload.end];
    let fault = |rest: &[u8], item: usize, source: postcard::Error| LoadError::Format {
        section: payload.section,
        offset: payload.end - rest.len(),
        what: FormatError::Decode { item, source },
    };
    let (count, mut rest) = postcard::take_from_bytes::<u64>(all).map_err(|e| fault(all, 0, e))?;
    let mut items = Vec::new();
    for item in 0..count {
        let (value, after) = postcard::take_from_bytes::<T>(rest)
            .map_err(|e| fault(rest, usize::try_from(item).unwrap_or(usize::MAX), e))?;
        // Every item takes at least one byte, so a huge count ends with the bytes, not with the memory.
        items.push(value);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(LoadError::Format {
            section: payload.section,
            offset: payload.end - rest.len(),
            what: FormatError::Trailing(rest.len()),
        });
    }
    Ok(items)
}
