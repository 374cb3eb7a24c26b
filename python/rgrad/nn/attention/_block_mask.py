"""Masks of attention by blocks, and the functions that define them.

Note [Masks as functions]
~~~~~~~~~~~~~~~~~~~~~~~~~
A function of a mask takes the indices of batch, head, query and key, and returns whether the query sees the key. It is
called once with int64 tensors of shapes ``(B, 1, 1, 1)``, ``(1, H, 1, 1)``, ``(1, 1, Q, 1)`` and ``(1, 1, 1, K)``, so
that arithmetic, comparisons, and indexing of captured tensors compute all elements by broadcasting.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

Tensor = _C.Tensor
MaskMod = Callable[..., Tensor]

DEFAULT_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that hides nothing.

    Args:
        batch: index of the sample.
        head: index of the head.
        token_q: index of the query.
        token_kv: index of the key.
    """
    return batch.new_ones((), dtype=rgrad.bool)


def _check_callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask of what all the given masks show.

    Args:
        *mask_mods: functions of batch, head, query and key; see Note [Masks as functions].

    Returns:
        Such a function.

    Raises:
        RuntimeError: an argument cannot be called.
    """
    _check_callable(mask_mods)

    def intersection(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        seen = b.new_ones((), dtype=rgrad.bool)
        for mod in mask_mods:
            seen = seen & mod(b, h, q, kv)
        return seen

    return intersection


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask of what any of the given masks shows.

    Args:
        *mask_mods: functions of batch, head, query and key; see Note [Masks as functions].

    Returns:
        Such a function.

    Raises:
        RuntimeError: an argument cannot be called.
    """
    _check_callable(mask_mods)

    def union(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        seen = b.new_zeros((), dtype=rgrad.bool)
        for mod in mask_mods:
            seen = seen | mod(b, h, q, kv)
        return seen

    return union


def indices(shape: tuple[int, ...], device: Any) -> list[Tensor]:
    """The indices of each dimension, shaped for broadcasting; see Note [Masks as functions]."""
    result = []
    for dim, size in enumerate(shape):
        view = [1] * len(shape)
        view[dim] = size
        result.append(rgrad.arange(size, device=device).view(view))
    return result


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """Evaluates a mask, or scores of zeros.

    Args:
        mod_fn: a function of batch, head, query and key, or of those after a score.
        B: number of samples; None for 1.
        H: number of heads; None for 1.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: of the result.

    Returns:
        A tensor ``(B, H, Q_LEN, KV_LEN)`` of bools: the mask, or whether the score is not minus infinity.

    >>> from rgrad.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    parameters = inspect.signature(mod_fn).parameters.values()
    taken = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if taken not in (4, 5) and not starred:
        raise AssertionError(f"Expected 4 or 5 positional args, got {taken}")
    if taken == 5:
        zeros = rgrad.zeros(shape, device=device)
        return (mod_fn(zeros, *indices(shape, device)) != float("-inf")).expand(shape)
    return rgrad.as_tensor(mod_fn(*indices(shape, device)), device=device).to(rgrad.bool).expand(shape).clone()


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Of blocks marked in rows: how many each row has, and which ones, followed by the others."""
    order = blocks.to(rgrad.int8).argsort(-1, descending=True, stable=True)
    return blocks.sum(-1).to(rgrad.int32), order.to(rgrad.int32)


def _marked(counts: Tensor, order: Tensor, columns: int) -> Tensor:
    """The inverse of :func:`_listed`."""
    listed = rgrad.arange(order.size(-1), device=order.device) < counts.unsqueeze(-1)
    marks = rgrad.zeros((*order.shape[:-1], columns), dtype=rgrad.bool, device=order.device)
    return marks.scatter(-1, order.long(), listed)


def _sliced_mask_mod(*indices: Any) -> Tensor:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. Indices of a slice begin at another query: set mask_mod to a "
        "function that adds the offset and calls the mask_mod of the whole mask."
    )


