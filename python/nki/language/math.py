"""Functions of tiles that return a new tile in SBUF, and the operators of instructions.

Each function has an attribute `.operator`, which is all that counts when the function is the
argument of an instruction. A call executes the instruction that the documentation names for the
function: tensor_tensor, tensor_scalar, activation or tensor_reduce.
"""

from __future__ import annotations

import builtins

from .. import isa
from ..isa import activations
from ..isa.reductions import reduced_axes
from ..tracer import dtypes, errors, operands, operators
from ..tracer.tensor import Tensor
from .creation import ndarray

_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "abs_max", "abs_min", "power", "equal", "not_equal",
           "less", "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
           "right_shift", "logical_and", "logical_or", "logical_xor", "fmod", "mod")  # fmt: skip
_REVERSED = {"add", "multiply", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"}
# The Scalar engine has no activation functions for these names.
_ON_VECTOR = {"negative", "ceil", "floor", "trunc", "logical_not", "invert", "cos", "tan"}


def _broadcast(call, x, y):
    """Returns views of x and y of one shape. Free axes of one element are repeated."""
    if x.shape == y.shape:
        return x, y
    rank = builtins.max(x.ndim, y.ndim)
    x, y = (v.reshape((v.shape[0], *(1,) * (rank - v.ndim), *v.shape[1:])) for v in (x, y))
    shape = tuple(builtins.max(n, m) for n, m in zip(x.shape, y.shape))
    if x.shape[0] != y.shape[0] or any(n not in (1, m) for v in (x, y) for n, m in zip(v.shape, shape)):
        partitions = "; partitions do not repeat by themselves, nl.broadcast_to repeats them" if 1 in (x.shape[0], y.shape[0]) else ""
        errors.fail(call, f"{x.describe()} and {y.describe()} have no common shape{partitions}")
    return x.broadcast_to(shape), y.broadcast_to(shape)


def _is_column(y, x):
    """Returns whether y has one float32 element per partition of x, and x has more."""
    layout = y.layout
    return (
        layout.free == 1
        and layout.partitions == x.layout.partitions
        and x.layout.free > 1
        and layout.dtype == "float32"
    )


def elementwise(op, x, y, dtype=None) -> Tensor:
    """Returns x <op> y. One operand may be a number or a tile of one element per partition."""
    call = f"nki.language.{op.name}"
    if operands.is_number(x) and operands.is_number(y):
        return op.evaluate(x, y)
    if operands.is_number(x):
        y = operands.tensor(call, "y", y)
        out = ndarray(y.shape, dtype or y.dtype)
        isa.tensor_scalar(out, y, op, x, reverse0=op.name not in _REVERSED)
        return out
    x = operands.tensor(call, "x", x)
    if operands.is_number(y):
        out = ndarray(x.shape, dtype or x.dtype)
        isa.tensor_scalar(out, x, op, y)
        return out
    y = operands.tensor(call, "y", y)
    dtype = dtype or dtypes.promoted(x.dtype, y.dtype)
    if _is_column(y, x) and not op.bitwise:
        out = ndarray(x.shape, dtype)
        isa.tensor_scalar(out, x, op, y)
        return out
    x, y = _broadcast(call, x, y)
    out = ndarray(x.shape, dtype)
    isa.tensor_tensor(out, x, y, op)
    return out


def unary(op, x, dtype=None) -> Tensor:
    x = operands.tensor(f"nki.language.{op.name}", "x", x)
    out = ndarray(x.shape, dtype or x.dtype)
    if op.name in _ON_VECTOR:
        isa.tensor_scalar(out, x, op)
    elif op.name == "reciprocal":
        isa.reciprocal(out, x)
    else:
        activations.activation(out, op, x)
    return out


def _binary_function(op):
    def function(x, y, dtype=None):
        return elementwise(op, x, y, dtype)

    return _named(function, op)


def _unary_function(op):
    def function(x, dtype=None):
        return unary(op, x, dtype)

    return _named(function, op)


def _named(function, op):
    function.__name__ = function.__qualname__ = op.name
    function.operator = op
    return function


for _name in _BINARY:
    globals()[_name] = _binary_function(operators.ALL[_name])
for _name, _op in operators.ALL.items():
    if _op.inputs == 1:
        globals()[_name] = _unary_function(_op)
average = operators.ALL["average"]
bypass = operators.ALL["bypass"]


# The functions that reduce, by the operator's name.
_REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod", "logical_and": "all"}


def reduction(name, x, axis, dtype=None, keepdims=False) -> Tensor:
    """Returns x reduced over its last free axes."""
    call = f"nki.language.{_REDUCTIONS[name]}"
    x = operands.tensor(call, "x", x)
    axes = reduced_axes(call, axis, x)
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    out = ndarray(kept, dtype or x.dtype)
    isa.tensor_reduce(out, operators.ALL[name], x, axes)
    if keepdims or x.ndim - len(axes) < 2:
        return out
    return out.reshape(tuple(n for a, n in enumerate(x.shape) if a not in axes))


def sum(x, axis, dtype=None, keepdims=False):  # noqa: A001
    return reduction("add", x, axis, dtype, keepdims)


def max(x, axis, dtype=None, keepdims=False):  # noqa: A001
    return reduction("maximum", x, axis, dtype, keepdims)


def min(x, axis, dtype=None, keepdims=False):  # noqa: A001
    return reduction("minimum", x, axis, dtype, keepdims)


def prod(x, axis, dtype=None, keepdims=False):
    return reduction("multiply", x, axis, dtype, keepdims)


def mean(x, axis, dtype=None, keepdims=False):
    total = reduction("add", x, axis, "float32", keepdims)
    return elementwise(operators.ALL["multiply"], total, total.size / x.size, dtype or x.dtype)


def all(x, axis, dtype=None):  # noqa: A001
    return reduction("logical_and", x, axis, dtype)


# The operators of these functions when they are used for a reduction.
sum.operator, max.operator, min.operator, prod.operator = (
    operators.ALL[n] for n in ("add", "maximum", "minimum", "multiply")
)

__all__ = [
    *_BINARY,
    *(name for name, op in operators.ALL.items() if op.inputs == 1),
    "all", "average", "bypass", "max", "mean", "min", "prod", "sum",
]  # fmt: skip
