"""Tensors: views of a storage. Indexing, slicing and reshaping make new views and move nothing.

A view is a storage, a layout and the index of its first element. `dynamic` describes the part of
its address that depends on a run-time value (a register, or indices in SBUF). The elements of such
a view are those at index 0.
"""

from __future__ import annotations

from math import prod

import numpy as np

from . import dtypes, errors, indexing, whole
from .layout import HBM, Layout, reshaped_strides

_CALL = "tensor"


class Dynamic:
    """A run-time index.

    The index is in `tensor`, or in `register` if `tensor` is None. One step is `stride` elements,
    and indices are below `limit`. With `vector` each index of the tensor belongs to one partition.
    """

    __slots__ = ("tensor", "register", "stride", "limit", "vector")

    def __init__(self, tensor, register, stride: int, limit: int, vector: bool):
        self.tensor = tensor
        self.register = register
        self.stride = stride
        self.limit = limit
        self.vector = vector


class Columns(Dynamic):
    """Offsets along the free dimension that a group of partitions shares.

    Offset i is in partition i % group of the group and in column i // group of the tensor. The
    number of partitions in a `group` depends on the engine that uses the view.
    """

    __slots__ = ("group",)

    def __init__(self, tensor, limit: int):
        super().__init__(tensor, None, 1, limit, False)
        self.group = 16


