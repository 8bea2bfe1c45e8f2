//! Integration tests of the models.

mod evaluate;
mod numeric;
mod onnx_import;
mod robust;
mod shared;
mod zoo;
