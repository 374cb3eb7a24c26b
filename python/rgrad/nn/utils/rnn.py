"""Sequences of different lengths in one tensor: padded, or packed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import rgrad
from rgrad import _C

Tensor = _C.Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """A batch of sequences, longest first, stored step by step: step 0 of all, step 1 of those that have one, …

    Made by :func:`pack_sequence` and :func:`pack_padded_sequence`, taken by the recurrent modules.

    Attributes:
        data: the elements, shape ``(sum of lengths, *)``.
        batch_sizes: number of sequences that have each step; on the CPU.
        sorted_indices: the order that put the longest first, or None.
        unsorted_indices: the order that undoes it, or None.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU, where pack_sequence and pack_padded_sequence, which make a "
                "PackedSequence, put them."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)  # type: ignore[call-arg]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves or casts the data, and moves the indices; returns the object itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Moves the data to the accelerator."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def cpu(self) -> Self:
        """Moves the data to the CPU."""
        return self.to("cpu")

    def double(self) -> Self:
        """Casts the data to float64."""
        return self.to(rgrad.float64)

    def float(self) -> Self:
        """Casts the data to float32."""
        return self.to(rgrad.float32)

    def half(self) -> Self:
        """Casts the data to float16."""
        return self.to(rgrad.float16)

    def long(self) -> Self:
        """Casts the data to int64."""
        return self.to(rgrad.int64)

    def int(self) -> Self:
        """Casts the data to int32."""
        return self.to(rgrad.int32)

    def short(self) -> Self:
        """Casts the data to int16."""
        return self.to(rgrad.int16)

    def char(self) -> Self:
        """Casts the data to int8."""
        return self.to(rgrad.int8)

    def byte(self) -> Self:
        """Casts the data to uint8."""
        return self.to(rgrad.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data are in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    if permutation is None:
        return None
    places = rgrad.arange(permutation.numel(), device=permutation.device)
    return rgrad.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a batch of padded sequences.

    Args:
        input: shape ``(T, B, *)``, or ``(B, T, *)`` with ``batch_first``.
        lengths: the length of each sequence.
        batch_first: which dimension is the batch.
        enforce_sorted: require sequences sorted by decreasing length, rather than sorting them.

    >>> import rgrad as torch
    >>> packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """
    lengths = rgrad.as_tensor(lengths, dtype=rgrad.int64)
    if lengths.device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor")
    order = None
    batch_dim = 0 if batch_first else 1
    if not enforce_sorted:
        lengths, order = rgrad.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(batch_dim, order)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps = input.transpose(0, 1) if batch_first else input
    sizes = [int(n) for n in lengths.tolist()]
    if len(sizes) != steps.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={steps.size(1)})"
        )
    if any(longer < shorter for longer, shorter in zip(sizes, sizes[1:], strict=False)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if sizes[0] > steps.size(0):
        raise RuntimeError(
            f"Expected sequence length to be larger than or equal to the largest length, "
            f"got {steps.size(0)} and {sizes[0]}"
        )
    counts = [sum(n > t for n in sizes) for t in range(sizes[0])]
    data = rgrad.cat([steps[t, :count] for t, count in enumerate(counts)])
    return PackedSequence(data, rgrad.tensor(counts), order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undoes :func:`pack_padded_sequence`.

    Args:
        sequence: the packed batch.
        batch_first: which dimension of the result is the batch.
        padding_value: the value after the end of a sequence.
        total_length: length of the result, at least that of the longest sequence.

    Returns:
        The padded batch and the lengths.
    """
    counts = [int(n) for n in sequence.batch_sizes.tolist()]
    length = len(counts)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, which is "
                f"{length}, but got total_length={total_length}"
            )
        length = total_length
    lengths = rgrad.tensor([sum(n > b for n in counts) for b in range(counts[0])])
    padded = sequence.data.new_full((length, counts[0], *sequence.data.shape[1:]), padding_value)
    steps = rgrad.arange(length).unsqueeze(1)
    # Mask and packed data have the same order: by step, and within a step by sequence.
    padded = padded.masked_scatter(_trailing(steps < lengths, padded.dim()).to(padded.device), sequence.data)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is None:
        return padded, lengths
    order = sequence.unsorted_indices
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def _trailing(mask: Tensor, dim: int) -> Tensor:
    """Appends dimensions of size 1 to the mask, so that it broadcasts to `dim` dimensions."""
    return mask.view((*mask.shape, *(1 for _ in range(dim - mask.dim()))))


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks sequences of different lengths and pads the shorter ones.

    Args:
        sequences: tensors of shape ``(L, *)``.
        batch_first: whether the result is ``(B, T, *)`` rather than ``(T, B, *)``.
        padding_value: the value of the padding.
        padding_side: ``"right"`` or ``"left"``.

    >>> import rgrad as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s.size(0) for s in sequences)
    padded = []
    for s in sequences:
        missing = longest - s.size(0)
        if missing:
            filling = s.new_full((missing, *s.shape[1:]), padding_value)
            s = rgrad.cat([s, filling] if padding_side == "right" else [filling, s])
        padded.append(s)
    return rgrad.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Undoes :func:`pad_sequence`."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[: int(n)] for s, n in zip(padded_sequences, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of different lengths."""
    lengths = rgrad.tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undoes :func:`pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
