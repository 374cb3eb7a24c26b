"""The operations of `torch.ops.aten` that calls of the API are, for policies of selective checkpointing."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad._library import calls
from rgrad.utils.checkpoint import create_selective_checkpoint_contexts

F = torch.nn.functional
aten = torch.ops.aten


def test_every_operation_that_a_call_may_be_is_in_torch_ops():
    listed = [name for name in calls._CALLS.values() if isinstance(name, str)]
    own = [f"{name}.default" for name in calls._names().values() if name not in ("T", "H", "mT", "mH")]
    assert [name for name in listed + own if calls._overload(name) is None] == []
    with pytest.raises(NotImplementedError, match="call torch.nn.functional.scaled_dot_product_attention"):
        aten._scaled_dot_product_flash_attention_for_cpu.default(*[torch.ones(1, 2, 2)] * 3)


def test_calls_have_the_names_that_they_have_in_policies():
    x, v, stack = torch.ones(2, 2), torch.ones(2), torch.ones(3, 2, 2)
    picture = torch.ones(1, 2, 4, 4)
    names = {
        "mm.default": lambda: x @ x,
        "mv.default": lambda: x @ v,
        "dot.default": lambda: v @ v,
        "bmm.default": lambda: stack @ stack,
        "addmm.default": lambda: F.linear(x, x, v),
        "convolution.default": lambda: F.conv2d(picture, torch.ones(2, 2, 3, 3)),
        "add.Tensor": lambda: 1 + x,
        "sub.Tensor": lambda: x - 1,
        "rsub.Scalar": lambda: 1 - x,
        "div.Tensor": lambda: x / 2,
        "div.Tensor_mode": lambda: torch.div(x, x, rounding_mode="floor"),
        "pow.Tensor_Scalar": lambda: x**2,
        "pow.Tensor_Tensor": lambda: x**x,
        "pow.Scalar": lambda: 2**x,
        "gt.Scalar": lambda: x > 0,
        "gt.Tensor": lambda: x > x,
        "sum.default": lambda: x.sum(),
        "sum.dim_IntList": lambda: x.sum(dim=(0, 1)),
        "mean.dim": lambda: x.mean(1),
        "max.dim": lambda: x.max(1),
        "maximum.default": lambda: torch.max(x, x),
        "linalg_vector_norm.default": lambda: x.norm(),
        "_softmax.default": lambda: F.softmax(x, -1),
        "_log_softmax.default": lambda: x.log_softmax(-1),
        "native_layer_norm.default": lambda: F.layer_norm(x, (2,)),
        "upsample_bilinear2d.default": lambda: F.interpolate(picture, scale_factor=2, mode="bilinear"),
        "constant_pad_nd.default": lambda: F.pad(x, (1, 1)),
        "reflection_pad2d.default": lambda: F.pad(picture, (1, 1, 1, 1), mode="reflect"),
        "nll_loss_forward.default": lambda: F.cross_entropy(x, torch.tensor([0, 1])),
        "_to_copy.default": lambda: x.double(),
        "index.Tensor": lambda: x[[0]],
        "select.int": lambda: x[0],
        "slice.Tensor": lambda: x[:1],
        "transpose.int": lambda: x.transpose(0, 1),
        "where.self": lambda: torch.where(x.bool(), x, x),
        "cat.default": lambda: torch.cat([x, x]),
    }
    for name, call in names.items():
        asked = []
        first, _ = create_selective_checkpoint_contexts(lambda ctx, op, *args, asked=asked, **kwargs: asked.append(op))
        with first:
            call()
        assert asked[-1].overloadpacket.__name__ == name.split(".")[0]
        assert f"aten.{name}" in map(str, asked)
    asked = []
    first, _ = create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: asked.append(op))
    with first:
        x.float().contiguous().add_(1).dim()
    assert asked == []


@pytest.mark.parametrize("transposed", [False, True])
def test_the_gradients_of_a_convolution_are_those_of_autograd(transposed):
    x = torch.randn(2, 4, 7, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    settings = ([2, 1], [1, 0], [1, 1], transposed, [1, 0] if transposed else [0, 0], 2)
    out = torch.ops.aten.convolution(x, w, None, *settings)
    g = torch.randn_like(out)
    expected = torch.autograd.grad(out, (x, w), g, create_graph=True)
    found = torch.ops.aten.convolution_backward(g, x, w, None, *settings, [True, True, True])
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=False))
    torch.testing.assert_close(found[2], g.sum((0, 2, 3)))
    second = [torch.autograd.grad(grads[0].square().sum(), w)[0] for grads in (found, expected)]
    torch.testing.assert_close(*second)
    with torch.no_grad():
        only = torch.ops.aten.convolution_backward(g, x, w, None, *settings, [False, True, False])
    assert only[0] is only[2] is None and torch.equal(only[1], expected[1]) and not only[1].requires_grad
