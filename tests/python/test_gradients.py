"""First and second derivatives of every entry of the operation table that has one, against finite differences.

The rows of formulas are checked by `tests/ops.rs` as well; here every entry is called as users call it.
"""

from __future__ import annotations

import warnings

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad.autograd import gradcheck, gradgradcheck

OPS = torch._C._op_table()

# Arguments made anew for each sample: differentiated where the name is a capital.
SHAPES = {
    "A": (3,),
    "B": (3,),
    "C": (2, 3),
    "D": (2, 3),
    "S": (3, 3),
    "T": (2, 2, 3),
    "U": (2, 3, 2),
    "X": (1, 2, 5),
    "Y": (1, 2, 5, 4),
    "Z": (1, 2, 4, 4, 4),
    "N": (),
}
INDEX = torch.tensor([2, 0])
TARGET = torch.tensor([1, 0])
MASK = torch.tensor([[True, False, True], [False, True, True]])
GRID = torch.tensor([[0, 2, 1], [1, 0, 2]])

# Pointwise entries: what they are called with where that is not one tensor or two.
OPERANDS = {
    **dict.fromkeys(("clamp_min", "clamp_max"), "f(A, 0.6)"),
    **dict.fromkeys(
        ("leaky_relu", "elu", "celu", "softplus", "hardtanh", "softshrink", "hardshrink"), "f(A)"
    ),
    "acosh": "f(A + 1)",
    "addcmul": "f(A, B, A * 2, value=0.5)",
    "addcdiv": "f(A, B, A + 1, value=0.5)",
    "threshold": "f(A, 0.5, 0.1)",
    "lerp": "f(A, B, A * B)",
    "float_power": "f(A, B)",
    "float_power_": "f(A * 1, B)",
    "prelu": "f(C, A)",
    "glu": "f(Y)",
    "clamp": "f(A, 0.3, 0.8)",
    "logit": "f(A, 0.01)",
    "hypot": "f(A, B)",
    "ldexp": "f(A, torch.tensor([1, 2, 3]))",
}

