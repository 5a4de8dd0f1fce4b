"""Accumulation in PSUM."""

from __future__ import annotations

import numpy as np
from nki import isa
from nki.tracer import errors


class Sums:
    """Where in a tensor of PSUM something was written: there a product adds, elsewhere it begins a sum.

    `nl.zeros` in PSUM issues nothing by itself (`zero`): the first product of a sum overwrites. Only if something else
    reads the zeros, they are written.
    """

    __slots__ = ("begun", "zero", "known", "row")

    def __init__(self, tensor, zero=False):
        layout = tensor.layout
        self.row = layout.row
        self.begun = np.zeros(layout.shape[0] * layout.row, bool)
        self.zero = zero
        self.known = set()

    def _marks(self, tensor):
        layout = tensor.layout
        return np.ndarray(layout.shape, bool, self.begun, tensor.offset, layout.strides)

    def begin(self, tensor) -> bool:
        self.written(tensor)
        return False

    def add(self, tensor) -> bool:
        key = (tensor.offset, tensor.layout)
        if key in self.known:
            return True
        marks = self._marks(tensor)
        before = bool(marks.all())
        if not before and marks.any():
            errors.fail("+=", f"{tensor.describe()}: only a part of it holds a sum")
        self.written(tensor)
        return before

    def written(self, tensor):
        key = (tensor.offset, tensor.layout)
        if key not in self.known:
            self.known.add(key)
            self._marks(tensor)[...] = True

    def clear(self, tensor):
        key = (tensor.offset, tensor.layout)
        if key in self.known:
            return
        marks = self._marks(tensor)
        if not marks.any():
            isa.memset(tensor, 0)
            self.written(tensor)
        elif not marks.all():
            errors.fail("nl.zeros", f"{tensor.describe()}: only a part of it was written")
