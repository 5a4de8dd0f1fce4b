"""Python's loops and the launch grid.

Loops that Python runs are unrolled, as in the language. The loops of nki.language leave marks in
the trace. Loops of the device are in device_loops.py.
"""

from __future__ import annotations

from ..tracer import errors, releases, trace, whole
from ..tracer import session as sessions

_KINDS = {"affine_range": "affine", "sequential_range": "sequential", "static_range": "static", "dynamic_range": "dynamic",
          "range": "static"}  # fmt: skip


# The largest number of iterations of a loop. Assumed: no kernel reaches it within its limits.
_MOST_ITERATIONS = (1 << 31) - 1


class Loop:
    """A range that marks its iterations in the trace."""

    __slots__ = ("kind", "range")

    def __init__(self, kind: str, numbers: range):
        self.kind = kind
        self.range = numbers

    def __iter__(self):
        s = sessions.current
        if s is None:
            yield from self.range
            return
        source = s.trace.sources.here()
        described = ("", self.kind, len(self.range), source)
        s.trace.loop(trace.LOOP_BEGIN, *described)
        carried = s.carried
        affine = carried.begin(source) if carried is not None and self.kind == "affine" else None
        try:
            for i in self.range:
                s.trace.loop(trace.LOOP_ITERATION, *described)
                if carried is not None:
                    carried.next_iteration(affine)
                yield i
        finally:
            if affine is not None:
                carried.end(affine)
        s.trace.loop(trace.LOOP_END, *described)

    def __len__(self):
        return len(self.range)

    def __getitem__(self, i):
        return self.range[i]

    def __contains__(self, i):
        return i in self.range


def _loop(name, start, stop, step):
    call = f"nki.language.{name}"
    try:
        first, last = (0, start.__index__()) if stop is None else (start.__index__(), stop.__index__())
        loop = Loop(_KINDS[name], range(first, last, step.__index__()))
    except errors.NkiValidationError:
        raise  # that of a register
    except (AttributeError, TypeError, ValueError):
        errors.fail(call, f"expected whole numbers, found {start!r}, {stop!r}, {step!r}")
    if loop.range[:_MOST_ITERATIONS] != loop.range:
        errors.fail(call, f"expected fewer than 2^31 iterations, found {loop.range}")
    return loop


def counted_loop(lower: int, upper: int, step: int) -> Loop:
    """Returns the iterations of a loop that the device counts."""
    return Loop("dynamic", range(lower, upper, step))


def _deprecated_range(name, start, stop, step):
    releases.deprecated(f"nki.language.{name}", (0, 7), "range")
    return _loop(name, start, stop, step)


def affine_range(start, stop=None, step=1, **unused):
    return _deprecated_range("affine_range", start, stop, step)


def sequential_range(start, stop=None, step=1, **unused):
    return _deprecated_range("sequential_range", start, stop, step)


def static_range(start, stop=None, step=1, **unused):
    return _deprecated_range("static_range", start, stop, step)


def range_(start, stop=None, step=1, **unused):
    return _loop("range", start, stop, step)


def dynamic_range(start, stop=None, step=1, **unused):
    call, instead = "nki.language.dynamic_range", "nki.language.fori_loop(lower, upper, body_fun)"
    releases.removed(call, (0, 7), instead)
    releases.deprecated(call, (0, 6), instead)
    return _loop("dynamic_range", start, stop, step)


# The launch grid


def program_id(axis=0):
    call = "nki.language.program_id"
    s = sessions.active(call)
    axis = _axis(call, axis)
    return s.program[axis] if axis < len(s.program) else 0


def _axis(call, axis):
    found = whole.number(call, "axis", axis)
    if found < 0:
        errors.fail(call, f"axis: expected 0 or more, found {axis}")
    return found


def num_programs(axes=0):
    call = "nki.language.num_programs"
    s = sessions.active(call)
    chosen = range(len(s.grid)) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    count = 1
    for axis in (_axis(call, a) for a in chosen):
        count *= s.grid[axis] if axis < len(s.grid) else 1
    return count


def program_ndim():
    return len(sessions.active("nki.language.program_ndim").grid)
