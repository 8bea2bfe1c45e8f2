//! The generator rule against values computed apart from it, by the rule as its documentation states it.

use relayout_ir::annotation::DType;
use relayout_ir::generate::generate;
use relayout_ir::graph::{Distribution, Generator};

fn generator(distribution: Distribution) -> Generator {
    Generator {
        seed: 7,
        key: "conv1.weight".to_owned(),
        distribution,
    }
}

#[test]
fn draws_match_the_documented_rule() {
    let uniform = generate(
        &generator(Distribution::Uniform {
            low: -0.5,
            high: 0.25,
        }),
        &[2, 2],
        DType::F32,
    );
    let bits: Vec<u32> = uniform
        .floats()
        .expect("floats")
        .iter()
        .map(|v| v.to_bits())
        .collect();
    assert_eq!(bits, [0x3db4_2040, 0x3d51_4980, 0xbd2e_9760, 0x3e26_1064]);
    let integers = generate(
        &generator(Distribution::Integers { low: -3, high: 7 }),
        &[4],
        DType::I64,
    );
    assert_eq!(integers.ints(), Some(&[-1, 3, 1, -3][..]));
}

#[test]
fn elements_depend_on_their_position_only_and_stay_in_range() {
    let rule = generator(Distribution::Uniform { low: -1.0, high: 1.0 });
    let long = generate(&rule, &[10_000], DType::F32);
    let short = generate(&rule, &[10, 10], DType::F32);
    let (long, short) = (long.floats().expect("floats"), short.floats().expect("floats"));
    assert_eq!(&long[..100], short);
    assert!(long.iter().all(|v| (-1.0..1.0).contains(v)));
    let mean = long.iter().sum::<f32>() / 1e4;
    assert!(mean.abs() < 0.03, "mean {mean}");
    let other = Generator {
        key: "conv2.weight".to_owned(),
        ..rule
    };
    assert_ne!(generate(&other, &[100], DType::F32).floats(), Some(short));
}
