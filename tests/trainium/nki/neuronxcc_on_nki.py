"""Runs the parts of the legacy dialect that `neuronmm emit` writes, by means of the `nki` that can be imported.

Instructions of the legacy dialect return their results. Here a result waits until it is assigned, and the instruction of
the current dialect then writes it. Loops of the legacy dialect are traced once. Their variables have no numbers, so only
positions may be computed from them. `install()` makes `import neuronxcc.nki` work.
"""

import functools
import sys
from types import ModuleType

import nki
import nki.isa as nisa
import nki.language as nl


class Index:
    """A loop's variable, which can be added to and multiplied but not compared."""

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Index(self.value + _number(other))

    def __mul__(self, factor):
        assert isinstance(factor, int), "positions are affine in the loops"
        return Index(self.value * factor)

    __radd__, __rmul__ = __add__, __mul__


class Grid:
    """Positions along axes of their own: an `offset`, and the number and the distance of positions per axis."""

    def __init__(self, offset, axes):
        self.offset = offset
        self.axes = axes

    def __getitem__(self, key):
        (count, step), = self.axes
        return Grid(self.offset, [(1, 0) if part is None else (count, step) for part in key])

    def __add__(self, other):
        if not isinstance(other, Grid):
            return Grid(self.offset + _number(other), self.axes)
        pairs = zip(self.axes, other.axes, strict=True)
        return Grid(self.offset + other.offset, [(max(a, b), p + q) for (a, p), (b, q) in pairs])

    def __mul__(self, factor):
        assert isinstance(factor, int), "positions are affine"
        return Grid(self.offset * factor, [(count, step * factor) for count, step in self.axes])


def _arange(count):
    assert isinstance(count, int), count
    return Grid(0, [(count, 1)])


def _by_grids(tensor, grids):
    """Returns the part of a matrix whose rows and columns the grids number, as a pattern of strides."""
    rows, columns = grids
    width = tensor.shape[1]
    pattern = [[p * width + q, max(a, b)] for (a, p), (b, q) in zip(rows.axes, columns.axes, strict=True)]
    return tensor.ap(pattern, rows.offset * width + columns.offset)


def _number(value):
    return value.value if isinstance(value, Index) else value


def _loop(count):
    assert isinstance(count, int), f"a loop over {count!r}: its length depends on another loop"
    return map(Index, range(count))


def _key(key):
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if isinstance(part, slice):
            assert all(isinstance(n, (int, type(None))) for n in (part.start, part.stop)), part
    return tuple(_number(part) for part in parts)


class Result:
    """An instruction's result. `write` writes it to a tensor; `product` says whether it may be added."""

    def __init__(self, write, product=False):
        self.write = write
        self.product = product


class Tile:
    """A tensor or a part of one."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def shape(self):
        return list(self.tensor.shape)

    def reshape(self, shape):
        return Tile(self.tensor.reshape(shape))

    def __getitem__(self, key):
        if isinstance(key, tuple) and any(isinstance(part, Grid) for part in key):
            return Tile(_by_grids(self.tensor, key))
        return Tile(self.tensor if key is Ellipsis else self.tensor[_key(key)])

    def __setitem__(self, key, value):
        if isinstance(value, Result):
            value.write(self[key].tensor)
        else:
            assert isinstance(value, Added), f"assigned: {value!r}"

    def __iadd__(self, value):
        assert isinstance(value, Result) and value.product, "only products are added"
        value.write(self.tensor)
        return Added()


class Added:
    """The value that Python assigns after `+=`. The sum has already been written."""


def _ndarray(shape, dtype, buffer):
    return Tile(nl.ndarray(shape, dtype=dtype, buffer=buffer))


def _zeros(shape, dtype, buffer):
    assert buffer is nl.psum, "zeros that an instruction has to write"
    return _ndarray(shape, dtype, buffer)


def _ds(start, size):
    return nl.ds(_number(start), size)


def _load(src):
    return Result(lambda dst: nisa.dma_copy(dst=dst, src=src.tensor))


def _load_transpose2d(src):
    return Result(lambda dst: nisa.dma_transpose(dst=dst, src=src.tensor))


def _store(dst, value):
    nisa.dma_copy(dst=dst.tensor, src=value.tensor)


def _checked(write, dtype):
    """Returns a result that checks its destination's dtype when it is written."""

    def checked(dst):
        assert dst.dtype == dtype, f"{dst.dtype} is assigned {dtype}"
        write(dst)

    return Result(checked)


def _nc_matmul(stationary, moving):
    # accumulate=None overwrites elements that were not written and adds to the others.
    return Result(
        lambda dst: nisa.nc_matmul(dst=dst, stationary=stationary.tensor, moving=moving.tensor, accumulate=None), True
    )


def _nc_transpose(data, engine):
    assert engine is nisa.engine.tensor
    return Result(lambda dst: nisa.nc_transpose(dst=dst, data=data.tensor, engine=engine))


def _tensor_copy(src, dtype):
    return _checked(lambda dst: nisa.tensor_copy(dst=dst, src=src.tensor), dtype)


def _tensor_tensor(data1, data2, op, dtype):
    return _checked(lambda dst: nisa.tensor_tensor(dst=dst, data1=data1.tensor, data2=data2.tensor, op=op), dtype)


def _activation(op, data, dtype):
    return _checked(lambda dst: nisa.activation(dst=dst, op=op, data=data.tensor), dtype)


def _memset(shape, value, dtype):
    def write(dst):
        assert tuple(dst.shape) == tuple(shape), (dst.shape, shape)
        nisa.memset(dst=dst, value=value)

    return _checked(write, dtype)


def _jit(function):
    @nki.jit
    @functools.wraps(function)
    def run(*args, **kwargs):
        given = {name: Tile(tensor) for name, tensor in kwargs.items()}
        return function(*map(Tile, args), **given).tensor

    return run


def install():
    package, legacy = ModuleType("neuronxcc"), ModuleType("neuronxcc.nki")
    language, isa = ModuleType("neuronxcc.nki.language"), ModuleType("neuronxcc.nki.isa")
    legacy.jit = _jit
    for name in ("bfloat16", "float32", "sbuf", "psum", "shared_hbm", "private_hbm", "add", "multiply", "silu", "copy"):
        setattr(language, name, getattr(nl, name))
    language.affine_range = language.sequential_range = _loop
    language.par_dim = int
    language.arange = _arange
    language.ndarray, language.zeros, language.ds = _ndarray, _zeros, _ds
    language.load, language.load_transpose2d, language.store = _load, _load_transpose2d, _store
    isa.tensor_engine = nisa.engine.tensor
    isa.nc_matmul, isa.nc_transpose, isa.tensor_copy = _nc_matmul, _nc_transpose, _tensor_copy
    isa.tensor_tensor, isa.activation, isa.memset = _tensor_tensor, _activation, _memset
    package.nki, legacy.language, legacy.isa = legacy, language, isa
    for module in (package, legacy, language, isa):
        sys.modules[module.__name__] = module
