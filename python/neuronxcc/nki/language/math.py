"""Functions of tiles. If a function is the `op` of an instruction, only its name counts."""

from __future__ import annotations

from nki import isa
from nki.tracer import errors, operands, operators
from nki.tracer.dtypes import float32

from .. import elementwise, moves, products
from ..index import Index
from ..results import issue_later, issue_pending
from ..tile import Tile, TileComparison, readable
from .loop_reduction import loop_reduce

_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod", "fmod", "equal", "not_equal", "less",
           "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
           "right_shift", "logical_and", "logical_or", "logical_xor")  # fmt: skip
_SCALAR_ENGINE = ("square", "sigmoid", "relu", "gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "silu", "silu_dx",
                  "tanh", "softplus", "mish", "erf", "erf_dx", "exp", "log", "sin", "arctan", "sqrt", "rsqrt", "sign", "abs")  # fmt: skip
_VECTOR_ENGINE = ("ceil", "floor", "trunc", "logical_not", "invert", "cos", "tan")


def _binary(op):
    def function(x, y, *, dtype=None, mask=None, **unused):
        return elementwise.binary(op, x, y, dtype, mask, call=f"nl.{op.name}")

    return _named(function, op)


def _activation(op):
    def function(x, *, dtype=None, mask=None, **unused):
        return elementwise.function(op, x, dtype=dtype, mask=mask, call=f"nl.{op.name}")

    return _named(function, op)


def _unary(op):
    def function(x, *, dtype=None, mask=None, **unused):
        return elementwise.scalar(x, op, None, dtype=dtype, mask=mask, call=f"nl.{op.name}")

    return _named(function, op)


def _named(function, op):
    function.__name__ = function.__qualname__ = op.name
    function.operator = op
    return function


for _names, _make in ((_BINARY, _binary), (_SCALAR_ENGINE, _activation), (_VECTOR_ENGINE, _unary)):
    for _name in _names:
        globals()[_name] = _make(operators.ALL[_name])


def reciprocal(x, *, dtype=None, mask=None, **unused):
    return elementwise.reciprocal(x, dtype, mask, call="nl.reciprocal")


def negative(x, *, dtype=None, mask=None, **unused):
    return elementwise.scalar(x, "multiply", -1.0, dtype=dtype, mask=mask, call="nl.negative")


reciprocal.operator, negative.operator = operators.ALL["reciprocal"], operators.ALL["negative"]


def _reduction(name, operator):
    def function(x, axis, *, dtype=None, mask=None, keepdims=False, **unused):
        return elementwise.reduce_tile(operator, x, axis, dtype, mask, keepdims=keepdims, call=f"nl.{name}")

    function.__name__ = function.__qualname__ = name
    function.operator = operator
    return function


sum = _reduction("sum", operators.ALL["add"])  # noqa: A001
max = _reduction("max", operators.ALL["maximum"])  # noqa: A001
min = _reduction("min", operators.ALL["minimum"])  # noqa: A001
prod = _reduction("prod", operators.ALL["multiply"])
all = _reduction("all", operators.ALL["logical_and"])  # noqa: A001


def mean(x, axis, *, dtype=None, mask=None, keepdims=False, **unused):
    """Returns the sum times one over the number of elements."""
    x = elementwise.tile(x, "nl.mean", "x")
    total = elementwise.reduce_tile("add", x, axis, float32, mask, keepdims=keepdims, call="nl.mean")
    count = x.size // total.size
    total.tensor
    issue_pending()
    return elementwise.scalar(total, "multiply", 1.0 / count, dtype=dtype or x.dtype, call="nl.mean")


def var(x, axis, *, dtype=None, mask=None, **unused):
    """Returns the mean of the squares minus the square of the mean."""
    x = elementwise.tile(x, "nl.var", "x")
    squares = mean(elementwise.function("square", x, dtype=float32, mask=mask, call="nl.var"), axis, dtype=float32)
    squares.tensor
    center = mean(x, axis, dtype=float32, mask=mask)
    center.tensor
    return elementwise.binary(
        "subtract", squares, elementwise.function("square", center, call="nl.var"), dtype or x.dtype, call="nl.var"
    )


def softmax(x, axis=-1, *, dtype=None, mask=None, **unused):
    return elementwise.softmax(x, axis, dtype, mask)


