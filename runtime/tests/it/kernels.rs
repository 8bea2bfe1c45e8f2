//! Kernels through the session's direct calls: chunks, phases, scratch, checks, code that cannot be loaded.

use crate::common::*;
use relayout_runtime::module::{MAX_CHUNKS, NativeCode, chunk_size};
use relayout_runtime::*;

fn session(threads: usize) -> Option<Session> {
    Some(Session::new(add_relu_module()?, &options(threads)).unwrap())
}

#[test]
fn chunks_depend_on_extent_and_grain_alone() {
    for (extent, grain, chunk) in [
        (1, 1, 1),
        (256, 1, 1),
        (257, 1, 2),
        (100, 16, 16),
        (100_000, 16, 400),
        (0, 0, 1),
        (i64::MAX, 1, i64::MAX / MAX_CHUNKS + 1),
        (5, i64::MAX, i64::MAX),
    ] {
        assert_eq!(chunk_size(extent, grain), chunk, "{extent} {grain}");
    }
    for extent in 1..2000 {
        for grain in [1, 3, 16] {
            let chunk = chunk_size(extent, grain);
            assert_eq!(chunk % grain, 0);
            assert!((extent - 1) / chunk < MAX_CHUNKS);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut expected = None;
    for threads in [1, 2, 3, 7] {
        let Some(mut session) = session(threads) else {
            return;
        };
        assert_eq!(session.threads(), threads);
        let n = 100_003;
        let input = session.upload(&ramp(&[n], 0.37)).unwrap();
        let output = session.tensor(DType::F32, &[n]).unwrap();
        let kernel = session.kernel("running").unwrap();
        for _ in 0..20 {
            session.run_kernel(kernel, &[&input, &output], &[n]).unwrap();
            let bytes = session.download(&output).unwrap().bytes;
            assert_eq!(expected.get_or_insert_with(|| bytes.clone()), &bytes, "{threads}");
        }
    }
}

#[test]
fn phases_are_separated_by_barriers() {
    let Some(mut session) = session(4) else { return };
    let n = 5000;
    let input = ramp(&[n], 1.0);
    let x = session.upload(&input).unwrap();
    let y = session.tensor(DType::F32, &[n]).unwrap();
    let workspace = session.tensor(DType::F32, &[n]).unwrap();
    let kernel = session.kernel("reverse").unwrap();
    let mut expected: Vec<f32> = input.to_f32().unwrap().iter().map(|v| 2.0 * v).collect();
    expected.reverse();
    for _ in 0..50 {
        session.run_kernel(kernel, &[&x, &y, &workspace], &[n]).unwrap();
        assert_eq!(session.download(&y).unwrap().to_f32().unwrap(), expected);
    }
}

#[test]
fn scratch_is_private_and_aligned() {
    let Some(mut session) = session(3) else { return };
    let y = session.tensor(DType::F32, &[2000]).unwrap();
    let z = session.tensor(DType::F32, &[2000]).unwrap();
    for (name, args) in [
        ("scratched", vec![&y]),
        ("no_scratch", vec![&y]),
        ("aligned", vec![&y, &z]),
    ] {
        let kernel = session.kernel(name).unwrap();
        session.run_kernel(kernel, &args, &[2000]).unwrap();
        let values = session.download(&y).unwrap().to_f32().unwrap();
        assert!(values.iter().all(|v| *v == 1.0), "{name}");
    }
}

#[test]
fn an_empty_range_calls_nothing() {
    let Some(mut session) = session(2) else { return };
    let x = session.upload(&ramp(&[4], 1.0)).unwrap();
    let y = session.upload(&ramp(&[4], 3.0)).unwrap();
    let kernel = session.kernel("relu").unwrap();
    session.run_kernel(kernel, &[&x, &y], &[0]).unwrap();
    assert_eq!(session.download(&y).unwrap(), ramp(&[4], 3.0));
}

#[test]
fn direct_calls_are_checked() {
    let Some(mut session) = session(1) else { return };
    let x = session.upload(&ramp(&[4], 1.0)).unwrap();
    let ints = session
        .upload(&HostTensor::from_i64(&[4], &[1, 2, 3, 4]))
        .unwrap();
    let kernel = session.kernel("relu").unwrap();
    let small = session.run_kernel(kernel, &[&x, &x], &[5]).unwrap_err();
    assert!(matches!(
        small,
        RunError::Call(VmFault::KernelArgument {
            index: 0,
            found: 16,
            needed: 20,
            ..
        })
    ));
    let dtype = session.run_kernel(kernel, &[&ints, &x], &[4]).unwrap_err();
    assert!(matches!(
        dtype,
        RunError::Call(VmFault::KernelArgument { index: 0, .. })
    ));
    for (args, syms) in [(vec![&x], vec![4]), (vec![&x, &x], vec![4, 4])] {
        let arity = session.run_kernel(kernel, &args, &syms).unwrap_err();
        assert!(
            matches!(arity, RunError::Device(DeviceError::Arity { .. })),
            "{arity}"
        );
    }
    let overflow = session.run_kernel(kernel, &[&x, &x], &[i64::MAX]).unwrap_err();
    assert!(matches!(overflow, RunError::Call(VmFault::Expr { .. })));
    assert!(session.kernel("none").is_none());
    assert!(matches!(
        session.run_kernel(KernelId(99), &[], &[]),
        Err(RunError::NoKernel(KernelId(99)))
    ));
    assert!(matches!(
        session.tensor(DType::F32, &[-1]),
        Err(RunError::HostTensor { .. })
    ));
}

#[test]
fn code_that_cannot_run_is_refused_with_a_reason() {
    let Some(module) = add_relu_module() else { return };
    let load = |module: Module| Session::new(module, &options(1)).map(|_| ()).unwrap_err();

    let mut missing = module.clone();
    missing.kernels[0].phases[0].symbol = "nowhere".into();
    assert_eq!(
        load(missing).to_string(),
        "kernel `add`: symbol `nowhere` is not in the native code"
    );

    let mut without = module.clone();
    without.native.clear();
    assert_eq!(
        load(without).to_string(),
        "the module has 7 kernels but no native code"
    );

    let mut garbage = module.clone();
    garbage.native[0].bytes = vec![1, 2, 3].into();
    assert!(matches!(
        load(garbage),
        SessionError::Device(DeviceError::Load(_))
    ));

    // A prefix of the object: the segments are cut off, at whatever length.
    let whole = &module.native[0].bytes;
    for length in (0..whole.len() / 2).step_by(whole.len() / 40) {
        let mut cut = module.clone();
        cut.native[0].bytes = whole[..length].into();
        assert!(matches!(load(cut), SessionError::Device(DeviceError::Load(_))));
    }
}

#[test]
fn the_strongest_level_that_the_machine_has_is_loaded() {
    let Some(module) = add_relu_module() else { return };
    let machine = machine_isa();
    let at = |isa| NativeCode {
        isa,
        bytes: module.native[0].bytes.clone(),
    };
    let mut all = module.clone();
    all.native = vec![
        at(Isa::Generic),
        at(Isa::Avx512),
        at(Isa::Baseline),
        at(Isa::Avx2),
    ];
    assert_eq!(Session::new(all, &options(1)).unwrap().isa(), machine);
    if machine == Isa::Avx512 {
        println!("skipped: every level is there, so none can be refused");
        return;
    }
    let mut strong = module.clone();
    strong.native = vec![at(Isa::Avx512)];
    match Session::new(strong, &options(1)).map(|_| ()) {
        Err(SessionError::Device(DeviceError::Isa { needed, missing })) => {
            assert_eq!(needed, Isa::Avx512);
            assert_eq!(missing, missing_features(Isa::Avx512));
            assert!(!missing.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn sessions_of_one_module_live_side_by_side() {
    let Some(module) = add_relu_module() else { return };
    // Loading and unloading in turn must not confuse the images.
    let mut keep = Vec::new();
    for round in 0..20 {
        let mut session = Session::new(module.clone(), &options(1 + round % 2)).unwrap();
        let out = session
            .run(None, &[ramp(&[3, 4], 1.0), ramp(&[3, 4], 1.0)])
            .unwrap();
        assert_eq!(out.len(), 1);
        if round % 3 == 0 {
            keep.push(session);
        }
    }
    for session in &mut keep {
        session
            .run(None, &[ramp(&[2, 4], 1.0), ramp(&[2, 4], 1.0)])
            .unwrap();
    }
}
