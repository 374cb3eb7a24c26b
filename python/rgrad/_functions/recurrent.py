"""Recurrent networks as functions of their weights: `rgrad.nn.LSTM` and its kin are the modules."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad.nn import functional as F
from rgrad.nn.modules._recurrence import STEPS, State, run_layers, run_lstm, run_steps

Tensor = _C.Tensor


def _grouped(params: Sequence[Tensor], has_biases: bool, projected: bool) -> list[list[Tensor | None]]:
    """The weights of each layer and direction, as `run_steps` takes them."""
    size = (4 if has_biases else 2) + projected
    made = list[list[Tensor | None]]()
    for start in range(0, len(params), size):
        part: list[Tensor | None] = list(params[start : start + size])
        projection = part.pop() if projected else None
        made.append([*part, *[None] * (4 - len(part)), projection])
    return made


def _run(
    mode: str,
    data: Tensor,
    sizes: Tensor | None,
    state: State,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, State]:
    directions = 2 if bidirectional else 1
    projected = mode == "LSTM" and state[0].size(-1) != state[1].size(-1)
    weights = _grouped(params, has_biases, projected)
    if len(weights) != num_layers * directions:
        raise RuntimeError(
            f"{mode}: {len(params)} weights are not those of {num_layers} layers with {directions} directions"
        )

    def between(output: Tensor) -> Tensor:
        return F.dropout(output, dropout, train) if dropout else output

    if sizes is not None:
        run = functools.partial(run_steps, mode, sizes.tolist())
        return run_layers(run, data, state, weights, directions, between)
    data = data.transpose(0, 1) if batch_first else data
    if mode == "LSTM" and not projected:
        output, final = run_layers(run_lstm, data, state, weights, directions, between)
    else:
        steps = [data.size(1)] * data.size(0)
        run = functools.partial(run_steps, mode, steps)
        output, final = run_layers(run, data.flatten(0, 1), state, weights, directions, between)
        output = output.unflatten(0, (len(steps), -1))
    return output.transpose(0, 1) if batch_first else output, final


def _call(mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Either form: with sequences of one length, or packed ones, whose second argument is the sizes of steps."""
    packed = "batch_sizes" in kwargs or (len(args) > 1 and isinstance(args[1], Tensor) and args[1].dtype == rgrad.int64)
    names = ("data", "batch_sizes", "hx") if packed else ("input", "hx")
    names = (*names, "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
    names = names if packed else (*names, "batch_first")
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(given) != set(names):
        raise TypeError(f"expected the arguments {', '.join(names)}, but got {', '.join(given)}")
    data, sizes, hx = given.pop("data" if packed else "input"), given.pop("batch_sizes", None), given.pop("hx")
    state = tuple(hx) if mode == "LSTM" else (hx,)
    output, final = _run(mode, data, sizes, state, given.pop("params"), **given)
    return output, *final


def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """An LSTM: output, hidden state and cell state.

    Args:
        input: (L, N, features); or in place of it ``data`` (rows, features) and ``batch_sizes`` of packed sequences.
        hx: hidden and cell state, (layers * directions, N, size) each.
        params: weights of each layer and direction: of the input, of the state, then biases and the projection if any.
        has_biases: whether there are biases.
        num_layers: how many layers.
        dropout: the probability of dropout between layers.
        train: whether dropout applies.
        bidirectional: whether there are two directions.
        batch_first: whether the input is (N, L, features); not for packed sequences.
    """
    return _call("LSTM", args, kwargs)


def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """A GRU: output and hidden state; see `lstm` for the arguments, of which hx is one tensor."""
    return _call("GRU", args, kwargs)


def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """A plain network with tanh: output and hidden state; see `lstm` for the arguments, of which hx is one tensor."""
    return _call("RNN_TANH", args, kwargs)


def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """A plain network with ReLU: output and hidden state; see `lstm` for the arguments, of which hx is one tensor."""
    return _call("RNN_RELU", args, kwargs)


def _cell(
    mode: str, input: Tensor, state: State, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> State:
    return STEPS[mode][1](F.linear(input, w_ih, b_ih), state, w_hh, b_hh)


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> State:
    """One step of an LSTM: hidden and cell state, (N, size) each; see `rgrad.nn.LSTMCell`."""
    return _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU, (N, size); see `rgrad.nn.GRUCell`."""
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a plain network with tanh, (N, size); see `rgrad.nn.RNNCell`."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a plain network with ReLU, (N, size); see `rgrad.nn.RNNCell`."""
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
