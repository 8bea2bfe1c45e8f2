//! Logical-dimension groups: dimensions of different tensors that some chain of operators maps onto each other.

use std::collections::BTreeMap;

use super::view::View;
use crate::id::{LayoutId, TensorId};

/// The groups of an instance.
pub struct Groups {
    /// Number of the first dimension of each tensor.
    starts: Vec<usize>,
    /// Group per dimension.
    of: Vec<u32>,
    count: usize,
}

impl Groups {
    /// Unites what any operator gives one label. Near linear in the number of dimensions.
    pub fn of(view: &View<'_>) -> Self {
        let mut starts = vec![0; view.tensors() + 1];
        for t in 0..view.tensors() {
            starts[t + 1] = starts[t] + view.tensor_hints(TensorId::new(t)).rank;
        }
        let mut parents: Vec<u32> = (0..starts[view.tensors()] as u32).collect();
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        for (inputs, output, map) in view.maps() {
            first.clear();
            let operands = inputs.iter().zip(&map.inputs).chain([(&output, &map.out)]);
            for (t, labels) in operands {
                for (d, label) in labels.iter().enumerate() {
                    let Some(label) = label else { continue };
                    let dimension = (starts[t.index()] + d) as u32;
                    let other = *first.entry(*label).or_insert(dimension);
                    let (a, b) = (root(&mut parents, dimension), root(&mut parents, other));
                    parents[a.max(b) as usize] = a.min(b);
                }
            }
        }
        let mut count = 0;
        let mut of = vec![0; parents.len()];
        for dimension in 0..parents.len() {
            // Roots come before the rest of their group.
            let r = root(&mut parents, dimension as u32) as usize;
            of[dimension] = if r == dimension {
                count += 1;
                count as u32 - 1
            } else {
                of[r]
            };
        }
        Self { starts, of, count }
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The group of the dimension that a layout singles out.
    pub fn of_layout(&self, view: &View<'_>, t: TensorId, l: LayoutId) -> Option<u32> {
        let dim = view.layout_hints(t, l).dim?;
        Some(self.of[self.starts[t.index()] + dim])
    }
}

fn root(parents: &mut [u32], mut at: u32) -> u32 {
    while parents[at as usize] != at {
        parents[at as usize] = parents[parents[at as usize] as usize];
        at = parents[at as usize];
    }
    at
}
