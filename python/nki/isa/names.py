"""Instructions that check the names, the named constants and the parameters which a kernel gives them."""

from __future__ import annotations

import functools
import inspect

from .. import removed
from ..tracer import errors
from ..tracer import session as sessions
from . import enums

# By parameter: the class of its constants. Other parameters check their constants themselves.
_CONSTANTS = {"reduce_cmd": enums.reduce_cmd, "oob_mode": enums.oob_mode, "dma_engine": enums.dma_engine}


def checked_instruction(function):
    """Returns an instruction's function that accepts each name once in the body of a loop of the
    device, and that knows what replaces removed parameters. Other objects are returned as they are.
    """
    if not inspect.isfunction(function):
        return function

    parameters = set(function.__code__.co_varnames[: _arguments_of(function)])
    constants = parameters & _CONSTANTS.keys()

    @functools.wraps(function)
    def checked_call(*args, **kwargs):
        name = kwargs.get("name")
        if name is not None and not isinstance(name, str):
            errors.fail(f"nki.isa.{function.__name__}", f"name: expected a string, found {name!r}")
        if name is not None and sessions.current is not None:
            sessions.current.bodies.check_name(f"nki.isa.{function.__name__}", name)
        for operand in constants:
            if operand in kwargs and not isinstance(kwargs[operand], _CONSTANTS[operand]):
                errors.fail(f"nki.isa.{function.__name__}", f"{operand}: expected one of nki.isa.{operand}, found {kwargs[operand]!r}")
        try:
            return function(*args, **kwargs)
        except TypeError:
            removed.check_parameters(f"nki.isa.{function.__name__}", kwargs.keys() - parameters)
            raise

    return checked_call


def _arguments_of(function):
    return function.__code__.co_argcount + function.__code__.co_kwonlyargcount
