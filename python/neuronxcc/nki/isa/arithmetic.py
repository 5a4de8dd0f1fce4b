"""Instructions that compute."""

from __future__ import annotations

import numpy as np
from nki import isa
from nki.tracer import operands, whole
from nki.tracer.dtypes import float32
from nki.tracer.layout import SBUF

from .. import elementwise, moves, products
from ..elementwise import broadcast_operand, column_operand, intersect_boxes, mask_box, require_dtype, tile, writable_column
from ..results import issue_later, issue_pending
from ..tile import readable, writable


def nc_matmul(stationary, moving, *, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False, mask=None,
              tile_position=(), tile_size=(), **unused):  # fmt: skip
    return products.product(stationary, moving, mask, is_stationary_onezero=is_stationary_onezero,
                            is_moving_onezero=is_moving_onezero, is_transpose=is_transpose, tile_position=tile_position,
                            tile_size=tile_size)  # fmt: skip


def nc_transpose(data, *, mask=None, dtype=None, engine=isa.engine.unknown, **unused):
    return products.transpose(data, mask, dtype, engine)


def activation(
    op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=None, mask=None, dtype=None, **unused
):
    return elementwise.function(op, data, bias, scale, dtype, mask, reduce_op, reduce_res, reduce_cmd)


def activation_reduce(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None, **unused):
    return elementwise.function(op, data, bias, scale, dtype, mask, reduce_op, reduce_res, isa.reduce_cmd.reset_reduce,
                                "nisa.activation_reduce")  # fmt: skip


def tensor_tensor(data1, data2, op, *, dtype=None, mask=None, engine=isa.engine.unknown, **unused):
    """Always issues tensor_tensor, even if a tile has one element per partition."""
    call = "nisa.tensor_tensor"
    a, b = elementwise.broadcast_partitions(tile(data1, call, "data1"), tile(data2, call, "data2"))
    domain = elementwise.common_shape(call, a.shape, b.shape)
    result_dtype = require_dtype(dtype, call) if dtype is not None else elementwise.promoted(a.dtype, b.dtype)
    box = intersect_boxes(domain, mask_box(mask, domain, call), a, b)
    if box == ():
        return issue_later(domain, result_dtype, SBUF, None, ())
    if a.memory == b.memory == "psum":
        b = moves.in_sbuf(b)
    one, two = broadcast_operand(a, domain, box, call), broadcast_operand(b, domain, box, call)
    return issue_later(domain, result_dtype, SBUF, lambda dst: isa.tensor_tensor(dst, one, two, op, engine=engine), box)


def tensor_scalar(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, dtype=None, mask=None,
                  engine=isa.engine.unknown, **unused):  # fmt: skip
    return elementwise.scalar(data, op0, operand0, reverse0, op1, operand1, reverse1, dtype, mask, engine)


def tensor_reduce(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False, **unused):
    return elementwise.reduce_tile(op, data, axis, dtype, mask, negate, keepdims)


def tensor_copy(src, *, mask=None, dtype=None, engine=isa.engine.unknown, **unused):
    return elementwise.copy_tile(src, dtype, mask, engine, "nisa.tensor_copy")


def tensor_copy_dynamic_src(src, *, mask=None, dtype=None, engine=isa.engine.unknown, **unused):
    """Copies a part that a number in memory moves: `src[p, i + offsets[0, k]]`."""
    return elementwise.copy_tile(src, dtype, mask, engine, "nisa.tensor_copy_dynamic_src")


def tensor_copy_dynamic_dst(*, dst, src, mask=None, dtype=None, engine=isa.engine.unknown, **unused):
    call = "nisa.tensor_copy_dynamic_dst"
    dst, src = elementwise.tile(dst, call, "dst"), elementwise.tile(src, call, "src")
    moves.copy(dst, src, elementwise.mask_box(mask, dst.shape, call), call, engine)


def reciprocal(data, *, dtype=None, mask=None, **unused):
    return elementwise.reciprocal(data, dtype, mask)


def memset(shape, value, dtype, *, mask=None, engine=isa.engine.unknown, **unused):
    call = "nisa.memset"
    shape = (shape,) if isinstance(shape, int) else whole.numbers(call, "shape", shape)
    number = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    return issue_later(shape, require_dtype(dtype, call), SBUF, lambda dst: isa.memset(dst, number, engine=engine),
                       mask_box(mask, shape, call))  # fmt: skip


def scalar_tensor_tensor(
    *, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, mask=None, **unused
):
    call = "nisa.scalar_tensor_tensor"
    data, other = tile(data, call, "data"), tile(operand1, call, "operand1")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data, other)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    if box == ():
        return issue_later(data.shape, result_dtype, SBUF, None, ())
    if data.memory == other.memory == "psum":
        other = moves.in_sbuf(other)
    first = column_operand(operand0, data, box, call, "operand0")
    one, two = readable(data, box, call), broadcast_operand(other, data.shape, box, call)

    def make(dst):
        isa.scalar_tensor_tensor(dst, one, op0, first, op1, two, reverse0, reverse1)

    return issue_later(data.shape, result_dtype, SBUF, make, box)


