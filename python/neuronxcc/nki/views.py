"""Turns indices into views: slices, whole numbers and index expressions.

The layout of a view without its begin is computed once for each form of key (`Plan`), because
kernels use few forms in all their iterations. An index may leave the tensor, which is an error only
if no mask cuts it. Such an index is kept as an `Overflow`.
"""

from __future__ import annotations

import numpy as np
from nki.tracer import errors, whole
from nki.tracer.layout import HBM
from nki.tracer.tensor import Tensor

from .index import DynamicIndex, Index, broadcast_shape, broadcast_steps

_FULL = slice(None)


class Slice:
    """`nl.ds(start, size)`. The start is a number, or a tile of one element."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start = start if hasattr(start, "tensor") else whole.number("nl.ds", "start", start)
        self.size = whole.number("nl.ds", "size", size)
        if self.size < 1:
            errors.fail("nl.ds", f"size: expected at least 1, found {size}")


class Overflow:
    """An index that leaves a dimension: value = first + sum of steps x coordinates of the view."""

    __slots__ = ("steps", "first", "count", "axis")

    def __init__(self, steps, first, count, axis):
        self.steps = steps
        self.first = first
        self.count = count
        self.axis = axis

    def limits(self, box):
        ends = [sorted((start * s, (stop - 1) * s)) for s, (start, stop) in zip(self.steps, box)]
        return self.first + sum(e[0] for e in ends), self.first + sum(e[1] for e in ends)


class Plan:
    """The layout of a view for one form of key.

    `axes` holds per axis of the tensor its stride, the least and largest distance of its index from
    the first, and its size. `steps` holds the steps of the axis's index along the view.
    """

    __slots__ = ("layout", "axes", "steps")

    def __init__(self, tensor, shape, steps):
        layout = tensor.layout
        shape, steps = list(shape), [list(s) for s in steps]
        if layout.memory != HBM and len(shape) == 1:  # a tile on chip has at least two dimensions
            shape.append(1)
            for s in steps:
                s.append(0)
        strides = [sum(s[d] * stride for s, stride in zip(steps, layout.strides)) for d in range(len(shape))]
        if layout.memory != HBM:
            _check_partitions(tensor, shape, steps, strides)
        self.layout = tensor.storage.session.layout(
            layout.dtype, layout.memory, layout.row, tuple(shape), tuple(strides)
        )
        self.steps = [tuple(s) for s in steps]
        reach = [[(n - 1) * x for n, x in zip(shape, s)] for s in steps]
        self.axes = [
            (stride, sum(r for r in rs if r < 0), sum(r for r in rs if r > 0), n)
            for stride, rs, n in zip(layout.strides, reach, layout.shape)
        ]


def _check_partitions(tensor, shape, steps, strides):
    if any(step and n > 1 for step, n in zip(steps[0][1:], shape[1:])):
        errors.fail("tensor[...]", f"{tensor.describe()}: the partitions have to be the first dimension of the tile")
    if shape[0] == 1:
        strides[0] = tensor.layout.row
    elif strides[0] % tensor.layout.row:
        errors.fail(
            "tensor[...]", f"{tensor.describe()}: the first dimension of the tile has to be that of the partitions"
        )


def view(tensor, key: tuple):
    """Returns the tracer's tensor of `tensor[key]`, and the indices that leave it."""
    layout = tensor.layout
    shape = layout.shape
    if len(key) != len(shape) or any(part is Ellipsis or part is None for part in key):
        key = _expanded(tensor, key, len(shape))
    forms, firsts, axis, dynamic_parts = [], [], 0, ()
    for part in key:
        kind = type(part)
        if kind is Index or kind is DynamicIndex:
            forms.append((part.shape, part.steps))
            firsts.append(part.first)
            dynamic_parts = (*dynamic_parts, (axis, part.offset)) if kind is DynamicIndex else dynamic_parts
        elif kind is slice:
            start, size, step = _range(tensor, part, shape[axis], axis)
            if size < 1:
                errors.fail("tensor[...]", f"{tensor.describe()}: the slice of dimension {axis} is empty")
            forms.append((size, step))
            firsts.append(start)
        elif kind is Slice:
            by_tile = hasattr(part.start, "tensor")
            forms.append((part.size, 1))
            firsts.append(0 if by_tile else part.start)
            dynamic_parts = (*dynamic_parts, (axis, part.start)) if by_tile else dynamic_parts
        elif kind is int or isinstance(part, (int, np.integer)):
            forms.append(1)
            firsts.append(int(part) + shape[axis] if part < 0 else int(part))
        elif part is None:
            forms.append(None)
            continue
        elif hasattr(part, "tensor"):
            from .indirect import has_row_per_partition, indirect_view

            if has_row_per_partition(tensor, key, axis):
                return indirect_view(tensor, key)
            forms.append(1)
            firsts.append(0)
            dynamic_parts = (*dynamic_parts, (axis, part))
        else:
            errors.fail("tensor[...]", f"{tensor.describe()}: an index of dimension {axis} is a {kind.__name__}")
        axis += 1
    plans = tensor.storage.session.state.setdefault("neuronxcc views", {})
    form = (layout, *forms)
    plan = plans.get(form)
    if plan is None:
        plan = plans[form] = _plan(tensor, forms)
    offset, overflow = tensor.offset, ()
    for axis, (first, (stride, low, high, n)) in enumerate(zip(firsts, plan.axes)):
        offset += first * stride
        if first + low < 0 or first + high >= n:
            overflow = (*overflow, Overflow(plan.steps[axis], first, n, axis))
    if not dynamic_parts:
        return Tensor(tensor.storage, plan.layout, offset), overflow
    from .indirect import dynamic_index

    return Tensor(tensor.storage, plan.layout, offset, dynamic_index(tensor, dynamic_parts)), overflow


