"""Kernels of the legacy dialect: decorators, launch grids and calls."""

from __future__ import annotations

import functools

import numpy as np
from nki import launch
from nki.tracer import device, session
from nki.tracer.tensor import Tensor
from nki.tracer.trace import Trace

from .results import discard_pending, issue_pending
from .tile import Tile


class Kernel(launch.Kernel):
    """A decorated function. The tracer runs `func`, which takes and returns the tracer's tensors.
    """

    def __init__(self, function, grid: tuple = ()):
        super().__init__(function, grid)
        self.body = function
        self.func = tracer_function(function, grid)

    def __getitem__(self, grid) -> Kernel:
        sizes = grid if isinstance(grid, tuple) else (grid,)
        return Kernel(self.body, tuple(max(int(n), 1) for n in sizes))

    def __call__(self, *args, **kwargs):
        run = session.current
        if run is None:
            return simulate(self, args, kwargs)
        return run_programs(run, self.body, self.grid, _tiles(args), _tiles(kwargs))


def simulate(kernel: Kernel, args: tuple, kwargs: dict):
    """Runs a kernel on NumPy arrays with values on a trn2. Arrays that the kernel stores to change,
    as documented.
    """
    run = session.Session(device.DEVICES["trn2"], Trace(), values=True, grid=kernel.grid)
    arrays = _flat((args, list(kwargs.values())), np.ndarray)
    returned = launch.execute(run, kernel.func, args, kwargs)
    stored = run.state.get("neuronxcc written", {})
    for array, tensor in zip(arrays, run.state["neuronxcc arguments"]):
        if tensor.storage.id in stored:
            array[...] = run.read(tensor)
    return launch.results(run, returned)


def tracer_function(function, grid: tuple = ()):
    """Returns the function that the tracer runs for a kernel."""

    @functools.wraps(function)
    def run_kernel(*args, **kwargs):
        run = session.current
        run.dialect = "neuronxcc"
        run.watch_carried()
        launched, run.grid = grid or run.grid, ()
        arguments = run.state["neuronxcc arguments"] = _flat((args, list(kwargs.values())), Tensor)
        try:
            returned = run_programs(run, function, launched, _tiles(args), _tiles(kwargs))
            issue_pending()
        finally:
            discard_pending()
        if returned is None:  # the kernel has output parameters
            stored = run.state.get("neuronxcc written", {})
            returned = [a for a in arguments if a.storage.id in stored]
            returned = returned[0] if len(returned) == 1 else tuple(returned)
        return _tensors(returned)

    run_kernel.whole_grid = True
    return run_kernel


def function_to_trace(kernel):
    """Returns the function that the tracer runs for a kernel of a file in this dialect, decorated
    or not.
    """
    return kernel.func if isinstance(kernel, launch.Kernel) else tracer_function(kernel)


def run_programs(run, function, grid, args, kwargs):
    """Runs all programs of the grid one after the other."""
    if not grid:
        return function(*args, **kwargs)
    if int(np.prod(grid)) > 1:
        run.note(f"the {int(np.prod(grid))} programs of the grid {list(grid)} run one after the other on one core")
    outer = run.grid, run.program, run.state.get("neuronxcc shared")
    shared = run.state["neuronxcc shared"] = {"created": [], "remaining": []}
    run.grid = tuple(grid)
    result = None
    try:
        for program in np.ndindex(*grid):
            run.program = tuple(int(n) for n in program)
            shared["remaining"] = list(shared["created"])
            returned = function(*args, **kwargs)
            issue_pending()
            result = returned if not any(program) else result
    finally:
        run.grid, run.program, run.state["neuronxcc shared"] = outer
    return result


def _tiles(value):
    """Converts arguments to the tiles that kernels work with."""
    if isinstance(value, Tensor):
        return Tile(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_tiles(v) for v in value)
    if isinstance(value, dict):
        return {k: _tiles(v) for k, v in value.items()}
    return value


def _tensors(value):
    if isinstance(value, Tile):
        return value.tensor
    if isinstance(value, (tuple, list)):
        return type(value)(_tensors(v) for v in value)
    return value


def _flat(value, kind):
    """Returns all objects of a kind in nested tuples and lists, in order."""
    if isinstance(value, kind):
        return [value]
    return [t for v in value for t in _flat(v, kind)] if isinstance(value, (tuple, list)) else []


def jit(function=None, **options):
    """`@nki.jit` and all decorators that run a kernel in another way. The options concern the
    compiler and the device.
    """
    if function is None:
        return functools.partial(jit, **options)
    return function if isinstance(function, Kernel) else Kernel(function)


def simulate_kernel(kernel, *args, **kwargs):
    return jit(kernel)(*args, **kwargs)
