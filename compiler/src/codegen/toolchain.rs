//! The host C compiler and the kernel cache.
//!
//! The cache is keyed by source, compiler version, flags, ISA and ABI. Entries are written to a temporary name and renamed, so
//! concurrent processes see a whole object or none; it is bounded by removing the least recently used entries (by modification
//! time, which a hit refreshes).

use crate::target::Isa;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

/// The kernel ABI's version, part of every cache key: `fn(bufs, syms, begin, end, scratch)`.
const ABI: &str = "kernel-abi/1";

/// Why there is no native code.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// No C compiler.
    #[error("no C compiler: tried {tried}; install gcc or set the environment variable CC")]
    Missing {
        /// The commands tried.
        tried: String,
    },
    /// The compiler could not be started or a file not written.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The compiler refused the source: a fault of the code generator.
    #[error("{compiler} refused the generated source: {message}{context}")]
    Compile {
        /// The compiler.
        compiler: String,
        /// Its first error.
        message: String,
        /// The source line that it names.
        context: String,
    },
}

/// A C compiler that was found to work, and where its objects are cached.
#[derive(Clone, Debug)]
pub struct Toolchain {
    command: String,
    version: String,
    cache: Option<PathBuf>,
    cache_bytes: u64,
}

/// A shared object.
#[derive(Clone, Debug)]
pub struct Object {
    /// The ELF image.
    pub bytes: Arc<[u8]>,
    /// Whether it came from the cache.
    pub cached: bool,
}

