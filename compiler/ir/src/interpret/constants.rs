//! Constants made concrete, drawn or decoded once.

use super::error::InterpretError;
use crate::generate::generate;
use crate::graph::{Constant, ConstantData};
use crate::tensor::Tensor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tensors by name, each with the constant it was made from.
type Kept = HashMap<String, (Constant, Arc<Tensor>)>;

/// Materialises constants; the ones kept are shared by all runs and modules that use the store.
#[derive(Default)]
pub struct ConstantStore {
    kept: Option<Mutex<Kept>>,
}

impl ConstantStore {
    /// A store that keeps every tensor it has made: models are run several times without drawing their weights again.
    pub fn keeping() -> Self {
        ConstantStore {
            kept: Some(Mutex::default()),
        }
    }
    /// A store that keeps nothing: a model's weights are never all in memory at once.
    pub fn transient() -> Self {
        ConstantStore::default()
    }
    /// The tensor of a constant.
    ///
    /// # Errors
    /// When inline bytes are not as many as the shape and type take.
    pub fn get(&self, constant: &Constant) -> Result<Arc<Tensor>, InterpretError> {
        let Some(kept) = &self.kept else {
            return materialise(constant).map(Arc::new);
        };
        // A panic in another thread leaves only whole entries behind.
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.get(&constant.name) {
            Some((same, tensor)) if is_same(same, constant) => Ok(tensor.clone()),
            _ => {
                let tensor = Arc::new(materialise(constant)?);
                kept.insert(constant.name.clone(), (constant.clone(), tensor.clone()));
                Ok(tensor)
            }
        }
    }
}

/// Equality that compares inline bytes by identity first.
fn is_same(a: &Constant, b: &Constant) -> bool {
    match (&a.data, &b.data) {
        (ConstantData::Inline(x), ConstantData::Inline(y)) if Arc::ptr_eq(x, y) => {
            a.shape == b.shape && a.dtype == b.dtype
        }
        _ => a == b,
    }
}

fn materialise(constant: &Constant) -> Result<Tensor, InterpretError> {
    match &constant.data {
        ConstantData::Generated(generator) => Ok(generate(generator, &constant.shape, constant.dtype)),
        ConstantData::Inline(bytes) => Tensor::from_bytes(constant.shape.clone(), constant.dtype, bytes)
            .map_err(|e| InterpretError::Malformed {
                place: format!("constant `{}`", constant.name),
                problem: e.to_string(),
            }),
    }
}
