"""Elementwise instructions of the Vector, Scalar and GpSimd engines."""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, operators, values
from ..tracer import session as sessions
from ..tracer.layout import PSUM
from ..tracer.tensor import Columns
from .enums import engine
from .instruction import DONE

_INT32 = (dtypes.int32, dtypes.uint32)


def check_gpsimd(call, by, *views):
    if by == "gpsimd":
        for view in views:
            if view is not None and view.layout.memory == PSUM:
                errors.fail(call, f"{view.describe()}: the gpsimd engine does not reach psum")


_DYNAMIC = (("dynamic", True),)


def _has_dynamic_offset(view) -> bool:
    """Returns whether a run-time index moves the view as a whole. Such a copy takes a minimum time.
    """
    return view.dynamic is not None and not isinstance(view.dynamic, Columns)


def tensor_copy(dst, src, engine=engine.unknown, name=None, dtype=None, predicate=None):
    """dst = src. Published kernels pass `dtype`, which is the type of dst."""
    call = "nki.isa.tensor_copy"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("vector", "scalar", "gpsimd"))
    try:
        key = ("tensor_copy", dst.layout, src.layout, by)
        checked = key in s.state
    except AttributeError:
        checked = False
    if not checked:
        operands.on_chip(call, "dst", dst)
        operands.on_chip(call, "src", src)
        operands.same_elements(call, "dst", dst, "src", src)
        check_gpsimd(call, by, dst, src)
        if by == "scalar" and s.device.generation < 3:
            errors.fail(call, f"engine: {s.device.name} copies on the scalar engine by activation(op=nl.copy) only")
        s.state[("tensor_copy", dst.layout, src.layout, by)] = True
    operands.in_partitions(call, "dst", dst)
    operands.in_partitions(call, "src", src)
    s.note_read(src, call, "src")
    s.emit("tensor_copy", by, ("dst", "src"), [dst, src], _DYNAMIC if _has_dynamic_offset(dst) or _has_dynamic_offset(src) else ())
    if s.values:
        copy_values(s, dst, src)
    s.note_write(dst)
    return DONE


def copy_values(s, dst, src):
    """Copies the bits between equal types, and converts through float32 otherwise."""
    bits = src.bits()
    if src.dtype is not dst.dtype:
        numbers = values.decode(bits, src.dtype)
        bits = values.encode(operators.as_float(numbers) if dst.dtype.float else numbers, dst.dtype)
    dst.put(bits.reshape(dst.shape))


def memset(dst, value, engine=engine.unknown, name=None):
    """Sets every element of dst to `value`."""
    call = "nki.isa.memset"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("vector", "gpsimd", "scalar"))
    operands.on_chip(call, "dst", dst)
    operands.number(call, "value", value)
    if isinstance(value, int) and abs(value) > np.finfo(np.float64).max:
        errors.fail(call, f"value: expected a number that float64 can hold, found one of {value.bit_length()} bits")
    check_gpsimd(call, by, dst)
    operands.in_partitions(call, "dst", dst)
    s.emit("memset", by, ("dst",), [dst], (("zero", bool(value == 0)),))
    if s.values:
        s.write(dst, np.full(dst.shape, value, np.float64 if dst.dtype.float else None))
    s.note_write(dst)
    return DONE


def tensor_tensor(dst, data1, data2, op, engine=engine.unknown, name=None):
    """dst = data1 <op> data2."""
    call = "nki.isa.tensor_tensor"
    s = sessions.active(call)
    found = operators.find(op, call)
    by = operands.engine(call, engine, ("vector", "gpsimd"))
    for operand, view in (("dst", dst), ("data1", data1), ("data2", data2)):
        operands.on_chip(call, operand, view)
        operands.in_partitions(call, operand, view)
    operands.same_elements(call, "dst", dst, "data1", data1)
    operands.same_elements(call, "data1", data1, "data2", data2)
    operands.not_both_in_psum(call, "data1", data1, "data2", data2)
    exact = all(v.dtype in _INT32 for v in (dst, data1, data2))
    if by == "any" and (found.name == "power" or exact) and not any(v.memory == PSUM for v in (dst, data1, data2)):
        by = "gpsimd"
    check_gpsimd(call, by, dst, data1, data2)
    check_bitwise(call, found, dst, data1, data2)
    s.note_read(data1, call, "data1")
    s.note_read(data2, call, "data2")
    s.emit("tensor_tensor", by, ("dst", "src", "src1"), [dst, data1, data2], (("op", found.name),))
    if s.values:
        a, b = s.read(data1), s.read(data2).reshape(data1.shape)
        s.write(dst, compute(found, a, b, exact=exact and by != "vector"))
    s.note_write(dst)
    return DONE


