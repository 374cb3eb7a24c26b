"""Sample arguments of operations that need more than tensors of any shape; read by `samples`.

Operations have their documented names: `gather`, `linalg.norm`, `nn.functional.pad`. None means that comparing
numbers is meaningless: the operation returns no numbers, or unspecified ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spec:
    """A specification of a tensor: its shape and contents.

    `data` are numbers of both signs in the dtype under test, `positive` are above 0 and `unit` within (0, 1);
    `dominant` are well-conditioned matrices; `real` are numbers in the dtype under test that require no gradient;
    `index` are int64 numbers in [0, below), `mask` is bool, and `special` contains NaN, infinities, zeros of both
    signs and subnormal numbers.
    """

    shape: tuple[int, ...]
    holds: str = "data"
    below: int = 0
    sorted: bool = False


Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of a call."""
    return args, kwargs


def data(*shape: int) -> Spec:
    """Numbers of the dtype under test."""
    return Spec(shape)


def real(*shape: int) -> Spec:
    """Numbers of the dtype under test that require no gradient."""
    return Spec(shape, "real")


def positive(*shape: int) -> Spec:
    """Numbers above 0."""
    return Spec(shape, "positive")


def unit(*shape: int) -> Spec:
    """Numbers between 0 and 1."""
    return Spec(shape, "unit")


def dominant(*shape: int) -> Spec:
    """Diagonally dominant matrices."""
    return Spec(shape, "dominant")


def mask(*shape: int) -> Spec:
    """A mask of which a third is true."""
    return Spec(shape, "mask")


def index(below: int, *shape: int) -> Spec:
    """Positions below a bound."""
    return Spec(shape, "index", below)


def ascending(*shape: int) -> Spec:
    """Numbers in ascending order along the last dimension."""
    return Spec(shape, "real", sorted=True)


# Argument lists for families that reduce dimensions.
_WHOLE = call(data(5, 7))
_ROWS = call(data(5, 7), 1)
_COLUMNS = call(data(5, 7), 0, True)
_SEVERAL = call(data(3, 4, 5), (0, 2))
_RANK_6 = call(data(2, 1, 3, 1, 2, 2), (1, 4))
_LONG = call(positive(3, 3001), 1)
_REDUCTION = [_WHOLE, _ROWS, _COLUMNS, _SEVERAL, _RANK_6, _LONG, call(data(0, 3), 0), call(data())]
_ALONG = [_ROWS, _COLUMNS, call(data(2, 3, 4, 5), 2), call(positive(3, 3001), 1), call(data(1), 0)]
_WHOLE_OR_ALONG = [_WHOLE, call(data()), *_ALONG]
_SCAN = [
    call(data(5, 7), 0),
    call(data(5, 7), -1),
    call(data(2, 3, 4), 1),
    call(positive(2, 3001), 1),
    call(data(0, 3), 0),
]
_SORT = [call(data(5, 7)), call(data(5, 7), 0, True), call(data(2, 600)), call(data())]
_SQUARE = [call(data(4, 4))]
_WINDOW_1 = [call(data(2, 3, 9), 3), call(data(2, 3, 9), 2, stride=3, padding=1)]
_WINDOW_2 = [call(data(2, 3, 7, 6), 3), call(data(2, 3, 7, 6), (2, 3), stride=2, padding=1)]
_WINDOW_3 = [call(data(1, 2, 5, 4, 4), 2), call(data(1, 2, 5, 4, 4), 3, stride=2, padding=1)]
_SPECTRUM = [call(data(4, 3)), call(data(2, 3, 4)), call(data(2, 2))]  # of full rank, as others have no derivative
_LOSS = [
    call(data(5, 7), real(5, 7)),
    call(data(5, 7), real(5, 7), reduction="none"),
    call(data(5), real(5), reduction="sum"),
]
_PART = [call(data(4, 6), 2), call(data(4, 6), 3, 1)]
_ANY = [call(data(5, 7)), call(data(2, 1, 3, 1, 2, 2)), call(data(0, 3)), call(data())]

