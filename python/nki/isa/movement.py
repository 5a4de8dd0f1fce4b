"""Moves data between and within partitions: shuffles and gathers."""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, whole
from ..tracer import session as sessions
from ..tracer.layout import SBUF
from .instruction import DONE

_KEEP = 255


def nc_stream_shuffle(dst, src, shuffle_mask, name=None):
    """Sets partition i of dst to partition shuffle_mask[i] of src within each 32 partitions. 255
    keeps partition i of dst.
    """
    call = "nki.isa.nc_stream_shuffle"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "src", src)
    mask = whole.numbers(call, "shuffle_mask", shuffle_mask)
    if len(mask) != 32 or any(not (0 <= i < 32 or i == _KEEP) for i in mask):
        errors.fail(call, f"shuffle_mask: expected 32 numbers below 32 (or 255), found {list(mask)}")
    if dst.layout.free != src.layout.free or dst.dtype is not src.dtype:
        errors.fail(call, f"dst is {dst.describe()} and src is {src.describe()}: expected equal types and free sizes")
    operands.in_partitions(call, "dst", dst)
    operands.in_partitions(call, "src", src)
    s.note_read(src, call, "src")
    s.emit("nc_stream_shuffle", "vector", ("dst", "src"), [dst, src])
    moved = [p for p in range(dst.shape[0]) if mask[p % 32] != _KEEP]
    unwritten_mask = None
    if s.values and moved:
        wide, old = _quadrants(src), dst.bits().copy()
        sources = [p // 32 * 32 + mask[p % 32] for p in moved]
        if max(sources) >= wide.shape[0]:
            errors.fail(call, f"shuffle_mask: partition {max(sources)} lies beyond {src.describe()}")
        bits, unwritten = wide.bits(), wide.storage.unwritten(wide.layout, wide.offset)
        unwritten_mask = np.zeros(dst.shape, bool)
        unwritten_mask[moved] = unwritten if unwritten is False else unwritten[sources].reshape(len(moved), *dst.shape[1:])
        old[moved] = bits[sources].reshape(len(moved), *dst.shape[1:])
        dst.put(old)
    chosen = ...
    if len(moved) < dst.shape[0]:
        chosen = np.zeros(dst.shape, bool)
        chosen[moved] = True
    s.note_write(dst, chosen, unwritten_mask)
    return DONE


def _quadrants(src):
    """Returns src together with the following partitions of its tensor, up to a multiple of 32."""
    row = src.layout.row
    first = src.offset // row
    count = min(-(-src.shape[0] // 32) * 32, src.storage.shape[0] - first)
    return src.with_layout((max(count, src.shape[0]), *src.shape[1:]), src.strides)


def nc_n_gather(dst, data, indices, name=None):
    """dst[p, i] = data[p, indices[p, i]], where all free axes count as one."""
    call = "nki.isa.nc_n_gather"
    s = sessions.active(call)
    for operand, view in (("dst", dst), ("data", data), ("indices", indices)):
        operands.on_chip(call, operand, view, (SBUF,))
    operands.same_elements(call, "dst", dst, "indices", indices)
    if indices.dtype is not dtypes.uint32:
        errors.fail(call, f"indices: {indices.describe()}, expected uint32")
    _check_gathered(call, dst, "data", data)
    unwritten_mask = s.note_read(data, call, "data")
    s.note_read(indices, call, "indices")
    s.emit("nc_n_gather", "gpsimd", ("dst", "src", "index"), [dst, data, indices])
    if s.values:
        bits = data.bits().reshape(data.shape[0], -1)
        chosen = s.read(indices).astype(np.int64).reshape(data.shape[0], -1)
        if chosen.max() >= bits.shape[1]:
            errors.fail(
                call, f"indices: {chosen.max()} is out of bounds, a partition of data has {bits.shape[1]} elements"
            )
        dst.put(np.take_along_axis(bits, chosen, axis=1).reshape(dst.shape))
        if unwritten_mask is not None:
            unwritten_mask = np.take_along_axis(unwritten_mask.reshape(bits.shape), chosen, axis=1).reshape(dst.shape)
    s.note_write(dst, unwritten_mask=unwritten_mask)
    return DONE


def _check_gathered(call, dst, operand, source):
    if dst.dtype is not source.dtype or dst.layout.partitions != source.layout.partitions:
        errors.fail(call, f"dst is {dst.describe()} and {operand} is {source.describe()}: expected equal types and partitions")


def local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None):
    """Gathers elements for each 16 partitions. All 16 use the indices that they hold together, in
    the order of partitions.
    """
    call = "nki.isa.local_gather"
    s = sessions.active(call)
    for operand, view in (("dst", dst), ("src_buffer", src_buffer), ("index", index)):
        operands.on_chip(call, operand, view, (SBUF,))
    p = src_buffer.shape[0]
    if p % 16 or index.shape[0] != p:
        errors.fail(
            call,
            f"src_buffer is {src_buffer.describe()} and index is {index.describe()}: expected equal multiples of 16",
        )
    if not index.dtype.integer:
        errors.fail(call, f"index: {index.describe()}, expected integers")
    _check_gathered(call, dst, "src_buffer", src_buffer)
    if not isinstance(num_elem_per_idx, int) or num_elem_per_idx not in (1, 2, 4, 8, 16, 32):
        errors.fail(call, f"num_elem_per_idx: expected 1, 2, 4, 8, 16 or 32, found {num_elem_per_idx}")
    count = whole.number(call, "num_valid_indices", num_valid_indices) if num_valid_indices else index.layout.free * 16
    if dst.layout.free != count * num_elem_per_idx:
        errors.fail(call, f"dst: {dst.describe()}, the gather has {count * num_elem_per_idx} elements in a partition")
    unwritten_mask = s.note_read(src_buffer, call, "src_buffer")
    s.note_read(index, call, "index")
    s.emit(
        "local_gather", "gpsimd", ("dst", "src", "index"), [dst, src_buffer, index], (("elements", num_elem_per_idx),)
    )
    if s.values:
        bits = src_buffer.bits().reshape(p, -1)
        unwritten = np.zeros(bits.shape, bool) if unwritten_mask is None else unwritten_mask.reshape(bits.shape)
        numbers = s.read(index).astype(np.int64).reshape(p, -1)
        out = np.empty((p, count * num_elem_per_idx), bits.dtype)
        unwritten_mask = np.empty(out.shape, bool)
        for core in range(0, p, 16):
            first = numbers[core : core + 16].flatten(order="F")[:count]
            places = (first[:, None] + np.arange(num_elem_per_idx)).reshape(-1)
            if places.max() >= bits.shape[1]:
                errors.fail(call, f"index: {places.max()} is out of bounds, a partition has {bits.shape[1]} elements")
            out[core : core + 16] = bits[core : core + 16, places]
            unwritten_mask[core : core + 16] = unwritten[core : core + 16, places]
        dst.put(out.reshape(dst.shape))
        unwritten_mask = unwritten_mask.reshape(dst.shape)
    s.note_write(dst, unwritten_mask=unwritten_mask)
    return DONE
