"""Accumulation in PSUM."""

from __future__ import annotations

import numpy as np
from nki import isa
from nki.tracer import errors


class PsumSums:
    """Marks the elements of a tensor in PSUM that were written. A product adds to them, and begins
    a sum elsewhere.

    `nl.zeros` in PSUM issues nothing by itself and sets `pending_zeros`, because the first product of
    a sum overwrites. The zeros are written only if something else reads them.
    """

    __slots__ = ("started", "pending_zeros", "marked", "row")

    def __init__(self, tensor, pending_zeros=False):
        layout = tensor.layout
        self.row = layout.row
        self.started = np.zeros(layout.shape[0] * layout.row, bool)
        self.pending_zeros = pending_zeros
        self.marked = set()

    def _marks(self, tensor):
        layout = tensor.layout
        return np.ndarray(layout.shape, bool, self.started, tensor.offset, layout.strides)

    def begin(self, tensor) -> bool:
        self.mark_written(tensor)
        return False

    def add(self, tensor) -> bool:
        key = (tensor.offset, tensor.layout)
        if key in self.marked:
            return True
        marks = self._marks(tensor)
        before = bool(marks.all())
        if not before and marks.any():
            if not self.pending_zeros:
                errors.fail("+=", f"{tensor.describe()}: only a part of it holds a sum")
            self._write_zeros(tensor, marks)
            before = True
        self.mark_written(tensor)
        return before

    def mark_written(self, tensor):
        key = (tensor.offset, tensor.layout)
        if key not in self.marked:
            self.marked.add(key)
            self._marks(tensor)[...] = True

    def write_pending_zeros(self, tensor):
        key = (tensor.offset, tensor.layout)
        if key in self.marked:
            return
        marks = self._marks(tensor)
        self._write_zeros(tensor, marks)

    def _write_zeros(self, tensor, marks):
        """Writes zeros to the elements that were not written yet."""
        for box in _boxes(~marks):
            isa.memset(tensor[box], 0)
        self.mark_written(tensor)


def _boxes(mask: np.ndarray) -> list[tuple]:
    """Returns slices that cover each true element of a mask once: runs of equal slices along one
    axis after the other.
    """
    if not mask.any():
        return []
    if mask.all():
        return [tuple(slice(0, n) for n in mask.shape)]
    axis = min((a for a in range(mask.ndim) if len(_runs(mask, a)) > 1), key=lambda a: len(_runs(mask, a)))
    found = []
    for first, last in _runs(mask, axis):
        for box in _boxes(mask.take([first], axis)):
            found.append((*box[:axis], slice(first, last), *box[axis + 1 :]))
    return found


def _runs(mask, axis):
    """Returns [first, last) of each run of equal slices along `axis`."""
    slices = np.moveaxis(mask, axis, 0).reshape(mask.shape[axis], -1)
    changes = np.flatnonzero((slices[1:] != slices[:-1]).any(axis=1)) + 1
    edges = [0, *changes.tolist(), len(slices)]
    return list(zip(edges, edges[1:]))
