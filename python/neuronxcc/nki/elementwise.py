"""Translates the elementwise and reducing functions of nl.* into instructions.

two tiles of one shape          tensor_tensor
a tile and a number, or a       tensor_scalar (a float32 tile with one element per partition is an
tile [partitions, 1]            operand of the instruction; other shapes that broadcast are read with
                                stride 0)
a function                      activation on the Scalar engine; reciprocal on the Vector engine
a reduction of free axes        tensor_reduce; the axes are moved to the end of the access pattern
a broadcast across partitions   a product with ones (moves.copy_across_partitions)
"""

from __future__ import annotations

import functools

import numpy as np
from nki import isa
from nki.tracer import dtypes, errors, operands
from nki.tracer.dtypes import float32
from nki.tracer.layout import PSUM, SBUF

from . import moves
from .index import Mask
from .results import issue_later, issue_pending
from .tile import Tile, intersect, match_shape, readable, writable


def require_dtype(dtype, call: str):
    found = dtypes.find(dtype)
    if found is None:
        errors.fail(call, f"dtype: expected an element type of nl, found {dtype!r}")
    return found


def promoted(*types):
    """Returns the type of a result whose operands have these types."""
    return functools.reduce(dtypes.promoted, types)


def tile(value, call: str, operand: str) -> Tile:
    if isinstance(value, Tile):
        value.tensor  # issues the result if it waits
        if value.memory not in (SBUF, PSUM):
            errors.fail(call, f"{operand}: {value.describe()}, expected a tile in sbuf or psum; nl.load moves it there")
        return value
    from .blocks import Blocks

    if isinstance(value, Blocks):
        return value.only_block(call)
    errors.fail(call, f"{operand}: expected a tile, found {operands.describe(value)}")


def mask_box(mask, shape, call: str):
    """Returns the box that a mask leaves: None for everything, () for nothing, else a range per
    dimension.
    """
    if mask is None or mask is True or isinstance(mask, np.bool_) and mask:
        return None
    if mask is False or isinstance(mask, np.bool_):
        return ()
    if not isinstance(mask, Mask):
        hint = "; nl.where selects by a tile" if isinstance(mask, Tile) else ""
        errors.fail(call, f"mask: expected a comparison of index expressions, found {_found(mask)}{hint}")
    box = mask.box(shape, call)
    return () if box is None else None if all(b == (0, n) for b, n in zip(box, shape)) else tuple(box)


def _found(value) -> str:
    return value.describe() if isinstance(value, Tile) else operands.describe(value)


def pad_rank(shape: tuple, rank: int) -> tuple:
    """Returns the shape with more dimensions. The partitions stay first, and free dimensions align
    at the end.
    """
    return (shape[0], *(1,) * (rank - len(shape)), *shape[1:])


def common_shape(call: str, *shapes) -> tuple:
    rank = max(map(len, shapes))
    shapes = [pad_rank(s, rank) for s in shapes]
    for sizes in zip(*shapes):
        if len({n for n in sizes if n != 1}) > 1:
            errors.fail(call, f"tiles of {' and '.join(str(list(s)) for s in shapes)} do not broadcast")
    return tuple(max(sizes) for sizes in zip(*shapes))


def broadcast_operand(value: Tile, domain: tuple, box, call: str):
    """Returns an operand's tensor as the instruction reads it: cut to the box, with stride 0 where
    it broadcasts.
    """
    shape = pad_rank(value.shape, len(domain))
    if shape == domain and shape == value.shape:
        return readable(value, box, call)
    full = box or tuple((0, n) for n in domain)
    own = [b if n != 1 else (0, 1) for b, n in zip(full, shape)]
    own = (own[0], *own[len(shape) - len(value.shape) + 1 :])
    tensor = readable(value, own if box else None, call)
    strides = (tensor.strides[0], *(0,) * (len(shape) - len(value.shape)), *tensor.strides[1:])
    sizes = tuple(stop - start for start, stop in full)
    return tensor.with_layout(
        sizes, tuple(0 if n == 1 and size != 1 else s for n, s, size in zip(shape, strides, sizes))
    )


def intersect_boxes(domain, box, *tiles):
    for t in tiles:
        if t.box is not None and pad_rank(t.shape, len(domain)) == domain and t.shape == domain:
            box = intersect(box, t.box)
    return box


def is_column(value: Tile) -> bool:
    """Returns whether the tile has one element in each partition."""
    return all(n == 1 for n in value.shape[1:])


