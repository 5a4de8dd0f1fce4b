"""Registers of the engines' sequencers: whole numbers that exist only while the kernel runs on the device.

With values a register holds its number, and loops over it run. Without values only numbers that the kernel itself put
there are known; whoever needs another is told to run with values.
"""

from __future__ import annotations

from . import errors


class Register:
    """A whole number, or None while nobody knows it."""

    __slots__ = ("number",)

    def __init__(self, number: int | None = None):
        self.number = number

    def known(self, call: str, what: str) -> int:
        if self.number is None:
            errors.fail(call, f"{what} is in a register that only values fill: run with --values", errors.ValuesNeeded)
        return self.number

    def __bool__(self):
        return bool(self.known("while", "the condition"))

    def __index__(self):
        return self.known("range", "the number")

    __int__ = __index__

    def _with(self, other, operation):
        theirs = other.number if isinstance(other, Register) else int(other)
        if self.number is None or theirs is None:
            return Register()
        return Register(operation(self.number, theirs))

    def __add__(self, other):
        return self._with(other, int.__add__)

    def __sub__(self, other):
        return self._with(other, int.__sub__)

    def __mul__(self, other):
        return self._with(other, int.__mul__)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self):
        return "<register>" if self.number is None else f"<register {self.number}>"
