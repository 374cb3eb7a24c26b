"""Functions written in Python give the results, gradients and errors that record_functions.py saw in PyTorch."""

from __future__ import annotations

import builtins
import json
import math
import struct
import warnings
from pathlib import Path

import function_cases as cases
import pytest

import rgrad as torch

RECORDED = json.loads(Path(__file__).with_name("functions.json").read_text())


def _matches(found, expected):
    if isinstance(expected, dict):
        assert isinstance(found, torch.Tensor) and str(found.dtype) == expected["dtype"]
        assert list(found.shape) == expected["shape"]
        values = torch.tensor([float(v) for v in expected["values"]], dtype=torch.float64).reshape(found.shape)
        rtol, atol = {torch.float64: (1e-9, 1e-12), torch.float32: (2e-5, 2e-5)}.get(found.dtype, (1e-2, 1e-2))
        torch.testing.assert_close(found.double(), values, rtol=rtol, atol=atol, equal_nan=True)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _matches(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("call", [call for table in cases.CALLS for call in cases.lines(table)])
def test_a_call_gives_what_was_recorded(call):
    expected = RECORDED[call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if isinstance(expected, dict) and "error" in expected:
            with pytest.raises(getattr(builtins, expected["error"])):
                eval(call, cases.names(torch))
        else:
            _matches(eval(call, cases.names(torch)), expected)


@pytest.mark.parametrize("case", cases.lines(cases.GRADIENTS))
def test_gradients_are_those_recorded(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        _matches(cases.gradients(torch, case), RECORDED[case])


SECOND = {
    "lu": lambda a: torch.linalg.lu(a)[1:],
    "lstsq": lambda a: torch.linalg.lstsq(a, a[:, :1] + 1).solution,
    "matrix_exp": torch.linalg.matrix_exp,
    "matrix_sqrth": lambda a: torch.linalg.matrix_sqrth(a @ a.mT),
    "polar": lambda a: tuple(torch.linalg.polar(a)),
    "householder_product": lambda a: torch.linalg.householder_product(a, a[0]),
    "entr": lambda a: torch.special.entr(a.abs()),
    "xlog1py": lambda a: torch.special.xlog1py(a, a.abs()),
    "log_ndtr": lambda a: torch.special.log_ndtr(a * 5),
    "ndtri": lambda a: torch.special.ndtri(a * 0.1 + 0.2),
    "erfcx": torch.special.erfcx,
    "i0": torch.special.i0,
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "zeta": lambda a: torch.special.zeta(3, a.abs() + 0.5),
    "polygamma": lambda a: torch.polygamma(1, a.abs() + 0.5),
    "bessel_j0": lambda a: torch.special.bessel_j0(a * 20),
    "bessel_j1": torch.special.bessel_j1,
    "bessel_y0": lambda a: torch.special.bessel_y0(a.abs() * 9 + 1),
    "bessel_y1": lambda a: torch.special.bessel_y1(a.abs() * 9 + 1),
    "modified_bessel_k0": lambda a: torch.special.modified_bessel_k0(a.abs() + 0.5),
    "scaled_modified_bessel_k1": lambda a: torch.special.scaled_modified_bessel_k1(a.abs() + 0.5),
    "spherical_bessel_j0": torch.special.spherical_bessel_j0,
    "legendre_polynomial_p": lambda a: torch.special.legendre_polynomial_p(a, 4),
    "histogram": lambda a: torch.histogram(torch.arange(9.0).view(3, 3).double(), 3, weight=a + 2, density=True).hist,
    "segment_reduce": lambda a: torch.segment_reduce(a, "prod", lengths=torch.tensor([2, 1])),
    "ldl_solve": lambda a: torch.linalg.ldl_solve(a, torch.tensor([2, -3, -3], dtype=torch.int32), a),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_agree_with_differences(name):
    a = cases.names(torch)["m"](3, 3).requires_grad_()
    assert torch.autograd.gradcheck(SECOND[name], a) and torch.autograd.gradgradcheck(SECOND[name], a)


def test_factors_of_large_matrices_multiply_to_them():
    torch.manual_seed(0)
    for shape in ((100, 100), (2, 70, 30), (30, 70)):
        a = torch.randn(shape, dtype=torch.float64)
        P, L, U = torch.linalg.lu(a)
        torch.testing.assert_close(P @ L @ U, a, rtol=1e-12, atol=1e-12)
        assert L.abs().max() <= 1
        rank = min(shape[-2:])
        if shape[-2] >= shape[-1]:
            packed, tau = torch.geqrf(a)
            Q = torch.linalg.householder_product(packed, tau)
            torch.testing.assert_close(Q @ packed[..., :rank, :].triu(), a, rtol=1e-12, atol=1e-12)


def test_eigenvalues_of_any_matrix_are_refused_as_they_are_complex():
    for function in (torch.linalg.eig, torch.linalg.eigvals):
        with pytest.raises(NotImplementedError, match="complex"):
            function(torch.eye(2))
    for function in (torch.geqrf, torch.linalg.ldl_factor):
        with pytest.raises(NotImplementedError, match="derivative for"):
            function(torch.eye(2, requires_grad=True))[0].sum().backward()


def test_fourier_transforms_are_refused_as_they_are_complex():
    for name in ("fft", "rfft", "irfft", "ihfft2", "fftn"):
        with pytest.raises(NotImplementedError, match=rf"torch\.fft\.{name} is not in rgrad: there are no complex"):
            getattr(torch.fft, name)(torch.ones(4))


def test_orders_of_polynomials_that_no_loop_ends_at_are_refused():
    with pytest.raises(RuntimeError, match="orders up to"):
        torch.special.legendre_polynomial_p(torch.ones(1), 10**15)


def test_incomplete_gamma_functions_differentiate_by_their_shape():
    a, x = torch.tensor([0.5, 3.0, 10.0], dtype=torch.float64), torch.tensor([0.4, 5.0, 8.0], dtype=torch.float64)
    for function in (torch.igamma, torch.igammac):
        assert torch.autograd.gradcheck(lambda a, f=function: f(a, x), a.clone().requires_grad_())


def test_bessel_functions_have_their_wronskians_to_the_last_digits():
    s = torch.special
    x = torch.linspace(0.05, 40, 1000, dtype=torch.float64)
    one = torch.ones_like(x)
    mixed = (s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)) * torch.pi * x / 2
    torch.testing.assert_close(mixed, one, rtol=0, atol=1e-14)
    modified = (s.i0e(x) * s.scaled_modified_bessel_k1(x) + s.i1e(x) * s.scaled_modified_bessel_k0(x)) * x
    torch.testing.assert_close(modified, one, rtol=0, atol=1e-14)


def test_the_airy_function_solves_its_equation():
    x = torch.linspace(-25, 8, 700, dtype=torch.float64)
    h = 0.01
    values = [torch.special.airy_ai(x + i * h) for i in (-2, -1, 0, 1, 2)]
    second = (16 * (values[1] + values[3]) - values[0] - values[4] - 30 * values[2]) / (12 * h * h)
    torch.testing.assert_close(second, x * values[2], rtol=0, atol=1e-5)
    zero = torch.special.airy_ai(torch.zeros(1, dtype=torch.float64)).item()
    assert math.isclose(zero, 3 ** (-2 / 3) / math.gamma(2 / 3), rel_tol=1e-14)
    with pytest.raises(NotImplementedError, match="derivative for"):
        torch.special.airy_ai(torch.ones(1, requires_grad=True)).sum().backward()


@pytest.mark.parametrize(
    ("reduce", "expected"), [("max", [1, 0, 0]), ("min", [1, 0, 0]), ("prod", [12, math.nan, math.nan])]
)
def test_the_gradient_of_a_segment_with_nan_goes_to_the_nan(reduce, expected):
    x = torch.tensor([math.nan, 3.0, 4.0, 5.0], requires_grad=True)
    result = torch.segment_reduce(x, reduce, lengths=torch.tensor([3, 1]))
    result.sum().backward()
    assert result[0].isnan() and result[1] == 5
    torch.testing.assert_close(x.grad, torch.tensor([*map(float, expected), 1.0]), equal_nan=True)


def test_segments_of_the_last_dimension_may_be_counted_from_the_end():
    x = torch.arange(6.0)
    assert torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 4]), axis=-1).tolist() == [1, 14]
    rows = torch.segment_reduce(x.view(2, 3), "max", offsets=torch.tensor([[0, 1, 3]] * 2), axis=-1)
    assert rows.tolist() == [[0, 2], [3, 5]]