def binary(op, a, b, dtype=None, mask=None, engine=isa.engine.unknown, call: str = "nl"):
    if operands.is_number(a) and operands.is_number(b):
        errors.fail(call, "expected at least one tile")
    if operands.is_number(b):
        return scalar(a, op, b, dtype=dtype, mask=mask, engine=engine, call=call)
    if operands.is_number(a):
        return scalar(b, op, a, reverse0=True, dtype=dtype, mask=mask, engine=engine, call=call)
    a, b = tile(a, call, "x"), tile(b, call, "y")
    a, b = broadcast_partitions(a, b)
    domain = common_shape(call, a.shape, b.shape)
    result_dtype = require_dtype(dtype, call) if dtype is not None else promoted(a.dtype, b.dtype)
    if is_column(b) and not is_column(a) and b.dtype is float32:
        return scalar(a, op, b, dtype=result_dtype, mask=mask, engine=engine, call=call)
    if is_column(a) and not is_column(b) and a.dtype is float32:
        return scalar(b, op, a, reverse0=True, dtype=result_dtype, mask=mask, engine=engine, call=call)
    box = intersect_boxes(domain, mask_box(mask, domain, call), a, b)
    if a.memory == PSUM and b.memory == PSUM and box != ():
        b = moves.in_sbuf(b)

    def make(
        dst,
        one=None if box == () else broadcast_operand(a, domain, box, call),
        two=None if box == () else broadcast_operand(b, domain, box, call),
    ):
        isa.tensor_tensor(dst, one, two, op, engine=engine)

    return issue_later(domain, result_dtype, SBUF, make, box)


def broadcast_partitions(a: Tile, b: Tile):
    """Copies a tile of one partition to many partitions if the other tile has many."""
    if a.shape[0] == 1 and b.shape[0] > 1:
        return moves.copy_across_partitions(a, b.shape[0]), b
    if b.shape[0] == 1 and a.shape[0] > 1:
        return a, moves.copy_across_partitions(b, a.shape[0])
    return a, b


def column_operand(value, data: Tile, box, call: str, operand: str):
    """Returns the operand if it is a number, else its tensor of one element per partition."""
    if value is None or operands.is_number(value):
        return value.item() if isinstance(value, np.ndarray) else value
    value = tile(value, call, operand)
    if not is_column(value):
        errors.fail(call, f"{operand}: {value.describe()}, expected a number or a tile of one element per partition")
    if value.shape[0] == 1 and data.shape[0] > 1:
        value = moves.copy_across_partitions(value, data.shape[0])
    if len(value.shape) > 2:
        value = match_shape(value, (value.shape[0], 1))
    return readable(value, None if box is None or box == () else (box[0], (0, 1)), call)


def writable_column(result, box, call: str, operand: str):
    """Returns the tensor of a second result with one element per partition."""
    result = tile(result, call, operand)
    if not is_column(result):
        errors.fail(call, f"{operand}: {result.describe()}, expected one element per partition")
    return writable(match_shape(result, (result.shape[0], 1)), None if box is None else (box[0], (0, 1)), call)


def scalar(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, dtype=None, mask=None,
           engine=isa.engine.unknown, call: str = "nisa.tensor_scalar"):  # fmt: skip
    data = tile(data, call, "data")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    if box == ():
        return issue_later(data.shape, result_dtype, SBUF, None, box)
    first, second = (column_operand(v, data, box, call, n) for v, n in ((operand0, "operand0"), (operand1, "operand1")))
    source = readable(data, box, call)

    def make(dst):
        isa.tensor_scalar(dst, source, op0, first, reverse0, op1, second, reverse1, engine=engine)

    return issue_later(data.shape, result_dtype, SBUF, make, box)


def function(op, data, bias=None, scale=1.0, dtype=None, mask=None, reduce_op=None, reduce_res=None, command=None,
             call: str = "nisa.activation"):  # fmt: skip
    """dst = op(data * scale + bias) on the Scalar engine. With `reduce_op` also the sum of dst over
    the free axes.
    """
    data = tile(data, call, "data")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype if data.dtype.float else float32
    if box == ():
        return issue_later(data.shape, result_dtype, SBUF, None, box)
    if operands.is_number(bias) and bias != 0:
        bias = Tile(moves.constant(float(bias), data.shape[0]))
    added, factor = (column_operand(v, data, box, call, n) for v, n in ((bias, "bias"), (scale, "scale")))
    source = readable(data, box, call)
    more = {}
    if reduce_res is not None:
        more["reduce_res"] = writable_column(reduce_res, box, call, "reduce_res")
    if reduce_op is not None:
        more["reduce_op"] = reduce_op
    if command is not None:
        more["reduce_cmd"] = command

    def make(dst):
        isa.activation(dst, op, source, added, factor, **more)

    return issue_later(data.shape, result_dtype, SBUF, make, box)


def reciprocal(data, dtype=None, mask=None, call: str = "nisa.reciprocal"):
    data = tile(data, call, "data")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    source = None if box == () else readable(data, box, call)
    return issue_later(data.shape, result_dtype, SBUF, lambda dst: isa.reciprocal(dst, source), box)


