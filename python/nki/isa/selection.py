"""Patterns, masks and searches: iota and the selects, max8 and related instructions,
nonzero_with_count.
"""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, operators, whole
from ..tracer import session as sessions
from .elementwise import scalar_operand
from .enums import reduce_cmd
from .instruction import DONE
from .reductions import accumulate, check_reduces, free_axes

_LOWEST_FLOAT = -3.4028235e38


def _affine_numbers(call, dst, pattern, offset, channel_multiplier):
    """Returns the whole numbers of a pattern [[step, count], ...], one per element of dst."""
    pairs = whole.pairs(call, "pattern", pattern)
    if int(np.prod([n for _, n in pairs])) != dst.layout.free:
        errors.fail(
            call, f"pattern {list(pattern)} has not the {dst.layout.free} elements of a partition of {dst.describe()}"
        )
    channel, first = whole.number(call, "channel_multiplier", channel_multiplier), whole.number(call, "offset", offset)
    numbers = np.arange(dst.layout.partitions).reshape([-1] + [1] * len(pairs)) * channel + first
    for axis, (step, count) in enumerate(pairs, 1):
        numbers = numbers + (np.arange(count) * step).reshape([-1 if a == axis else 1 for a in range(len(pairs) + 1)])
    return numbers.reshape(dst.shape)


def iota(dst, pattern, offset=0, channel_multiplier=0, name=None):
    """dst[p, x, ...] = offset + p * channel_multiplier + x * step + ..."""
    call = "nki.isa.iota"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    numbers = _affine_numbers(call, dst, pattern, offset, channel_multiplier)
    s.emit("iota", "gpsimd", ("dst",), [dst])
    if s.values:
        s.write(dst, numbers)
    s.note_write(dst)
    return DONE


def affine_select(
    dst, pattern, channel_multiplier=0, on_true_tile=None, on_false_value=0.0, cmp_op="equal", offset=0, name=None
):
    """dst = on_true_tile where cmp_op(the affine pattern, 0) holds, else on_false_value."""
    call = "nki.isa.affine_select"
    s = sessions.active(call)
    compare = operators.find(cmp_op, call, "cmp_op")
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "on_true_tile", on_true_tile)
    operands.same_elements(call, "dst", dst, "on_true_tile", on_true_tile)
    operands.number(call, "on_false_value", on_false_value)
    numbers = _affine_numbers(call, dst, pattern, offset, channel_multiplier)
    unwritten_mask = s.note_read(on_true_tile, call, "on_true_tile")
    s.emit("affine_select", "gpsimd", ("dst", "on_true"), [dst, on_true_tile], (("op", compare.name),))
    if s.values:
        chosen = compare.evaluate(numbers, 0)
        unwritten_mask = _selected_unwritten(unwritten_mask, chosen)
        s.write(dst, np.where(chosen, s.read(on_true_tile).reshape(dst.shape), np.float32(on_false_value)))
    s.note_write(dst, unwritten_mask=unwritten_mask)
    return DONE


def _selected_unwritten(unwritten_mask, chosen):
    """Returns which unwritten elements a selection takes. Unwritten elements that are not taken do
    no harm.
    """
    return None if unwritten_mask is None else unwritten_mask.reshape(chosen.shape) & chosen


def range_select(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.reset_reduce, reduce_res=None,
                 reduce_op="maximum", range_start=0, on_false_value=_LOWEST_FLOAT, name=None):  # fmt: skip
    """dst = on_true_tile where the element's index is within both bounds, else on_false_value. Also
    reduces dst.
    """
    call = "nki.isa.range_select"
    s = sessions.active(call)
    if s.device.generation < 3:
        errors.fail(call, f"{s.device.name} does not have it")
    first, second = operators.find(comp_op0, call, "comp_op0"), operators.find(comp_op1, call, "comp_op1")
    check_reduces(call, "reduce_op", operators.find(reduce_op, call, "reduce_op"))
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "on_true_tile", on_true_tile)
    operands.same_elements(call, "dst", dst, "on_true_tile", on_true_tile)
    operands.number(call, "range_start", range_start)
    operands.number(call, "on_false_value", on_false_value)
    views, names = [dst, on_true_tile], ["dst", "on_true"]
    for i, bound in enumerate((bound0, bound1)):
        if operands.per_partition(call, f"bound{i}", bound, dst.layout.partitions) is None:
            errors.fail(call, f"bound{i}: expected a tensor of shape [{dst.layout.partitions}, 1], found {bound!r}")
        s.note_read(bound, call, f"bound{i}")
        views.append(bound)
        names.append(f"scalar{i}")
    _add_reduction_operand(call, reduce_res, dst, views, names)
    unwritten_mask = s.note_read(on_true_tile, call, "on_true_tile")
    s.emit("range_select", "vector", tuple(names), views, (("op0", first.name), ("op1", second.name)))
    if s.values:
        numbers = (np.arange(dst.layout.free, dtype=np.float32) + range_start).reshape((1, *dst.shape[1:]))
        low, high = (scalar_operand(s, call, "bound", b, on_true_tile) for b in (bound0, bound1))
        chosen = first.evaluate(numbers, low) & second.evaluate(numbers, high)
        result = np.where(
            chosen, operators.as_float(s.read(on_true_tile)).reshape(dst.shape), np.float32(on_false_value)
        )
        unwritten_mask = _selected_unwritten(unwritten_mask, chosen)
        s.write(dst, result)
        _reduce(s, call, reduce_op, reduce_cmd, result, reduce_res)
    _note_results(s, dst, reduce_res, unwritten_mask)
    return DONE


