"""Transfers between HBM and SBUF."""

from __future__ import annotations

import numpy as np

from .. import removed
from ..tracer import errors, indirect, operands, operators, values, whole
from ..tracer import session as sessions
from ..tracer.layout import PSUM
from ..tracer.tensor import Columns
from .enums import dge_mode, engine, oob_mode
from .instruction import DONE


def dma_copy(dst, src, priority=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown, engine=engine.unknown,
             name=None, dst_rmw_op=None, unique_indices=None):  # fmt: skip
    """dst = src, with a conversion through float32. With `dst_rmw_op`, a parameter of older
    releases, dst = dst + src.
    """
    call = "nki.isa.dma_copy"
    s = sessions.active(call)
    if s.dialect == "nki" and s.release.nki >= (0, 3):
        given = {"dst_rmw_op": dst_rmw_op, "unique_indices": unique_indices}
        removed.check_parameters(call, [name for name, value in given.items() if value is not None])
    _check_memories(call, dst, src)
    if dst.layout.size != src.layout.size:
        errors.fail(call, f"dst is {dst.describe()} and src is {src.describe()}: expected equally many elements")
    attributes = (("transpose", False), *_indirect(dst, src))
    if dst_rmw_op is not None:
        attributes += (("accumulate", operators.find(dst_rmw_op, call, "dst_rmw_op").name),)
        s.note_read(dst, call, "dst")
    attributes += _queue_attributes(call, dge_mode, engine)
    s.note_read(src, call, "src")
    s.emit("dma_copy", "dma", ("dst", "src"), [dst, src], attributes)
    if s.values:
        skip = oob_mode.name == "skip"
        if dst_rmw_op is None:
            move(s, dst, src, skip)
        else:
            op = operators.find(dst_rmw_op, call, "dst_rmw_op")
            both = operators.apply(op, s.read(dst, skip), s.read(src, skip).reshape(dst.shape))
            _store(s, dst, both, _kept_rows(src, dst, skip), skip)
    s.note_write(dst)
    return DONE


def _check_memories(call, dst, src):
    for operand, view in (("dst", dst), ("src", src)):
        found = operands.tensor(call, operand, view)
        if found.layout.memory == PSUM:
            errors.fail(call, f"{operand}: {found.describe()}: DMA reaches hbm and sbuf, copy it with tensor_copy")


def _indirect(dst, src):
    for view in (dst, src):
        if isinstance(view.dynamic, Columns):
            errors.fail("tensor.indirect", f"{view.describe()}: the compute engines take such a view, DMA does not")
    if src.dynamic is not None:
        return (("indirect", "src"),)
    return (("indirect", "dst"),) if dst.dynamic is not None else ()


def _queue_attributes(call, mode, by):
    attributes = (("dge", getattr(mode, "name", str(mode))),)
    queue = operands.engine(call, by, ("sync", "scalar", "gpsimd", "vector", "tensor"))
    return attributes if queue == "any" else (*attributes, ("queue_engine", queue))


def move(s, dst, src, skip=False):
    """Copies the values. Rows that `skip` leaves out keep their old values."""
    bits = src.bits(skip)
    if src.dtype.raw != dst.dtype.raw or src.dtype is not dst.dtype:
        if not (src.dtype.packed or dst.dtype.packed):
            bits = values.encode(values.decode(bits, src.dtype), dst.dtype)
    bits = bits.reshape(dst.layout.shape)
    kept = _kept_rows(src, dst, skip)
    if dst.dynamic is not None:
        dst.put(bits, skip)
    else:
        dst.put(bits if kept is None else np.where(kept, bits, dst.bits()))


def _kept_rows(src, dst, skip):
    """Returns which rows of dst a transfer from src writes, as an array that broadcasts over dst. None: all
    rows.
    """
    kept = indirect.rows_in_bounds(src, skip)
    if kept is None or kept.all():
        return None
    rows = kept if src.dynamic.vector else np.full(dst.shape[0], kept[0])
    return rows.reshape([-1] + [1] * (len(dst.shape) - 1))


