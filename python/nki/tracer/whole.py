"""Reads the whole numbers of a kernel: sizes, indices, axes, steps.

Python's `int` cuts 2.5 to 2, and a kernel that divides with `/` instead of `//` would compute something
else without a word. A float that is whole is accepted, because published kernels pass such floats.
"""

from __future__ import annotations

import numpy as np

from . import errors


def number(call: str, operand: str, value) -> int:
    """Returns the whole number that `value` is. A register raises its own error."""
    found = _number(value)
    if found is None:
        errors.fail(call, f"{operand}: expected a whole number, found {value!r}")
    return found


def numbers(call: str, operand: str, value) -> tuple:
    """Returns the whole numbers of a tuple, a list or another iterable."""
    found = tuple(map(_number, items(call, operand, value, "whole numbers")))
    if None in found:
        errors.fail(call, f"{operand}: expected whole numbers, found {value!r}")
    return found


def pairs(call: str, operand: str, value) -> list:
    """Returns the pairs (step, count) of an access pattern. Every count is at least 1."""
    found = [numbers(call, operand, pair) for pair in items(call, operand, value, "pairs (step, count)")]
    if not all(len(pair) == 2 and pair[1] >= 1 for pair in found):
        errors.fail(call, f"{operand}: expected pairs (step, count) with counts of at least 1, found {value!r}")
    return found


def _number(value) -> int | None:
    try:
        return value.__index__()
    except errors.NkiValidationError:
        raise
    except (AttributeError, TypeError):
        is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
        return int(value) if is_whole else None


def items(call: str, operand: str, value, expected: str) -> list:
    """Returns what `value` lists, which messages call `expected`."""
    try:
        if not isinstance(value, str):
            return list(value)
    except TypeError:
        pass
    errors.fail(call, f"{operand}: expected {expected}, found {value!r}")
