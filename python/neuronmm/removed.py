"""Keywords that earlier versions had, refused by the words of the program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from . import _native

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")


def refuses_removed(command: str) -> Callable[[Callable[_Parameters, _Returned]], Callable[_Parameters, _Returned]]:
    """Makes a function refuse the keywords, and the values of keywords, that `neuronmm COMMAND` has lost.

    A removed keyword is a TypeError, a removed value a ValueError. Both say what to use instead.
    """

    def decorate(function: Callable[_Parameters, _Returned]) -> Callable[_Parameters, _Returned]:
        known = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Returned:
            for name, value in kwargs.items():
                message = _native.removed_option_message(command, ["--" + name.replace("_", "-"), str(value)])
                if message is not None:
                    raise (ValueError if name in known else TypeError)(message)
            return function(*args, **kwargs)

        return call

    return decorate