class Tensor:
    __slots__ = ("storage", "layout", "offset", "dynamic")

    def __init__(self, storage, layout: Layout, offset: int, dynamic: Dynamic | None = None):
        self.storage = storage
        self.layout = layout
        self.offset = offset
        self.dynamic = dynamic

    # Properties for kernels

    @property
    def shape(self) -> tuple:
        return self.layout.shape

    @property
    def strides(self) -> tuple:
        return self.layout.strides

    @property
    def dtype(self) -> dtypes.DType:
        return self.layout.dtype

    @property
    def ndim(self) -> int:
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def itemsize(self) -> int:
        return self.layout.dtype.itemsize

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def memory(self) -> str:
        """ "hbm", "sbuf" or "psum"."""
        return self.layout.memory

    @property
    def buffer(self):
        return self.storage.root.buffer or BUFFERS[self.layout.memory]

    @property
    def data(self) -> Tensor:
        """The tensor itself. The grids of `nl.tiles` have this attribute, too."""
        return self

    def is_contiguous(self) -> bool:
        return self.layout.contiguous

    def is_indirect(self) -> bool:
        return self.dynamic is not None

    def get_pattern(self) -> list:
        return [[s, n] for n, s in zip(self.shape, self.strides)]

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<{self.describe()}>"

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        errors.fail(f"tensor.{name}", "not known to this tracer", errors.UnknownCall)

    def describe(self) -> str:
        """Returns the tensor as messages show it."""
        name = f"'{self.name}', " if self.name else ""
        return f"{name}{self.dtype} {list(self.shape)} in {self.memory}"

    # Bits

    def bits(self, skip: bool = False) -> np.ndarray:
        """Returns a NumPy view of the raw bits. The result is a copy if their place depends on a
        run-time index. With `skip`, rows out of bounds are no error and have the bits at index 0.
        """
        if self.dynamic is None:
            return self.storage.bits(self.layout, self.offset)
        from . import indirect

        return indirect.gather(self, skip)

    def put(self, bits: np.ndarray, skip: bool = False):
        """Writes the raw bits. With `skip`, rows out of bounds are left out."""
        if self.dynamic is None:
            self.storage.bits(self.layout, self.offset)[...] = bits
        else:
            from . import indirect

            indirect.scatter(self, bits, skip)

    # Views

    def with_layout(
        self, shape: tuple, strides: tuple, offset: int | None = None, dynamic: Dynamic | None = None
    ) -> Tensor:
        """Returns another view of the same storage."""
        if isinstance(self.dynamic, Columns) and shape != self.shape:
            self._wrong("indirect", "a view of offsets is used as it is: take slices before .indirect(...)")
        layout, storage = self.layout, self.storage
        made = storage.session.layout(layout.dtype, layout.memory, layout.row, shape, strides)
        return Tensor(storage, made, self.offset if offset is None else offset, dynamic or self.dynamic)

    def __class_getitem__(cls, shape):
        return cls  # for the annotation `nt.tensor[128, 512]`

    def __getitem__(self, key) -> Tensor:
        return indexing.index(self, key)

    def __setitem__(self, key, value):
        ASSIGN[0](self[key], value)

    def __iter__(self):
        return (self[i] for i in range(self.shape[0]))

    def ap(self, pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None) -> Tensor:
        return indexing.access_pattern(self, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype)

    def reshape(self, *sizes, shape=None) -> Tensor:
        shape = sizes if shape is None else (shape,)
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = shape[0]
        new = indexing.inferred(whole.numbers("tensor.reshape", "shape", shape), self.size)
        if new is None:
            self._wrong("reshape", f"{list(shape)} has not the {self.size} elements of {list(self.shape)}")
        if self.memory != HBM and new[0] != self.shape[0]:
            self._wrong("reshape", f"{list(self.shape)} to {list(new)}: the partition axis of a tensor on chip stays")
        strides = reshaped_strides(self.shape, self.strides, new)
        if strides is None:
            self._wrong("reshape", f"{list(self.shape)} with strides {list(self.strides)} to {list(new)} needs a copy")
        return self.with_layout(new, strides)

    def view(self, dtype) -> Tensor:
        """Returns the same bytes as elements of another type. The size of the last dimension
        changes.
        """
        return indexing.reinterpreted(self, dtype)

    reinterpret_cast = view

    def permute(self, dims) -> Tensor:
        dims = whole.numbers("tensor.permute", "dims", dims)
        if sorted(dims) != list(range(self.ndim)):
            self._wrong("permute", f"{list(dims)} is no order of {self.ndim} dimensions")
        if self.memory != HBM and dims[0] != 0:
            self._wrong("permute", "the partition axis of a tensor on chip stays the first")
        return self.with_layout(tuple(self.shape[d] for d in dims), tuple(self.strides[d] for d in dims))

    def broadcast(self, dim: int, size: int) -> Tensor:
        dim = self._dimension("broadcast", dim)
        if self.shape[dim] != 1:
            self._wrong("broadcast", f"dimension {dim} of {list(self.shape)} has more than one element")
        return self._replace(dim, dim + 1, (self._size("broadcast", size),), (0,))

    def broadcast_to(self, shape) -> Tensor:
        shape = tuple(self._size("broadcast_to", n) for n in whole.items("tensor.broadcast_to", "shape", shape, "whole numbers"))
        fits = len(shape) == self.ndim and all(n in (1, m) for n, m in zip(self.shape, shape))
        if not fits:
            self._wrong("broadcast_to", f"{list(self.shape)} does not become {list(shape)}")
        strides = tuple(s if n == m else 0 for n, m, s in zip(self.shape, shape, self.strides))
        return self.with_layout(shape, strides)

    def expand_dim(self, dim: int) -> Tensor:
        dim = whole.number("tensor.expand_dim", "dim", dim)
        if dim < 0:
            dim += self.ndim + 1
        if not (self.memory != HBM) <= dim <= self.ndim:
            self._wrong("expand_dim", f"no place for a dimension at {dim} of {list(self.shape)}")
        stride = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
        return self._replace(dim, dim, (1,), (stride,))

    expand_dims = expand_dim

    def squeeze_dim(self, dim: int) -> Tensor:
        dim = self._dimension("squeeze_dim", dim)
        if self.shape[dim] != 1 or (self.memory != HBM and dim == 0):
            self._wrong("squeeze_dim", f"dimension {dim} of {list(self.shape)} has to stay")
        return self._replace(dim, dim + 1, (), ())

    squeeze = squeeze_dim

    def reshape_dim(self, dim: int, shape) -> Tensor:
        dim = self._dimension("reshape_dim", dim)
        new = indexing.inferred(whole.numbers("tensor.reshape_dim", "shape", shape), self.shape[dim])
        if new is None or (dim == 0 and self.memory != HBM and len(new) > 1):
            self._wrong("reshape_dim", f"dimension {dim} of {list(self.shape)} does not become {list(shape)}")
        strides = tuple(self.strides[dim] * prod(new[i + 1 :]) for i in range(len(new)))
        return self._replace(dim, dim + 1, new, strides)

    def flatten_dims(self, start_dim: int, end_dim: int) -> Tensor:
        first, last = self._dimension("flatten_dims", start_dim), self._dimension("flatten_dims", end_dim)
        if first > last:
            self._wrong("flatten_dims", f"dimension {first} comes after dimension {last}")
        shape = self.shape[first : last + 1]
        strides = reshaped_strides(shape, self.strides[first : last + 1], (prod(shape),))
        if strides is None:
            self._wrong("flatten_dims", f"dimensions {first} to {last} of {list(self.shape)} are not contiguous")
        return self._replace(first, last + 1, (prod(shape),), strides)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Tensor:
        dim = self._dimension("slice", dim)
        return self[(slice(None),) * dim + (slice(start, end, step),)]

    def select(self, dim: int, index) -> Tensor:
        dim = self._dimension("select", dim)
        if isinstance(index, (int, np.integer)):
            if not -self.shape[dim] <= index < self.shape[dim]:
                self._wrong("select", f"index {index} of dimension {dim}, which has {self.shape[dim]} elements ({errors.OUT_OF_BOUNDS})")
            index = int(index) % self.shape[dim]
            picked = self[(slice(None),) * dim + (slice(index, index + 1),)]
            return picked if self.memory != HBM and dim == 0 else picked._replace(dim, dim + 1, (), ())
        return indexing.selected(self, dim, index)

    def indirect(self, index, num_elem: int | None = None) -> Tensor:
        """Returns the elements of each partition at the offsets in `index`."""
        return indexing.columns(self, index, num_elem)

    def vector_select(self, dim: int, vector_offset) -> Tensor:
        return indexing.vector_selected(self, self._dimension("vector_select", dim), vector_offset)

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None) -> Tensor:
        return indexing.rearranged(self, src_pattern, dst_pattern, fixed_sizes or {})

    def _size(self, call, size) -> int:
        found = whole.number(f"{_CALL}.{call}", "size", size)
        if found < 1:
            self._wrong(call, f"a dimension of {found} elements, expected at least 1")
        return found

    def _dimension(self, call, dim):
        dim = whole.number(f"{_CALL}.{call}", "dim", dim)
        if not -self.ndim <= dim < self.ndim:
            self._wrong(call, f"no dimension {dim} in {list(self.shape)}")
        return dim % self.ndim

    def _replace(self, first, last, shape, strides):
        """Returns a view in which dimensions [first, last) are replaced."""
        return self.with_layout(
            (*self.shape[:first], *shape, *self.shape[last:]), (*self.strides[:first], *strides, *self.strides[last:])
        )

    def _wrong(self, call, text):
        errors.fail(f"{_CALL}.{call}", f"{self.describe()}: {text}")


# The values of `tensor.buffer` by memory. A dialect puts its own objects here.
BUFFERS: dict[str, object] = {}


def _no_assignment(view, value):
    errors.fail("tensor[...]", f"{view.describe()}: assignment is not part of this dialect")


# The function that `tensor[...] = value` calls with the view and the value. A dialect puts its own
# function here.
ASSIGN = [_no_assignment]
