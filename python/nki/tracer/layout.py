"""The elements of a view: a type, a shape and a stride per dimension, in elements of the type.

A session interns layouts: views of equal layout share one object. Everything derived from a layout
(the pattern in the trace, the checks of an instruction) is therefore computed once. The begin of a
view is not part of its layout.

The index of an element in its tensor is row-major over the tensor's shape. On chip, dimension 0 is
the partition, and `row`, the number of elements per partition, is the distance between partitions.
In HBM `row` is 0.
"""

from __future__ import annotations

from math import prod

from .dtypes import DType

HBM, SBUF, PSUM = "hbm", "sbuf", "psum"


class Layout:
    __slots__ = ("dtype", "memory", "row", "shape", "strides", "size", "low", "high", "partitions", "free", "pattern",
                 "index", "span")  # fmt: skip

    def __init__(self, dtype: DType, memory: str, row: int, shape: tuple, strides: tuple):
        self.dtype = dtype
        self.memory = memory
        self.row = row
        self.shape = shape
        self.strides = strides
        self.size = prod(shape)
        reach = [(n - 1) * s for n, s in zip(shape, strides)]
        # The first and last element, relative to the begin of the view.
        self.low = sum(r for r in reach if r < 0)
        self.high = sum(r for r in reach if r > 0)
        on_chip = memory != HBM
        self.partitions = shape[0] if on_chip and shape else 1
        self.free = prod(shape[1:]) if on_chip else self.size  # elements of each partition
        # The elements from the first to the last of one partition.
        self.span = sum(r for r in reach[1:] if r > 0) + 1 if on_chip else self.high + 1
        self.pattern = simplified(shape, strides, row if on_chip else 0)
        self.index = -1  # the index in the trace, once an instruction has used the layout

    @property
    def contiguous(self) -> bool:
        """Whether the elements (on chip: those of each partition) are contiguous and in order."""
        first = 1 if self.memory != HBM else 0
        expected = 1
        for n, s in zip(reversed(self.shape[first:]), reversed(self.strides[first:])):
            if n != 1 and s != expected:
                return False
            expected *= n
        return True

    def __repr__(self):
        return f"{self.memory} {self.dtype}{list(self.shape)}"


def row_major(shape: tuple) -> tuple:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def simplified(shape: tuple, strides: tuple, row: int) -> tuple:
    """Returns the pattern of a trace: pairs (stride, count), outermost first.

    Axes of one element are left out, and adjacent axes that one stride describes are merged. On
    chip (row > 0) the first pair is the partition axis.
    """
    head, pairs = (), list(zip(strides, shape))
    if row:
        head = ((strides[0] if shape[0] > 1 else row, shape[0]),)
        pairs = pairs[1:]
    merged: list[tuple[int, int]] = []
    for stride, count in pairs:
        if count == 1:
            continue
        if merged and merged[-1][0] == stride * count:
            merged[-1] = (stride, merged[-1][1] * count)
        else:
            merged.append((stride, count))
    return (*head, *merged) or ((1, 1),)


def reshaped_strides(shape: tuple, strides: tuple, new: tuple) -> tuple | None:
    """Returns strides for the same elements in the same order in another shape. None: this would
    need a copy.
    """
    old = [(n, s) for n, s in zip(shape, strides) if n != 1]
    result, i = [], 0
    # The rest of the old axes that are being split, and their innermost stride.
    group, step = 1, 1
    for n in reversed(new):
        if n == 1:
            result.append(step)
            continue
        while group < n or group % n:
            if i == len(old):
                return None
            count, stride = old[-1 - i]
            i += 1
            if group == 1:
                group, step = count, stride
            elif stride == step * group:
                group *= count
            else:
                return None
        result.append(step)
        group, step = group // n, step * n
    return tuple(reversed(result))
