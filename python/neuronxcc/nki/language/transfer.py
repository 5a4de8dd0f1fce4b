"""Loads, stores and copies."""

from __future__ import annotations

from nki import isa
from nki.tracer import errors, operands
from nki.tracer.layout import HBM, PSUM, SBUF
from nki.tracer.tensor import Tensor

from .. import moves
from ..blocks import Blocks
from ..elementwise import copy_tile, mask_box, require_dtype
from ..results import issue_later, issue_pending
from ..tile import Tile, clip, intersect, match_shape, readable


def any_tile(value, call: str, operand: str) -> Tile:
    if isinstance(value, Tensor):
        return Tile(value)
    if isinstance(value, Blocks):
        return value.only_block(call)
    if not isinstance(value, Tile):
        errors.fail(call, f"{operand}: expected a tensor, found {operands.describe(value)}")
    return value


def load(src, *, mask=None, dtype=None, **unused) -> Tile:
    """Returns a tile in SBUF with a part of a tensor in HBM, by one DMA."""
    call = "nl.load"
    src = any_tile(src, call, "src")
    src.tensor  # issues the result if it waits
    if src.memory == PSUM:
        errors.fail(call, f"src: {src.describe()}: DMA reaches hbm and sbuf")
    if src.ndim == 1:
        src = match_shape(src, (*src.shape, 1))
    result_dtype = require_dtype(dtype, call) if dtype is not None else src.dtype
    box = intersect(mask_box(mask, src.shape, call), src.box)
    if box == ():
        return issue_later(src.shape, result_dtype, SBUF, None, ())
    source = readable(src, box, call)

    def make(dst):
        isa.dma_copy(dst, source)

    make.dma = True
    return issue_later(src.shape, result_dtype, SBUF, make, box)


def load_transpose2d(src, *, mask=None, dtype=None, **unused) -> Tile:
    """Returns the transpose of a part of a matrix in HBM, by one transposing DMA."""
    call = "nl.load_transpose2d"
    src = any_tile(src, call, "src")
    if src.ndim != 2:
        errors.fail(call, f"src: {src.describe()}, expected two dimensions")
    result_dtype = require_dtype(dtype, call) if dtype is not None else src.dtype
    box = intersect(mask_box(mask, src.shape, call), src.box)
    shape = (src.shape[1], src.shape[0])
    if box == ():
        return issue_later(shape, result_dtype, SBUF, None, ())
    source = readable(src, box, call)

    def make(dst):
        isa.dma_transpose(dst, source)

    make.dma = True
    return issue_later(shape, result_dtype, SBUF, make, box and (box[1], box[0]))


def store(dst, value, *, mask=None, **unused):
    """Writes a tile to a part of a tensor in HBM by one DMA. A tile in PSUM is copied to SBUF
    first.
    """
    call = "nl.store"
    dst = any_tile(dst, call, "dst")
    if dst.memory != HBM:
        errors.fail(call, f"dst: {dst.describe()}, expected a tensor in hbm")
    if operands.is_number(value):
        cut_shape = dst.shape if dst.ndim > 1 else (*dst.shape, 1)
        tile = moves.scratch(cut_shape, dst.dtype)
        isa.memset(tile.tensor, value)
        value = tile
    value = any_tile(value, call, "value")
    value.tensor  # issues the result if it waits
    issue_pending()
    note_store(dst)
    moves.copy(dst, value, mask_box(mask, dst.shape, call), call)


def note_store(dst: Tile):
    """Notes that the kernel writes one of its arguments."""
    storage = dst.tensor.storage
    storage.session.state.setdefault("neuronxcc written", {})[storage.id] = storage


def atomic_rmw(dst, value, op, *, mask=None, **unused):
    """dst = dst <op> value, computed by the DMA engines."""
    call = "nl.atomic_rmw"
    dst, value = any_tile(dst, call, "dst"), any_tile(value, call, "value")
    value.tensor
    issue_pending()
    note_store(dst)
    box = intersect(mask_box(mask, dst.shape, call), dst.box)
    if box != ():
        isa.dma_copy(clip(dst, box, call), readable(match_shape(value, dst.shape), box, call), dst_rmw_op=op)


def copy(src, *, mask=None, dtype=None, **unused) -> Tile:
    if isinstance(src, (Tile, Tensor)) and any_tile(src, "nl.copy", "src").memory == HBM:
        return load(src, mask=mask, dtype=dtype)
    return copy_tile(src, dtype, mask)


def static_cast(src, dtype, **unused):
    """Returns the tile in another type. A NumPy array is returned unchanged."""
    if isinstance(src, (Tile, Blocks)):
        return copy_tile(src, dtype, call="nl.static_cast")
    return src
