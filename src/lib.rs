//! rgrad: PyTorch's eager API on a Rust core.
//!
//! Layers. Each uses only the layers below it (`tests/layers.rs` checks this):
//!
//! | layer | contents |
//! | --- | --- |
//! | `python` | the binding: converts arguments, enters Rust, converts errors |
//! | `engine`, `optim` | the backward engine; optimizer steps over lists of tensors |
//! | `ops` | the operations: their table and the functions behind it |
//! | `graph`, `tensor` | tensors, nodes, edges, saved tensors, hooks, views |
//! | `backend` | kernels, and a driver for each kernel family |
//! | `storage`, `formula` | memory; the expression language of pointwise kernels |
//! | `layout`, `dtype`, `device`, `error` | basic types |

pub mod backend;
pub mod device;
pub mod dtype;
pub mod engine;
pub mod error;
pub mod formula;
pub mod graph;
pub mod layout;
pub mod ops;
pub mod optim;
#[cfg(feature = "python")]
mod python;
pub mod storage;
pub mod tensor;

pub use device::Device;
pub use dtype::{DType, Scalar};
pub use error::{Error, Result};
pub use tensor::Tensor;

#[cfg(feature = "python")]
#[global_allocator]
static SMALL_OBJECTS: storage::alloc::SmallObjects = storage::alloc::SmallObjects;
