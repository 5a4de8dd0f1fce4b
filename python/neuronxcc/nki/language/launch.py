"""Loops, and the launch grid, whose programs run one after the other on one core."""

from __future__ import annotations

import numpy as np
from nki import language as core
from nki.tracer import errors, session, whole

from ..results import issue_pending


class LoopIndex(int):
    """A loop's variable with the first value of its loop."""

    first = 0


class _Loop:
    __slots__ = ("loop",)

    def __init__(self, loop):
        self.loop = loop

    def __iter__(self):
        # A pending result belongs to the iteration that asked for it, and is therefore issued
        # before the next mark in the trace.
        issue_pending()
        first = self.loop.range.start
        for i in self.loop:
            if first != 0:
                i = LoopIndex(i)
                i.first = first
            yield i
            issue_pending()

    def __len__(self):
        return len(self.loop)


def _range(kind):
    def loop(start, stop=None, step=1, **unused):
        call = f"nl.{kind.__name__}"
        first, last = (0, start) if stop is None else (start, stop)
        limits = (whole.number(call, name, n) for name, n in (("start", first), ("stop", last), ("step", step)))
        return _Loop(kind(*limits))

    loop.__name__ = loop.__qualname__ = kind.__name__

    return loop


affine_range = _range(core.affine_range)
sequential_range = _range(core.sequential_range)
static_range = _range(core.static_range)


def nc(count) -> int:
    """`nl.nc(2)`: a dimension of the grid that is distributed over cores. Here all programs run on
    one core.
    """
    return whole.number("nl.nc", "count", count)


def spmd_dim(size, *cores) -> int:
    return int(np.prod(whole.numbers("nl.spmd_dim", "size", (size, *cores))))


def program_id(axis=0) -> int:
    call = "nl.program_id"
    run = session.active(call)
    axis = _axis(call, axis)
    return run.program[axis] if axis < len(run.program) else 0


def _axis(call, axis) -> int:
    found = whole.number(call, "axis", axis)
    if found < 0:
        errors.fail(call, f"axis: expected 0 or more, found {axis}")
    return found


def num_programs(axes=0) -> int:
    call = "nl.num_programs"
    run = session.active(call)
    given = range(len(run.grid)) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    chosen = [_axis(call, a) for a in given]
    return int(np.prod([run.grid[a] if a < len(run.grid) else 1 for a in chosen], dtype=int))


def program_ndim() -> int:
    return len(session.active("nl.program_ndim").grid)
