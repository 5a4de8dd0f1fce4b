"""Creates tensors of the legacy dialect, with block dimensions, in a given memory."""

from __future__ import annotations

import numpy as np
from nki import language as core
from nki.tracer import dtypes, errors, session, whole
from nki.tracer.layout import HBM, PSUM, SBUF

from ..blocks import Blocks, ParDim, allocate_tile
from ..results import issue_pending
from ..tile import Tile, readable
from ..views import Slice


class Buffer:
    """A memory. `address` returns the address of a block if the kernel allocates explicitly."""

    __slots__ = ("name", "memory", "shared", "address")

    def __init__(self, name, memory, shared=False, address=None):
        self.name = name
        self.memory = memory
        self.shared = shared
        self.address = address

    def __repr__(self):
        return f"nl.{self.name}"


sbuf, psum = Buffer("sbuf", SBUF), Buffer("psum", PSUM)
hbm, private_hbm = Buffer("hbm", HBM), Buffer("private_hbm", HBM)
shared_hbm = Buffer("shared_hbm", HBM, shared=True)
BUFFERS = {SBUF: sbuf, PSUM: psum, HBM: shared_hbm}


def par_dim(size) -> ParDim:
    return ParDim(whole.number("nl.par_dim", "size", size))


def ds(start, size) -> Slice:
    return Slice(start, size)


def _new(call, shape, dtype, buffer, value=None, name=""):
    issue_pending()
    run = session.active(call)
    buffer = sbuf if buffer is None else buffer
    if not isinstance(buffer, Buffer):
        errors.fail(call, f"buffer: expected nl.sbuf, nl.psum or nl.hbm, found {buffer!r}")
    found = dtypes.find(dtype)
    if found is None:
        errors.fail(call, f"dtype: expected an element type of nl, found {dtype!r}")
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(whole.items(call, "shape", shape, "whole numbers"))
    at = next((i for i, n in enumerate(shape) if isinstance(n, ParDim)), 0)
    sizes = whole.numbers(call, "shape", shape)
    if buffer.memory == HBM:
        return _in_hbm(run, sizes, found, buffer, value, name)
    if at:
        return Blocks(sizes[:at], sizes[at:], found, buffer.memory, value, buffer.address, name)
    return allocate_tile(sizes, found, buffer.memory, value, buffer.address and buffer.address((), sizes, found), name)


def _in_hbm(run, shape, dtype, buffer, value, name):
    """Returns a tensor in HBM. The programs of a grid share tensors in shared_hbm, which the first
    program makes.
    """
    shared = run.state.get("neuronxcc shared") if buffer.shared else None
    if shared is not None and any(run.program):
        if not shared["remaining"]:
            errors.fail("nl.ndarray", "shared_hbm: the programs of the grid allocate different tensors")
        return shared["remaining"].pop(0)
    made = Tile(run.allocate(shape, dtype, HBM, name=name))
    if value is not None:
        # No transfer is recorded, because the kernel's own stores replace the value, and the
        # compiler drops a value that nobody reads.
        if run.values:
            run.write(made.tensor, np.full(shape, value))
        run.note_write(made.tensor)
    if shared is not None:
        shared["created"].append(made)
    return made


def ndarray(shape, dtype=np.float32, *, buffer=None, name="", **unused):
    return _new("nl.ndarray", shape, dtype, buffer, None, name)


def zeros(shape, dtype=np.float32, *, buffer=None, name="", **unused):
    return _new("nl.zeros", shape, dtype, buffer, 0, name)


def ones(shape, dtype=np.float32, *, buffer=None, name="", **unused):
    return _new("nl.ones", shape, dtype, buffer, 1, name)


def full(shape, fill_value, dtype=np.float32, *, buffer=None, name="", **unused):
    return _new("nl.full", shape, dtype, buffer, float(fill_value), name)


def zeros_like(a, dtype=None, *, buffer=None, name="", **unused):
    return zeros(a.shape, dtype or a.dtype, buffer=buffer or a.buffer, name=name)


def empty_like(a, dtype=None, *, buffer=None, name="", **unused):
    return ndarray(a.shape, dtype or a.dtype, buffer=buffer or a.buffer, name=name)


def rand(shape, dtype=np.float32, **unused):
    issue_pending()
    return Tile(core.rand(shape, dtype))


def random_seed(seed, **unused):
    """Seeds the generator with a number or a tile of one number."""
    issue_pending()
    core.random_seed(readable(seed) if isinstance(seed, Tile) else core.full((1, 1), seed, dtypes.int32))


def shared_constant(constant, dtype=None, **unused):
    issue_pending()
    return Tile(core.shared_constant(constant, dtype))


def shared_identity_matrix(n, dtype=np.uint8, **unused):
    issue_pending()
    n = whole.number("nl.shared_identity_matrix", "n", n)
    if n < 1:
        errors.fail("nl.shared_identity_matrix", f"n: expected at least 1, found {n}")
    return Tile(core.shared_constant(np.identity(n, dtype=np.float32), dtype))


def device_print(prefix, x, **unused):
    issue_pending()
    core.device_print(prefix, x.tensor if isinstance(x, Tile) else x)
