"""Operations that the compiler adds by itself: copies between memories, constants, transposes and
broadcasts across partitions.
"""

from __future__ import annotations

import numpy as np
from nki import isa
from nki.tracer import errors, session
from nki.tracer.dtypes import float32
from nki.tracer.layout import HBM, PSUM, SBUF

from .results import issue_pending
from .tile import Tile, clip, intersect, match_shape, readable, writable


def scratch(shape, dtype, memory=SBUF) -> Tile:
    """Returns new memory for an intermediate result, which the compiler would allocate."""
    return Tile(session.current.allocate(tuple(shape), dtype, memory))


def fill(destination: Tile, value):
    """`destination = number`: fills a part of a tensor on chip."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if not isinstance(value, (int, float, np.number, np.bool_)):
        errors.fail("tensor[...] =", f"expected a tile or a number, found {type(value).__name__}")
    if destination.memory == HBM:
        errors.fail("tensor[...] =", f"{destination.describe()}: a number is stored in hbm by nl.store of a tile")
    isa.memset(writable(destination, destination.box), value)


def copy(destination: Tile, value: Tile, box=None, call: str = "tensor[...] =", engine=isa.engine.unknown):
    """Copies a tile to a destination with as many elements. DMA reaches HBM and SBUF, the other
    engines SBUF and PSUM.
    """
    value.tensor  # issues the result if it waits
    issue_pending()
    value = match_shape(value, destination.shape)
    box = intersect(box, intersect(destination.box, value.box))
    if box == ():
        return
    if destination.memory == HBM or value.memory == HBM:
        if PSUM in (destination.memory, value.memory):
            value = copy_to_sbuf(value, box, destination.dtype if value.memory == PSUM else value.dtype)
            if destination.memory == PSUM:
                isa.tensor_copy(writable(destination, box, call), value.tensor)
                return
            isa.dma_copy(writable(destination, box, call), value.tensor)
            return
        isa.dma_copy(writable(destination, box, call), readable(value, box, call))
    else:
        isa.tensor_copy(writable(destination, box, call), readable(value, box, call), engine=engine)


def copy_to_sbuf(value: Tile, box, dtype) -> Tile:
    """Returns a copy in SBUF of the part of a tile in a box."""
    source = readable(value, box)
    made = scratch(source.shape, dtype)
    (isa.dma_copy if value.memory == HBM else isa.tensor_copy)(made.tensor, source)
    return made


def constant(value: float, partitions: int):
    """Returns a tensor [partitions, 1] that holds a number. Each constant is written once."""
    cached = session.current.state.setdefault("neuronxcc constants", {})
    tensor = cached.get((value, partitions))
    if tensor is None:
        tensor = cached[value, partitions] = session.current.allocate(
            (partitions, 1), float32, SBUF, name=f"constant {value:g}"
        )
        isa.memset(tensor, value)
    return tensor


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


def copy_across_partitions(tile: Tile, partitions: int) -> Tile:
    """Copies one partition to many, bank by bank.

    Each bank is a product with a row of ones, which leaves the numbers unchanged. A result that
    fits into a bank stays there, because the engines read PSUM like SBUF. A larger result is
    gathered in SBUF.
    """
    if not tile.dtype.float:
        return in_sbuf(copy_across_partitions(in_sbuf(tile, float32), partitions), tile.dtype)
    source = clip(in_sbuf(tile), None, "broadcast_to")
    free = source.shape[1:]
    if partitions == 1:
        return tile
    source = (
        source.reshape((1, source.layout.free))
        if source.layout.contiguous
        else copy_to_sbuf(tile, None, tile.dtype).tensor.reshape((1, source.layout.free))
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
    cached = session.current.state.setdefault("neuronxcc ones", {})
    tensor = cached.get((partitions, dtype))
    if tensor is None:
        tensor = cached[partitions, dtype] = session.current.allocate((1, partitions), dtype, SBUF, name="ones")
        isa.memset(tensor, 1)
    return tensor
