"""Tiles of the legacy dialect: tensors that are indexed with expressions, and instructions whose result has no place yet.

An instruction of this dialect returns its result. Where the result goes is known one step later: `sums[...] += nc_matmul(...)`
accumulates in place, `buffer[i] = activation(...)` writes the buffer, anything else needs memory of its own. So a result
waits: it is issued when the program stores it, uses it, or issues anything else. At most one result waits at any time,
so that the order of instructions is the program's.
"""

from __future__ import annotations

from math import prod

import numpy as np
from nki.tracer import errors, session
from nki.tracer.layout import HBM, PSUM, SBUF

from .index import Index, Mask, broadcast_shape, spread

_WHOLE = (int, np.integer)
_FULL = slice(None)


class Slice:
    """`nl.ds(start, size)`."""

    __slots__ = ("start", "size")

    def __init__(self, start: int, size: int):
        self.start = start
        self.size = size


class Overflow:
    """An index that leaves a dimension unless a mask cuts it: value = first + sum of steps x coordinates."""

    __slots__ = ("steps", "first", "count", "axis")

    def __init__(self, steps, first, count, axis):
        self.steps = steps
        self.first = first
        self.count = count
        self.axis = axis

    def limits(self, box):
        ends = [sorted((start * s, (stop - 1) * s)) for s, (start, stop) in zip(self.steps, box)]
        return self.first + sum(e[0] for e in ends), self.first + sum(e[1] for e in ends)


class Waiting:
    """A result that is not issued yet. `make` takes the tensor to write, cut to `box`; a product also `accumulate`."""

    __slots__ = ("make", "box", "source", "product", "name")

    def __init__(self, make, box, source, product):
        self.make = make
        self.box = box
        self.source = source
        self.product = product


class Tile:
    """A view of a tensor of the tracer's core, or a result that will become one.

    `box` is the part of the tile that takes part in instructions, where a mask cuts it. `sums` says of a tensor in PSUM where products
    have begun to accumulate; views share it.
    """

    __slots__ = ("_tensor", "shape", "dtype", "memory", "sums", "overflow", "box", "waiting")
    __array_ufunc__ = None

    def __init__(self, tensor, sums=None, overflow=(), box=None):
        self._tensor = tensor
        self.shape = tensor.layout.shape
        self.dtype = tensor.layout.dtype
        self.memory = tensor.layout.memory
        self.sums = sums
        self.overflow = overflow
        self.box = box
        self.waiting = None

    @classmethod
    def later(cls, shape, dtype, memory, waiting) -> Tile:
        made = cls.__new__(cls)
        made._tensor = made.sums = made.box = None
        made.overflow = ()
        made.shape = tuple(shape) if memory == HBM or len(shape) > 1 else (*shape, 1)
        made.dtype = dtype
        made.memory = memory
        made.waiting = waiting
        return made

    # What kernels ask

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def buffer(self):
        from .language import BUFFERS

        return BUFFERS[self.memory]

    @property
    def name(self) -> str:
        return self.tensor.name

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<{self.describe()}>"

    def describe(self) -> str:
        if self.waiting is not None:
            return f"{self.dtype} {list(self.shape)} in {self.memory}"
        return self._tensor.describe()

    @property
    def tensor(self):
        """The core's tensor; issues the instruction that computes it if it waits."""
        if self.waiting is not None:
            settle()
        return self._tensor

    # Views

    def __getitem__(self, key) -> Tile:
        if isinstance(key, (Mask, bool)):
            box = () if key is False else None if key is True else key.box(self.shape, "tensor[mask]") or ()
            return Tile(self.tensor, self.sums, self.overflow, meet(self.box, box))
        tensor = self.tensor
        if self.overflow or self.box is not None:
            tensor = cut(self, None, "tensor[...]")
        return _view(tensor, key if type(key) is tuple else (key,), self.sums)

    def reshape(self, *shape) -> Tile:
        if len(shape) == 1 and not isinstance(shape[0], _WHOLE):
            shape = tuple(shape[0])
        return Tile(self.tensor.reshape(shape), self.sums)

    def view(self, dtype) -> Tile:
        return Tile(self.tensor.view(dtype))

    def __setitem__(self, key, value):
        store(self[key], value)

    def __iter__(self):
        return (self[i] for i in range(self.shape[0]))


