"""Reads and writes views whose address depends on a run-time index.

There are three kinds. A scalar index moves the whole view by index x stride. With a vector, each
row of the first dimension has its own index in place of its stride. With columns, each element has
its own index. An index out of bounds is an error, or with `skip` its row is left out.
"""

from __future__ import annotations

import numpy as np

from . import errors
from .tensor import Columns, Tensor

_CALL = "indirect access"


def index_values(view: Tensor) -> np.ndarray:
    """Returns the indices: one, or one per row."""
    dynamic = view.dynamic
    if dynamic.tensor is None:
        return np.array([dynamic.register.require_number(_CALL, "the index")])
    return dynamic.tensor.bits().reshape(-1).astype(np.int64)


def row_starts(view: Tensor, skip: bool = False):
    """Returns the first element of each row (scalar: of the view), and whether the row is in
    bounds.
    """
    dynamic, layout = view.dynamic, view.layout
    found = index_values(view)
    if dynamic.vector:
        if found.size < layout.shape[0]:
            errors.fail(_CALL, f"{view.describe()} needs {layout.shape[0]} indices, found {found.size}")
        found = found[: layout.shape[0]]
        rest = sum((n - 1) * s for n, s in zip(layout.shape[1:], layout.strides[1:]))
    else:
        found = found[:1]
        rest = layout.high
    begin = view.offset + found * dynamic.stride
    inside = (found >= 0) & (begin + rest < view.storage.layout.size)
    if not skip and not inside.all():
        worst = int(found[~inside][0])
        errors.fail(_CALL, f"{view.describe()}: index {worst} is out of bounds, there are {dynamic.limit} ({errors.OUT_OF_BOUNDS})")
    return begin, inside


def _row_indices(view: Tensor, begins):
    """Returns the indices of the view's elements, given the begin of each row."""
    layout = view.layout
    inner = np.zeros(layout.shape[1:] if view.dynamic.vector else layout.shape, np.int64)
    axes = list(zip(layout.shape, layout.strides))[1 if view.dynamic.vector else 0 :]
    for axis, (n, stride) in enumerate(axes):
        inner += (np.arange(n) * stride).reshape([-1 if a == axis else 1 for a in range(len(axes))])
    if view.dynamic.vector:
        return begins.reshape([-1] + [1] * len(axes)) + inner
    return begins[0] + inner


def _column_indices(view: Tensor):
    """Returns the indices of the elements of a view with offsets along the free dimension."""
    dynamic, (partitions, count) = view.dynamic, view.layout.shape
    group, offsets = dynamic.group, dynamic.tensor.bits().astype(np.int64)
    if -(-count // group) > offsets.shape[1]:
        errors.fail(_CALL, f"{view.describe()}: {offsets.shape[1]} columns of indices hold the offsets of "
                           f"{offsets.shape[1] * group} elements in groups of {group} partitions, {count} are needed")  # fmt: skip
    first = np.arange(partitions)[:, None] // group * group
    which = first + np.arange(count) % group
    if which.max() >= partitions:
        errors.fail(_CALL, f"{view.describe()}: the last group of {group} partitions has {partitions % group}")
    found = offsets[which, np.arange(count) // group]
    outside = found[(found < 0) | (found >= dynamic.limit)]
    if outside.size:
        errors.fail(_CALL, f"{view.describe()}: index {outside[0]} is out of bounds, there are {dynamic.limit} ({errors.OUT_OF_BOUNDS})")
    return view.offset + np.arange(partitions)[:, None] * view.layout.strides[0] + found


def gather(view: Tensor, skip: bool = False) -> np.ndarray:
    """Returns the raw bits. Rows out of bounds get those at index 0."""
    if isinstance(view.dynamic, Columns):
        return _flat(view)[_column_indices(view)]
    begins, inside = row_starts(view, skip)
    begins = np.where(inside, begins, view.offset)
    return _flat(view)[_row_indices(view, begins)]


def scatter(view: Tensor, bits: np.ndarray, skip: bool = False):
    bits = np.broadcast_to(bits, view.layout.shape)
    if isinstance(view.dynamic, Columns):
        return _put(view, _column_indices(view), bits)
    begins, inside = row_starts(view, skip)
    numbers = _row_indices(view, np.where(inside, begins, view.offset))
    if view.dynamic.vector:
        _put(view, numbers[inside], bits[inside])
    elif inside[0]:
        _put(view, numbers, bits)


def _put(view, numbers, bits):
    _flat(view)[numbers] = bits
    written = view.storage.root.written
    if written is not None:
        kind = np.dtype(f"u{view.dtype.itemsize}")
        written.view(kind)[numbers] = ~kind.type(0)


def _flat(view):
    return view.storage.root.data.view(view.dtype.raw)


def rows_in_bounds(view: Tensor, skip: bool):
    """Returns which rows an instruction with `oob_mode.skip` moves, as a bool per row. None: all
    rows.
    """
    if not skip or view.dynamic is None:
        return None
    return row_starts(view, True)[1]
