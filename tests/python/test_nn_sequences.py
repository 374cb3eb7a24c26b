"""Recurrent networks, attention, transformers, and sequences of different lengths."""

from __future__ import annotations

import copy
import math
import warnings

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.autograd import gradcheck, gradgradcheck
from rgrad.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
)
from rgrad.utils.flop_counter import FlopCounterMode

KINDS = [nn.RNN, nn.LSTM, nn.GRU]


def hidden(state):
    return state if isinstance(state, torch.Tensor) else state[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_of_one_layer_is_its_cell_step_by_step(kind):
    torch.manual_seed(0)
    net = kind(3, 4)
    cell = {nn.RNN: nn.RNNCell, nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell}[kind](3, 4)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in net.state_dict().items()})
    x, state = torch.randn(5, 2, 3), None
    steps = []
    for t in range(5):
        state = cell(x[t], state)
        steps.append(hidden(state))
    output, final = net(x)
    assert torch.allclose(output, torch.stack(steps), atol=1e-6)
    assert torch.allclose(hidden(final)[0], steps[-1], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_direction_reads_from_the_end(kind):
    torch.manual_seed(0)
    net, forward = kind(3, 4, bidirectional=True, batch_first=True), kind(3, 4, batch_first=True)
    forward.load_state_dict({n.removesuffix("_reverse"): v for n, v in net.state_dict().items() if "_reverse" in n})
    x = torch.randn(2, 5, 3)
    output, final = net(x)
    expected, _ = forward(x.flip(1))
    assert torch.allclose(output[..., 4:], expected.flip(1), atol=1e-6)
    assert torch.allclose(hidden(final)[1], output[:, 0, 4:], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_give_what_each_gives_alone(kind):
    torch.manual_seed(0)
    net = kind(3, 4, num_layers=2, bidirectional=True)
    sequences = [torch.randn(n, 3) for n in (2, 5, 3)]
    output, final = net(pack_sequence(sequences, enforce_sorted=False))
    for i, (one, sequence) in enumerate(zip(unpack_sequence(output), sequences, strict=True)):
        alone, alone_final = net(sequence)
        assert torch.allclose(one, alone, atol=1e-6)
        assert torch.allclose(hidden(final)[:, i], hidden(alone_final), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_gradients_agree_with_finite_differences(kind):
    torch.manual_seed(0)
    net = kind(2, 3, num_layers=2, bidirectional=True).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, *_: net(x)[0], (x, *net.parameters()), fast_mode=True)


def test_an_lstm_may_project_its_output():
    net = nn.LSTM(3, 4, num_layers=2, proj_size=2)
    output, (h, c) = net(torch.zeros(5, 6, 3))
    assert output.shape == (5, 6, 2) and h.shape == (2, 6, 2) and c.shape == (2, 6, 4)
    assert list(net.state_dict())[:5] == [
        "weight_ih_l0",
        "weight_hh_l0",
        "bias_ih_l0",
        "bias_hh_l0",
        "weight_hr_l0",
    ]
    assert repr(net) == "LSTM(3, 4, proj_size=2, num_layers=2)"


def test_recurrent_networks_start_between_bounds_and_keep_their_keys_when_copied():
    net = nn.GRU(3, 16, bias=False, bidirectional=True)
    assert all(float(p.detach().abs().max()) <= 1 / math.sqrt(16) for p in net.parameters())
    assert list(copy.deepcopy(net).state_dict()) == [
        "weight_ih_l0",
        "weight_hh_l0",
        "weight_ih_l0_reverse",
        "weight_hh_l0_reverse",
    ]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nn.LSTM(3, 4)(torch.ones(2, 2, 5)),
            RuntimeError,
            "input.size.-1. must be equal to input_size. Expected 3",
        ),
        (lambda: nn.GRU(3, 4)(torch.ones(3)), ValueError, "GRU: Expected input to be 2D or 3D, got 1D instead"),
        (
            lambda: nn.RNN(3, 4)(torch.ones(1, 2, 3), torch.ones(1, 5, 4)),
            RuntimeError,
            r"Expected hidden size \(1, 2, 4\)",
        ),
        (lambda: nn.RNN(3, 4, dropout=2), ValueError, r"dropout should be a number in range \[0, 1\]"),
        (lambda: nn.RNN(3, 4, nonlinearity="sin"), ValueError, "Unknown nonlinearity 'sin'"),
        (
            lambda: nn.GRUCell(3, 4)(torch.ones(2, 5)),
            RuntimeError,
            "input has inconsistent input_size: got 5 expected 3",
        ),
        (lambda: pack_padded_sequence(torch.ones(2, 2, 1), [1, 2]), RuntimeError, "must be sorted in decreasing order"),
        (lambda: pad_sequence([]), RuntimeError, "received an empty list of sequences"),
    ],
)
def test_errors_about_sequences_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_packing_goes_step_by_step_and_padding_undoes_it():
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])
    packed = pack_sequence([a, b])
    assert packed.data.tolist() == [1.0, 4.0, 2.0, 3.0] and packed.batch_sizes.tolist() == [2, 1, 1]
    assert isinstance(packed.double(), PackedSequence) and packed.double().data.dtype == torch.float64
    padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=4)
    assert padded.tolist() == [[1.0, 2.0, 3.0, -1.0], [4.0, -1.0, -1.0, -1.0]] and lengths.tolist() == [3, 1]
    assert pad_sequence([a, b], batch_first=True, padding_side="left").tolist() == [[1.0, 2.0, 3.0], [0.0, 0.0, 4.0]]


