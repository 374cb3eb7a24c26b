//! The error type. Messages are PyTorch's; the variant determines the Python exception.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::dtype::DType;
use crate::layout::Dims;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, with the operation and shapes involved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- shapes
    #[error(
        "The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim} \
         ({op}: shapes {} and {})", shapes.0, shapes.1
    )]
    Broadcast { op: &'static str, a: usize, b: usize, dim: usize, shapes: Box<(Dims, Dims)> },
    #[error("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -(*rank).max(1), (*rank).max(1) - 1)]
    DimRange { dim: i64, rank: i64 },
    #[error("shape '{wanted}' is invalid for input of size {numel}")]
    InvalidShape { wanted: String, numel: usize },

    // ---- dtypes
    #[error("\"{op}\" not implemented for '{}'", .dtype.scalar_name())]
    DtypeNotImplemented { op: &'static str, dtype: DType },
    #[error("result type {} can't be cast to the desired output type {}", .from.scalar_name(), .to.scalar_name())]
    ResultCast { from: DType, to: DType },

    // ---- autograd
    #[error(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have \
         already been freed). Saved intermediate values of the graph are freed when you call .backward() or \
         autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or \
         if you need to access saved tensors after calling backward."
    )]
    FreedGraph,
    /// What a handler of the host language returned where the core needs a tensor.
    #[error("__torch_dispatch__ must return the tensor that {op} computes for the library, but got None")]
    NoTensor { op: &'static str },
    #[error(
        "one of the variables needed for gradient computation has been modified by an inplace operation: \
         [torch.{ty}Tensor {shape}]{} is at version {found}; expected version {expected} instead. Hint: {}{}",
        producer.as_ref().map_or(String::new(), |p| format!(", which is output {output} of {p},")),
        if *traced {
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in question \
             was changed in there or anywhere later. Good luck!"
        } else {
            "enable anomaly detection to find the operation that failed to compute its gradient, with \
             torch.autograd.set_detect_anomaly(True, check_nan=False)."
        },
        saver.as_ref().map_or(String::new(), |s| format!(" The tensor was saved by {s}."))
    )]
    SavedVersion {
        ty: &'static str,
        shape: Box<Dims>,
        output: usize,
        /// The operation whose result the tensor now is: the last recorded one that wrote it.
        producer: Option<String>,
        /// The node that saved it.
        saver: Option<String>,
        found: u32,
        expected: u32,
        /// Whether anomaly mode has reported where that node was made.
        traced: bool,
    },

    // ---- devices
    /// An operation without a kernel for the device of an argument; the caller adds the operation's name.
    #[error(
        "{}is not implemented for the {device} device{what}; move its arguments to the CPU with .cpu()",
        .op.as_ref().map_or(String::from("this operation "), |op| format!("'{op}' "))
    )]
    DeviceNotImplemented {
        op: Option<Cow<'static, str>>,
        device: Device,
        /// Dtype and adapter in parentheses, if known.
        what: String,
    },
    #[error("Expected all tensors to be on the same device, but found at least two devices, {0} and {1}!")]
    DevicesDiffer(Device, Device),

    // ---- generic errors, by Python exception
    #[error("{0}")]
    Runtime(String),
    #[error("{0}")]
    OutOfMemory(String),
    #[error("{0}")]
    Index(String),
    #[error("{0}")]
    Type(String),
    #[error("{0}")]
    Value(String),
    #[error("{0}")]
    NotImplemented(String),
    #[error("{0}")]
    Assertion(String),
    /// A linear algebra algorithm failed.
    #[error("{0}")]
    LinAlg(String),
    /// Integer division by zero.
    #[error("ZeroDivisionError")]
    ZeroDivision,
    /// An exception raised by code outside the core, passed through the engine unchanged.
    #[error("an exception was raised by a hook or a user's function")]
    Foreign(Box<dyn std::any::Any + Send + Sync>),
}

/// The Python exception for an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Runtime,
    OutOfMemory,
    Index,
    Type,
    Value,
    NotImplemented,
    Assertion,
    LinAlg,
    Foreign,
}

impl Error {
    /// Adds the name of the operation if the error has none.
    pub fn of_operation(self, name: impl Into<Cow<'static, str>>) -> Error {
        match self {
            Error::DeviceNotImplemented { op: None, device, what } => {
                Error::DeviceNotImplemented { op: Some(name.into()), device, what }
            }
            e => e,
        }
    }

