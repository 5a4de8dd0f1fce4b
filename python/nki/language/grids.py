"""Grids (NKI 0.7): a tensor divided into tiles, or into blocks of tiles.

A grid addresses a part of a tensor and moves nothing. `.data` is that part as the operand of an
instruction. A grid selects a range of elements along every dimension of its tensor. The tensor is
an ordinary one, or the memory of `alloc_tiles` on chip, where tiles are next to each other in their
partitions. The order of several rows of tiles in `.data` is not documented. Assumed: [partitions,
rows of tiles, tiles in a row, elements], on both sides of a copy.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..tracer import errors, releases
from ..tracer.layout import HBM
from ..tracer.tensor import Tensor
from .creation import ndarray
from .memory import region


def _sizes(call: str, operand: str, value, rank: int | None = None) -> tuple:
    fits = isinstance(value, tuple) and all(type(n) is int and n > 0 for n in value)
    if not fits or (rank is not None and len(value) != rank):
        number = "" if rank is None else f"{rank} "
        errors.fail(call, f"{operand}: expected a tuple of {number}positive integers, found {value!r}")
    return value


class _Region:
    """An ordinary tensor."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def view(self, first, count, kept, tile):
        """Returns the elements [first, first + count) along each dimension. Dimensions that are not
        kept are removed.
        """
        view = self.tensor[tuple(slice(f, f + n) for f, n in zip(first, count))]
        for axis in reversed([d for d, keep in enumerate(kept) if not keep]):
            view = view.squeeze_dim(axis)
        tiled = count[-len(tile) :]
        if tiled[0] <= tile[0]:
            return view
        if view.ndim > len(tile) or any(n % t for n, t in zip(tiled, tile)):
            return None
        for d in reversed(range(len(tile))):
            view = view.reshape_dim(d, (-1, tile[d]))
        outer = [2 * d for d in range(len(tile))]
        return view.permute((1, *outer, *(d + 1 for d in outer[1:])))