def select_reduce(dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_op="maximum",
                  reverse_pred=False, name=None):  # fmt: skip
    """dst = on_true where the predicate is not zero, else on_false. Also reduces dst if
    `reduce_cmd` says so.
    """
    call = "nki.isa.select_reduce"
    s = sessions.active(call)
    check_reduces(call, "reduce_op", operators.find(reduce_op, call, "reduce_op"))
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "predicate", predicate)
    operands.on_chip(call, "on_true", on_true)
    operands.same_elements(call, "dst", dst, "on_true", on_true)
    operands.same_elements(call, "dst", dst, "predicate", predicate)
    operands.not_both_in_psum(call, "on_true", on_true, "predicate", predicate)
    views, names = [dst, on_true, predicate], ["dst", "on_true", "mask"]
    if operands.required_per_partition(call, "on_false", on_false, dst.layout.partitions) is not None:
        s.note_read(on_false, call, "on_false")
        views.append(on_false)
        names.append("scalar0")
    _add_reduction_operand(call, reduce_res, dst, views, names)
    s.note_read(predicate, call, "predicate")
    unwritten_mask = s.note_read(on_true, call, "on_true")
    s.emit("select_reduce", "vector", tuple(names), views)
    if s.values:
        chosen = (s.read(predicate).reshape(dst.shape) != 0) != bool(reverse_pred)
        other = scalar_operand(s, call, "on_false", on_false, on_true)
        result = np.where(chosen, operators.as_float(s.read(on_true)).reshape(dst.shape), other).astype(np.float32)
        unwritten_mask = _selected_unwritten(unwritten_mask, chosen)
        s.write(dst, result)
        if reduce_res is not None or reduce_cmd.name != "idle":
            _reduce(s, call, reduce_op, reduce_cmd, result, reduce_res)
    _note_results(s, dst, reduce_res, unwritten_mask)
    return DONE


def _add_reduction_operand(call, reduce_res, dst, views, names):
    if reduce_res is not None:
        operands.per_partition(call, "reduce_res", reduce_res, dst.layout.partitions)
        views.insert(1, reduce_res)
        names.insert(1, "dst1")


def _reduce(s, call, reduce_op, command, result, reduce_res):
    op = operators.find(reduce_op, call, "reduce_op")
    part = op.reduce(result, free_axes(result)).reshape(-1)
    accumulate(s, call, "vector", op, command, part, result=reduce_res)


def _note_results(s, dst, result, unwritten_mask=None):
    """Marks dst and its reduction as written. A partition's reduction is unwritten if an element of
    the partition is.
    """
    s.note_write(dst, unwritten_mask=unwritten_mask)
    if result is not None:
        rows = None if unwritten_mask is None else unwritten_mask.reshape(len(unwritten_mask), -1).any(axis=1).reshape(result.shape)
        s.note_write(result, unwritten_mask=rows)


# The following instructions work on the eight largest elements.


def _check_eight(call, operand, view, limit=16384):
    operands.on_chip(call, operand, view)
    if not 8 <= view.layout.free <= limit:
        errors.fail(call, f"{operand}: {view.describe()}, expected 8 to {limit} elements in a partition")


def _check_partitions(call, operand, view, other, partitions):
    if view.layout.partitions != partitions.layout.partitions:
        errors.fail(call, f"{operand} is {view.describe()} and {other} is {partitions.describe()}: expected equal partitions "
                          f"({errors.PARTITION_MISMATCH})")  # fmt: skip


def max8(dst, src, name=None):
    """dst = the eight largest elements of each partition, in descending order."""
    call = "nki.isa.max8"
    s = sessions.active(call)
    _check_eight(call, "dst", dst, 8)
    _check_eight(call, "src", src)
    _check_partitions(call, "dst", dst, "src", src)
    s.note_read(src, call, "src")
    s.emit("max8", "vector", ("dst", "src"), [dst, src])
    if s.values:
        numbers = operators.as_float(s.read(src)).reshape(src.shape[0], -1)
        s.write(dst, -np.sort(-numbers, axis=1)[:, :8].reshape(dst.shape))
    s.note_write(dst)
    return DONE


