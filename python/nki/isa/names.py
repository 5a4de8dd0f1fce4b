"""Instructions that check the names and the parameters which a kernel gives them."""

from __future__ import annotations

import functools
import inspect

from .. import removed
from ..tracer import session as sessions


def checked_instruction(function):
    """Returns an instruction's function that accepts each name once in the body of a loop of the
    device, and that knows what replaces removed parameters. Other objects are returned as they are.
    """
    if not inspect.isfunction(function):
        return function

    parameters = set(function.__code__.co_varnames[: _arguments_of(function)])

    @functools.wraps(function)
    def checked_call(*args, **kwargs):
        name = kwargs.get("name")
        if name is not None and sessions.current is not None:
            sessions.current.bodies.check_name(f"nki.isa.{function.__name__}", name)
        try:
            return function(*args, **kwargs)
        except TypeError:
            removed.check_parameters(f"nki.isa.{function.__name__}", kwargs.keys() - parameters)
            raise

    return checked_call


def _arguments_of(function):
    return function.__code__.co_argcount + function.__code__.co_kwonlyargcount
