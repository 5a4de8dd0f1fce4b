"""Checks of instructions' operands. Messages name the call and the operand."""

from __future__ import annotations

import enum

import numpy as np

from . import device as devices
from . import errors
from .layout import HBM, PSUM, SBUF
from .tensor import Tensor


def tensor(call: str, operand: str, value) -> Tensor:
    if isinstance(value, Tensor):
        return value
    hint = ""
    if hasattr(value, "get_view"):  # kernel libraries unwrap their wrappers themselves
        hint = "; call get_view() first"
    elif isinstance(getattr(type(value), "data", None), property):  # a grid of tiles
        hint = "; its .data is one"
    errors.fail(call, f"{operand}: expected a tensor, found {describe(value)}{hint}")


def on_chip(call: str, operand: str, value, memories=(SBUF, PSUM)) -> Tensor:
    view = tensor(call, operand, value)
    if view.layout.memory not in memories:
        allowed = " or ".join(memories)
        errors.fail(call, f"{operand}: {view.describe()}, expected a tensor in {allowed} ({errors.MEMORY})")
    return view


def describe(value) -> str:
    return value.describe() if isinstance(value, Tensor) else f"{value!r} ({type(value).__name__})"


def same_elements(call: str, first: str, a: Tensor, second: str, b: Tensor):
    """Equal partitions and equal elements in each: what engines ask of two operands."""
    if a.layout.partitions != b.layout.partitions or a.layout.free != b.layout.free:
        code = f" ({errors.PARTITION_MISMATCH})" if a.layout.partitions != b.layout.partitions else ""
        errors.fail(
            call,
            f"{first} is {a.describe()} and {second} is {b.describe()}: expected equal partitions and equally many "
            f"elements in each{code}",
        )


def per_partition(call: str, operand: str, value, partitions: int):
    """Checks an operand that is a number, or a tensor with one element for each partition. Returns the
    tensor or None.
    """
    if value is None or is_number(value):
        return None
    view = on_chip(call, operand, value)
    if view.layout.free != 1 or view.layout.partitions != partitions:
        errors.fail(call, f"{operand}: {view.describe()}, expected a number or a tensor of shape [{partitions}, 1]")
    return view


def required_per_partition(call: str, operand: str, value, partitions: int):
    """Does the same for an operand that an instruction cannot do without."""
    number(call, operand, 0 if isinstance(value, Tensor) else value, "a number or a tensor")
    return per_partition(call, operand, value, partitions)


def number(call: str, operand: str, value, expected: str = "a number"):
    """Raises an error if an operand is no number."""
    if not is_number(value):
        errors.fail(call, f"{operand}: expected {expected}, found {describe(value)}")


def is_number(value) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_)) or (
        isinstance(value, np.ndarray) and value.size == 1
    )


def scalar_of_float32(call: str, operand: str, view: Tensor | None, dialect: str):
    """Checks the type of an arithmetic operand with one element per partition. The engines take
    float32; the legacy compiler converts.
    """
    if view is not None and dialect == "nki" and view.dtype.float and view.dtype.itemsize < 4:
        errors.fail(call, f"{operand}: {view.describe()}: the engine takes a scalar of each partition in float32; "
                          f"make the tensor float32, or copy it to one")  # fmt: skip


def not_both_in_psum(call: str, first: str, a: Tensor, second: str, b: Tensor):
    if a.layout.memory == PSUM and b.layout.memory == PSUM:
        errors.fail(call, f"{first} and {second} are both in psum; one instruction reads it once")


ENGINES = {"unknown": "any", "tensor": "tensor", "vector": "vector", "scalar": "scalar", "gpsimd": "gpsimd",
           "sync": "sync", "dma": "dma"}  # fmt: skip


def engine(call: str, value, allowed: tuple, default: str = "any") -> str:
    """The trace's name of the engine that the call asks for."""
    if value is None:
        return default
    name = value.name if isinstance(value, enum.Enum) else str(value)
    found = ENGINES.get(name)
    if found is None:
        errors.fail(call, f"engine: expected one of nki.isa.engine, found {value!r}")
    if found == "any":
        return default
    if found not in allowed:
        errors.fail(call, f"engine: {name} does not execute it, only {' and '.join(allowed)} do")
    return found


def in_partitions(call: str, operand: str, view: Tensor):
    """Checks that the view begins at a partition where an engine may start. Documented for every
    engine.
    """
    if view.layout.memory == HBM:
        return
    start = view.offset // view.layout.row + view.storage.root.partition
    count = view.layout.partitions
    aligned = 32 if count <= 32 else 64 if count <= 64 else devices.PARTITIONS
    if start % aligned:
        errors.fail(
            call,
            f"{operand}: {view.describe()} begins at partition {start}; {count} partitions begin at a multiple of {aligned} "
            f"({errors.INVALID_ACCESS})",
        )