def test_a_softmax_leaves_out_what_a_mask_hides():
    scores = torch.randn(2, 3, 4, 4)
    square = torch.tensor([[False, True, False, True]] * 4)
    keys = torch.tensor([[False, True, True, False], [True, False, False, False]])
    full = torch.rand(scores.shape) < 0.5
    for mask, kind in ((square, 0), (keys, 1), (full, 2), (full, None)):
        hidden = keys[:, None, None].expand_as(scores) if kind == 1 else mask.expand_as(scores)
        found = torch._masked_softmax(scores, mask, 3, kind)
        weights = scores.exp() * ~hidden
        torch.testing.assert_close(found, weights / weights.sum(3, keepdim=True), equal_nan=True)
    for mask, kind, why in (
        (square[:3], 0, r"mask_type == 0 mask shape should be \(L, L\)"),
        (keys[:1], 1, r"mask_type == 1 mask shape should be \(B, L\)"),
        (square, None, "mask_type == 2 mask shape should match input shape"),
        (square.float(), 0, "Mask should be a boolean tensor"),
    ):
        with pytest.raises(RuntimeError, match=why):
            torch._masked_softmax(scores, mask, 3, kind)


def test_a_softmax_is_called_as_pytorch_s_kernels_are():
    x = torch.randn(2, 3)
    assert torch.equal(torch._softmax(x, 1, False), x.softmax(1))
    assert torch.equal(torch._log_softmax(x, 0, False), x.log_softmax(0))
    for function in (torch._softmax, torch._log_softmax):
        with pytest.raises(RuntimeError, match="half to float conversion is not supported on CPU"):
            function(x.half(), 0, True)


