//! The generator rule stands in two crates that may not know each other; here they are held together.

use proptest::prelude::*;
use relayout_compiler::canonicalise::encode;
use relayout_ir::annotation::DType;
use relayout_ir::graph::{Distribution, Generator};
use relayout_runtime::module as rt;

proptest! {
    #[test]
    fn interpreter_and_runtime_draw_the_same_bytes(
        seed: u64,
        key in "[a-z./_0-9é]{0,24}",
        count in 0usize..200,
        low in -100i64..100,
        span in 1i64..27,
        kind in 0usize..6,
    ) {
        let dtype = [DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I8][kind];
        let (ours, theirs) = if dtype.is_float() {
            let (low, high) = (low as f32 / 7.0, (low + span) as f32 / 7.0);
            (Distribution::Uniform { low, high }, rt::Distribution::Uniform { low, high })
        } else {
            let high = low + span;
            (Distribution::Integers { low, high }, rt::Distribution::Integers { low, high })
        };
        let generator = Generator { seed, key: key.clone(), distribution: ours };
        let reference = encode(&relayout_ir::generate::generate(&generator, &[count], dtype));
        let generator = rt::Generator { seed, key, distribution: theirs };
        let mut drawn = vec![0; count * dtype.bytes()];
        relayout_runtime::generate::generate(&generator, relayout_compiler::vmgen::dtype(dtype), &mut drawn, 1)
            .expect("a valid distribution");
        prop_assert_eq!(drawn, reference);
    }
}