def plain_attention(module, query, key, value, mask=0.0):
    """What the module computes, for inputs without a batch, written out."""
    weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), weights, biases, strict=True))
    q, k, v = (x.view(len(x), module.num_heads, -1).transpose(0, 1) for x in (q, k, v))
    scores = (q @ k.transpose(1, 2)) / math.sqrt(q.shape[-1]) + mask
    attention = scores.softmax(-1)
    mixed = (attention @ v).transpose(0, 1).reshape(len(query), -1)
    return module.out_proj(mixed), attention


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_is_its_formula(need_weights):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2)
    query, key = torch.randn(4, 8), torch.randn(5, 8)
    expected, attention = plain_attention(module, query, key, key)
    output, weights = module(query, key, key, need_weights=need_weights)
    assert torch.allclose(output, expected, atol=1e-6)
    if need_weights:
        assert torch.allclose(weights, attention.mean(0), atol=1e-6)
    else:
        assert weights is None


def test_masks_of_attention_are_numbers_or_truth_values():
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(1, 4, 8)
    later = torch.ones(4, 4).triu(1).bool()
    numbers = torch.zeros(4, 4).masked_fill(later, -math.inf)
    expected, _ = plain_attention(module, x[0], x[0], x[0], numbers)
    for mask in (later, numbers):
        output, weights = module(x, x, x, attn_mask=mask)
        assert torch.allclose(output[0], expected, atol=1e-6)
        assert float(weights[0][later].detach().abs().max()) == 0.0
    padding = torch.tensor([[False, False, True, True]])
    short = x[:, :2]
    with_padding, _ = module(x, x, x, key_padding_mask=padding)
    alone, _ = module(x, short, short)
    assert torch.allclose(with_padding, alone, atol=1e-6)


def test_attention_may_have_other_keys_values_and_extra_positions():
    module = nn.MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True)
    output, weights = module(
        torch.randn(4, 2, 8), torch.randn(6, 2, 3), torch.randn(6, 2, 5), average_attn_weights=False
    )
    assert output.shape == (4, 2, 8) and weights.shape == (2, 2, 4, 8)
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        module(torch.randn(4, 8), torch.randn(6, 3), torch.randn(6, 5), is_causal=True)


def test_a_layer_of_a_transformer_normalises_before_or_after_its_blocks():
    torch.manual_seed(0)
    x = torch.randn(5, 3, 8)
    for norm_first in (False, True):
        layer = nn.TransformerEncoderLayer(8, 2, 16, norm_first=norm_first).eval()

        def attend(v, layer=layer):
            return layer.self_attn(v, v, v)[0]

        def feed(v, layer=layer):
            return layer.linear2(layer.linear1(v).relu())

        if norm_first:
            y = x + attend(layer.norm1(x))
            expected = y + feed(layer.norm2(y))
        else:
            y = layer.norm1(x + attend(x))
            expected = layer.norm2(y + feed(y))
        assert torch.allclose(layer(x), expected, atol=1e-5)


def test_the_causal_mask_keeps_later_positions_from_earlier_ones():
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 2, 16, batch_first=True).eval()
    mask = model.generate_square_subsequent_mask(4)
    src, tgt = torch.randn(1, 5, 8), torch.randn(1, 4, 8)
    changed = tgt.clone()
    changed[:, -1] += 1
    before, after = model(src, tgt, tgt_mask=mask), model(src, changed, tgt_mask=mask)
    assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-6)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-3)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(torch.randn(2, 5, 8), tgt)


