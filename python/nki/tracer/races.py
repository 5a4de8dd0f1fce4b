"""Finds accesses of two cores to shared memory that no synchronisation orders.

The programs of a launch run one after the other here, so that a kernel without its barrier would
compute the right result by chance. Every exchange (a barrier, a transfer between cores) begins a new
epoch of all cores. Two accesses of different cores in one epoch have no order. If one of them writes
other bits than the element had, the result depends on which core is faster.
"""

from __future__ import annotations

import numpy as np

from . import errors
from .layout import HBM

# The largest tensor that is watched, in elements. Assumed: it keeps the marks of two cores below
# 1 GiB.
_MOST_ELEMENTS = 64 << 20


class _Marks:
    """When each element of a shared tensor was last written and read."""

    def __init__(self, storage, cores):
        count = storage.bytes // storage.dtype.itemsize
        self.writer = np.full(count, -1, np.int8)
        self.written_in = np.zeros(count, np.int32)
        self.read_in = np.full((cores, count), -1, np.int32)  # by core
        self.bits = storage.data.copy()  # as the last write left them
        self.lines: dict = {}  # (core, "read" or "write") -> line of the last access


class Watch:
    """The accesses of all programs of one launch. Each session has one, and they share `marks`."""

    def __init__(self, session, core: int, marks: dict):
        self.session = session
        self.core = core
        self.marks = marks

    def read(self, view, call):
        marks = self._marks_of(view)
        if marks is None:
            return
        writer, written_in = (self._of(view, a) for a in (marks.writer, marks.written_in))
        if ((writer >= 0) & (writer != self.core) & (written_in == self._epoch())).any():
            other = int(writer[(writer >= 0) & (writer != self.core)].flat[0])
            self._fail(view, call, "reads", other, "written", marks.lines.get((other, "write")))
        self._of(view, marks.read_in[self.core])[...] = self._epoch()
        marks.lines[self.core, "read"] = self._line()

    def write(self, view):
        marks = self._marks_of(view)
        if marks is None:
            return
        root = view.storage.root
        now = view.storage.bits(view.layout, view.offset, root.data.view(np.uint8))
        before = view.storage.bits(view.layout, view.offset, marks.bits)
        changed = now != before
        writer, written_in = (self._of(view, a) for a in (marks.writer, marks.written_in))
        if (changed & (writer >= 0) & (writer != self.core) & (written_in == self._epoch())).any():
            other = int(writer[(writer >= 0) & (writer != self.core)].flat[0])
            self._fail(view, "a write", "writes", other, "written", marks.lines.get((other, "write")))
        for other in range(len(marks.read_in)):
            if other != self.core and (changed & (self._of(view, marks.read_in[other]) == self._epoch())).any():
                self._fail(view, "a write", "writes", other, "read", marks.lines.get((other, "read")))
        before[...] = now
        writer[...] = self.core
        written_in[...] = self._epoch()
        marks.lines[self.core, "write"] = self._line()

    def _epoch(self):
        return self.session.group.epochs[self.core]

    def _marks_of(self, view):
        root = view.storage.root
        group = self.session.group
        if view.memory != HBM or view.dynamic is not None or not group.is_shared(root):
            return None
        if root.bytes // root.dtype.itemsize > _MOST_ELEMENTS or view.dtype.itemsize != root.dtype.itemsize:
            return None
        key = root.data.ctypes.data
        if key not in self.marks:
            self.marks[key] = _Marks(root, len(group.sessions))
        return self.marks[key]

    @staticmethod
    def _of(view, array):
        """Returns the marks of a view's elements."""
        size = array.itemsize
        return np.ndarray(view.shape, array.dtype, array, view.offset * size, [n * size for n in view.strides])

    def _line(self):
        sources = self.session.trace.sources
        file, line, _ = sources.sources[sources.here()]
        return f"{sources.files[file]}:{line}"

    def _fail(self, view, call, does, other, done, line):
        where = f" at {line}" if line else ""
        raise errors.NkiValidationError(
            f"{self._line()}: {call}: core {self.core} {does} elements of {view.describe()} that core {other} has {done}{where}, and "
            f"nothing orders the two; call nki.isa.core_barrier between them"
        )