impl Toolchain {
    /// Finds a compiler (`$CC`, `cc`, `gcc`, `clang`) and uses the default cache: `$RELAYOUT_CACHE`, else `relayout` in the
    /// user's cache directory, at most 1 GiB.
    ///
    /// # Errors
    /// When no compiler answers `--version`.
    pub fn detect() -> Result<Self, ToolchainError> {
        Self::with_cache(default_cache())
    }
    /// Finds a compiler and caches in the given directory, or not at all.
    ///
    /// # Errors
    /// When no compiler answers `--version`.
    pub fn with_cache(cache: Option<PathBuf>) -> Result<Self, ToolchainError> {
        let mut candidates: Vec<String> = std::env::var("CC")
            .into_iter()
            .filter(|c| !c.is_empty())
            .collect();
        candidates.extend(["cc", "gcc", "clang"].map(str::to_owned));
        for command in &candidates {
            let Ok(output) = Command::new(command).arg("--version").output() else {
                continue;
            };
            if output.status.success() {
                let text = String::from_utf8_lossy(&output.stdout);
                let version = text.lines().next().unwrap_or("").trim().to_owned();
                return Ok(Toolchain {
                    command: command.clone(),
                    version,
                    cache,
                    cache_bytes: 1 << 30,
                });
            }
        }
        Err(ToolchainError::Missing {
            tried: candidates.join(", "),
        })
    }
    /// The same compiler with another bound on the cache, in bytes.
    pub fn with_cache_limit(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }
    /// The first line that the compiler prints about itself.
    pub fn version(&self) -> &str {
        &self.version
    }
    /// The flags for an instruction-set level. No fast-math: it changes how denormals are handled process-wide.
    pub fn flags(&self, isa: Isa) -> Vec<&'static str> {
        let mut flags = vec![
            "-O3",
            "-std=gnu11",
            "-fPIC",
            "-shared",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-ffp-contract=fast",
            "-fwrapv",
            "-fno-strict-aliasing",
            "-fno-semantic-interposition",
            "-fvisibility=hidden",
            "-w",
        ];
        match isa {
            Isa::Generic => {}
            Isa::Baseline => flags.push("-march=x86-64"),
            Isa::Avx2 => flags.extend(["-march=x86-64-v3", "-mtune=znver3"]),
            Isa::Avx512 => flags.extend(["-march=x86-64-v4", "-mprefer-vector-width=512"]),
        }
        flags
    }
    /// Everything about the compiler that its output depends on, as one line.
    pub fn identity(&self, isa: Isa) -> String {
        format!("{} {}", self.version, self.flags(isa).join(" "))
    }
    /// The cache key of a source.
    pub fn key(&self, source: &str, isa: Isa) -> blake3::Hash {
        let mut h = blake3::Hasher::new();
        for part in [ABI, source, &self.identity(isa)] {
            h.update(&(part.len() as u64).to_le_bytes());
            h.update(part.as_bytes());
        }
        h.finalize()
    }
    /// Compiles one translation unit to a shared object, or takes it from the cache.
    ///
    /// # Errors
    /// When the compiler can't be run or refuses the source.
    pub fn compile(&self, source: &str, isa: Isa) -> Result<Object, ToolchainError> {
        self.build(&[source.to_owned()], isa)
    }
    /// Compiles several translation units, at most `jobs()` at a time, and links them into one shared object.
    ///
    /// # Errors
    /// As [`Toolchain::compile`]; the first failing unit in order is reported.
    pub fn build(&self, sources: &[String], isa: Isa) -> Result<Object, ToolchainError> {
        let key = self.key(&sources.join("\n/* next unit */\n"), isa);
        let entry = self
            .cache
            .as_ref()
            .map(|dir| dir.join(format!("{}.so", key.to_hex())));
        if let Some(bytes) = entry.as_deref().and_then(read_entry) {
            return Ok(Object { bytes, cached: true });
        }
        let dir = tempfile::Builder::new()
            .prefix("relayout-kernel-")
            .tempdir()
            .map_err(|source| io("creating a directory for kernels", source))?;
        let bytes = self.run(dir.path(), sources, isa)?;
        if let Some(path) = &entry {
            // A cache that can't be written costs time, not correctness.
            let _ = write_entry(path, &bytes);
            if let Some(dir) = path.parent() {
                evict(dir, self.cache_bytes);
            }
        }
        Ok(Object {
            bytes: bytes.into(),
            cached: false,
        })
    }
    fn run(&self, dir: &Path, sources: &[String], isa: Isa) -> Result<Vec<u8>, ToolchainError> {
        let out = dir.join("kernels.so");
        if let [source] = sources {
            self.unit(dir, 0, source, isa, &out, &[])?;
        } else {
            let next = std::sync::atomic::AtomicUsize::new(0);
            let outcomes = std::sync::Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..jobs().min(sources.len()) {
                    scope.spawn(|| {
                        loop {
                            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            let Some(source) = sources.get(i) else { break };
                            let object = dir.join(format!("unit{i}.o"));
                            let outcome = self.unit(dir, i, source, isa, &object, &["-c"]);
                            if let Ok(mut all) = outcomes.lock() {
                                all.push((i, outcome));
                            }
                        }
                    });
                }
            });
            let mut outcomes = outcomes.into_inner().unwrap_or_default();
            outcomes.sort_by_key(|(i, _)| *i);
            for (_, outcome) in outcomes {
                outcome?;
            }
            let mut link = Command::new(&self.command);
            link.args(["-shared", "-o"]).arg(&out);
            for i in 0..sources.len() {
                link.arg(dir.join(format!("unit{i}.o")));
            }
            link.arg("-lm");
            let output = link.output().map_err(|source| io(&self.command, source))?;
            if !output.status.success() {
                return Err(self.refused(&output.stderr, ""));
            }
        }
        std::fs::read(&out).map_err(|source| io("reading the compiled kernels", source))
    }
    fn unit(
        &self,
        dir: &Path,
        index: usize,
        source: &str,
        isa: Isa,
        out: &Path,
        extra: &[&str],
    ) -> Result<(), ToolchainError> {
        let file = dir.join(format!("unit{index}.c"));
        std::fs::write(&file, source).map_err(|source| io("writing generated source", source))?;
        let flags = self.flags(isa);
        let output = Command::new(&self.command)
            .args(flags.iter().filter(|f| extra.is_empty() || **f != "-shared"))
            .args(extra)
            .arg("-o")
            .arg(out)
            .arg(&file)
            .args(if extra.is_empty() { &["-lm"][..] } else { &[] })
            .output()
            .map_err(|source| io(&self.command, source))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(self.refused(&output.stderr, source))
        }
    }
    /// The compiler's first error with the source line that it names.
    fn refused(&self, stderr: &[u8], source: &str) -> ToolchainError {
        let text = String::from_utf8_lossy(stderr);
        let first = text
            .lines()
            .find(|l| l.contains("error"))
            .or_else(|| text.lines().next())
            .unwrap_or("no message");
        // `…/unit0.c:12:5: error: …`
        let mut parts = first.splitn(4, ':');
        let line = parts.nth(1).and_then(|l| l.parse::<usize>().ok());
        let message = first
            .split_once("error:")
            .map_or(first, |(_, m)| m)
            .trim()
            .to_owned();
        let context = line
            .and_then(|n| Some((n, source.lines().nth(n.checked_sub(1)?)?)))
            .map_or(String::new(), |(n, l)| format!("\n  line {n}: {}", l.trim()));
        ToolchainError::Compile {
            compiler: self.version.clone(),
            message,
            context,
        }
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}

fn io(what: &str, source: std::io::Error) -> ToolchainError {
    ToolchainError::Io {
        what: what.to_owned(),
        source,
    }
}

/// How many compilers run at a time.
pub fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `$RELAYOUT_CACHE`, else `relayout/kernels` in the user's cache directory; `None` when there is no such place.
pub fn default_cache() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    set("RELAYOUT_CACHE")
        .map(|d| d.join("kernels"))
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("relayout/kernels")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/relayout/kernels")))
}

/// A whole ELF object, or nothing; a hit refreshes the entry's time.
fn read_entry(path: &Path) -> Option<Arc<[u8]>> {
    let bytes = std::fs::read(path).ok()?;
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    if let Ok(file) = std::fs::File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
    Some(bytes.into())
}

fn write_entry(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let file = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    std::fs::write(file.path(), bytes)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Removes the least recently used entries until the directory holds at most `limit` bytes. Entries that another process has
/// removed meanwhile are no error.
fn evict(dir: &Path, limit: u64) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "so"))
        .filter_map(|e| {
            let meta = e.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), e.path()))
        })
        .collect();
    let mut total: u64 = files.iter().map(|f| f.1).sum();
    files.sort();
    for (_, size, path) in files {
        if total <= limit {
            break;
        }
        let _ = std::fs::remove_file(path);
        total = total.saturating_sub(size);
    }
}
