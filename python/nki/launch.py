"""`@nki.jit`: a kernel, its launch grid, and a run of it."""

from __future__ import annotations

import functools
import inspect
import math
import os

import numpy as np

from . import compiler, frameworks, logical_cores
from .tracer import bodies
from .tracer import device as devices
from .tracer import dtypes, errors, releases
from .tracer import session as sessions
from .tracer.cores import Group
from .tracer.layout import HBM
from .tracer.session import Session
from .tracer.tensor import Tensor
from .tracer.trace import Trace


class Kernel:
    """A jitted function. Inside another kernel a call is a plain call. Outside it computes values
    with NumPy.
    """

    def __init__(self, function, grid: tuple = ()):
        functools.update_wrapper(self, function)
        self.func = function
        self.grid = grid

    def __getitem__(self, grid) -> Kernel:
        """`kernel[2]`: returns the kernel for a launch on two cores."""
        sizes = grid if isinstance(grid, tuple) else (grid,)
        return Kernel(self.func, tuple(int(n) for n in sizes))

    def with_schedule(self, edges) -> Kernel:
        """`kernel.with_schedule([("plus1", "recip")])` asks the compiler's scheduler to keep
        instructions in an order.

        Instructions are named by the calls' `name` arguments (guide "How to Use the NKI Scheduling
        APIs"). The trace always has the program's order.
        """

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


def jit(fn=None, *, compile_config=None, specialization_config=None, **kwargs):
    """`@nki.jit` and `@nki.jit(compile_config=..., ...)`: returns a Kernel.

    The options concern the compiler, except `grid=[2]`, which launches all calls on two cores, like
    `kernel[2]`.
    """
    if "platform_target" in kwargs:
        instead = "the variable NEURON_PLATFORM_TARGET_OVERRIDE, or --device of neuronmm"
        releases.removed("nki.jit: platform_target", (0, 4), instead)
    compiler.check("nki.jit", compile_config, specialization_config)
    if fn is None:
        return functools.partial(jit, compile_config=compile_config, specialization_config=specialization_config, **kwargs)
    kernel = fn if isinstance(fn, Kernel) else Kernel(fn)
    if compile_config is not None:
        kernel.func.compile_config = compile_config
    return kernel[tuple(kwargs["grid"])] if kwargs.get("grid") else kernel


def simulate(kernel):
    """Returns a function of arrays that runs the kernel with values and returns arrays of the same
    package (NumPy, torch or jax).

    The environment variable NEURON_PLATFORM_TARGET_OVERRIDE names the device. The default is trn2.
    """
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel)

    def run(*args, **kwargs):
        device = _target()
        grid = logical_cores.grid_of(kernel.__name__, kernel.grid, device, releases.of_device(device.name))
        s = Session(device, Trace(), values=True, grid=grid)
        package = next(filter(None, map(frameworks.package_of, (*args, *kwargs.values()))), None)
        return results(s, execute(s, kernel.func, args, kwargs), package)

    return run


def _target() -> devices.Device:
    name = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    device = devices.find(name)
    if device is None:
        known = ", ".join([*devices.DEVICES, *devices.ALIASES])
        raise errors.NkiValidationError(f"NEURON_PLATFORM_TARGET_OVERRIDE: expected one of {known}, found {name!r}")
    return device


def execute(s: Session, function, args: tuple, kwargs: dict):
    """Runs `function` in the session and returns its result. Arrays among the arguments become
    tensors in HBM.

    With a launch grid the session is that of the first program. If values are computed, the other
    programs run, too.
    """
    before = sessions.current
    # The legacy dialect loops over its grid itself.
    count = 1 if hasattr(function, "whole_grid") else math.prod(s.grid)
    if count > 1:
        s.note(f"the kernel is launched on {list(s.grid)} cores; the trace is that of the first")
    try:
        if count == 1 or not s.values:
            sessions.current = s
            return _call(s, function, args, kwargs)
        s.group = Group(count)
        s.group.sessions[:] = [s, *(s.for_program(i) for i in range(1, count))]
        marks: dict = {}
        for core, each in enumerate(s.group.sessions):
            each.watch_races(core, marks)
        return s.group.run([functools.partial(_call, each, function, args, kwargs) for each in s.group.sessions])
    finally:
        sessions.current = before


def _call(s, function, args, kwargs):
    names = list(inspect.signature(function).parameters)
    source = s.trace.sources.definition(inspect.unwrap(function)) if hasattr(function, "__code__") else None
    args = [_argument(s, names[i] if i < len(names) else f"argument{i}", a, source) for i, a in enumerate(args)]
    # Infinities and NaN are results like others, about which NumPy warns.
    with np.errstate(all="ignore"):
        returned = function(*args, **{name: _argument(s, name, a, source) for name, a in kwargs.items()})
    for view in tensors_of(returned):
        if (body := bodies.ended_body(view)) is not None:
            where = s.trace.source_line(view.storage.root.kind)
            raise errors.NkiValidationError(f"{where}: {body.call}: {view.describe()} {bodies.ENDED}")
    return returned


class ArgumentSpec:
    """An argument without values (a type and a shape), or an array together with its intended type.
    """

    def __init__(self, dtype, shape: tuple, data: np.ndarray | None = None):
        self.dtype = dtype
        self.shape = shape
        self.data = data


def _argument(s, name, value, source):
    if isinstance(value, ArgumentSpec):
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
    """Returns all tensors in the return value of a kernel."""
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, dict):
        returned = list(returned.values())
    if isinstance(returned, (tuple, list)):
        return [t for part in returned for t in tensors_of(part)]
    return []


def check_result(s: Session, view: Tensor, name: str = "the result"):
    """Raises an error if the result is not in HBM, or contains elements that were never written or
    that depend on such elements.
    """
    if view.memory != HBM:
        where = s.trace.source_line(view.storage.root.kind)
        raise errors.NkiValidationError(f"{where}: {name}, {view.describe()}: expected a tensor in shared_hbm, where a "
                                        f"kernel's results have to be; copy it with dma_copy")  # fmt: skip
    if view.dynamic is not None:
        return
    unwritten_mask = view.storage.unwritten(view.layout, view.offset)
    if unwritten_mask is False:
        return
    count = (
        f"{view.size if unwritten_mask is True else int(unwritten_mask.sum())} of the {view.size} elements of {name}, {view.describe()}"
    )
    if s.first_unwritten_read is None:
        where = s.trace.source_line(view.storage.root.kind)
        if unwritten_mask is True:
            count = f"{name}, {view.describe()}, was"
        else:
            count += " were"
        raise errors.NkiValidationError(f"{where}: {count} never written ({errors.UNWRITTEN_OUTPUT})")
    raise errors.NkiValidationError(f"{s.first_unwritten_read} were never written, and with them {count}")


def results(s: Session, returned, package: str | None = None):
    """Returns a kernel's result with arrays (float32 for types that NumPy lacks) or tensors of
    `package` in place of tensors.
    """
    if isinstance(returned, Tensor):
        check_result(s, returned)
        numbers = s.read(returned)
        if package is not None:
            return frameworks.as_framework_tensor(numbers, returned.dtype, package)
        return numbers.astype(np.float16) if returned.dtype is dtypes.float16 else numbers
    if isinstance(returned, (tuple, list)):
        return type(returned)(results(s, part, package) for part in returned)
    return returned
