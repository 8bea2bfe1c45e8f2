//! Tensors, in a few flat vectors: what belongs to one lies together, and next to it what belongs to its neighbour in the file.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::CostTerms;
use super::builder::TensorSpec;
use super::fault::{Fault, ProblemError, error};
use super::names::Names;
use crate::id::{LayoutId, TensorId};

/// A tensor: its layouts and what it costs to convert between them.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Names of the admissible layouts.
    pub layouts: &'a [String],
    /// Row-major square matrix: row = producer's layout, column = requested layout, `None` = impossible.
    pub transpose: &'a [Option<u64>],
    /// Known at compile time: repacked ahead of time, so that its conversions cost nothing.
    pub constant: bool,
    /// The tuple of a multi-output operator's results. Its conversions are impossible and never counted.
    pub bundle: bool,
    all: &'a Tensors,
    id: TensorId,
}

impl<'a> Tensor<'a> {
    /// Name, for people. Not necessarily unique.
    pub fn name(&self) -> &'a str {
        self.all.names.get(self.id.index())
    }

    /// Cost of converting from the producer's layout `from` to the requested layout `to`; `None` is impossible.
    #[inline]
    pub fn transpose(&self, from: LayoutId, to: LayoutId) -> Option<u64> {
        self.transpose[from.index() * self.layouts.len() + to.index()]
    }

    /// Terms of the conversions' costs, row-major like `transpose`; empty when there are none.
    pub fn transpose_terms(&self) -> &'a [Option<CostTerms>] {
        self.all.terms.get(&self.id).map_or(&[], Vec::as_slice)
    }
}

/// All tensors of a problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tensors {
    records: Vec<Record>,
    names: Names,
    /// Every list of names once: the tensors of a model share a few.
    layouts: Vec<Vec<String>>,
    costs: Vec<Option<u64>>,
    terms: BTreeMap<TensorId, Vec<Option<CostTerms>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Record {
    /// Where its costs start.
    costs: usize,
    /// Which list of names.
    layouts: u32,
    constant: bool,
    bundle: bool,
}

impl Tensors {
    /// The tensors that the specifications describe.
    ///
    /// # Errors
    /// The first fault of a tensor by itself.
    pub fn new(specs: Vec<TensorSpec>) -> Result<Self, ProblemError> {
        let mut all = Self::default();
        let mut lists = FxHashMap::default();
        for (i, spec) in specs.into_iter().enumerate() {
            all.push(i, spec, &mut lists)?;
        }
        all.layouts = vec![Vec::new(); lists.len()];
        for (list, i) in lists {
            all.layouts[i as usize] = list;
        }
        Ok(all)
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub fn get(&self, id: TensorId) -> Tensor<'_> {
        let record = self.records[id.index()];
        let layouts = &self.layouts[record.layouts as usize][..];
        Tensor {
            layouts,
            transpose: &self.costs[record.costs..][..layouts.len() * layouts.len()],
            constant: record.constant,
            bundle: record.bundle,
            all: self,
            id,
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> + DoubleEndedIterator + Clone {
        (0..self.records.len()).map(|i| self.get(TensorId(i as u32)))
    }

    fn push(
        &mut self,
        i: usize,
        spec: TensorSpec,
        lists: &mut FxHashMap<Vec<String>, u32>,
    ) -> Result<(), ProblemError> {
        let n = spec.layouts.len();
        let next = lists.len() as u32;
        let list = match lists.get(&spec.layouts) {
            Some(&known) => known,
            None => {
                check_names(i, &spec.layouts)?;
                lists.insert(spec.layouts, next);
                next
            }
        };
        let matrix_shape = |path: String, found| error(path, Fault::MatrixShape { found, expected: n });
        if spec.transpose.len() != n {
            return Err(matrix_shape(
                format!("tensors[{i}].transpose"),
                spec.transpose.len(),
            ));
        }
        self.names.push(&spec.name);
        self.records.push(Record {
            costs: self.costs.len(),
            layouts: list,
            constant: spec.constant,
            bundle: spec.bundle,
        });
        for (r, row) in spec.transpose.into_iter().enumerate() {
            if row.len() != n {
                return Err(matrix_shape(format!("tensors[{i}].transpose[{r}]"), row.len()));
            }
            if row[r] != Some(0) {
                return Err(error(
                    format!("tensors[{i}].transpose[{r}][{r}]"),
                    Fault::Diagonal { found: row[r] },
                ));
            }
            for (c, &cost) in row.iter().enumerate() {
                let path = || format!("tensors[{i}].transpose[{r}][{c}]");
                if spec.constant && cost != Some(0) {
                    return Err(error(path(), Fault::ConstantTranspose { found: cost }));
                }
                if let (true, true, Some(found)) = (spec.bundle, r != c, cost) {
                    return Err(error(path(), Fault::BundleTranspose { found }));
                }
            }
            self.costs.extend(row);
        }
        if spec.transpose_terms.is_empty() {
            return Ok(());
        }
        if spec.transpose_terms.len() != n {
            return Err(matrix_shape(
                format!("tensors[{i}].transpose_terms"),
                spec.transpose_terms.len(),
            ));
        }
        let mut terms = Vec::with_capacity(n * n);
        for (r, row) in spec.transpose_terms.into_iter().enumerate() {
            if row.len() != n {
                return Err(matrix_shape(
                    format!("tensors[{i}].transpose_terms[{r}]"),
                    row.len(),
                ));
            }
            terms.extend(row);
        }
        self.terms.insert(TensorId::new(i), terms);
        Ok(())
    }
}

fn check_names(i: usize, names: &[String]) -> Result<(), ProblemError> {
    if names.is_empty() {
        return Err(error(format!("tensors[{i}].layouts"), Fault::NoLayouts));
    }
    let mut seen = FxHashSet::default();
    for (k, name) in names.iter().enumerate() {
        if !seen.insert(name.as_str()) {
            let fault = Fault::DuplicateLayout { name: name.clone() };
            return Err(error(format!("tensors[{i}].layouts[{k}]"), fault));
        }
    }
    Ok(())
}