def tensor_scalar_reduce(
    *, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None, **unused
):
    call = "nisa.tensor_scalar_reduce"
    data = tile(data, call, "data")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    if box == ():
        return issue_later(data.shape, result_dtype, SBUF, None, ())
    first = column_operand(operand0, data, box, call, "operand0")
    source, total = readable(data, box, call), writable_column(reduce_res, box, call, "reduce_res")

    def make(dst):
        isa.tensor_scalar_reduce(dst, source, op0, first, reduce_op, total, reverse0)

    return issue_later(data.shape, result_dtype, SBUF, make, box)


def tensor_tensor_scan(
    data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, mask=None, **unused
):
    call = "nisa.tensor_tensor_scan"
    a, b = tile(data0, call, "data0"), tile(data1, call, "data1")
    domain = elementwise.common_shape(call, a.shape, b.shape)
    box = intersect_boxes(domain, mask_box(mask, domain, call), a, b)
    result_dtype = require_dtype(dtype, call) if dtype is not None else elementwise.promoted(a.dtype, b.dtype)
    if box == ():
        return issue_later(domain, result_dtype, SBUF, None, ())
    start = column_operand(initial, a, box, call, "initial")
    one, two = broadcast_operand(a, domain, box, call), broadcast_operand(b, domain, box, call)

    def make(dst):
        isa.tensor_tensor_scan(dst, one, two, start, op0, op1, reverse0, reverse1)

    return issue_later(domain, result_dtype, SBUF, make, box)


def tensor_scalar_cumulative(
    *, src, dst, op0, op1, imm0, imm1=None, reduce_cmd=isa.reduce_cmd.reset_reduce, mask=None, **unused
):
    """Writes `dst` in place."""
    call = "nisa.tensor_scalar_cumulative"
    src, dst = tile(src, call, "src"), tile(dst, call, "dst")
    box = mask_box(mask, src.shape, call)
    if box != ():
        first, second = (column_operand(v, src, box, call, n) for v, n in ((imm0, "imm0"), (imm1, "imm1")))
        issue_pending()
        isa.tensor_scalar_cumulative(
            writable(dst, box, call), readable(src, box, call), op0, op1, first, second, reduce_cmd
        )


def tensor_partition_reduce(op, data, *, mask=None, dtype=None, **unused):
    call = "nisa.tensor_partition_reduce"
    data = tile(data, call, "data")
    source = readable(data, mask_box(mask, data.shape, call), call)
    return issue_later((1, *source.shape[1:]), dtype and require_dtype(dtype, call) or data.dtype, SBUF,
                       lambda dst: isa.tensor_partition_reduce(dst, op, source))  # fmt: skip


def tensor_copy_predicated(*, src, dst, predicate, reverse_pred=False, mask=None, **unused):
    """Writes `dst` in place where the predicate is not 0."""
    call = "nisa.tensor_copy_predicated"
    dst = tile(dst, call, "dst")
    issue_pending()
    box = mask_box(mask, dst.shape, call)
    if box == ():
        return
    source = src if operands.is_number(src) else broadcast_operand(tile(src, call, "src"), dst.shape, box, call)
    where = broadcast_operand(tile(predicate, call, "predicate"), dst.shape, box, call)
    issue_pending()
    isa.tensor_copy_predicated(writable(dst, box, call), source, where, reverse_pred)


def _one_input(call, operand, data, columns, dtype, emit, mask):
    """Issues an instruction whose result has so many elements per partition."""
    data = tile(data, call, operand)
    result_dtype = require_dtype(dtype or data.dtype, call)
    box = mask_box(mask, data.shape, call)
    source = readable(data, box, call)
    left = box and (box[0], (0, columns))
    return issue_later((data.shape[0], columns), result_dtype, SBUF, lambda dst: emit(dst, source), left)


def bn_stats(data, *, mask=None, dtype=None, **unused):
    return _one_input("nisa.bn_stats", "data", data, 6, dtype or float32, isa.bn_stats, mask)


def bn_aggr(data, *, mask=None, dtype=None, **unused):
    return _one_input("nisa.bn_aggr", "data", data, 2, dtype or float32, isa.bn_aggr, mask)


def max8(*, src, mask=None, dtype=None, **unused):
    return _one_input("nisa.max8", "src", src, 8, dtype, isa.max8, mask)


def nc_find_index8(*, data, vals, mask=None, dtype=None, **unused):
    call = "nisa.nc_find_index8"
    data, vals = tile(data, call, "data"), tile(vals, call, "vals")
    one, two = readable(data), readable(vals)
    return issue_later(
        (data.shape[0], 8), require_dtype(dtype or "uint32", call), SBUF, lambda dst: isa.nc_find_index8(dst, one, two)
    )


def nc_match_replace8(*, data, vals, imm, dst_idx=None, mask=None, dtype=None, **unused):
    call = "nisa.nc_match_replace8"
    data, vals = tile(data, call, "data"), tile(vals, call, "vals")
    one, two, index = readable(data), readable(vals), None if dst_idx is None else writable(tile(dst_idx, call, "dst_idx"))
    return issue_later(data.shape, require_dtype(dtype or data.dtype, call), SBUF,
                       lambda dst: isa.nc_match_replace8(dst, one, two, imm, index))  # fmt: skip


def dropout(data, prob, *, mask=None, dtype=None, **unused):
    call = "nisa.dropout"
    data = tile(data, call, "data")
    chance = column_operand(prob, data, None, call, "prob")
    source = readable(data)
    return issue_later(
        data.shape, require_dtype(dtype or data.dtype, call), SBUF, lambda dst: isa.dropout(dst, source, chance)
    )
