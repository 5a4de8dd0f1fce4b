"""A stand-in for the part of pytest that tests of kernels use: marks, parameters, fixtures and
`raises`. folder.py puts it in the place of the package, so that a folder of tests runs without it.
"""

from __future__ import annotations

import contextlib
import math
import types


class Skipped(Exception):
    """A test does not want to run. The text says why."""


class Mark:
    """A decorator that a test function keeps in `marks`."""

    def __init__(self, name, args=(), kwargs=None):
        self.name, self.args, self.kwargs = name, args, kwargs or {}

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and callable(args[0]):
            args[0].marks = [*getattr(args[0], "marks", ()), self]
            return args[0]
        return Mark(self.name, args, kwargs)


class _Marks:
    def __getattr__(self, name):
        return Mark(name)


class Parameters:
    """The values of one case of `parametrize`."""

    def __init__(self, values, marks=()):
        self.values = values
        self.marks = marks if isinstance(marks, (list, tuple)) else [marks]


def param(*values, marks=(), id=None):
    return Parameters(values, marks)


def fixture(function=None, **options):
    """Marks a function whose result tests get by the name of a parameter."""

    def mark(made):
        made.fixture_options = options
        return made

    return mark(function) if function is not None else mark


class _Caught:
    value = None


@contextlib.contextmanager
def raises(expected, match=None):
    import re

    caught = _Caught()
    try:
        yield caught
    except expected as error:
        caught.value = error
        if match is not None and not re.search(match, str(error)):
            raise AssertionError(f"expected an error like {match!r}, found {error}") from None
        return
    raise AssertionError(f"expected {expected}, but nothing was raised")


def skip(reason="", **unused):
    raise Skipped(reason)


def fail(reason="", **unused):
    raise AssertionError(reason)


def importorskip(name, **unused):
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise Skipped(f"{name} is not installed") from None


class approx:
    def __init__(self, expected, rel=1e-6, abs=1e-12):
        self.expected, self.rel, self.abs = expected, rel, abs

    def __eq__(self, found):
        return math.isclose(found, self.expected, rel_tol=self.rel, abs_tol=self.abs)


def module() -> types.ModuleType:
    made = types.ModuleType("pytest")
    made.__dict__.update(mark=_Marks(), param=param, fixture=fixture, raises=raises, skip=skip, fail=fail, xfail=skip,
                         importorskip=importorskip, approx=approx, main=lambda *args, **kwargs: 0)  # fmt: skip
    made.skip.Exception = Skipped
    return made