class _Packed:
    """Tiles next to each other on chip, in the order of their coordinates. alloc_tiles sets
    `tensor`.
    """

    def __init__(self, shape: tuple, tile: tuple):
        untiled = len(shape) - len(tile)
        self.tensor: Tensor
        self.slots = (*shape[:untiled], *(-(-n // t) for n, t in zip(shape[untiled:], tile)))

    def view(self, first, count, kept, tile):
        untiled = len(first) - len(tile)
        begin = (*first[:untiled], *(f // t for f, t in zip(first[untiled:], tile)))
        slots = (*count[:untiled], *(-(-n // t) for n, t in zip(count[untiled:], tile)))
        view = self.tensor.reshape((tile[0], *self.slots, *tile[1:]))
        view = view[(slice(None), *(slice(b, b + n) for b, n in zip(begin, slots)))]
        if any(n % t for n, t in zip(count[untiled:], tile)):
            if prod(slots) > 1:
                return None
            return view.reshape(tile)[tuple(slice(0, n) for n in count[untiled:])]
        if prod(slots[: untiled + 1]) > 1 or len(tile) > 2:
            return view if prod(slots) > 1 else view.reshape(tile)
        return view.reshape((tile[0], prod(slots) * tile[1]))


class NkiGrid:
    """The common base of grids of tiles and of blocks.

    A selection has three entries per dimension: the first selected element, the number of elements,
    and whether the dimension still has a coordinate.
    """

    def __init__(self, backing, tile_shape, first, count, indexable):
        self._backing = backing
        self.tile_shape = tile_shape
        self._first, self._count, self._indexable = tuple(first), tuple(count), tuple(indexable)

    def _steps(self) -> tuple:
        return self.tile_shape

    @property
    def _untiled(self) -> int:
        return len(self._count) - len(self.tile_shape)

    @property
    def index_step_elements(self) -> tuple:
        steps = (1,) * self._untiled + self._steps()
        return tuple(s for s, can_index in zip(steps, self._indexable) if can_index)

    @property
    def shape(self) -> tuple:
        steps = (1,) * self._untiled + self._steps()
        return tuple(-(-n // s) for n, s, can_index in zip(self._count, steps, self._indexable) if can_index)

    @property
    def element_shape(self) -> tuple:
        """The shape of the selected elements. Untiled dimensions that an index has chosen from are
        removed.
        """
        return tuple(n for d, n in enumerate(self._count) if d >= self._untiled or self._indexable[d])

    @property
    def is_remainder(self) -> bool:
        return any(n % s for n, s in zip(self._count[self._untiled :], self._steps()))

    @property
    def dtype(self):
        return self._backing.tensor.dtype

    @property
    def buffer(self):
        return self._backing.tensor.buffer

    @property
    def is_data_representable(self) -> bool:
        return self._view() is not None

    @property
    def data(self) -> Tensor:
        view = self._view()
        if view is None:
            self._wrong("data", f"{self.element_shape} elements in tiles of {self.tile_shape} are no single operand")
        return view

    def _view(self):
        kept = [d >= self._untiled or self._indexable[d] for d in range(len(self._count))]
        return self._backing.view(self._first, self._count, kept, self.tile_shape)

    def __len__(self):
        if not self.shape:
            self._wrong("len", "a single tile has no coordinates")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key):
        key = key if type(key) is tuple else (key,)
        dots = [i for i, part in enumerate(key) if part is Ellipsis]
        if dots:
            at = dots[0]
            key = (*key[:at], *(slice(None),) * (len(self.shape) - len(key) + 1), *key[at + 1 :])
        if len(key) > len(self.shape):
            self._wrong("[...]", f"{len(key)} indices for a grid of {list(self.shape)}")
        first, count, indexable = list(self._first), list(self._count), list(self._indexable)
        steps = (1,) * self._untiled + self._steps()
        dims = [d for d, can_index in enumerate(self._indexable) if can_index]
        for part, d, n in zip(key, dims, self.shape):
            begin, end = self._range(part, n)
            first[d] += begin * steps[d]
            count[d] = min(count[d], end * steps[d]) - begin * steps[d]
            indexable[d] = isinstance(part, slice)
        return self._select(first, count, indexable)

    def _range(self, part, n):
        if isinstance(part, slice):
            begin, end, step = part.indices(n)
            if step == 1 and begin < end:
                return begin, end
        elif isinstance(part, (int, np.integer)) and -n <= part < n:
            return part % n, part % n + 1
        self._wrong("[...]", f"index {part!r} of {n}: expected a number or a range of them")

    def _wrong(self, call, text):
        errors.fail(f"{type(self).__name__}.{call}", text)


class NkiTileGrid(NkiGrid):
    def allocated_like(self, dtype, buffer, name) -> NkiTileGrid:
        return alloc_tiles(tile_shape=self.tile_shape, element_shape=self.element_shape, buffer=buffer, dtype=dtype, name=name)

    def _select(self, first, count, indexable):
        return NkiTileGrid(self._backing, self.tile_shape, first, count, indexable)


class NkiBlockGrid(NkiGrid):
    def __init__(self, backing, tile_shape, block_shape, first, count, indexable):
        super().__init__(backing, tile_shape, first, count, indexable)
        self.block_shape = block_shape

    def _steps(self):
        return tuple(t * b for t, b in zip(self.tile_shape, self.block_shape))

    def allocated_like(self, dtype, buffer, name) -> NkiBlockGrid:
        return alloc_blocks(tile_shape=self.tile_shape, block_shape=self.block_shape, element_shape=self.element_shape,
                            buffer=buffer, dtype=dtype, name=name)  # fmt: skip

    def _select(self, first, count, indexable):
        return NkiBlockGrid(self._backing, self.tile_shape, self.block_shape, first, count, indexable)


def _selection_of(call, source, tile_shape):
    """Returns the tensor of `source`, the shape of its tiles, and the selection with all
    coordinates of the tiles restored.
    """
    if isinstance(source, NkiGrid):
        tile = source.tile_shape
        if tile_shape is not None:
            tile = _sizes(call, "tile_shape", tile_shape, len(source.tile_shape))
        if tile != source.tile_shape and isinstance(source._backing, _Packed):
            errors.fail(call, f"tile_shape: {tile}, the source was allocated in tiles of {source.tile_shape}")
        kept = [d >= source._untiled or can_index for d, can_index in enumerate(source._indexable)]
        return source._backing, tile, source._first, source._count, kept
    if not isinstance(source, Tensor):
        errors.fail(call, f"source: expected a tensor or a grid, found {source!r}")
    if tile_shape is None:
        errors.fail(call, "tile_shape: expected one, since the source is a tensor")
    tile = _sizes(call, "tile_shape", tile_shape)
    if not 2 <= len(tile) <= source.ndim:
        errors.fail(call, f"tile_shape: {tile}, expected 2 to {source.ndim} dimensions for {source.describe()}")
    return _Region(source), tile, (0,) * source.ndim, source.shape, (True,) * source.ndim


def tiles(source, *, tile_shape=None) -> NkiTileGrid:
    releases.since("nki.language.tiles", (0, 7))
    return NkiTileGrid(*_selection_of("nki.language.tiles", source, tile_shape))


def blocks(source, *, tile_shape=None, block_shape) -> NkiBlockGrid:
    call = "nki.language.blocks"
    releases.since(call, (0, 7))
    backing, tile, *selection = _selection_of(call, source, tile_shape)
    return NkiBlockGrid(backing, tile, _sizes(call, "block_shape", block_shape, len(tile)), *selection)


def alloc_tiles(*, tile_shape, element_shape, buffer, dtype, address=None, name="") -> NkiTileGrid:
    call = "nki.language.alloc_tiles"
    releases.since(call, (0, 7))
    tile, shape = _sizes(call, "tile_shape", tile_shape), _sizes(call, "element_shape", element_shape)
    if not 2 <= len(tile) <= len(shape):
        errors.fail(call, f"tile_shape: {tile}, expected 2 to {len(shape)} dimensions for {shape}")
    if region(buffer)[1] == HBM:
        return tiles(ndarray(shape, dtype, buffer, name), tile_shape=tile)
    packed = _Packed(shape, tile)
    packed.tensor = ndarray((tile[0], prod(packed.slots) * prod(tile[1:])), dtype, buffer, name, address)
    return NkiTileGrid(packed, tile, (0,) * len(shape), shape, (True,) * len(shape))


def alloc_blocks(*, tile_shape, block_shape, element_shape, buffer, dtype, address=None, name="") -> NkiBlockGrid:
    grid = alloc_tiles(
        tile_shape=tile_shape, element_shape=element_shape, buffer=buffer, dtype=dtype, address=address, name=name
    )
    return blocks(grid, block_shape=block_shape)
