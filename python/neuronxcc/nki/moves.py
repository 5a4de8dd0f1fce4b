"""Operations that the compiler adds by itself: copies between memories, constants, transposes and
broadcasts across partitions.
"""

from __future__ import annotations

import numpy as np
from nki import isa
from nki.tracer import errors, session
from nki.tracer.dtypes import float32
from nki.tracer.layout import HBM, PSUM, SBUF

from .results import settle
from .tile import Tile, cut, meet, readable, shaped, writable


def scratch(shape, dtype, memory=SBUF) -> Tile:
    """Returns new memory for an intermediate result, which the compiler would allocate."""
    return Tile(session.current.allocate(tuple(shape), dtype, memory))


def zero(tensor):
    isa.memset(tensor, 0)


def fill(place: Tile, value):
    """`place = number`: fills a place on chip."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if not isinstance(value, (int, float, np.number, np.bool_)):
        errors.fail("tensor[...] =", f"expected a tile or a number, found {type(value).__name__}")
    if place.memory == HBM:
        errors.fail("tensor[...] =", f"{place.describe()}: a number is stored in hbm by nl.store of a tile")
    isa.memset(writable(place, place.box), value)


def copy(place: Tile, value: Tile, box=None, call: str = "tensor[...] =", engine=isa.engine.unknown):
    """Copies a tile to a place with as many elements. DMA reaches HBM and SBUF, the other engines
    SBUF and PSUM.
    """
    value.tensor  # issues the result if it waits
    settle()
    value = shaped(value, place.shape)
    box = meet(box, meet(place.box, value.box))
    if box == ():
        return
    if place.memory == HBM or value.memory == HBM:
        if PSUM in (place.memory, value.memory):
            value = staged(value, box, place.dtype if value.memory == PSUM else value.dtype)
            if place.memory == PSUM:
                isa.tensor_copy(writable(place, box, call), value.tensor)
                return
            isa.dma_copy(writable(place, box, call), value.tensor)
            return
        isa.dma_copy(writable(place, box, call), readable(value, box, call))
    else:
        isa.tensor_copy(writable(place, box, call), readable(value, box, call), engine=engine)


def staged(value: Tile, box, dtype) -> Tile:
    """Returns a copy in SBUF of the part of a tile in a box."""
    source = readable(value, box)
    made = scratch(source.shape, dtype)
    (isa.dma_copy if value.memory == HBM else isa.tensor_copy)(made.tensor, source)
    return made


def constant(value: float, partitions: int):
    """Returns a tensor [partitions, 1] that holds a number. Each constant is written once."""
    known = session.current.state.setdefault("neuronxcc constants", {})
    found = known.get((value, partitions))
    if found is None:
        found = known[value, partitions] = session.current.allocate(
            (partitions, 1), float32, SBUF, name=f"constant {value:g}"
        )
        isa.memset(found, value)
    return found


def in_sbuf(tile: Tile, dtype=None) -> Tile:
    """Returns the tile itself if it is in SBUF, else a copy in SBUF. `dtype` converts the tile."""
    if tile.memory == SBUF and (dtype is None or tile.dtype is dtype):
        return tile
    made = scratch(tile.shape, dtype or tile.dtype)
    copy(made, tile)
    return made


def transposed(tile: Tile, box=None) -> Tile:
    """Transposes [partitions, free] to [free, partitions] in SBUF with the Tensor engine and a
    copy.
    """
    source = readable(in_sbuf(tile), box)
    p, f = source.layout.partitions, source.layout.free
    sums = scratch((f, p), tile.dtype, PSUM)
    isa.nc_transpose(sums.tensor, source, engine=isa.engine.tensor)
    return in_sbuf(sums)


_COLUMNS = 512  # the fp32 columns of a bank of PSUM


def across_partitions(tile: Tile, partitions: int) -> Tile:
    """Copies one partition to many, bank by bank.

    Each bank is a product with a row of ones, which leaves the numbers unchanged. A result that
    fits into a bank stays there, because the engines read PSUM like SBUF. A larger result is
    gathered in SBUF.
    """
    if not tile.dtype.float:
        return in_sbuf(across_partitions(in_sbuf(tile, float32), partitions), tile.dtype)
    source = cut(in_sbuf(tile), None, "broadcast_to")
    free = source.shape[1:]
    if partitions == 1:
        return tile
    source = (
        source.reshape((1, source.layout.free))
        if source.layout.contiguous
        else staged(tile, None, tile.dtype).tensor.reshape((1, source.layout.free))
    )
    ones = _ones(partitions, source.dtype)
    if source.shape[1] <= _COLUMNS:
        sums = scratch((partitions, source.shape[1]), float32, PSUM)
        isa.nc_matmul(sums.tensor, ones, source, is_stationary_onezero=True, accumulate=False)
        return Tile(sums.tensor.reshape((partitions, *free)))
    made = scratch((partitions, source.shape[1]), tile.dtype)
    for begin in range(0, source.shape[1], _COLUMNS):
        end = min(begin + _COLUMNS, source.shape[1])
        sums = scratch((partitions, end - begin), float32, PSUM)
        isa.nc_matmul(sums.tensor, ones, source[:, begin:end], is_stationary_onezero=True, accumulate=False)
        isa.tensor_copy(made.tensor[:, begin:end], sums.tensor)
    return Tile(made.tensor.reshape((partitions, *free)))


def _ones(partitions, dtype):
    known = session.current.state.setdefault("neuronxcc ones", {})
    found = known.get((partitions, dtype))
    if found is None:
        found = known[partitions, dtype] = session.current.allocate((1, partitions), dtype, SBUF, name="ones")
        isa.memset(found, 1)
    return found
