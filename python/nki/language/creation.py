"""Creates tensors, and loads and stores whole tensors."""

from __future__ import annotations

import numpy as np

from .. import isa, removed
from ..tracer import device as devices
from ..tracer import dtypes, errors, operands, whole
from ..tracer import session as sessions
from ..tracer.indexing import DynamicSlice
from ..tracer.layout import HBM
from ..tracer.tensor import ASSIGN, Tensor
from .memory import region, sbuf, shared_hbm


def ndarray(shape, dtype, buffer=sbuf, name="", address=None, **unused) -> Tensor:
    """Returns a new tensor with unwritten elements."""
    call = "nki.language.ndarray"
    s = sessions.active(call)
    found, memory = region(buffer)
    if memory is not None:
        removed.check_buffer(call, buffer)
    if memory is None:
        errors.fail(
            call, f"buffer: expected sbuf, psum, hbm, private_hbm or shared_hbm of nki.language, found {buffer!r}"
        )
    tensor = s.allocate(shape, dtype, memory, name, address, call, shared=found is shared_hbm)
    if memory == HBM:
        tensor.storage.buffer = found
    return tensor


def full(shape, fill_value, dtype, buffer=sbuf, name="") -> Tensor:
    tensor = ndarray(shape, dtype, buffer, name)
    _fill(tensor, fill_value)
    return tensor


def zeros(shape, dtype, buffer=sbuf, name="") -> Tensor:
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=sbuf, name="") -> Tensor:
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name="") -> Tensor:
    operands.tensor("nki.language.zeros_like", "x", x)
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x, dtype=None, buffer=None, name=""):
    """Returns new storage of the geometry of a tensor, or since NKI 0.7 of a grid."""
    if hasattr(x, "allocated_like"):
        return x.allocated_like(dtype or x.dtype, buffer or x.buffer, name)
    operands.tensor("nki.language.empty_like", "x", x)
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def _fill(tensor, value):
    if tensor.memory != HBM:
        isa.memset(tensor, value)
        return
    # HBM is filled from a tile in SBUF, 128 rows at a time, and wide rows part by part.
    rows = tensor.reshape((tensor.shape[0], tensor.size // tensor.shape[0]))
    height, width = rows.shape
    widest = sessions.current.device.usable_sbuf_bytes // 2 // tensor.itemsize
    tile = ndarray((min(128, height), min(width, widest)), tensor.dtype)
    isa.memset(tile, value)
    for top in range(0, height, tile.shape[0]):
        for left in range(0, width, tile.shape[1]):
            part = rows[top : min(top + tile.shape[0], height), left : min(left + tile.shape[1], width)]
            isa.dma_copy(part, tile[0 : part.shape[0], 0 : part.shape[1]])


def rand(shape, dtype, buffer=sbuf, name="") -> Tensor:
    """Returns uniform random numbers in [0, 1)."""
    tensor = operands.on_chip("nki.language.rand", "buffer", ndarray(shape, dtype, buffer, name))
    s = sessions.current
    s.emit("rng", "vector", ("dst",), [tensor])
    if s.values:
        s.write(tensor, s.random.random(tensor.shape, np.float32))
    s.note_write(tensor)
    return tensor


def random_seed(seed):
    """Seeds the generator of `rand` with `seed`, one integer on chip."""
    call = "nki.language.random_seed"
    if operands.tensor(call, "seed", seed).size != 1:
        errors.fail(call, f"seed: {seed.describe()}, expected [1, 1]")
    isa.set_rng_seed(seed)


def load(src, dtype=None) -> Tensor:
    """Returns a new tile in SBUF with the contents of `src` in HBM."""
    operands.tensor("nki.language.load", "src", src)
    tensor = ndarray(src.shape, dtype or src.dtype)
    isa.dma_copy(tensor, src)
    return tensor


def store(dst, value):
    """Copies `value` in SBUF to `dst` in HBM."""
    call = "nki.language.store"
    operands.tensor(call, "dst", dst)
    value = operands.tensor(call, "value", value)
    if value.memory != "sbuf" and value.memory != HBM:
        tile = ndarray(value.shape, dst.dtype)
        isa.tensor_copy(tile, value)
        value = tile
    isa.dma_copy(dst, value)


def load_transpose2d(src, dtype=None) -> Tensor:
    call = "nki.language.load_transpose2d"
    if operands.tensor(call, "src", src).ndim != 2:
        errors.fail(call, f"src: {src.describe()}, expected two dimensions")
    tensor = ndarray((src.shape[1], src.shape[0]), dtype or src.dtype)
    isa.dma_transpose(tensor, src)
    return tensor


def shared_constant(constant, dtype=None) -> Tensor:
    """Returns data that is part of the compiled kernel, in HBM. `constant` is an array or the path
    of a .npy file.
    """
    call = "nki.language.shared_constant"
    s = sessions.active(call)
    if isinstance(constant, Tensor):
        return constant
    data = (
        np.load(constant)
        if isinstance(constant, (str, bytes)) or hasattr(constant, "__fspath__")
        else np.asarray(constant)
    )
    if data.size < 1 or data.ndim < 1:
        errors.fail(call, f"constant: expected an array with elements, found one of shape {list(data.shape)}")
    found = dtypes.find(dtype or data.dtype)
    if found is None and data.dtype.kind == "f":
        found = dtypes.float32
    elif found is None and data.dtype.kind in "iu":
        found = dtypes.int32
    if found is None:
        errors.fail(call, f"constant: {data.dtype} is no element type of nki.language")
    return s.argument(s.trace.sources.names[s.trace.sources.here()] or "constant", found, data.shape, data)


def shared_identity_matrix(n, dtype="uint8", dst=None) -> Tensor:
    """Returns the identity matrix in SBUF, loaded from a constant."""
    call = "nki.language.shared_identity_matrix"
    s = sessions.active(call)
    n, found = whole.number(call, "n", n), dtypes.find(dtype)
    if not 1 <= n <= devices.PARTITIONS:
        errors.fail(call, f"n: expected 1 to {devices.PARTITIONS} partitions, found {n}")
    if found is None:
        errors.fail(call, f"dtype: expected an element type of nki.language, found {dtype!r}")
    cached = s.state.setdefault("identities", {})
    if (n, found) not in cached:
        cached[n, found] = s.argument("identity", found, (n, n), np.eye(n, dtype=np.float32))
    tensor = ndarray((n, n), found, name="identity") if dst is None else dst
    isa.dma_copy(tensor, cached[n, found])
    return tensor


def ds(start, size) -> DynamicSlice:
    return DynamicSlice(start, size)


def device_print(print_prefix, tensor):
    s = sessions.active("nki.language.device_print")
    if s.values and isinstance(tensor, Tensor):
        print(print_prefix, s.read(tensor))


def assign(view, value):
    """`view[...] = value`: copies on chip, transfers from or to HBM, or fills with a number."""
    if operands.is_number(value):
        _fill(view, value)
        return
    value = operands.tensor("tensor[...] =", "value", value)
    if HBM in (view.memory, value.memory):
        isa.dma_copy(view, value)
    elif not (value.storage is view.storage and value.layout is view.layout and value.offset == view.offset):
        isa.tensor_copy(view, value)


ASSIGN[0] = assign