# The result that waits

_last: Tile | None = None


def issue_later(shape, dtype, memory, make, box=None, product=False) -> Tile:
    """The result of an instruction. `box` is the part of it that the instruction writes (() for nothing, None for all)."""
    global _last
    settle()
    source = session.active("result").trace.sources.here()
    _last = Tile.later(shape, dtype, memory, Waiting(make, box, source, product))
    return _last


def settle():
    """Issues the result that waits into memory of its own."""
    global _last
    tile, _last = _last, None
    if tile is None or tile.waiting is None:
        return
    waiting = tile.waiting
    run = session.current
    with Pinned(run, waiting.source):
        tensor = run.allocate(tile.shape, tile.dtype, tile.memory)
        place = Tile(tensor, Sums(tensor) if tile.memory == PSUM else None)
        tile._tensor, tile.sums, tile.waiting = tensor, place.sums, None
        _issue(waiting, place, False)


def forget():
    """Drops the result that waits: the kernel failed."""
    global _last
    _last = None


def _issue(waiting, place: Tile, accumulate: bool):
    if waiting.box == ():
        return
    target = writable(place, waiting.box, fresh=not waiting.product)
    if waiting.product:
        waiting.make(target, place.sums.add(target) if accumulate else place.sums.begin(target))
    else:
        waiting.make(target)


class Pinned:
    """Instructions that are issued inside belong to the source where their result was asked for, and so do their errors."""

    __slots__ = ("sources", "source")

    def __init__(self, run, source):
        self.sources = run.trace.sources
        self.source = source

    def __enter__(self):
        source = self.source
        self.sources.here = lambda: source

    def __exit__(self, kind, error, trace):
        del self.sources.here
        if kind is not None and issubclass(kind, errors.NkiValidationError):
            file, line, _ = self.sources.sources[self.source]
            _, _, text = str(error).partition(": ")
            error.args = (f"{self.sources.files[file]}:{line}: {text}",)


def store(place: Tile, value):
    """`place = value`."""
    global _last
    from . import moves

    if not isinstance(value, Tile):
        settle()
        moves.fill(place, value)
    elif value.waiting is not None and fits(value, place):
        _last = None
        waiting = value.waiting
        target = shaped(place, value.shape)
        with Pinned(session.current, waiting.source):
            _issue(waiting, target, False)
        value._tensor, value.sums, value.waiting = target.tensor, target.sums, None
    elif not same(place, value):
        moves.copy(place, value)


def accumulate(place: Tile, value: Tile) -> bool:
    """`place += value` in the Tensor engine, where value is a product that waits and place is in PSUM."""
    global _last
    if place.memory != PSUM or not isinstance(value, Tile) or value.waiting is None or not value.waiting.product:
        return False
    _last = None
    waiting = value.waiting
    target = shaped(place, value.shape)
    with Pinned(session.current, waiting.source):
        _issue(waiting, target, True)
    value._tensor, value.sums, value.waiting = target.tensor, target.sums, None
    return True


def fits(value: Tile, place: Tile) -> bool:
    """Whether the instruction behind a waiting result can write the place itself."""
    if value.memory == PSUM or place.memory == HBM:
        return value.memory == place.memory
    return place.memory == SBUF or not getattr(value.waiting.make, "dma", False)


def same(a: Tile, b: Tile) -> bool:
    if b.waiting is not None:
        return False
    one, two = a.tensor, b.tensor
    return one.storage is two.storage and one.offset == two.offset and one.layout is two.layout


def shaped(tile: Tile, shape: tuple) -> Tile:
    """The same elements in a shape that differs in dimensions of one element."""
    if tile.shape == shape:
        return tile
    mine = [i for i, n in enumerate(tile.shape) if n != 1]
    theirs = [i for i, n in enumerate(shape) if n != 1]
    if [tile.shape[i] for i in mine] != [shape[i] for i in theirs]:
        errors.fail("tensor[...] =", f"{tile.describe()} does not hold a tile of {list(shape)}")
    strides = [tile.tensor.layout.row if tile.memory != HBM and i == 0 else 0 for i in range(len(shape))]
    for i, j in zip(mine, theirs):
        strides[j] = tile.tensor.strides[i]
    made = Tile(tile.tensor.with_layout(shape, tuple(strides)), tile.sums)
    made.overflow = tuple(Overflow(_moved(o.steps, mine, theirs, len(shape)), o.first, o.count, o.axis) for o in tile.overflow)
    if tile.box is not None:
        made.box = tile.box and _moved(tile.box, mine, theirs, len(shape), (0, 1))
    return made


