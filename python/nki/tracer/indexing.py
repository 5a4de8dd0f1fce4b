"""Turns index expressions into views: `t[...]`, access patterns, reinterpretation, run-time
indices.

A dialect's own index objects have an attribute `index_expression`. It is a function of the tensor
and the whole key that returns the view (used by the legacy dialect's `nl.arange` and `nl.mgrid`).
"""

from __future__ import annotations

from math import prod

import numpy as np

from . import dtypes, errors, whole
from .dtypes import find
from .layout import HBM, SBUF, row_major
from .registers import NkiScalar, Register

_FULL = slice(None)


class DynamicSlice:
    """`nl.ds(start, size)`: `size` elements from `start` on. `start` may be a register."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start = start
        self.size = size


def index(tensor, key):
    if type(key) is not tuple:
        key = (key,)
    layout = tensor.layout
    shape, strides = layout.shape, layout.strides
    rank = len(shape)
    whole = len(key) == rank
    for part in key:
        kind = type(part)
        if kind is slice or kind is int:
            continue
        if hasattr(part, "index_expression"):
            return part.index_expression(tensor, key)
        if part is None or part is Ellipsis:
            whole = False
    if not whole:
        key = _expanded(tensor, key, rank)
    offset = tensor.offset
    sizes, steps, axis, dynamic = [], [], 0, None
    on_chip = layout.memory != HBM
    for part in key:
        kind = type(part)
        if part is None:
            sizes.append(1)
            steps.append(shape[axis] * strides[axis] if axis < rank else 1)
            continue
        n, stride = shape[axis], strides[axis]
        if kind is slice:
            start, size, step = _slice_range(tensor, part, n, axis)
        elif kind is int or isinstance(part, (int, np.integer)):
            start = int(part) + n if part < 0 else int(part)
            if not 0 <= start < n:
                _fail(tensor, f"index {part} of dimension {axis}, which has {n} elements ({errors.OUT_OF_BOUNDS})")
            size, step = (1, 1) if on_chip and axis == 0 else (0, 1)
        elif kind is DynamicSlice:
            start, size, step, register = _dynamic_slice(tensor, part, n, axis)
            if register is not None:
                dynamic = _dynamic_index(tensor, dynamic, register, stride, n)
        elif isinstance(part, Register):
            start, size, step = 0, (1 if on_chip and axis == 0 else 0), 1
            dynamic = _dynamic_index(tensor, dynamic, part, stride, n)
        elif isinstance(getattr(part, "range", None), range):  # `x[nl.affine_range(128)]`
            start, size, step = _slice_range(tensor, slice(part.range.start, part.range.stop, part.range.step), n, axis)
        else:
            _fail(tensor, f"an index of dimension {axis} is a {kind.__name__}")
        offset += start * stride
        if size:
            sizes.append(size)
            steps.append(stride * step)
        axis += 1
    if not sizes:
        sizes, steps = [1], [1]
    elif on_chip and len(sizes) == 1 and rank > 1:  # a tensor on chip has at least two dimensions
        sizes.append(1)
        steps.append(1)
    return tensor.with_layout(tuple(sizes), tuple(steps), offset, dynamic)


def _expanded(tensor, key, rank):
    """Returns the key with `...` and missing dimensions filled in."""
    given = sum(part is not None and part is not Ellipsis for part in key)
    if given > rank:
        _fail(tensor, f"{given} indices for {rank} dimensions")
    dots = [i for i, part in enumerate(key) if part is Ellipsis]
    if len(dots) > 1:
        _fail(tensor, "more than one '...'")
    at = dots[0] if dots else len(key)
    return (*key[:at], *(_FULL,) * (rank - given), *key[at + 1 :])


def _slice_range(tensor, part, n, axis):
    start, stop, step = part.start, part.stop, part.step
    if isinstance(start, Register) or isinstance(stop, Register):
        _fail(tensor, "a slice between registers has no known size; use nl.ds(start, size)")
    start = 0 if start is None else start
    stop = n if stop is None else stop
    step = 1 if step is None else step
    try:
        start, stop, step = start.__index__(), stop.__index__(), step.__index__()
    except AttributeError:
        _fail(tensor, f"slice {start}:{stop}:{step} of dimension {axis}: expected whole numbers")
    if start < 0:
        start += n
    if stop < 0:
        stop += n
    if step < 1:
        _fail(tensor, f"slice {part.start}:{part.stop}:{step} of dimension {axis}: expected a step of at least 1")
    if not 0 <= start < stop <= n:
        _fail(tensor, f"slice {part.start}:{part.stop}:{step} of dimension {axis}, which has {n} elements ({errors.OUT_OF_BOUNDS})")
    return start, (stop - start + step - 1) // step, step


def _dynamic_slice(tensor, part, n, axis):
    size = whole.number("nki.language.ds", "size", part.size)
    if isinstance(part.start, Register):
        if not 0 < size <= n:
            _fail(tensor, f"{size} elements of dimension {axis}, which has {n} ({errors.OUT_OF_BOUNDS})")
        return 0, size, 1, part.start
    start = whole.number("nki.language.ds", "start", part.start)
    if size < 1 or start < 0 or start + size > n:
        _fail(tensor, f"elements {start} to {start + size} of dimension {axis}, which has {n} elements ({errors.OUT_OF_BOUNDS})")
    return start, size, 1, None


def _dynamic_index(tensor, dynamic, register, stride, limit, vector=False):
    from .tensor import Dynamic, Tensor

    if dynamic is not None or tensor.dynamic is not None:
        _fail(tensor, "more than one run-time index")
    if isinstance(register, NkiScalar):
        register.usable("tensor[...]")
    if isinstance(register, Tensor):
        if not register.dtype.integer:
            _fail(tensor, f"the index is {register.describe()}, expected integers")
        return Dynamic(register, None, stride, limit, vector)
    if tensor.memory != HBM and getattr(register, "dtype", None) is dtypes.int64:
        _fail(tensor, "a scalar of 64 bits indexes tensors in hbm only")
    return Dynamic(None, register, stride, limit, vector)


def _fail(tensor, text):
    errors.fail("tensor[...]", f"{tensor.describe()}: {text}")


def inferred(shape: tuple, size: int) -> tuple | None:
    """Returns `shape` with its -1 replaced so that it has `size` elements, or None if that is
    impossible.
    """
    if not shape:
        return None
    if shape.count(-1) == 1:
        known = -prod(shape)
        if size < 1 or min(shape) < -1 or known <= 0 or size % known:
            return None
        return tuple(size // known if n == -1 else n for n in shape)
    return shape if prod(shape) == size and all(n > 0 for n in shape) else None


# Access patterns


def access_pattern(tensor, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype):
    """`tensor.ap(...)`: a view by pairs (stride, count) over the storage, in elements of `dtype`.
    """
    base = tensor if dtype is None else reinterpreted_base(tensor, dtype, "tensor.ap")
    pairs = whole.pairs("tensor.ap", "pattern", pattern)
    shape, strides = tuple(n for _, n in pairs), tuple(s for s, _ in pairs)
    if not pairs:
        errors.fail("tensor.ap", f"{tensor.describe()}: pattern {list(pattern)} has no elements")
    begin = base.offset
    dynamic = tensor.dynamic
    if isinstance(offset, Register):
        dynamic = _dynamic_index(tensor, None, offset, 1, base.storage.layout.size)
    elif offset is not None:
        begin += whole.number("tensor.ap", "offset", offset)
    if scalar_offset is not None and vector_offset is not None:
        errors.fail("tensor.ap", f"{tensor.describe()}: expected scalar_offset or vector_offset, found both")
    index_of = scalar_offset if scalar_offset is not None else vector_offset
    if index_of is not None:
        dim = whole.number("tensor.ap", "indirect_dim", indirect_dim)
        if not 0 <= dim < tensor.ndim:
            errors.fail("tensor.ap", f"{tensor.describe()}: no dimension {dim} to index")
        # The stride is that of the tensor's own type. A reinterpreted pattern counts elements of
        # another size.
        stride = tensor.strides[dim] * tensor.dtype.itemsize // base.dtype.itemsize
        dynamic = _dynamic_index(tensor, None, index_of, stride, tensor.shape[dim], vector_offset is not None)
    if base.memory != HBM and shape[0] == 1:
        strides = (base.layout.row, *strides[1:])
    else:
        strides = _partitions_of_slice(base, strides)
    view = base.with_layout(shape, strides, begin, dynamic)
    rows = dynamic is not None and dynamic.vector  # each row has an index instead of a step
    _check_inside(view.with_layout((1, *shape[1:]), strides, begin) if rows else view, "tensor.ap")
    return view


def _partitions_of_slice(base, strides):
    """Converts a pattern that counts a partition of a slice as the slice's own elements, as if the
    slice were a tile.

    Published kernels use such patterns on tiles on chip, and they work. Only slices whose free
    elements are contiguous are converted.
    """
    own = prod(base.shape[1:])
    row = base.layout.row
    if base.memory == HBM or strides[0] % row == 0 or own == 0 or strides[0] % own:
        return strides
    contiguous = base.layout.strides[1:] == row_major(base.shape)[1:]
    return (strides[0] // own * row, *strides[1:]) if contiguous else strides


def _check_inside(view, call):
    layout, whole = view.layout, view.storage.layout
    if layout.memory == HBM:
        if view.offset + layout.low < 0 or view.offset + layout.high >= whole.size:
            errors.fail(
                call,
                f"{view.describe()}: elements {view.offset + layout.low} to {view.offset + layout.high} "
                f"of {whole.size}",
            )
        return
    row = layout.row
    if layout.strides[0] % row:
        errors.fail(
            call, f"{view.describe()}: the first stride {layout.strides[0]} is no multiple of a partition's {row}"
        )
    partition, begin = divmod(view.offset, row)
    last = partition + (layout.shape[0] - 1) * layout.strides[0] // row
    if not 0 <= last < whole.shape[0] or begin + layout.span > row or min(layout.strides[1:], default=0) < 0:
        errors.fail(
            call,
            f"{view.describe()}: partitions {partition} to {last} of {whole.shape[0]}, "
            f"elements {begin} to {begin + layout.span - 1} of {row}",
        )


# Other types


def reinterpreted_base(tensor, dtype, call):
    """Returns the whole storage as `dtype`, with the view's offset. The layout of the result has no
    meaning.
    """
    from .tensor import Tensor

    found = find(dtype)
    if found is None:
        errors.fail(call, f"dtype: expected an element type of nki.language, found {dtype!r}")
    if found is tensor.dtype:
        return tensor
    storage = tensor.storage.alias(found)
    begin = tensor.offset * tensor.dtype.itemsize
    if storage is None or begin % found.itemsize:
        errors.fail(call, f"{tensor.describe()}: its bytes are no whole elements of {found}")
    return Tensor(storage, storage.layout, begin // found.itemsize, tensor.dynamic)


def reinterpreted(tensor, dtype):
    base = reinterpreted_base(tensor, dtype, "tensor.view")
    old, new = tensor.dtype.itemsize, base.dtype.itemsize
    if old == new:
        return base.with_layout(tensor.shape, tensor.strides)
    if tensor.dynamic is not None or tensor.strides[-1] != 1 or tensor.shape[-1] * old % new:
        errors.fail(
            "tensor.view", f"{tensor.describe()}: the last dimension is not whole contiguous elements of {base.dtype}"
        )
    if any(s * old % new for n, s in zip(tensor.shape[:-1], tensor.strides) if n > 1):
        errors.fail("tensor.view", f"{tensor.describe()}: its strides are no whole elements of {base.dtype}")
    strides = (*(s * old // new for s in tensor.strides[:-1]), 1)
    return base.with_layout((*tensor.shape[:-1], tensor.shape[-1] * old // new), strides)


# Run-time indices


def selected(tensor, dim, index_of):
    """`tensor.select(dim, index)` with an index in SBUF or in a register."""
    if tensor.memory != HBM and dim == 0:
        errors.fail("tensor.select", f"{tensor.describe()}: a run-time index cannot choose a partition")
    if not isinstance(index_of, (Register, type(tensor))):
        errors.fail("tensor.select", f"{tensor.describe()}: index: expected a number, a register or a tensor, found {index_of!r}")
    dynamic = _dynamic_index(tensor, None, index_of, tensor.strides[dim], tensor.shape[dim])
    shape = tensor.shape[:dim] + tensor.shape[dim + 1 :]
    return tensor.with_layout(shape, tensor.strides[:dim] + tensor.strides[dim + 1 :], None, dynamic)


def vector_selected(tensor, dim, index_of):
    if tensor.memory != HBM or dim != 0:
        errors.fail("tensor.vector_select", f"{tensor.describe()}: expected a tensor in HBM and dimension 0")
    if not isinstance(index_of, type(tensor)):
        errors.fail("tensor.vector_select", f"{tensor.describe()}: vector_offset: expected a tensor, found {index_of!r}")
    dynamic = _dynamic_index(tensor, None, index_of, tensor.strides[0], tensor.shape[0], True)
    return tensor.with_layout((index_of.shape[0], *tensor.shape[1:]), tensor.strides, None, dynamic)


def columns(tensor, index_of, count):
    """`tensor.indirect(index, num_elem)`: one element per offset. The offsets run along the free
    dimension.
    """
    from .tensor import Columns, Tensor

    call = "tensor.indirect"
    device = tensor.storage.session.device
    if device.generation < 4:
        errors.fail(call, f"{tensor.describe()}: {device.name} does not have it, trn3 does")
    if tensor.memory == HBM or not tensor.layout.contiguous:
        errors.fail(call, f"{tensor.describe()}: expected a tensor on chip whose elements lie side by side in each partition")
    if not isinstance(index_of, Tensor) or index_of.memory != SBUF or not index_of.dtype.integer or index_of.ndim != 2:
        found = index_of.describe() if isinstance(index_of, Tensor) else repr(index_of)
        errors.fail(call, f"index: expected integers [partitions, columns] in sbuf, found {found}")
    if index_of.shape[0] != tensor.shape[0]:
        errors.fail(call, f"index: {index_of.describe()}, expected the {tensor.shape[0]} partitions of {tensor.describe()}")
    count = index_of.size if count is None else whole.number(call, "num_elem", count)
    if count < 1:
        errors.fail(call, f"num_elem: expected at least 1, found {count}")
    dynamic = _dynamic_index(tensor, None, index_of, 1, 0)
    dynamic = Columns(dynamic.tensor, prod(tensor.shape[1:]))
    return tensor.with_layout((tensor.shape[0], count), (tensor.layout.row, 0), None, dynamic)


# Named dimensions


def rearranged(tensor, source, target, sizes):
    """`tensor.rearrange`: splits, reorders and merges named dimensions."""
    view, names = tensor, []
    source, target = (whole.items("tensor.rearrange", n, p, "names of dimensions and tuples of names")
                      for n, p in (("src_pattern", source), ("dst_pattern", target)))  # fmt: skip
    for part in source:
        group = (part,) if isinstance(part, str) else tuple(part)
        at = len(names)
        if len(group) > 1:
            view = view.reshape_dim(at, tuple(sizes.get(name, -1) for name in group))
        names += group
    for name, n in zip(names, view.shape):
        if sizes.get(name, n) != n:
            errors.fail("tensor.rearrange", f"{tensor.describe()}: dimension {name!r} has {n} elements, and fixed_sizes says {sizes[name]}")
    flat = [name for part in target for name in ((part,) if isinstance(part, str) else part)]
    if sorted(flat) != sorted(names):
        errors.fail("tensor.rearrange", f"{source} and {target} do not name the same dimensions")
    view = view.permute(tuple(names.index(name) for name in flat))
    for at, part in enumerate(target):
        if not isinstance(part, str) and len(part) != 1:
            view = view.flatten_dims(at, at + len(part) - 1)
    return view