def check_bitwise(call, op, *views):
    if op.bitwise:
        for view in views:
            if not view.dtype.integer:
                errors.fail(call, f"{view.describe()}: {op!r} works on the bits of integers")


def compute(op, a, b, exact=False):
    """Computes like the engine: in float32, or with whole 32-bit numbers if `exact`."""
    if exact and not op.bitwise and op.name in ("add", "subtract", "multiply", "maximum", "minimum"):
        return op.evaluate(a.astype(np.int64), b.astype(np.int64))
    if op.bitwise and b is not None and isinstance(b, np.ndarray):
        b = b.astype(a.dtype)
    return operators.apply(op, a) if op.inputs == 1 else operators.apply(op, a, b)


def scalar_operand(s, call, operand, value, data, bitwise=False):
    """Returns a number, or a tensor of one element per partition, as an array that broadcasts over
    `data`.
    """
    if operands.is_number(value) or value is None:
        number = 0 if value is None else value
        return np.asarray(number).astype(data.dtype.raw) if bitwise else np.float32(number)
    numbers = s.read(value)
    return numbers.reshape([-1] + [1] * (data.ndim - 1))


def check_operand(call: str, operand: str, op, value):
    """Raises an error if an operator of two inputs has no second one."""
    if value is None and op is not None and op.inputs == 2 and op.name != "bypass":
        errors.fail(call, f"{operand}: {op!r} takes a number or a tensor, found None")


def with_scalar(op, a, scalar, reverse):
    if op.inputs == 1:
        return operators.apply(op, a)
    if op.bitwise:
        scalar = np.asarray(scalar).astype(a.dtype)
    return operators.apply(op, scalar, a) if reverse else operators.apply(op, a, scalar)


def tensor_scalar(dst, data, op0, operand0=None, reverse0=False, op1=None, operand1=None, reverse1=False, engine=engine.unknown,
                  name=None):  # fmt: skip
    """dst = (data <op0> operand0) <op1> operand1. The operands are numbers or have one element per
    partition.
    """
    call = "nki.isa.tensor_scalar"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("vector", "scalar", "gpsimd"))
    # Published kernels pass None for op0.
    first = operators.ALL["bypass"] if op0 is None else operators.find(op0, call, "op0")
    second = None if op1 is None else operators.find(op1, call, "op1")
    check_operand(call, "operand0", first, operand0)
    check_operand(call, "operand1", second, operand1)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    operands.same_elements(call, "dst", dst, "data", data)
    operands.in_partitions(call, "dst", dst)
    operands.in_partitions(call, "data", data)
    check_gpsimd(call, by, dst, data)
    check_bitwise(call, first, dst, data)
    if second is not None and second.bitwise != first.bitwise and "bypass" not in (first.name, second.name):
        errors.fail(call, f"op0 is {first!r} and op1 is {second!r}: expected both of bits or both of numbers")
    views, names = [dst, data], ["dst", "src"]
    for i, value in enumerate((operand0, operand1)):
        view = operands.per_partition(call, f"operand{i}", value, data.layout.partitions)
        operands.scalar_of_float32(call, f"operand{i}", view, s.dialect)
        if view is not None:
            s.note_read(view, call, f"operand{i}")
            views.append(view)
            names.append(f"scalar{i}")
    s.note_read(data, call, "data")
    attributes = (("op0", first.name), ("op1", second.name if second else None), ("reverse0", bool(reverse0)),
                  ("reverse1", bool(reverse1)))  # fmt: skip
    s.emit("tensor_scalar", by, tuple(names), views, attributes)
    if s.values:
        numbers = s.read(data)
        numbers = _apply_operator(s, call, "operand0", first, numbers, operand0, data, reverse0)
        if second is not None:
            numbers = _apply_operator(s, call, "operand1", second, numbers, operand1, data, reverse1)
        s.write(dst, numbers)
    s.note_write(dst)
    return DONE


