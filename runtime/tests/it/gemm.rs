//! `gemm.matmul` against the definition.

use crate::common::*;
use proptest::prelude::*;
use relayout_runtime::module::*;
use relayout_runtime::*;
use std::collections::BTreeMap;

fn session(threads: usize) -> Session {
    Session::new(Module::default(), &options(threads)).unwrap()
}

/// One product: extents, stored shapes and attributes.
#[derive(Clone, Debug)]
struct Case {
    batch: Vec<i64>,
    a_batch: Vec<i64>,
    b_batch: Vec<i64>,
    m: i64,
    n: i64,
    k: i64,
    transpose: [bool; 3],
    /// Rows and columns that the stored buffers of a, b and out have beyond the logical ones.
    pad: [i64; 3],
}

impl Case {
    fn shape(&self, operand: usize) -> Vec<i64> {
        let (batch, rows, cols) = match operand {
            0 => (&self.a_batch, self.m, self.k),
            1 => (&self.b_batch, self.k, self.n),
            _ => (&self.batch, self.m, self.n),
        };
        let pad = self.pad[operand];
        let (rows, cols) = if self.transpose[operand] {
            (cols, rows)
        } else {
            (rows, cols)
        };
        batch.iter().copied().chain([rows + pad, cols + pad]).collect()
    }

    fn attrs(&self) -> BTreeMap<String, Attr> {
        let mut attrs = BTreeMap::new();
        for (name, flag) in ["transpose_a", "transpose_b", "transpose_out"]
            .into_iter()
            .zip(self.transpose)
        {
            if flag {
                attrs.insert(name.into(), Attr::Bool(true));
            }
        }
        if self.pad != [0; 3] {
            for (name, extent) in [("m", self.m), ("n", self.n), ("k", self.k)] {
                attrs.insert(name.into(), Attr::Int(extent));
            }
        }
        attrs
    }

    /// Index of an element of a stored operand, given the output's batch index.
    fn at(&self, operand: usize, batch: &[i64], row: i64, col: i64) -> usize {
        let shape = self.shape(operand);
        let own = shape.len() - 2;
        let mut index = 0;
        for (i, d) in shape[..own].iter().enumerate() {
            let b = batch[batch.len() - own + i];
            index = index * d + if *d == 1 { 0 } else { b };
        }
        let (row, col) = if self.transpose[operand] {
            (col, row)
        } else {
            (row, col)
        };
        ((index * shape[own] + row) * shape[own + 1] + col) as usize
    }

    fn naive(&self, a: &[f32], b: &[f32], out: &mut [f32]) {
        let batches: i64 = self.batch.iter().product();
        for flat in 0..batches {
            let mut rest = flat;
            let mut batch = vec![0; self.batch.len()];
            for (i, d) in batch.iter_mut().zip(&self.batch).rev() {
                *i = rest % d;
                rest /= d;
            }
            for row in 0..self.m {
                for col in 0..self.n {
                    let sum: f64 = (0..self.k)
                        .map(|i| {
                            f64::from(a[self.at(0, &batch, row, i)])
                                * f64::from(b[self.at(1, &batch, i, col)])
                        })
                        .sum();
                    out[self.at(2, &batch, row, col)] = sum as f32;
                }
            }
        }
    }

    /// The routine's output, with −7 where it writes nothing.
    fn run(&self, session: &mut Session) -> Vec<f32> {
        let a = session.upload(&ramp(&self.shape(0), 0.02)).unwrap();
        let b = session.upload(&ramp(&self.shape(1), -0.05)).unwrap();
        let shape = self.shape(2);
        let count = shape.iter().product::<i64>() as usize;
        let out = session
            .upload(&HostTensor::from_f32(&shape, &vec![-7.0; count]))
            .unwrap();
        session
            .run_library("gemm.matmul", &self.attrs(), &[&a, &b], &[&out], &[])
            .unwrap();
        session.download(&out).unwrap().to_f32().unwrap()
    }

    fn expected(&self) -> Vec<f32> {
        let a = ramp(&self.shape(0), 0.02).to_f32().unwrap();
        let b = ramp(&self.shape(1), -0.05).to_f32().unwrap();
        let mut out = vec![-7.0; self.shape(2).iter().product::<i64>() as usize];
        self.naive(&a, &b, &mut out);
        out
    }
}

