"""Finds values that a kernel of the legacy dialect carries in SBUF from one iteration of an
`affine_range` loop to the next.

The compiler may run the iterations of such a loop in any order. It therefore refuses the kernel or
computes something else. Sums of products in PSUM are allowed, and so are the reductions of
`nl.loop_reduce`.
"""

from __future__ import annotations

import contextlib

import numpy as np

from .layout import SBUF


class Loop:
    """An `affine_range` loop in progress. Times count the iterations of all loops."""

    __slots__ = ("began", "iteration", "source")

    def __init__(self, began, source):
        self.began = self.iteration = began
        self.source = source


class Watch:
    def __init__(self, session):
        self.session = session
        self.time = 0
        self.loops: list[Loop] = []
        self.is_allowed = False
        self._noted: set = set()

    def begin(self, source) -> Loop:
        loop = Loop(self.time, source)
        self.loops.append(loop)
        return loop

    def next_iteration(self, loop: Loop | None):
        """Begins an iteration of an affine loop, or with None of another one."""
        self.time += 1
        if loop is not None:
            loop.iteration = self.time

    def end(self, loop: Loop):
        self.loops.remove(loop)

    @contextlib.contextmanager
    def allowed(self):
        before, self.is_allowed = self.is_allowed, True
        try:
            yield
        finally:
            self.is_allowed = before

    def write(self, view):
        if view.memory == SBUF and self.loops and view.dynamic is None:
            root = view.storage.root
            if root.times is None:
                root.times = np.zeros(root.bytes, np.int32)
            self._times(view)[...] = self.time

    def read(self, view, call):
        times = view.storage.root.times
        if times is None or not self.loops or self.is_allowed or view.dynamic is not None:
            return
        latest = self._times(view)
        for loop in self.loops:
            if ((latest > loop.began) & (latest < loop.iteration)).any():
                self._note(view, loop)
                return

    @staticmethod
    def _times(view):
        size = 4 * view.dtype.itemsize
        return np.ndarray(view.shape, np.int32, view.storage.root.times, view.offset * size, [s * size for s in view.strides])

    def _note(self, view, loop):
        sources = self.session.trace.sources
        lines = []
        for source in (sources.here(), loop.source):
            file, line, _ = sources.sources[source]
            lines.append(f"{sources.files[file]}:{line}")
        name = view.storage.root.name or view.describe()
        if (name, loop.source) in self._noted:
            return
        self._noted.add((name, loop.source))
        self.session.note(
            f"{lines[0]}: '{name}' carries a value in sbuf from one iteration of the affine_range loop of {lines[1]} to the next; "
            f"the compiler refuses this or reorders it: use nl.sequential_range"
        )
