"""Registers of the engines' sequencers: whole numbers that exist only while the kernel runs on the
device.

With values a register holds its number, and loops over it run. Without values only numbers that the
kernel itself has put there are known. Code that needs another number gets an error that asks for a
run with values.

Since NKI 0.7 a kernel's Python runs once and records what it calls, so that a register has no number
that Python could use. Python's `if`, `while`, `int()` and `range()` refuse a register for that
reason. Older releases read the kernel's text, and run such loops on the device.
"""

from __future__ import annotations

from . import dtypes, errors, location, releases

_TRACED = (0, 7)


class RegisterInPython(errors.NkiValidationError, TypeError):
    """Python asked for the number of a register. NKI raises a TypeError, too."""


def _refuse(use: str, instead: str):
    if releases.current().nki >= _TRACED:
        errors.fail(use, f"a register has no number while the kernel is traced (NKI 0.7): {instead}", RegisterInPython)


class Register:
    """A whole number, or None while it is unknown. `nki.isa` calls this class VirtualRegister."""

    __slots__ = ("number",)

    def __init__(self, number: int | None = None):
        self.number = number

    def require_number(self, call: str, what: str) -> int:
        if self.number is None:
            errors.fail(call, f"{what} is in a register that only values fill: run with --values", errors.ValuesNeeded)
        return self.number

    def __bool__(self):
        _refuse("if, while, and, or, not", "`while register` was removed, so use nki.language.while_loop(init, body_fun)")
        return bool(self.require_number("while", "the condition"))

    def __index__(self):
        _refuse("int, range", "use nki.language.fori_loop(lower, upper, body_fun) for a loop")
        return self.require_number("range", "the number")

    __int__ = __index__

    def __eq__(self, other):
        if other is None or other is self:
            return other is self
        return self._compared("==", other)

    def __ne__(self, other):
        if other is None or other is self:
            return other is not self
        return self._compared("!=", other)

    def __lt__(self, other):
        return self._compared("<", other)

    def __le__(self, other):
        return self._compared("<=", other)

    def __gt__(self, other):
        return self._compared(">", other)

    def __ge__(self, other):
        return self._compared(">=", other)

    __hash__ = object.__hash__

    def _compared(self, sign, other):
        _refuse(f"register {sign} {other!r}", "registers cannot be compared, so compute on tiles and use nki.language.while_loop")
        ours, theirs = self.require_number(sign, "the number"), int(other)
        return {"==": ours == theirs, "!=": ours != theirs, "<": ours < theirs, "<=": ours <= theirs, ">": ours > theirs,
                ">=": ours >= theirs}[sign]  # fmt: skip

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

    A comparison of 32 bits is recorded like arithmetic, but nothing accepts its result. A comparison
    of 64 bits is an error.
    """

    __slots__ = ("dtype", "compared_at", "is_comparison")

    def __init__(self, state: int | None, dtype: dtypes.DType | None = None, is_comparison: bool = False):
        releases.since("nki.isa.NkiScalar", (0, 7))
        if releases.reads_text():
            errors.fail("nki.isa.NkiScalar", "only NKI's tracer accepts scalars: unset NKI_COMPILER_FRONTEND, or set it to tracer")
        dtype = dtype or dtypes.int32
        if state is not None:
            bits = 8 * dtype.itemsize
            state = (state + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        super().__init__(state)
        self.dtype = dtype
        self.is_comparison = is_comparison
        self.compared_at = location.describe() if is_comparison else ""

    def usable(self, call: str) -> NkiScalar:
        """Returns the scalar itself. The result of a comparison is an error."""
        if self.is_comparison:
            errors.fail(call, f"the result of the comparison at {self.compared_at} cannot be used (NKI 0.7)", RegisterInPython)
        return self

    def require_number(self, call: str, what: str) -> int:
        self.usable(call)
        return super().require_number(call, what)

    def __bool__(self):
        self.usable("if, while, and, or, not")
        return super().__bool__()

    def _compared(self, sign, other):
        call = f"NkiScalar {sign} {other!r}"
        self._check_operand(call, other)
        if self.dtype is dtypes.int64:
            errors.fail(call, "a comparison of 64-bit scalars is rejected when the kernel is compiled (NKI 0.7)")
        return NkiScalar(None, self.dtype, is_comparison=True)

    def _check_operand(self, call, other):
        self.usable(call)
        if isinstance(other, NkiScalar):
            other.usable(call)
        if getattr(other, "dtype", self.dtype) is not self.dtype:
            errors.fail(call, f"{self.dtype} and {other.dtype}: expected one width")

    def _with(self, other, operation):
        self._check_operand("NkiScalar", other)
        return NkiScalar(super()._with(other, operation).number, self.dtype)
