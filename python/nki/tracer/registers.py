"""Registers of the engines' sequencers: whole numbers that exist only while the kernel runs on the
device.

With values a register holds its number, and loops over it run. Without values only numbers that the
kernel itself has put there are known. Code that needs another number gets an error that asks for a
run with values.
"""

from __future__ import annotations

from . import dtypes, errors


class Register:
    """A whole number, or None while it is unknown."""

    __slots__ = ("number",)

    def __init__(self, number: int | None = None):
        self.number = number

    def require_number(self, call: str, what: str) -> int:
        if self.number is None:
            errors.fail(call, f"{what} is in a register that only values fill: run with --values", errors.ValuesNeeded)
        return self.number

    def __bool__(self):
        return bool(self.require_number("while", "the condition"))

    def __index__(self):
        return self.require_number("range", "the number")

    __int__ = __index__

    def _with(self, other, operation):
        other_number = other.number if isinstance(other, Register) else int(other)
        if self.number is None or other_number is None:
            return Register()
        return Register(operation(self.number, other_number))

    def __add__(self, other):
        return self._with(other, int.__add__)

    def __sub__(self, other):
        return self._with(other, int.__sub__)

    def __mul__(self, other):
        return self._with(other, int.__mul__)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return self._with(other, lambda ours, other_number: other_number - ours)

    def __neg__(self):
        return 0 - self

    def __repr__(self):
        return "<register>" if self.number is None else f"<register {self.number}>"


class NkiScalar(Register):
    """A register with a width: the result of `nisa.scalar_load` since NKI 0.7. Sums and products
    wrap around at 32 or 64 bits.
    """

    __slots__ = ("dtype",)

    def __init__(self, number: int | None = None, dtype: dtypes.DType = dtypes.int32):
        if number is not None:
            bits = 8 * dtype.itemsize
            number = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        super().__init__(number)
        self.dtype = dtype

    def _with(self, other, operation):
        if getattr(other, "dtype", self.dtype) is not self.dtype:
            errors.fail("NkiScalar", f"{self.dtype} and {other.dtype}: expected one width")
        return NkiScalar(super()._with(other, operation).number, self.dtype)
