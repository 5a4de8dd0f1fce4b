"""Results of instructions that are not stored yet.

An instruction of this dialect returns its result. The place of the result is known one step later.
`sums[...] += nc_matmul(...)` accumulates in place, `buffer[i] = activation(...)` writes the buffer,
and anything else needs new memory. A result therefore waits. Its instruction is issued when the
program stores the result, uses it, or issues anything else. At most one result waits at any time,
so that the instructions have the program's order.
"""

from __future__ import annotations

from nki.tracer import errors, session
from nki.tracer.layout import HBM, PSUM, SBUF

from .sums import Sums
from .tile import Tile, same, shaped, writable


class Waiting:
    """A result whose instruction is not issued yet.

    `make` takes the tensor to write, cut to `box`. For a product it also takes `accumulate`.
    """

    __slots__ = ("make", "box", "source", "product")

    def __init__(self, make, box, source, product):
        self.make = make
        self.box = box
        self.source = source
        self.product = product

    def settle(self):
        settle()


_last: Tile | None = None


def issue_later(shape, dtype, memory, make, box=None, product=False) -> Tile:
    """Returns a waiting result. The instruction writes its part `box` (() for nothing, None for
    all).
    """
    global _last
    settle()
    source = session.active("result").trace.sources.here()
    _last = Tile.later(shape, dtype, memory, Waiting(make, box, source, product))
    return _last


def settle():
    """Issues the waiting result into new memory."""
    global _last
    tile, _last = _last, None
    if tile is None or tile.waiting is None:
        return
    waiting = tile.waiting
    run = session.current
    with Pinned(run, waiting.source):
        tensor = run.allocate(tile.shape, tile.dtype, tile.memory)
        place = Tile(tensor, sums=Sums(tensor) if tile.memory == PSUM else None)
        tile._tensor, tile.sums, tile.waiting = tensor, place.sums, None
        _issue(waiting, place, False)


def forget():
    """Drops the waiting result, because the kernel failed."""
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
    """Gives the instructions and errors inside the block the source line that asked for the result.
    """

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
    """`place = value`: writes a waiting result to the place, copies a tile, or fills with a number.
    """
    global _last
    from . import moves  # moves issues results itself

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
    """`place += value` in the Tensor engine, if value is a waiting product and place is in PSUM.
    Returns whether it was.
    """
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
    """Returns whether the instruction of a waiting result can write directly to the place."""
    if value.memory == PSUM or place.memory == HBM:
        return value.memory == place.memory
    return place.memory == SBUF or not getattr(value.waiting.make, "dma", False)


Tile.__setitem__ = lambda self, key, value: store(self[key], value)
