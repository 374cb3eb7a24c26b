"""Types of the core. Written by docs/generate.py from the operation table: do not edit."""

# ruff: noqa
# Inside the stub `int`, `float`, `bool`, `dtype` and `device` are names of this module or of Tensor: types go by
# an underscored name.
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, overload

from rgrad._size import Size

_Number = _int | _float | _bool

class _QR(NamedTuple):
    Q: Tensor
    R: Tensor

class _USV(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor

class _MantissaExponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class _MinMax(NamedTuple):
    min: Tensor
    max: Tensor

class _SignLogabsdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class _ValuesIndices(NamedTuple):
    values: Tensor
    indices: Tensor

class Tensor:
    data: Tensor
    """A tensor with the same memory and without history; assigning to it replaces the memory."""
    grad: Tensor | None
    """The gradient that backward has accumulated, of the tensor's shape; None before."""
    requires_grad: _bool
    """Whether operations on the tensor are recorded for backward."""
    _base: Any
    @property
    def grad_fn(self) -> Node | None:
        """The node of the graph that made the tensor; None for leaves."""
    @property
    def shape(self) -> Size:
        """The sizes of all dimensions."""
    @property
    def dtype(self) -> _dtype:
        """The type of the elements."""
    @property
    def device(self) -> _device:
        """Where the tensor's memory is."""
    @property
    def layout(self) -> Any:
        """How elements lie in memory: always `strided`."""
    @property
    def ndim(self) -> _int:
        """The number of dimensions."""
    @property
    def nbytes(self) -> _int:
        """The bytes of all elements."""
    @property
    def itemsize(self) -> _int:
        """The bytes of an element."""
    @property
    def output_nr(self) -> _int:
        """Which of the results of `grad_fn` the tensor is."""
    @property
    def _version(self) -> _int: ...
    @property
    def is_leaf(self) -> _bool:
        """Whether backward accumulates into `grad` here: true of what no operation with a history made."""
    @property
    def real(self) -> Self:
        """The tensor itself: there are no complex dtypes."""
    @property
    def retains_grad(self) -> _bool:
        """Whether backward keeps the gradient of this tensor, which is no leaf."""
    @property
    def is_cuda(self) -> _bool:
        """Whether the tensor is on a GPU that goes by this name."""
    @property
    def is_meta(self) -> _bool:
        """Whether the tensor has a shape and no elements."""
    @property
    def is_mps(self) -> _bool:
        """Whether the tensor is on a GPU that goes by this name."""
    @property
    def is_nested(self) -> _bool:
        """False: there are no nested tensors."""
    @property
    def is_quantized(self) -> _bool:
        """False: there are no quantized tensors."""
    @property
    def is_sparse(self) -> _bool:
        """False: there are no sparse tensors."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def backward(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: Any = None) -> None:
        """Accumulates the gradients of this tensor into the `.grad` of the leaves on which it depends."""
    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Replaces each element by `callable` of it. Slow, since it calls Python per element."""
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Self:
        """Replaces each element by `callable` of it and the corresponding element of `tensor`, which is broadcast."""
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Self:
        """As `map_`, with two tensors."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """The pseudo-inverse of each matrix; see `rgrad.pinverse`."""
    def histogram(
        self, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False
    ) -> Any: ...
    name: None
    """None: tensors have no names."""
    is_ipu: _bool
    """bool(x) -> bool"""
    is_maia: _bool
    """bool(x) -> bool"""
    is_mkldnn: _bool
    """bool(x) -> bool"""
    is_mtia: _bool
    """bool(x) -> bool"""
    is_sparse_csr: _bool
    """bool(x) -> bool"""
    is_vulkan: _bool
    """bool(x) -> bool"""
    is_xla: _bool
    """bool(x) -> bool"""
    is_xpu: _bool
    """bool(x) -> bool"""
    volatile: _bool
    """False, with a warning: tensors have no such flag since PyTorch 0.4."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = None) -> Tensor:
        """The tensor itself, or in another dtype: it is strided already."""
    def dense_dim(self) -> _int:
        """The number of dimensions: none is sparse."""
    def sparse_dim(self) -> _int:
        """0: no dimension is sparse."""
    def dim_order(self, ambiguity_check: Any = False) -> tuple[_int, ...]:
        """The dimensions from the outermost to the innermost in memory; in order where strides are equal."""
    def module_load(self, other: Tensor, assign: _bool = False) -> Tensor:
        """What a module is to hold in place of this tensor when `other` is loaded."""
    def record_stream(self, stream: Any) -> None:
        """Has no effect: a GPU has one stream, and memory is reused in its order."""
    def const_data_ptr(self) -> _int:
        """The address of the first element, for reading."""
    def isreal(self) -> Tensor:
        """Calls `rgrad.isreal` with this tensor."""
    def conj_physical(self) -> Tensor:
        """Calls `rgrad.conj_physical` with this tensor."""
    def conj_physical_(self) -> Tensor:
        """Calls `rgrad.conj_physical_` with this tensor."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Calls `rgrad.unsafe_chunk` with this tensor."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Calls `rgrad.unsafe_split` with this tensor."""
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: _int = 0) -> tuple[Tensor, ...]:
        """Calls `rgrad.unsafe_split_with_sizes` with this tensor."""
    def i0(self) -> Tensor:
        """Calls `rgrad.i0` with this tensor."""
    def i0_(self) -> Self:
        """Calls `rgrad.i0_` with this tensor."""
    def igamma(self, other: Tensor) -> Tensor:
        """Calls `rgrad.igamma` with this tensor."""
    def igamma_(self, other: Tensor) -> Self:
        """Calls `rgrad.igamma_` with this tensor."""
    def igammac(self, other: Tensor) -> Tensor:
        """Calls `rgrad.igammac` with this tensor."""
    def igammac_(self, other: Tensor) -> Self:
        """Calls `rgrad.igammac_` with this tensor."""
    def mvlgamma(self, p: _int) -> Tensor:
        """Calls `rgrad.mvlgamma` with this tensor."""
    def mvlgamma_(self, p: _int) -> Self:
        """Calls `rgrad.mvlgamma_` with this tensor."""
    def polygamma(self, n: _int) -> Tensor:
        """Calls `rgrad.polygamma` with this tensor."""
    def polygamma_(self, n: _int) -> Self:
        """Calls `rgrad.polygamma_` with this tensor."""
    def geqrf(self) -> Any:
        """Calls `rgrad.geqrf` with this tensor."""
    def orgqr(self, tau: Tensor) -> Tensor:
        """Calls `rgrad.orgqr` with this tensor."""
    def ormqr(self, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False) -> Tensor:
        """Calls `rgrad.ormqr` with this tensor."""
    def matrix_exp(self) -> Tensor:
        """Calls `rgrad.matrix_exp` with this tensor."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> Any:
        """Calls `rgrad.lu` with this tensor."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """Calls `rgrad.lu_solve` with this tensor."""
    def triangular_solve(
        self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False
    ) -> Any: ...
    def as_subclass(self, cls: Any) -> Any:
        """A view of the tensor as an object of `cls`, a subclass of Tensor, with history."""
    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: _bool = False) -> Any: ...
    def new(self, *args: Any, device: Any = None) -> Tensor:
        """Calls the constructor of this tensor's type."""
    def new_tensor(
        self, data: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False
    ) -> Tensor: ...
    def data_ptr(self) -> _int:
        """The address of the first element."""
    def detach(self) -> Tensor:
        """A tensor with the same memory and without history, which needs no gradient."""
    def detach_(self) -> Tensor:
        """Removes the tensor's history, which makes it a leaf."""
    def dim(self) -> _int:
        """The number of dimensions."""
    def ndimension(self) -> _int:
        """The number of dimensions."""
    def element_size(self) -> _int:
        """The bytes of an element."""
    def get_device(self) -> _int:
        """The number of the tensor's GPU; -1 on the CPU."""
    def is_complex(self) -> _bool:
        """Whether the elements are complex numbers: False, as there is no such dtype."""
    def is_contiguous(self, *, memory_format: _memory_format = ...) -> _bool:
        """Whether the elements lie in order and without gaps, in a memory format."""
    def is_floating_point(self) -> _bool:
        """Whether the elements are floating-point numbers."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative numbers."""
    def is_inference(self) -> _bool:
        """Whether the tensor was made in inference mode."""
    def is_pinned(self) -> _bool:
        """Whether the memory is pinned for copies to a GPU."""
    def is_shared(self) -> _bool:
        """Whether other processes can map the memory: after `share_memory_`, and always on a GPU."""
    def item(self) -> Any:
        """The only element, as a Python number."""
    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; the number itself without dimensions."""
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor:
        """nonzero(input: Tensor, *, as_tuple: bool = False)"""
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def numpy(self, *, force: _bool = False) -> Any:
        """A NumPy array that shares the tensor's memory; with `force`, detaches, moves and converts the tensor as needed."""
    def numel(self) -> _int:
        """The number of elements."""
    def nelement(self) -> _int:
        """The number of elements."""
    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Calls `hook(grad)` whenever a gradient of this tensor is computed."""
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Calls `hook(tensor)` after a gradient was accumulated into this leaf."""
    def requires_grad_(self, requires_grad: _bool = True) -> Self:
        """Sets `requires_grad`."""
    def retain_grad(self) -> None:
        """Stores the gradient of this non-leaf tensor in its `.grad`."""
    def share_memory_(self) -> Self:
        """Moves the tensor to memory that processes share, and returns it."""
    @overload
    def size(self, dim: None = None) -> Size:
        """The sizes of all dimensions, or the size of one."""
    @overload
    def size(self, dim: _int) -> _int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]:
        """How many elements of the storage lie between neighbors, for each dimension or for one."""
    @overload
    def stride(self, dim: _int) -> _int: ...
    def storage(self) -> Any:
        """The storage of this tensor, shared with its views, as elements of its dtype; see `untyped_storage`."""
    def storage_offset(self) -> _int:
        """The place of the first element in the storage."""
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> _str:
        """type(input: Tensor, dtype: typename? = None, non_blocking: bool = False)"""
    @overload
    def type(self, dtype: _dtype | _str | Callable[..., Tensor], non_blocking: _bool = False) -> Tensor: ...
    def storage_type(self) -> Any:
        """The legacy type of the storage, such as `rgrad.FloatStorage`."""
    def untyped_storage(self) -> UntypedStorage:
        """The storage of this tensor, shared with its views."""
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any: ...
    def __bool__(self) -> _bool: ...
    def __contains__(self, item: Any) -> _bool: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __float__(self) -> _float: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __hash__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __int__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __len__(self) -> _int: ...
    def __reversed__(self) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __add__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __iadd__(self, other: Any) -> Tensor: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __isub__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __imul__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __itruediv__(self, other: Any) -> Tensor: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __ifloordiv__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __imod__(self, other: Any) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __ipow__(self, other: Any) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __iand__(self, other: Any) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __ior__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
    def __ixor__(self, other: Any) -> Tensor: ...
    def __lshift__(self, other: Any) -> Tensor: ...
    def __rlshift__(self, other: Any) -> Tensor: ...
    def __ilshift__(self, other: Any) -> Tensor: ...
    def __rshift__(self, other: Any) -> Tensor: ...
    def __rrshift__(self, other: Any) -> Tensor: ...
    def __irshift__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def abs(self) -> Tensor:
        """Absolute value of each element."""
    def absolute(self) -> Tensor:
        """Absolute value of each element."""
    def abs_(self) -> Tensor:
        """Absolute value of each element. In place."""
    def absolute_(self) -> Tensor:
        """Absolute value of each element. In place."""
    def neg(self) -> Tensor:
        """Each element with its sign changed."""
    def negative(self) -> Tensor:
        """Each element with its sign changed."""
    def neg_(self) -> Tensor:
        """Each element with its sign changed. In place."""
    def negative_(self) -> Tensor:
        """Each element with its sign changed. In place."""
    def sign(self) -> Tensor:
        """-1, 0 or 1 by the sign of each element."""
    def sign_(self) -> Tensor:
        """-1, 0 or 1 by the sign of each element. In place."""
    def sgn(self) -> Tensor:
        """As `sign`."""
    def sgn_(self) -> Tensor:
        """As `sign`. In place."""
    def exp(self) -> Tensor:
        """e to the power of each element."""
    def exp_(self) -> Tensor:
        """e to the power of each element. In place."""
    def exp2(self) -> Tensor:
        """2 to the power of each element."""
    def special_exp2(self) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """2 to the power of each element. In place."""
    def special_exp2_(self) -> Tensor:
        """2 to the power of each element. In place."""
    def expm1(self) -> Tensor:
        """e to the power of each element, minus one, exact near zero."""
    def special_expm1(self) -> Tensor:
        """e to the power of each element, minus one, exact near zero."""
    def expm1_(self) -> Tensor:
        """e to the power of each element, minus one, exact near zero. In place."""
    def special_expm1_(self) -> Tensor:
        """e to the power of each element, minus one, exact near zero. In place."""
    def log(self) -> Tensor:
        """Natural logarithm of each element."""
    def log_(self) -> Tensor:
        """Natural logarithm of each element. In place."""
    def log2(self) -> Tensor:
        """Logarithm to base 2 of each element."""
    def log2_(self) -> Tensor:
        """Logarithm to base 2 of each element. In place."""
    def log10(self) -> Tensor:
        """Logarithm to base 10 of each element."""
    def log10_(self) -> Tensor:
        """Logarithm to base 10 of each element. In place."""
    def log1p(self) -> Tensor:
        """Natural logarithm of one plus each element, exact near zero."""
    def special_log1p(self) -> Tensor:
        """Natural logarithm of one plus each element, exact near zero."""
    def log1p_(self) -> Tensor:
        """Natural logarithm of one plus each element, exact near zero. In place."""
    def special_log1p_(self) -> Tensor:
        """Natural logarithm of one plus each element, exact near zero. In place."""
    def sqrt(self) -> Tensor:
        """Square root of each element."""
    def sqrt_(self) -> Tensor:
        """Square root of each element. In place."""
    def rsqrt(self) -> Tensor:
        """One over the square root of each element."""
    def rsqrt_(self) -> Tensor:
        """One over the square root of each element. In place."""
    def reciprocal(self) -> Tensor:
        """One over each element."""
    def reciprocal_(self) -> Tensor:
        """One over each element. In place."""
    def sin(self) -> Tensor:
        """Sine of each element, in radians."""
    def sin_(self) -> Tensor:
        """Sine of each element, in radians. In place."""
    def cos(self) -> Tensor:
        """Cosine of each element, in radians."""
    def cos_(self) -> Tensor:
        """Cosine of each element, in radians. In place."""
    def tan(self) -> Tensor:
        """Tangent of each element, in radians."""
    def tan_(self) -> Tensor:
        """Tangent of each element, in radians. In place."""
    def sinh(self) -> Tensor:
        """Hyperbolic sine of each element."""
    def sinh_(self) -> Tensor:
        """Hyperbolic sine of each element. In place."""
    def cosh(self) -> Tensor:
        """Hyperbolic cosine of each element."""
    def cosh_(self) -> Tensor:
        """Hyperbolic cosine of each element. In place."""
    def tanh(self) -> Tensor:
        """Hyperbolic tangent of each element."""
    def tanh_(self) -> Tensor:
        """Hyperbolic tangent of each element. In place."""
    def asin(self) -> Tensor:
        """Inverse sine of each element, in radians."""
    def arcsin(self) -> Tensor:
        """Inverse sine of each element, in radians."""
    def asin_(self) -> Tensor:
        """Inverse sine of each element, in radians. In place."""
    def arcsin_(self) -> Tensor:
        """Inverse sine of each element, in radians. In place."""
    def acos(self) -> Tensor:
        """Inverse cosine of each element, in radians."""
    def arccos(self) -> Tensor:
        """Inverse cosine of each element, in radians."""
    def acos_(self) -> Tensor:
        """Inverse cosine of each element, in radians. In place."""
    def arccos_(self) -> Tensor:
        """Inverse cosine of each element, in radians. In place."""
    def atan(self) -> Tensor:
        """Inverse tangent of each element, in radians."""
    def arctan(self) -> Tensor:
        """Inverse tangent of each element, in radians."""
    def atan_(self) -> Tensor:
        """Inverse tangent of each element, in radians. In place."""
    def arctan_(self) -> Tensor:
        """Inverse tangent of each element, in radians. In place."""
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine of each element."""
    def arcsinh(self) -> Tensor:
        """Inverse hyperbolic sine of each element."""
    def asinh_(self) -> Tensor:
        """Inverse hyperbolic sine of each element. In place."""
    def arcsinh_(self) -> Tensor:
        """Inverse hyperbolic sine of each element. In place."""
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine of each element."""
    def arccosh(self) -> Tensor:
        """Inverse hyperbolic cosine of each element."""
    def acosh_(self) -> Tensor:
        """Inverse hyperbolic cosine of each element. In place."""
    def arccosh_(self) -> Tensor:
        """Inverse hyperbolic cosine of each element. In place."""
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent of each element."""
    def arctanh(self) -> Tensor:
        """Inverse hyperbolic tangent of each element."""
    def atanh_(self) -> Tensor:
        """Inverse hyperbolic tangent of each element. In place."""
    def arctanh_(self) -> Tensor:
        """Inverse hyperbolic tangent of each element. In place."""
    def erf(self) -> Tensor:
        """Error function of each element."""
    def special_erf(self) -> Tensor:
        """Error function of each element."""
    def erf_(self) -> Tensor:
        """Error function of each element. In place."""
    def special_erf_(self) -> Tensor:
        """Error function of each element. In place."""
    def erfc(self) -> Tensor:
        """One minus the error function of each element."""
    def special_erfc(self) -> Tensor:
        """One minus the error function of each element."""
    def erfc_(self) -> Tensor:
        """One minus the error function of each element. In place."""
    def special_erfc_(self) -> Tensor:
        """One minus the error function of each element. In place."""
    def erfinv(self) -> Tensor:
        """Inverse error function of each element."""
    def special_erfinv(self) -> Tensor:
        """Inverse error function of each element."""
    def erfinv_(self) -> Tensor:
        """Inverse error function of each element. In place."""
    def special_erfinv_(self) -> Tensor:
        """Inverse error function of each element. In place."""
    def lgamma(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function."""
    def special_gammaln(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function."""
    def lgamma_(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function. In place."""
    def special_gammaln_(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function. In place."""
    def digamma(self) -> Tensor:
        """Derivative of `lgamma`."""
    def special_psi(self) -> Tensor:
        """Derivative of `lgamma`."""
    def special_digamma(self) -> Tensor:
        """Derivative of `lgamma`."""
    def digamma_(self) -> Tensor:
        """Derivative of `lgamma`. In place."""
    def special_psi_(self) -> Tensor:
        """Derivative of `lgamma`. In place."""
    def special_digamma_(self) -> Tensor:
        """Derivative of `lgamma`. In place."""
    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
    def special_expit(self) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sigmoid_(self) -> Tensor:
        """1 / (1 + exp(-x)). In place."""
    def special_expit_(self) -> Tensor:
        """1 / (1 + exp(-x)). In place."""
    def floor(self) -> Tensor:
        """Largest integer not above each element."""
    def floor_(self) -> Tensor:
        """Largest integer not above each element. In place."""
    def ceil(self) -> Tensor:
        """Smallest integer not below each element."""
    def ceil_(self) -> Tensor:
        """Smallest integer not below each element. In place."""
    def trunc(self) -> Tensor:
        """Each element without its fraction."""
    def fix(self) -> Tensor:
        """Each element without its fraction."""
    def trunc_(self) -> Tensor:
        """Each element without its fraction. In place."""
    def fix_(self) -> Tensor:
        """Each element without its fraction. In place."""
    def frac(self) -> Tensor:
        """The fraction of each element, with its sign."""
    def frac_(self) -> Tensor:
        """The fraction of each element, with its sign. In place."""
    def sinc(self) -> Tensor:
        """sin(πx) / (πx), and 1 at 0."""
    def special_sinc(self) -> Tensor:
        """sin(πx) / (πx), and 1 at 0."""
    def sinc_(self) -> Tensor:
        """sin(πx) / (πx), and 1 at 0. In place."""
    def special_sinc_(self) -> Tensor:
        """sin(πx) / (πx), and 1 at 0. In place."""
    def angle(self) -> Tensor:
        """The angle of each number in the complex plane: π of a negative one, else 0."""
    def deg2rad(self) -> Tensor:
        """Radians from degrees."""
    def deg2rad_(self) -> Tensor:
        """Radians from degrees. In place."""
    def rad2deg(self) -> Tensor:
        """Degrees from radians."""
    def rad2deg_(self) -> Tensor:
        """Degrees from radians. In place."""
    def mul(self, other: Tensor | _Number) -> Tensor:
        """Product of two tensors, element by element."""
    def multiply(self, other: Tensor | _Number) -> Tensor:
        """Product of two tensors, element by element."""
    def mul_(self, other: Tensor | _Number) -> Tensor:
        """Product of two tensors, element by element. In place."""
    def multiply_(self, other: Tensor | _Number) -> Tensor:
        """Product of two tensors, element by element. In place."""
    def floor_divide(self, other: Tensor | _Number) -> Tensor:
        """Quotient rounded toward minus infinity."""
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:
        """Quotient rounded toward minus infinity. In place."""
    @overload
    def remainder(self, other: Tensor | _Number) -> Tensor:
        """Remainder with the sign of the divisor, as Python's `%`."""
    @overload
    def remainder(self, other: Tensor) -> Tensor: ...
    @overload
    def remainder_(self, other: Tensor | _Number) -> Tensor:
        """Remainder with the sign of the divisor, as Python's `%`. In place."""
    @overload
    def remainder_(self, other: Tensor) -> Tensor: ...
    def fmod(self, other: Tensor | _Number) -> Tensor:
        """Remainder with the sign of the dividend, as C's `fmod`."""
    def fmod_(self, other: Tensor | _Number) -> Tensor:
        """Remainder with the sign of the dividend, as C's `fmod`. In place."""
    def atan2(self, other: Tensor) -> Tensor:
        """Angle of the point (other, input), in radians."""
    def arctan2(self, other: Tensor) -> Tensor:
        """Angle of the point (other, input), in radians."""
    def atan2_(self, other: Tensor) -> Tensor:
        """Angle of the point (other, input), in radians. In place."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """Angle of the point (other, input), in radians. In place."""
    def maximum(self, other: Tensor) -> Tensor:
        """The larger of two elements; NaN if either is."""
    def minimum(self, other: Tensor) -> Tensor:
        """The smaller of two elements; NaN if either is."""
    def fmax(self, other: Tensor) -> Tensor:
        """The larger of two elements; the other one where one is NaN."""
    def fmin(self, other: Tensor) -> Tensor:
        """The smaller of two elements; the other one where one is NaN."""
    def hypot(self, other: Tensor) -> Tensor:
        """Length of the hypotenuse."""
    def hypot_(self, other: Tensor) -> Tensor:
        """Length of the hypotenuse. In place."""
    @overload
    def xlogy(self, other: Tensor | _Number) -> Tensor:
        """`input * log(other)`, and 0 where `input` is 0."""
    @overload
    def xlogy(self, other: Tensor) -> Tensor: ...
    @overload
    def special_xlogy(self, other: Tensor | _Number) -> Tensor:
        """`input * log(other)`, and 0 where `input` is 0."""
    @overload
    def special_xlogy(self, other: Tensor) -> Tensor: ...
    @overload
    def xlogy_(self, other: Tensor | _Number) -> Tensor:
        """`input * log(other)`, and 0 where `input` is 0. In place."""
    @overload
    def xlogy_(self, other: Tensor) -> Tensor: ...
    @overload
    def special_xlogy_(self, other: Tensor | _Number) -> Tensor:
        """`input * log(other)`, and 0 where `input` is 0. In place."""
    @overload
    def special_xlogy_(self, other: Tensor) -> Tensor: ...
    def logaddexp(self, other: Tensor) -> Tensor:
        """log(exp(input) + exp(other)), without overflow."""
    def logaddexp2(self, other: Tensor) -> Tensor:
        """log2(2^input + 2^other), without overflow."""
    def copysign(self, other: Tensor | _Number) -> Tensor:
        """The magnitude of the first with the sign of the second."""
    def copysign_(self, other: Tensor | _Number) -> Tensor:
        """The magnitude of the first with the sign of the second. In place."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """`input + value * tensor1 * tensor2`."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """`input + value * tensor1 * tensor2`. In place."""
    @overload
    def bitwise_and(self, other: Tensor | _Number) -> Tensor:
        """Bitwise and; logical and of bools."""
    @overload
    def bitwise_and(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:
        """Bitwise and; logical and of bools. In place."""
    @overload
    def bitwise_and_(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_or(self, other: Tensor | _Number) -> Tensor:
        """Bitwise or; logical or of bools."""
    @overload
    def bitwise_or(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:
        """Bitwise or; logical or of bools. In place."""
    @overload
    def bitwise_or_(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_xor(self, other: Tensor | _Number) -> Tensor:
        """Bitwise exclusive or; logical one of bools."""
    @overload
    def bitwise_xor(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:
        """Bitwise exclusive or; logical one of bools. In place."""
    @overload
    def bitwise_xor_(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_left_shift(self, other: Tensor | _Number) -> Tensor:
        """Bits moved up by `other`."""
    @overload
    def bitwise_left_shift(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:
        """Bits moved up by `other`. In place."""
    @overload
    def bitwise_left_shift_(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_right_shift(self, other: Tensor | _Number) -> Tensor:
        """Bits moved down by `other`, keeping the sign."""
    @overload
    def bitwise_right_shift(self, other: Tensor) -> Tensor: ...
    @overload
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:
        """Bits moved down by `other`, keeping the sign. In place."""
    @overload
    def bitwise_right_shift_(self, other: Tensor) -> Tensor: ...
    def gcd(self, other: Tensor) -> Tensor:
        """Greatest common divisor."""
    def gcd_(self, other: Tensor) -> Tensor:
        """Greatest common divisor. In place."""
    def lcm(self, other: Tensor) -> Tensor:
        """Least common multiple."""
    def lcm_(self, other: Tensor) -> Tensor:
        """Least common multiple. In place."""
    def ldexp(self, other: Tensor) -> Tensor:
        """`input * 2 ^ other`."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """`input * 2 ^ other`. In place."""
    def eq(self, other: Tensor | _Number) -> Tensor:
        """Whether elements are equal."""
    def eq_(self, other: Tensor | _Number) -> Tensor:
        """Whether elements are equal. In place."""
    def ne(self, other: Tensor | _Number) -> Tensor:
        """Whether elements differ."""
    def not_equal(self, other: Tensor | _Number) -> Tensor:
        """Whether elements differ."""
    def ne_(self, other: Tensor | _Number) -> Tensor:
        """Whether elements differ. In place."""
    def not_equal_(self, other: Tensor | _Number) -> Tensor:
        """Whether elements differ. In place."""
    def lt(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is less than the second."""
    def less(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is less than the second."""
    def lt_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is less than the second. In place."""
    def less_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is less than the second. In place."""
    def le(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at most the second."""
    def less_equal(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at most the second."""
    def le_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at most the second. In place."""
    def less_equal_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at most the second. In place."""
    def gt(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is greater than the second."""
    def greater(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is greater than the second."""
    def gt_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is greater than the second. In place."""
    def greater_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is greater than the second. In place."""
    def ge(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at least the second."""
    def greater_equal(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at least the second."""
    def ge_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at least the second. In place."""
    def greater_equal_(self, other: Tensor | _Number) -> Tensor:
        """Whether the first is at least the second. In place."""
    def logical_and(self, other: Tensor) -> Tensor:
        """Whether both are non-zero."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """Whether both are non-zero. In place."""
    def logical_or(self, other: Tensor) -> Tensor:
        """Whether either is non-zero."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """Whether either is non-zero. In place."""
    def logical_xor(self, other: Tensor) -> Tensor:
        """Whether exactly one is non-zero."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """Whether exactly one is non-zero. In place."""
    def logical_not(self) -> Tensor:
        """Whether an element is zero."""
    def logical_not_(self) -> Tensor:
        """Whether an element is zero. In place."""
    def isnan(self) -> Tensor:
        """Whether an element is NaN."""
    def isinf(self) -> Tensor:
        """Whether an element is infinite."""
    def isfinite(self) -> Tensor:
        """Whether an element is neither infinite nor NaN."""
    def isposinf(self) -> Tensor:
        """Whether an element is +∞."""
    def isneginf(self) -> Tensor:
        """Whether an element is -∞."""
    def relu(self, inplace: _bool = False) -> Tensor:
        """max(x, 0)."""
    def relu_(self, inplace: _bool = False) -> Tensor:
        """max(x, 0). In place."""
    def selu_(self, inplace: _bool = False) -> Tensor:
        """The self-normalising ELU of Klambauer et al., 2017. In place."""
    def celu_(self, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
        """x where positive, else `alpha * (exp(x / alpha) - 1)`. In place."""
    def hardshrink(self, lambd: _float = 0.5) -> Tensor:
        """x, and 0 where |x| is at most `lambd`."""
    def threshold_(self, threshold: _Number, value: _Number, inplace: _bool = False) -> Tensor:
        """x where above the threshold, else `value`. In place."""
    def add(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """Sum of two tensors or of a tensor and a number: `input + alpha * other`."""
    def add_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """Sum of two tensors or of a tensor and a number: `input + alpha * other`. In place."""
    def sub(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """Difference of two tensors or of a tensor and a number: `input - alpha * other`."""
    def subtract(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """Difference of two tensors or of a tensor and a number: `input - alpha * other`."""
    def sub_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """Difference of two tensors or of a tensor and a number: `input - alpha * other`. In place."""
    def subtract_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """Difference of two tensors or of a tensor and a number: `input - alpha * other`. In place."""
    def div(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor')."""
    def divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor')."""
    def div_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor'). In place."""
    def divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor'). In place."""
    def true_divide(self, other: Tensor | _Number) -> Tensor:
        """Quotient as a real number."""
    def true_divide_(self, other: Tensor | _Number) -> Tensor:
        """Quotient as a real number. In place."""
    @overload
    def pow(self, exponent: Tensor | _Number) -> Tensor:
        """The first to the power of the second."""
    @overload
    def pow(self, exponent: Tensor) -> Tensor: ...
    @overload
    def pow_(self, exponent: Tensor | _Number) -> Tensor:
        """The first to the power of the second. In place."""
    @overload
    def pow_(self, exponent: Tensor) -> Tensor: ...
    @overload
    def float_power(self, exponent: Tensor | _Number) -> Tensor:
        """The first to the power of the second, in double precision."""
    @overload
    def float_power(self, exponent: Tensor) -> Tensor: ...
    def float_power_(self, exponent: Tensor | _Number) -> Tensor:
        """The first to the power of the second, in double precision. In place."""
    def square(self) -> Tensor:
        """Each element times itself."""
    def square_(self) -> Tensor:
        """Each element times itself. In place."""
    @overload
    def clamp(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """Each element, limited to [min, max]; NaN stays."""
    @overload
    def clamp(self, min: _Number | None = None, max: _Number | None = None) -> Tensor: ...
    @overload
    def clip(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """Each element, limited to [min, max]; NaN stays."""
    @overload
    def clip(self, min: _Number | None = None, max: _Number | None = None) -> Tensor: ...
    @overload
    def clamp_(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """Each element, limited to [min, max]; NaN stays. In place."""
    @overload
    def clamp_(self, min: _Number | None = None, max: _Number | None = None) -> Tensor: ...
    @overload
    def clip_(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """Each element, limited to [min, max]; NaN stays. In place."""
    @overload
    def clip_(self, min: _Number | None = None, max: _Number | None = None) -> Tensor: ...
    @overload
    def clamp_min(self, min: Tensor) -> Tensor:
        """The larger of `input` and `min`; NaN stays."""
    @overload
    def clamp_min(self, min: _Number) -> Tensor: ...
    @overload
    def clamp_min_(self, min: Tensor) -> Tensor:
        """The larger of `input` and `min`; NaN stays. In place."""
    @overload
    def clamp_min_(self, min: _Number) -> Tensor: ...
    @overload
    def clamp_max(self, max: Tensor) -> Tensor:
        """The smaller of `input` and `max`; NaN stays."""
    @overload
    def clamp_max(self, max: _Number) -> Tensor: ...
    @overload
    def clamp_max_(self, max: Tensor) -> Tensor:
        """The smaller of `input` and `max`; NaN stays. In place."""
    @overload
    def clamp_max_(self, max: _Number) -> Tensor: ...
    def round(self, *, decimals: _int = 0) -> Tensor:
        """Nearest number of `decimals` digits after the point, halves to the even one."""
    def special_round(self, *, decimals: _int = 0) -> Tensor:
        """Nearest number of `decimals` digits after the point, halves to the even one."""
    def round_(self, *, decimals: _int = 0) -> Tensor:
        """Nearest number of `decimals` digits after the point, halves to the even one. In place."""
    def special_round_(self, *, decimals: _int = 0) -> Tensor:
        """Nearest number of `decimals` digits after the point, halves to the even one. In place."""
    def prelu(self, weight: Tensor) -> Tensor:
        """x where positive, else `weight * x`, with a weight per channel or one for all."""
    def lerp(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """`input + weight * (end - input)`."""
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """`input + weight * (end - input)`. In place."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """`input + value * tensor1 / tensor2`."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """`input + value * tensor1 / tensor2`. In place."""
    def bitwise_not(self) -> Tensor:
        """Bits inverted; logical not of a bool."""
    def bitwise_not_(self) -> Tensor:
        """Bits inverted; logical not of a bool. In place."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """Finite numbers in place of NaN and infinities."""
    def nan_to_num_(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """Finite numbers in place of NaN and infinities. In place."""
    def logit(self, eps: _float | None = None) -> Tensor:
        """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given."""
    def special_logit(self, eps: _float | None = None) -> Tensor:
        """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given. In place."""
    def special_logit_(self, eps: _float | None = None) -> Tensor:
        """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given. In place."""
    def heaviside(self, values: Tensor) -> Tensor:
        """0 below zero, 1 above, `values` at zero."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """0 below zero, 1 above, `values` at zero. In place."""
    def isclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """Whether elements are within `atol + rtol * |other|` of each other."""
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Whether all elements are within `atol + rtol * |other|` of each other."""
    def equal(self, other: Tensor) -> _bool:
        """Whether two tensors have the same shape and elements."""
    def signbit(self) -> Tensor:
        """Whether the sign of each element is minus, that of zeros too."""
    def positive(self) -> Tensor:
        """The tensor itself."""
    def nextafter(self, other: Tensor) -> Tensor:
        """The next number after each of `input` on the way to that of `other`."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """The next number after each of `input` on the way to that of `other`. In place."""
    def frexp(self) -> _MantissaExponent:
        """Each number as one of magnitude in [0.5, 1) and the power of two that it is multiplied by."""
    @overload
    def to(self, dtype: _dtype, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor in another dtype or on another device; itself if it is there already."""
    @overload
    def to(self, other: Tensor, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    @overload
    def to(self, device: _device | _str | _int | None = None, dtype: _dtype | None = None, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    def type_as(self, other: Tensor) -> Tensor:
        """The tensor cast to the dtype of `other`."""
    def float(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `float` names the dtype."""
    def double(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `double` names the dtype."""
    def half(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `half` names the dtype."""
    def bfloat16(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `bfloat16` names the dtype."""
    def int(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `int` names the dtype."""
    def long(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `long` names the dtype."""
    def short(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `short` names the dtype."""
    def char(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `char` names the dtype."""
    def byte(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `byte` names the dtype."""
    def bool(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """`input` cast as `to` does it; `bool` names the dtype."""
    def cpu(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor in the memory of the CPU; itself if it is there already."""
    def cuda(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor on a GPU of any vendor; an error where there is none."""
    def contiguous(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor with its elements dense in row-major order, or in the order of `memory_format`."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy of the tensor, with its history."""
    def copy_(self, other: Tensor | _Number, non_blocking: _bool = False) -> Tensor:
        """Writes `other` into `input`, broadcast and cast as needed."""
    @overload
    def resize_(self, *size: _int, memory_format: _memory_format | None = None) -> Tensor:
        """Changes the size of `input`; elements beyond the old ones are unspecified."""
    @overload
    def resize_(self, size: Sequence[_int], *, memory_format: _memory_format | None = None) -> Tensor: ...
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
        """Changes the size of `input` to that of `the_template`."""
    @overload
    def set_(self) -> Tensor:
        """Makes `input` share the memory and the geometry of `source`."""
    @overload
    def set_(self, source: UntypedStorage) -> Tensor: ...
    @overload
    def set_(self, source: UntypedStorage, storage_offset: _int, size: Sequence[_int], stride: Sequence[_int] | None = None) -> Tensor: ...
    @overload
    def set_(self, source: Tensor) -> Tensor: ...
    @overload
    def set_(self, source: Tensor, storage_offset: _int, size: Sequence[_int], stride: Sequence[_int] | None = None) -> Tensor: ...
    def conj(self) -> Tensor:
        """The tensor: its numbers are real."""
    def resolve_conj(self) -> Tensor:
        """The tensor: there are no conjugate views."""
    def resolve_neg(self) -> Tensor:
        """The tensor: there are no negated views."""
    def pin_memory(self, device: Any | None = None) -> Tensor:
        """The tensor: all memory is the host's."""
    def is_nonzero(self) -> _bool:
        """Whether the only element of the tensor is other than zero."""
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether two tensors have one shape."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether `tensor` is the same memory with the same geometry."""
    def is_conj(self) -> _bool:
        """Whether the tensor is a conjugate view: none is."""
    def is_neg(self) -> _bool:
        """Whether the tensor is a negated view: none is."""
    @overload
    def new_zeros(self, *size: _int, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
        """A tensor of the given size and the dtype of `input` filled with 0."""
    @overload
    def new_zeros(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor: ...
    @overload
    def new_ones(self, *size: _int, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
        """A tensor of the given size and the dtype of `input` filled with 1."""
    @overload
    def new_ones(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor: ...
    def new_full(self, size: Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
        """A tensor of the given size and the dtype of `input` filled with `fill_value`."""
    @overload
    def new_empty(self, *size: _int, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
        """A tensor of the given size and the dtype of `input`, of unspecified contents."""
    @overload
    def new_empty(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor: ...
    def new_empty_strided(self, size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
        """A tensor of the given size and strides and the dtype of `input`."""
    def fill_(self, value: Tensor | _Number) -> Tensor:
        """A tensor of the shape and dtype of `input` with every element equal to `value`. In place."""
    def fill_diagonal_(self, fill_value: _Number, wrap: _bool = False) -> Tensor:
        """Sets the diagonal of `input` to `fill_value`."""
    def zero_(self) -> Tensor:
        """Sets every element of `input` to 0."""
    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """The indices of a dimension that a vector lists."""
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
        """The tensor with rows of `source` added to the indices of a dimension that a vector lists."""
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
        """The tensor with rows of `source` added to the indices of a dimension that a vector lists. In place."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """The tensor with rows of `source` at the indices of a dimension that a vector lists."""
    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """The tensor with rows of `source` at the indices of a dimension that a vector lists. In place."""
    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """The tensor with one value at the indices of a dimension that a vector lists."""
    def index_fill_(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """The tensor with one value at the indices of a dimension that a vector lists. In place."""
    def take(self, index: Tensor) -> Tensor:
        """The elements at positions in the tensor as one vector."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """The tensor with `source` at positions in the tensor as one vector."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """The tensor with `source` at positions in the tensor as one vector. In place."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """The elements whose position in a dimension the index gives."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str | None = None) -> Tensor:
        """The tensor with values at the positions in a dimension that the index gives."""
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _Number, *, reduce: _str | None = None) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str | None = None) -> Tensor:
        """The tensor with values at the positions in a dimension that the index gives. In place."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _Number, *, reduce: _str | None = None) -> Tensor: ...
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """The tensor with `src` added at the positions in a dimension that the index gives."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """The tensor with `src` added at the positions in a dimension that the index gives. In place."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """The tensor with values reduced into the positions in a dimension that the index gives."""
    def scatter_reduce_(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """The tensor with values reduced into the positions in a dimension that the index gives. In place."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """The tensor with rows reduced into the indices of a dimension that a vector lists."""
    def index_reduce_(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """The tensor with rows reduced into the indices of a dimension that a vector lists. In place."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """The elements whose position in a dimension the broadcast index gives."""
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """The tensor with one value where the mask is true."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """The tensor with one value where the mask is true. In place."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements at which the mask is true, as a vector."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """The tensor with elements of `source`, one after the other, where the mask is true."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """The tensor with elements of `source`, one after the other, where the mask is true. In place."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1) -> Tensor:
        """The indices of the non-zero elements, cut or padded to `size` rows."""
    def argwhere(self) -> Tensor:
        """The indices of the non-zero elements, a row each."""
    def count_nonzero(self, dim: _int | Sequence[_int] | None = None) -> Tensor:
        """How many elements are not zero, in all or along dimensions."""
    def where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:
        """`input` where the condition holds, else `other`; with one argument, where it holds."""
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor:
        """The tensor with values at the elements that a tuple of index tensors picks."""
    def index_put_(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor:
        """The tensor with values at the elements that a tuple of index tensors picks. In place."""
    def histc(self, bins: _int = 100, min: _Number = 0, max: _Number = 0) -> Tensor:
        """How many elements fall into each of `bins` intervals of equal width."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """How often each number occurs, or the sum of its weights."""
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """The distinct elements in ascending order, or the distinct slices along `dim`; on request also which of them each one is, and how often each occurs."""
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """As `unique`, of elements or slices that follow each other; they keep their order."""
    def tril(self, diagonal: _int = 0) -> Tensor:
        """The lower triangle of each matrix, up to a diagonal, with zeros elsewhere."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """The lower triangle of each matrix, up to a diagonal, with zeros elsewhere. In place."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """The upper triangle of each matrix, from a diagonal, with zeros elsewhere."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """The upper triangle of each matrix, from a diagonal, with zeros elsewhere. In place."""
    def trace(self) -> Tensor:
        """Sum of the diagonal of a matrix."""
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> _USV:
        """The singular value decomposition of each matrix: the columns of `U` and `V` are the singular vectors, `S` holds the singular values in descending order."""
    def outer(self, vec2: Tensor) -> Tensor:
        """All products of an element of one vector and one of the other."""
    def ger(self, vec2: Tensor) -> Tensor:
        """All products of an element of one vector and one of the other."""
    def inner(self, other: Tensor) -> Tensor:
        """Sums of products over the last dimensions."""
    def vdot(self, other: Tensor) -> Tensor:
        """Inner product of two vectors."""
    def kron(self, other: Tensor) -> Tensor:
        """Each element of the first times the whole of the second, block by block."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * mat @ vec`."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * mat @ vec`. In place."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha` times the sum of a batch of matrix products."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha` times the sum of a batch of matrix products. In place."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha` times the outer product of two vectors."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha` times the outer product of two vectors. In place."""
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """Vector product of vectors of three elements along `dim`."""
    def dist(self, other: Tensor, p: _float = 2) -> Tensor:
        """Norm of order `p` of the difference of two tensors."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Covariances of variables, which are the rows of a matrix; its columns are the observations."""
    def corrcoef(self) -> Tensor:
        """Correlations of variables, which are the rows of a matrix; its columns are the observations."""
    def inverse(self) -> Tensor:
        """The inverse of each matrix."""
    def det(self) -> Tensor:
        """The determinant of each matrix."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant of each matrix; none where that is negative."""
    def slogdet(self) -> _SignLogabsdet:
        """The sign of each determinant, and the logarithm of its absolute value."""
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverse of each matrix, from the triangle that `linalg.cholesky` made of it."""
    def cholesky_solve(self, L: Tensor, upper: _bool = False) -> Tensor:
        """The solution X of `A X = input`, from the triangle that `linalg.cholesky` made of A."""
    def matrix_power(self, n: _int) -> Tensor:
        """The product of `n` times each matrix; of its inverse where `n` is negative."""
    def qr(self, some: _bool = True) -> _QR:
        """Orthogonal columns Q and a triangle R with `Q R = A`."""
    def matmul(self, other: Tensor) -> Tensor:
        """Product of two tensors: inner product, matrix product, or a broadcast batch of matrix products."""
    def mm(self, mat2: Tensor) -> Tensor:
        """Product of two matrices."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """Products of two batches of matrices."""
    def mv(self, vec: Tensor) -> Tensor:
        """Product of a matrix and a vector."""
    def dot(self, tensor: Tensor) -> Tensor:
        """Inner product of two vectors."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * mat1 @ mat2`."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * mat1 @ mat2`. In place."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * batch1 @ batch2` for each matrix of a batch."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * batch1 @ batch2` for each matrix of a batch. In place."""
    @overload
    def bernoulli(self, *, generator: Generator | None = None) -> Tensor:
        """1 with the probability that `input` holds, else 0."""
    @overload
    def bernoulli(self, p: _float, *, generator: Generator | None = None) -> Tensor: ...
    @overload
    def bernoulli_(self, p: Tensor, *, generator: Generator | None = None) -> Tensor:
        """1 with the probability that `input` holds, else 0. In place."""
    @overload
    def bernoulli_(self, p: _float = 0.5, *, generator: Generator | None = None) -> Tensor: ...
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: Generator | None = None) -> Tensor:
        """Indices drawn with the weights that the rows of `input` hold."""
    def uniform_(self, from_: _float = 0, to: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Sets each element to a uniform random number in [from, to)."""
    def normal_(self, mean: _float = 0, std: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Normal random numbers of means `mean` and standard deviations `std`. In place."""
    def exponential_(self, lambd: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Sets each element to an exponential random number of rate `lambd`."""
    def log_normal_(self, mean: _float = 1, std: _float = 2, *, generator: Generator | None = None) -> Tensor:
        """Sets each element to a number whose logarithm is normal."""
    def cauchy_(self, median: _float = 0, sigma: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Sets each element to a random number of the Cauchy distribution."""
    def geometric_(self, p: _float, *, generator: Generator | None = None) -> Tensor:
        """Sets each element to the number of trials up to a success of probability `p`."""
    @overload
    def random_(self, *, generator: Generator | None = None) -> Tensor:
        """Sets each element to a random whole number."""
    @overload
    def random_(self, to: _int, *, generator: Generator | None = None) -> Tensor: ...
    @overload
    def random_(self, from_: _int, to: _int | None, *, generator: Generator | None = None) -> Tensor: ...
    @overload
    def sum(self, *, dtype: _dtype | None = None) -> Tensor:
        """Sum of all elements, or over the dimensions `dim`."""
    @overload
    def sum(self, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor: ...
    def nansum(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Sum of all elements, or over the dimensions `dim`, with NaN as 0."""
    @overload
    def mean(self, *, dtype: _dtype | None = None) -> Tensor:
        """Mean of all elements, or over the dimensions `dim`."""
    @overload
    def mean(self, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor: ...
    def nanmean(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Mean of the elements that are not NaN."""
    @overload
    def prod(self, *, dtype: _dtype | None = None) -> Tensor:
        """Product of all elements, or along `dim`."""
    @overload
    def prod(self, dim: _int, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor: ...
    def all(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Whether all elements differ from zero."""
    def any(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Whether some element differs from zero."""
    @overload
    def max(self) -> Tensor:
        """The largest element; along `dim` with where it stands; or the larger of two tensors."""
    @overload
    def max(self, other: Tensor) -> Tensor: ...
    @overload
    def max(self, dim: _int, keepdim: _bool = False) -> _ValuesIndices: ...
    @overload
    def min(self) -> Tensor:
        """The smallest element; along `dim` with where it stands; or the smaller of two tensors."""
    @overload
    def min(self, other: Tensor) -> Tensor: ...
    @overload
    def min(self, dim: _int, keepdim: _bool = False) -> _ValuesIndices: ...
    def amax(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """The largest element over the dimensions `dim`; equal elements share the gradient."""
    def amin(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """The smallest element over the dimensions `dim`; equal elements share the gradient."""
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False) -> _MinMax:
        """The smallest and the largest element."""
    @overload
    def var(self, unbiased: _bool) -> Tensor:
        """Variance of all elements, or over the dimensions `dim`; `correction` is taken from the divisor."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None, unbiased: _bool, keepdim: _bool = False) -> Tensor: ...
    @overload
    def var(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> Tensor: ...
    @overload
    def var(self, dim: _int | Sequence[_int] | None = None, unbiased: _bool = True, keepdim: _bool = False) -> Tensor: ...
    @overload
    def std(self, unbiased: _bool) -> Tensor:
        """Standard deviation of all elements, or over the dimensions `dim`; `correction` is taken from the divisor."""
    @overload
    def std(self, dim: _int | Sequence[_int] | None, unbiased: _bool, keepdim: _bool = False) -> Tensor: ...
    @overload
    def std(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> Tensor: ...
    @overload
    def std(self, dim: _int | Sequence[_int] | None = None, unbiased: _bool = True, keepdim: _bool = False) -> Tensor: ...
    @overload
    def norm(self, p: _Number | None = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None) -> Tensor:
        """Vector norm, or matrix norm where `ord` and two dimensions are given."""
    @overload
    def norm(self, p: _str, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None) -> Tensor: ...
    def logsumexp(self, dim: _int | Sequence[_int], keepdim: _bool = False) -> Tensor:
        """Logarithm of the sum of exponentials over the dimensions `dim`, without overflow."""
    @overload
    def median(self) -> Tensor:
        """The median, the lower of two in the middle."""
    @overload
    def median(self, dim: _int, keepdim: _bool = False) -> _ValuesIndices: ...
    @overload
    def nanmedian(self) -> Tensor:
        """The median of the elements that are not NaN."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False) -> _ValuesIndices: ...
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> _ValuesIndices:
        """The most frequent element along `dim`, and where it stands."""
    def quantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> Tensor:
        """The quantiles `q`, of all elements or along `dim`."""
    def nanquantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> Tensor:
        """The quantiles `q` of the elements that are not NaN."""
    @overload
    def sum_to_size(self, *size: _int) -> Tensor:
        """The sum over the dimensions that `size` has not or has once."""
    @overload
    def sum_to_size(self, size: Sequence[_int]) -> Tensor: ...
    def renorm(self, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
        """Each part along `dim`, scaled down to `maxnorm` where its norm of order `p` is larger."""
    def renorm_(self, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
        """Each part along `dim`, scaled down to `maxnorm` where its norm of order `p` is larger. In place."""
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The sum of the elements up to each one along `dim`."""
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The sum of the elements up to each one along `dim`. In place."""
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The product of the elements up to each one along `dim`."""
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The product of the elements up to each one along `dim`. In place."""
    def cummax(self, dim: _int) -> _ValuesIndices:
        """The largest element up to each one along `dim`, and where it stands."""
    def cummin(self, dim: _int) -> _ValuesIndices:
        """The smallest element up to each one along `dim`, and where it stands."""
    def logcumsumexp(self, dim: _int) -> Tensor:
        """The logarithm of the sum of exponentials up to each element along `dim`, without overflow."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """The `n`-th difference of neighbours along `dim`."""
    def softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """Exponentials divided by their sum along `dim`."""
    def log_softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """Logarithm of the softmax along `dim`, without overflow."""
    @overload
    def sort(self, dim: _int = -1, descending: _bool = False) -> _ValuesIndices:
        """The elements in ascending or descending order along `dim`, and where they stood."""
    @overload
    def sort(self, *, stable: _bool | None, dim: _int = -1, descending: _bool = False) -> _ValuesIndices: ...
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor:
        """The indices that sort a tensor along `dim`."""
    def msort(self) -> Tensor:
        """The elements in ascending order along the first dimension."""
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> _ValuesIndices:
        """The `k` largest or smallest elements along `dim`, and where they stood."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> _ValuesIndices:
        """The `k`-th smallest element along `dim`, counted from 1, and where it stood."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the first largest element, of all or along `dim`."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the first smallest element, of all or along `dim`."""
    @overload
    def view(self, *size: _int) -> Tensor:
        """The same elements in another shape, without a copy; or their bits as another dtype."""
    @overload
    def view(self, size: Sequence[_int]) -> Tensor: ...
    @overload
    def view(self, dtype: _dtype) -> Tensor: ...
    def view_as(self, other: Tensor) -> Tensor:
        """The same elements in the shape of `other`, without a copy."""
    @overload
    def reshape(self, *shape: _int) -> Tensor:
        """The same elements in another shape: a view where one exists, else a copy."""
    @overload
    def reshape(self, shape: Sequence[_int]) -> Tensor: ...
    def reshape_as(self, other: Tensor) -> Tensor:
        """The same elements in the shape of `other`: a view where one exists, else a copy."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """The dimensions from `start_dim` to `end_dim` as one."""
    def ravel(self) -> Tensor:
        """All elements as a vector."""
    def unflatten(self, dim: _int, sizes: Sequence[_int]) -> Tensor:
        """Dimension `dim` as several, whose product it is."""
    @overload
    def permute(self, *dims: _int) -> Tensor:
        """A view with the dimensions in another order."""
    @overload
    def permute(self, dims: Sequence[_int]) -> Tensor: ...
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """A view with two dimensions swapped."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """A view with two dimensions swapped."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """A view with two dimensions swapped."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """A view with two dimensions swapped. In place."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """A view with two dimensions swapped. In place."""
    def swapaxes_(self, dim0: _int, dim1: _int) -> Tensor:
        """A view with two dimensions swapped. In place."""
    def t(self) -> Tensor:
        """A view of a matrix, transposed."""
    def t_(self) -> Tensor:
        """A view of a matrix, transposed. In place."""
    def adjoint(self) -> Tensor:
        """A view with the last two dimensions swapped; the elements are real."""
    def movedim(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """A view with the dimensions `source` moved to the places `destination`."""
    def moveaxis(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """A view with the dimensions `source` moved to the places `destination`."""
    @overload
    def squeeze(self) -> Tensor:
        """A view without dimensions of size 1: all of them, or those among `dim`."""
    @overload
    def squeeze(self, dim: _int) -> Tensor: ...
    @overload
    def squeeze(self, dim: _int | Sequence[_int]) -> Tensor: ...
    @overload
    def squeeze_(self) -> Tensor:
        """A view without dimensions of size 1: all of them, or those among `dim`. In place."""
    @overload
    def squeeze_(self, dim: _int) -> Tensor: ...
    @overload
    def squeeze_(self, dim: _int | Sequence[_int]) -> Tensor: ...
    def unsqueeze(self, dim: _int) -> Tensor:
        """A view with a new dimension of size 1 at `dim`."""
    def unsqueeze_(self, dim: _int) -> Tensor:
        """A view with a new dimension of size 1 at `dim`. In place."""
    @overload
    def expand(self, *size: _int, implicit: _bool = False) -> Tensor:
        """A view repeated over dimensions of size 1 and new leading ones; -1 keeps a size."""
    @overload
    def expand(self, size: Sequence[_int], *, implicit: _bool = False) -> Tensor: ...
    def expand_as(self, other: Tensor) -> Tensor:
        """A view repeated to the shape of `other`."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor:
        """A view repeated to the shape `size`."""
    @overload
    def broadcast_to(self, size: Sequence[_int]) -> Tensor: ...
    def as_strided(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """A view of the storage with any geometry that stays inside."""
    def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """A view of the storage with any geometry that stays inside. In place."""
    def as_strided_scatter(self, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """A copy in which the elements that `as_strided` would show are those of `src`."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """A view at one index of a dimension."""
    @overload
    def narrow(self, dim: _int, start: Tensor, length: _int) -> Tensor:
        """A view of `length` indices of a dimension from `start`."""
    @overload
    def narrow(self, dim: _int, start: _int, length: _int) -> Tensor: ...
    def narrow_copy(self, dim: _int, start: _int, length: _int) -> Tensor:
        """A copy of `length` indices of a dimension from `start`."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A diagonal of two dimensions, as the last dimension of a view."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """Windows of `size` indices of a dimension, `step` apart, as a view with one more dimension."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """A copy with `src` at one index of a dimension."""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1) -> Tensor:
        """A copy with `src` in place of a slice."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A copy with `src` on a diagonal."""
    def diag(self, diagonal: _int = 0) -> Tensor:
        """The diagonal of a matrix, or a matrix with the vector on a diagonal."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Zeros with the last dimension as a diagonal of two new dimensions."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """A matrix with all elements on a diagonal."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """A view per index of a dimension."""
    @overload
    def split(self, split_size_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of pieces of a dimension, of one size or of the sizes listed."""
    @overload
    def split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def split(self, split_size_or_sections: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def split(self, split_size: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of pieces of a dimension, of the sizes listed."""
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` views of equal size, the last one of which may be smaller."""
    @overload
    def tensor_split(self, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of nearly equal parts of a dimension, or of the parts between the indices listed."""
    @overload
    def tensor_split(self, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def tensor_split(self, indices: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def hsplit(self, sections: _int) -> tuple[Tensor, ...]:
        """Views of parts of the columns."""
    @overload
    def hsplit(self, indices: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def vsplit(self, sections: _int) -> tuple[Tensor, ...]:
        """Views of parts of the rows."""
    @overload
    def vsplit(self, indices: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def dsplit(self, sections: _int) -> tuple[Tensor, ...]:
        """Views of parts of the third dimension."""
    @overload
    def dsplit(self, indices: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def flip(self, *dims: _int) -> Tensor:
        """A copy with the order of the indices of `dims` reversed."""
    @overload
    def flip(self, dims: Sequence[_int]) -> Tensor: ...
    def fliplr(self) -> Tensor:
        """A copy with the columns reversed."""
    def flipud(self) -> Tensor:
        """A copy with the rows reversed."""
    def roll(self, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = None) -> Tensor:
        """A copy with indices moved on by `shifts`, those that leave the end coming back at the start."""
    def rot90(self, k: _int = 1, dims: Sequence[_int] = [0, 1]) -> Tensor:
        """A copy turned by `k` quarter turns in the plane of two dimensions."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor:
        """The tensor repeated along each dimension."""
    @overload
    def repeat(self, repeats: Sequence[_int]) -> Tensor: ...
    @overload
    def tile(self, *dims: _int) -> Tensor:
        """The tensor repeated along its last dimensions."""
    @overload
    def tile(self, dims: Sequence[_int]) -> Tensor: ...
    @overload
    def repeat_interleave(self, repeats: _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Each index of a dimension repeated in place."""
    @overload
    def repeat_interleave(self, repeats: Tensor, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor: ...
    @overload
    def repeat_interleave(self, *, output_size: _int | None = None) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    _backward_hooks: Any
    _cdata: Any
    _dispatches: Any
    _fix_weakref: Any
    _grad: Any
    _grad_fn: Any
    _is_view: Any
    _make_wrapper_subclass: Any
    _takes_part: Any
    _typed_storage: Any
    ccol_indices: Any
    cdouble: Any
    cfloat: Any
    chalf: Any
    cholesky: Any
    coalesce: Any
    col_indices: Any
    crow_indices: Any
    dequantize: Any
    eig: Any
    grad_dtype: Any
    hash_tensor: Any
    imag: Any
    indices: Any
    int_repr: Any
    ipu: Any
    is_coalesced: Any
    is_cpu: Any
    is_distributed: Any
    istft: Any
    lstsq: Any
    mtia: Any
    q_per_channel_axis: Any
    q_per_channel_scales: Any
    q_per_channel_zero_points: Any
    q_scale: Any
    q_zero_point: Any
    qscheme: Any
    resize_as_sparse_: Any
    row_indices: Any
    slice_inverse: Any
    smm: Any
    solve: Any
    sparse_mask: Any
    sparse_resize_: Any
    sparse_resize_and_clear_: Any
    sspaddmm: Any
    stft: Any
    symeig: Any
    to_mkldnn: Any
    to_padded_tensor: Any
    to_sparse: Any
    to_sparse_bsc: Any
    to_sparse_bsr: Any
    to_sparse_coo: Any
    to_sparse_csc: Any
    to_sparse_csr: Any
    values: Any
    xpu: Any

class dtype:
    @property
    def is_floating_point(self) -> _bool: ...
    @property
    def is_complex(self) -> _bool: ...
    @property
    def is_signed(self) -> _bool: ...
    @property
    def itemsize(self) -> _int: ...

class device:
    @property
    def type(self) -> _str: ...
    @property
    def index(self) -> _int | None: ...
    def __init__(self, type: Any, index: _int | None = None) -> None: ...

class memory_format: ...

class Generator:
    @property
    def device(self) -> _device: ...
    def __init__(self, device: Any = None) -> None: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor) -> Generator: ...
    def initial_seed(self) -> _int: ...
    def manual_seed(self, seed: _int) -> Generator: ...
    def seed(self) -> _int: ...
    def _state(self) -> Sequence[_int]: ...
    def _set_state(self, state: bytes) -> None: ...

class Node:
    def __getattr__(self, name: _str) -> Any: ...

class RemovableHandle:
    def __getattr__(self, name: _str) -> Any: ...

class SavedTensor:
    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None: ...
    def unpack(self) -> Tensor | None: ...

class UntypedStorage:
    def __init__(self, data: _int | Sequence[_int] = 0, *, device: _device | _str | None = None) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: _int, value: _int) -> None: ...
    def __getattr__(self, name: _str) -> Any: ...

_dtype = dtype
_device = device
_memory_format = memory_format

def as_tensor(data: Any, dtype: _dtype | None = None, device: _device | _str | None = None) -> Tensor: ...
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: _bool | None = None) -> Tensor: ...
def from_numpy(array: Any) -> Tensor: ...
def frombuffer(buffer: Any, *, dtype: _dtype, count: _int = -1, offset: _int = 0, requires_grad: _bool = False) -> Tensor: ...
def get_default_dtype() -> _dtype: ...
def get_num_threads() -> _int: ...
def is_anomaly_check_nan_enabled() -> _bool: ...
def is_anomaly_enabled() -> _bool: ...
def is_complex(input: Tensor) -> _bool: ...
def is_floating_point(input: Tensor) -> _bool: ...
def is_grad_enabled() -> _bool: ...
def is_inference_mode_enabled() -> _bool: ...
def is_signed(input: Tensor) -> _bool: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Any = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def numel(input: Tensor) -> _int: ...
def is_warn_always_enabled() -> _bool: ...
def set_warn_always(enabled: _bool) -> None: ...
def set_default_dtype(d: _dtype) -> None: ...
def set_num_threads(n: _int) -> None: ...
def tensor(data: Any, *, dtype: _dtype | None = None, device: _device | _str | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor: ...
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor: ...

def abs(input: Tensor, *, out: Any = None) -> Tensor:
    """Absolute value of each element."""
def absolute(input: Tensor, *, out: Any = None) -> Tensor:
    """Absolute value of each element."""
def abs_(input: Tensor) -> Tensor:
    """Absolute value of each element. In place."""
def absolute_(input: Tensor) -> Tensor:
    """Absolute value of each element. In place."""
def neg(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element with its sign changed."""
def negative(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element with its sign changed."""
def neg_(input: Tensor) -> Tensor:
    """Each element with its sign changed. In place."""
def negative_(input: Tensor) -> Tensor:
    """Each element with its sign changed. In place."""
def sign(input: Tensor, *, out: Any = None) -> Tensor:
    """-1, 0 or 1 by the sign of each element."""
def sign_(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of each element. In place."""
def sgn(input: Tensor, *, out: Any = None) -> Tensor:
    """As `sign`."""
def sgn_(input: Tensor) -> Tensor:
    """As `sign`. In place."""
def exp(input: Tensor, *, out: Any = None) -> Tensor:
    """e to the power of each element."""
def exp_(input: Tensor) -> Tensor:
    """e to the power of each element. In place."""
def exp2(input: Tensor, *, out: Any = None) -> Tensor:
    """2 to the power of each element."""
def special_exp2(input: Tensor, *, out: Any = None) -> Tensor:
    """2 to the power of each element."""
def exp2_(input: Tensor) -> Tensor:
    """2 to the power of each element. In place."""
def special_exp2_(input: Tensor) -> Tensor:
    """2 to the power of each element. In place."""
def expm1(input: Tensor, *, out: Any = None) -> Tensor:
    """e to the power of each element, minus one, exact near zero."""
def special_expm1(input: Tensor, *, out: Any = None) -> Tensor:
    """e to the power of each element, minus one, exact near zero."""
def expm1_(input: Tensor) -> Tensor:
    """e to the power of each element, minus one, exact near zero. In place."""
def special_expm1_(input: Tensor) -> Tensor:
    """e to the power of each element, minus one, exact near zero. In place."""
def log(input: Tensor, *, out: Any = None) -> Tensor:
    """Natural logarithm of each element."""
def log_(input: Tensor) -> Tensor:
    """Natural logarithm of each element. In place."""
def log2(input: Tensor, *, out: Any = None) -> Tensor:
    """Logarithm to base 2 of each element."""
def log2_(input: Tensor) -> Tensor:
    """Logarithm to base 2 of each element. In place."""
def log10(input: Tensor, *, out: Any = None) -> Tensor:
    """Logarithm to base 10 of each element."""
def log10_(input: Tensor) -> Tensor:
    """Logarithm to base 10 of each element. In place."""
def log1p(input: Tensor, *, out: Any = None) -> Tensor:
    """Natural logarithm of one plus each element, exact near zero."""
def special_log1p(input: Tensor, *, out: Any = None) -> Tensor:
    """Natural logarithm of one plus each element, exact near zero."""
def log1p_(input: Tensor) -> Tensor:
    """Natural logarithm of one plus each element, exact near zero. In place."""
def special_log1p_(input: Tensor) -> Tensor:
    """Natural logarithm of one plus each element, exact near zero. In place."""
def sqrt(input: Tensor, *, out: Any = None) -> Tensor:
    """Square root of each element."""
def sqrt_(input: Tensor) -> Tensor:
    """Square root of each element. In place."""
def rsqrt(input: Tensor, *, out: Any = None) -> Tensor:
    """One over the square root of each element."""
def rsqrt_(input: Tensor) -> Tensor:
    """One over the square root of each element. In place."""
def reciprocal(input: Tensor, *, out: Any = None) -> Tensor:
    """One over each element."""
def reciprocal_(input: Tensor) -> Tensor:
    """One over each element. In place."""
def sin(input: Tensor, *, out: Any = None) -> Tensor:
    """Sine of each element, in radians."""
def sin_(input: Tensor) -> Tensor:
    """Sine of each element, in radians. In place."""
def cos(input: Tensor, *, out: Any = None) -> Tensor:
    """Cosine of each element, in radians."""
def cos_(input: Tensor) -> Tensor:
    """Cosine of each element, in radians. In place."""
def tan(input: Tensor, *, out: Any = None) -> Tensor:
    """Tangent of each element, in radians."""
def tan_(input: Tensor) -> Tensor:
    """Tangent of each element, in radians. In place."""
def sinh(input: Tensor, *, out: Any = None) -> Tensor:
    """Hyperbolic sine of each element."""
def sinh_(input: Tensor) -> Tensor:
    """Hyperbolic sine of each element. In place."""
def cosh(input: Tensor, *, out: Any = None) -> Tensor:
    """Hyperbolic cosine of each element."""
def cosh_(input: Tensor) -> Tensor:
    """Hyperbolic cosine of each element. In place."""
def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """Hyperbolic tangent of each element."""
def tanh_(input: Tensor) -> Tensor:
    """Hyperbolic tangent of each element. In place."""
def asin(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse sine of each element, in radians."""
def arcsin(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse sine of each element, in radians."""
def asin_(input: Tensor) -> Tensor:
    """Inverse sine of each element, in radians. In place."""
def arcsin_(input: Tensor) -> Tensor:
    """Inverse sine of each element, in radians. In place."""
def acos(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse cosine of each element, in radians."""
def arccos(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse cosine of each element, in radians."""
def acos_(input: Tensor) -> Tensor:
    """Inverse cosine of each element, in radians. In place."""
def arccos_(input: Tensor) -> Tensor:
    """Inverse cosine of each element, in radians. In place."""
def atan(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse tangent of each element, in radians."""
def arctan(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse tangent of each element, in radians."""
def atan_(input: Tensor) -> Tensor:
    """Inverse tangent of each element, in radians. In place."""
def arctan_(input: Tensor) -> Tensor:
    """Inverse tangent of each element, in radians. In place."""
def asinh(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse hyperbolic sine of each element."""
def arcsinh(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse hyperbolic sine of each element."""
def asinh_(input: Tensor) -> Tensor:
    """Inverse hyperbolic sine of each element. In place."""
def arcsinh_(input: Tensor) -> Tensor:
    """Inverse hyperbolic sine of each element. In place."""
def acosh(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse hyperbolic cosine of each element."""
def arccosh(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse hyperbolic cosine of each element."""
def acosh_(input: Tensor) -> Tensor:
    """Inverse hyperbolic cosine of each element. In place."""
def arccosh_(input: Tensor) -> Tensor:
    """Inverse hyperbolic cosine of each element. In place."""
def atanh(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse hyperbolic tangent of each element."""
def arctanh(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse hyperbolic tangent of each element."""
def atanh_(input: Tensor) -> Tensor:
    """Inverse hyperbolic tangent of each element. In place."""
def arctanh_(input: Tensor) -> Tensor:
    """Inverse hyperbolic tangent of each element. In place."""
def erf(input: Tensor, *, out: Any = None) -> Tensor:
    """Error function of each element."""
def special_erf(input: Tensor, *, out: Any = None) -> Tensor:
    """Error function of each element."""
def erf_(input: Tensor) -> Tensor:
    """Error function of each element. In place."""
def special_erf_(input: Tensor) -> Tensor:
    """Error function of each element. In place."""
def erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """One minus the error function of each element."""
def special_erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """One minus the error function of each element."""
def erfc_(input: Tensor) -> Tensor:
    """One minus the error function of each element. In place."""
def special_erfc_(input: Tensor) -> Tensor:
    """One minus the error function of each element. In place."""
def erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse error function of each element."""
def special_erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """Inverse error function of each element."""
def erfinv_(input: Tensor) -> Tensor:
    """Inverse error function of each element. In place."""
def special_erfinv_(input: Tensor) -> Tensor:
    """Inverse error function of each element. In place."""
def lgamma(input: Tensor, *, out: Any = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function."""
def special_gammaln(input: Tensor, *, out: Any = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function."""
def lgamma_(input: Tensor) -> Tensor:
    """Logarithm of the absolute value of the gamma function. In place."""
def special_gammaln_(input: Tensor) -> Tensor:
    """Logarithm of the absolute value of the gamma function. In place."""
def digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """Derivative of `lgamma`."""
def special_psi(input: Tensor, *, out: Any = None) -> Tensor:
    """Derivative of `lgamma`."""
def special_digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """Derivative of `lgamma`."""
def digamma_(input: Tensor) -> Tensor:
    """Derivative of `lgamma`. In place."""
def special_psi_(input: Tensor) -> Tensor:
    """Derivative of `lgamma`. In place."""
def special_digamma_(input: Tensor) -> Tensor:
    """Derivative of `lgamma`. In place."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def special_expit(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def sigmoid_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)). In place."""
def special_expit_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)). In place."""
def floor(input: Tensor, *, out: Any = None) -> Tensor:
    """Largest integer not above each element."""
def floor_(input: Tensor) -> Tensor:
    """Largest integer not above each element. In place."""
def ceil(input: Tensor, *, out: Any = None) -> Tensor:
    """Smallest integer not below each element."""
def ceil_(input: Tensor) -> Tensor:
    """Smallest integer not below each element. In place."""
def trunc(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element without its fraction."""
def fix(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element without its fraction."""
def trunc_(input: Tensor) -> Tensor:
    """Each element without its fraction. In place."""
def fix_(input: Tensor) -> Tensor:
    """Each element without its fraction. In place."""
def frac(input: Tensor, *, out: Any = None) -> Tensor:
    """The fraction of each element, with its sign."""
def frac_(input: Tensor) -> Tensor:
    """The fraction of each element, with its sign. In place."""
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(πx) / (πx), and 1 at 0."""
def special_sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(πx) / (πx), and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """sin(πx) / (πx), and 1 at 0. In place."""
def special_sinc_(input: Tensor) -> Tensor:
    """sin(πx) / (πx), and 1 at 0. In place."""
def angle(input: Tensor, *, out: Any = None) -> Tensor:
    """The angle of each number in the complex plane: π of a negative one, else 0."""
def deg2rad(input: Tensor, *, out: Any = None) -> Tensor:
    """Radians from degrees."""
def deg2rad_(input: Tensor) -> Tensor:
    """Radians from degrees. In place."""
def rad2deg(input: Tensor, *, out: Any = None) -> Tensor:
    """Degrees from radians."""
def rad2deg_(input: Tensor) -> Tensor:
    """Degrees from radians. In place."""
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Product of two tensors, element by element."""
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Product of two tensors, element by element."""
def mul_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """Product of two tensors, element by element. In place."""
def multiply_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """Product of two tensors, element by element. In place."""
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Quotient rounded toward minus infinity."""
def floor_divide_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """Quotient rounded toward minus infinity. In place."""
@overload
def remainder(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Remainder with the sign of the divisor, as Python's `%`."""
@overload
def remainder(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def remainder_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Remainder with the sign of the divisor, as Python's `%`. In place."""
@overload
def remainder_(input: _Number, other: Tensor) -> Tensor: ...
def fmod(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Remainder with the sign of the dividend, as C's `fmod`."""
def fmod_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Remainder with the sign of the dividend, as C's `fmod`. In place."""
def atan2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Angle of the point (other, input), in radians."""
def arctan2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Angle of the point (other, input), in radians."""
def atan2_(input: Tensor, other: Tensor) -> Tensor:
    """Angle of the point (other, input), in radians. In place."""
def arctan2_(input: Tensor, other: Tensor) -> Tensor:
    """Angle of the point (other, input), in radians. In place."""
def maximum(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The larger of two elements; NaN if either is."""
def minimum(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of two elements; NaN if either is."""
def fmax(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The larger of two elements; the other one where one is NaN."""
def fmin(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of two elements; the other one where one is NaN."""
def hypot(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Length of the hypotenuse."""
def hypot_(input: Tensor, other: Tensor) -> Tensor:
    """Length of the hypotenuse. In place."""
@overload
def xlogy(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input * log(other)`, and 0 where `input` is 0."""
@overload
def xlogy(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def special_xlogy(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input * log(other)`, and 0 where `input` is 0."""
@overload
def special_xlogy(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def xlogy_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input * log(other)`, and 0 where `input` is 0. In place."""
@overload
def xlogy_(input: _Number, other: Tensor) -> Tensor: ...
@overload
def special_xlogy_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input * log(other)`, and 0 where `input` is 0. In place."""
@overload
def special_xlogy_(input: _Number, other: Tensor) -> Tensor: ...
def logaddexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """log2(2^input + 2^other), without overflow."""
def copysign(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The magnitude of the first with the sign of the second."""
def copysign_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """The magnitude of the first with the sign of the second. In place."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Any = None) -> Tensor:
    """`input + value * tensor1 * tensor2`."""
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
    """`input + value * tensor1 * tensor2`. In place."""
@overload
def bitwise_and(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Bitwise and; logical and of bools."""
@overload
def bitwise_and(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def bitwise_and_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Bitwise and; logical and of bools. In place."""
@overload
def bitwise_and_(input: _Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_or(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Bitwise or; logical or of bools."""
@overload
def bitwise_or(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def bitwise_or_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Bitwise or; logical or of bools. In place."""
@overload
def bitwise_or_(input: _Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_xor(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Bitwise exclusive or; logical one of bools."""
@overload
def bitwise_xor(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def bitwise_xor_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Bitwise exclusive or; logical one of bools. In place."""
@overload
def bitwise_xor_(input: _Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_left_shift(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Bits moved up by `other`."""
@overload
def bitwise_left_shift(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def bitwise_left_shift_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Bits moved up by `other`. In place."""
@overload
def bitwise_left_shift_(input: _Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_right_shift(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Bits moved down by `other`, keeping the sign."""
@overload
def bitwise_right_shift(input: _Number, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def bitwise_right_shift_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Bits moved down by `other`, keeping the sign. In place."""
@overload
def bitwise_right_shift_(input: _Number, other: Tensor) -> Tensor: ...
def gcd(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Greatest common divisor."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """Greatest common divisor. In place."""
def lcm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Least common multiple."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """Least common multiple. In place."""
def ldexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """`input * 2 ^ other`."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2 ^ other`. In place."""
def eq(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether elements are equal."""
def eq_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether elements are equal. In place."""
def ne(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether elements differ."""
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether elements differ."""
def ne_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether elements differ. In place."""
def not_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether elements differ. In place."""
def lt(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is less than the second."""
def less(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is less than the second."""
def lt_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is less than the second. In place."""
def less_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is less than the second. In place."""
def le(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is at most the second."""
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is at most the second."""
def le_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is at most the second. In place."""
def less_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is at most the second. In place."""
def gt(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is greater than the second."""
def greater(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is greater than the second."""
def gt_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is greater than the second. In place."""
def greater_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is greater than the second. In place."""
def ge(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is at least the second."""
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Whether the first is at least the second."""
def ge_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is at least the second. In place."""
def greater_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Whether the first is at least the second. In place."""
def logical_and(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Whether both are non-zero."""
def logical_and_(input: Tensor, other: Tensor) -> Tensor:
    """Whether both are non-zero. In place."""
def logical_or(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Whether either is non-zero."""
def logical_or_(input: Tensor, other: Tensor) -> Tensor:
    """Whether either is non-zero. In place."""
def logical_xor(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Whether exactly one is non-zero."""
def logical_xor_(input: Tensor, other: Tensor) -> Tensor:
    """Whether exactly one is non-zero. In place."""
def logical_not(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether an element is zero."""
def logical_not_(input: Tensor) -> Tensor:
    """Whether an element is zero. In place."""
def isnan(input: Tensor) -> Tensor:
    """Whether an element is NaN."""
def isinf(input: Tensor) -> Tensor:
    """Whether an element is infinite."""
def isfinite(input: Tensor) -> Tensor:
    """Whether an element is neither infinite nor NaN."""
def isposinf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether an element is +∞."""
def isneginf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether an element is -∞."""
def relu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """max(x, 0)."""
def relu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """max(x, 0). In place."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """The self-normalising ELU of Klambauer et al., 2017."""
def selu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """The self-normalising ELU of Klambauer et al., 2017. In place."""
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """x where positive, else `alpha * (exp(x / alpha) - 1)`."""
def celu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """x where positive, else `alpha * (exp(x / alpha) - 1)`. In place."""
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Any = None) -> Tensor:
    """x, and 0 where |x| is at most `lambd`."""
def threshold(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x where above the threshold, else `value`."""
def threshold_(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = False) -> Tensor:
    """x where above the threshold, else `value`. In place."""
def add(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """Sum of two tensors or of a tensor and a number: `input + alpha * other`."""
def add_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """Sum of two tensors or of a tensor and a number: `input + alpha * other`. In place."""
def sub(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """Difference of two tensors or of a tensor and a number: `input - alpha * other`."""
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """Difference of two tensors or of a tensor and a number: `input - alpha * other`."""
def sub_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """Difference of two tensors or of a tensor and a number: `input - alpha * other`. In place."""
def subtract_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """Difference of two tensors or of a tensor and a number: `input - alpha * other`. In place."""
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """`other - alpha * input`."""
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor')."""
def divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor')."""
def div_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor'). In place."""
def divide_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor'). In place."""
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """Quotient as a real number."""
def true_divide_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """Quotient as a real number. In place."""
@overload
def pow(input: Tensor, exponent: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The first to the power of the second."""
@overload
def pow(input: _Number, exponent: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def pow_(input: Tensor, exponent: Tensor | _Number) -> Tensor:
    """The first to the power of the second. In place."""
@overload
def pow_(input: _Number, exponent: Tensor) -> Tensor: ...
@overload
def float_power(input: Tensor, exponent: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The first to the power of the second, in double precision."""
@overload
def float_power(input: _Number, exponent: Tensor, *, out: Any = None) -> Tensor: ...
def float_power_(input: Tensor, exponent: Tensor | _Number) -> Tensor:
    """The first to the power of the second, in double precision. In place."""
def square(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element times itself."""
def square_(input: Tensor) -> Tensor:
    """Each element times itself. In place."""
@overload
def clamp(input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Any = None) -> Tensor:
    """Each element, limited to [min, max]; NaN stays."""
@overload
def clamp(input: Tensor, min: _Number | None = None, max: _Number | None = None, *, out: Any = None) -> Tensor: ...
@overload
def clip(input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Any = None) -> Tensor:
    """Each element, limited to [min, max]; NaN stays."""
@overload
def clip(input: Tensor, min: _Number | None = None, max: _Number | None = None, *, out: Any = None) -> Tensor: ...
@overload
def clamp_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Each element, limited to [min, max]; NaN stays. In place."""
@overload
def clamp_(input: Tensor, min: _Number | None = None, max: _Number | None = None) -> Tensor: ...
@overload
def clip_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Each element, limited to [min, max]; NaN stays. In place."""
@overload
def clip_(input: Tensor, min: _Number | None = None, max: _Number | None = None) -> Tensor: ...
@overload
def clamp_min(input: Tensor, min: Tensor, *, out: Any = None) -> Tensor:
    """The larger of `input` and `min`; NaN stays."""
@overload
def clamp_min(input: Tensor, min: _Number, *, out: Any = None) -> Tensor: ...
@overload
def clamp_min_(input: Tensor, min: Tensor) -> Tensor:
    """The larger of `input` and `min`; NaN stays. In place."""
@overload
def clamp_min_(input: Tensor, min: _Number) -> Tensor: ...
@overload
def clamp_max(input: Tensor, max: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of `input` and `max`; NaN stays."""
@overload
def clamp_max(input: Tensor, max: _Number, *, out: Any = None) -> Tensor: ...
@overload
def clamp_max_(input: Tensor, max: Tensor) -> Tensor:
    """The smaller of `input` and `max`; NaN stays. In place."""
@overload
def clamp_max_(input: Tensor, max: _Number) -> Tensor: ...
def round(input: Tensor, *, decimals: _int = 0, out: Any = None) -> Tensor:
    """Nearest number of `decimals` digits after the point, halves to the even one."""
def special_round(input: Tensor, *, decimals: _int = 0, out: Any = None) -> Tensor:
    """Nearest number of `decimals` digits after the point, halves to the even one."""
def round_(input: Tensor, *, decimals: _int = 0) -> Tensor:
    """Nearest number of `decimals` digits after the point, halves to the even one. In place."""
def special_round_(input: Tensor, *, decimals: _int = 0) -> Tensor:
    """Nearest number of `decimals` digits after the point, halves to the even one. In place."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, else `weight * x`, with a weight per channel or one for all."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input + weight * (end - input)`."""
def lerp_(input: Tensor, end: Tensor, weight: Tensor | _Number) -> Tensor:
    """`input + weight * (end - input)`. In place."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Any = None) -> Tensor:
    """`input + value * tensor1 / tensor2`."""
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
    """`input + value * tensor1 / tensor2`. In place."""
def bitwise_not(input: Tensor, *, out: Any = None) -> Tensor:
    """Bits inverted; logical not of a bool."""
def bitwise_not_(input: Tensor) -> Tensor:
    """Bits inverted; logical not of a bool. In place."""
def nan_to_num(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Any = None) -> Tensor:
    """Finite numbers in place of NaN and infinities."""
def nan_to_num_(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
    """Finite numbers in place of NaN and infinities. In place."""
def logit(input: Tensor, eps: _float | None = None, *, out: Any = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given."""
def special_logit(input: Tensor, eps: _float | None = None, *, out: Any = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given."""
def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given. In place."""
def special_logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given. In place."""
def heaviside(input: Tensor, values: Tensor, *, out: Any = None) -> Tensor:
    """0 below zero, 1 above, `values` at zero."""
def heaviside_(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, `values` at zero. In place."""
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
    """Whether elements are within `atol + rtol * |other|` of each other."""
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
    """Whether all elements are within `atol + rtol * |other|` of each other."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether two tensors have the same shape and elements."""
def signbit(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether the sign of each element is minus, that of zeros too."""
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
def nextafter(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The next number after each of `input` on the way to that of `other`."""
def nextafter_(input: Tensor, other: Tensor) -> Tensor:
    """The next number after each of `input` on the way to that of `other`. In place."""
def frexp(input: Tensor, *, out: Any = None) -> _MantissaExponent:
    """Each number as one of magnitude in [0.5, 1) and the power of two that it is multiplied by."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy of the tensor, with its history."""
def copy_(input: Tensor, other: Tensor | _Number, non_blocking: _bool = False) -> Tensor:
    """Writes `other` into `input`, broadcast and cast as needed."""
def conj(input: Tensor) -> Tensor:
    """The tensor: its numbers are real."""
def real(input: Tensor) -> Tensor:
    """The tensor: its numbers are real."""
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor: there are no conjugate views."""
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor: there are no negated views."""
def is_nonzero(input: Tensor) -> _bool:
    """Whether the only element of the tensor is other than zero."""
def is_same_size(input: Tensor, other: Tensor) -> _bool:
    """Whether two tensors have one shape."""
def is_conj(input: Tensor) -> _bool:
    """Whether the tensor is a conjugate view: none is."""
def is_neg(input: Tensor) -> _bool:
    """Whether the tensor is a negated view: none is."""
@overload
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Convolution over one spatial dimensions."""
@overload
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of a convolution over one spatial dimensions."""
@overload
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Convolution over two spatial dimensions."""
@overload
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of a convolution over two spatial dimensions."""
@overload
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Convolution over three spatial dimensions."""
@overload
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of a convolution over three spatial dimensions."""
@overload
def zeros(*size: _int, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """A tensor of the given size filled with 0."""
@overload
def zeros(size: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
@overload
def ones(*size: _int, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """A tensor of the given size filled with 1."""
@overload
def ones(size: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
def full(size: Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """A tensor of the given size filled with `fill_value`."""
@overload
def empty(*size: _int, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None, out: Any = None) -> Tensor:
    """A tensor of the given size and of unspecified contents."""
@overload
def empty(size: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None, out: Any = None) -> Tensor: ...
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape and dtype of `input` filled with 0."""
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape and dtype of `input` filled with 1."""
def full_like(input: Tensor, fill_value: _Number, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape and dtype of `input` filled with `fill_value`."""
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape and dtype of `input` and of unspecified contents."""
def empty_strided(size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
    """A tensor of the given size and strides, of unspecified contents."""
def empty_permuted(size: Sequence[_int], physical_layout: Sequence[_int], *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
    """A tensor of unspecified contents that is dense with its dimensions in the order `physical_layout`."""
def scalar_tensor(s: _Number, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False) -> Tensor:
    """A 0-d tensor that holds the number `s`."""
@overload
def arange(end: _Number, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """The numbers from `start` to `end`, which is excluded, `step` apart."""
@overload
def arange(start: _Number, end: _Number, step: _Number = 1, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
def range(start: _Number, end: _Number, step: _Number = 1, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """The numbers from `start` to `end`, which is included, `step` apart."""
def linspace(start: Tensor | _Number, end: Tensor | _Number, steps: _int, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances."""
def logspace(start: Tensor | _Number, end: Tensor | _Number, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """`base` to the power of each of `steps` numbers from `start` to `end`."""
@overload
def eye(n: _int, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """A matrix with ones on the diagonal and zeros elsewhere."""
@overload
def eye(n: _int, m: _int, *, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
def fill(input: Tensor, value: Tensor | _Number) -> Tensor:
    """A tensor of the shape and dtype of `input` with every element equal to `value`."""
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor:
    """A tensor of the shape and dtype of `input` with every element equal to `value`. In place."""
def fill_diagonal_(input: Tensor, fill_value: _Number, wrap: _bool = False) -> Tensor:
    """Sets the diagonal of `input` to `fill_value`."""
def zero_(input: Tensor) -> Tensor:
    """Sets every element of `input` to 0."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Any = None) -> Tensor:
    """The indices of a dimension that a vector lists."""
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """The tensor with rows of `source` added to the indices of a dimension that a vector lists."""
def index_add_(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
    """The tensor with rows of `source` added to the indices of a dimension that a vector lists. In place."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Any = None) -> Tensor:
    """The tensor with rows of `source` at the indices of a dimension that a vector lists."""
def index_copy_(input: Tensor, dim: _int, index: Tensor, source: Tensor) -> Tensor:
    """The tensor with rows of `source` at the indices of a dimension that a vector lists. In place."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
    """The tensor with one value at the indices of a dimension that a vector lists."""
def index_fill_(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
    """The tensor with one value at the indices of a dimension that a vector lists. In place."""
def take(input: Tensor, index: Tensor, *, out: Any = None) -> Tensor:
    """The elements at positions in the tensor as one vector."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """The tensor with `source` at positions in the tensor as one vector."""
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """The tensor with `source` at positions in the tensor as one vector. In place."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Any = None) -> Tensor:
    """The elements whose position in a dimension the index gives."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str | None = None, out: Any = None) -> Tensor:
    """The tensor with values at the positions in a dimension that the index gives."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _Number, *, reduce: _str | None = None, out: Any = None) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str | None = None) -> Tensor:
    """The tensor with values at the positions in a dimension that the index gives. In place."""
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: _Number, *, reduce: _str | None = None) -> Tensor: ...
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Any = None) -> Tensor:
    """The tensor with `src` added at the positions in a dimension that the index gives."""
def scatter_add_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """The tensor with `src` added at the positions in a dimension that the index gives. In place."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Any = None) -> Tensor:
    """The tensor with values reduced into the positions in a dimension that the index gives."""
def scatter_reduce_(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
    """The tensor with values reduced into the positions in a dimension that the index gives. In place."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Any = None) -> Tensor:
    """The tensor with rows reduced into the indices of a dimension that a vector lists."""
def index_reduce_(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
    """The tensor with rows reduced into the indices of a dimension that a vector lists. In place."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Any = None) -> Tensor:
    """The elements whose position in a dimension the broadcast index gives."""
def isin(elements: Tensor | _Number, test_elements: Tensor | _Number, *, assume_unique: _bool = False, invert: _bool = False, out: Any = None) -> Tensor:
    """Whether each element is among `test_elements`."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    """The tensor with one value where the mask is true."""
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    """The tensor with one value where the mask is true. In place."""
def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """The elements at which the mask is true, as a vector."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The tensor with elements of `source`, one after the other, where the mask is true."""
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The tensor with elements of `source`, one after the other, where the mask is true. In place."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1) -> Tensor:
    """The indices of the non-zero elements, cut or padded to `size` rows."""
def argwhere(input: Tensor) -> Tensor:
    """The indices of the non-zero elements, a row each."""
def unravel_index(indices: Tensor, shape: Sequence[_int]) -> tuple[Tensor, ...]:
    """The index in each dimension of positions in a tensor of shape `shape`."""
def count_nonzero(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """How many elements are not zero, in all or along dimensions."""
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor:
    """The tensor with values at the elements that a tuple of index tensors picks."""
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor:
    """The tensor with values at the elements that a tuple of index tensors picks. In place."""
def histc(input: Tensor, bins: _int = 100, min: _Number = 0, max: _Number = 0, *, out: Any = None) -> Tensor:
    """How many elements fall into each of `bins` intervals of equal width."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """How often each number occurs, or the sum of its weights."""
def unique(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """The distinct elements in ascending order, or the distinct slices along `dim`; on request also which of them each one is, and how often each occurs."""
def unique_consecutive(input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """As `unique`, of elements or slices that follow each other; they keep their order."""
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors one after the other along a dimension."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors one after the other along a dimension."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors one after the other along a dimension."""
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors, which have one shape, along a new dimension."""
def hstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The tensors one beside the other: along the second dimension, vectors along the first."""
def vstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The tensors one below the other; vectors are rows."""
def row_stack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The tensors one below the other; vectors are rows."""
def dstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The tensors one behind the other, along the third dimension."""
def column_stack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The tensors one beside the other; vectors are columns."""
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Zeros with the matrices on the diagonal."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Any = None) -> Tensor:
    """The lower triangle of each matrix, up to a diagonal, with zeros elsewhere."""
def tril_(input: Tensor, diagonal: _int = 0) -> Tensor:
    """The lower triangle of each matrix, up to a diagonal, with zeros elsewhere. In place."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Any = None) -> Tensor:
    """The upper triangle of each matrix, from a diagonal, with zeros elsewhere."""
def triu_(input: Tensor, diagonal: _int = 0) -> Tensor:
    """The upper triangle of each matrix, from a diagonal, with zeros elsewhere. In place."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: Any | None = None) -> Tensor:
    """Row and column indices of the lower triangle of a matrix."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, layout: Any | None = None) -> Tensor:
    """Row and column indices of the upper triangle of a matrix."""
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Any = None) -> _USV:
    """The singular value decomposition of each matrix: the columns of `U` and `V` are the singular vectors, `S` holds the singular values in descending order."""
def outer(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """All products of an element of one vector and one of the other."""
def ger(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """All products of an element of one vector and one of the other."""
def inner(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Sums of products over the last dimensions."""
def vdot(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Inner product of two vectors."""
def kron(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Each element of the first times the whole of the second, block by block."""
@overload
def _tensordot(input: Tensor, other: Tensor, dims: _int) -> Tensor:
    """Sums of products over pairs of dimensions."""
@overload
def _tensordot(input: Tensor, other: Tensor, dims_self: _int | Sequence[_int], dims_other: _int | Sequence[_int]) -> Tensor: ...
def _chain_matmul(matrices: Sequence[Tensor]) -> Tensor:
    """Product of several matrices."""
def _einsum(equation: _str, operands: Sequence[Tensor]) -> Tensor:
    """Sum of products in index notation."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`beta * input + alpha * mat @ vec`."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * mat @ vec`. In place."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`beta * input + alpha` times the sum of a batch of matrix products."""
def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha` times the sum of a batch of matrix products. In place."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`beta * input + alpha` times the outer product of two vectors."""
def addr_(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha` times the outer product of two vectors. In place."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Any = None) -> Tensor:
    """Vector product of vectors of three elements along `dim`."""
def dist(input: Tensor, other: Tensor, p: _float = 2) -> Tensor:
    """Norm of order `p` of the difference of two tensors."""
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: _str | None = None) -> Tensor:
    """Distances between all pairs of rows of two matrices."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariances of variables, which are the rows of a matrix; its columns are the observations."""
def corrcoef(input: Tensor) -> Tensor:
    """Correlations of variables, which are the rows of a matrix; its columns are the observations."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """The powers of each element of a vector, a row each, in descending order unless `increasing`."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All ways to take `r` elements of a vector in order, a row each."""
def inverse(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of each matrix."""
def det(input: Tensor) -> Tensor:
    """The determinant of each matrix."""
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant of each matrix; none where that is negative."""
def slogdet(input: Tensor, *, out: Any = None) -> _SignLogabsdet:
    """The sign of each determinant, and the logarithm of its absolute value."""
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Any = None) -> Tensor:
    """The inverse of each matrix, from the triangle that `linalg.cholesky` made of it."""
def cholesky_solve(input: Tensor, L: Tensor, upper: _bool = False, *, out: Any = None) -> Tensor:
    """The solution X of `A X = input`, from the triangle that `linalg.cholesky` made of A."""
def matrix_power(input: Tensor, n: _int, *, out: Any = None) -> Tensor:
    """The product of `n` times each matrix; of its inverse where `n` is negative."""
def qr(input: Tensor, some: _bool = True) -> _QR:
    """Orthogonal columns Q and a triangle R with `Q R = A`."""
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Product of two tensors: inner product, matrix product, or a broadcast batch of matrix products."""
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """Product of two matrices."""
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """Products of two batches of matrices."""
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """Product of a matrix and a vector."""
def dot(input: Tensor, tensor: Tensor, *, out: Any = None) -> Tensor:
    """Inner product of two vectors."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`beta * input + alpha * mat1 @ mat2`."""
def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * mat1 @ mat2`. In place."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`beta * input + alpha * batch1 @ batch2` for each matrix of a batch."""
def baddbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * batch1 @ batch2` for each matrix of a batch. In place."""
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: _Number = 0) -> Tensor:
    """Adds elements of one value around `input`, the last dimension first; negative numbers crop."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """The values of images, (N, C, H, W) or (N, C, D, H, W), at positions between -1 and 1, (N, ..., 2) or (N, ..., 3) with the last dimension of the image first. Interpolation: 0 is linear, 1 nearest, 2 cubic; padding: 0 is zeros, 1 border, 2 reflection."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """The values of images, (N, C, H, W) or (N, C, D, H, W), at positions between -1 and 1, (N, ..., 2) or (N, ..., 3) with the last dimension of the image first. Interpolation: 0 is linear, 1 nearest, 2 cubic; padding: 0 is zeros, 1 border, 2 reflection."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """The values of images, (N, C, H, W) or (N, C, D, H, W), at positions between -1 and 1, (N, ..., 2) or (N, ..., 3) with the last dimension of the image first. Interpolation: 0 is linear, 1 nearest, 2 cubic; padding: 0 is zeros, 1 border, 2 reflection."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Normalises the trailing dimensions of `normalized_shape`, then scales and shifts their elements."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Normalises groups of channels of each sample, then scales and shifts each channel."""
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window, with its index in the plane if `return_indices`."""
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window, with its index in the plane if `return_indices`."""
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window, with its index in the plane if `return_indices`."""
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The mean of each window."""
def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor:
    """Means of as many windows as the result is to have elements."""
@overload
def rand(*size: _int, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """Uniform random numbers in [0, 1)."""
@overload
def rand(size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
@overload
def randn(*size: _int, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """Normal random numbers of mean 0 and standard deviation 1."""
@overload
def randn(size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
def rand_like(input: Tensor, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """As `rand`, of the shape and dtype of `input`."""
def randn_like(input: Tensor, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """As `randn`, of the shape and dtype of `input`."""
@overload
def randint(high: _int, size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """Random integers from `low` to `high`, which is excluded."""
@overload
def randint(low: _int, high: _int, size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
@overload
def randint_like(input: Tensor, high: _int, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """As `randint`, of the shape and dtype of `input`."""
@overload
def randint_like(input: Tensor, low: _int, high: _int, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor: ...
def randperm(n: _int, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor:
    """The integers from 0 to `n`, which is excluded, in random order."""
@overload
def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """1 with the probability that `input` holds, else 0."""
@overload
def bernoulli(input: Tensor, p: _float, *, generator: Generator | None = None, out: Any = None) -> Tensor: ...
@overload
def bernoulli_(input: Tensor, p: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that `input` holds, else 0. In place."""
@overload
def bernoulli_(input: Tensor, p: _float = 0.5, *, generator: Generator | None = None) -> Tensor: ...
def multinomial(input: Tensor, num_samples: _int, replacement: _bool = False, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """Indices drawn with the weights that the rows of `input` hold."""
@overload
def normal(mean: Tensor, std: Tensor, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """Normal random numbers of means `mean` and standard deviations `std`."""
@overload
def normal(mean: Tensor, std: _float = 1, *, generator: Generator | None = None, out: Any = None) -> Tensor: ...
@overload
def normal(mean: _float, std: Tensor, *, generator: Generator | None = None, out: Any = None) -> Tensor: ...
@overload
def normal(mean: _float, std: _float, size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, layout: Any | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool = False, out: Any = None) -> Tensor: ...
def uniform_(input: Tensor, from_: _float = 0, to: _float = 1, *, generator: Generator | None = None) -> Tensor:
    """Sets each element to a uniform random number in [from, to)."""
def normal_(input: Tensor, mean: _float = 0, std: _float = 1, *, generator: Generator | None = None) -> Tensor:
    """Normal random numbers of means `mean` and standard deviations `std`. In place."""
def exponential_(input: Tensor, lambd: _float = 1, *, generator: Generator | None = None) -> Tensor:
    """Sets each element to an exponential random number of rate `lambd`."""
def log_normal_(input: Tensor, mean: _float = 1, std: _float = 2, *, generator: Generator | None = None) -> Tensor:
    """Sets each element to a number whose logarithm is normal."""
def cauchy_(input: Tensor, median: _float = 0, sigma: _float = 1, *, generator: Generator | None = None) -> Tensor:
    """Sets each element to a random number of the Cauchy distribution."""
def geometric_(input: Tensor, p: _float, *, generator: Generator | None = None) -> Tensor:
    """Sets each element to the number of trials up to a success of probability `p`."""
@overload
def random_(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Sets each element to a random whole number."""
@overload
def random_(input: Tensor, to: _int, *, generator: Generator | None = None) -> Tensor: ...
@overload
def random_(input: Tensor, from_: _int, to: _int | None, *, generator: Generator | None = None) -> Tensor: ...
@overload
def sum(input: Tensor, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """Sum of all elements, or over the dimensions `dim`."""
@overload
def sum(input: Tensor, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor: ...
def nansum(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """Sum of all elements, or over the dimensions `dim`, with NaN as 0."""
@overload
def mean(input: Tensor, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """Mean of all elements, or over the dimensions `dim`."""
@overload
def mean(input: Tensor, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor: ...
def nanmean(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """Mean of the elements that are not NaN."""
@overload
def prod(input: Tensor, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """Product of all elements, or along `dim`."""
@overload
def prod(input: Tensor, dim: _int, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor: ...
def all(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """Whether all elements differ from zero."""
def any(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """Whether some element differs from zero."""
@overload
def max(input: Tensor, *, out: Any = None) -> Tensor:
    """The largest element; along `dim` with where it stands; or the larger of two tensors."""
@overload
def max(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Any = None) -> _ValuesIndices: ...
@overload
def min(input: Tensor, *, out: Any = None) -> Tensor:
    """The smallest element; along `dim` with where it stands; or the smaller of two tensors."""
@overload
def min(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Any = None) -> _ValuesIndices: ...
def amax(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The largest element over the dimensions `dim`; equal elements share the gradient."""
def amin(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The smallest element over the dimensions `dim`; equal elements share the gradient."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Any = None) -> _MinMax:
    """The smallest and the largest element."""
@overload
def var(input: Tensor, unbiased: _bool, *, out: Any = None) -> Tensor:
    """Variance of all elements, or over the dimensions `dim`; `correction` is taken from the divisor."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool, keepdim: _bool = False, *, out: Any = None) -> Tensor: ...
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Any = None) -> Tensor: ...
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool = True, keepdim: _bool = False, *, out: Any = None) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool, *, out: Any = None) -> Tensor:
    """Standard deviation of all elements, or over the dimensions `dim`; `correction` is taken from the divisor."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool, keepdim: _bool = False, *, out: Any = None) -> Tensor: ...
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Any = None) -> Tensor: ...
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool = True, keepdim: _bool = False, *, out: Any = None) -> Tensor: ...
@overload
def var_mean(input: Tensor, unbiased: _bool) -> tuple[Tensor, Tensor]:
    """Variance and mean of all elements, or over the dimensions `dim`; `correction` is taken from the divisor."""
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, unbiased: _bool) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of all elements, or over the dimensions `dim`; `correction` is taken from the divisor."""
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def norm(input: Tensor, p: _Number | None = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """Vector norm, or matrix norm where `ord` and two dimensions are given."""
@overload
def norm(input: Tensor, p: _str, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None, *, out: Any = None) -> Tensor: ...
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor:
    """Norm of order `pow` over all dimensions but `dim`, which is kept; over all of them if `dim` is -1."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """Logarithm of the sum of exponentials over the dimensions `dim`, without overflow."""
@overload
def median(input: Tensor, *, out: Any = None) -> Tensor:
    """The median, the lower of two in the middle."""
@overload
def median(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Any = None) -> _ValuesIndices: ...
@overload
def nanmedian(input: Tensor, *, out: Any = None) -> Tensor:
    """The median of the elements that are not NaN."""
@overload
def nanmedian(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Any = None) -> _ValuesIndices: ...
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Any = None) -> _ValuesIndices:
    """The most frequent element along `dim`, and where it stands."""
def quantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
    """The quantiles `q`, of all elements or along `dim`."""
def nanquantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
    """The quantiles `q` of the elements that are not NaN."""
def renorm(input: Tensor, p: _Number, dim: _int, maxnorm: _Number, *, out: Any = None) -> Tensor:
    """Each part along `dim`, scaled down to `maxnorm` where its norm of order `p` is larger."""
def renorm_(input: Tensor, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
    """Each part along `dim`, scaled down to `maxnorm` where its norm of order `p` is larger. In place."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The sum of the elements up to each one along `dim`."""
def cumsum_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """The sum of the elements up to each one along `dim`. In place."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The product of the elements up to each one along `dim`."""
def cumprod_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """The product of the elements up to each one along `dim`. In place."""
def cummax(input: Tensor, dim: _int, *, out: Any = None) -> _ValuesIndices:
    """The largest element up to each one along `dim`, and where it stands."""
def cummin(input: Tensor, dim: _int, *, out: Any = None) -> _ValuesIndices:
    """The smallest element up to each one along `dim`, and where it stands."""
def logcumsumexp(input: Tensor, dim: _int, *, out: Any = None) -> Tensor:
    """The logarithm of the sum of exponentials up to each element along `dim`, without overflow."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Any = None) -> Tensor:
    """The `n`-th difference of neighbours along `dim`."""
@overload
def trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor:
    """The integral along `dim` by trapezoids, at points `x` or `dx` apart."""
@overload
def trapezoid(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor:
    """The integral along `dim` by trapezoids, at points `x` or `dx` apart."""
@overload
def trapz(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor:
    """The integrals up to each point along `dim` by trapezoids, at points `x` or `dx` apart."""
@overload
def cumulative_trapezoid(y: Tensor, *, dx: _Number = 1, dim: _int = -1) -> Tensor: ...
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """Exponentials divided by their sum along `dim`."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """Logarithm of the softmax along `dim`, without overflow."""
@overload
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Any = None) -> _ValuesIndices:
    """The elements in ascending or descending order along `dim`, and where they stood."""
@overload
def sort(input: Tensor, *, stable: _bool | None, dim: _int = -1, descending: _bool = False, out: Any = None) -> _ValuesIndices: ...
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor:
    """The indices that sort a tensor along `dim`."""
def msort(input: Tensor, *, out: Any = None) -> Tensor:
    """The elements in ascending order along the first dimension."""
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Any = None) -> _ValuesIndices:
    """The `k` largest or smallest elements along `dim`, and where they stood."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Any = None) -> _ValuesIndices:
    """The `k`-th smallest element along `dim`, counted from 1, and where it stood."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The index of the first largest element, of all or along `dim`."""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The index of the first smallest element, of all or along `dim`."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _Number, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: Tensor | None = None, out: Any = None) -> Tensor:
    """Where values would go into sorted rows: before equal elements, or after them if `right`."""
def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Any = None) -> Tensor:
    """The bucket between sorted `boundaries` that each element falls into."""
def _unsafe_view(input: Tensor, size: Sequence[_int]) -> Tensor:
    """The same elements in another shape, as a tensor that autograd takes for a new one: only for one that nobody else reads."""
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor:
    """The same elements in another shape: a view where one exists, else a copy."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """The dimensions from `start_dim` to `end_dim` as one."""
def ravel(input: Tensor) -> Tensor:
    """All elements as a vector."""
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor:
    """Dimension `dim` as several, whose product it is."""
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """A view with the dimensions in another order."""
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """A view with two dimensions swapped."""
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """A view with two dimensions swapped."""
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """A view with two dimensions swapped."""
def t(input: Tensor) -> Tensor:
    """A view of a matrix, transposed."""
def adjoint(input: Tensor) -> Tensor:
    """A view with the last two dimensions swapped; the elements are real."""
def movedim(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """A view with the dimensions `source` moved to the places `destination`."""
def moveaxis(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """A view with the dimensions `source` moved to the places `destination`."""
@overload
def squeeze(input: Tensor) -> Tensor:
    """A view without dimensions of size 1: all of them, or those among `dim`."""
@overload
def squeeze(input: Tensor, dim: _int) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: _int | Sequence[_int]) -> Tensor: ...
def unsqueeze(input: Tensor, dim: _int) -> Tensor:
    """A view with a new dimension of size 1 at `dim`."""
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor:
    """A view repeated to the shape `size`."""
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of the tensors in the shape that they broadcast to."""
@overload
def atleast_1d(input: Tensor) -> Tensor:
    """A 0-d tensor as a vector; others as they are."""
@overload
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(input: Tensor) -> Tensor:
    """At least a matrix: a vector becomes a row."""
@overload
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(input: Tensor) -> Tensor:
    """At least three dimensions: a vector becomes `[1, n, 1]`, a matrix `[m, n, 1]`."""
@overload
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def as_strided(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """A view of the storage with any geometry that stays inside."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """A copy in which the elements that `as_strided` would show are those of `src`."""
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """A view at one index of a dimension."""
@overload
def narrow(input: Tensor, dim: _int, start: Tensor, length: _int) -> Tensor:
    """A view of `length` indices of a dimension from `start`."""
@overload
def narrow(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor: ...
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int, *, out: Any = None) -> Tensor:
    """A copy of `length` indices of a dimension from `start`."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """A diagonal of two dimensions, as the last dimension of a view."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor:
    """A copy with `src` at one index of a dimension."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Any = None) -> Tensor:
    """A copy with `src` in place of a slice."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """A copy with `src` on a diagonal."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Any = None) -> Tensor:
    """The diagonal of a matrix, or a matrix with the vector on a diagonal."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Zeros with the last dimension as a diagonal of two new dimensions."""
def diagflat(input: Tensor, offset: _int = 0) -> Tensor:
    """A matrix with all elements on a diagonal."""
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """A view per index of a dimension."""
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
    """A copy of each index of a dimension."""
@overload
def split(input: Tensor, split_size_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of pieces of a dimension, of one size or of the sizes listed."""
@overload
def split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(input: Tensor, split_size_or_sections: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(input: Tensor, split_size: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of pieces of a dimension, of the sizes listed."""
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
    """Copies of pieces of a dimension, of the sizes listed."""
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size, the last one of which may be smaller."""
@overload
def tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of nearly equal parts of a dimension, or of the parts between the indices listed."""
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]:
    """Views of parts of the columns."""
@overload
def hsplit(input: Tensor, indices: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]:
    """Views of parts of the rows."""
@overload
def vsplit(input: Tensor, indices: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]:
    """Views of parts of the third dimension."""
@overload
def dsplit(input: Tensor, indices: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """A copy with the order of the indices of `dims` reversed."""
def fliplr(input: Tensor) -> Tensor:
    """A copy with the columns reversed."""
def flipud(input: Tensor) -> Tensor:
    """A copy with the rows reversed."""
def roll(input: Tensor, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = None) -> Tensor:
    """A copy with indices moved on by `shifts`, those that leave the end coming back at the start."""
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = [0, 1]) -> Tensor:
    """A copy turned by `k` quarter turns in the plane of two dimensions."""
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """The tensor repeated along its last dimensions."""
@overload
def repeat_interleave(input: Tensor, repeats: _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """Each index of a dimension repeated in place."""
@overload
def repeat_interleave(input: Tensor, repeats: Tensor, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None) -> Tensor: ...
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: _str | None = None) -> tuple[Tensor, ...]:
    """One tensor per input, each with the shape of the grid that all span."""
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """All combinations of one element per tensor, as rows."""
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Any = None) -> Tensor:
    """A copy with the dimensions in another order."""
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Any = None) -> Tensor:
    """A copy with two dimensions swapped."""
def t_copy(input: Tensor, *, out: Any = None) -> Tensor:
    """A copy of a matrix, transposed."""
@overload
def squeeze_copy(input: Tensor, *, out: Any = None) -> Tensor:
    """A copy without dimensions of size 1."""
@overload
def squeeze_copy(input: Tensor, dim: _int, *, out: Any = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: _int | Sequence[_int], *, out: Any = None) -> Tensor: ...
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Any = None) -> Tensor:
    """A copy with a new dimension of size 1."""
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Any = None) -> Tensor:
    """A copy in another shape."""
@overload
def view_copy(input: Tensor, dtype: _dtype, *, out: Any = None) -> Tensor: ...
def expand_copy(input: Tensor, size: Sequence[_int], *, implicit: _bool = False, out: Any = None) -> Tensor:
    """A copy repeated over dimensions of size 1 and new leading ones."""
def diagonal_copy(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Any = None) -> Tensor:
    """A copy of a diagonal of two dimensions."""
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Any = None) -> Tensor:
    """A copy of windows of `size` indices of a dimension, `step` apart."""
def as_strided_copy(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Any = None) -> Tensor:
    """A copy of what `as_strided` shows."""
def alias_copy(input: Tensor, *, out: Any = None) -> Tensor:
    """A copy of the tensor."""
DisableTorchFunction: Any
DisableTorchFunctionSubclass: Any
Graph: Any
OutOfMemoryError: Any
ScriptDict: Any
ScriptFunction: Any
ScriptList: Any
ScriptMethod: Any
ScriptModule: Any
StorageBase: Any
TensorBase: Any
Value: Any
_ConvBackend: Any
_DisableFuncTorch: Any
_DisablePythonDispatcher: Any
_DisableTorchDispatch: Any
_EnablePythonDispatcher: Any
_ExcludeDispatchKeyGuard: Any
_InputMetadata: Any
_LinAlgError: Any
_Region: Any
_TensorMeta: Any
_TorchFunctionState: Any
_WeakTensorRef: Any
_WgslKernel: Any
_add_batch_dim: Any
_announce_vmap_fallback: Any
_are_functorch_transforms_active: Any
_autograd: Any
_backward: Any
_batch_entered: Any
_batch_everywhere: Any
_batch_value: Any
_batched: Any
_call_in_region: Any
_call_torch_dispatch: Any
_call_torch_function: Any
_current_gpu: Any
_current_graph_task_id: Any
_debug_only_are_vmap_fallback_warnings_enabled: Any
_debug_only_display_vmap_fallback_warnings: Any
_default_generator: Any
_disabled_torch_dispatch_impl: Any
_disabled_torch_function_impl: Any
_dispatch_call_boxed: Any
_dispatch_find_schema_or_throw: Any
_dispatch_isTensorSubclassLike: Any
_empty_cache: Any
_enable_winograd: Any
_enter_region: Any
_enter_transform: Any
_exit_region: Any
_exit_transform: Any
_functions: Any
_get_autocast: Any
_get_cpu_capability: Any
_get_current_graph_task_keep_graph: Any
_get_default_device: Any
_get_deterministic_fill_uninitialized_memory: Any
_get_function_stack_at: Any
_get_graph_executor_optimize: Any
_get_mkldnn_enabled: Any
_get_printoptions: Any
_get_privateuse1_backend_name: Any
_get_torch_function_state: Any
_get_tracing_state: Any
_gpu_avoid: Any
_gpu_count: Any
_gpu_empty_cache: Any
_gpu_lose: Any
_gpu_memory_of: Any
_gpu_properties: Any
_gpu_reset: Any
_gpu_reset_peak: Any
_gpu_start_profile: Any
_gpu_stats: Any
_gpu_stop_profile: Any
_grad: Any
_gradient_edge: Any
_handle_torch_function: Any
_has_torch_function: Any
_increment_version: Any
_infer_size: Any
_is_alias_of: Any
_is_batched: Any
_is_checkpoint_valid: Any
_is_compiling: Any
_is_deferring: Any
_is_fwd_grad_enabled: Any
_is_torch_function_enabled: Any
_is_torch_function_mode_enabled: Any
_is_vmap_fallback_enabled: Any
_is_wrapper: Any
_jit_set_profiling_executor: Any
_jit_set_profiling_mode: Any
_keep_object: Any
_leave_writes_uncounted: Any
_len_torch_function_stack: Any
_linalg: Any
_log_api_usage_once: Any
_make_subclass: Any
_make_wrapper: Any
_meet_dispatch: Any
_meet_subclass: Any
_memory_stats: Any
_nn: Any
_op_table: Any
_operation: Any
_optim: Any
_outside_vmap: Any
_pause_region: Any
_pop_saved_tensors_hooks: Any
_pop_torch_dispatch_stack: Any
_pop_torch_function_stack: Any
_promote_types: Any
_push_on_torch_dispatch_stack: Any
_push_on_torch_function_stack: Any
_push_saved_tensors_hooks: Any
_queue_callback: Any
_record_function: Any
_record_written: Any
_refusing_random: Any
_remove_batch_dim: Any
_require_grad: Any
_reset_peak_memory: Any
_result_type: Any
_safetensors_index: Any
_safetensors_save: Any
_saved_tensors_hooks_depth: Any
_select_conv_backend: Any
_set_anomaly_enabled: Any
_set_autocast: Any
_set_autocast_fallthrough: Any
_set_below_autograd: Any
_set_cpu_isa: Any
_set_current_gpu: Any
_set_default_device: Any
_set_deterministic_fill_uninitialized_memory: Any
_set_fills_uninitialized: Any
_set_fwd_grad_enabled: Any
_set_grad_enabled: Any
_set_inference_mode: Any
_set_mkldnn_enabled: Any
_set_printoptions: Any
_set_saved_tensors_hooks_error: Any
_set_torch_dispatch_disabled: Any
_set_torch_function_disabled: Any
_set_torch_function_state: Any
_set_vmap_fallback_enabled: Any
_special: Any
_storage_bytes: Any
_swap_tensor_impl: Any
_synchronize: Any
_tensor_from_buffer: Any
_torch_dispatch_disabled: Any
_torch_dispatch_stack: Any
_transforms: Any
_typed_tensor: Any
_unsafe_set_version_counter: Any
_vmap_enter: Any
_vmap_exit: Any
_vmap_levels: Any
_vmap_randomness: Any
_will_engine_execute_node: Any
_winograd_enabled: Any
bfloat16: dtype
bool: dtype
channels_last: memory_format
channels_last_3d: memory_format
contiguous_format: memory_format
double: dtype
float: dtype
float16: dtype
float32: dtype
float64: dtype
float8_e4m3fn: dtype
float8_e4m3fnuz: dtype
float8_e5m2: dtype
float8_e5m2fnuz: dtype
float8_e8m0fnu: dtype
get_default_device: Any
half: dtype
has_lapack: Any
has_mkl: Any
has_openmp: Any
has_spectral: Any
int: dtype
int16: dtype
int32: dtype
int64: dtype
int8: dtype
long: dtype
preserve_format: memory_format
short: dtype
uint16: dtype
uint32: dtype
uint64: dtype
uint8: dtype