def copy_tile(data, dtype=None, mask=None, engine=isa.engine.unknown, call: str = "nl.copy"):
    data = tile(data, call, "src")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    source = None if box == () else readable(data, box, call)
    return issue_later(data.shape, result_dtype, SBUF, lambda dst: isa.tensor_copy(dst, source, engine=engine), box)


def reduce_tile(op, data, axis, dtype=None, mask=None, negate=False, keepdims=False, call: str = "nisa.tensor_reduce"):
    data = tile(data, call, "data")
    given_axes = axis if isinstance(axis, (list, tuple)) else (axis,)
    if not all(operands.is_number(a) and -data.ndim <= a < data.ndim for a in given_axes):
        errors.fail(call, f"axis: expected free axes of {data.describe()}, found {operands.describe(axis)}")
    axes = [int(a) % data.ndim for a in given_axes]
    if len(set(axes)) < len(axes):
        errors.fail(call, f"axis: {axis} names a dimension twice")
    if 0 in axes:
        errors.fail(call, f"axis: {axis} names the partitions of {data.describe()}; only free axes are reduced")
    box = intersect_boxes(data.shape, mask_box(mask, data.shape, call), data)
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    kept = [a for a in range(data.ndim) if a not in axes]
    shape = tuple(1 if a in axes else n for a, n in enumerate(data.shape) if keepdims or a not in axes)
    if box is not None and box != ():
        left = tuple((0, 1) if a in axes else box[a] for a in range(data.ndim) if keepdims or a not in axes)
        left = left if len(left) > 1 else (*left, (0, 1))
    else:
        left = box
    if box == ():
        return issue_later(shape, result_dtype, SBUF, None, ())
    source = readable(data, box, call).permute((*kept, *sorted(axes)))
    last = tuple(range(len(kept), data.ndim))

    def make(dst):
        isa.tensor_reduce(dst, op, source, last, negate=negate)

    return issue_later(shape, result_dtype, SBUF, make, left)


def select_elements(condition, x, y, dtype=None, mask=None, call: str = "nl.where"):
    """Returns x where the condition is not 0, else y. First y is written, and then x under the
    predicate.
    """
    condition = tile(condition, call, "condition")
    tiles = [tile(v, call, n) for v, n in ((x, "x"), (y, "y")) if not operands.is_number(v)]
    domain = common_shape(call, condition.shape, *(t.shape for t in tiles))
    result_dtype = require_dtype(dtype, call) if dtype is not None else promoted(*(t.dtype for t in tiles)) if tiles else float32
    box = intersect_boxes(domain, mask_box(mask, domain, call), condition, *tiles)
    if box == ():
        return issue_later(domain, result_dtype, SBUF, None, ())
    if not operands.is_number(x) and x.memory == PSUM and condition.memory == PSUM:
        condition = moves.in_sbuf(condition)
    one, two = (v if operands.is_number(v) else broadcast_operand(v, domain, box, call) for v in (x, y))
    where = broadcast_operand(condition, domain, box, call)

    def make(dst):
        isa.memset(dst, two) if operands.is_number(two) else isa.tensor_copy(dst, two)
        isa.tensor_copy_predicated(dst, one, where)

    return issue_later(domain, result_dtype, SBUF, make, box)


def softmax(x, axis=-1, dtype=None, mask=None, call: str = "nl.softmax"):
    x = tile(x, call, "x")
    largest = reduce_tile("maximum", x, axis, float32, mask, negate=True, call=call)
    largest.tensor
    total = moves.scratch((x.shape[0], 1), float32)
    if x.ndim != 2:
        errors.fail(call, f"x: {x.describe()}, expected two dimensions")
    powers = function("exp", x, bias=largest, dtype=float32, mask=mask, reduce_op="add", reduce_res=total,
                      command=isa.reduce_cmd.reset_reduce, call=call)  # fmt: skip
    powers.tensor
    inverse = reciprocal(total, call=call)
    inverse.tensor
    issue_pending()
    return scalar(powers, "multiply", inverse, dtype=dtype or x.dtype, mask=mask, call=call)


def rms_norm(x, w, axis, count, epsilon, dtype, compute_dtype, mask, call: str = "nl.rms_norm"):
    """Issues the squares and their sum, one activation for the inverse root of the mean, and two
    products.
    """
    x, w = tile(x, call, "x"), tile(w, call, "w")
    if not operands.is_number(count) or count <= 0:
        errors.fail(call, f"n: expected the number of values, found {operands.describe(count)}")
    computed = require_dtype(compute_dtype, call)
    squares = function("square", x, dtype=computed, mask=mask, call=call)
    squares.tensor
    total = reduce_tile("add", squares, axis, float32, mask, keepdims=True, call=call)
    total.tensor
    root = function("rsqrt", total, bias=float(epsilon), scale=1.0 / count, dtype=float32, call=call)
    root.tensor
    normed = binary("multiply", x, root, computed, mask, call=call)
    normed.tensor
    return binary("multiply", normed, w, dtype or x.dtype, mask, call=call)