def test_a_transformer_has_the_keys_of_its_layers():
    model = nn.Transformer(8, 2, 1, 1, 16)
    keys = list(model.state_dict())
    assert keys[:4] == [
        f"encoder.layers.0.self_attn.{n}"
        for n in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    ]
    assert "decoder.layers.0.multihead_attn.in_proj_weight" in keys and keys[-2:] == [
        "decoder.norm.weight",
        "decoder.norm.bias",
    ]
    assert all(float(p.detach().abs().max()) > 0 for p in model.parameters() if p.dim() > 1)


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}]
)
def test_an_lstm_over_dense_and_packed_sequences_is_the_same(options):
    torch.manual_seed(0)
    net = nn.LSTM(3, 4, **options).double()
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    dense = x.transpose(0, 1) if net.batch_first else x
    runs = []
    for packed in (False, True):
        net.zero_grad()
        output, (h, c) = net(pack_padded_sequence(x, [5, 5]) if packed else dense)
        output = output.data.view(5, 2, -1) if packed else output.transpose(0, 1) if net.batch_first else output
        (output.sin().sum() + (h * c).sum()).backward()
        runs.append([output, h, c, *(p.grad for p in net.parameters())])
    for one, other in zip(*runs, strict=True):
        torch.testing.assert_close(one, other)


def test_an_lstm_has_second_derivatives():
    torch.manual_seed(0)
    net = nn.LSTM(2, 2).double()
    x, h, c = (torch.randn(n, 1, 2, dtype=torch.float64, requires_grad=True) for n in (3, 1, 1))
    outputs = lambda x, h, c: (lambda o, s: (o, *s))(*net(x, (h, c)))  # noqa: E731
    assert gradgradcheck(outputs, (x, h, c))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("batch", [8, 33])
def test_an_lstm_of_many_sequences_is_that_of_each(batch, dtype, tolerance):
    torch.manual_seed(0)
    net = nn.LSTM(5, 40, num_layers=2, bidirectional=True).to(dtype)
    inputs = [torch.randn(*shape, dtype=dtype) for shape in ((6, batch, 5), (4, batch, 40), (4, batch, 40))]
    runs = []
    for parts in ([slice(None)], [slice(i, i + 1) for i in range(batch)]):
        x, h, c = (t.clone().requires_grad_() for t in inputs)
        outs = [net(x[:, part], (h[:, part], c[:, part])) for part in parts]
        results = [torch.cat(ts, 1) for ts in zip(*((o, *state) for o, state in outs), strict=True)]
        loss = sum((t * torch.linspace(-1, 1, t.numel(), dtype=dtype).view_as(t)).sum() for t in results)
        runs.append([*results, *torch.autograd.grad(loss, [x, h, c, *net.parameters()])])
    for one, other in zip(*runs, strict=True):
        assert (one - other).abs().max().item() <= tolerance * (1 + other.abs().max().item())


def test_an_lstm_of_many_sequences_has_second_derivatives():
    torch.manual_seed(0)
    net = nn.LSTM(2, 2).double()
    x, h, c = (torch.randn(n, 8, 2, dtype=torch.float64, requires_grad=True) for n in (2, 1, 1))
    assert gradcheck(lambda x: net(x)[0], (x,)) and gradcheck(lambda h, c: net(x, (h, c))[1][1], (h, c))
    assert gradgradcheck(lambda x, h, c: net(x, (h, c))[0], (x, h, c))


@pytest.mark.parametrize("options", [{"num_layers": 2, "bidirectional": True}, {"bias": False}])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_a_gru_over_dense_sequences_is_that_of_each_and_of_packed_ones(options, dtype, tolerance):
    torch.manual_seed(0)
    net = nn.GRU(3, 40, **options).to(dtype)
    layers = net.num_layers * (2 if net.bidirectional else 1)
    inputs = [torch.randn(*shape, dtype=dtype) for shape in ((5, 9, 3), (layers, 9, 40))]
    runs = []
    for way in ("dense", "each", "packed"):
        x, h = (t.clone().requires_grad_() for t in inputs)
        if way == "packed":
            output, final = net(pack_padded_sequence(x, [5] * 9), h)
            output = output.data.view(5, 9, -1)
        else:
            parts = [slice(None)] if way == "dense" else [slice(i, i + 1) for i in range(9)]
            outs = [net(x[:, part], h[:, part]) for part in parts]
            output, final = (torch.cat(ts, 1) for ts in zip(*outs, strict=True))
        loss = (output * torch.linspace(-1, 1, output.numel(), dtype=dtype).view_as(output)).sum() + final.sin().sum()
        runs.append([output, final, *torch.autograd.grad(loss, [x, h, *net.parameters()])])
    for run in runs[1:]:
        for one, other in zip(runs[0], run, strict=True):
            assert (one - other).abs().max().item() <= tolerance * (1 + other.abs().max().item())


