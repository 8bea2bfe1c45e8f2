//! Native code: which instruction-set level the machine has, and loading a shared object from memory.

use crate::device::DeviceError;
use crate::module::{Isa, Module, NativeCode};
use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A phase of a kernel; see [`crate::module`] for the ABI.
pub(crate) type PhaseFn = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, i64, *mut c_void);

/// The features of a level that this machine lacks (by CPUID and operating-system support).
pub fn missing_features(isa: Isa) -> Vec<&'static str> {
    match isa {
        Isa::Generic => Vec::new(),
        #[cfg(target_arch = "x86_64")]
        Isa::Baseline => Vec::new(),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => missing(&x86_v3()),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => missing(&[&x86_v3()[..], &x86_v4()[..]].concat()),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Baseline | Isa::Avx2 | Isa::Avx512 => vec!["x86-64"],
    }
}

#[cfg(target_arch = "x86_64")]
fn missing(features: &[(&'static str, bool)]) -> Vec<&'static str> {
    features
        .iter()
        .filter(|(_, has)| !has)
        .map(|(name, _)| *name)
        .collect()
}

/// What x86-64-v3 adds (System V ABI supplement), levels below included in practice.
#[cfg(target_arch = "x86_64")]
fn x86_v3() -> [(&'static str, bool); 9] {
    [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi1", is_x86_feature_detected!("bmi1")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("fma", is_x86_feature_detected!("fma")),
        ("lzcnt", is_x86_feature_detected!("lzcnt")),
        ("movbe", is_x86_feature_detected!("movbe")),
    ]
}

/// What x86-64-v4 adds.
#[cfg(target_arch = "x86_64")]
fn x86_v4() -> [(&'static str, bool); 5] {
    [
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512cd", is_x86_feature_detected!("avx512cd")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
    ]
}

/// The strongest level that this machine has; [`Isa::Generic`] on other architectures.
pub fn machine_isa() -> Isa {
    [Isa::Avx512, Isa::Avx2, Isa::Baseline]
        .into_iter()
        .find(|isa| missing_features(*isa).is_empty())
        .unwrap_or(Isa::Generic)
}

/// The module's strongest code that this machine can run.
pub(crate) fn choose(module: &Module) -> Result<&NativeCode, DeviceError> {
    let best = module
        .native
        .iter()
        .filter(|n| missing_features(n.isa).is_empty())
        .max_by_key(|n| n.isa);
    match (best, module.native.iter().map(|n| n.isa).min()) {
        (Some(code), _) => Ok(code),
        (None, Some(needed)) => Err(DeviceError::Isa {
            needed,
            missing: missing_features(needed),
        }),
        (None, None) => Err(DeviceError::NoCode {
            kernels: module.kernels.len(),
        }),
    }
}

/// A loaded shared object. Functions taken from it are valid as long as it lives.
pub(crate) struct NativeLibrary {
    /// Dropped (unloaded) before its file.
    library: libloading::Library,
    _image: Image,
}

/// Where the loader reads the object from. Kept while the object is loaded: the loader takes two files of one path for the same object, so
/// the descriptor's number must not be used again.
enum Image {
    #[cfg(target_os = "linux")]
    Memory {
        _descriptor: File,
    },
    File(PathBuf),
}

impl Image {
    fn new(bytes: &[u8]) -> std::io::Result<(Image, PathBuf)> {
        #[cfg(target_os = "linux")]
        if let Ok(mut file) = memory_file() {
            use std::os::fd::AsRawFd;
            file.write_all(bytes)?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            return Ok((Image::Memory { _descriptor: file }, path));
        }
        let path = private_file(bytes)?;
        Ok((Image::File(path.clone()), path))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        match self {
            #[cfg(target_os = "linux")]
            Image::Memory { .. } => {}
            Image::File(path) => {
                // A file that is gone already is what we want.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// An anonymous file in memory, closed on exec.
#[cfg(target_os = "linux")]
fn memory_file() -> std::io::Result<File> {
    use std::ffi::{c_char, c_int, c_uint};
    use std::os::fd::FromRawFd;
    unsafe extern "C" {
        fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    }
    const MFD_CLOEXEC: c_uint = 1;
    // SAFETY: the name is a C string; the call has no other requirements.
    let fd = unsafe { memfd_create(c"relayout".as_ptr(), MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// A new file that only this user can read, under a name that no other process uses.
fn private_file(bytes: &[u8]) -> std::io::Result<PathBuf> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
    let directory = std::env::temp_dir();
    let mut attempt = 0u32;
    loop {
        let time = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos());
        let path = directory.join(format!("relayout-{}-{time}-{attempt}.so", std::process::id()));
        match options.open(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(e) => return Err(e),
        }
    }
}

impl NativeLibrary {
    /// Loads a shared object; its initialisers run.
    pub fn load(bytes: &[u8]) -> Result<Self, DeviceError> {
        // The loader reads beyond a truncated image; what is no complete ELF file is refused before.
        check_elf(bytes).map_err(|e| DeviceError::Load(e.into()))?;
        let (image, path) = Image::new(bytes).map_err(|e| DeviceError::Load(e.to_string()))?;
        let library = open(&path).map_err(|e| DeviceError::Load(e.to_string()))?;
        Ok(NativeLibrary {
            library,
            _image: image,
        })
    }

    pub fn phase(&self, symbol: &str) -> Option<PhaseFn> {
        // SAFETY: the symbol is a phase by the module's word; native code is trusted as its source is.
        unsafe { self.library.get::<PhaseFn>(symbol) }.ok().map(|f| *f)
    }
}

fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: runs the object's initialisers; native code is trusted as its source is (see the crate's documentation).
    unsafe { libloading::Library::new(path) }
}

/// Whether the bytes start like a 64-bit little-endian ELF file whose program headers and their segments lie inside.
fn check_elf(bytes: &[u8]) -> Result<(), &'static str> {
    const HEADER: usize = 64;
    const ROW: usize = 56;
    if !bytes.starts_with(b"\x7fELF\x02\x01") || bytes.len() < HEADER {
        return Err("not a 64-bit ELF shared object");
    }
    let word = |at: usize| {
        bytes
            .get(at..at.checked_add(8)?)
            .and_then(|b| Some(u64::from_le_bytes(b.try_into().ok()?)))
    };
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let truncated = "a truncated ELF shared object";
    let table = word(32).and_then(|o| usize::try_from(o).ok()).ok_or(truncated)?;
    if usize::from(half(54)) != ROW {
        return Err("an ELF file with program headers of an unknown size");
    }
    for i in 0..usize::from(half(56)) {
        let row = table.checked_add(i * ROW).ok_or(truncated)?;
        let (offset, size) = word(row.saturating_add(8))
            .zip(word(row.saturating_add(32)))
            .ok_or(truncated)?;
        if offset
            .checked_add(size)
            .is_none_or(|end| end > bytes.len() as u64)
        {
            return Err(truncated);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_refused_before_the_loader_sees_it() {
        for bytes in [&b""[..], b"\x7fELF\x02\x01", b"text", &[0; 200]] {
            assert!(matches!(NativeLibrary::load(bytes), Err(DeviceError::Load(_))));
        }
        let mut header = vec![0u8; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[32..40].fill(0xFF);
        header[54] = 56;
        header[56] = 1;
        assert!(matches!(NativeLibrary::load(&header), Err(DeviceError::Load(_))));
    }

    #[test]
    fn levels_are_nested() {
        let machine = machine_isa();
        for isa in [Isa::Generic, Isa::Baseline, Isa::Avx2, Isa::Avx512] {
            assert_eq!(missing_features(isa).is_empty(), isa <= machine, "{isa}");
        }
    }

    #[test]
    fn private_files_are_new_each_time() {
        let (a, b) = (private_file(b"a").unwrap(), private_file(b"b").unwrap());
        assert_ne!(a, b);
        assert_eq!(std::fs::read(&a).unwrap(), b"a");
        drop((Image::File(a.clone()), Image::File(b.clone())));
        assert!(!a.exists() && !b.exists());
    }
}
