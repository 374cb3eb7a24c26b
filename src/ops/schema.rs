//! The interface of operations: signatures, argument values, results.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::bail;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::layout::MemoryFormat;
use crate::ops::autocast::CastPolicy;
use crate::ops::batching::Batch;
use crate::ops::out_policy::OutPolicy;
use crate::ops::pointwise::{Arg, PointwiseOp};
use crate::ops::random::Generator;
use crate::tensor::Tensor;

/// The namespaces and forms of an operation. Combined with `|`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exposure(pub u16);

impl Exposure {
    /// `x.name(...)`
    pub const METHOD: Exposure = Exposure(1);
    /// `rgrad.name(x, ...)`
    pub const FUNCTION: Exposure = Exposure(2);
    /// `rgrad.nn.functional.name(x, ...)`
    pub const NN: Exposure = Exposure(4);
    /// `x.name_(...)` and `rgrad.name_(x, ...)`
    pub const INPLACE: Exposure = Exposure(8);
    /// `rgrad.name(x, ..., out=y)`
    pub const OUT: Exposure = Exposure(16);
    /// `rgrad.special.name(x, ...)`
    pub const SPECIAL: Exposure = Exposure(32);
    /// `rgrad.linalg.name(x, ...)`
    pub const LINALG: Exposure = Exposure(64);
    /// `x.name`, an attribute.
    pub const ATTRIBUTE: Exposure = Exposure(128);
    /// Composed of other operations: its `out=` form copies the result with its history, which others refuse.
    pub const COMPOSITE: Exposure = Exposure(256);
    /// PyTorch implements the function of `nn.functional` in C++, so `__torch_function__` gets its arguments as they were
    /// passed. It gets those of functions in Python by their signature.
    pub const NATIVE: Exposure = Exposure(512);
    /// In place it writes elements at other indices than it reads them, so that no input may share its memory.
    pub const BY_INDEX: Exposure = Exposure(1024);
    /// It writes to [`Tensor::writable`] and saves nothing of its first argument: Note [Targets].
    pub const TARGET: Exposure = Exposure(2048);
    /// Method and function.
    pub const BOTH: Exposure = Exposure(3);
    /// Method, function, in place, `out=`.
    pub const ALL: Exposure = Exposure(1 | 2 | 8 | 16);
    pub const NONE: Exposure = Exposure(0);

    pub const fn has(self, other: Exposure) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn and(self, other: Exposure) -> Exposure {
        Exposure(self.0 | other.0)
    }
}

/// One operation of the table.
#[derive(Clone, Copy)]
pub struct Op {
    /// PyTorch's name.
    pub name: &'static str,
    /// The docstring.
    pub doc: &'static str,
    pub exposure: Exposure,
    /// Other names of the same operation (`absolute` for `abs`).
    pub aliases: &'static [&'static str],
    /// The autocast policy.
    pub autocast: CastPolicy,
    /// How the `out=` form stores results.
    pub out: OutPolicy,
    /// How it is called with batched tensors.
    pub batch: Batch,
    /// Arguments of sample calls, as expressions of `rgrad.doctor.recipes`: `"data(5, 7), 1"`. Empty if tensors of any
    /// shape are accepted.
    pub samples: &'static [&'static str],
    /// The first overload whose signature matches the arguments is called.
    pub overloads: &'static [Overload],
}

impl Op {
    /// The base of `Op { name, doc, ..Op::NEW }`: a method and function.
    pub const NEW: Op = Op {
        name: "",
        doc: "",
        exposure: Exposure::BOTH,
        aliases: &[],
        autocast: CastPolicy::UNCHANGED,
        out: OutPolicy::CAST,
        batch: Batch::AUTO,
        samples: &[],
        overloads: &[],
    };

    /// Whether a program's call replaces the layout of the first argument by that of the result (`t_`, `squeeze_`).
    pub fn replaces(&self) -> bool {
        self.name.ends_with('_') && self.exposure == Exposure::METHOD
    }

    /// Concatenates the tables of a family with operations in several files.
    pub const fn concat<const N: usize>(tables: &[&[Op]]) -> [Op; N] {
        let mut out = [const { Op::NEW }; N];
        let (mut filled, mut t) = (0, 0);
        while t < tables.len() {
            let mut i = 0;
            while i < tables[t].len() {
                out[filled] = tables[t][i];
                (filled, i) = (filled + 1, i + 1);
            }
            t += 1;
        }
        assert!(filled == N);
        out
    }
}

/// One signature of an operation.
pub struct Overload {
    /// The parameters in stub notation, with the types of [`crate::ops::schema`]: `"input: Tensor, dim: int[]? = None,
    /// keepdim: bool = False, *, dtype: dtype? = None"`; a result other than `Tensor` follows `->`.
    pub sig: &'static str,
    pub call: Call,
}

/// The implementation of a signature.
pub enum Call {
    /// A pointwise operation: its inputs, followed by its parameters.
    Row(&'static PointwiseOp),
    Fn(fn(&Args) -> Result<Out>),
    /// As `Fn`, for a function that calls one pointwise operation, chosen by its arguments. `row` returns that call, whose
    /// result the in-place and `out=` forms write directly; None if it would not give the same.
    FnOrRow {
        call: fn(&Args) -> Result<Out>,
        row: for<'a> fn(&'a Args<'_>) -> Result<Option<RowCall<'a>>>,
    },
    /// As `Fn`, for a signature that is composed of other operations although others of the operation are not; see
    /// [`Exposure::COMPOSITE`].
    Composite(fn(&Args) -> Result<Out>),
}

/// A call of a pointwise operation.
pub struct RowCall<'a> {
    pub row: &'static PointwiseOp,
    pub inputs: SmallVec<[Arg<'a>; 3]>,
    pub params: SmallVec<[Scalar; 3]>,
}

impl<'a> RowCall<'a> {
    pub fn new(row: &'static PointwiseOp, inputs: &[Arg<'a>], params: &[Scalar]) -> Self {
        RowCall { row, inputs: inputs.into(), params: params.into() }
    }

