"""The expected result of a kernel: an expression or a user's function."""

from __future__ import annotations

import copy
import inspect
import math
import re

import numpy as np

from . import user_modules
from .arguments import UsageError
from .tracer import errors

_FUNCTION = re.compile(r"(?P<target>[\w./-]+):(?P<name>[^\W\d]\w*)")


def _phi(x):
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


_NAMES = {
    "np": np, "silu": lambda x: x / (1 + np.exp(-x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * _phi(x), "relu": lambda x: np.maximum(x, 0), "rsqrt": lambda x: 1 / np.sqrt(x),
    "softmax": lambda x, axis=-1: np.exp(x - x.max(axis, keepdims=True)) / np.exp(x - x.max(axis, keepdims=True)).sum(
        axis, keepdims=True),
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "abs", "sin", "cos", "maximum", "minimum", "sum",
                                            "mean", "max", "min", "concatenate", "where", "square", "cumsum", "transpose")},
}  # fmt: skip


def check_readable(text: str) -> None:
    """Raises an OSError if the text names a function of a Python file that cannot be read."""
    file, colon, _ = text.rpartition(":")
    if colon and file.endswith(".py"):
        with open(file, "rb"):
            pass


def expected(text: str, arguments: dict) -> list[np.ndarray]:
    """Returns the results of the reference. Its arguments are copies of numbers that are rounded to
    their types.
    """
    try:
        result = _evaluate(text, copy.deepcopy(arguments))
    except (UsageError, errors.LimitReached, MemoryError):
        raise
    except Exception as error:  # the user's reference may raise anything
        raise UsageError(f"--ref {text}: {type(error).__name__}: {error}") from None
    return [np.asarray(part) for part in (result if isinstance(result, (tuple, list)) else (result,))]


def _evaluate(text, arguments):
    match = _FUNCTION.fullmatch(text)
    if match is None:
        return eval(
            text, {**_NAMES, **{name: _as_float64(value) for name, value in arguments.items()}}
        )  # the expression is the user's own
    function = getattr(user_modules.load(match["target"]), match["name"], None)
    if function is None:
        raise UsageError(f"--ref: {match['target']} has no {match['name']}")
    return function(**_accepted_arguments(function, arguments))


def _accepted_arguments(function, arguments):
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name in parameters}


def _as_float64(value):
    if isinstance(value, tuple):
        return tuple(_as_float64(v) for v in value)
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
