"""The operators of instructions and their computation, in float32 or on the bits of integers.

Kernels name an operator by a function of nki.language (which has it as `.operator`) or by NumPy's
function of the same meaning. Activation functions are computed exactly, whereas the hardware
evaluates piecewise polynomials. Sources: the tables of math operators and activation functions in
the public nki.isa documentation.
"""

from __future__ import annotations

import math

import numpy as np

from . import errors


class Operator:
    """An operator. `evaluate` takes one array (`inputs` = 1) or two.

    `bitwise` operators work on the bits of integers. A reduction starts from `identity`. If that is
    None, the operator cannot reduce.
    """

    __slots__ = ("name", "evaluate", "inputs", "bitwise", "identity")

    def __init__(self, name, evaluate, inputs=2, bitwise=False, identity=None):
        self.name = name
        self.evaluate = evaluate
        self.inputs = inputs
        self.bitwise = bitwise
        self.identity = identity

    def reduce(self, data: np.ndarray, axes: tuple) -> np.ndarray:
        """Reduces over `axes`, which stay with one element."""
        if self.name == "average":
            return data.mean(axis=axes, keepdims=True, dtype=np.float32)
        ufunc = self.evaluate if isinstance(self.evaluate, np.ufunc) else None
        if ufunc is not None and self.name in ("add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or",
                                               "bitwise_xor"):  # fmt: skip
            return ufunc.reduce(data, axis=axes, keepdims=True)
        moved = np.moveaxis(data, axes, range(len(axes))).reshape(
            -1, *(n for a, n in enumerate(data.shape) if a not in axes)
        )
        total = moved[0]
        for part in moved[1:]:
            total = self.evaluate(total, part)
        return np.asarray(total).reshape([1 if a in axes else n for a, n in enumerate(data.shape)])

    def __repr__(self):
        return f"nl.{self.name}"


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_erf = np.frompyfunc(math.erf, 1, 1)


def _phi(x):
    """The distribution function of the standard normal distribution."""
    return 0.5 * (1 + _erf(x / math.sqrt(2)).astype(np.float64))


def _density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _swish(x, slope=1.702):
    return x * _sigmoid(slope * x)


def _swish_dx(x, slope=1.702):
    s = _sigmoid(slope * x)
    return s + slope * x * s * (1 - s)


def _logical(function):
    return lambda a, b: function(a != 0, b != 0)


def _larger_magnitude(a, b):
    return np.where(np.abs(a) > np.abs(b), a, b)


def _smaller_magnitude(a, b):
    return np.where(np.abs(a) < np.abs(b), a, b)


def _left_shift(a, b):
    return np.left_shift(a, b.astype(a.dtype) if isinstance(b, np.ndarray) else b)


def _right_shift(a, b):
    """A logical shift: zeros enter from the left."""
    unsigned = a.view(f"u{a.dtype.itemsize}")
    return np.right_shift(unsigned, np.asarray(b).astype(unsigned.dtype)).view(a.dtype)


_BINARY = {
    "add": (np.add, 0.0), "subtract": (np.subtract, 0.0), "multiply": (np.multiply, 1.0), "divide": (np.divide, None),
    "maximum": (np.maximum, -np.inf), "minimum": (np.minimum, np.inf), "power": (np.power, None),
    "mod": (np.mod, None), "fmod": (np.fmod, None), "equal": (np.equal, None), "not_equal": (np.not_equal, None),
    "less": (np.less, None), "less_equal": (np.less_equal, None), "greater": (np.greater, None),
    "greater_equal": (np.greater_equal, None), "logical_and": (_logical(np.logical_and), 1.0),
    "logical_or": (_logical(np.logical_or), 0.0), "logical_xor": (_logical(np.logical_xor), 0.0),
    "abs_max": (_larger_magnitude, 0.0), "abs_min": (_smaller_magnitude, np.inf), "average": (np.add, 0.0),
    "bypass": (lambda a, b: a, None), "rsqrt_add": (lambda a, b: 1 / np.sqrt(a + b), None),
}  # fmt: skip
_BITWISE = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "left_shift": _left_shift,
    "right_shift": _right_shift,
}  # fmt: skip
_UNARY = {
    "copy": lambda x: x, "square": np.square, "sigmoid": _sigmoid, "relu": lambda x: np.maximum(x, 0),
    "prelu": lambda x: np.maximum(x, 0), "gelu": lambda x: x * _phi(x), "gelu_dx": lambda x: _phi(x) + x * _density(x),
    "gelu_apprx_tanh": _gelu_tanh, "gelu_apprx_sigmoid": _swish, "gelu_apprx_sigmoid_dx": _swish_dx,
    "silu": lambda x: x * _sigmoid(x), "silu_dx": lambda x: _swish_dx(x, 1.0), "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(0, x), "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "erf": lambda x: _erf(x).astype(np.float64), "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan, "arctan": np.arctan, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "sign": np.sign, "abs": np.abs,
    "negative": np.negative, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "logical_not": lambda x: x == 0,
}  # fmt: skip

ALL: dict[str, Operator] = {
    **{name: Operator(name, f, 2, identity=start) for name, (f, start) in _BINARY.items()},
    **{name: Operator(name, f, 2, bitwise=True, identity=0) for name, f in _BITWISE.items()},
    **{name: Operator(name, f, 1) for name, f in _UNARY.items()},
    "invert": Operator("invert", np.invert, 1, bitwise=True),
}
_NUMPY_NAMES = {"true_divide": "divide", "absolute": "abs", "bitwise_not": "invert", "remainder": "mod", "max": "maximum",
                "min": "minimum", "amax": "maximum", "amin": "minimum", "sum": "add", "prod": "multiply"}  # fmt: skip


def find(op, call: str, operand: str = "op") -> Operator:
    """Returns the operator that a kernel names."""
    found = getattr(op, "operator", None)
    if isinstance(found, Operator):
        return found
    if isinstance(op, Operator):
        return op
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    found = ALL.get(_NUMPY_NAMES.get(name, name))
    if found is None:
        errors.fail(call, f"{operand}: expected an operator of nki.language, found {op!r}")
    return found


def apply(operator: Operator, *inputs) -> np.ndarray:
    """Computes in float32, or bitwise operators in the integers' own type. Comparisons return 1 and
    0.
    """
    with np.errstate(all="ignore"):
        if operator.bitwise:
            return operator.evaluate(*inputs)
        result = operator.evaluate(*(as_float(x) for x in inputs))
    return np.asarray(result, np.float32)


def as_float(x):
    return x if isinstance(x, np.ndarray) and x.dtype == np.float32 else np.asarray(x, np.float32)