def _moved(items, mine, theirs, rank, other=0):
    result = [other] * rank
    for i, j in zip(mine, theirs):
        result[j] = items[i]
    return tuple(result)


# Cutting


def cut(tile: Tile, box, call: str):
    """The core's tensor of the part of a tile that takes part; its indices must lie inside the tensor."""
    tensor = tile.tensor
    if box is None and not tile.overflow:
        return tensor
    full = box is None
    box = [(0, n) for n in tile.shape] if full else box
    for over in tile.overflow:
        low, high = over.limits(box)
        if low < 0 or high >= over.count:
            errors.fail(call, f"{tensor.describe()}: indices {low} to {high} of dimension {over.axis}, which has {over.count} elements")
    if full:
        return tensor
    strides = tensor.strides
    offset = tensor.offset + sum(start * s for (start, _), s in zip(box, strides))
    return tensor.with_layout(tuple(stop - start for start, stop in box), strides, offset)


def meet(a, b):
    """The intersection of two boxes; None is everything, () nothing."""
    if a is None or b is None:
        return a if b is None else b
    if a == () or b == ():
        return ()
    both = tuple((max(p[0], q[0]), min(p[1], q[1])) for p, q in zip(a, b))
    return both if all(start < stop for start, stop in both) else ()


def readable(tile: Tile, box=None, call: str = "operand"):
    """The tensor of an operand. PSUM that was asked to be zero and holds no sum is cleared now."""
    tensor = cut(tile, box, call)
    if tile.sums is not None and tile.sums.zero:
        tile.sums.clear(tensor)
    return tensor


def writable(tile: Tile, box=None, call: str = "destination", fresh=True):
    tensor = cut(tile, box, call)
    if fresh and tile.sums is not None:
        tile.sums.written(tensor)
    return tensor


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
            from . import moves

            moves.zero(tensor)
            self.written(tensor)
        elif not marks.all():
            errors.fail("nl.zeros", f"{tensor.describe()}: only a part of it was written")


# Indexing


def _view(tensor, key: tuple, sums) -> Tile:
    layout = tensor.layout
    key = _expanded(tensor, key, len(layout.shape))
    for part in key:
        if type(part) is Index:
            return _advanced(tensor, key, sums)
        if isinstance(part, Tile):
            from .indirect import indirect_view

            return indirect_view(tensor, key)
    return _sliced(tensor, key, sums)


def _expanded(tensor, key, rank):
    if len(key) == rank and not any(part is Ellipsis or part is None for part in key):
        return key
    given = sum(part is not None and part is not Ellipsis for part in key)
    dots = [i for i, part in enumerate(key) if part is Ellipsis]
    if given > rank or len(dots) > 1:
        errors.fail("tensor[...]", f"{tensor.describe()}: {given} indices for {rank} dimensions")
    at = dots[0] if dots else len(key)
    return (*key[:at], *(_FULL,) * (rank - given), *key[at + len(dots) :])


