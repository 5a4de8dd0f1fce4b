"""`@nki.jit`: a kernel, its launch grid, and one run of it."""

from __future__ import annotations

import functools
import inspect
import math
import os

import numpy as np

from . import frameworks
from .tracer import device as devices
from .tracer import dtypes, errors
from .tracer import session as sessions
from .tracer.cores import Group
from .tracer.session import Session
from .tracer.tensor import Tensor
from .tracer.trace import Trace


class Kernel:
    """A jitted function. Inside of another kernel a call is a plain call; elsewhere it computes NumPy values."""

    def __init__(self, function, grid: tuple = ()):
        functools.update_wrapper(self, function)
        self.func = function
        self.grid = grid

    def __getitem__(self, grid) -> Kernel:
        """`kernel[2]`: a launch on two cores."""
        sizes = grid if isinstance(grid, tuple) else (grid,)
        return Kernel(self.func, tuple(int(n) for n in sizes))

    def with_schedule(self, edges) -> Kernel:
        """`kernel.with_schedule([("plus1", "recip")])` (guide "How to Use the NKI Scheduling APIs"): instructions, by the names
        that the calls give, that the compiler's scheduler has to keep in an order. The trace has the program's order anyway."""

        @functools.wraps(self.func)
        def scheduled(*args, **kwargs):
            sessions.current.note("with_schedule: the trace keeps the program's order, whatever the pairs of names ask")
            return self.func(*args, **kwargs)

        return Kernel(scheduled, self.grid)

    def __call__(self, *args, **kwargs):
        if sessions.current is not None:
            return self.func(*args, **kwargs)
        return simulate(self)(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def jit(function=None, **options):
    """`@nki.jit` and `@nki.jit(mode=..., ...)`; the options concern the compiler, but for `grid=[2]`: the launch on two
    cores that `kernel[2]` is, for all calls."""
    if function is None:
        return functools.partial(jit, **options)
    kernel = function if isinstance(function, Kernel) else Kernel(function)
    return kernel[tuple(options["grid"])] if options.get("grid") else kernel


def simulate(kernel):
    """A function of arrays (NumPy's, torch's or jax's) that runs the kernel with values, and gives such arrays. The device is
    the one that the environment variable NEURON_PLATFORM_TARGET_OVERRIDE names, else a trn2."""
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel)

    def run(*args, **kwargs):
        target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
        s = Session(devices.find(target) or devices.DEVICES["trn2"], Trace(), values=True, grid=kernel.grid)
        package = next(filter(None, map(frameworks.package_of, (*args, *kwargs.values()))), None)
        return results(s, execute(s, kernel.func, args, kwargs), package)

    return run


def execute(s: Session, function, args: tuple, kwargs: dict):
    """Runs `function` in the session; arrays among the arguments become tensors in HBM. Returns what it returns.

    Of a launch grid the session is the first program; with values the others run beside it.
    """
    before = sessions.current
    count = 1 if hasattr(function, "whole_grid") else math.prod(s.grid)  # the legacy dialect loops over its grid itself
    if count > 1:
        s.note(f"the kernel is launched on {list(s.grid)} cores; the trace is that of the first")
    try:
        if count == 1 or not s.values:
            sessions.current = s
            return _call(s, function, args, kwargs)
        s.group = Group(count)
        s.group.sessions[:] = [s, *(s.beside(i) for i in range(1, count))]
        return s.group.run([functools.partial(_call, each, function, args, kwargs) for each in s.group.sessions])
    finally:
        sessions.current = before


def _call(s, function, args, kwargs):
    names = list(inspect.signature(function).parameters)
    source = s.trace.sources.definition(inspect.unwrap(function)) if hasattr(function, "__code__") else None
    args = [_argument(s, names[i] if i < len(names) else f"argument{i}", a, source) for i, a in enumerate(args)]
    return function(*args, **{name: _argument(s, name, a, source) for name, a in kwargs.items()})


class Shaped:
    """An argument without values: a type and a shape, or an array with the type that it is meant to have."""

    def __init__(self, dtype, shape: tuple, data: np.ndarray | None = None):
        self.dtype = dtype
        self.shape = shape
        self.data = data


def _argument(s, name, value, source):
    if isinstance(value, Shaped):
        return s.argument(name, value.dtype, value.shape, value.data, source)
    found = None
    if frameworks.package_of(value):
        value, found = frameworks.as_array(value)
    if isinstance(value, np.ndarray):
        found = found or dtypes.find(value.dtype)
        if found is None:
            found = dtypes.float32 if value.dtype.kind == "f" else dtypes.int32 if value.dtype.kind in "iu" else None
        if found is None:
            errors.fail("kernel call", f"argument {name}: {value.dtype} is no element type of nki.language")
        return s.argument(name, found, value.shape, value, source)
    if isinstance(value, (tuple, list)):
        return type(value)(_argument(s, f"{name}[{i}]", v, source) for i, v in enumerate(value))
    return value


def tensors_of(returned) -> list[Tensor]:
    """The tensors in what a kernel returned."""
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, dict):
        returned = list(returned.values())
    if isinstance(returned, (tuple, list)):
        return [t for part in returned for t in tensors_of(part)]
    return []


def check_result(s: Session, view: Tensor, name: str = "the result"):
    """What the kernel returns must have been written, and not be computed from what was not."""
    holes = view.storage.unwritten(view.layout, view.offset)
    if holes is False:
        return
    count = (
        f"{view.size if holes is True else int(holes.sum())} of the {view.size} elements of {name}, {view.describe()}"
    )
    if s.first_hole is None:
        where = s.trace.place(view.storage.root.kind)
        raise errors.NkiValidationError(f"{where}: {count} were never written")
    raise errors.NkiValidationError(f"{s.first_hole} were never written, and with them {count}")


def results(s: Session, returned, package: str | None = None):
    """What a kernel returned, tensors as arrays of numbers (float32 for types that NumPy lacks) or of `package`."""
    if isinstance(returned, Tensor):
        check_result(s, returned)
        numbers = s.read(returned)
        if package is not None:
            return frameworks.as_given(numbers, returned.dtype, package)
        return numbers.astype(np.float16) if returned.dtype is dtypes.float16 else numbers
    if isinstance(returned, (tuple, list)):
        return type(returned)(results(s, part, package) for part in returned)
    return returned