def _matches(numbers, values, order):
    """Returns the first free position of each of the eight values in each partition, or -1. A
    position is used once.
    """
    found = np.full(values.shape, -1, np.int64)
    for p in range(len(numbers)):
        unused: dict = {}
        for k in order:
            value = values[p, k]
            positions = unused.get(value)
            if positions is None:
                positions = unused[value] = iter(np.flatnonzero(numbers[p] == value))
            found[p, k] = next(positions, -1)
    return found


def nc_find_index8(dst, data, vals, name=None):
    """dst = the first position of each of the eight `vals`, or all ones if a value is not found."""
    call = "nki.isa.nc_find_index8"
    s = sessions.active(call)
    _check_eight(call, "dst", dst, 8)
    _check_eight(call, "data", data)
    _check_eight(call, "vals", vals, 8)
    _check_partitions(call, "dst", dst, "data", data)
    _check_partitions(call, "vals", vals, "data", data)
    if dst.dtype not in (dtypes.uint16, dtypes.uint32):
        errors.fail(call, f"dst: {dst.describe()}, expected uint16 or uint32")
    s.note_read(data, call, "data")
    s.note_read(vals, call, "vals")
    s.emit("nc_find_index8", "vector", ("dst", "src", "src1"), [dst, data, vals])
    if s.values:
        a, b = (operators.as_float(s.read(v)).reshape(v.shape[0], -1) for v in (data, vals))
        found = _matches(a, b, range(8))
        s.write(dst, np.where(found < 0, np.iinfo(dst.dtype.raw).max, found).reshape(dst.shape))
    s.note_write(dst)
    return DONE


def nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None):
    """dst = data in which the first occurrence of each of the eight `vals` is replaced by `imm`.
    dst_idx = their positions.
    """
    call = "nki.isa.nc_match_replace8"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    _check_eight(call, "data", data)
    _check_eight(call, "vals", vals, 8)
    _check_partitions(call, "vals", vals, "data", data)
    operands.same_elements(call, "dst", dst, "data", data)
    operands.number(call, "imm", imm)
    if dst_idx is not None:
        _check_eight(call, "dst_idx", dst_idx, 8)
        _check_partitions(call, "dst_idx", dst_idx, "data", data)
        if not dst_idx.dtype.integer:
            errors.fail(call, f"dst_idx: {dst_idx.describe()}, expected integers")
    s.note_read(data, call, "data")
    s.note_read(vals, call, "vals")
    if dst_idx is None:
        s.emit("nc_match_replace8", "vector", ("dst", "src", "src1"), [dst, data, vals])
    else:
        s.emit("nc_match_replace8", "vector", ("dst", "dst1", "src", "src1"), [dst, dst_idx, data, vals])
    if s.values:
        a, b = (operators.as_float(s.read(v)).reshape(v.shape[0], -1) for v in (data, vals))
        found = _matches(a, b, range(7, -1, -1))
        rows, columns = np.nonzero(found >= 0)
        a = a.copy()
        a[rows, found[rows, columns]] = imm
        s.write(dst, a.reshape(dst.shape))
        if dst_idx is not None:
            s.write(dst_idx, np.where(found < 0, np.iinfo(dst_idx.dtype.raw).max, found).reshape(dst_idx.shape))
    _note_results(s, dst, dst_idx)
    return DONE


def nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None):
    """Writes the positions of the nonzero elements, padding and their count in each 16th partition.
    """
    call = "nki.isa.nonzero_with_count"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst, ("sbuf",))
    operands.on_chip(call, "src", src, ("sbuf",))
    if dst.layout.free != src.layout.free + 1 or dst.layout.partitions != src.layout.partitions:
        errors.fail(call, f"dst is {dst.describe()} and src is {src.describe()}: expected one element more in dst")
    operands.number(call, "padding_val", padding_val)
    operands.number(call, "index_offset", index_offset)
    rows = slice(0, None, 16)
    unwritten_mask = s.note_read(src, call, "src")
    s.emit("nonzero_with_count", "gpsimd", ("dst", "src"), [dst, src])
    if not s.values:
        s.note_write(dst)
        return DONE
    numbers = s.read(src).reshape(src.shape[0], -1)[rows]
    out = np.full((len(numbers), numbers.shape[1] + 1), padding_val, np.int64)
    for row, found in zip(out, map(np.flatnonzero, numbers)):
        row[: len(found)] = found + index_offset
        row[-1] = len(found)
    target = dst[rows]
    s.write(target, out.reshape(target.shape))
    unknown = np.zeros(target.shape, bool)
    if unwritten_mask is not None:
        unknown[unwritten_mask[rows].reshape(len(numbers), -1).any(axis=1)] = True
    s.note_write(target, unwritten_mask=unknown)
    return DONE