def test_a_convolution_has_the_name_of_one_of_pytorch_s_implementations():
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    expected = torch.conv2d(x, w, None, stride=2, padding=1)
    assert torch.equal(torch._nnpack_spatial_convolution(x, w, None, padding=1, stride=2), expected)


@pytest.mark.parametrize("mask_type", [None, 0, 1, 2])
def test_attention_is_called_as_pytorch_s_kernel_is(mask_type):
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    inputs = [torch.randn(3, 4, 8, dtype=torch.float64) for _ in range(3)]
    keys = torch.tensor([[False, False, False, True]] * 3)
    order = torch.ones(4, 4, dtype=torch.bool).triu(1)
    mask = {None: None, 0: order, 1: keys, 2: order.expand(3, 2, 4, 4)}[mask_type]
    weights = (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias)
    for average in (True, False):
        options = {"need_weights": True, "average_attn_weights": average}
        masks = {"key_padding_mask": keys} if mask_type == 1 else {"attn_mask": order} if mask is not None else {}
        expected = layer(*inputs, **options, **masks)
        found = torch._native_multi_head_attention(*inputs, 8, 2, *weights, mask, mask_type=mask_type, **options)
        torch.testing.assert_close(found, expected)
    assert torch._native_multi_head_attention(*inputs, 8, 2, *weights, need_weights=False)[1] is None
    with pytest.raises(RuntimeError, match="`embed_dim` must divide evenly by `num_heads`"):
        torch._native_multi_head_attention(*inputs, 8, 3, *weights)


def test_queries_keys_and_values_are_split_by_head():
    packed, bias = torch.randn(2, 5, 12), torch.randn(12)
    q, k, v = torch._transform_bias_rescale_qkv(packed, bias, 2)
    assert q.shape == k.shape == v.shape == (2, 2, 5, 2)
    whole = packed + bias
    torch.testing.assert_close(q[1, 1], whole[1, :, 2:4] / math.sqrt(2))
    torch.testing.assert_close(k[0, 0], whole[0, :, 4:6])
    torch.testing.assert_close(v[0, 1], whole[0, :, 10:12])


