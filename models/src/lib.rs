//! The models of relayout: `nn` building blocks, the model families, the zoo that names them, ONNX import, and the seed rule
//! that draws weights and inputs. Uses the IR only; knows nothing of layouts, targets or files (callers hand over bytes).

pub mod families;
pub mod inputs;
pub mod model;
pub mod nn;
pub mod onnx;
pub mod overrides;
pub mod spec;
pub mod weights;
pub mod zoo;

pub use inputs::{DataInput, InputTensor, draw_inputs};
pub use model::{Dimension, Family, Model};
pub use overrides::{OverrideValue, Overrides};
pub use spec::{ModelSource, ModelSpec};
pub use zoo::ZooError;
