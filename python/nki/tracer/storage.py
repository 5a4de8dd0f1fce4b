"""The memory of one tensor: an instance in the trace, its bytes if values are computed, and which
bytes were written.

A storage is an allocation or an argument. `alias` returns the same bytes as another type, which is
an instance of its own whose `root` is the allocation. When Python drops the last view, the storage
records its release in the trace.

With values, and in HBM, the written bytes are known exactly. On chip without values only the range
between the first and the last written element is known. In PSUM, `started` marks the elements on
which an accumulation has begun. A read of the sum ends the accumulation, so that the next product
begins a new one.
"""

from __future__ import annotations

import weakref
from math import prod

import numpy as np

from . import dtypes
from .layout import HBM, Layout, row_major


class Storage:
    __slots__ = ("session", "id", "name", "memory", "dtype", "shape", "row", "bytes", "data", "written", "low",
                 "high", "started", "filled", "times", "address", "placed", "last_sum", "_root", "_aliases", "kind", "layout",
                 "partition", "buffer", "body",
                 "__weakref__")  # fmt: skip

    def __init__(self, session, name, memory, dtype, shape, root=None):
        self._root = root  # only for an alias
        self.session = session
        self.id = -1
        self.name = name
        self.memory = memory
        self.dtype = dtype
        self.shape = shape
        self.row = prod(shape[1:]) if memory != HBM else 0
        self.bytes = prod(shape) * dtype.itemsize
        self._aliases = None
        self.kind = -1
        self.partition = 0
        self.body = session.bodies.innermost  # the body of a loop of the device that makes the tensor
        self.buffer = None  # the dialect's object for the memory, if it has several kinds
        self.data = self.written = None  # uint8 arrays; only in the root
        # The range of written bytes if values are not computed. Only in the root.
        self.low, self.high = 1 << 62, -1
        self.started = None  # only in the root, in PSUM: a bool per byte
        self.filled = None  # the same for elements that something other than a product wrote last
        self.times = None  # only in the root, for carried.py
        self.address = None  # the explicit byte in each partition, or None
        self.placed = None  # with an address: a bool per byte that this tensor has written
        self.last_sum = None
        self.layout = session.layout(dtype, memory, self.row, shape, row_major(shape))

    def __del__(self):
        if self._root is None:
            self.session.trace.release(self.id)

    @property
    def root(self) -> Storage:
        """The allocation that owns the bytes."""
        return self._root or self

    # Values

    def materialize(self, data: np.ndarray | None = None):
        """Allocates bytes for the values: those of `data`, or unwritten ones."""
        if data is not None:
            self.data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            if not self.data.flags.writeable:
                self.data = self.data.copy()
            return
        self.data = np.zeros(self.bytes, np.uint8)
        self.track_written()

    def track_written(self):
        """Begins to mark each byte that is written."""
        self.written = np.zeros(self.bytes, np.uint8)

    def bits(self, layout: Layout, offset: int, of=None) -> np.ndarray:
        """Returns a NumPy view of the raw bits of a view, or with `of` of the marks of written
        bytes.
        """
        raw = layout.dtype.raw
        return np.ndarray(
            layout.shape,
            raw if of is None else _mark_type(raw.itemsize),
            self.root.data if of is None else of,
            offset * raw.itemsize,
            [s * raw.itemsize for s in layout.strides],
        )

    # Written bytes

    def mark_all_written(self):
        """Marks everything as written, for an argument."""
        self.low, self.high, self.written = 0, self.bytes, None

    def mark_written(self, layout: Layout, offset: int, where=...):
        """Marks the elements of a view as written, or those that an array of bool selects."""
        root = self.root
        size = layout.dtype.itemsize
        if root.written is not None:
            self.bits(layout, offset, root.written)[where] = ~_mark_type(size).type(0)
        root.low = min(root.low, (offset + layout.low) * size)
        root.high = max(root.high, (offset + layout.high + 1) * size)

    def mark_unwritten(self, layout: Layout, offset: int, where: np.ndarray):
        """Marks elements as unwritten, because they were computed from unwritten ones."""
        if self.root.written is not None:
            self.bits(layout, offset, self.root.written)[where] = 0

    def unwritten(self, layout: Layout, offset: int) -> np.ndarray | bool:
        """Returns which elements of a view were never written: an array of bool, True for all, or
        False for none.
        """
        root = self.root
        size = layout.dtype.itemsize
        if root.written is not None:
            unwritten_mask = self.bits(layout, offset, root.written) != ~_mark_type(size).type(0)
            return False if not unwritten_mask.any() else True if unwritten_mask.all() else unwritten_mask
        return (offset + layout.high + 1) * size <= root.low or (offset + layout.low) * size >= root.high

    # Sums in PSUM

    def begin_sum(self, layout: Layout, offset: int):
        """Marks the elements of the view as a running sum. Returns whether they were one before:
        True, False, or an array of bool.
        """
        root = self.root
        if root.last_sum == (layout, offset):
            return True
        root.last_sum = (layout, offset)
        marks = self._sums(layout, offset)
        before = True if marks.all() else marks.copy() if marks.any() else False
        marks[...] = True
        return before

    def end_sum(self, layout: Layout, offset: int):
        """Ends the sums of the elements, which were read, or written by something other than a
        product.
        """
        root = self.root
        root.last_sum = None
        if root.started is not None:
            self._sums(layout, offset)[...] = False

    def mark_filled(self, layout: Layout, offset: int):
        """Marks elements that something other than a product has written."""
        root = self.root
        if root.filled is None:
            root.filled = np.zeros(root.bytes, bool)
        self._marks(root.filled, layout, offset)[...] = True

    def take_filled(self, layout: Layout, offset: int) -> bool:
        """Returns whether something other than a product wrote one of the elements last. A product
        writes them now.
        """
        if self.root.filled is None:
            return False
        marks = self._marks(self.root.filled, layout, offset)
        found = bool(marks.any())
        marks[...] = False
        return found

    def _sums(self, layout, offset):
        root = self.root
        if root.started is None:
            root.started = np.zeros(root.bytes, bool)
        return self._marks(root.started, layout, offset)

    @staticmethod
    def _marks(marks, layout, offset):
        size = layout.dtype.itemsize
        return np.ndarray(layout.shape, bool, marks, offset * size, [s * size for s in layout.strides])

    # Aliases of another type

    def alias(self, dtype: dtypes.DType) -> Storage | None:
        """Returns this memory as elements of another type, or None if its bytes do not divide
        evenly.
        """
        root = self.root
        if dtype is root.dtype:
            return root
        if root._aliases is None:
            root._aliases = {}
        cached = root._aliases.get(dtype, lambda: None)()
        if cached is not None:
            return cached
        shape = root._shape_as(dtype)
        if shape is None:
            return None
        alias = Storage(root.session, root.name, root.memory, dtype, shape, root)
        root._aliases[dtype] = weakref.ref(alias)
        root.session.trace.view(alias, root)
        return alias

    def _shape_as(self, dtype):
        ours, theirs = self.dtype.itemsize, dtype.itemsize
        if self.shape[-1] * ours % theirs == 0 and (len(self.shape) > 1 or self.memory == HBM):
            return (*self.shape[:-1], self.shape[-1] * ours // theirs)
        per_partition = self.row * ours if self.memory != HBM else self.bytes
        if per_partition % theirs:
            return None
        return (self.shape[0], per_partition // theirs) if self.memory != HBM else (per_partition // theirs,)


def _mark_type(size):
    return np.dtype(f"u{size}")
