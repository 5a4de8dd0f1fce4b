"""Loops that stay loops on the device: `fori_loop` and `while_loop`.

NKI traces the body once. Here the body runs once per iteration, so that the values and the trace
are those of the whole loop. A single trace has rules, which are checked: a body issues the same
instructions in every iteration, its tensors end with it, and its instructions have unique names. The
loop stands in no region of `no_reorder`.

Sources: NKI's pages of both calls (SDK 2.33) and its guide "NKI 0.6.0 Dynamic Loop Migration".
"""

from __future__ import annotations

from math import prod

from ..tracer import dtypes, errors, location, releases
from ..tracer import session as sessions
from ..tracer.registers import NkiScalar, Register
from .loops import counted_loop


class _Body:
    """The body of one loop: runs an iteration and checks it."""

    def __init__(self, call: str, function):
        if not callable(function):
            errors.fail(call, f"body_fun: expected a function, found {function!r}")
        self.call = call
        self.function = function
        self.session = sessions.active(call)
        self.issued: list | None = None
        if self.session.bodies.unordered_regions:
            errors.fail(call, "cannot stand inside nki.language.no_reorder: put the region into the body")
        self.session.note("fori_loop, while_loop: every iteration ends with a barrier of all engines, which predicted times "
                          "leave out (NKI's guide on dynamic loops); tiles of one iteration overlap, iterations do not")  # fmt: skip
        self._note_errors_of_the_compiler()

    def _note_errors_of_the_compiler(self):
        """Notes internal errors that users of NKI 0.6 met with such loops (aws-neuron-sdk issues 1346
        and 1388). Whether later releases still have them is unknown.
        """
        s, where = self.session, location.describe()
        if s.bodies.innermost is not None:
            s.note(f"{where}: {self.call}: a loop inside the body of another one: neuronx-cc 2.27 ended with NCC_ICFG018 for such "
                   "loops")  # fmt: skip
        if s.device.generation >= 3 and prod(s.grid) == 1:
            s.note(f"{where}: {self.call}: neuronx-cc 2.27 ended with NCC_IXGM002 for such a loop in a kernel that was "
                   "launched on one core of trn2")  # fmt: skip

    def __call__(self, register):
        with self.session.bodies.inside(self.call) as body:
            result = self.function(register)
        self._check_same(body.issued)
        return result

    def _check_same(self, issued):
        if self.issued is not None and issued != self.issued:
            errors.fail(self.call, "body_fun: issues other instructions than in its first iteration. NKI traces a body once, "
                        "so that state across iterations has to be in SBUF or HBM, and not in Python")  # fmt: skip
        self.issued = issued


def _bound(call, operand, value):
    if isinstance(value, NkiScalar) and value.usable(call).dtype is dtypes.int64:
        errors.fail(call, f"{operand}: a bound is a scalar of 64 bits, expected 32")
    if isinstance(value, Register):
        return value.require_number(call, operand)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        errors.fail(call, f"{operand}: expected an integer, a VirtualRegister or an NkiScalar, found {value!r}")
    number = value.__index__()
    if not -(1 << 31) <= number < 1 << 31:
        errors.fail(call, f"{operand}: expected a number of 32 bits, found {number}")
    return number


def fori_loop(lower, upper, body_fun, step=1):
    """Calls `body_fun` with a register per iteration. The register is an NkiScalar, unless the
    release has none or a bound is a VirtualRegister.
    """
    call = "nki.language.fori_loop"
    releases.since(call, (0, 6))
    if isinstance(step, (bool, Register)) or not hasattr(step, "__index__") or step.__index__() < 1:
        errors.fail(call, f"step: expected a positive integer that is known when the kernel is compiled, found {step!r}")
    body = _Body(call, body_fun)
    plain = any(isinstance(bound, Register) and not isinstance(bound, NkiScalar) for bound in (lower, upper))
    plain = plain or releases.current().nki < (0, 7) or releases.reads_text()
    for i in counted_loop(_bound(call, "lower", lower), _bound(call, "upper", upper), step.__index__()):
        returned = body(Register(i) if plain else NkiScalar(i))
        if returned is not None:
            errors.fail(call, f"body_fun: expected it to return nothing, found {returned!r}")


def while_loop(init, body_fun):
    """Calls `body_fun` with the condition while that is not zero. The body returns the next
    condition.
    """
    call = "nki.language.while_loop"
    releases.since(call, (0, 6))
    body = _Body(call, body_fun)
    register = _condition(call, "init", init)
    while register.require_number(call, "the condition"):
        register = _condition(call, "the result of body_fun", body(register))


def _condition(call, operand, value):
    if not isinstance(value, Register):
        errors.fail(call, f"{operand}: expected a register with the condition, found {value!r}")
    return value.usable(call) if isinstance(value, NkiScalar) else value


class no_reorder:  # noqa: N801
    """A region that the compiler does not reorder. The trace always has the program's order."""

    def __enter__(self):
        if sessions.current is not None:
            sessions.current.bodies.unordered_regions += 1
        return self

    def __exit__(self, *raised):
        if sessions.current is not None:
            sessions.current.bodies.unordered_regions -= 1
        return False
