"""Tiles of the legacy dialect: views of the tracer's tensors that index expressions make and masks
clip.

`box` is the part of a tile that instructions work on: a (start, stop) per dimension, None for all
of it, () for nothing.
"""

from __future__ import annotations

from math import prod

from nki.tracer import errors
from nki.tracer.layout import HBM

from .index import WHOLE, Mask
from .views import Overflow, view


class Tile:
    """A view of a tensor of the tracer, or a result that will become one.

        sums      only in PSUM: the elements where products have begun to accumulate; views share it
        overflow  indices that leave the tensor unless a mask cuts them
        pending   how a result will be computed (results.py)
    """

    __slots__ = ("_tensor", "shape", "dtype", "memory", "sums", "overflow", "box", "pending")
    __array_ufunc__ = None

    def __init__(self, tensor, overflow=(), sums=None, box=None):
        self._tensor = tensor
        self.shape = tensor.layout.shape
        self.dtype = tensor.layout.dtype
        self.memory = tensor.layout.memory
        self.sums = sums
        self.overflow = overflow
        self.box = box
        self.pending = None

    @classmethod
    def from_pending(cls, shape, dtype, memory, pending) -> Tile:
        made = cls.__new__(cls)
        made._tensor = made.sums = made.box = None
        made.overflow = ()
        made.shape = tuple(shape) if memory == HBM or len(shape) > 1 else (*shape, 1)
        made.dtype = dtype
        made.memory = memory
        made.pending = pending
        return made

    # Properties for kernels

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def buffer(self):
        from .language import BUFFERS

        return BUFFERS[self.memory]

    @property
    def name(self) -> str:
        return self.tensor.name

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<{self.describe()}>"

    def describe(self) -> str:
        if self.pending is not None:
            return f"{self.dtype} {list(self.shape)} in {self.memory}"
        return self._tensor.describe()

    @property
    def tensor(self):
        """The tracer's tensor. A pending result is issued first."""
        if self.pending is not None:
            self.pending.issue_pending()
        return self._tensor

    # Views

    def __getitem__(self, key) -> Tile:
        if isinstance(key, (Mask, bool)):
            box = () if key is False else None if key is True else key.box(self.shape, "tensor[mask]") or ()
            return Tile(self.tensor, self.overflow, self.sums, intersect(self.box, box))
        tensor = self.tensor
        if self.overflow or self.box is not None:
            tensor = clip(self, None, "tensor[...]")
        return Tile(*view(tensor, tuple(key) if isinstance(key, tuple) else (key,)), self.sums)

    def reshape(self, *sizes, shape=None) -> Tile:
        shape = sizes if shape is None else shape
        if len(shape) == 1 and not isinstance(shape[0], WHOLE):
            shape = tuple(shape[0])
        return Tile(self.tensor.reshape(shape), sums=self.sums)

    def view(self, dtype) -> Tile:
        return Tile(self.tensor.view(dtype))

    def __iter__(self):
        return (self[i] for i in range(self.shape[0]))


class TileComparison(Tile):
    """The result of a comparison of tiles. Its numbers are computed by the hardware, so that no
    branch of the program can depend on them.
    """

    __slots__ = ()

    def __bool__(self):
        errors.fail("bool", "a branch on a comparison of tiles; what they hold is not known to the program, nl.where selects by it "
                            f"({errors.TRUTH_VALUE})")  # fmt: skip


def same_view(a: Tile, b: Tile) -> bool:
    if b.pending is not None:
        return False
    one, two = a.tensor, b.tensor
    return one.storage is two.storage and one.offset == two.offset and one.layout is two.layout


def match_shape(tile: Tile, shape: tuple) -> Tile:
    """Returns the same elements in a shape that differs only in dimensions of one element."""
    if tile.shape == shape:
        return tile
    ours = [i for i, n in enumerate(tile.shape) if n != 1]
    theirs = [i for i, n in enumerate(shape) if n != 1]
    if [tile.shape[i] for i in ours] != [shape[i] for i in theirs]:
        errors.fail("tensor[...] =", f"{tile.describe()} does not hold a tile of {list(shape)}")
    strides = [tile.tensor.layout.row if tile.memory != HBM and i == 0 else 0 for i in range(len(shape))]
    for i, j in zip(ours, theirs):
        strides[j] = tile.tensor.strides[i]
    made = Tile(tile.tensor.with_layout(shape, tuple(strides)), sums=tile.sums)
    made.overflow = tuple(
        Overflow(_moved_items(o.steps, ours, theirs, len(shape)), o.first, o.count, o.axis) for o in tile.overflow
    )
    if tile.box is not None:
        made.box = tile.box and _moved_items(tile.box, ours, theirs, len(shape), (0, 1))
    return made


def _moved_items(items, ours, theirs, rank, other=0):
    result = [other] * rank
    for i, j in zip(ours, theirs):
        result[j] = items[i]
    return tuple(result)


# Clipping


def clip(tile: Tile, box, call: str):
    """Returns the tracer's tensor of the part of a tile in `box`. Its indices must be inside the
    tensor.
    """
    tensor = tile.tensor
    if box is None and not tile.overflow:
        return tensor
    full = box is None
    box = [(0, n) for n in tile.shape] if full else box
    for over in tile.overflow:
        low, high = over.limits(box)
        if low < 0 or high >= over.count:
            errors.fail(
                call,
                f"{tensor.describe()}: indices {low} to {high} of dimension {over.axis}, which has {over.count} elements "
                f"({errors.OUT_OF_BOUNDS})",
            )
    if full:
        return tensor
    strides = tensor.strides
    offset = tensor.offset + sum(start * s for (start, _), s in zip(box, strides))
    return tensor.with_layout(tuple(stop - start for start, stop in box), strides, offset)


def intersect(a, b):
    """Returns the intersection of two boxes. None is everything, and () is nothing."""
    if a is None or b is None:
        return a if b is None else b
    if a == () or b == ():
        return ()
    both = tuple((max(p[0], q[0]), min(p[1], q[1])) for p, q in zip(a, b))
    return both if all(start < stop for start, stop in both) else ()


def readable(tile: Tile, box=None, call: str = "operand"):
    """Returns the tensor of an operand. Pending zeros in PSUM (see PsumSums) are written first."""
    tensor = clip(tile, box, call)
    if tile.sums is not None and tile.sums.pending_zeros:
        tile.sums.write_pending_zeros(tensor)
    return tensor


def writable(tile: Tile, box=None, call: str = "destination", fresh=True):
    tensor = clip(tile, box, call)
    if fresh and tile.sums is not None:
        tile.sums.mark_written(tensor)
    return tensor
