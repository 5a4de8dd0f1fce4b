"""Block dimensions, which are the dimensions before `par_dim`.

Every block is a separate tile that exists from its first use. The allocator therefore sees the
lifetime of every block, as the compiler does.
"""

from __future__ import annotations

import itertools

import numpy as np
from nki import isa
from nki.tracer import errors, session
from nki.tracer.layout import PSUM

from .index import Index
from .results import SourceOverride, store
from .sums import PsumSums
from .tile import Tile


class ParDim(int):
    """`nl.par_dim(n)`: the dimension of a shape that lies along the partitions."""


class Blocks:
    __slots__ = ("shape", "dtype", "memory", "_blocks", "_tile", "_value", "_address", "_source", "_name", "_tiles")
    __array_ufunc__ = None

    def __init__(self, blocks: tuple, tile: tuple, dtype, memory: str, value=None, address=None, name: str = ""):
        self.shape = (*blocks, *tile)
        self.dtype = dtype
        self.memory = memory
        self._blocks = blocks
        self._tile = tile
        self._value = value
        self._address = address  # maps the block's index to (partition, byte)
        self._name = name
        run = session.active("nl.ndarray")
        self._source = run.trace.sources.here()
        self._tiles: dict = {}

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def buffer(self):
        from .language import BUFFERS

        return BUFFERS[self.memory]

    def describe(self) -> str:
        return f"{self.dtype} {list(self.shape)} in {self.memory}, of {list(self._blocks)} blocks"

    def block(self, index: tuple) -> Tile:
        found = self._tiles.get(index)
        if found is None:  # a pending result may be stored in this block
            run = session.current
            with SourceOverride(run, self._source):
                found = allocate_tile(
                    self._tile,
                    self.dtype,
                    self.memory,
                    self._value,
                    self._address and self._address(index, self._tile, self.dtype),
                    self._name,
                )
            self._tiles[index] = found
        return found

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        count = len(self._blocks)
        if Ellipsis in [k for k in key if k is Ellipsis]:
            at = next(i for i, k in enumerate(key) if k is Ellipsis)
            key = (*key[:at], *(slice(None),) * (self.ndim - len(key) + 1), *key[at + 1 :])
        if len(key) < count:
            key = (*key, *(slice(None),) * (count - len(key)))
        index = tuple(self._number(part, n, axis) for axis, (part, n) in enumerate(zip(key, self._blocks)))
        tile = self.block(index)
        rest = key[count:]
        return tile[rest] if rest else tile

    def _number(self, part, n, axis):
        if type(part) is Index and not any(s for s, m in zip(part.steps, part.shape) if m > 1):
            part = part.first
        if isinstance(part, slice) and part == slice(None) and n == 1:
            part = 0
        if not isinstance(part, (int, np.integer)):
            errors.fail(
                "tensor[...]", f"{self.describe()}: block dimension {axis} is indexed by numbers, found {part!r}"
            )
        if not -n <= part < n:
            errors.fail("tensor[...]", f"{self.describe()}: index {part} of block dimension {axis}, which has {n}")
        return int(part) % n

    def __setitem__(self, key, value):
        if key is Ellipsis or key == slice(None):
            for index in itertools.product(*map(range, self._blocks)):
                store(self.block(index), value)
            return
        store(self[key], value)

    def only_block(self, call: str):
        """Returns the only block as a tile. It is an error if there are several blocks."""
        if all(n == 1 for n in self._blocks):
            return self.block((0,) * len(self._blocks))
        errors.fail(call, f"{self.describe()}: an instruction works on one block")


def allocate_tile(shape, dtype, memory, value, address, name) -> Tile:
    """Returns a new tile at `address`, or anywhere if the kernel gives no address. A `value` fills
    it.

    Zeros in PSUM are written only if something reads them.
    """
    shape = shape if len(shape) > 1 or memory == "hbm" else (*shape, 1)
    tensor = session.current.allocate(shape, dtype, memory, name=name, address=address)
    sums = PsumSums(tensor, pending_zeros=value == 0 and value is not None) if memory == PSUM else None
    tile = Tile(tensor, sums=sums)
    if value is not None and not (sums and sums.pending_zeros):
        isa.memset(tensor, value)
        if sums:
            sums.mark_written(tensor)
    return tile
