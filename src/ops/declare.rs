//! The declarations of operations that are not pointwise, and the functions by which Rust calls them.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::interpreter::{self, Caller, Form, OpCall};
use super::pointwise::Arg;
use super::random::Generator;
use super::schema::{Args, Op, Out, Overload, Value};
use crate::bail;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::Tensor;

/// Declares the operations of a file: the table `OPS`, and the Rust functions by which the core calls them. An operation
/// has a docstring, PyTorch's name, its namespaces, and a line for each signature.
///
/// ```ignore
/// ops! {
///     /// A view of `length` indices of a dimension from `start`.
///     "narrow" BOTH, autocast LOWER {
///         // For programs only: the function after `=>` takes unconverted values (`Args`).
///         (input: Tensor, dim: int, start: Tensor, length: int) => narrow_from_tensor;
///         // Also for Rust: a function with these types, which asks the interpreters and then calls the function after `=`.
///         pub fn narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor = narrowed;
///         // Another function for Rust: interpreters see a call of the signature above with the values after `as`.
///         pub fn head(t: &Tensor, length: usize) -> Tensor as (t, 0, 0, length) = first_of;
///     }
/// }
/// ```
///
/// A function for Rust costs one load if no thread has an interpreter: Note [One door]. The namespaces may be followed by
/// `aliases [...]`, `autocast POLICY`, `out POLICY`, `batch RULE` and `samples [...]`. `=> composite` marks a signature
/// composed of other operations, `=> row` calls a pointwise operation, and `=> row_of` the call that the function after it
/// returns. `=> function, row other` has a function `other` that returns such a call for some arguments, and `..NAME` appends the
/// text of a constant to a signature.
#[macro_export]
macro_rules! ops {
    ($(
        $(#[doc = $doc:literal])+
        $name:literal $($exposure:ident)|+ $(, aliases $aliases:tt)? $(, autocast $cast:ident)?
        $(, out $out:ident)? $(, batch $batch:ident)? $(, samples $samples:tt)? { $($lines:tt)+ }
    )*) => {
        pub static OPS: &[$crate::ops::schema::Op] = &[$($crate::ops::schema::Op {
            name: $name,
            doc: concat!($($doc),+),
            exposure: $crate::ops::schema::Exposure::NONE$(.and($crate::ops::schema::Exposure::$exposure))+,
            $(aliases: &$aliases,)?
            $(autocast: $crate::ops::autocast::CastPolicy::$cast,)?
            $(out: $crate::ops::out_policy::OutPolicy::$out,)?
            $(batch: $crate::ops::batching::Batch::$batch,)?
            $(samples: &$samples,)?
            overloads: $crate::ops!(@overloads [] $($lines)+),
            ..$crate::ops::schema::Op::NEW
        }),*];
        $($crate::ops! { @functions $name () $($lines)+ })*
    };

    // The overloads.
    (@overloads [$($done:tt)*]) => { &[$($done)*] };
    (@overloads $done:tt $(#[$note:meta])* $vis:vis fn $fn:ident $params:tt -> $result:ty as $values:tt = $body:expr;
     $($rest:tt)*) => {
        $crate::ops!(@overloads $done $($rest)*)
    };
    (@overloads [$($done:tt)*] $(#[$note:meta])* $vis:vis fn $fn:ident $params:tt
     -> $result:ident $([$($of:ident),*])? = $body:expr; $($rest:tt)*) => {
        $crate::ops!(@overloads [$($done)* $crate::ops::schema::Overload {
            sig: $crate::ops!(@text $params [$result $([$($of),*])?]),
            call: $crate::ops::schema::Call::Fn(|a| $crate::ops!(@typed a $body, $params)),
        },] $($rest)*)
    };
    (@overloads [$($done:tt)*] $params:tt $(-> $result:ident $([$($of:ident),*])?)? => composite $body:expr;
     $($rest:tt)*) => {
        $crate::ops!(@overloads [$($done)* $crate::ops::schema::Overload {
            sig: $crate::ops!(@text $params [$($result $([$($of),*])?)?]),
            call: $crate::ops::schema::Call::Composite($body),
        },] $($rest)*)
    };
    (@overloads [$($done:tt)*] $params:tt $(-> $result:ident $([$($of:ident),*])?)? => row $row:expr; $($rest:tt)*) => {
        $crate::ops!(@overloads [$($done)* $crate::ops::schema::Overload {
            sig: $crate::ops!(@text $params [$($result $([$($of),*])?)?]),
            call: $crate::ops::schema::Call::Row(&$row),
        },] $($rest)*)
    };
    (@overloads $done:tt $params:tt $(-> $result:ident $([$($of:ident),*])?)? => row_of $row:expr; $($rest:tt)*) => {
        $crate::ops!(@overloads $done $params $(-> $result $([$($of),*])?)? =>
            |a| $row(a)?.call(), row |a| $row(a).map(Some); $($rest)*)
    };
    (@overloads [$($done:tt)*] $params:tt $(-> $result:ident $([$($of:ident),*])?)? => $body:expr, row $row:expr;
     $($rest:tt)*) => {
        $crate::ops!(@overloads [$($done)* $crate::ops::schema::Overload {
            sig: $crate::ops!(@text $params [$($result $([$($of),*])?)?]),
            call: $crate::ops::schema::Call::FnOrRow { call: $body, row: $row },
        },] $($rest)*)
    };
    (@overloads [$($done:tt)*] $params:tt $(-> $result:ident $([$($of:ident),*])?)? => $body:expr; $($rest:tt)*) => {
        $crate::ops!(@overloads [$($done)* $crate::ops::schema::Overload {
            sig: $crate::ops!(@text $params [$($result $([$($of),*])?)?]),
            call: $crate::ops::schema::Call::Fn($body),
        },] $($rest)*)
    };

    // The functions for Rust. `$last` is the latest signature.
    (@functions $op:literal $last:tt) => {};
    (@functions $op:literal $last:tt $(#[$note:meta])* $vis:vis fn $fn:ident($($arg:ident: $type:ty),* $(,)?)
     -> $result:ty as ($($value:expr),* $(,)?) = $body:expr; $($rest:tt)*) => {
        $(#[$note])*
        #[inline]
        $vis fn $fn($($arg: $type),*) -> $crate::error::Result<$result> {
            $crate::ops!(@door $op $last ($($value),*));
            $body($($arg),*)
        }
        $crate::ops! { @functions $op $last $($rest)* }
    };
    (@functions $op:literal $last:tt $(#[$note:meta])* $vis:vis fn $fn:ident $params:tt
     -> $result:ident $([$($of:ident),*])? = $body:expr; $($rest:tt)*) => {
        $crate::ops! { @function $op [$(#[$note])* $vis] $fn $params $params [$result $([$($of),*])?] $body }
        $crate::ops! { @functions $op ($params [$result $([$($of),*])?]) $($rest)* }
    };
    (@functions $op:literal $last:tt $params:tt $(-> $result:ident $([$($of:ident),*])?)? => $kind:ident $body:expr;
     $($rest:tt)*) => {
        $crate::ops! { @functions $op ($params [$($result $([$($of),*])?)?]) $($rest)* }
    };
    (@functions $op:literal $last:tt $params:tt $(-> $result:ident $([$($of:ident),*])?)? => $body:expr $(, row $row:expr)?;
     $($rest:tt)*) => {
        $crate::ops! { @functions $op ($params [$($result $([$($of),*])?)?]) $($rest)* }
    };
    (@function $op:literal [$(#[$note:meta])* $vis:vis] $fn:ident ($($arg:ident: $type:ident
        $(? $($q:lifetime)?)? $([$($l:lifetime)?] $(? $($r:lifetime)?)?)? $(* $($v:lifetime)?)? $(= $default:expr)?),+
        $(, * $(, $named:ident: $named_type:ident
        $(? $($nq:lifetime)?)? $([$($nl:lifetime)?] $(? $($nr:lifetime)?)?)? $(= $named_default:expr)?)+)?)
     $whole:tt $result:tt $body:expr) => {
        $(#[$note])*
        // Some of these functions are only used by the binding.
        #[allow(dead_code)]
        #[inline]
        $vis fn $fn(
            $($arg: $crate::ops!(@type $type $(? $($q)?)? $([$($l)?] $(? $($r)?)?)? $(* $($v)?)?)),+
            $(, $($named: $crate::ops!(@type $named_type $(? $($nq)?)? $([$($nl)?] $(? $($nr)?)?)?)),+)?
        ) -> $crate::error::Result<$crate::ops!(@result $result)> {
            $crate::ops!(@door $op ($whole $result) ($($arg),+ $(, $($named),+)?));
            $body($($arg),+ $(, $($named),+)?)
        }
    };
    (@door $op:literal ($params:tt $result:tt) ($($value:expr),*)) => {
        if $crate::ops::interpreter::active() {
            use $crate::ops::declare::{FromOut, IntoValue, Site};
            static SITE: Site = Site::new(&OPS, $op, $crate::ops!(@text $params $result));
            if let Some(out) = SITE.interpreted(|| [$($value.into_value()),*]) {
                return FromOut::from_out(out?);
            }
        }
    };

    // A call of the function after `=` with the values of a call.
    (@typed $a:ident $body:expr, ($($arg:ident: $type:ident
        $(? $($q:lifetime)?)? $([$($l:lifetime)?] $(? $($r:lifetime)?)?)? $(* $($v:lifetime)?)? $(= $default:expr)?),+
        $(, * $(, $named:ident: $named_type:ident
        $(? $($nq:lifetime)?)? $([$($nl:lifetime)?] $(? $($nr:lifetime)?)?)? $(= $named_default:expr)?)+)?)) => {{
        use $crate::ops::declare::FromValue;
        let mut at = 0..;
        let mut next = || at.next().unwrap_or_default();
        $(let $arg = FromValue::from_value($a, next())?;)+
        $($(let $named = FromValue::from_value($a, next())?;)+)?
        Ok($body($($arg),+ $(, $($named),+)?)?.into())
    }};

    // The text of a signature.
    (@text ($($arg:ident: $type:ident
        $(? $($q:lifetime)?)? $([$($l:lifetime)?] $(? $($r:lifetime)?)?)? $(* $($v:lifetime)?)? $(= $default:expr)?),+
        $(, * $(, $named:ident: $named_type:ident
        $(? $($nq:lifetime)?)? $([$($nl:lifetime)?] $(? $($nr:lifetime)?)?)? $(= $named_default:expr)?)*)?
        $(, .. $tail:expr)?) $result:tt) => {{
        const PARTS: &[&str] = &[
            $(", ", stringify!($arg), ": ", stringify!($type), $("?", $(stringify!($q),)?)? $("[]", $(stringify!($l),)?
                $("?", $(stringify!($r),)?)?)? $("*", $(stringify!($v),)?)? $(" = ", stringify!($default),)?)+
            $(", *", $(", ", stringify!($named), ": ", stringify!($named_type), $("?", $(stringify!($nq),)?)?
                $("[]", $(stringify!($nl),)? $("?", $(stringify!($nr),)?)?)? $(" = ", stringify!($named_default),)?)*)?
            $(", ", $tail,)?
            $crate::ops!(@arrow $result),
        ];
        const TEXT: [u8; $crate::ops::declare::length(PARTS)] = $crate::ops::declare::joined(PARTS);
        $crate::ops::declare::checked(&TEXT)
    }};
    (@arrow []) => { "" };
    (@arrow [Tensor]) => { "" };
    (@arrow [Tensor []]) => { " -> Tensor[]" };
    (@arrow [$result:ident]) => { concat!(" -> ", stringify!($result)) };
    (@arrow [tuple [$first:ident $(, $of:ident)*]]) => {
        concat!(" -> tuple[", stringify!($first) $(, ", ", stringify!($of))*, "]")
    };

    (@type Tensor) => { &$crate::tensor::Tensor };
    (@type Tensor ?) => { Option<&$crate::tensor::Tensor> };
    (@type Tensor []) => { &[$crate::tensor::Tensor] };
    (@type Tensor *) => { &[$crate::tensor::Tensor] };
    (@type Tensor ? []) => { &[Option<$crate::tensor::Tensor>] };
    (@type Operand) => { $crate::ops::pointwise::Arg<'_> };
    (@type Number) => { $crate::dtype::Scalar };
    (@type Number ?) => { Option<$crate::dtype::Scalar> };
    (@type int) => { i64 };
    (@type int ?) => { Option<i64> };
    (@type int []) => { &[i64] };
    (@type int [] ?) => { Option<&[i64]> };
    (@type size) => { &[i64] };
    (@type float) => { f64 };
    (@type float ?) => { Option<f64> };
    (@type bool) => { bool };
    (@type str) => { &str };
    (@type str ?) => { Option<&str> };
    (@type dtype) => { $crate::dtype::DType };
    (@type dtype ?) => { Option<$crate::dtype::DType> };
    (@type memory_format ?) => { Option<$crate::layout::MemoryFormat> };
    (@type Generator ?) => { Option<&std::sync::Arc<$crate::ops::random::Generator>> };

    (@result [Tensor]) => { $crate::tensor::Tensor };
    (@result [Tensor []]) => { Vec<$crate::tensor::Tensor> };
    (@result [bool]) => { bool };
    (@result [tuple [Tensor, Tensor]]) => { ($crate::tensor::Tensor, $crate::tensor::Tensor) };
}

/// The total length of texts, without the comma at the start.
pub const fn length(parts: &[&str]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < parts.len() {
        n += parts[i].len();
        i += 1;
    }
    n - ", ".len()
}

/// The concatenated texts, without the comma at the start and with the single quotes of Python.
pub const fn joined<const N: usize>(parts: &[&str]) -> [u8; N] {
    let (mut out, mut n, mut i) = ([0; N], 0, 0);
    while i < parts.len() {
        let (part, mut j) = (parts[i].as_bytes(), if i == 0 { ", ".len() } else { 0 });
        while j < part.len() {
            out[n] = if part[j] == b'"' { b'\'' } else { part[j] };
            n += 1;
            j += 1;
        }
        i += 1;
    }
    out
}

/// The text in these bytes.
pub const fn checked(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}

/// A function for Rust: the operation and overload that it calls, looked up at the first call with an interpreter.
pub struct Site {
    ops: &'static &'static [Op],
    name: &'static str,
    sig: &'static str,
    found: OnceLock<Option<(&'static Op, &'static Overload)>>,
}

impl Site {
    pub const fn new(ops: &'static &'static [Op], name: &'static str, sig: &'static str) -> Site {
        Site { ops, name, sig, found: OnceLock::new() }
    }

    fn find(&self) -> Option<(&'static Op, &'static Overload)> {
        let mut named = self.ops.iter().filter(|op| op.name == self.name);
        let found = named.find_map(|op| Some((op, op.overloads.iter().find(|o| o.sig == self.sig)?)));
        debug_assert!(found.is_some(), "{} has no signature \"{}\"", self.name, self.sig);
        found
    }

    /// The result of the interpreters of this thread; None if the call concerns none of them. The values are only
    /// created if an interpreter handles the call.
    #[cold]
    pub fn interpreted<'v, V: AsRef<[Value]> + 'v>(&self, values: impl FnOnce() -> V) -> Option<Result<Out>> {
        if interpreter::none_here() {
            return None;
        }
        let (op, overload) = (*self.found.get_or_init(|| self.find()))?;
        let call = OpCall { op, overload, form: Form::New, caller: Caller::Core };
        interpreter::concerned(&call)?;
        interpreter::interpreted(&call, values().as_ref())
    }
}

/// Conversion of a typed argument to a value.
pub trait IntoValue {
    fn into_value(self) -> Value;
}

/// Conversion of a value to a typed argument.
pub trait FromValue<'a>: Sized {
    fn from_value(args: &'a Args, i: usize) -> Result<Self>;
}

macro_rules! typed_values {
    ($($type:ty, $get:ident, |$v:ident| $value:expr;)*) => { $(
        impl<'a> IntoValue for $type {
            fn into_value(self) -> Value {
                let $v = self;
                $value
            }
        }
        impl<'a> FromValue<'a> for $type {
            fn from_value(args: &'a Args, i: usize) -> Result<Self> {
                args.$get(i)
            }
        }
    )* };
}
typed_values! {
    &'a Tensor, tensor, |v| Value::Tensor(v.clone());
    Option<&'a Tensor>, opt_tensor, |v| v.map_or(Value::None, IntoValue::into_value);
    &'a [Tensor], tensors, |v| Value::Tensors(v.to_vec());
    &'a [Option<Tensor>], some_tensors, |v| Value::OptTensors(v.to_vec());
    Arg<'a>, operand, |v| match v {
        Arg::T(t) => Value::Tensor(t.clone()),
        Arg::S(s) => Value::Number(s),
    };
    Scalar, number, |v| Value::Number(v);
    Option<Scalar>, opt_number, |v| v.map_or(Value::None, Value::Number);
    i64, int, |v| Value::Number(Scalar::Int(v));
    Option<i64>, opt_int, |v| v.map_or(Value::None, IntoValue::into_value);
    &'a [i64], ints, |v| Value::Ints(v.into());
    Option<&'a [i64]>, opt_ints, |v| v.map_or(Value::None, IntoValue::into_value);
    f64, float, |v| Value::Number(Scalar::Float(v));
    Option<f64>, opt_float, |v| v.map_or(Value::None, IntoValue::into_value);
    bool, bool, |v| Value::Number(Scalar::Bool(v));
    &'a str, str, |v| Value::Str(v.into());
    Option<&'a str>, opt_str, |v| v.map_or(Value::None, IntoValue::into_value);
    DType, dtype, |v| Value::DType(v);
    Option<DType>, opt_dtype, |v| v.map_or(Value::None, Value::DType);
    Option<Device>, opt_device, |v| v.map_or(Value::None, Value::Device);
    Option<MemoryFormat>, opt_memory_format, |v| v.map_or(Value::None, Value::MemoryFormat);
    Option<&'a Arc<Generator>>, opt_generator, |v| v.map_or(Value::None, |g| Value::Generator(g.clone()));
}

impl IntoValue for usize {
    fn into_value(self) -> Value {
        (self as i64).into_value()
    }
}

impl IntoValue for &Dims {
    fn into_value(self) -> Value {
        self[..].into_value()
    }
}

impl IntoValue for &[usize] {
    fn into_value(self) -> Value {
        Value::Ints(self.iter().map(|&n| n as i64).collect())
    }
}

impl IntoValue for SmallVec<[i64; 6]> {
    fn into_value(self) -> Value {
        Value::Ints(self)
    }
}

/// Conversion of a result to the type that Rust callers expect.
pub trait FromOut: Sized {
    fn from_out(out: Out) -> Result<Self>;
}

impl FromOut for Tensor {
    fn from_out(out: Out) -> Result<Tensor> {
        out.tensor()
    }
}

impl FromOut for () {
    fn from_out(_: Out) -> Result<()> {
        Ok(())
    }
}

impl FromOut for bool {
    fn from_out(out: Out) -> Result<bool> {
        match out {
            Out::Number(s) => Ok(!s.is_zero()),
            _ => bail!(Type, "expected an operation with a truth value as its result"),
        }
    }
}

impl FromOut for Vec<Tensor> {
    fn from_out(out: Out) -> Result<Vec<Tensor>> {
        match out {
            Out::Tuple(ts) | Out::Named(_, _, ts) | Out::List(ts) => Ok(ts),
            _ => bail!(Type, "expected an operation with several tensors as its result"),
        }
    }
}

impl FromOut for (Tensor, Tensor) {
    fn from_out(out: Out) -> Result<(Tensor, Tensor)> {
        match <[Tensor; 2]>::try_from(Vec::from_out(out)?) {
            Ok([a, b]) => Ok((a, b)),
            Err(_) => bail!(Type, "expected an operation with two tensors as its result"),
        }
    }
}

impl From<bool> for Out {
    fn from(v: bool) -> Out {
        Out::Number(Scalar::Bool(v))
    }
}

impl From<Vec<Tensor>> for Out {
    fn from(ts: Vec<Tensor>) -> Out {
        Out::Tuple(ts)
    }
}

impl From<(Tensor, Tensor)> for Out {
    fn from((a, b): (Tensor, Tensor)) -> Out {
        Out::Tuple(vec![a, b])
    }
}
