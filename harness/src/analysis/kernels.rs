//! What layouts are worth kernel by kernel: the profile's variants of one operation, side by side.

use crate::profiler::UnitTiming;
use serde::Serialize;
use std::collections::BTreeMap;

/// One way to compute an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelVariant {
    /// Layouts of operands and result, implementation.
    pub variant: String,
    /// Median of the profile's samples.
    pub nanoseconds: u64,
}

/// An operation that was timed under several layouts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelOperation {
    /// Operator, extents, attributes, values of symbolic dimensions.
    pub operation: String,
    /// Its variants, fastest first.
    pub variants: Vec<KernelVariant>,
}

impl KernelOperation {
    /// How many times as long the second fastest takes; 1 without one.
    pub fn lead(&self) -> f64 {
        match self.variants.as_slice() {
            [first, second, ..] => second.nanoseconds as f64 / first.nanoseconds.max(1) as f64,
            _ => 1.0,
        }
    }
}

/// One variant of an operator over all operations that offer it beside another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelClass {
    /// Operator.
    pub operator: String,
    /// Layouts and implementation.
    pub variant: String,
    /// Operations that were timed in this variant and another.
    pub compared: usize,
    /// Operations in which it is the fastest.
    pub fastest: usize,
    /// Its greatest lead over the second fastest (how many times as long that takes), and where; `None` where it never leads.
    pub best: Option<(f64, String)>,
}

/// The operations of a profile that were timed in at least two variants, in the order of their text. Conversions compete with
/// nothing and are left out. O(n log n).
pub fn kernel_operations(units: &[UnitTiming]) -> Vec<KernelOperation> {
    let mut groups: BTreeMap<&str, Vec<KernelVariant>> = BTreeMap::new();
    for unit in units
        .iter()
        .filter(|u| operator(&u.operation) != "layout_transform")
    {
        groups.entry(&unit.operation).or_default().push(KernelVariant {
            variant: unit.variant.clone(),
            nanoseconds: unit.nanoseconds,
        });
    }
    groups
        .into_iter()
        .filter(|(_, variants)| variants.len() > 1)
        .map(|(operation, mut variants)| {
            variants.sort_by(|a, b| (a.nanoseconds, &a.variant).cmp(&(b.nanoseconds, &b.variant)));
            KernelOperation {
                operation: operation.to_owned(),
                variants,
            }
        })
        .collect()
}

/// The variants of each operator, the one that is most often the fastest first.
pub fn kernel_classes(operations: &[KernelOperation]) -> Vec<KernelClass> {
    let mut classes: BTreeMap<(&str, &str), KernelClass> = BTreeMap::new();
    for operation in operations {
        let name = operator(&operation.operation);
        for (rank, variant) in operation.variants.iter().enumerate() {
            let class = classes
                .entry((name, &variant.variant))
                .or_insert_with(|| KernelClass {
                    operator: name.to_owned(),
                    variant: variant.variant.clone(),
                    compared: 0,
                    fastest: 0,
                    best: None,
                });
            class.compared += 1;
            if rank == 0 {
                class.fastest += 1;
                let lead = operation.lead();
                if class.best.as_ref().is_none_or(|(best, _)| lead > *best) {
                    class.best = Some((lead, operation.operation.clone()));
                }
            }
        }
    }
    let mut classes: Vec<KernelClass> = classes.into_values().collect();
    classes.sort_by(|a, b| {
        a.operator
            .cmp(&b.operator)
            .then(b.fastest.cmp(&a.fastest))
            .then_with(|| a.variant.cmp(&b.variant))
    });
    classes
}

fn operator(operation: &str) -> &str {
    operation.split_whitespace().next().unwrap_or_default()
}
