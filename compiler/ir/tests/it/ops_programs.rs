//! What legalisation prints for the layouts that matter: indices must come out without quotients and remainders.

use super::cases::{attrs, dims};
use expect_test::{Expect, expect};
use relayout_ir::annotation::{Annotation, DType, TensorInfo};
use relayout_ir::graph::{Attr, Attrs, SymDecl};
use relayout_ir::layout::{Layout, Split};
use relayout_ir::op::{self, LegaliseCall};
use relayout_ir::sym::{SymExpr, SymVar};
use relayout_ir::text::print_program;

fn pieces(rank: usize, list: &[(u8, u32)]) -> Layout {
    let splits = list.iter().map(|(axis, f)| Split {
        axis: *axis,
        factor: (*f > 0).then_some(*f),
    });
    Layout::new(rank, splits.collect()).unwrap()
}

fn check(name: &str, args: Vec<(Vec<SymExpr>, Layout)>, out: Layout, attrs: Attrs, expected: Expect) {
    let op = op::by_name(name).unwrap().get();
    let infos: Vec<TensorInfo> = args
        .into_iter()
        .map(|(d, l)| TensorInfo::new(d, DType::F32).in_layout(l))
        .collect();
    let annotations: Vec<Annotation> = infos.iter().cloned().map(Annotation::Tensor).collect();
    let result = op.infer(&annotations.iter().collect::<Vec<_>>(), &attrs).unwrap();
    let program = op.legalise(&LegaliseCall {
        args: infos,
        out: result.as_tensor().unwrap().in_layout(out),
        attrs: &attrs,
        name: name.to_owned(),
        syms: vec![SymDecl {
            var: SymVar::new("n"),
            low: 1,
            high: Some(64),
        }],
    });
    expected.assert_eq(&print_program(&program.unwrap_or_else(|e| panic!("{e}"))));
}

fn batch(rest: &[i64]) -> Vec<SymExpr> {
    [vec![SymExpr::named("n")], dims(rest)].concat()
}