def test_a_gru_of_many_sequences_has_second_derivatives():
    torch.manual_seed(0)
    net = nn.GRU(2, 2).double()
    x, h = (torch.randn(n, 8, 2, dtype=torch.float64, requires_grad=True) for n in (2, 1))
    assert gradcheck(lambda x, h: net(x, h)[0], (x, h)) and gradgradcheck(lambda x, h: net(x, h)[0], (x, h))
    names, weights = zip(*net.named_parameters(), strict=True)
    run = lambda *ws: torch.func.functional_call(net, dict(zip(names, ws, strict=True)), (x, h))[0]  # noqa: E731
    assert gradcheck(run, weights) and gradgradcheck(run, weights)


def test_a_gru_is_mapped_differentiated_and_counted_by_the_operations_of_its_steps():
    torch.manual_seed(0)
    net, x = nn.GRU(2, 3).double(), torch.randn(2, 4, 8, 2, dtype=torch.float64)
    loss = lambda weights, x: torch.func.functional_call(net, weights, (x,))[0].sin().sum()  # noqa: E731
    weights = dict(net.named_parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grads = torch.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for i in range(2):
        for name, grad in torch.func.grad(loss)(weights, x[i]).items():
            torch.testing.assert_close(grads[name][i], grad)
    tangent = torch.randn_like(x[0])
    _, slope = torch.func.jvp(lambda x: loss(weights, x), (x[0],), (tangent,))
    torch.testing.assert_close(slope, (torch.func.grad(loss, 1)(weights, x[0]) * tangent).sum())
    with FlopCounterMode(display=False) as counter:
        net(x[0])
    assert counter.get_total_flops() == 4 * 8 * 2 * 9 * (2 + 3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("batch", [1, 8])
def test_the_graph_of_a_layer_is_used_once(kind, batch):
    net, x = kind(2, 3), torch.randn(4, batch, 2)
    output, _ = net(x)
    output.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        output.sum().backward()
    output, _ = net(x)
    with torch.no_grad():
        net.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_networks_under_autocast_compute_in_its_dtype(kind):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, final = kind(2, 3)(torch.randn(4, 1, 2))
    assert output.dtype == hidden(final).dtype == torch.bfloat16


def test_states_of_cells_are_checked():
    with pytest.raises(RuntimeError, match=r"Expected 2D hidden0 \(batch x hidden_size\), but got 1D tensor"):
        nn.GRUCell(2, 3)(torch.ones(1, 2), torch.ones(3))
    with pytest.raises(TypeError, match=r"lstm_cell\(\): argument 'hx' \(position 2\) must be tuple of Tensors"):
        nn.LSTMCell(2, 3)(torch.ones(1, 2), torch.ones(1, 3))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`:FutureWarning")
def test_a_recurrent_network_runs_with_the_weight_that_stands_in_place_of_a_parameter():
    torch.manual_seed(0)
    net, x = nn.LSTM(2, 3), torch.randn(5, 1, 2)
    before = net(x)[0]
    normed = nn.utils.weight_norm(net, "weight_hh_l0")
    assert torch.allclose(normed(x)[0], before, atol=1e-6)
    normed.weight_hh_l0_g.data.mul_(2)
    after = normed(x)[0]
    assert not torch.allclose(after, before, atol=1e-3)
    after.sum().backward()
    assert normed.weight_hh_l0_v.grad is not None and normed.weight_hh_l0_g.grad.abs().sum() > 0
    assert sum(isinstance(w, nn.Parameter) for w in normed._flat_weights) == 3


def test_a_recurrent_network_lists_its_weights():
    net = nn.LSTM(2, 4, num_layers=2, bias=False, bidirectional=True, proj_size=3)
    names = ["weight_ih_l0", "weight_hh_l0", "weight_hr_l0", "weight_ih_l0_reverse"]
    assert net._flat_weights_names[:4] == names and len(net._flat_weights) == 12
    assert net._flat_weights[3] is net.weight_ih_l0_reverse is net.all_weights[1][0]
    weights = [nn.Parameter(torch.zeros_like(w)) for w in net._flat_weights]
    net._flat_weights = weights
    assert net.weight_ih_l0 is weights[0] and all(a is b for a, b in zip(net.parameters(), weights, strict=True))
    with pytest.raises(ValueError, match="shorter|longer"):
        net._flat_weights = weights[:3]