def _expanded(tensor, key, rank):
    given = sum(part is not None and part is not Ellipsis for part in key)
    dots = [i for i, part in enumerate(key) if part is Ellipsis]
    if given > rank or len(dots) > 1:
        errors.fail("tensor[...]", f"{tensor.describe()}: {given} indices for {rank} dimensions")
    at = dots[0] if dots else len(key)
    return (*key[:at], *(_FULL,) * (rank - given), *key[at + len(dots) :])


def _range(tensor, part, n, axis):
    """Returns start, size and step of a slice. A slice may leave the dimension if a mask cuts it.
    """
    given = (0 if part.start is None else part.start, n if part.stop is None else part.stop, part.step or 1)
    start, stop, step = whole.numbers("tensor[...]", f"slice of dimension {axis}", given)
    if step < 1 or part.step == 0:
        errors.fail("tensor[...]", f"{tensor.describe()}: the slice of dimension {axis} has the step {part.step}, expected at least 1")
    start, stop = start + n * (start < 0), stop + n * (stop < 0)
    return start, max(0, (stop - start + step - 1) // step), step


def _plan(tensor, forms) -> Plan:
    """Returns the plan for a form of key.

    Slices become dimensions in their order. Index expressions broadcast together like NumPy's index
    arrays, and whole numbers among them do, too. Otherwise a whole number removes its dimension,
    unless it is that of the partitions.
    """
    expressions = [form[0] for form in forms if type(form) is tuple and type(form[0]) is tuple]
    if expressions and None in forms:
        errors.fail("tensor[...]", f"{tensor.describe()}: None among index expressions")
    common = broadcast_shape(expressions) if expressions else ()
    scattered = (
        [i for i, form in enumerate(forms) if form == 1 or type(form) is tuple and type(form[0]) is tuple]
        if expressions
        else []
    )
    adjacent = scattered == list(range(scattered[0], scattered[-1] + 1)) if scattered else True
    on_chip = tensor.layout.memory != HBM
    shape, base = ([*common] if not adjacent else []), 0
    dims = []  # per form: the dimension of the view that it becomes, or None
    for i, form in enumerate(forms):
        if i in scattered:
            if adjacent and i == scattered[0]:
                base = len(shape)
                shape += common
            dims.append(None)
        elif form is None or form != 1:
            dims.append(len(shape))
            shape.append(1 if form is None else form[0])
        elif on_chip and i == 0:
            dims.append(len(shape))
            shape.append(1)
        else:
            dims.append(None)
    if not shape:
        shape = [1]
    steps = []
    for i, form in enumerate(forms):
        if form is None:
            continue
        own = [0] * len(shape)
        if i in scattered and form != 1:
            own[base : base + len(common)] = broadcast_steps(Index(*form), common)
        elif dims[i] is not None and form != 1:
            own[dims[i]] = form[1]
        steps.append(own)
    return Plan(tensor, shape, steps)