def _range(part, n):
    """Start, size and step of a slice; it may leave the dimension, where a mask has to cut it."""
    if type(part) is Slice:
        return int(part.start), int(part.size), 1
    start = 0 if part.start is None else int(part.start)
    stop = n if part.stop is None else int(part.stop)
    step = 1 if part.step is None else int(part.step)
    start, stop = start + n * (start < 0), stop + n * (stop < 0)
    return start, max(0, (stop - start + step - 1) // step), step


def _sliced(tensor, key, sums) -> Tile:
    layout = tensor.layout
    shape, strides, offset, axis = [], [], tensor.offset, 0
    over = []
    on_chip = layout.memory != HBM
    for part in key:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        n, stride = layout.shape[axis], layout.strides[axis]
        if isinstance(part, _WHOLE):
            start, size, step = int(part) + n * (part < 0), 1, 1
            keep = on_chip and axis == 0
        elif type(part) is slice or type(part) is Slice:
            start, size, step = _range(part, n)
            keep = True
        else:
            errors.fail("tensor[...]", f"{tensor.describe()}: an index of dimension {axis} is a {type(part).__name__}")
        if size < 1:
            errors.fail("tensor[...]", f"{tensor.describe()}: the slice of dimension {axis} is empty")
        if start < 0 or start + (size - 1) * step >= n:
            over.append((len(shape) if keep else None, start, step, n, axis))
        if keep:
            shape.append(size)
            strides.append(stride * step)
        offset += start * stride
        axis += 1
    if on_chip and len(shape) == 1:
        shape.append(1)
        strides.append(1)
    elif not shape:
        shape, strides = [1], [1]
    rank = len(shape)
    overflow = [Overflow(tuple(step if d == dim else 0 for d in range(rank)), start, n, a) for dim, start, step, n, a in over]
    return Tile(tensor.with_layout(tuple(shape), tuple(strides), offset), sums, overflow)


def _advanced(tensor, key, sums) -> Tile:
    """Index expressions broadcast together, as NumPy's index arrays do; whole numbers among them count as such."""
    layout = tensor.layout
    common = broadcast_shape([part.shape for part in key if type(part) is Index])
    scattered = [axis for axis, part in enumerate(key) if type(part) is Index or isinstance(part, _WHOLE)]
    adjacent = scattered == list(range(scattered[0], scattered[-1] + 1))
    shape, strides, at = [], [], None
    plain = []  # slices: (dimension of the view, axis, start, step, size)
    for axis, part in enumerate(key):
        if axis in scattered:
            if at is None:
                at = len(shape) if adjacent else 0
                if adjacent:
                    shape += common
            continue
        if part is None:
            errors.fail("tensor[...]", f"{tensor.describe()}: None among index expressions")
        start, size, step = _range(part, layout.shape[axis])
        plain.append((len(shape), axis, start, step))
        shape.append(size)
    if not adjacent:
        shape = [*common, *shape]
        plain = [(d + len(common), *rest) for d, *rest in plain]
    rank, base = len(shape), at or 0
    strides, offset, overflow = [0] * rank, tensor.offset, []
    on_chip = layout.memory != HBM
    for dim, axis, start, step in plain:
        strides[dim] = layout.strides[axis] * step
        offset += start * layout.strides[axis]
        if start < 0 or start + (shape[dim] - 1) * step >= layout.shape[axis]:
            overflow.append(Overflow(tuple(step if d == dim else 0 for d in range(rank)), start, layout.shape[axis], axis))
    for axis in scattered:
        part, n, stride = key[axis], layout.shape[axis], layout.strides[axis]
        if type(part) is not Index:
            first = int(part) + n * (part < 0)
            offset += first * stride
            if not 0 <= first < n:
                overflow.append(Overflow((0,) * rank, first, n, axis))
            continue
        steps = spread(part, common)
        low = high = part.first
        for d, step in enumerate(steps):
            if step:
                strides[base + d] += step * stride
                reach = step * (common[d] - 1)
                low, high = (low + reach, high) if reach < 0 else (low, high + reach)
        offset += part.first * stride
        if on_chip and axis == 0 and any(steps[d] and common[d] > 1 for d in range(len(common)) if base + d):
            errors.fail("tensor[...]", f"{tensor.describe()}: the partitions have to be the first dimension of the tile")
        if low < 0 or high >= n:
            full = [0] * rank
            full[base : base + len(steps)] = steps
            overflow.append(Overflow(tuple(full), part.first, n, axis))
    if on_chip:
        if shape[0] == 1:
            strides[0] = layout.row
        elif strides[0] % layout.row:
            errors.fail("tensor[...]", f"{tensor.describe()}: the first dimension of the tile has to be that of the partitions")
        if rank == 1:
            shape, strides = [*shape, 1], [*strides, 1]
            overflow = [Overflow((*o.steps, 0), o.first, o.count, o.axis) for o in overflow]
    return Tile(tensor.with_layout(tuple(shape), tuple(strides), offset), sums, overflow)