    /// The call with the arguments of the operation's signature.
    pub(super) fn of(row: &'static PointwiseOp, args: &'a Args<'_>) -> Result<Self> {
        let n = row.inputs.len();
        let inputs = (0..n).map(|i| args.operand(i)).collect::<Result<_>>()?;
        let params = (n..n + row.params.len()).map(|i| args.number(i)).collect::<Result<_>>()?;
        Ok(RowCall { row, inputs, params })
    }

    /// Calls the operation as the core does: Note [One door].
    pub fn call(&self) -> Result<Out> {
        self.row.call(&self.inputs, &self.params).map(Out::Tensor)
    }
}

/// An argument value, converted for a signature.
#[derive(Clone, Debug)]
pub enum Value {
    None,
    Tensor(Tensor),
    Tensors(Vec<Tensor>),
    /// A list that may contain None, as in an index.
    OptTensors(Vec<Option<Tensor>>),
    Number(Scalar),
    Ints(SmallVec<[i64; 6]>),
    Floats(Vec<f64>),
    DType(DType),
    Device(Device),
    MemoryFormat(MemoryFormat),
    Str(String),
    Generator(Arc<Generator>),
}

impl Value {
    pub fn is_true(&self) -> bool {
        matches!(self, Value::Number(Scalar::Bool(true)))
    }
}

/// The values of a call, by position in the signature.
pub struct Args<'a> {
    pub name: &'static str,
    pub values: &'a [Value],
}

/// The result of an operation.
#[derive(Clone, Debug)]
pub enum Out {
    Tensor(Tensor),
    /// A tuple.
    Tuple(Vec<Tensor>),
    /// A named tuple of `torch.return_types`, with its name and field names.
    Named(&'static str, &'static [&'static str], Vec<Tensor>),
    List(Vec<Tensor>),
    Number(Scalar),
    Str(String),
    Ints(Vec<i64>),
    DType(DType),
    None,
}

impl From<Tensor> for Out {
    fn from(t: Tensor) -> Out {
        Out::Tensor(t)
    }
}

impl Out {
    /// The single tensor that most operations return.
    pub fn tensor(self) -> Result<Tensor> {
        match self {
            Out::Tensor(t) => Ok(t),
            _ => bail!(Type, "expected an operation with one tensor as its result"),
        }
    }
}

macro_rules! accessors {
    ($($(#[$m:meta])* $name:ident $opt:ident: $pat:pat => $out:expr, $ty:ty, $what:literal;)*) => { $(
        $(#[$m])*
        pub fn $name(&self, i: usize) -> Result<$ty> {
            match &self.values[i] {
                $pat => Ok($out),
                _ => Err(self.must_be(i, $what)),
            }
        }
        /// As above; None if the argument is None.
        pub fn $opt(&self, i: usize) -> Result<Option<$ty>> {
            match &self.values[i] {
                Value::None => Ok(None),
                _ => self.$name(i).map(Some),
            }
        }
    )* };
}

impl<'a> Args<'a> {
    accessors! {
        tensor opt_tensor: Value::Tensor(t) => t, &Tensor, "Tensor";
        tensors opt_tensors: Value::Tensors(t) => t, &[Tensor], "tuple of Tensors";
        number opt_number: Value::Number(s) => *s, Scalar, "Number";
        int opt_int: Value::Number(s) => s.to_i64(), i64, "int";
        float opt_float: Value::Number(s) => s.to_f64(), f64, "float";
        bool opt_bool: Value::Number(s) => !s.is_zero(), bool, "bool";
        ints opt_ints: Value::Ints(v) => v, &[i64], "tuple of ints";
        floats opt_floats: Value::Floats(v) => v, &[f64], "tuple of floats";
        dtype opt_dtype: Value::DType(d) => *d, DType, "torch.dtype";
        device opt_device: Value::Device(d) => *d, Device, "torch.device";
        memory_format opt_memory_format: Value::MemoryFormat(f) => *f, MemoryFormat, "torch.memory_format";
        str opt_str: Value::Str(s) => s, &str, "str";
        generator opt_generator: Value::Generator(g) => g, &Arc<Generator>, "torch.Generator";
    }

    #[cold]
    fn must_be(&self, i: usize, what: &str) -> Error {
        Error::Type(format!("{}(): argument {} must be {what}", self.name, i + 1))
    }

    /// A list of tensors and None.
    pub fn some_tensors(&self, i: usize) -> Result<&[Option<Tensor>]> {
        match &self.values[i] {
            Value::OptTensors(v) => Ok(v),
            _ => Err(self.must_be(i, "a list of Tensors")),
        }
    }

    /// A size: non-negative dimensions.
    pub fn size(&self, i: usize) -> Result<crate::layout::Dims> {
        let v = self.ints(i)?;
        if let Some(n) = v.iter().find(|&&n| n < 0) {
            bail!(Runtime, "Trying to create tensor with negative dimension {n}: {v:?}");
        }
        Ok(v.iter().map(|&n| n as usize).collect())
    }

    pub fn operand(&self, i: usize) -> Result<crate::ops::pointwise::Arg<'_>> {
        use crate::ops::pointwise::Arg;
        match &self.values[i] {
            Value::Tensor(t) => Ok(Arg::T(t)),
            Value::Number(s) => Ok(Arg::S(*s)),
            _ => Err(self.must_be(i, "Tensor or Number")),
        }
    }

    pub fn is_none(&self, i: usize) -> bool {
        matches!(self.values[i], Value::None)
    }
}