SAMPLES = {
    "to": "f(A, torch.float64)",
    "type": "f(A, torch.float64)",
    "type_as": "f(A, B)",
    "contiguous": "f(C.T)",
    "conv1d": "f(X, torch.ones(2, 2, 3).double() * N, stride=2, padding=1)",
    "conv_transpose1d": "f(X, torch.ones(2, 2, 3).double() * N, stride=2)",
    "conv2d": "f(Y, torch.ones(2, 2, 3, 2).double() * N, stride=2, padding=1)",
    "conv_transpose2d": "f(Y, torch.ones(2, 1, 2, 2).double() * N, stride=2, groups=2)",
    "conv3d": "f(Z, torch.ones(1, 2, 2, 2, 2).double() * N, stride=2)",
    "conv_transpose3d": "f(Z[..., :2], torch.ones(2, 1, 2, 2, 2).double() * N)",
    "fill": "f(A, N)",
    "index_select": "f(C, 1, INDEX)",
    "index_add": "f(S, 0, INDEX, C, alpha=2)",
    "index_copy": "f(S, 0, INDEX, C)",
    "index_fill": "f(C, 1, INDEX, N)",
    "take": "f(C, INDEX)",
    "put": "f(C, INDEX, A[:2], accumulate=True)",
    "gather": "f(C, 1, GRID)",
    "scatter": "f(S, 1, GRID, C)",
    "scatter_add": "f(S, 1, GRID, C)",
    "scatter_reduce": "f(S, 1, GRID, C, 'sum')",
    "index_reduce": "f(S, 0, INDEX, C, 'prod')",
    "take_along_dim": "f(C, GRID, 1)",
    "masked_fill": "f(C, MASK, N)",
    "masked_select": "f(C, MASK)",
    "masked_scatter": "f(C, MASK, S)",
    "where": "f(MASK, C, D)",
    "Tensor.where": "f(C, MASK, D)",
    "index_put": "f(C, (TARGET,), D, accumulate=True)",
    "cat": "f([C, D], 1)",
    "stack": "f([C, D], 1)",
    "block_diag": "f(C, D)",
    "trace": "f(S)",
    "svd": "f(C)[1]",
    "svdvals": "f(C)",
    **dict.fromkeys(("inv", "inverse", "det", "logdet"), "f(S + 2 * torch.eye(3))"),
    "slogdet": "f(S + 2 * torch.eye(3))[1]",
    "solve": "f(S + 2 * torch.eye(3), C.T)",
    "solve_triangular": "f(S + 2 * torch.eye(3), C.T, upper=True)",
    "cholesky": "f(S @ S.T + torch.eye(3))",
    "cholesky_inverse": "f((S + torch.eye(3)).tril())",
    "cholesky_solve": "f(C.T, (S + torch.eye(3)).tril())",
    "matrix_power": "f(S, 3)",
    "qr": "f(C)",
    "eigh": "f(S + S.T)[0]",
    "eigvalsh": "f(S + S.T)",
    "kron": "f(C, S)",
    "_tensordot": "f(C, D, [1], [1])",
    "_chain_matmul": "f([C, S, S * 2])",
    "_einsum": "f('ij,kj->ik', [C, D])",
    "addmv": "f(N.expand(2), C, A)",
    "addbmm": "f(S[:2, :2], T, U)",
    "addr": "f(S, A, B)",
    "inner": "f(C, D)",
    "dist": "f(C, D)",
    "cdist": "f(C, S + 2)",
    "vector_norm": "f(C, 3.0)",
    "norm": "f(C)",
    "renorm": "f(C, 2, 0, 1.0)",
    "matrix_norm": "f(C)",
    "kl_div": "f(C.log(), D)",
    "binary_cross_entropy": "f(C, D)",
    "nll_loss": "f(C.log_softmax(1), TARGET)",
    "cross_entropy": "f(C, TARGET, label_smoothing=0.1)",
    "matmul": "f(T, U)",
    "mm": "f(C, S)",
    "bmm": "f(T, U)",
    "mv": "f(C, A)",
    "addmm": "f(N, C, S, beta=0.5, alpha=2)",
    "baddbmm": "f(N, T, U)",
    "linear": "f(C, S, A)",
    "scaled_dot_product_attention": "f(T, T * 2, T + 1)",
    "lstm_layer": "f(T, C[:, :1], D[:, :1], torch.cat([C, D]), U[0, :, :1].repeat(2, 1)[:4], *C.repeat(1, 2)[:, :4])",
    "gru_layer": "f(T, C[:, :1], S, S[:, :1], A, B)",
    "bag_sums": "f(S, GRID, C)",
    "grid_sampler": "f(Y, U[:1].unsqueeze(1) - 0.45, 2, 2, False)",
    "ctc_losses": "f(T.log_softmax(2), torch.tensor([[1], [2]]), [2, 2], [1, 1])",
    "dropout": "f(C, 0.5, True)",
    "embedding": "f(GRID, S)",
    "interpolate": "f(Y, scale_factor=2, mode='bilinear')",
    "constant_pad_nd": "f(C, (1, 2), 0.5)",
    "pad": "f(X, (1, 2), mode='reflect')",
    "pad_edges": "f(Y, (1, 1, 0, 1), 'replicate')",
    "pad_edges_backward": "f(X, (1, 1), 'reflect')",
    "layer_norm": "f(C, (3,), A, B)",
    "group_norm": "f(Y, 2, A[:2], B[:2])",
    "batch_norm": "f(Y, None, None, A[:2], B[:2], training=True)",
    "prod": "f(C, 1)",
    "var": "f(C, 1)",
    "cumprod": "f(C * torch.tensor([1.0, 0.0, 1.0]).double(), 1)",
    "quantile": "f(C, 0.3, dim=1)",
    "nanquantile": "f(C, 0.3, dim=1)",
    "view": "f(C, 3, 2)",
    "view_as": "f(C, torch.ones(3, 2))",
    "_unsafe_view": "f(C, (3, 2))",
    "reshape": "f(C.T, (6,))",
    "reshape_as": "f(C, torch.ones(3, 2))",
    "unflatten": "f(C, 0, (1, 2))",
    "permute": "f(T, (2, 0, 1))",
    "movedim": "f(T, 0, 2)",
    "expand": "f(A, (2, 3))",
    "expand_as": "f(A, C)",
    "broadcast_to": "f(A, (2, 3))",
    "broadcast_tensors": "f(A, C)",
    "as_strided": "f(C, (2, 2), (3, 1), 1)",
    # By its first argument it has PyTorch's derivative, which finite differences do not confirm.
    "as_strided_scatter": "f(GRID.double(), S[:2, :2], (2, 2), (3, 1), 1)",
    "select": "f(C, 1, 1)",
    "narrow": "f(C, 1, 1, 2)",
    "narrow_copy": "f(C, 1, 1, 2)",
    "unfold": "f(C, 1, 2, 1)",
    "select_scatter": "f(C, A, 0, 1)",
    "slice_scatter": "f(C, D[:, :2], 1, 0, 2)",
    "diagonal_scatter": "f(S, A)",
    "split": "f(C, 2, 1)",
    "split_with_sizes": "f(C, [1, 2], 1)",
    "split_with_sizes_copy": "f(C, [1, 2], 1)",
    "tensor_split": "f(C, 2, 1)",
    "hsplit": "f(Y[0, 0, :4], 2)",
    "vsplit": "f(Y[0, 0, :4], 2)",
    "dsplit": "f(U, 2)",
    "flip": "f(C, (0, 1))",
    "roll": "f(C, 1, 1)",
    "repeat": "f(C, (2, 1))",
    "tile": "f(C, (2, 1))",
    "repeat_interleave": "f(C, 2, dim=1)",
    "meshgrid": "f(A, B, indexing='ij')",
    "cartesian_prod": "f(A, B)",
    "permute_copy": "f(T, (2, 0, 1))",
    "view_copy": "f(C, (3, 2))",
    "expand_copy": "f(A, (2, 3))",
    "unfold_copy": "f(C, 1, 2, 1)",
    "as_strided_copy": "f(C, (2, 2), (3, 1), 1)",
    "cross": "f(S, S.T + 1, dim=1)",
    "cov": "f(C, aweights=A.abs() + 1)",
    "corrcoef": "f(S)",
    "vander": "f(A)",
    "combinations": "f(A)",
    "vecdot": "f(C, D)",
    "trapezoid": "f(C)",
    "topk": "f(C, 2)",
    "kthvalue": "f(C, 2)",
    "round": "f(C, decimals=1)",
    **{f"max_pool{n}d": f"f({x}, 2)[()]" for n, x in ((1, "X"), (2, "Y"), (3, "Z"))},
    **{f"avg_pool{n}d": f"f({x}, 2)" for n, x in ((1, "X"), (2, "Y"), (3, "Z"))},
    **{f"adaptive_avg_pool{n}d": f"f({x}, 2)" for n, x in ((1, "X"), (2, "Y"), (3, "Z"))},
    **{f"adaptive_max_pool{n}d": f"f({x}, 2)" for n, x in ((1, "X"), (2, "Y"), (3, "Z"))},
}

