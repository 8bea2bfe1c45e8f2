//! Constants: sources, packing, sharing.

use crate::common::*;
use relayout_runtime::module::*;
use relayout_runtime::*;

fn constant(name: &str, shape: &[u64], source: Source, pack: Vec<PackStep>) -> Constant {
    Constant {
        name: name.into(),
        shape: shape.to_vec(),
        dtype: DType::F32,
        source,
        pack,
    }
}

/// A module that returns its first constant.
fn returning(constants: Vec<Constant>, rank: usize) -> Module {
    let code = vec![
        Instr::Constant {
            dst: Reg(0),
            constant: ConstId(0),
        },
        ret(0),
    ];
    let f = function("f", vec![], vec![Dim::Any; rank], vec![], 1, code);
    Module {
        entries: vec![entry("main", 0)],
        functions: vec![f],
        constants,
        ..Module::default()
    }
}

fn generated(key: &str) -> Source {
    Source::Generated(Generator {
        seed: 11,
        key: key.into(),
        distribution: Distribution::Uniform { low: -1.0, high: 1.0 },
    })
}

/// OIHW → blocked by 4 output channels and reshaped.
fn blocked() -> Vec<PackStep> {
    let split = |axis, factor| Split { axis, factor };
    vec![
        PackStep::Layout(vec![split(0, None), split(1, None), split(0, Some(4))]),
        PackStep::Reshape(vec![2, 12]),
    ]
}

#[test]
fn generated_constants_are_packed_once_and_reported() {
    let plain = returning(vec![constant("w", &[6, 3], generated("w"), vec![])], 2);
    let packed = returning(vec![constant("w", &[6, 3], generated("w"), blocked())], 2);
    let mut session = Session::new(plain, &options(2)).unwrap();
    let logical = session.run(None, &[]).unwrap().remove(0);
    assert_eq!(logical.shape, [6, 3]);
    let mut session = Session::new(packed, &options(2)).unwrap();
    let physical = session.run(None, &[]).unwrap().remove(0);
    assert_eq!(physical.shape, [2, 12]);
    let (logical, physical) = (logical.to_f32().unwrap(), physical.to_f32().unwrap());
    for o in 0..8 {
        for i in 0..3 {
            let expected = if o < 6 { logical[o * 3 + i] } else { 0.0 };
            assert_eq!(physical[(o / 4) * 12 + i * 4 + o % 4], expected);
        }
    }
    let report = session.load_report();
    assert_eq!(
        (report.constant_bytes, report.packed_bytes, report.repacked_bytes),
        (72, 96, 96)
    );
    assert_eq!(
        session.constant("w").map(|t| t.shape().to_vec()),
        Some(vec![2, 12])
    );
    assert!(session.constant("v").is_none());
}

#[test]
fn the_generator_rule_is_pinned() {
    // Values that any program following the rule must draw.
    let mut session = Session::new(
        returning(vec![constant("w", &[3], generated("layer.weight"), vec![])], 1),
        &options(1),
    )
    .unwrap();
    let values = session.run(None, &[]).unwrap()[0].to_f32().unwrap();
    let rule = |i: u64| {
        let mix = |mut z: u64| {
            z ^= z >> 30;
            z = z.wrapping_mul(0xbf58476d1ce4e5b9);
            z ^= z >> 27;
            z = z.wrapping_mul(0x94d049bb133111eb);
            z ^ (z >> 31)
        };
        let mut key = 0xcbf29ce484222325u64;
        for byte in "layer.weight".bytes() {
            key = (key ^ u64::from(byte)).wrapping_mul(0x100000001b3);
        }
        let z = mix(mix(11 ^ key).wrapping_add((i + 1).wrapping_mul(0x9E3779B97F4A7C15)));
        -1.0f32 + 2.0 * ((z >> 40) as f32 / 16777216.0)
    };
    assert_eq!(values, [rule(0), rule(1), rule(2)]);
}

#[test]
fn external_constants_are_read_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/w.bin"), &bytes).unwrap();
    let external = |hash: blake3::Hash, path: &str| {
        let source = Source::External {
            path: path.into(),
            blake3: *hash.as_bytes(),
        };
        returning(vec![constant("w", &[2], source, vec![])], 1)
    };
    let options = Options {
        threads: 1,
        memory_limit: None,
        directory: Some(folder.path().into()),
    };
    let right = blake3::hash(&bytes);
    let mut session = Session::new(external(right, "data/w.bin"), &options).unwrap();
    assert_eq!(session.run(None, &[]).unwrap()[0].to_f32().unwrap(), [1.5, -2.0]);

    let fail = |module| Session::new(module, &options).map(|_| ()).unwrap_err();
    let wrong = fail(external(blake3::hash(b"other"), "data/w.bin"));
    assert!(
        matches!(
            wrong,
            SessionError::Constant {
                cause: ConstantError::Hash { .. },
                ..
            }
        ),
        "{wrong}"
    );
    let absent = fail(external(right, "data/v.bin"));
    assert!(matches!(
        absent,
        SessionError::Constant {
            cause: ConstantError::Io { .. },
            ..
        }
    ));
    for path in ["../w.bin", "/etc/passwd", "", "a/../../b", "./w.bin"] {
        assert!(
            matches!(fail(external(right, path)), SessionError::Invalid(_)),
            "{path}"
        );
    }
    // The right contents of the wrong length.
    std::fs::write(folder.path().join("short"), b"abc").unwrap();
    let short = fail(external(blake3::hash(b"abc"), "short"));
    assert!(matches!(
        short,
        SessionError::Constant {
            cause: ConstantError::Pack(_),
            ..
        }
    ));
}
