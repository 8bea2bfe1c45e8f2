//! The content hash of an instance.

use crate::problem::Problem;

/// 32 hexadecimal digits over a canonical byte string. Every number is written as eight little-endian bytes and every
/// list is preceded by its length, so that no two different problems share a byte string.
pub(crate) fn of(problem: &Problem) -> String {
    let mut h = blake3::Hasher::new();
    h.update(b"layout-selection/1\0");
    let num = |h: &mut blake3::Hasher, v: u64| {
        h.update(&v.to_le_bytes());
    };
    let text = |h: &mut blake3::Hasher, s: &str| {
        h.update(&(s.len() as u64).to_le_bytes());
        h.update(s.as_bytes());
    };
    text(&mut h, problem.unit());
    text(&mut h, &problem.hints().map(canonical).unwrap_or_default());
    num(&mut h, problem.tensors().len() as u64);
    for t in problem.tensors() {
        num(&mut h, t.layouts.len() as u64);
        num(&mut h, u64::from(t.constant) | u64::from(t.bundle) << 1);
        for &cost in t.transpose {
            num(&mut h, cost.unwrap_or(u64::MAX));
        }
    }
    num(&mut h, problem.operators().len() as u64);
    for op in problem.operators() {
        num(&mut h, op.inputs.len() as u64);
        op.inputs.iter().for_each(|t| num(&mut h, u64::from(t.0)));
        num(&mut h, u64::from(op.output.0));
        num(&mut h, op.num_configs() as u64);
        for (_, c) in op.configs() {
            c.inputs.iter().for_each(|l| num(&mut h, u64::from(l.0)));
            num(&mut h, u64::from(c.output.0));
            num(&mut h, c.cost);
        }
    }
    h.finalize().to_hex()[..32].to_string()
}

/// Hints as text with their keys in a fixed order; the names of rules, which are for people, are left out.
fn canonical(hints: &crate::hints::Hints) -> String {
    let mut hints = hints.clone();
    hints.rules.iter_mut().for_each(|r| r.name.clear());
    serde_json::to_string(&hints).expect("plain data with string keys")
}