def _apply_operator(s, call, operand, op, numbers, value, data, reverse):
    scalar = scalar_operand(s, call, operand, value, data, op.bitwise)
    exact = data.dtype in _INT32 and np.asarray(scalar).dtype.kind in "iu" and numbers.dtype.kind in "iu"
    if exact and op.inputs == 2:
        return compute(
            op, *((scalar + 0 * numbers, numbers) if reverse else (numbers, scalar + 0 * numbers)), exact=True
        )
    if op.inputs == 1 and op.name == "rsqrt" and operands.is_number(value) and value:
        numbers = operators.as_float(numbers) + np.float32(value)
    return with_scalar(op, numbers, scalar, reverse)


def scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, name=None, dtype=None,
                         engine=engine.unknown):  # fmt: skip
    """dst = (data <op0> operand0) <op1> operand1, where operand1 is a tensor of data's shape."""
    call = "nki.isa.scalar_tensor_tensor"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("vector", "gpsimd"), "vector")
    first, second = operators.find(op0, call, "op0"), operators.find(op1, call, "op1")
    check_operand(call, "operand0", first, operand0)
    for operand, view in (("dst", dst), ("data", data), ("operand1", operand1)):
        operands.on_chip(call, operand, view)
        operands.in_partitions(call, operand, view)
    check_bitwise(call, first, dst, data)
    check_bitwise(call, second, dst, data, operand1)
    operands.same_elements(call, "dst", dst, "data", data)
    operands.same_elements(call, "data", data, "operand1", operand1)
    operands.not_both_in_psum(call, "data", data, "operand1", operand1)
    views, names = [dst, data, operand1], ["dst", "src", "src1"]
    scalar = operands.per_partition(call, "operand0", operand0, data.layout.partitions)
    operands.scalar_of_float32(call, "operand0", scalar, s.dialect)
    if scalar is not None:
        views.append(scalar)
        names.append("scalar0")
        s.note_read(scalar, call, "operand0")
    s.note_read(data, call, "data")
    s.note_read(operand1, call, "operand1")
    s.emit("scalar_tensor_tensor", by, tuple(names), views, (("op0", first.name), ("op1", second.name)))
    if s.values:
        numbers = with_scalar(first, s.read(data), scalar_operand(s, call, "operand0", operand0, data, first.bitwise), reverse0)
        other = s.read(operand1).reshape(data.shape)
        other = other if second.bitwise else operators.as_float(other)
        s.write(dst, compute(second, *((other, numbers) if reverse1 else (numbers, other))))
    s.note_write(dst)
    return DONE


def reciprocal(dst, data, name=None, engine=engine.unknown):
    """dst = 1 / data on the Vector engine."""
    call = "nki.isa.reciprocal"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("vector",), "vector")
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    operands.same_elements(call, "dst", dst, "data", data)
    s.note_read(data, call, "data")
    s.emit("reciprocal", by, ("dst", "src"), [dst, data])
    if s.values:
        s.write(dst, operators.apply(operators.ALL["reciprocal"], s.read(data)))
    s.note_write(dst)
    return DONE


def tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None):
    """dst = src where the predicate is not zero. Other elements of dst keep their values."""
    call = "nki.isa.tensor_copy_predicated"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "predicate", predicate)
    operands.same_elements(call, "dst", dst, "predicate", predicate)
    views, names = [dst, predicate], ["dst", "mask"]
    if not operands.is_number(src):
        operands.on_chip(call, "src", src)
        operands.same_elements(call, "dst", dst, "src", src)
        operands.not_both_in_psum(call, "src", src, "predicate", predicate)
        s.note_read(src, call, "src")
        views, names = [dst, src, predicate], ["dst", "src", "mask"]
    s.note_read(predicate, call, "predicate")
    s.emit("tensor_copy_predicated", "vector", tuple(names), views)
    chosen = ...
    if s.values:
        chosen = (s.read(predicate).reshape(dst.shape) != 0) != bool(reverse_pred)
        new = np.full(dst.shape, src, np.float32) if operands.is_number(src) else s.read(src).reshape(dst.shape)
        dst.put(np.where(chosen, values.encode(new, dst.dtype), dst.bits()))
    s.note_write(dst, chosen)
    return DONE