RECIPES: dict[str, list[Call] | None] = {
    # Pointwise, with arguments other than tensors.
    "threshold": [call(data(5, 7), 0.5, 0.25)],
    "bitwise_left_shift": [call(data(5, 7), real(5, 7)), call(data(5, 7), 2), call(3, real(7))],
    "bitwise_right_shift": [call(data(5, 7), real(5, 7)), call(data(5, 7), 2), call(3, real(7))],
    "pow": [
        call(positive(5, 7), data(5, 7)),
        call(data(5, 7), 2),
        call(data(5, 7), 3),
        call(positive(5), 0.5),
        call(2, data(7)),
    ],
    "float_power": [call(positive(5, 7), data(5, 7)), call(data(5, 7), 2), call(2, data(7))],
    "clamp": [call(data(5, 7), -1, 1), call(data(5, 7), min=real(5, 7)), call(data(5, 7), real(7), real(5, 7))],
    "prelu": [call(data(2, 3, 4), data(3)), call(data(5), data(1))],
    "glu": [call(data(4, 6)), call(data(4, 6), 0)],
    "nn.functional.glu": [call(data(4, 6)), call(data(4, 6), 0)],
    "logit": [call(unit(5, 7)), call(data(5, 7), 0.1)],
    "round": [call(data(5, 7)), call(data(5, 7), decimals=1)],
    "to": [
        call(data(5, 7), f"@{d}") for d in ("float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")
    ],
    "type": [call(data(5, 7), "@float32")],
    "resize_": [call(data(5, 7), (3, 4))],
    "set_": None,
    "cuda": None,
    "cpu": None,
    "pin_memory": None,
    # On the CPU only.
    "linalg._lu_factor": None,
    "linalg._row_order": None,
    "nn.functional.ctc_losses": None,
    "is_nonzero": [call(data(1))],
    # Convolutions.
    "conv1d": [call(data(2, 3, 8), data(4, 3, 3), data(4)), call(data(2, 4, 8), data(4, 2, 3), None, 2, 1, 2, 2)],
    "conv2d": [
        call(data(2, 3, 6, 5), data(4, 3, 3, 2), data(4)),
        call(data(2, 4, 6, 5), data(4, 1, 3, 3), None, 2, 1, 1, 4),
    ],
    "conv3d": [call(data(1, 2, 4, 4, 4), data(3, 2, 2, 2, 3), data(3))],
    "conv_transpose1d": [
        call(data(2, 3, 5), data(3, 4, 3), data(4)),
        call(data(2, 4, 5), data(4, 2, 3), None, 2, 1, 1, 2),
    ],
    "conv_transpose2d": [call(data(2, 3, 4, 3), data(3, 2, 3, 2), data(2), 2)],
    "conv_transpose3d": [call(data(1, 2, 3, 2, 2), data(2, 2, 2, 2, 2))],
    # Created like a tensor.
    "full_like": [call(data(5, 7), 3)],
    "empty_like": None,
    "new_zeros": [call(data(2), (3, 4))],
    "new_ones": [call(data(2), (3, 4))],
    "new_full": [call(data(2), (3, 4), 5)],
    "new_empty": None,
    "new_empty_strided": None,
    "fill": [call(data(5, 7), 2), call(data(5, 7), real())],
    "fill_": [call(data(5, 7), 2), call(data(5, 7), real())],
    "fill_diagonal_": [call(data(5, 5), 2), call(data(7, 3), 2, True), call(data(3, 3, 3), 2)],
    "linspace": None,
    "logspace": None,
    # By index.
    "index_select": [
        call(data(4, 5), 0, index(4, 6)),
        call(data(4, 5), 1, index(5, 3)),
        call(data(2, 3, 4), 1, index(3, 0)),
    ],
    "index_add": [call(data(4, 5), 0, index(4, 6), data(6, 5)), call(data(4, 5), 1, index(5, 3), data(4, 3), alpha=2)],
    "bincount": [call(index(5, 7))],
    "is_set_to": None,
    "index_copy": [call(data(4, 5), 0, index(4, 3), data(3, 5))],
    "index_fill": [call(data(4, 5), 0, index(4, 3), 2), call(data(4, 5), 1, index(5, 2), real())],
    "take": [call(data(4, 5), index(20, 2, 3))],
    "put": [call(data(4, 5), index(20, 6), data(6), True), call(data(4, 5), index(20, 6), data(6))],
    "gather": [call(data(4, 5), 0, index(4, 3, 5)), call(data(4, 5), 1, index(5, 4, 7))],
    "scatter": [call(data(4, 5), 0, index(4, 1, 5), data(1, 5)), call(data(4, 5), 1, index(5, 4, 2), 2)],
    "scatter_add": [call(data(4, 5), 0, index(4, 6, 5), data(6, 5)), call(data(4, 5), 1, index(5, 4, 7), data(4, 7))],
    "scatter_reduce": [
        call(data(4, 5), 0, index(4, 6, 5), data(6, 5), r, include_self=s)
        for r in ("sum", "prod", "mean", "amax", "amin")
        for s in (True, False)
    ],
    "index_reduce": [
        call(data(4, 5), 0, index(4, 6), data(6, 5), r, include_self=s)
        for r in ("prod", "mean", "amax", "amin")
        for s in (True, False)
    ],
    "take_along_dim": [call(data(4, 5), index(4, 3, 5), 0), call(data(4, 5), index(20, 6))],
    "isin": [call(data(5, 7), real(4)), call(data(5, 7), real(40)), call(data(5), 2)],
    "masked_fill": [call(data(5, 7), mask(5, 7), 2), call(data(5, 7), mask(7), real())],
    "masked_select": [call(data(5, 7), mask(5, 7)), call(data(5, 7), mask(7))],
    "masked_scatter": [call(data(5, 7), mask(5, 7), data(40))],
    "nonzero": [call(data(5, 7)), call(mask(3, 3001)), call(data(5, 7), as_tuple=True)],
    "nonzero_static": [call(data(5, 7), size=10)],
    "argwhere": [call(data(5, 7))],
    "unravel_index": [call(index(20, 6), (4, 5))],
    "count_nonzero": [call(data(5, 7)), call(data(5, 7), 1)],
    "where": [call(mask(5, 7), data(5, 7), data(5, 7)), call(mask(7), data(5, 7), 2), call(mask(5, 7))],
    "Tensor.where": [call(data(5, 7), mask(5, 7), data(7))],
    "index_put": [
        call(data(4, 5), (index(4, 3), index(5, 3)), data(3), True),
        call(data(4, 5), (index(4, 3),), data(5)),
    ],
    "nn.functional.embedding": [
        call(index(6, 3, 4), data(6, 5)),
        call(index(6, 3, 4), data(6, 5), 2, scale_grad_by_freq=True),
        call(index(6, 3), data(6, 5), max_norm=2.0),
    ],
    # Concatenation and splitting.
    "cat": [call([data(2, 3), data(4, 3)]), call([data(2, 3), data(2, 0), data(2, 5)], 1)],
    "stack": [call([data(2, 3), data(2, 3)], 1)],
    "hstack": [call([data(2, 3), data(2, 2)])],
    "vstack": [call([data(2, 3), data(3)])],
    "dstack": [call([data(2, 3), data(2, 3)])],
    "column_stack": [call([data(3), data(3, 2)])],
    "block_diag": [call(data(2, 3), data(1, 2))],
    "broadcast_tensors": [call(data(2, 1), data(3))],
    "atleast_1d": [call(data(3)), call(data())],
    "atleast_2d": [call(data(3)), call(data())],
    "atleast_3d": [call(data(3)), call(data())],
    "meshgrid": [call(data(3), data(2), indexing="ij")],
    "cartesian_prod": [call(data(3), data(2))],
    "split": [call(data(5, 4), 2), call(data(5, 4), [2, 3])],
    "split_with_sizes": [call(data(5, 4), [2, 3])],
    "split_with_sizes_copy": [call(data(5, 4), [2, 3])],
    "chunk": _PART,
    "tensor_split": [*_PART, call(data(5, 4), [1, 3])],
    "hsplit": [call(data(4, 6), 2)],
    "vsplit": [call(data(4, 6), 2)],
    "dsplit": [call(data(2, 3, 4), 2)],
    "unbind": [call(data(3, 4)), call(data(3, 4), 1)],
    "unbind_copy": [call(data(3, 4)), call(data(3, 4), 1)],
    # Views and their copies.
    "view": [call(data(4, 6), (3, 8)), call(data(4, 6), "@int8")],
    "view_as": [call(data(4, 6), real(24))],
    "view_copy": [call(data(4, 6), (3, 8))],
    "reshape": [call(data(4, 6), (3, -1))],
    "reshape_as": [call(data(4, 6), real(24))],
    "unflatten": [call(data(4, 6), 1, (2, 3))],
    "permute": [call(data(2, 3, 4), (2, 0, 1))],
    "permute_copy": [call(data(2, 3, 4), (2, 0, 1))],
    **{n: [call(data(4, 6), 0, 1)] for n in ("transpose", "swapaxes", "swapdims", "transpose_", "transpose_copy")},
    **{n: [call(data(4, 6))] for n in ("t", "t_", "T", "mT", "mH", "H", "adjoint", "t_copy", "fliplr", "flipud")},
    "movedim": [call(data(2, 3, 4), 0, 2)],
    **{n: [call(data(2, 1, 3))] for n in ("squeeze", "squeeze_", "squeeze_copy")},
    **{n: [call(data(4, 6), 1)] for n in ("unsqueeze", "unsqueeze_", "unsqueeze_copy")},
    **{n: [call(data(4, 1), (4, 3))] for n in ("expand", "broadcast_to", "expand_copy")},
    "expand_as": [call(data(4, 1), real(4, 3))],
    **{n: [call(data(4, 6), (3, 2), (2, 1), 1)] for n in ("as_strided", "as_strided_", "as_strided_copy")},
    "as_strided_scatter": [call(data(4, 6), data(3, 2), (3, 2), (2, 1), 1)],
    "select": [call(data(4, 6), 1, 2)],
    "narrow": [call(data(4, 6), 1, 2, 3)],
    "narrow_copy": [call(data(4, 6), 1, 2, 3)],
    **{n: [call(data(4, 6)), call(data(4, 6), 1)] for n in ("diagonal", "diagonal_copy", "diag")},
    "linalg.diagonal": [call(data(4, 6)), call(data(2, 4, 6), offset=1)],
    "unfold": [call(data(4, 6), 1, 3, 2)],
    "unfold_copy": [call(data(4, 6), 1, 3, 2)],
    "select_scatter": [call(data(4, 6), data(4), 1, 2)],
    "slice_scatter": [call(data(4, 6), data(4, 2), 1, 1, 5, 2)],
    "diagonal_scatter": [call(data(4, 6), data(4))],
    "diag_embed": [call(data(3, 4))],
    "diagflat": [call(data(3))],
    "flip": [call(data(4, 6), (0,)), call(data(2, 3, 4), (0, 2))],
    "roll": [call(data(4, 6), 2), call(data(4, 6), (1, -2), (0, 1))],
    "rot90": [call(data(4, 6))],
    "repeat": [call(data(2, 3), (2, 1, 2))],
    "tile": [call(data(2, 3), (2, 2))],
    "repeat_interleave": [call(data(2, 3), 2), call(data(2, 3), index(3, 3), 1)],
    "tril": [call(data(4, 6)), call(data(2, 4, 3), 1)],
    "triu": [call(data(4, 6)), call(data(2, 4, 3), -1)],
    "trace": [call(data(4, 6))],
    # Products.
    "svd": _SPECTRUM,
    "linalg.svd": [call(data(4, 3), False)],
    "linalg.svdvals": _SPECTRUM,
    **{
        n: [call(data(2, 4, 4), 3), call(data(3, 3), 1), call(dominant(2, 4, 4), -2)]
        for n in ("matrix_power", "linalg.matrix_power")
    },
    **{n: [call(dominant(2, 4, 4))] for n in ("inverse", "det", "logdet", "slogdet", "cholesky_inverse")},
    **{f"linalg.{n}": [call(dominant(2, 4, 4))] for n in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh")},
    **{n: [call(dominant(2, *s)) for s in ((4, 4), (4, 3), (3, 4))] for n in ("qr", "linalg.qr")},
    "cholesky_solve": [call(data(2, 4, 3), dominant(2, 4, 4))],
    "linalg.solve": [call(dominant(2, 4, 4), data(2, 4, 3)), call(dominant(2, 4, 4), data(2, 3, 4), left=False)],
    "linalg.solve_triangular": [call(dominant(2, 4, 4), data(2, 4, 3), upper=u) for u in (False, True)],
    "outer": [call(data(3), data(4))],
    "inner": [call(data(2, 4), data(3, 4))],
    "vdot": [call(data(7), data(7))],
    "dot": [call(data(7), data(7)), call(data(3001), data(3001))],
    "kron": [call(data(2, 3), data(3, 2))],
    "_tensordot": [call(data(2, 3, 4), data(3, 4, 2), 2)],
    "_chain_matmul": [call([data(2, 3), data(3, 4), data(4, 2)])],
    "_einsum": [call("ij,kj->ik", [data(2, 3), data(4, 3)]), call("bij,bjk->bk", [data(2, 3, 4), data(2, 4, 3)])],
    "addmv": [call(data(3), data(3, 4), data(4), alpha=2)],
    "addbmm": [call(data(3, 5), data(2, 3, 4), data(2, 4, 5))],
    "addr": [call(data(3, 4), data(3), data(4), beta=2)],
    "cross": [call(data(4, 3), data(4, 3), dim=1)],
    "linalg.cross": [call(data(4, 3), data(4, 3))],
    "linalg.vecdot": [call(data(4, 3), data(4, 3))],
    "sum_to_size": [call(data(3, 4), (1, 4)), call(data(2, 3, 4), (3, 1))],
    **{n: [call(data(3, 4), 2, 0, 1.0), call(data(2, 3, 4), 1, -2, 2.0)] for n in ("renorm", "renorm_")},
    "dist": [call(data(5, 7), data(5, 7)), call(data(5, 7), data(5, 7), 1)],
    "cdist": [call(data(5, 3), data(4, 3)), call(data(5, 3), data(4, 3), 1.0)],
    "matmul": [
        call(data(5, 7), data(7, 3)),
        call(data(2, 5, 7), data(7)),
        call(data(2, 1, 4, 3), data(5, 3, 2)),
        call(data(70, 65), data(65, 67)),
    ],
    "mm": [call(data(5, 7), data(7, 3)), call(data(70, 65), data(65, 67)), call(data(3, 0), data(0, 2))],
    "bmm": [call(data(2, 5, 7), data(2, 7, 3))],
    "mv": [call(data(5, 7), data(7))],
    "addmm": [call(data(5, 3), data(5, 7), data(7, 3)), call(data(3), data(5, 7), data(7, 3), beta=2, alpha=3)],
    "baddbmm": [call(data(2, 5, 3), data(2, 5, 7), data(2, 7, 3))],
    "nn.functional.linear": [call(data(5, 7), data(3, 7), data(3)), call(data(2, 5, 7), data(3, 7))],
    "nn.functional.scaled_dot_product_attention": [
        call(data(2, 2, 5, 4), data(2, 2, 6, 4), data(2, 2, 6, 3)),
        call(data(2, 5, 4), data(2, 5, 4), data(2, 5, 4), is_causal=True),
    ],
    "nn.functional.lstm_layer": [
        call(data(3, 2, 5), data(2, 2), data(2, 2), data(8, 5), data(8, 2), data(8), data(8)),
    ],
    # Norms.
    "linalg.vector_norm": [
        *_REDUCTION[:1],
        call(data(5, 7), 1, 1),
        call(data(5, 7), 3.5, 0),
        call(data(5, 7), float("inf"), 1),
    ],
    "linalg.norm": [_WHOLE, call(data(5, 7), "fro"), call(data(5, 7), 1)],
    "linalg.matrix_norm": [_WHOLE, call(data(5, 7), 1), call(data(5, 7), float("inf"))],
    "norm": [_WHOLE, call(data(5, 7), 1, 1), call(data(5, 7), "fro")],
    # Losses.
    **{f"nn.functional.{n}": _LOSS for n in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")},
    "nn.functional.binary_cross_entropy": [
        call(unit(5, 7), Spec((5, 7), "unit")),
        call(unit(5, 7), unit(5, 7), reduction="none"),
    ],
    "nn.functional.binary_cross_entropy_with_logits": [
        call(data(5, 7), unit(5, 7)),
        call(data(5, 7), unit(5, 7), pos_weight=positive(7)),
    ],
    "nn.functional.nll_loss": [
        call(data(5, 7), index(7, 5)),
        call(data(5, 7), index(7, 5), positive(7)),
        call(data(2, 7, 3), index(7, 2, 3), reduction="none"),
    ],
    "nn.functional.cross_entropy": [
        call(data(5, 7), index(7, 5)),
        call(data(5, 7), index(7, 5), positive(7), label_smoothing=0.1),
        call(data(2, 7, 3), index(7, 2, 3), ignore_index=1, reduction="sum"),
        call(data(5, 7), unit(5, 7)),
    ],
    # Networks.
    "nn.functional.dropout": [call(data(5, 7)), call(data(5, 7), 0.2, False)],
    "nn.functional.interpolate": [
        call(data(1, 2, 4, 5), (7, 3)),
        call(data(1, 2, 4, 5), (7, 3), mode="bilinear", align_corners=False),
        call(data(1, 2, 5), scale_factor=2.0, mode="linear"),
        call(data(1, 2, 4, 5), (7, 3), mode="bicubic", align_corners=True),
    ],
    "constant_pad_nd": [call(data(4, 5), (1, 2, 0, -1), 3)],
    "nn.functional.pad": [
        call(data(2, 4, 5), (1, 2), "constant", 2),
        call(data(2, 4, 5), (1, 2), "reflect"),
        call(data(2, 4, 5), (1, 2), "replicate"),
        call(data(2, 4, 5), (1, 2), "circular"),
    ],
    "layer_norm": [call(data(5, 7), (7,), data(7), data(7)), call(data(2, 3, 4), (3, 4))],
    "group_norm": [call(data(2, 4, 5), 2, data(4), data(4))],
    "nn.functional.batch_norm": [
        call(data(4, 3, 5), real(3), positive(3), data(3), data(3), True),
        call(data(4, 3, 5), real(3), positive(3), data(3), data(3)),
    ],
    **{n: _WINDOW_1 for n in ("max_pool1d", "avg_pool1d")},
    "max_pool2d": [*_WINDOW_2, call(data(2, 3, 7, 6), 3, return_indices=True)],
    "nn.functional.avg_pool2d": _WINDOW_2,
    "max_pool3d": _WINDOW_3,
    "nn.functional.avg_pool3d": _WINDOW_3,
    **{n: [call(data(2, 3, 9), 4)] for n in ("adaptive_avg_pool1d", "nn.functional.adaptive_max_pool1d")},
    **{f"nn.functional.{n}": [call(data(2, 3, 7, 6), (3, 2))] for n in ("adaptive_avg_pool2d", "adaptive_max_pool2d")},
    **{f"nn.functional.{n}": [call(data(1, 2, 5, 4, 4), 2)] for n in ("adaptive_avg_pool3d", "adaptive_max_pool3d")},
    # Random numbers, which are equal to those of the CPU.
    "randint_like": [call(real(5, 7), 10)],
    "bernoulli": [call(Spec((5, 7), "unit"))],
    "bernoulli_": [call(data(5, 7), 0.3)],
    "multinomial": [call(Spec((5, 7), "positive"), 3)],
    "normal": [call(real(5, 7), Spec((5, 7), "positive"))],
    "geometric_": [call(data(5, 7), 0.3)],
    # Reductions.
    **{
        n: _REDUCTION
        for n in (
            "sum",
            "nansum",
            "mean",
            "nanmean",
            "all",
            "any",
            "amax",
            "amin",
            "var",
            "std",
            "var_mean",
            "std_mean",
        )
    },
    "logsumexp": [c for c in _REDUCTION if len(c[0]) > 1],
    **{n: _WHOLE_OR_ALONG for n in ("prod", "max", "min", "median", "nanmedian", "argmax", "argmin")},
    "aminmax": [_WHOLE, call(data(5, 7), dim=1), call(data(5, 7), dim=0, keepdim=True)],
    "mode": [call(data(5, 7)), call(data(5, 7), 0, True)],
    "quantile": [
        call(data(5, 7), 0.4),
        call(data(5, 7), Spec((3,), "unit"), 1),
        call(data(5, 7), 0.4, 0, interpolation="nearest"),
    ],
    "nanquantile": [call(data(5, 7), 0.4), call(data(5, 7), Spec((3,), "unit"), 1)],
    # Along a dimension.
    **{n: _SCAN for n in ("cumsum", "cummax", "cummin", "logcumsumexp", "softmax", "log_softmax")},
    **{f"nn.functional.{n}": _SCAN for n in ("softmax", "log_softmax")},
    "cumprod": [*_SCAN[:3], call(unit(2, 3001), 1), _SCAN[-1]],
    "diff": [call(data(5, 7)), call(data(5, 7), 2, 0), call(data(5, 7), 1, 1, data(5, 1))],
    "trapezoid": [call(data(5, 7)), call(data(5, 7), data(5, 7))],
    "cumulative_trapezoid": [call(data(5, 7)), call(data(5, 7), data(5, 7))],
    **{n: _SORT for n in ("sort", "argsort")},
    "topk": [call(data(5, 7), 3), call(data(5, 7), 2, 0, False)],
    "kthvalue": [call(data(5, 7), 3), call(data(5, 7), 2, 0, True)],
    "searchsorted": [call(ascending(5, 7), real(5, 4)), call(ascending(7), real(5, 4), right=True)],
    "bucketize": [call(real(5, 4), ascending(7))],
    "zeros_like": _ANY,
    "ones_like": _ANY,
}
