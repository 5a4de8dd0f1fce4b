"""Checks keywords that a function of the legacy dialect does not have.

The documented functions accept any keyword and leave unknown ones to the compiler, so that most do
not concern the tracer. A keyword that is nearly the name of a parameter is a typing error, which
would silently change what the kernel computes.
"""

from __future__ import annotations

import difflib
import functools
import inspect

from nki.tracer import errors


def refuse_misspelt_keywords(namespace: dict, prefix: str) -> None:
    """Makes a module's functions that take any keyword refuse misspelt ones."""
    for name, function in list(namespace.items()):
        if inspect.isfunction(function) and not name.startswith("_"):
            parameters = inspect.signature(function).parameters.values()
            if any(p.kind is p.VAR_KEYWORD for p in parameters):
                known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
                namespace[name] = _with_keyword_check(function, f"{prefix}.{name}", known)


def _with_keyword_check(function, call, known):
    accepted = frozenset(known)

    @functools.wraps(function)
    def checked_call(*args, **kwargs):
        if not accepted.issuperset(kwargs):
            _refuse_misspelt(call, known, kwargs)
        return function(*args, **kwargs)

    return checked_call


def _refuse_misspelt(call, known, given):
    for name in given:
        if name not in known:
            meant = difflib.get_close_matches(name, known, 1, 0.74)
            if meant:
                errors.fail(call, f"{name}: no keyword of it; did you mean {meant[0]}?")
