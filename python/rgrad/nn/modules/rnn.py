"""Recurrent networks and their cells."""

from __future__ import annotations

import functools
import math
import numbers
import warnings
from typing import Any

import rgrad
from rgrad import _C

from .. import functional as F
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from . import _recurrence
from ._recurrence import STEPS, State
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

Tensor = _C.Tensor

_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")


class RNNBase(Module):
    """Base class of `RNN`, `LSTM` and `GRU`: parameters, checks, and the loop over the layers.

    Args:
        mode: ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: number of stacked layers.
        bias: whether to add learned biases.
        batch_first: whether input and output are ``(N, L, features)`` rather than ``(L, N, features)``.
        dropout: probability of dropout between layers.
        bidirectional: whether a second network processes each sequence in reverse.
        proj_size: features to which an LSTM's output is mapped; 0 for no mapping.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_dropout(dropout, num_layers)
        _check_flags(bias=bias, batch_first=batch_first)
        _check_sizes(input_size=input_size, hidden_size=hidden_size)
        _check_counts(num_layers, proj_size, hidden_size)
        if mode not in STEPS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        gates, _ = STEPS[mode]
        output_size = proj_size or hidden_size
        for (layer, suffix), names in zip(self._places(), self._all_weights, strict=True):
            features = input_size if layer == 0 else output_size * self._directions
            shapes: list[tuple[int, ...]] = [
                (gates * hidden_size, features),
                (gates * hidden_size, output_size),
                (gates * hidden_size,),
                (gates * hidden_size,),
                (proj_size, hidden_size),
            ]
            for part, shape in zip(_PARTS, shapes, strict=True):
                if (name := f"{part}_l{layer}{suffix}") in names:
                    self.register_parameter(name, Parameter(rgrad.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _places(self) -> list[tuple[int, str]]:
        """The layer number and the suffix of the parameter names, for every layer and direction."""
        suffixes = ("", "_reverse")[: self._directions]
        return [(layer, suffix) for layer in range(self.num_layers) for suffix in suffixes]

    @property
    def _all_weights(self) -> list[list[str]]:
        """The names of the weights and biases of every layer and direction."""
        absent = ("" if self.bias else "bias", "" if self.proj_size else "weight_hr")
        parts = [part for part in _PARTS if not any(kind and part.startswith(kind) for kind in absent)]
        return [[f"{part}_l{layer}{suffix}" for part in parts] for layer, suffix in self._places()]

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights and biases of every layer and direction: parameters, or what a program has put in their place."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Tensor]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    def flatten_parameters(self) -> None:
        """Does nothing: no kernel requires the parameters in one block of memory."""

    def reset_parameters(self) -> None:
        """Draws new initial values, from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _zero_state(self, batch: int, like: Tensor) -> State:
        """The initial state of a batch."""
        places = self.num_layers * self._directions
        sizes = [self.proj_size or self.hidden_size] + [self.hidden_size] * (self.mode == "LSTM")
        return tuple(rgrad.zeros((places, batch, size), dtype=like.dtype, device=like.device) for size in sizes)

    def _check_input(self, input: Tensor, packed: bool) -> None:
        dtype = self.weight_ih_l0.dtype
        if input.dtype != dtype and not _C._get_autocast(input.device.type)[0]:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        if input.dim() != (2 if packed else 3):
            raise RuntimeError(f"input must have {2 if packed else 3} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _check_state(self, state: State, batch: int) -> None:
        places = self.num_layers * self._directions
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        for i, (s, size) in enumerate(zip(state, sizes, strict=False)):
            expected = (places, batch, size)
            if tuple(s.shape) != expected:
                which = f"hidden[{i}]" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(f"Expected {which} size {expected}, got {list(s.shape)}")

    def _check_state_dims(self, state: State, batched: bool) -> None:
        dim, kind = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if all(s.dim() == dim for s in state):
            return
        if self.mode == "LSTM":
            got = ", ".join(f"{s.dim()}-D" for s in state)
            raise RuntimeError(f"For {kind} input, hx and cx should also be {dim}-D but got ({got}) tensors")
        raise RuntimeError(f"For {kind} input, hx should also be {dim}-D but got {state[0].dim()}-D tensor")

    def _run(self, run: Any, data: Tensor, state: State) -> tuple[Tensor, State]:
        # Attributes: normalization and pruning compute a weight anew and keep it as one that is no parameter.
        weights = [
            [getattr(self, f"{part}_l{layer}{suffix}", None) for part in _PARTS] for layer, suffix in self._places()
        ]
        autocast, dtype = _C._get_autocast(data.device.type)
        if autocast:
            data, state = data.to(dtype), tuple(s.to(dtype) for s in state)
            weights = [[None if w is None else w.to(dtype) for w in layer] for layer in weights]

        def between(output: Tensor) -> Tensor:
            return F.dropout(output, self.dropout, self.training) if self.dropout else output

        return _recurrence.run_layers(run, data, state, weights, self._directions, between)

    def _run_dense(self, data: Tensor, state: State) -> tuple[Tensor, State]:
        """Processes sequences of equal length, data of shape ``(L, N, features)``."""
        one_dtype = all(s.dtype == data.dtype for s in state) or _C._get_autocast(data.device.type)[0]
        # As in PyTorch, a GRU is the operations of its steps to those who see operations.
        seen = bool(_C._torch_dispatch_stack()) or getattr(type(data), "_dispatches", False)
        if self.mode == "LSTM" and not self.proj_size and one_dtype:
            return self._run(_recurrence.run_lstm, data, state)
        if self.mode == "GRU" and one_dtype and not seen:
            return self._run(_recurrence.run_gru, data, state)
        sizes = [data.size(1)] * data.size(0)
        run = functools.partial(_recurrence.run_steps, self.mode, sizes)
        output, final = self._run(run, data.flatten(0, 1), state)
        return output.unflatten(0, (len(sizes), -1)), final

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Runs the network.

        Args:
            input: shape ``(L, N, input_size)``, or with N first, or without N, or a `PackedSequence`.
            hx: the initial state, zeros by default.

        Returns:
            The outputs of the last layer, in the format of the input, and the final state.
        """
        state = None if hx is None else tuple(hx) if self.mode == "LSTM" else (hx,)
        output, final = self._packed(input, state) if isinstance(input, PackedSequence) else self._dense(input, state)
        return output, (final if self.mode == "LSTM" else final[0])

    def _packed(self, input: PackedSequence, state: State | None) -> tuple[PackedSequence, State]:
        data, batch_sizes, order, order_back = input
        sizes = [int(n) for n in batch_sizes.tolist()]
        self._check_input(data, packed=True)
        if state is None:
            state = self._zero_state(sizes[0], data)
        elif order is not None:
            state = tuple(s.index_select(1, order) for s in state)
        self._check_state(state, sizes[0])
        output, final = self._run(functools.partial(_recurrence.run_steps, self.mode, sizes), data, state)
        if order_back is not None:
            final = tuple(s.index_select(1, order_back) for s in final)
        return PackedSequence(output, batch_sizes, order, order_back), final

    def _dense(self, input: Tensor, state: State | None) -> tuple[Tensor, State]:
        if input.dim() not in (2, 3):
            kind = type(self).__name__ if self.mode in ("LSTM", "GRU") else "RNN"
            end = "" if self.mode in ("LSTM", "GRU") else " tensor"
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D{end} instead")
        batched = input.dim() == 3
        time, batch = (1, 0) if self.batch_first else (0, 1)
        if state is not None:
            self._check_state_dims(state, batched)
        if not batched:
            input = input.unsqueeze(batch)
            state = None if state is None else tuple(s.unsqueeze(1) for s in state)
        if state is None:
            state = self._zero_state(input.size(batch), input)
        self._check_input(input, packed=False)
        self._check_state(state, input.size(batch))
        if input.size(time) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        output, final = self._run_dense(input.transpose(0, 1) if time else input, state)
        output = output.transpose(0, 1) if time else output
        if batched:
            return output, final
        return output.squeeze(batch), tuple(s.squeeze(1) for s in final)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        return text + "".join(f", {k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v)


def _check_dropout(dropout: Any, num_layers: int) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= float(dropout) <= 1:  # type: ignore[arg-type]
        raise ValueError(
            f"dropout should be a number in range [0, 1]: the probability that an element is zeroed. Got {dropout!r}"
        )
    if float(dropout) > 0 and num_layers == 1:  # type: ignore[arg-type]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, and here the last is the only one: "
            f"dropout={dropout}, num_layers={num_layers}",
            stacklevel=4,
        )


def _expect(kind: type, name: str, value: Any) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def _check_flags(**flags: Any) -> None:
    for name, flag in flags.items():
        _expect(bool, name, flag)


def _check_sizes(**sizes: Any) -> None:
    for name, size in sizes.items():
        _expect(int, name, size)
        _expect_positive(name, size)


def _check_counts(num_layers: int, proj_size: int, hidden_size: int) -> None:
    _expect_positive("num_layers", num_layers)
    if not 0 <= proj_size < hidden_size:
        raise ValueError(
            "proj_size should be a positive integer or zero to disable projections"
            if proj_size < 0
            else "proj_size has to be smaller than hidden_size"
        )


def _expect_positive(name: str, size: int) -> None:
    if size <= 0:
        raise ValueError(f"{name} must be greater than zero")


class RNN(RNNBase):
    """The plain recurrent network: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    The arguments are those of :class:`RNNBase` without `mode` and `proj_size`, and:

    Args:
        nonlinearity: ``"tanh"`` or ``"relu"``, by name or as the fourth argument.

    Shape:
        Input: ``(L, N, input_size)``, with N first under ``batch_first``, or without N. Output: the same with
        ``directions * hidden_size`` features, and the final state ``(layers * directions, N, hidden_size)``.

    Example:
        >>> output, h = rgrad.nn.RNN(10, 20, 2)(rgrad.zeros(5, 3, 10))
        >>> output.shape, h.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory. The arguments are those of :class:`RNNBase` without `mode`.

    Shape:
        Input: ``(L, N, input_size)``, with N first under ``batch_first``, or without N. Output: the same with
        ``directions * hidden_size`` features, and the final states ``h`` and ``c``, each
        ``(layers * directions, N, hidden_size)``.

    Example:
        >>> output, (h, c) = rgrad.nn.LSTM(10, 20, 2)(rgrad.zeros(5, 3, 10))
        >>> output.shape, c.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units. The arguments are those of :class:`RNNBase` without `mode` and `proj_size`.

    Shape:
        As :class:`RNN`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """Base class of the cells: parameters and one step.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether to add learned biases.
        num_chunks: number of gates.
    """

    nonlinearity = "tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(rgrad.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(rgrad.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            values = Parameter(rgrad.empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, mode: str, input: Tensor, state: State | None) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, s in enumerate(state or ()):
            if s.dim() not in (1, 2):
                which = f"hx[{i}]" if mode == "LSTM" else "hidden"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {s.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            state = None if state is None else tuple(s.unsqueeze(0) for s in state)
        if state is None:
            zeros = rgrad.zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
            state = (zeros,) * (2 if mode == "LSTM" else 1)
        self._check_sizes(input, state)
        gates = F.linear(input, self.weight_ih, self.bias_ih)
        final = STEPS[mode][1](gates, state, self.weight_hh, self.bias_hh)
        return final if batched else tuple(s.squeeze(0) for s in final)

    def _check_sizes(self, input: Tensor, state: State) -> None:
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}")
        for i, s in enumerate(state):
            if s.dim() != 2:
                raise RuntimeError(f"Expected 2D hidden{i} (batch x hidden_size), but got {s.dim()}D tensor")
            if s.size(0) != input.size(0):
                raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{i} batch size {s.size(0)}")
            if s.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{i} has inconsistent hidden_size: got {s.size(1)}, expected {self.hidden_size}"
                )

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.nonlinearity != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`.

    Shape:
        Input: ``(N, input_size)`` or ``(input_size,)``. Result: the state, ``(N, hidden_size)`` or without N.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`; the state is the pair ``(h, c)``.

    Shape:
        Input: ``(N, input_size)`` or ``(input_size,)``. Result: h and c, each ``(N, hidden_size)`` or without N.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> State:
        if isinstance(hx, Tensor):
            raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
        return self._step("LSTM", input, None if hx is None else tuple(hx))


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`.

    Shape:
        As :class:`RNNCell`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,))[0]
