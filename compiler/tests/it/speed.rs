//! Speed of the convolution kernels by layout, on request: `RELAYOUT_SLOW=1`, one thread, best of several runs.

use crate::common::{Cases, arguments, compile, f32s, host, options, toolchain};
use relayout_compiler::pipeline::Pass;
use relayout_compiler::target::Target;
use relayout_ir::annotation::Annotation;
use relayout_ir::builder::attrs;
use relayout_ir::graph::{Attr, Module};
use relayout_runtime::{HostTensor, Options, Session};
use std::time::Instant;

/// Seconds of the best run of a module of one operator, with operands and result already in their layouts.
fn seconds(module: &Module) -> Option<f64> {
    let toolchain = toolchain()?;
    let target = Target::cpu().expect("the shipped target");
    let mut options = options(&toolchain);
    options.dump = vec![Pass::Schedule];
    let compiled = compile(module, &target, &options);
    if let (Some(dir), Some((_, text))) = (std::env::var_os("RELAYOUT_DUMP"), compiled.report.dumps.first()) {
        let file = std::path::Path::new(&dir).join(format!("{}.c", compiled.module.kernels[0].name));
        std::fs::write(file, text).unwrap_or_else(|e| panic!("{e}"));
    }
    let one = Options {
        threads: 1,
        ..Options::default()
    };
    let mut session = Session::new(compiled.module.clone(), &one).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<HostTensor> = arguments(module, &|_| 1, (-1.0, 1.0)).iter().map(host).collect();
    let mut prepared = session.prepare(None, &inputs).unwrap_or_else(|e| panic!("{e}"));
    let mut best = f64::INFINITY;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.3 {
        let t = Instant::now();
        prepared.run().unwrap_or_else(|e| panic!("{e}"));
        best = best.min(t.elapsed().as_secs_f64());
    }
    Some(best)
}

fn convolution(
    i: usize,
    o: usize,
    size: usize,
    kernel: usize,
    stride: i64,
    groups: usize,
    layouts: [&'static str; 3],
) -> Option<f64> {
    let mut m = Module::default();
    let mut c = Cases::new(&mut m);
    let x = c.given(&f32s(&[1, i, size, size], layouts[0]));
    let w = c.given(&f32s(&[o, i / groups, kernel, kernel], layouts[1]));
    let a = attrs([
        ("strides", Attr::Ints(vec![stride; 2])),
        ("pads", Attr::Ints(vec![(kernel as i64 - 1) / 2; 4])),
        ("groups", Attr::Int(groups as i64)),
    ]);
    let y = c.op("conv2d", &[x, w], a, layouts[2]);
    let z = c.op("relu", &[y], Default::default(), layouts[2]);
    c.results.push(z);
    let out = match c.b.annotation(z) {
        Annotation::Tensor(t) => t.dims().and_then(|d| d[2].as_const()).unwrap_or(1),
        _ => 1,
    };
    c.finish();
    let flops = 2.0 * (i / groups * o * kernel * kernel) as f64 * (out * out) as f64;
    Some(flops / seconds(&m)? / 1e9)
}

#[test]
fn convolutions_by_layout() {
    if std::env::var_os("RELAYOUT_SLOW").is_none() {
        println!("skipped: set RELAYOUT_SLOW=1 to measure (about half a minute)");
        return;
    }
    let layouts = [
        ("NCHW", ["", "", ""]),
        ("NHWC", ["0,2,3,1", "2,3,1,0", "0,2,3,1"]),
        ("NHWC-O16", ["0,2,3,1", "0,2,3,1,0:16", "0,2,3,1"]),
        ("NCHW8c", ["0,1,2,3,1:8", "0,1,2,3,1:8,0:8", "0,1,2,3,1:8"]),
        ("NCHW16c", ["0,1,2,3,1:16", "0,1,2,3,1:16,0:16", "0,1,2,3,1:16"]),
    ];
    let only = std::env::var("RELAYOUT_ONLY").unwrap_or_default();
    for (i, o, size, kernel, stride, groups) in [
        (64, 64, 56, 3, 1, 1),
        (256, 64, 56, 1, 1, 1),
        (64, 256, 56, 1, 1, 1),
        (256, 512, 56, 1, 2, 1),
        (128, 128, 56, 3, 2, 1),
        (256, 256, 14, 3, 1, 1),
        (1024, 256, 14, 1, 1, 1),
        (512, 512, 7, 3, 1, 1),
        (144, 144, 56, 3, 1, 144),
        (3, 64, 224, 7, 2, 1),
        (64, 16, 112, 3, 1, 1),
    ] {
        let mut line = format!("{kernel}x{kernel}/{stride} {i}->{o} at {size} groups {groups}:");
        for (name, mut l) in layouts {
            if !only.is_empty() && only != format!("{i}-{o}-{size}-{name}") {
                continue;
            }
            if groups > 1 {
                l[1] = match name {
                    "NHWC-O16" => "2,3,1,0",
                    "NCHW8c" => "0,1,2,3,0:8",
                    "NCHW16c" => "0,1,2,3,0:16",
                    _ => l[1],
                };
            }
            if i == 3 && l[0].contains(':') {
                l = [
                    "",
                    if name == "NCHW8c" {
                        "0,1,2,3,0:8"
                    } else {
                        "0,1,2,3,0:16"
                    },
                    l[2],
                ];
            }
            match convolution(i, o, size, kernel, stride, groups, l) {
                Some(g) => line.push_str(&format!("  {name} {g:.0}")),
                None => return,
            }
        }
        println!("{line} GFLOP/s");
    }
    let conversions = ["", "0,2,3,1", "0,1,2,3,1:8", "0,1,2,3,1:16"];
    for from in conversions {
        for to in conversions.into_iter().filter(|t| *t != from) {
            let mut m = Module::default();
            let mut c = Cases::new(&mut m);
            let x = c.given(&f32s(&[1, 256, 56, 56], from));
            let y = c.convert(x, if to.is_empty() { "0,1,2,3" } else { to });
            c.results.push(y);
            c.finish();
            if let Some(s) = seconds(&m) {
                println!(
                    "({from}) to ({to}): {:.1} GB/s",
                    2.0 * 4.0 * 256.0 * 56.0 * 56.0 / s / 1e9
                );
            }
        }
    }
}