#[test]
fn blocked_convolution_with_padding() {
    let nchw16c = Layout::blocked(4, 1, 16);
    let weight = pieces(4, &[(0, 0), (1, 0), (2, 0), (3, 0), (1, 16), (0, 16)]);
    let extra = attrs([
        ("pads", Attr::Ints(vec![1, 1, 1, 1])),
        ("strides", Attr::Ints(vec![2, 2])),
    ]);
    let args = vec![
        (batch(&[64, 56, 56]), nchw16c.clone()),
        (dims(&[128, 64, 3, 3]), weight),
    ];
    check(
        "conv2d",
        args,
        nchw16c,
        extra,
        expect![[r#"
        program @conv2d(n) {
          input in0: f32[n, 4, 56, 56, 16]
          input in1: f32[8, 4, 3, 3, 16, 16]
          output out: f32[n, 8, 28, 28, 16]
          workspace padded: f32[n, 4, 58, 58, 16]
          for (i0: n, i1: 4, i2: 58, i3: 58, i4: 16) {
            padded[i0, i1, i2, i3, i4] = select(and(and(and(less_equal(index(1), index(i2)), less(index(i2), index(57))), less_equal(index(1), index(i3))), less(index(i3), index(57))), in0[i0, i1, i2 - 1, i3 - 1, i4], f32(0.0))
          }
          for (i0: n, i1: 8, i2: 28, i3: 28, i4: 16, reduce r0: 4, reduce r1: 3, reduce r2: 3, reduce r3: 16) {
            out[i0, i1, i2, i3, i4] = contract(padded[i0, r0, i2*2 + r1, i3*2 + r2, r3], in1[i1, r0, r1, r2, r3, i4])
          }
        }
    "#]],
    );
}

#[test]
fn first_convolution_changes_layout() {
    let weight = pieces(4, &[(0, 0), (2, 0), (3, 0), (1, 0), (0, 16)]);
    let args = vec![
        (batch(&[3, 230, 230]), Layout::row_major(4)),
        (dims(&[64, 3, 7, 7]), weight),
    ];
    let extra = attrs([("strides", Attr::Ints(vec![2, 2]))]);
    check(
        "conv2d",
        args,
        Layout::blocked(4, 1, 16),
        extra,
        expect![[r#"
        program @conv2d(n) {
          input in0: f32[n, 3, 230, 230]
          input in1: f32[4, 7, 7, 3, 16]
          output out: f32[n, 4, 112, 112, 16]
          for (i0: n, i1: 4, i2: 112, i3: 112, i4: 16, reduce r0: 3, reduce r1: 7, reduce r2: 7) {
            out[i0, i1, i2, i3, i4] = contract(in0[i0, r0, i2*2 + r1, i3*2 + r2], in1[i1, r1, r2, r0, i4])
          }
        }
    "#]],
    );
}

#[test]
fn depthwise_convolution_has_no_channel_loop() {
    let nhwc = Layout::permuted(&[0, 2, 3, 1]);
    let weight = Layout::permuted(&[2, 3, 1, 0]);
    let args = vec![(batch(&[32, 8, 8]), nhwc.clone()), (dims(&[32, 1, 3, 3]), weight)];
    check(
        "conv2d",
        args,
        nhwc,
        attrs([("groups", Attr::Int(32))]),
        expect![[r#"
            program @conv2d(n) {
              input in0: f32[n, 8, 8, 32]
              input in1: f32[3, 3, 1, 32]
              output out: f32[n, 6, 6, 32]
              for (i0: n, i1: 6, i2: 6, i3: 32, reduce r0: 3, reduce r1: 3) {
                out[i0, i1, i2, i3] = contract(in0[i0, i1 + r0, i2 + r1, i3], in1[r0, r1, 0, i3])
              }
            }
        "#]],
    );
}

#[test]
fn matmul_with_a_transposed_operand() {
    let args = vec![
        (batch(&[128, 768]), Layout::row_major(3)),
        (dims(&[768, 3072]), Layout::permuted(&[1, 0])),
    ];
    check(
        "matmul",
        args,
        Layout::row_major(3),
        Attrs::new(),
        expect![[r#"
            program @matmul(n) {
              input in0: f32[n, 128, 768]
              input in1: f32[3072, 768]
              output out: f32[n, 128, 3072]
              for (i0: n, i1: 128, i2: 3072, reduce r0: 768) {
                out[i0, i1, i2] = contract(in0[i0, i1, r0], in1[i2, r0])
              }
            }
        "#]],
    );
}

#[test]
fn softmax_stages_share_their_outer_loops() {
    let args = vec![(batch(&[12, 128, 128]), Layout::row_major(4))];
    check(
        "softmax",
        args,
        Layout::row_major(4),
        attrs([("axis", Attr::Int(3))]),
        expect![[r#"
            program @softmax(n) {
              input in0: f32[n, 12, 128, 128]
              output out: f32[n, 12, 128, 128]
              workspace largest: f32[n, 12, 128]
              workspace sum: f32[n, 12, 128]
              for (i0: n, i1: 12, i2: 128, reduce r0: 128) {
                largest[i0, i1, i2] = reduce max(in0[i0, i1, i2, r0])
              }
              for (i0: n, i1: 12, i2: 128, reduce r0: 128) {
                sum[i0, i1, i2] = reduce sum(exp(sub(in0[i0, i1, i2, r0], largest[i0, i1, i2])))
              }
              for (i0: n, i1: 12, i2: 128, i3: 128) {
                out[i0, i1, i2, i3] = div(exp(sub(in0[i0, i1, i2, i3], largest[i0, i1, i2])), sum[i0, i1, i2])
              }
            }
        "#]],
    );
}

#[test]
fn layout_transform_into_blocks() {
    let target = Layout::blocked(4, 1, 16);
    let args = vec![(batch(&[64, 7, 7]), Layout::permuted(&[0, 2, 3, 1]))];
    let extra = attrs([("layout", Attr::Layout(target.clone()))]);
    check(
        "layout_transform",
        args,
        target,
        extra,
        expect![[r#"
        program @layout_transform(n) {
          input in0: f32[n, 7, 7, 64]
          output out: f32[n, 4, 7, 7, 16]
          for (i0: n, i1: 4, i2: 7, i3: 7, i4: 16) {
            out[i0, i1, i2, i3, i4] = in0[i0, i2, i3, i1*16 + i4]
          }
        }
    "#]],
    );
}

#[test]
fn inexact_blocks_are_refused() {
    let attrs = Attrs::new();
    let info = TensorInfo::new(dims(&[2, 6]), DType::F32).in_layout(Layout::blocked(2, 1, 4));
    let call = LegaliseCall {
        args: vec![info.clone()],
        out: info,
        attrs: &attrs,
        name: "relu".to_owned(),
        syms: Vec::new(),
    };
    let error = op::by_name("relu").unwrap().get().legalise(&call).unwrap_err();
    assert_eq!(
        error.to_string(),
        "relu: layout (0,1,1:4) on in0: block 4 does not provably divide extent 6"
    );
}

#[test]
fn division_by_a_symbolic_extent_is_refused() {
    let n = || SymExpr::named("n");
    let m = || SymExpr::named("m");
    let attrs = attrs([("shape", Attr::Shape(vec![m() * n()]))]);
    let call = LegaliseCall {
        args: vec![TensorInfo::new(vec![m(), n()], DType::F32)],
        out: TensorInfo::new(vec![m() * n()], DType::F32),
        attrs: &attrs,
        name: "reshape".to_owned(),
        syms: Vec::new(),
    };
    let error = op::by_name("reshape").unwrap().get().legalise(&call).unwrap_err();
    assert!(error.to_string().contains("would divide by n"), "{error}");
}
