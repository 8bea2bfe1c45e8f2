//! The module file: round trips, damage of every kind, and modules made from noise.

use crate::common::*;
use crate::validation::small_module;
use proptest::prelude::*;
use relayout_runtime::module::*;
use relayout_runtime::*;
use std::collections::BTreeMap;

#[test]
fn a_module_reads_back_as_it_was_written() {
    for module in [Some(small_module()), Some(Module::default()), add_relu_module()]
        .into_iter()
        .flatten()
    {
        let bytes = module.to_bytes().unwrap();
        assert_eq!(bytes, module.to_bytes().unwrap());
        assert_eq!(Module::from_bytes(&bytes).unwrap(), module);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.rlm");
    small_module().write(&path).unwrap();
    small_module().write(&path).unwrap();
    assert_eq!(Module::read(&path).unwrap(), small_module());
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no partial file is left"
    );
    assert!(matches!(
        Module::read(&folder.path().join("absent")),
        Err(LoadError::Io { .. })
    ));
    assert!(matches!(
        small_module().write(&folder.path().join("no/folder.rlm")),
        Err(WriteError::Io { .. })
    ));
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = small_module().to_bytes().unwrap();
    for length in 0..bytes.len() {
        assert!(Module::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(Module::from_bytes(&longer).is_err());
}

#[test]
fn every_changed_byte_is_an_error() {
    let bytes = small_module().to_bytes().unwrap();
    for at in 0..bytes.len() {
        for change in [1u8, 0x80, 0xFF] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            assert!(Module::from_bytes(&damaged).is_err(), "{at} {change}");
        }
    }
}

#[test]
fn errors_say_what_and_where() {
    let bytes = small_module().to_bytes().unwrap();
    let message = |bytes: &[u8]| Module::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        message(b"#!/bin/sh\n"),
        "not a module: the file starts with \"#!/bin/s\", not with \"RLMODULE\""
    );
    assert_eq!(
        message(b""),
        "truncated in header at offset 0: 16 bytes needed, 0 there"
    );
    let mut version = bytes.clone();
    version[8] = 9;
    assert_eq!(
        message(&version),
        "module format version 9; this program reads version 1"
    );
    let mut table = bytes.clone();
    table[100] ^= 1;
    assert_eq!(
        message(&table),
        "header at offset 0: the checksum does not match; the file is damaged"
    );
    let cut = &bytes[..bytes.len() - 1];
    let found = message(cut);
    assert!(found.starts_with("truncated in data at offset "), "{found}");
    let at = offset_of(&bytes, 2);
    let mut functions = bytes.clone();
    functions[at + 5] ^= 1;
    assert_eq!(
        message(&functions),
        format!("functions at offset {at}: the checksum does not match; the file is damaged")
    );
    // An item that makes no sense behind a right checksum: an instruction of an unknown kind, say.
    reseal(&mut functions);
    functions[at + 5] = 0xFF;
    reseal(&mut functions);
    let found = message(&functions);
    assert!(
        found.starts_with(&format!("functions at offset {}: item 0: ", at + 1)),
        "{found}"
    );
}

const TABLE: usize = 16;
const ROW: usize = 56;
const SECTIONS: usize = 8;

fn word(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

fn offset_of(bytes: &[u8], section: usize) -> usize {
    word(bytes, TABLE + ROW * section + 8)
}

/// Makes all checksums right again, so that damage reaches the decoder and the validation.
fn reseal(bytes: &mut [u8]) {
    for section in 0..SECTIONS {
        let row = TABLE + ROW * section;
        let (start, length) = (word(bytes, row + 8), word(bytes, row + 16));
        if let Some(payload) = start.checked_add(length).and_then(|end| bytes.get(start..end)) {
            let hash = blake3::hash(payload);
            bytes[row + 24..row + ROW].copy_from_slice(hash.as_bytes());
        }
    }
    let end = TABLE + ROW * SECTIONS;
    let hash = blake3::hash(&bytes[..end]);
    bytes[end..end + 32].copy_from_slice(hash.as_bytes());
}

/// A module without native code, whose every instruction is harmless whatever its operands.
fn harmless() -> Module {
    let mut module = small_module();
    module.kernels.clear();
    module.native.clear();
    module.constants.truncate(1);
    let code = &mut module.functions[0].code;
    code[3] = Instr::CallLibrary {
        routine: "gemm.matmul".into(),
        attrs: BTreeMap::from([("transpose_b".into(), Attr::Bool(true))]),
        args: vec![Reg(6), Reg(6)],
        outs: vec![Reg(7)],
        syms: vec![s(0)],
    };
    let square = vec![c(4), c(4)];
    code.splice(
        3..3,
        [
            storage(8, c(64)),
            tensor(6, 8, square.clone()),
            storage(9, c(64)),
            tensor(7, 9, square),
        ],
    );
    if !cfg!(feature = "gemm") {
        code.remove(7);
    }
    module.functions[0].registers = 10;
    module
}

/// Loads and runs what a damaged file says, when it still says a module. Returns whether it ran.
fn try_run(bytes: &[u8]) -> bool {
    let Ok(module) = Module::from_bytes(bytes) else {
        return false;
    };
    module.to_bytes().unwrap();
    let elements: u64 = module
        .constants
        .iter()
        .map(|c| c.shape.iter().product::<u64>())
        .sum();
    // Valid but large: generating it would only cost time.
    if elements > 1 << 16 || !module.kernels.is_empty() {
        return false;
    }
    let options = Options {
        threads: 1,
        memory_limit: Some(1 << 20),
        directory: None,
    };
    match Session::new(module, &options) {
        Ok(mut session) => session.run(None, &[ramp(&[4], 1.0)]).is_ok(),
        Err(_) => false,
    }
}

#[test]
fn the_harmless_module_runs() {
    assert!(try_run(&harmless().to_bytes().unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Damage behind right checksums: an error or a module that runs or fails, never a panic.
    #[test]
    fn noise_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0u8..16, any::<u8>()]), 1..6),
        which in 0usize..2,
    ) {
        let module = if which == 0 { harmless() } else { small_module() };
        let mut bytes = module.to_bytes().unwrap();
        let first = TABLE + ROW * SECTIONS + 32;
        for (index, value) in changes {
            let at = first + index.index(bytes.len() - first);
            bytes[at] = value;
        }
        reseal(&mut bytes);
        try_run(&bytes);
    }

    /// A damaged table with a right checksum.
    #[test]
    fn a_damaged_table_never_panics(at in 0usize..(TABLE + ROW * SECTIONS), value in any::<u8>(), cut in 0usize..2000) {
        let mut bytes = small_module().to_bytes().unwrap();
        bytes[at] = value;
        let end = TABLE + ROW * SECTIONS;
        let hash = blake3::hash(&bytes[..end]);
        bytes[end..end + 32].copy_from_slice(hash.as_bytes());
        let length = bytes.len().saturating_sub(cut).max(end);
        // The outcome depends on whether the byte changed; what counts is that there is one.
        let _ = Module::from_bytes(&bytes[..length]);
    }

    #[test]
    fn random_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..600), magic in any::<bool>()) {
        if magic && bytes.len() >= 16 {
            bytes[..8].copy_from_slice(b"RLMODULE");
            bytes[8..16].copy_from_slice(&[1, 0, 0, 0, 8, 0, 0, 0]);
        }
        prop_assert!(Module::from_bytes(&bytes).is_err());
    }
}
