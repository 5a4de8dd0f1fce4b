"""The base of kernels' own classes.

The vendor's front end is laxer with these than Python is with dataclasses, and published kernels rely on it: a field
that is not given stays None, and a keyword that is no field becomes an attribute.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta


class _Lax(ABCMeta):
    """Sees `@dataclass` put its `__init__` into the class, and makes it lax."""

    def __setattr__(cls, name, value):
        code = getattr(value, "__code__", None)
        if name == "__init__" and code is not None and code.co_filename == "<string>":  # made by dataclasses
            value = _lax(value)
        super().__setattr__(name, value)


def _lax(init):
    fields = list(inspect.signature(init).parameters.values())[1:]
    names = [f.name for f in fields]
    required = {f.name for f in fields if f.default is f.empty}

    @functools.wraps(init)
    def lax_init(self, *args, **kwargs):
        absent = required.difference(kwargs, names[: len(args)])
        more = [name for name in kwargs if name not in names]
        extra = {name: kwargs.pop(name) for name in more}
        init(self, *args, **dict.fromkeys(absent), **kwargs)
        for name, value in extra.items():
            object.__setattr__(self, name, value)

    return lax_init


class NKIObject(metaclass=_Lax):
    def __init__(self, **kwargs):
        for name, value in kwargs.items():
            setattr(self, name, value)