# Tried where an entry is in neither table, in turn.
GUESSES = ("f(A)", "f(A, B)", "f(C)", "f(C, 1)", "f(C, D)", "f(S)", "f(T)", "f([A, B])", "f(C, 0, 1)")

# What has no derivative, or one in Python: predicates, numbers, random and new tensors, integers, changes of the tensor
# itself.
NO_DERIVATIVE = """
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift bitwise_not gcd lcm
    eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite isposinf
    isneginf isclose allclose equal signbit isin all any argmax argmin argsort searchsorted bucketize
    _lu_factor _row_order numel is_nonzero is_same_size is_floating_point is_signed is_complex is_conj is_neg is_set_to
    bincount count_nonzero nonzero argwhere
    nonzero_static unravel_index int long short char byte bool half float bfloat16 cuda heaviside
    zeros ones full empty zeros_like ones_like full_like empty_like new_zeros new_ones new_full
    new_empty new_empty_strided empty_strided empty_permuted scalar_tensor arange range linspace
    logspace eye tril_indices triu_indices rand randn rand_like randn_like randint randint_like
    randperm bernoulli bernoulli_ multinomial normal uniform_ normal_ exponential_ log_normal_
    cauchy_ geometric_ random_ resize_ resize_as_ set_ copy_ fill_ zero_ t_ transpose_ squeeze_
    unsqueeze_ as_strided_ floor_divide nextafter fill_diagonal_ histc unique unique_consecutive
"""

# Refused by `vmap`, and so for batched gradients and tangents: a shape that depends on values (masked_select), random
# numbers (dropout), and the in-place form, which writes a batched tensor to one that is not.
ONE_BY_ONE = "masked_select dropout float_power_"

# With a first derivative only, as in PyTorch.
ONCE = "ctc_losses"


def _function(op):
    name = op["name"]
    for surface, place in (
        ("nn", F),
        ("function", torch),
        ("special", torch.special),
        ("linalg", torch.linalg),
    ):
        if op[surface] and hasattr(place, name):
            return getattr(place, name)
    found = getattr(torch.Tensor, name, None) or getattr(torch._C, name)
    return found if callable(found) else lambda x: getattr(x, name)


def _inputs():
    torch.manual_seed(3)
    # Away from each other, and inside (0.05, 0.95): no corner, no tie, in the domain of every function.
    made = {}
    for name, shape in SHAPES.items():
        n = 1
        for size in shape:
            n *= size
        spread = (torch.randperm(n) + 0.3 + 0.4 * torch.rand(n)) / n
        made[name] = (0.05 + 0.9 * spread.double()).reshape(shape).requires_grad_()
    return made