def test_rows_are_pruned_by_a_mask():
    table, mask = torch.arange(8.0).reshape(4, 2), torch.tensor([True, False, False, True])
    for dtype in (torch.int32, torch.int64):
        rows, numbers = torch._rowwise_prune(table, mask, dtype)
        assert rows.tolist() == [[0, 1], [6, 7]] and numbers.tolist() == [0, -1, -1, 1] and numbers.dtype == dtype
    for arguments, why in (
        ((table, mask[:2], torch.int32), "Number of elements in 'mask'"),
        ((table, mask, torch.float32), "should be either int"),
        ((table[0], mask, torch.int32), "should have 2 dimensions"),
        ((table, mask.int(), torch.int32), "expected scalar type Bool but found Int"),
    ):
        with pytest.raises(RuntimeError, match=why):
            torch._rowwise_prune(*arguments)


def test_histograms_are_refused_what_does_not_fit_their_input():
    x = torch.ones(3)
    for arguments, options, why in (
        ((x, torch.tensor(1)), {}, "input tensor and bins tensors should have the same dtype"),
        ((x, x.reshape(1, 3)), {}, "bins tensor should have one dimension, but got 2"),
        ((x, torch.tensor([])), {}, "bins tensor should have at least 1 element"),
        ((x, 1), {"out": (torch.ones(1).double(), torch.ones(2))}, "and hist tensor should have the same dtype"),
        ((x, 1), {"out": (torch.ones(1), torch.ones(2).double())}, "and bin_edges tensor should have the same dtype"),
    ):
        with pytest.raises(RuntimeError, match=why):
            torch.histogram(*arguments, **options)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.histogram(x, x, range=(0, 1))


def test_a_product_is_added_and_activated():
    bias, x, w = torch.randn(4), torch.randn(2, 3), torch.randn(3, 4)
    product = 2.0 * bias + 0.5 * x.mm(w)
    assert torch.allclose(torch._addmm_activation(bias, x, w, beta=2, alpha=0.5), product.relu())
    out = torch.empty(0)
    assert torch._addmm_activation(bias, x, w, beta=2, alpha=0.5, use_gelu=True, out=out) is out
    assert torch.allclose(out, torch.nn.functional.gelu(product))


def test_rows_are_summed_with_coefficients():
    rows, coefficients = torch.randn(3, 2, 2), torch.randn(4, 2)
    found = torch._compute_linear_combination(rows, coefficients)
    assert torch.allclose(found, torch.einsum("mk,kab->mab", coefficients, rows[:2]))
    out = torch.ones(4, 2, 2)
    assert torch._compute_linear_combination(rows, coefficients, out=out) is out
    assert torch.allclose(out, found + 1)
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        torch._compute_linear_combination(rows, torch.ones(4, 5))