    /// Extends the message of an index error.
    pub fn map_text(self, more: impl FnOnce(&str) -> String) -> Error {
        match self {
            Error::Index(text) => Error::Index(more(&text)),
            e => e,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Error::DimRange { .. } | Error::Index(_) => Kind::Index,
            Error::OutOfMemory(_) => Kind::OutOfMemory,
            Error::Type(_) => Kind::Type,
            Error::Value(_) => Kind::Value,
            Error::NotImplemented(_)
            | Error::DtypeNotImplemented { .. }
            | Error::DeviceNotImplemented { .. } => Kind::NotImplemented,
            Error::Assertion(_) => Kind::Assertion,
            Error::LinAlg(_) => Kind::LinAlg,
            Error::Foreign(_) => Kind::Foreign,
            _ => Kind::Runtime,
        }
    }
}

static WARN: OnceLock<fn(&str) -> Result<()>> = OnceLock::new();

/// Installs the warning handler; later calls have no effect.
pub fn set_warn(warn: fn(&str) -> Result<()>) {
    WARN.get_or_init(|| warn);
}

/// Warns about something that is allowed but probably a mistake. The host language may turn warnings into errors;
/// without a handler they are dropped.
pub fn warn(text: &str) -> Result<()> {
    WARN.get().map_or(Ok(()), |warn| warn(text))
}

/// Whether `warn_once` warns every time (`torch.set_warn_always`).
pub static WARN_ALWAYS: AtomicBool = AtomicBool::new(false);

/// As [`warn`], once per process and call site.
pub fn warn_once(warned: &AtomicBool, text: &str) -> Result<()> {
    if warned.swap(true, Ordering::Relaxed) && !WARN_ALWAYS.load(Ordering::Relaxed) {
        return Ok(());
    }
    warn(text)
}

/// Note [Interruption] A loop over large operands can run for long, and Ctrl-C must not have to wait for it. So long
/// loops periodically check with the host whether to stop. A loop that can return an error does so with a
/// [`Patience`]. A parallel loop of a kernel cannot return an error; it calls [`heed_interrupt`], which unwinds to the
/// enclosing [`interruptible`] with the error as payload. Other loops of kernels do not check. Since a kernel may
/// consist of many short loops, the time of the last check is kept per thread rather than per loop.
static INTERRUPT: OnceLock<fn() -> Result<()>> = OnceLock::new();

/// The time of a thread's last check.
#[derive(Clone, Copy)]
enum Asked {
    /// Outside [`interruptible`]: nothing would catch the error.
    Never,
    /// Not checked since [`interruptible`] was entered.
    NotYet,
    At(Instant),
}

thread_local!(static ASKED: Cell<Asked> = const { Cell::new(Asked::Never) });

/// The interval between checks.
const PATIENCE: Duration = Duration::from_millis(50);

/// Installs the check that long loops call; its error means that the user wants to stop. Later calls have no effect.
pub fn set_interrupt_check(check: fn() -> Result<()>) {
    INTERRUPT.get_or_init(|| check);
}

/// An error if the user wants to stop.
pub fn check_interrupt() -> Result<()> {
    INTERRUPT.get().map_or(Ok(()), |check| check())
}

/// Runs `f`, whose parallel loops can be interrupted; see Note [Interruption].
pub fn interruptible<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    struct Reset(Asked);
    impl Drop for Reset {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }
    let _reset = Reset(ASKED.replace(Asked::NotYet));
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Error>() {
            Ok(e) => Err(*e),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// Unwinds to the enclosing [`interruptible`], if any, when the user wants to stop. Checks at most once per interval.
#[inline]
pub fn heed_interrupt() {
    match ASKED.get() {
        Asked::Never => {}
        Asked::NotYet => ASKED.set(Asked::At(Instant::now())),
        Asked::At(then) if then.elapsed() < PATIENCE => {}
        Asked::At(_) => {
            ASKED.set(Asked::NotYet);
            if let Err(e) = check_interrupt() {
                resume_unwind(Box::new(e));
            }
        }
    }
}

/// The time of a loop's last check; see Note [Interruption].
pub struct Patience(Instant);

impl Patience {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Patience {
        Patience(Instant::now())
    }

    /// An error if the user wants to stop. Checks at most once per interval.
    #[inline]
    pub fn ask(&mut self) -> Result<()> {
        if self.0.elapsed() < PATIENCE {
            return Ok(());
        }
        self.0 = Instant::now();
        check_interrupt()
    }
}

/// Returns an error: `bail!(Index, "index {i} is out of bounds")`, or `bail!(Error::FreedGraph)`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($fmt:tt)+) => { return Err($crate::error::Error::$kind(format!($($fmt)+))) };
    ($e:expr) => { return Err($e) };
}

/// Returns an error unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($rest:tt)+) => { if !$cond { $crate::bail!($($rest)+) } };
}