fn assert_close(found: &[f32], expected: &[f32], case: &Case) {
    let largest = expected.iter().fold(1.0f32, |m, v| m.max(v.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= 1e-5 * largest, "{i}: {f} {e} {case:?}");
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let batch = prop::collection::vec(1i64..4, 0..3);
    (
        batch,
        1i64..40,
        1i64..40,
        1i64..40,
        any::<[bool; 3]>(),
        any::<[bool; 6]>(),
        prop_oneof![Just([0; 3]), [0i64..4, 0..4, 0..4]],
    )
        .prop_map(|(batch, m, n, k, transpose, broadcast, pad)| {
            let operand = |flags: &[bool]| -> Vec<i64> {
                // Drop leading dimensions, or make some 1.
                let skip = if flags[0] { batch.len().min(1) } else { 0 };
                let ones = |(i, d): (usize, &i64)| if flags[1 + i % 2] { 1 } else { *d };
                batch.iter().enumerate().map(ones).skip(skip).collect()
            };
            let (a_batch, b_batch) = (operand(&broadcast[..3]), operand(&broadcast[3..]));
            Case {
                batch,
                a_batch,
                b_batch,
                m,
                n,
                k,
                transpose,
                pad,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn equals_the_definition(case in cases()) {
        let mut session = session(2);
        assert_close(&case.run(&mut session), &case.expected(), &case);
    }
}

fn square(m: i64, n: i64, k: i64) -> Case {
    Case {
        batch: vec![],
        a_batch: vec![],
        b_batch: vec![],
        m,
        n,
        k,
        transpose: [false; 3],
        pad: [0; 3],
    }
}

#[test]
fn large_products_are_cut_into_tiles_without_changing_a_bit() {
    for case in [
        square(515, 301, 130),
        Case {
            transpose: [false, true, false],
            ..square(1, 2000, 700)
        },
        Case {
            transpose: [true, false, true],
            ..square(333, 200, 400)
        },
        Case {
            batch: vec![3, 2],
            a_batch: vec![3, 2],
            ..square(100, 150, 200)
        },
        Case {
            batch: vec![6],
            a_batch: vec![6],
            b_batch: vec![6],
            ..square(128, 128, 64)
        },
    ] {
        let one = case.run(&mut session(1));
        assert_close(&one, &case.expected(), &case);
        for threads in [2, 5] {
            assert!(case.run(&mut session(threads)) == one, "{threads} {case:?}");
        }
    }
}

#[test]
fn empty_products() {
    let mut session = session(2);
    for case in [square(0, 3, 4), square(3, 0, 4), square(3, 4, 0)] {
        assert_eq!(case.run(&mut session), case.expected());
    }
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let mut session = session(1);
    let mut fail = |a: &[i64], b: &[i64], out: &[i64], attrs: &[(&str, Attr)]| {
        let [a, b, out] = [a, b, out].map(|shape| session.upload(&ramp(shape, 1.0)).unwrap());
        let attrs = attrs.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        session
            .run_library("gemm.matmul", &attrs, &[&a, &b], &[&out], &[])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fail(&[2, 3], &[4, 5], &[2, 5], &[]),
        "`gemm.matmul`: operand b has shape [4, 5], expected 3 rows and 5 columns"
    );
    assert_eq!(
        fail(&[3, 3], &[3, 5], &[2, 5], &[]),
        "`gemm.matmul`: operand a has shape [3, 3], expected 2 rows as in the output"
    );
    assert_eq!(
        fail(&[3], &[3, 5], &[2, 5], &[]),
        "`gemm.matmul`: operand a has shape [3], expected at least two dimensions"
    );
    assert_eq!(
        fail(&[4, 2, 3], &[3, 5], &[2, 2, 5], &[]),
        "`gemm.matmul`: operand a has shape [4, 2, 3], expected batch dimensions [2]"
    );
    assert_eq!(
        fail(&[2, 3], &[3, 5], &[2, 5], &[("transposed_b", Attr::Bool(true))]),
        "`gemm.matmul`: unknown attribute `transposed_b`; did you mean `transpose_b`?"
    );
    assert_eq!(
        fail(&[2, 3], &[3, 5], &[2, 5], &[("transpose_b", Attr::Int(1))]),
        "`gemm.matmul`: attribute `transpose_b` is Int(1), expected a Boolean"
    );
    assert_eq!(
        fail(&[2, 3], &[3, 5], &[2, 5], &[("k", Attr::Int(4))]),
        "`gemm.matmul`: operand a has shape [2, 3], expected room for k = 4"
    );
}

/// Throughput, for a look; prints GFLOP/s.
#[test]
fn throughput() {
    if std::env::var("RELAYOUT_SLOW").as_deref() != Ok("1") {
        println!("skipped: set RELAYOUT_SLOW=1 to measure");
        return;
    }
    for threads in [1, 2] {
        let mut session = session(threads);
        for (m, n, k) in [
            (1024, 1024, 1024),
            (128, 768, 3072),
            (256, 64, 3136),
            (1, 4096, 4096),
        ] {
            let case = square(m, n, k);
            let a = session.upload(&ramp(&case.shape(0), 0.02)).unwrap();
            let b = session.upload(&ramp(&case.shape(1), 0.02)).unwrap();
            let out = session.tensor(DType::F32, &case.shape(2)).unwrap();
            let attrs = BTreeMap::new();
            let best = (0..10)
                .map(|_| {
                    session
                        .run_library("gemm.matmul", &attrs, &[&a, &b], &[&out], &[])
                        .unwrap()
                })
                .min()
                .unwrap_or(1);
            println!(
                "{threads} threads, {m}×{n}×{k}: {:.1} GFLOP/s",
                (2 * m * n * k) as f64 / best as f64
            );
        }
    }
}