def test_a_hash_is_the_exclusive_or_of_widened_bits():
    x = torch.tensor([[1.5, -2.0, 0.25], [3.0, 1.5, -2.0]])
    bits = [[struct.unpack("<Q", struct.pack("<d", v))[0] for v in row] for row in x.tolist()]
    rows = [a ^ b ^ c for a, b, c in bits]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        found = torch.hash_tensor(x.to(dtype), 1)
        assert found.dtype == torch.uint64 and found.tolist() == rows
    assert x.hash_tensor().item() == torch.hash_tensor(x.mT, (0, 1)).item() == rows[0] ^ rows[1]
    assert torch.hash_tensor(x, -1, keepdim=True).tolist() == [[row] for row in rows]
    whole = torch.tensor([-1, 3, 5], dtype=torch.int8)
    assert torch.hash_tensor(whole).item() == (-1 ^ 3 ^ 5) % 2**64
    assert torch.hash_tensor(torch.tensor([True, True, True])).item() == 1
    assert torch.hash_tensor(torch.tensor(3), 0).item() == 3
    out = torch.empty(0, dtype=torch.uint64)
    assert torch.hash_tensor(x, 1, out=out) is out and out.tolist() == rows


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: torch.hash_tensor(torch.empty(0, 3)), RuntimeError, "Expected reduction dim to be specified"),
        (lambda: torch.hash_tensor(torch.empty(0, 3), 0), IndexError, "Expected reduction dim 0 to have non-zero size"),
        (lambda: torch.hash_tensor(torch.ones(2), (0, -1)), RuntimeError, "dim 0 appears multiple times"),
        (lambda: torch.hash_tensor(torch.ones(2), 1), IndexError, "Dimension out of range"),
        (
            lambda: torch.hash_tensor(torch.ones([1] * 65)),
            RuntimeError,
            "only tensors with up to 64 dims are supported",
        ),
        (lambda: torch.hash_tensor(torch.ones(2), 1.0), TypeError, "must be tuple of ints, not float"),
        (lambda: torch.hash_tensor(torch.ones(2), mode=1), RuntimeError, "Unknown hash_tensor mode: 1"),
        (lambda: torch.hash_tensor(torch.ones(2), out=torch.empty(0)), RuntimeError, "dtype uint64, but got Float"),
        (lambda: torch.hash_tensor(torch.ones(2).to(torch.uint16)), NotImplementedError, "'UInt16'"),
    ],
)
def test_what_cannot_be_hashed_is_an_error(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_shapes_broadcast_to_a_shape():
    infer = torch._C._infer_size
    found = infer(torch.Size([3, 1]), torch.Size([2, 1, 4]))
    assert type(found) is torch.Size and found == (2, 3, 4)
    assert infer(torch.Size([0]), torch.Size([1])) == (0,) and infer(torch.Size([]), torch.Size([2])) == (2,)
    with pytest.raises(
        RuntimeError, match=r"tensor a \(2\) must match the size of tensor b \(4\) at non-singleton dimension 2"
    ):
        infer(torch.Size([3, 2]), torch.Size([2, 1, 4]))
    with pytest.raises(RuntimeError, match="expected a torch.Size as argument 1"):
        infer((3, 2), torch.Size([2]))


def test_the_preferred_library_of_linear_algebra_is_kept():
    prefer = torch.backends.cuda.preferred_linalg_library
    default = prefer()
    try:
        assert prefer("magma").name == "Magma" and prefer().name == "Magma"
        with pytest.raises(RuntimeError, match="Unknown input value"):
            prefer("lapack")
    finally:
        assert prefer(default) is default


def test_the_older_name_of_aminmax_warns_once():
    x = torch.arange(6.0).reshape(2, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [part.tolist() for part in torch._aminmax(x)] == [0, 5]
        assert [part.tolist() for part in torch._aminmax(x, 1, True)] == [[[0], [3]], [[2], [5]]]
    assert len(caught) == 1 and "_aminmax is deprecated" in str(caught[0].message)


def test_segments_of_an_empty_tensor_are_empty_or_what_an_empty_segment_is():
    zero = torch.zeros(2, dtype=torch.int64)
    assert torch.segment_reduce(torch.zeros(0, 3), "max", lengths=zero).tolist() == [[-torch.inf] * 3] * 2
    assert torch.segment_reduce(torch.zeros(0), "sum", lengths=zero[:0]).shape == (0,)
    assert torch.segment_reduce(torch.zeros(0, 2, 3), "sum", lengths=zero.view(1, 2)[:0], axis=1).shape == (0, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cross_products_are_those_of_the_elements_along_any_dimension(dtype, dim):
    generator = torch.Generator().manual_seed(0)
    x, y = ((torch.randn(3, 3, 40, 3, generator=generator) * 4).to(dtype) for _ in range(2))
    # Operands that are no dense tensors, and one that is repeated.
    for a, b in ((x, y), (x.transpose(0, 3), y), (x[:, :, 1:], y[:, :, :-1]), (x, y[:, :, :1])):
        got = torch.linalg.cross(a, b, dim=dim)
        (x0, x1, x2), (y0, y1, y2) = a.unbind(dim), b.unbind(dim)
        wanted = torch.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], dim)
        assert got.dtype == dtype and torch.equal(got, wanted)