def rms_norm(x, w, axis, n, epsilon=1e-6, *, dtype=None, compute_dtype=None, mask=None, **unused):
    """Returns x / sqrt(sum of squares / n + epsilon) * w."""
    return elementwise.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype or float32, mask)


def where(condition, x, y, *, dtype=None, mask=None, **unused):
    return elementwise.select_elements(condition, x, y, dtype, mask)


def matmul(x, y, *, transpose_x=False, mask=None, **unused):
    return products.matmul(x, y, transpose_x, mask)


def transpose(x, *, dtype=None, mask=None, **unused):
    return products.transpose(x, mask, dtype, call="nl.transpose")


def expand_dims(data, axis):
    if isinstance(data, Index):
        return data.expand_dims(axis)
    return Tile(data.tensor.expand_dim(axis), sums=data.sums)


def broadcast_to(src, shape=None, **unused):
    """Repeats free dimensions by stride 0, and partitions by a product with ones."""
    src = elementwise.tile(src, "nl.broadcast_to", "src")
    shape = tuple(int(n) for n in shape)
    if len(shape) < src.ndim or any(n not in (1, m) for n, m in zip(elementwise.pad_rank(src.shape, len(shape)), shape)):
        errors.fail("nl.broadcast_to", f"{src.describe()} does not broadcast to {list(shape)}")
    issue_pending()
    if src.shape[0] != shape[0]:
        src = moves.copy_across_partitions(src, shape[0])
    return Tile(elementwise.broadcast_operand(src, shape, None, "nl.broadcast_to"), sums=src.sums)


def gather_flattened(data, indices, *, mask=None, dtype=None, **unused):
    """Returns elements of each partition by their index in the partition."""
    data, indices = (
        elementwise.tile(data, "nl.gather_flattened", "data"),
        elementwise.tile(indices, "nl.gather_flattened", "indices"),
    )
    source, index = readable(data), readable(indices)
    gathered = issue_later(indices.shape, data.dtype, "sbuf", lambda dst: isa.nc_n_gather(dst, source, index))
    return gathered if dtype is None else elementwise.copy_tile(gathered, dtype, call="nl.gather_flattened")


def dropout(x, rate, *, dtype=None, **unused):
    x = elementwise.tile(x, "nl.dropout", "x")
    source = readable(x)
    chance = rate if operands.is_number(rate) else readable(elementwise.tile(rate, "nl.dropout", "rate"))
    result_dtype = elementwise.require_dtype(dtype or x.dtype, "nl.dropout")
    return issue_later(x.shape, result_dtype, "sbuf", lambda dst: isa.dropout(dst, source, chance))


# Operators of tiles


def _operator(name, reverse=False, result_class=Tile):
    op = operators.ALL[name]

    def method(self, other):
        if name == "add" and isinstance(other, Index):
            return other + self  # a number in memory that moves an index
        if not isinstance(other, Tile) and not operands.is_number(other):
            return NotImplemented
        a, b = (other, self) if reverse else (self, other)
        result = elementwise.binary(op, a, b, call=f"nl.{name}")
        result.__class__ = result_class
        return result

    return method


for _sign, _name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("pow", "power"),
                     ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("lshift", "left_shift"),
                     ("rshift", "right_shift")):  # fmt: skip
    setattr(Tile, f"__{_sign}__", _operator(_name))
    setattr(Tile, f"__r{_sign}__", _operator(_name, reverse=True))
for _sign, _name in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")):
    setattr(Tile, f"__{_sign}__", _operator(_name, result_class=TileComparison))
Tile.__neg__ = negative
Tile.__mod__ = _operator("mod")
Tile.__abs__ = abs
Tile.__invert__ = invert
Tile.broadcast_to = broadcast_to
Tile.expand_dims = expand_dims
Tile.astype = lambda self, dtype: elementwise.copy_tile(self, dtype, call="astype")

__all__ = (
    *_BINARY, *_SCALAR_ENGINE, *_VECTOR_ENGINE, "all", "broadcast_to", "dropout", "expand_dims", "gather_flattened", "loop_reduce",
    "matmul", "max", "mean", "min", "negative", "prod", "reciprocal", "rms_norm", "softmax", "sum", "transpose", "var", "where",
)  # fmt: skip
