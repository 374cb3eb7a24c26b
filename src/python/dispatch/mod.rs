//! `__torch_dispatch__`: classes and modes that compute operations below autograd.
//!
//! | file | what |
//! | --- | --- |
//! | `hosting.rs` | tensors whose class computes their operations, and their objects |
//! | `modes.rs` | modes, as interpreters |
//! | `calls.rs` | calls of operations: who computes them, and what history their results get |
//! | `nodes.rs` | nodes whose derivative handlers compute |
//! | `functions.rs` | calls of functions that are not in the table |
//! | `handlers.rs` | calling handlers |
//! | `arguments.rs` | arguments as objects |
//!
//! How a call is shown is decided in Python: `rgrad._dispatch`.

mod arguments;
mod calls;
mod functions;
mod handlers;
mod hosting;
mod modes;
mod nodes;

pub use calls::or_none;
pub use functions::{call_torch_dispatch, record_written_by};
pub use handlers::forget_last;
pub use hosting::{
    Hosted, any_asks_class, asks_class, by_class, host_by_class, is_wrapper, keep_object, kept_object,
    make_wrapper, meet_dispatch, shown_device, value_by_class, wraps,
};
pub use modes::{
    any_mode, dispatch_disabled, dispatch_modes, pop_dispatch_mode, push_dispatch_mode, set_below_autograd,
    set_dispatch_disabled,
};
