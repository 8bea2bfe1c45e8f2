//! The prover never claims what evaluation refutes, and shows what passes rely on.

use proptest::prelude::*;
use relayout_ir::graph::SymDecl;
use relayout_ir::prove::{Proof, Prover};
use relayout_ir::sym::{SymExpr, SymVar};

fn declare(ranges: &[(&str, i64, Option<i64>)]) -> Vec<SymDecl> {
    ranges
        .iter()
        .map(|(name, low, high)| SymDecl {
            var: SymVar::new(name),
            low: *low,
            high: *high,
        })
        .collect()
}

fn v(name: &str) -> SymExpr {
    SymExpr::named(name)
}

fn c(value: i64) -> SymExpr {
    SymExpr::constant(value)
}

#[test]
fn facts_that_passes_need() {
    let p = Prover::new(&declare(&[
        ("n", 1, Some(100)),
        ("m", 1, None),
        ("i", 0, Some(15)),
    ]));
    assert_eq!(p.equal(&(v("n") * c(4)), &(c(2) * v("n") * c(2))), Proof::Equal);
    assert_eq!(p.equal(&(v("n") + c(1)), &v("n")), Proof::Different);
    assert_eq!(p.equal(&v("n"), &v("m")), Proof::Unknown);
    assert_eq!(p.equal(&v("n"), &c(200)), Proof::Different);
    assert_eq!(p.equal(&(v("n") * c(2)), &c(7)), Proof::Different);
    let whole = v("n").floor_div(16) * c(16) + v("n").modulo(16);
    assert_eq!(p.equal(&whole, &v("n")), Proof::Equal);
    assert_eq!(p.simplify(&(v("n") * c(16) + v("i")).floor_div(16)), v("n"));
    assert_eq!(p.simplify(&(v("n") * c(16) + v("i")).modulo(16)), v("i"));
    assert_eq!(p.simplify(&v("n").minimum(&c(100))), v("n"));
    assert_eq!(p.simplify(&v("m").maximum(&c(1))), v("m"));
    assert_eq!(p.bounds(&(v("n") * c(4) - c(1))), (Some(3), Some(399)));
    assert_eq!(p.bounds(&(v("n") * v("m"))), (Some(1), None));
    assert!(p.divisible(&(v("n") * c(12) + c(6)), 6));
    assert!(!p.divisible(&(v("n") * c(3)), 6));
    assert!(p.less_equal(&v("n"), &(v("n") * v("m"))) || p.bounds(&(v("n") * v("m") - v("n"))).0.is_none());
    assert!(p.less_equal(&v("n"), &c(100)) && !p.less_equal(&v("m"), &c(100)));
}

fn expr() -> impl Strategy<Value = SymExpr> {
    let leaf = prop_oneof![
        (-9i64..10).prop_map(c),
        prop_oneof![Just("a"), Just("b"), Just("z")].prop_map(v),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            pair.clone().prop_map(|(a, b)| a + b),
            pair.clone().prop_map(|(a, b)| a - b),
            pair.clone().prop_map(|(a, b)| a * b),
            pair.clone().prop_map(|(a, b)| a.minimum(&b)),
            pair.prop_map(|(a, b)| a.maximum(&b)),
            (inner.clone(), 1i64..20).prop_map(|(a, d)| a.floor_div(d)),
            (inner, 1i64..20).prop_map(|(a, d)| a.modulo(d)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_claim_holds_at_every_point(
        e in expr(), f in expr(), d in 1i64..12,
        points in prop::collection::vec((0i64..=12, -5i64..=5, 1i64..1000), 8),
    ) {
        let p = Prover::new(&declare(&[("a", 0, Some(12)), ("b", -5, Some(5)), ("z", 1, None)]));
        let (equal, simple) = (p.equal(&e, &f), p.simplify(&e));
        let (low, high) = p.bounds(&e);
        let (divides, below) = (p.divisible(&e, d), p.less_equal(&e, &f));
        for (a, b, z) in points {
            let at = |x: &SymVar| Some(match x.name() { "a" => a, "b" => b, _ => z });
            let (Some(x), Some(y)) = (e.eval(&at), f.eval(&at)) else { continue };
            prop_assert_eq!(simple.eval(&at), Some(x), "simplified {:?} to {:?}", e, simple);
            prop_assert!(low.is_none_or(|l| l <= x) && high.is_none_or(|h| x <= h), "{:?} = {} outside {:?}", e, x, (low, high));
            match equal {
                Proof::Equal => prop_assert_eq!(x, y),
                Proof::Different => prop_assert_ne!(x, y),
                Proof::Unknown => {}
            }
            prop_assert!(!divides || x % d == 0, "{} divides {:?} = {}", d, e, x);
            prop_assert!(!below || x <= y, "{:?} = {} above {:?} = {}", e, x, f, y);
        }
    }
}
