"""Functions that consist of several instructions."""

from __future__ import annotations

from .. import isa
from ..tracer import dtypes, errors, operands, whole
from ..tracer.operators import ALL
from .creation import ndarray
from .math import elementwise, mean, reduction, unary
from .memory import psum


def var(x, axis, dtype=None, keepdims=True):
    """Returns the mean squared distance from the mean. The reduced axes stay with one element."""
    operands.tensor("nki.language.var", "x", x)
    center = mean(x, axis, "float32", True)
    distance = elementwise(ALL["subtract"], x, center, "float32")
    return mean(unary(ALL["square"], distance), axis, dtype or x.dtype, True)


def softmax(x, axis=-1, dtype=None):
    top = reduction("maximum", x, axis, "float32", True)
    powers = unary(ALL["exp"], elementwise(ALL["subtract"], x, top, "float32"))
    total = reduction("add", powers, axis, "float32", True)
    return elementwise(ALL["multiply"], powers, unary(ALL["reciprocal"], total), dtype or x.dtype)


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None):
    """Returns x / sqrt(sum of squares / n + epsilon) * w."""
    call = "nki.language.rms_norm"
    operands.tensor(call, "x", x)
    if not operands.is_number(n) or n <= 0:
        errors.fail(call, f"n: expected the number of values, found {operands.describe(n)}")
    wide = compute_dtype or "float32"
    squares = reduction("add", unary(ALL["square"], x, wide), axis, wide, True)
    scaled = ndarray(squares.shape, wide)
    isa.tensor_scalar(scaled, squares, ALL["multiply"], 1.0 / n, op1=ALL["add"], operand1=epsilon)
    normed = elementwise(ALL["multiply"], x, unary(ALL["rsqrt"], scaled), wide)
    return elementwise(ALL["multiply"], normed, w, dtype or x.dtype)


def where(condition, x, y, dtype=None):
    """Returns x where the condition is not zero, else y."""
    call = "nki.language.where"
    operands.tensor(call, "condition", condition)
    tiles = [operands.tensor(call, name, v) for name, v in (("x", x), ("y", y)) if not operands.is_number(v)]
    shaped = tiles[0] if tiles else condition
    out = ndarray(condition.shape, dtype or shaped.dtype)
    if operands.is_number(y):
        isa.memset(out, y)
    else:
        isa.tensor_copy(out, y)
    predicate = ndarray(condition.shape, "uint8")
    isa.tensor_scalar(predicate, condition, ALL["not_equal"], 0.0)
    if not operands.is_number(x) and x.dtype is not out.dtype:
        wide = ndarray(x.shape, out.dtype)
        isa.tensor_copy(wide, x)
        x = wide
    isa.tensor_copy_predicated(out, x, predicate)
    return out


def transpose(x, dtype=None):
    """Returns a tile with partitions and free axis exchanged."""
    operands.tensor("nki.language.transpose", "x", x)
    across = ndarray((x.layout.free, x.shape[0]), x.dtype, buffer=psum)
    isa.nc_transpose(across, x)
    out = ndarray(across.shape, dtype or x.dtype)
    isa.tensor_copy(out, across)
    return out


def matmul(x, y, transpose_x=False):
    """Returns x @ y, or x.T @ y, in PSUM."""
    call = "nki.language.matmul"
    operands.tensor(call, "x", x)
    operands.tensor(call, "y", y)
    stationary = x if transpose_x else transpose(x)
    out = ndarray((stationary.layout.free, y.layout.free), "float32", buffer=psum)
    isa.nc_matmul(out, stationary, y)
    return out


def expand_dims(x, axis):
    return operands.tensor("nki.language.expand_dims", "x", x).expand_dim(axis)


def broadcast_to(x, shape, dtype=None):
    """Returns a tile of that shape in which axes of one element are repeated."""
    call = "nki.language.broadcast_to"
    operands.tensor(call, "x", x)
    shape = whole.numbers(call, "shape", shape)
    if not shape or x.shape[0] not in (1, shape[0]):
        errors.fail(call, f"{x.describe()} does not become {list(shape)}")
    out = ndarray(shape, dtype or x.dtype)
    wide = x.broadcast_to((x.shape[0], *shape[1:]))
    if x.shape[0] == shape[0]:
        isa.tensor_copy(out, wide)
        return out
    if out.dtype is not x.dtype:
        narrow = ndarray(wide.shape, out.dtype)
        isa.tensor_copy(narrow, wide)
        wide = narrow
    for first in range(0, shape[0], 32):  # a shuffle copies one partition to the 32 of a quadrant
        isa.nc_stream_shuffle(out[first : min(first + 32, shape[0])], wide, [0] * 32)
    return out


def gather_flattened(data, indices, axis=0, dtype=None):
    """Returns elements of each partition by their index in the partition."""
    call = "nki.language.gather_flattened"
    operands.tensor(call, "data", data)
    gathered = ndarray(operands.tensor(call, "indices", indices).shape, data.dtype)
    isa.nc_n_gather(gathered, data, indices)
    if dtype is None or dtypes.find(dtype) is data.dtype:
        return gathered
    out = ndarray(indices.shape, dtype)
    isa.tensor_copy(out, gathered)
    return out


def dropout(x, rate, dtype=None):
    operands.tensor("nki.language.dropout", "x", x)
    out = ndarray(x.shape, dtype or x.dtype)
    isa.dropout(out, x, rate)
    return out
