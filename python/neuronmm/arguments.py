"""Checks arguments of callers. A message names the argument, what was expected and what was found.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Sequence
from typing import Any, TypeVar

_Choice = TypeVar("_Choice", int, str)


def brief(value: object) -> str:
    """Returns the value as messages show it."""
    return reprlib.repr(value)


def number(name: str, value: Any, lowest: float, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        try:
            value = value.__float__()  # for numpy's numbers
        except AttributeError:
            raise TypeError(f"{name}: expected a number, found {brief(value)}") from None
    found = float(value)
    if math.isnan(found) or not lowest <= found <= highest:
        raise ValueError(f"{name}: expected a number from {lowest:g} to {highest:g}, found {found:g}")
    return found


def whole_number(name: str, value: Any, lowest: int, highest: int) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, found {brief(value)}") from None
    if not lowest <= value <= highest:
        raise ValueError(f"{name}: expected a whole number from {lowest} to {highest}, found {value}")
    return int(value)


def one_of(name: str, value: _Choice, allowed: Sequence[_Choice]) -> _Choice:
    if value not in allowed:
        others = ", ".join(map(str, allowed[:-1]))
        raise ValueError(f"{name}: expected {others} or {allowed[-1]}, found {brief(value)}")
    return value


def thread_count(num_threads: int | None) -> int:
    """Returns the number of threads for the extension module, where 0 stands for all that can compute at once."""
    return 0 if num_threads is None else whole_number("num_threads", num_threads, 1, 1024)
