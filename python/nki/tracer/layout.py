"""Which elements a view has: a type, a shape and a stride for each dimension, all in elements of the type.

Layouts are interned by a session: two views of equal layout share one object, so that what is derived from it
(the pattern in the trace, the checks of an instruction) is derived once. Where a view begins is not part of it.

An element's index inside its tensor is row-major over the tensor's shape. On chip, dimension 0 is the partition, so
`row`, the elements of one partition, is the distance between partitions; 0 in HBM.
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
        self.low = sum(r for r in reach if r < 0)  # the first and last element, relative to where the view begins
        self.high = sum(r for r in reach if r > 0)
        on_chip = memory != HBM
        self.partitions = shape[0] if on_chip and shape else 1
        self.free = prod(shape[1:]) if on_chip else self.size  # elements of each partition
        self.span = sum(r for r in reach[1:] if r > 0) + 1 if on_chip else self.high + 1  # of one partition
        self.pattern = simplified(shape, strides, row if on_chip else 0)
        self.index = -1  # in the trace, once an instruction has used it

    @property
    def contiguous(self) -> bool:
        """Whether the elements (on chip: of each partition) lie one behind the other in order."""
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
    """The pattern of a trace: pairs (stride, count), outermost first, without axes of one element and with
    adjacent axes merged that one stride describes. On chip (row > 0) the first pair is the partition axis."""
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
    """Strides that walk the same elements in the same order in another shape; None where a copy would be needed."""
    old = [(n, s) for n, s in zip(shape, strides) if n != 1]
    result, i = [], 0
    group, step = 1, 1  # what is left of the old axes that are being split, and their innermost stride
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
