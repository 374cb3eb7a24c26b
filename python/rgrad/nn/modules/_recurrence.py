"""The computations of recurrent networks: one step of each kind of cell, and loops over sequences.

A state is a tuple of tensors of shape ``(batch, size)`` whose first is the output: ``(h,)``, or ``(h, c)`` for an LSTM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rgrad
from rgrad import _C
from rgrad.nn import _core

Tensor = _C.Tensor
State = tuple[Tensor, ...]

_linear = _core.linear
_lstm_layer = _core.lstm_layer
_gru_layer = _core.gru_layer


def tanh_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """One step of the plain network with tanh."""
    return ((gates + _linear(state[0], weight, bias)).tanh(),)


def relu_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """One step of the plain network with ReLU."""
    return ((gates + _linear(state[0], weight, bias)).relu(),)


def lstm_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """One step of an LSTM: gates for input, forgetting, candidate and output, in this order."""
    h, c = state
    enter, forget, candidate, leave = (gates + _linear(h, weight, bias)).chunk(4, -1)
    c = forget.sigmoid() * c + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * c.tanh(), c


def gru_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """One step of a GRU: gates for resetting and updating, and the candidate, in this order."""
    (h,) = state
    reset_x, update_x, new_x = gates.chunk(3, -1)
    reset_h, update_h, new_h = _linear(h, weight, bias).chunk(3, -1)
    new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
    return (new + (update_x + update_h).sigmoid() * (h - new),)


STEPS: dict[str, tuple[int, Callable[..., State]]] = {
    "RNN_TANH": (1, tanh_step),
    "RNN_RELU": (1, relu_step),
    "LSTM": (4, lstm_step),
    "GRU": (3, gru_step),
}


# Note [Batches that shrink]
#
# Packed sequences are stored step by step, longest sequence first, so a step has one row for each sequence that is
# long enough to reach it. In the forward direction, the rows of a state that the next step lacks are final and are
# set aside. In the backward direction, the sequences whose last element is at a step join with their initial state.
# If all sequences have the same length, the number of rows stays constant.
def run_steps(
    mode: str,
    sizes: Sequence[int],
    data: Tensor,
    state: State,
    weights: Sequence[Tensor | None],
    backward: bool,
) -> tuple[Tensor, State]:
    """Runs one layer in one direction, step by step.

    Args:
        mode: a key of `STEPS`.
        sizes: how many rows each step has; see Note [Batches that shrink].
        data: the input of all steps, of shape ``(rows, features)``.
        state: the initial state of every sequence.
        weights: ``weight_ih, weight_hh, bias_ih, bias_hh, weight_hr``, None where absent.
        backward: whether to go from the last step to the first.

    Returns:
        The outputs in the layout of `data`, and the state of each sequence after its last step.
    """
    weight_ih, weight_hh, bias_ih, bias_hh, weight_hr = weights
    _, step = STEPS[mode]
    # The input's share of all gates does not depend on the state, so it is computed for all steps at once.
    gates = _linear(data, weight_ih, bias_ih).split(list(sizes))
    outputs: list[Tensor] = []
    finished: list[State] = []
    current = tuple(s[: sizes[-1]] for s in state) if backward else state
    for t in reversed(range(len(sizes))) if backward else range(len(sizes)):
        rows, here = sizes[t], current[0].size(0)
        if rows < here:
            finished.append(tuple(s[rows:] for s in current))
            current = tuple(s[:rows] for s in current)
        elif rows > here:
            current = tuple(rgrad.cat([s, first[here:rows]]) for s, first in zip(current, state, strict=True))
        current = step(gates[t], current, weight_hh, bias_hh)
        if weight_hr is not None:
            current = (_linear(current[0], weight_hr), *current[1:])
        outputs.append(current[0])
    if finished:
        current = tuple(rgrad.cat(parts) for parts in zip(current, *reversed(finished), strict=True))
    return rgrad.cat(outputs[::-1] if backward else outputs), current


def run_lstm(data: Tensor, state: State, weights: Sequence[Tensor | None], backward: bool) -> tuple[Tensor, State]:
    """Runs one layer of an LSTM over sequences of one length, in one operation of the core.

    Args:
        data: shape ``(steps, batch, features)``.
        state: the initial state.
        weights: as `run_steps` takes them, without ``weight_hr``.
        backward: whether to go from the last step to the first.

    Returns:
        The outputs, ``(steps, batch, size)``, and the final state.
    """
    outputs, cell = _lstm_layer(data.flip(0) if backward else data, *state, *weights[:4])
    return outputs.flip(0) if backward else outputs, (outputs[-1], cell)


def run_gru(data: Tensor, state: State, weights: Sequence[Tensor | None], backward: bool) -> tuple[Tensor, State]:
    """As `run_lstm`, for one layer of a GRU."""
    outputs = _gru_layer(data.flip(0) if backward else data, *state, *weights[:4])
    return outputs.flip(0) if backward else outputs, (outputs[-1],)


def run_layers(
    run: Callable[[Tensor, State, Sequence[Tensor | None], bool], tuple[Tensor, State]],
    data: Tensor,
    state: State,
    weights: Sequence[Sequence[Tensor | None]],
    directions: int,
    between: Callable[[Tensor], Tensor],
) -> tuple[Tensor, State]:
    """Runs all layers.

    Args:
        run: runs one layer in one direction.
        data: the input; its last dimension is the features.
        state: tensors of shape ``(layers * directions, batch, size)``.
        weights: the weights of every layer and direction.
        directions: 1 or 2.
        between: applied to the output of each layer but the last.

    Returns:
        The output of the last layer, and the final states, shaped as `state`.
    """
    finals: list[State] = []
    for first in range(0, len(weights), directions):
        outputs = []
        for d in range(directions):
            initial = tuple(s[first + d] for s in state)
            output, final = run(data, initial, weights[first + d], d == 1)
            outputs.append(output)
            finals.append(final)
        data = outputs[0] if directions == 1 else rgrad.cat(outputs, -1)
        if first + directions < len(weights):
            data = between(data)
    return data, tuple(rgrad.stack(parts) for parts in zip(*finals, strict=True))
