"""Results of instructions that are not stored yet.

An instruction of this dialect returns its result. The destination of the result is known one step
later. `sums[...] += nc_matmul(...)` accumulates in place, `buffer[i] = activation(...)` writes the
buffer, and anything else needs new memory. A result is therefore pending at first. Its instruction
is issued when the program stores the result, uses it, or issues anything else. At most one result
is pending at any time, so that the instructions have the program's order.
"""

from __future__ import annotations

from nki.tracer import errors, session
from nki.tracer.layout import HBM, PSUM, SBUF

from .sums import PsumSums
from .tile import Tile, match_shape, same_view, writable


class PendingResult:
    """A result whose instruction is not issued yet.

    `make` takes the tensor to write, clipped to `box`. For a product it also takes `accumulate`.
    """

    __slots__ = ("make", "box", "source", "product")

    def __init__(self, make, box, source, product):
        self.make = make
        self.box = box
        self.source = source
        self.product = product

    def issue_pending(self):
        issue_pending()


_pending_tile: Tile | None = None


def issue_later(shape, dtype, memory, make, box=None, product=False) -> Tile:
    """Returns a pending result. The instruction writes its part `box` (() for nothing, None for
    all).
    """
    global _pending_tile
    issue_pending()
    source = session.active("result").trace.sources.here()
    _pending_tile = Tile.from_pending(shape, dtype, memory, PendingResult(make, box, source, product))
    return _pending_tile


def issue_pending():
    """Issues the pending result into new memory."""
    global _pending_tile
    tile, _pending_tile = _pending_tile, None
    if tile is None or tile.pending is None:
        return
    pending = tile.pending
    run = session.current
    with SourceOverride(run, pending.source):
        tensor = run.allocate(tile.shape, tile.dtype, tile.memory)
        destination = Tile(tensor, sums=PsumSums(tensor) if tile.memory == PSUM else None)
        tile._tensor, tile.sums, tile.pending = tensor, destination.sums, None
        _issue(pending, destination, False)


def discard_pending():
    """Drops the pending result, because the kernel failed."""
    global _pending_tile
    _pending_tile = None


def _issue(pending, destination: Tile, accumulate: bool):
    if pending.box == ():
        return
    target = writable(destination, pending.box, fresh=not pending.product)
    if pending.product:
        pending.make(target, destination.sums.add(target) if accumulate else destination.sums.begin(target))
    else:
        pending.make(target)


class SourceOverride:
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


def store(destination: Tile, value):
    """`destination = value`: writes a pending result, copies a tile, or fills with a number."""
    global _pending_tile
    from . import moves  # moves issues results itself

    if not isinstance(value, Tile):
        issue_pending()
        moves.fill(destination, value)
    elif value.pending is not None and can_write_directly(value, destination):
        _pending_tile = None
        pending = value.pending
        target = match_shape(destination, value.shape)
        with SourceOverride(session.current, pending.source):
            _issue(pending, target, False)
        value._tensor, value.sums, value.pending = target.tensor, target.sums, None
    elif not same_view(destination, value):
        moves.copy(destination, value)


def accumulate(destination: Tile, value: Tile) -> bool:
    """`destination += value` in the Tensor engine, if value is a pending product and the
    destination is in PSUM. Returns whether both hold.
    """
    global _pending_tile
    if destination.memory != PSUM or not isinstance(value, Tile) or value.pending is None or not value.pending.product:
        return False
    _pending_tile = None
    pending = value.pending
    target = match_shape(destination, value.shape)
    with SourceOverride(session.current, pending.source):
        _issue(pending, target, True)
    value._tensor, value.sums, value.pending = target.tensor, target.sums, None
    return True


def can_write_directly(value: Tile, destination: Tile) -> bool:
    """Returns whether the instruction of a pending result can write directly to the destination."""
    if value.memory == PSUM or destination.memory == HBM:
        return value.memory == destination.memory
    return destination.memory == SBUF or not getattr(value.pending.make, "dma", False)


Tile.__setitem__ = lambda self, key, value: store(self[key], value)