def _check(f, sample, batched, twice):
    made = _inputs()
    code = compile(sample, "sample", "eval")
    used = [n for n in SHAPES if n in code.co_names]

    def call(*inputs):
        torch.manual_seed(1)
        out = eval(code, {**globals(), "f": f, **dict(zip(used, inputs, strict=True))})
        outs = out if isinstance(out, (tuple, list)) else (out,)
        return tuple(o for o in outs if o.is_floating_point())

    inputs = tuple(made[n] for n in used)
    if not any(o.requires_grad for o in call(*inputs)):
        return False
    batched = {"check_batched_grad": True, "check_batched_forward_grad": True} if batched else {}
    gradcheck(call, inputs, atol=1e-4, fast_mode=True, check_forward_ad=True, **batched)
    if twice:
        gradgradcheck(call, inputs, atol=1e-4, fast_mode=True)
    return True


@pytest.mark.parametrize(
    "op", [op for op in OPS if op["name"] not in NO_DERIVATIVE.split()], ids=lambda op: op["name"]
)
def test_every_entry_has_first_and_second_derivatives(op):
    name, f = op["name"], _function(op)
    how = name not in ONE_BY_ONE.split(), name not in ONCE.split()
    method = op["method"] and not op["function"]
    sample = method and SAMPLES.get(f"Tensor.{name}") or SAMPLES.get(name) or OPERANDS.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if sample:
            assert _check(f, sample, *how), f"{name}: {sample} has no derivative"
            return
        for guess in GUESSES:
            try:
                eval(guess, {**_inputs(), "f": f})
            except (TypeError, IndexError, ValueError, RuntimeError):
                continue
            assert _check(f, guess, *how), f"{name}: {guess} has no derivative"
            return
    pytest.fail(f"{name} needs a sample")


@pytest.mark.parametrize("function", [torch.sinc, lambda x: torch.atan2(x, x.detach())])
def test_gradients_are_finite_where_squares_underflow(function):
    x = torch.tensor([0.0, 1e-30, 1e-23, -1e-25], requires_grad=True)
    function(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_a_nan_reaches_the_gradients_of_robust_losses(loss):
    x, y = (torch.tensor(v, requires_grad=True) for v in ([float("nan"), 5.0, -5.0, 0.25], [0.0] * 4))
    loss(x, y, reduction="sum").backward()
    assert x.grad[0].isnan() and y.grad[0].isnan()
    assert x.grad[1:].tolist() == [1, -1, 0.25] and y.grad[1:].tolist() == [-1, 1, -0.25]


@pytest.mark.parametrize(("function", "larger"), [(torch.fmax, 1.0), (torch.fmin, 0.0)])
def test_equal_elements_share_the_gradient_of_fmax_and_fmin(function, larger):
    nan = float("nan")
    a = torch.tensor([1.0, nan, 1.0, nan, 2.0], requires_grad=True)
    b = torch.tensor([1.0, 1.0, nan, nan, 1.0], requires_grad=True)
    function(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 0, 1, 1, larger] and b.grad.tolist() == [0.5, 1, 0, 0, 1 - larger]


@pytest.mark.parametrize(
    "f",
    [
        F.elu, F.celu, F.selu, F.silu, F.mish, F.softplus, F.logsigmoid, F.gelu, torch.special.log_ndtr,
        lambda x: F.glu(torch.stack([x + 1, x])),
        lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid(), reduction="none"),
    ],
)  # fmt: skip
def test_second_derivatives_of_activations_are_finite_where_exponentials_overflow(f):
    x = torch.tensor([-1e4, -100.0, 100.0, 1e4], requires_grad=True)
    (slope,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    assert slope.isfinite().all() and curvature.isfinite().all()


def test_derivatives_of_polynomials_are_finite_at_zero():
    x = torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64, requires_grad=True)
    value = sum(x**k for k in range(5))
    for expected in ([1, 10, -23], [2, 20, 38], [6, 30, -42], [24, 24, 24]):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        assert value.tolist() == expected


def test_second_derivatives_of_distances_are_finite_where_rows_are_equal():
    x = torch.tensor([[0.5, 2.0], [1.0, 3.0], [1.0, 3.0], [4.0, 1.5]], dtype=torch.float64, requires_grad=True)
    for f in (F.pdist, lambda x: torch.cdist(x, x), lambda x: torch.cdist(x, x.detach() + 0)):
        (slope,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        (curvature,) = torch.autograd.grad((slope * slope).sum(), x)
        assert slope.isfinite().all() and curvature.isfinite().all()
    y = torch.tensor([[0.0, 1.0], [2.0, 2.5]], dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(torch.cdist, (x, y))
