"""Index expressions: `nl.arange`, `nl.mgrid`, arithmetic on them, and masks.

An `Index` is an affine function of the coordinates of a tile: constant + sum of coefficient x
coordinate. Its shape broadcasts as in NumPy. Comparing an index gives a `Mask`, a conjunction of
such functions that must all be at least 0. A mask must cut a box out of the instruction's tile,
because an access pattern can express nothing else.
"""

from __future__ import annotations

import numpy as np
from nki.tracer import errors, whole

WHOLE = (int, np.integer)


def _fail(text):
    errors.fail("index", text)


class Index:
    __slots__ = ("shape", "steps", "first")
    __array_ufunc__ = None  # arithmetic of NumPy's scalars with an index is left to the index

    def __init__(self, shape: tuple, steps: tuple, first: int = 0):
        self.shape = shape
        if 1 in shape:  # a dimension of one coordinate broadcasts, whatever its step is
            steps = tuple(0 if n == 1 else s for n, s in zip(shape, steps))
        # Per dimension of the shape: the difference between neighbouring coordinates.
        self.steps = steps
        self.first = first

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self):
        return f"<index {list(self.shape)}: {self.first} + {list(self.steps)}>"

    def limits(self) -> tuple[int, int]:
        """Returns the smallest and the largest value."""
        reach = [(n - 1) * s for n, s in zip(self.shape, self.steps)]
        return self.first + sum(r for r in reach if r < 0), self.first + sum(r for r in reach if r > 0)

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        shape, steps, first, axis = [], [], self.first, 0
        for part in key:
            if part is None:
                shape.append(1)
                steps.append(0)
                continue
            if axis == self.ndim:
                _fail(f"{len(key)} indices into an index expression of {self.ndim} dimensions")
            n, step = self.shape[axis], self.steps[axis]
            axis += 1
            if isinstance(part, slice):
                begin, end, stride = part.indices(n)
                shape.append(len(range(begin, end, stride)))
                steps.append(step * stride)
                first += begin * step
            elif isinstance(part, WHOLE) and -n <= part < n:
                first += (int(part) % n) * step
            else:
                _fail(f"expected None, a slice or a number in 0..{n - 1} for dimension {axis - 1}, found {part!r}")
        return Index((*shape, *self.shape[axis:]), (*steps, *self.steps[axis:]), first)

    def expand_dims(self, axis: int):
        key = [slice(None)] * self.ndim
        key.insert(axis if axis >= 0 else axis + self.ndim + 1, None)
        return self[tuple(key)]

    # Arithmetic

    def __add__(self, other):
        if isinstance(other, WHOLE):
            return Index(self.shape, self.steps, self.first + int(other))
        if hasattr(other, "tensor"):
            return DynamicIndex(self, other)
        if not isinstance(other, Index):
            return NotImplemented
        if isinstance(other, DynamicIndex):
            return other + self
        shape, mine, theirs = _broadcast(self, other)
        return Index(shape, tuple(a + b for a, b in zip(mine, theirs)), self.first + other.first)

    __radd__ = __add__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        if not isinstance(other, WHOLE):
            return NotImplemented
        factor = int(other)
        return Index(self.shape, tuple(s * factor for s in self.steps), self.first * factor)

    __rmul__ = __mul__

    def __floordiv__(self, divisor):
        if isinstance(divisor, WHOLE) and divisor > 0:
            if not any(s % divisor for s in self.steps):
                return Index(self.shape, tuple(s // divisor for s in self.steps), self.first // divisor)
            low, high = self.limits()
            if low // divisor == high // divisor:
                return Index(self.shape, (0,) * self.ndim, low // divisor)
        _fail(f"{self!r} // {divisor} is not affine")

    def __mod__(self, divisor):
        return self - (self // divisor) * divisor

    # Comparison

    def __ge__(self, other):
        return Mask([self - other])

    def __gt__(self, other):
        return Mask([self - other - 1])

    def __le__(self, other):
        return Mask([other - self])

    def __lt__(self, other):
        return Mask([other - self - 1])

    def __eq__(self, other):
        return (self >= other) & (self <= other)

    __hash__ = None


class DynamicIndex(Index):
    """An index plus a number in memory (a tile of one element): `nl.arange(64)[None, :] +
    offsets[0, i]`.
    """

    __slots__ = ("offset",)

    def __init__(self, index: Index, offset):
        if offset.size != 1:
            _fail(f"{offset.describe()}: a tile that moves an index has one element")
        super().__init__(index.shape, index.steps, index.first)
        self.offset = offset

    def __repr__(self):
        return f"{super().__repr__()} moved by {self.offset.describe()}"

    def __getitem__(self, key):
        return DynamicIndex(super().__getitem__(key), self.offset)

    def __add__(self, other):
        if hasattr(other, "tensor") or isinstance(other, DynamicIndex):
            _fail("one number in memory moves an index, found two: add them before")
        return DynamicIndex(super().__add__(other), self.offset)

    __radd__ = __add__

    def _unknown(self, *_):
        _fail(f"{self.offset.describe()} is known when the kernel runs: an index that it moves can be added to, and nothing else")

    __neg__ = __mul__ = __rmul__ = __floordiv__ = __rsub__ = _unknown
    __ge__ = __gt__ = __le__ = __lt__ = __eq__ = _unknown
    __hash__ = None


class Mask:
    """A condition that holds where every one of `terms` is at least 0."""

    __slots__ = ("terms",)
    __array_ufunc__ = None

    def __init__(self, terms: list):
        self.terms = terms

    def __and__(self, other):
        if isinstance(other, Mask):
            return Mask(self.terms + other.terms)
        if isinstance(other, (bool, np.bool_)):
            return self if other else False
        return NotImplemented

    __rand__ = __and__

    def __or__(self, other):
        _fail("masks are combined with & only")  # documented: nki.api.shared, NKI API Masking

    __ror__ = __xor__ = __rxor__ = __or__

    def __invert__(self):
        _fail("a mask has no ~: write the opposite comparison")

    def __bool__(self):
        _fail("a mask is no condition of the program: combine masks with &, and give them to an instruction's `mask`")

    def box(self, domain: tuple, call: str):
        """Returns the part of a tile of shape `domain` that the mask leaves: (start, stop) per
        dimension, or None for nothing.
        """
        ranges = [(0, n) for n in domain]
        for term in self.terms:
            steps = _aligned_steps(term, domain, call)
            axes = [a for a, s in enumerate(steps) if s and domain[a] > 1]
            low = term.first + sum(min(0, (domain[a] - 1) * steps[a]) for a in axes)
            high = term.first + sum(max(0, (domain[a] - 1) * steps[a]) for a in axes)
            if low >= 0:
                continue
            if high < 0:
                return None
            if len(axes) != 1:
                errors.fail(call, f"mask: {term!r} >= 0 cuts no box out of a tile of {list(domain)}")
            axis = axes[0]
            begin, end = ranges[axis]
            step = steps[axis]
            if step > 0:
                begin = max(begin, -(term.first // step))
            else:
                end = min(end, term.first // -step + 1)
            if begin >= end:
                return None
            ranges[axis] = (begin, end)
        return ranges


def _aligned_steps(term, domain, call):
    """Returns the steps of a term along the dimensions of a tile.

    The dimensions align at the right, as in NumPy. A term with fewer dimensions whose first is the
    partition aligns at the left.
    """
    steps, shape = term.steps, term.shape
    while len(steps) > len(domain) and shape[-1] == 1:
        steps, shape = steps[:-1], shape[:-1]
    missing = len(domain) - len(steps)
    if missing < 0:
        errors.fail(call, f"mask: {term!r} has more dimensions than a tile of {list(domain)}")
    if missing and len(shape) > 1 and shape[0] > 1 and shape[0] == domain[0]:
        return (*steps, *(0,) * missing)
    return (*(0,) * missing, *steps)


def _broadcast(a: Index, b: Index):
    if a.shape == b.shape:
        return a.shape, a.steps, b.steps
    rank = max(a.ndim, b.ndim)
    first, second = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - b.ndim) + b.shape
    if any(m != n and m != 1 and n != 1 for m, n in zip(first, second)):
        _fail(f"{list(a.shape)} and {list(b.shape)} do not broadcast")
    shape = tuple(max(m, n) for m, n in zip(first, second))
    return shape, (0,) * (rank - a.ndim) + a.steps, (0,) * (rank - b.ndim) + b.steps


def broadcast_steps(index: Index, shape: tuple) -> tuple:
    """Returns the steps of an index along the dimensions of a shape that it broadcasts to."""
    return (0,) * (len(shape) - index.ndim) + index.steps


def broadcast_shape(shapes) -> tuple:
    result: tuple = ()
    for shape in shapes:
        result = _broadcast(Index(result, (0,) * len(result)), Index(shape, (0,) * len(shape)))[0]
    return result


def arange(*limits) -> Index:
    """`nl.arange(stop)`, `nl.arange(start, stop[, step])`."""
    given = whole.numbers("nl.arange", "limits", limits)
    if not 1 <= len(given) <= 3 or given[2:] == (0,):
        _fail(f"arange{given}: expected stop, or start, stop and a step other than 0")
    numbers = range(*given)
    if not numbers:
        _fail(f"arange{tuple(limits)} is empty")
    return Index((len(numbers),), (numbers.step,), numbers.start)


class Grid(tuple):
    """The result of `nl.mgrid[...]`: an index per dimension, by number or as p, x, y, z."""

    p = property(lambda self: self[0])
    x = property(lambda self: self[1])
    y = property(lambda self: self[2])
    z = property(lambda self: self[3])
    w = property(lambda self: self[4])


class _MeshGrid:
    """`nl.mgrid[0:128, 0:512]`: a dense grid, as in NumPy."""

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        lines = [arange(part.start or 0, part.stop, part.step or 1) for part in key]
        shape = tuple(line.shape[0] for line in lines)
        return Grid(
            Index(shape, tuple(line.steps[0] if a == axis else 0 for a in range(len(shape))), line.first)
            for axis, line in enumerate(lines)
        )


mgrid = _MeshGrid()
