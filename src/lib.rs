//! rgrad: PyTorch's eager API on a Rust core.
//!
//! Layers, each of which uses only what stands below it (`tests/layers.rs` checks):
//!
//! | layer | what it holds |
//! | --- | --- |
//! | `python` | the binding: converts arguments, enters Rust, converts errors |
//! | `engine`, `optim` | runs backward; optimizer steps over lists of tensors |
//! | `ops` | what an operation is: table rows and functions |
//! | `graph`, `tensor` | tensors, nodes, edges, saved tensors, hooks, views |
//! | `backend` | kernels, a driver per family |
//! | `storage`, `formula` | memory; what a formula may say |
//! | `layout`, `dtype`, `device`, `error` | the vocabulary |

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
