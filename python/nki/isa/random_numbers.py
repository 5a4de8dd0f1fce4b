"""Random numbers and dropout. The numbers come from NumPy's generator: they have the hardware's
distribution but other values.
"""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, values
from ..tracer import session as sessions
from ..tracer.layout import SBUF
from .elementwise import scalar_operand
from .enums import engine
from .instruction import DONE

_STATE = {"gpsimd": 6, "vector": 24}  # words of a lane's XORWOW state (documented)


def rng(dst, engine=engine.vector, name=None):
    """dst = random bits."""
    call = "nki.isa.rng"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("vector", "gpsimd"), "vector")
    operands.on_chip(call, "dst", dst)
    if not dst.dtype.integer:
        errors.fail(call, f"dst: {dst.describe()}, expected integers")
    s.emit("rng", by, ("dst",), [dst])
    if s.values:
        limits = np.iinfo(dst.dtype.raw)
        dst.put(s.random.integers(limits.min, limits.max, dst.shape, dst.dtype.raw, endpoint=True))
    s.note_write(dst)
    return DONE


def rand2(dst, min, max, name=None):
    """dst = uniform random numbers in [min, max]."""
    call = "nki.isa.rand2"
    s = sessions.active(call)
    if s.device.generation < 4:
        errors.fail(call, f"{s.device.name} does not have it, trn3 does")
    operands.on_chip(call, "dst", dst)
    views, names = [dst], ["dst"]
    for i, value in enumerate((min, max)):
        if operands.required_per_partition(call, ("min", "max")[i], value, dst.layout.partitions) is not None:
            s.note_read(value, call, ("min", "max")[i])
            views.append(value)
            names.append(f"scalar{i}")
    s.emit("rng", "vector", tuple(names), views)
    if s.values:
        low, high = (scalar_operand(s, call, "bound", v, dst) for v in (min, max))
        s.write(dst, low + s.random.random(dst.shape, np.float32) * (high - low))
    s.note_write(dst)
    return DONE


def set_rng_seed(src_seeds, name=None):
    """Seeds the generator of the Vector engine."""
    return _seed("nki.isa.set_rng_seed", src_seeds, "vector")


def rand_set_state(src_seeds, engine=engine.gpsimd, name=None):
    """Seeds the generator of an engine with one state per partition."""
    return _seed(
        "nki.isa.rand_set_state", src_seeds, operands.engine("nki.isa.rand_set_state", engine, ("gpsimd", "vector"), "gpsimd")
    )


def rand_get_state(dst, engine=engine.gpsimd, name=None):
    """dst = the generator's state, one per partition. `rand_set_state` with it continues the
    numbers from here.
    """
    call = "nki.isa.rand_get_state"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("gpsimd", "vector"), "gpsimd")
    if s.device.generation < (4 if by == "vector" else 3):
        errors.fail(call, f"{s.device.name} cannot store the state of {by}'s generator")
    operands.on_chip(call, "dst", dst)
    if dst.memory != SBUF and (by == "gpsimd" or s.device.generation < 4):
        errors.fail(call, f"dst: {dst.describe()}, expected a tensor in sbuf")
    if dst.dtype is not dtypes.uint32 or dst.ndim != 2 or dst.shape[1] != _STATE[by]:
        errors.fail(call, f"dst: {dst.describe()}, expected uint32 [partitions, {_STATE[by]}], the state of {by}'s generator")
    s.emit("rng", by, ("dst",), [dst])
    if s.values:  # a seed stands for the state, and the generator restarts from it
        seed = s.random.integers(2**32, dtype=np.uint32)
        s.random = np.random.default_rng(int(seed))
        dst.put(np.full(dst.shape, seed, np.uint32))
    s.note_write(dst)
    return DONE


def _seed(call, src_seeds, by):
    s = sessions.active(call)
    operands.on_chip(call, "src_seeds", src_seeds)
    s.note_read(src_seeds, call, "src_seeds")
    s.emit("rng", by, ("src",), [src_seeds])
    if s.values:
        first = src_seeds.bits().reshape(-1)[:1]
        bits = first if first.dtype.kind in "iu" else first.view(f"u{first.itemsize}")
        s.random = np.random.default_rng(int(bits[0]) & 0xFFFFFFFF)
    return DONE


def dropout(dst, data, prob, name=None):
    """dst = data in which each element is replaced by zero with probability `prob`."""
    call = "nki.isa.dropout"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    operands.same_elements(call, "dst", dst, "data", data)
    views, names = [dst, data], ["dst", "src"]
    if operands.required_per_partition(call, "prob", prob, data.layout.partitions) is not None:
        s.note_read(prob, call, "prob")
        views.append(prob)
        names.append("scalar0")
    s.note_read(data, call, "data")
    s.emit("dropout", "vector", tuple(names), views)
    if s.values:
        dropped = s.random.random(data.shape, np.float32) < scalar_operand(s, call, "prob", prob, data)
        s.write(dst, np.where(dropped, 0, values.decode(data.bits(), data.dtype)).reshape(dst.shape))
    s.note_write(dst)
    return DONE
