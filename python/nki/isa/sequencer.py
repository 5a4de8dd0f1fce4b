"""Registers of the sequencers, and the instructions that load and store them."""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, releases, whole
from ..tracer import session as sessions
from ..tracer.layout import PSUM
from ..tracer.registers import NkiScalar, Register
from ..tracer.tensor import Tensor
from .instruction import DONE


def register_alloc(x=None):
    """Returns a register that holds nothing, a number, or the value of a tensor of one element."""
    call = "nki.isa.register_alloc"
    sessions.active(call)
    if isinstance(x, Tensor):
        register = Register()
        register_load(register, x)
        return register
    return Register(None if x is None else _number_of(call, "x", x))


def register_move(dst, src):
    call = "nki.isa.register_move"
    _register(call, "dst", dst).number = _number_of(call, "src", src)
    return DONE


def _register(call, operand, value) -> Register:
    if not isinstance(value, Register):
        errors.fail(call, f"{operand}: expected a register, found {operands.describe(value)}")
    return value


def _number_of(call, operand, value):
    """Returns the number in a register, None if it is unknown, or the number itself."""
    return value.number if isinstance(value, Register) else whole.number(call, operand, value)


def _single_element(call, operand, view):
    found = operands.tensor(call, operand, view)
    if found.size != 1:
        errors.fail(call, f"{operand}: {found.describe()}, expected one element")
    return found


def register_load(dst, src):
    """Loads the number of a tensor of one element into the register. Without values the number is
    unknown.
    """
    call = "nki.isa.register_load"
    s = sessions.active(call)
    _register(call, "dst", dst)
    _single_element(call, "src", src)
    s.note_read(src, call, "src")
    s.emit("register_load", "any", ("src",), [src])
    dst.number = int(np.asarray(s.read(src)).reshape(-1)[0]) if s.values else None
    return DONE


def register_store(dst, src):
    call = "nki.isa.register_store"
    s = sessions.active(call)
    _register(call, "src", src)
    _single_element(call, "dst", dst)
    s.emit("register_store", "any", ("dst",), [dst])
    if s.values:
        s.write(dst, np.full(dst.shape, src.require_number(call, "the number")))
    s.note_write(dst)
    return DONE


def _single_integer(call, operand, view):
    found = _single_element(call, operand, view)
    if found.dtype not in (dtypes.int32, dtypes.int64):
        errors.fail(call, f"{operand}: {found.describe()}, expected int32 or int64")
    return found


def scalar_load(src) -> NkiScalar:
    """Returns a scalar with the number of a tensor of one element. It has the width of the tensor's
    type.
    """
    call = "nki.isa.scalar_load"
    releases.since(call, (0, 7))
    if operands.tensor(call, "src", src).memory == PSUM:
        errors.fail(call, f"src: {src.describe()}, expected one element in sbuf or hbm")
    scalar = NkiScalar(None, _single_integer(call, "src", src).dtype)
    register_load(scalar, src)
    return scalar


def scalar_store(dst, value) -> None:
    call = "nki.isa.scalar_store"
    releases.since(call, (0, 7))
    if not isinstance(value, NkiScalar):
        errors.fail(call, f"value: expected an NkiScalar, found {operands.describe(value)}")
    value.usable(call)
    if _single_integer(call, "dst", dst).dtype is not value.dtype:
        errors.fail(call, f"dst: {dst.describe()}, expected the width of value, {value.dtype}")
    register_store(dst, value)
