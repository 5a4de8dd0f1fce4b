"""The base class of kernels' own classes.

The vendor's front end treats these classes less strictly than Python treats dataclasses, and
published kernels depend on it. A field that is not given is None, and a keyword that names no field
becomes an attribute.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta


class _LenientInit(ABCMeta):
    """Replaces the `__init__` that `@dataclass` puts into a class by one that is less strict."""

    def __setattr__(cls, name, value):
        code = getattr(value, "__code__", None)
        # dataclasses compiles this function from a string.
        if name == "__init__" and code is not None and code.co_filename == "<string>":
            value = _lenient(value)
        super().__setattr__(name, value)


def _lenient(init):
    fields = list(inspect.signature(init).parameters.values())[1:]
    names = [f.name for f in fields]
    required = {f.name for f in fields if f.default is f.empty}

    @functools.wraps(init)
    def lenient_init(self, *args, **kwargs):
        absent = required.difference(kwargs, names[: len(args)])
        more = [name for name in kwargs if name not in names]
        extra = {name: kwargs.pop(name) for name in more}
        init(self, *args, **dict.fromkeys(absent), **kwargs)
        for name, value in extra.items():
            object.__setattr__(self, name, value)

    return lenient_init


class NKIObject(metaclass=_LenientInit):
    def __init__(self, **kwargs):
        for name, value in kwargs.items():
            setattr(self, name, value)