def _store(s, dst, numbers, kept, skip):
    """Writes the rows of dst that are in bounds, and of these the kept ones."""
    s.write(dst, numbers if kept is None else np.where(kept, numbers, s.read(dst, skip)), skip)


def _both(one, two):
    return two if one is None else one if two is None else one & two


# The default order of the axes for 2, 3 and 4 dimensions. The first axis becomes the last.
_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_transpose(dst, src, axes=None, priority=None, dge_mode=dge_mode.unknown, oob_mode=oob_mode.error, name=None,
                  engine=engine.unknown):  # fmt: skip
    """dst = src with its first and last axes exchanged, or in the order of `axes`."""
    call = "nki.isa.dma_transpose"
    s = sessions.active(call)
    _check_memories(call, dst, src)
    order = whole.numbers(call, "axes", axes) if axes is not None else _AXES.get(src.ndim)
    if order is None or sorted(order) != list(range(src.ndim)):
        errors.fail(call, f"axes: {axes} is no order of src's {src.ndim} dimensions")
    shape = tuple(src.shape[a] for a in order)
    if dst.layout.size != src.layout.size or [n for n in shape if n > 1] != [n for n in dst.shape if n > 1]:
        errors.fail(call, f"dst is {dst.describe()}, src {src.describe()} transposed by {list(order)} is {list(shape)}")
    unwritten_mask = s.note_read(src, call, "src")
    attributes = (("transpose", True), *_indirect(dst, src), *_queue_attributes(call, dge_mode, engine))
    s.emit("dma_copy", "dma", ("dst", "src"), [dst, src], attributes)
    if s.values:
        skip = oob_mode.name == "skip"
        kept = _kept_rows(src, src, skip)
        if kept is not None:
            kept = np.broadcast_to(kept, src.shape).transpose(order).reshape(dst.shape)
        _store(s, dst, np.ascontiguousarray(s.read(src, skip).transpose(order)).reshape(dst.shape), kept, skip)
    s.note_write(dst, unwritten_mask=None if unwritten_mask is None else unwritten_mask.transpose(order).reshape(dst.shape))
    return DONE


def dma_compute(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=oob_mode.error, name=None):
    """dst = the sum of srcs, computed by the DMA engines."""
    call = "nki.isa.dma_compute"
    s = sessions.active(call)
    op = operators.find(reduce_op, call, "reduce_op")
    srcs = whole.items(call, "srcs", srcs, "tensors")
    if not 1 <= len(srcs) <= 16:
        errors.fail(call, f"srcs: expected 1 to 16 tensors, found {len(srcs)}")
    factors = whole.items(call, "scales", () if scales is None else scales, "numbers") or [1.0] * len(srcs)
    if len(factors) != len(srcs) or not all(map(operands.is_number, factors)):
        errors.fail(call, f"scales: expected a number for each of {len(srcs)} sources, found {scales!r}")
    for i, src in enumerate(srcs):
        _check_memories(call, dst, src)
        if src.layout.size != dst.layout.size:
            errors.fail(
                call, f"dst is {dst.describe()} and srcs[{i}] is {src.describe()}: expected equally many elements"
            )
        s.note_read(src, call, f"srcs[{i}]")
    names = ("dst", "src", *(f"src{i}" for i in range(1, len(srcs))))
    found = next((i for i in map(_indirect, [dst] * len(srcs), srcs) if i), ())
    s.emit("dma_compute", "dma", names, [dst, *srcs], (("transpose", False), ("compute", op.name), *found))
    if s.values:
        total, kept, skip = None, None, oob_mode.name == "skip"
        for src, scale in zip(srcs, factors):
            part = operators.as_float(s.read(src, skip)).reshape(dst.shape) * np.float32(scale)
            total = part if total is None else operators.apply(op, total, part)
            kept = _both(kept, _kept_rows(src, dst, skip))
        _store(s, dst, total, kept, skip)
    s.note_write(dst)
    return DONE
