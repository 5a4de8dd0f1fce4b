"""Searches that GpSimd does in one instruction: the largest elements, and the segments of a
sequence.
"""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, whole
from ..tracer import session as sessions
from .instruction import DONE

# The partitions of a GpSimd core. Element i of a group is in its partition i % 16, at position i //
# 16.
_GROUP_PARTITIONS = 16


def topk(val_dst, idx_dst, src, n, sorted=False, name=None):
    """Finds the k largest of n elements and their positions for each group of 16 partitions.

    k is the free size of val_dst. All operands have their elements in snake order (see
    _GROUP_PARTITIONS). The results ascend, or descend with `sorted`. Of equal elements the first is
    taken.
    """
    call = "nki.isa.topk"
    s = sessions.active(call)
    n = whole.number(call, "n", n)
    k, rows = _check_topk(call, val_dst, idx_dst, src, n), src.layout.partitions
    columns = -(-k // _GROUP_PARTITIONS)
    written = [view[:, :columns] if view.ndim == 2 else view for view in (val_dst, idx_dst)]
    s.note_read(src[:, : -(-n // _GROUP_PARTITIONS)] if src.ndim == 2 else src, call, "src")
    s.emit("topk", "gpsimd", ("dst", "dst1", "src"), [*written, src], (("n", n), ("k", k)))
    if s.values:
        numbers = s.read(src).reshape(rows // _GROUP_PARTITIONS, _GROUP_PARTITIONS, -1)
        snake = numbers.transpose(0, 2, 1).reshape(len(numbers), -1)[:, :n]
        order = np.argsort(-snake, axis=1, kind="stable")[:, :k]
        order = order if sorted else order[:, ::-1]
        for view, found in zip(written, (np.take_along_axis(snake, order, axis=1), order)):
            s.write(view, _distribute(found, columns, view))
    for view in written:
        s.note_write(view)
    return DONE


def _check_topk(call, val_dst, idx_dst, src, n):
    """Returns k after checking the operands against the documentation of nki.isa.topk."""
    wanted = (("val_dst", val_dst, dtypes.bfloat16), ("idx_dst", idx_dst, dtypes.uint32), ("src", src, dtypes.bfloat16))
    for operand, view, dtype in wanted:
        operands.on_chip(call, operand, view, ("sbuf",))
        if view.dtype is not dtype:
            errors.fail(call, f"{operand}: {view.describe()}, expected {dtype}")
    k = val_dst.layout.free
    if src.layout.partitions % _GROUP_PARTITIONS:
        errors.fail(call, f"src: {src.describe()}, expected a multiple of {_GROUP_PARTITIONS} partitions")
    operands.same_elements(call, "val_dst", val_dst, "idx_dst", idx_dst)
    if val_dst.layout.partitions != src.layout.partitions:
        errors.fail(call, f"val_dst is {val_dst.describe()} and src is {src.describe()}: expected equal partitions")
    if not 8 <= n < 65536 or -(-n // _GROUP_PARTITIONS) > src.layout.free:
        errors.fail(call, f"n: expected 8 to {min(65535, src.layout.free * _GROUP_PARTITIONS)} for {src.describe()}, found {n}")
    if not 1 <= k <= min(n, 32767):
        errors.fail(call, f"val_dst: {val_dst.describe()} asks for {k} of {n} elements")
    return k


def _distribute(rows, columns, view):
    """Distributes each row over 16 partitions. The unused elements of the last column are zero."""
    padded = np.zeros((len(rows), columns * _GROUP_PARTITIONS), rows.dtype)
    padded[:, : rows.shape[1]] = rows
    laid = padded.reshape(len(rows), columns, _GROUP_PARTITIONS).transpose(0, 2, 1).reshape(len(rows) * _GROUP_PARTITIONS, columns)
    if view.layout.free == columns:
        return laid.reshape(view.shape)
    out = np.zeros((len(laid), view.layout.free), rows.dtype)
    out[:, :columns] = laid
    return out.reshape(view.shape)


def sequence_bounds(dst, segment_ids, name=None):
    """dst[0, 0] = the begin of each element's segment, dst[0, 1] = its end. Padding has id 0, begin
    n and end -1.
    """
    call = "nki.isa.sequence_bounds"
    s = sessions.active(call)
    for operand, view in (("dst", dst), ("segment_ids", segment_ids)):
        operands.on_chip(call, operand, view)
        if view.layout.partitions != 1 or view.dtype not in (dtypes.float32, dtypes.int32):
            errors.fail(call, f"{operand}: {view.describe()}, expected one partition of float32 or int32")
    count = segment_ids.layout.free
    if dst.layout.free != 2 * count:
        errors.fail(call, f"dst: {dst.describe()}, expected [1, 2, {count}]")
    s.note_read(segment_ids, call, "segment_ids")
    s.emit("sequence_bounds", "gpsimd", ("dst", "src"), [dst, segment_ids])
    if s.values:
        ids = s.read(segment_ids).reshape(-1)
        changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        segment = np.searchsorted(changes, np.arange(count), side="right")
        begins, ends = np.concatenate(([0], changes)), np.concatenate((changes, [count]))
        pad = ids == 0
        bounds = np.stack((np.where(pad, count, begins[segment]), np.where(pad, -1, ends[segment])))
        s.write(dst, bounds.reshape(dst.shape))
    s.note_write(dst)
    return DONE