class BlockMask:
    """A mask of attention, with lists of the blocks of which something is seen.

    Partial blocks are those where `mask_mod` decides; of full blocks everything is seen.

    Args:
        seq_lengths: numbers of queries and of keys.
        kv_num_blocks: how many partial blocks a row of blocks has, int32 ``(B, H, rows)``.
        kv_indices: their columns, followed by the others, int32 ``(B, H, rows, columns)``.
        full_kv_num_blocks: like `kv_num_blocks`, of full blocks; None if these are among the partial ones.
        full_kv_indices: like `kv_indices`, of full blocks.
        q_num_blocks: how many partial blocks a column of blocks has, ``(B, H, columns)``.
        q_indices: their rows.
        full_q_num_blocks: like `q_num_blocks`, of full blocks.
        full_q_indices: like `q_indices`, of full blocks.
        BLOCK_SIZE: numbers of queries and of keys of a block.
        mask_mod: the mask as a function; see Note [Masks as functions].
    """

    _TENSORS = (
        *("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices"),
        *("full_q_num_blocks", "full_q_indices"),
    )

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        if (full_q_num_blocks is None) != (full_q_indices is None):
            raise AssertionError("full_q_num_blocks and full_q_indices must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def _of_blocks(
        cls, partial: Tensor, full: Tensor | None, lengths: tuple[int, int], size: tuple[int, int], mod: MaskMod
    ) -> BlockMask:
        """The mask whose blocks are marked in tensors of bools ``(B, H, rows, columns)``."""
        nothing = (None, None)
        return cls(
            lengths,
            *_listed(partial),
            *(nothing if full is None else _listed(full)),
            *_listed(partial.transpose(-2, -1)),
            *(nothing if full is None else _listed(full.transpose(-2, -1))),
            BLOCK_SIZE=size,
            mask_mod=mod,
        )

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Makes a mask of the lists of blocks of each row; the arguments are those of the class.

        Args:
            kv_num_blocks: how many partial blocks a row of blocks has.
            kv_indices: their columns.
            full_kv_num_blocks: how many full blocks a row of blocks has.
            full_kv_indices: their columns.
            BLOCK_SIZE: size of a block, one number or those of queries and keys.
            mask_mod: decides in partial blocks; shows everything if None.
            seq_lengths: numbers of queries and keys; by default those of whole blocks.
            compute_q_blocks: whether to list the blocks of each column too.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        lengths = seq_lengths or (rows * size[0], columns * size[1])
        by_column: list[Tensor | None] = [None] * 4
        if compute_q_blocks:
            by_column[:2] = _listed(_marked(kv_num_blocks, kv_indices, columns).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                by_column[2:] = _listed(_marked(full_kv_num_blocks, full_kv_indices, columns).transpose(-2, -1))
        return cls(
            lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *by_column,
            BLOCK_SIZE=size,
            mask_mod=mask_mod or noop_mask,
        )

    def _blocks(self) -> tuple[Tensor, Tensor | None]:
        """The partial and the full blocks, as tensors of bools ``(B, H, rows, columns)``."""
        columns = self.kv_indices.size(-1)
        partial = _marked(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return partial, None
        return partial, _marked(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The lengths, the lists, the block size and the function.

        Args:
            flatten: whether the two lengths and the two sizes are items of their own.
        """
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *(getattr(self, name) for name in self._TENSORS), *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples, heads, queries, keys."""
        return (*self.kv_num_blocks.shape[:-1], *self.seq_lengths)

    def numel(self) -> int:
        """The number of elements of the mask, without broadcasting over samples and heads."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    def to_dense(self) -> Tensor:
        """int32 ``(B, H, rows, columns)``: 1 for every block of which something is seen."""
        partial, full = self._blocks()
        return (partial if full is None else partial | full).to(rgrad.int32)

    def sparsity(self) -> float:
        """The share of blocks of which nothing is seen, in percent."""
        blocks = self.to_dense()
        return 100.0 * (1.0 - blocks.sum().item() / blocks.numel())

    def to(self, device: Any) -> BlockMask:
        """The mask with its lists on a device.

        Args:
            device: the device.
        """
        moved = [None if t is None else t.to(device) for t in (getattr(self, name) for name in self._TENSORS)]
        return BlockMask(self.seq_lengths, *moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some samples, heads and rows of blocks; dimensions are kept."""
        given = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in given)
        rows = self.kv_indices.size(-2)
        lists: list[Tensor | None] = []
        for name in self._TENSORS[:4]:
            tensor = getattr(self, name)
            lists.append(None if tensor is None else tensor[kept])
        assert lists[0] is not None and lists[1] is not None
        left = lists[1].size(-2)
        queries = self.seq_lengths[0] if left == rows else left * self.BLOCK_SIZE[0]
        return BlockMask.from_kv_blocks(
            *lists,  # type: ignore[arg-type]
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=_sliced_mask_mod,
            seq_lengths=(queries, self.seq_lengths[1]),
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys, or with more of them than blocks are known for."""
        rows, columns = (-(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True))

        def cropped(blocks: Tensor) -> Tensor:
            bigger = blocks.new_zeros((*blocks.shape[:-2], max(rows, blocks.size(-2)), max(columns, blocks.size(-1))))
            bigger[..., : blocks.size(-2), : blocks.size(-1)] = blocks
            return bigger[..., :rows, :columns]

        partial, full = self._blocks()
        full = None if full is None else cropped(full)
        return self._of_blocks(cropped(partial), full, (new_q_len, new_kv_len), self.BLOCK_SIZE, self.mask_mod)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture: a full cell sees all of its blocks, a shaded one some of them.

        Args:
            grid_size: rows and columns of cells at most; -1 for one cell per block.
            limit: how many samples and heads are drawn at most.
        """
        blocks = self.to_dense().to(rgrad.float32)
        sizes = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        rows, columns = (n if g < 0 else min(g, n) for g, n in zip(sizes, blocks.shape[-2:], strict=True))
        pictures = []
        planes = blocks.reshape(-1, *blocks.shape[-2:])
        heads = blocks.size(1) if blocks.dim() > 3 else 1
        cells = rgrad.nn.functional.adaptive_avg_pool2d(planes[:limit], (rows, columns)).tolist()
        for number, plane in enumerate(cells):
            lines = ["".join("██" if c == 1 else "░░" if c > 0 else "  " for c in row) for row in plane]
            pictures.append("\n".join([f"({number // heads}, {number % heads})", *lines]))
        if planes.size(0) > limit:
            pictures.append("...")
        return "\n".join(pictures)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"

    def __repr__(self) -> str:
        lines = []
        for name in self._TENSORS:
            tensor = getattr(self, name)
            lines.append(f"{name}={None if tensor is None else tensor.shape}")
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n" + "".join(f"    {line},\n" for line in lines[:-1]) + f"    {lines[-1]}\n)"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Finds the blocks of which a mask shows something.

    Args:
        mask_mod: the mask as a function of batch, head, query and key; see Note [Masks as functions].
        B: number of samples; None if the mask is the same for all.
        H: number of heads; None if the mask is the same for all.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: on which the mask is evaluated and the lists are.
        BLOCK_SIZE: size of a block, one number or those of queries and keys.
        _compile: accepted, without effect.
        separate_full_blocks: whether full blocks are listed apart.
        compute_dq_write_order: accepted, without effect.
        dq_kv_order: accepted, without effect.

    Returns:
        The mask with its lists.

    >>> from rgrad.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256).sparsity()
    25.0
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padding = (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN)
    whole = rgrad.nn.functional.pad(mask.to(rgrad.int32), padding)
    counts = whole.view(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = counts == size[0] * size[1]
    seen = counts > 0
    partial, apart = (seen & ~full, full) if separate_full_blocks else (seen, None)
    return BlockMask._of_blocks(partial, apart, (Q_LEN, KV_LEN), (size[0], size[1]), mask_mod)
