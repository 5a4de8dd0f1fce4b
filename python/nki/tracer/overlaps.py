"""Finds tensors at explicit addresses that overwrite each other.

A kernel that sets `address=` says itself which memory a tensor takes. Each tensor has bytes of its
own here, so that a wrong address would change no value. This file therefore keeps for every byte of
SBUF and PSUM the tensor that wrote it last, and refuses a read of elements that the tensor has
written and another one has overwritten. Elements that the tensor never wrote may hold anything,
because kernels copy such tiles as a whole and ignore the rest.
"""

from __future__ import annotations

import numpy as np

from . import device as devices
from . import errors, location
from .layout import PSUM


class Watch:
    def __init__(self, session):
        self.session = session
        # By memory: the number of the tensor that wrote each byte of each partition last, plus 1.
        self._writers: dict = {}
        self._noted: set = set()
        self._tensors: dict = {}  # by that number: the tensor's kind and name

    def read(self, view, call):
        writers = self._writers_of(view)
        if writers is None:
            return
        mine = view.storage.root.id + 1
        if view.storage.root.placed is None:
            return
        foreign = (writers != mine) & self._placed(view)
        if foreign.any():
            root_kind, name = self._tensors[int(writers[foreign].flat[0])]
            other = f"'{name}' of {self.session.trace.source_line(root_kind)}"
            text = (f"{view.describe()}: {other} has overwritten {int(foreign.sum())} of its {view.size} elements; the two have "
                    f"addresses that overlap")  # fmt: skip
            if self.session.dialect == "nki":
                errors.fail(call, text)
            self._note(view, text)

    def _note(self, view, text):
        """Notes an overlap once for each tensor. A published kernel of the legacy dialect has one in
        float32, for which its addresses are too near, and passes the vendor's test.
        """
        if view.storage.root.kind not in self._noted:
            self._noted.add(view.storage.root.kind)
            self.session.note(f"{location.describe()}: {text}")

    def write(self, view):
        writers = self._writers_of(view)
        if writers is None:
            return
        root = view.storage.root
        number = root.id + 1
        self._tensors.setdefault(number, (root.kind, root.name))
        writers[...] = number
        if root.placed is None:
            root.placed = np.zeros(root.bytes, bool)
        self._placed(view)[...] = True

    @staticmethod
    def _placed(view):
        """Returns which elements of the view the tensor itself has written."""
        size = view.dtype.itemsize
        return np.ndarray(view.shape, bool, view.storage.root.placed, view.offset * size, [s * size for s in view.strides])

    def _writers_of(self, view):
        """Returns the marks of the first byte of each element, or None if the tensor has no address."""
        root = view.storage.root
        if root.address is None or view.dynamic is not None:
            return None
        memory = view.memory
        capacity = devices.PSUM_BYTES if memory == PSUM else self.session.device.sbuf_bytes
        if memory not in self._writers:
            self._writers[memory] = np.zeros((devices.PARTITIONS, capacity), np.int32)
        layout, size = view.layout, view.dtype.itemsize
        partition, within = divmod(view.offset, layout.row)
        start = (root.partition + partition) * capacity + root.address + within * size
        strides = [layout.strides[0] // layout.row * capacity, *(s * size for s in layout.strides[1:])]
        return np.ndarray(view.shape, np.int32, self._writers[memory], 4 * start, [4 * s for s in strides])
