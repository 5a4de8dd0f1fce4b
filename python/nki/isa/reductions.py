"""Reductions and scans over the free axes on the Vector engine, and over partitions on GpSimd."""

from __future__ import annotations

import numpy as np

from ..tracer import errors, operands, operators, whole
from ..tracer import session as sessions
from .elementwise import check_bitwise, check_operand, compute, scalar_operand, with_scalar
from .enums import reduce_cmd
from .instruction import DONE

_BN_STATS_MAX = 512


def tensor_reduce(dst, op, data, axis, negate=False, keepdims=False, name=None):
    """dst = data reduced over its last free axes."""
    call = "nki.isa.tensor_reduce"
    s = sessions.active(call)
    found = operators.find(op, call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    axes = reduced_axes(call, axis, data)
    check_reduces(call, "op", found)
    check_bitwise(call, found, data)
    left = [n for a, n in enumerate(data.shape) if a not in axes]
    if dst.layout.partitions != data.layout.partitions or dst.layout.size != int(np.prod(left)):
        errors.fail(call, f"dst: {dst.describe()}, {list(data.shape)} reduced over {list(axes)} is {left}")
    operands.in_partitions(call, "dst", dst)
    operands.in_partitions(call, "data", data)
    s.note_read(data, call, "data")
    s.emit("tensor_reduce", "vector", ("dst", "src"), [dst, data],
           (("op", found.name), ("axes", data.layout.size // dst.layout.size)))  # fmt: skip
    if s.values:
        numbers = s.read(data)
        total = found.reduce(numbers if found.bitwise else operators.as_float(numbers), axes)
        s.write(dst, (-total if negate else total).reshape(dst.shape))
    s.note_write(dst)
    return DONE


def reduced_axes(call: str, axis, data) -> tuple:
    """Returns the free axes that an instruction reduces, each once and in order. Negative ones count from
    the end.
    """
    given = whole.numbers(call, "axis", axis if isinstance(axis, (tuple, list)) else (axis,))
    for a in given:
        if not 0 < (a + data.ndim if a < 0 else a) < data.ndim:
            errors.fail(call, f"axis: {a} is no free axis of {data.describe()}")
    axes = tuple(sorted(a % data.ndim for a in given))
    if not axes or len(set(axes)) < len(axes):
        errors.fail(call, f"axis: expected different free axes of {data.describe()}, found {axis!r}")
    return axes


def check_reduces(call: str, operand: str, op):
    if op is not None and op.identity is None:
        errors.fail(call, f"{operand}: {op!r} does not reduce")


def tensor_partition_reduce(dst, op, data, name=None):
    """dst[0] = data reduced over its partitions."""
    call = "nki.isa.tensor_partition_reduce"
    s = sessions.active(call)
    found = operators.find(op, call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    check_reduces(call, "op", found)
    check_bitwise(call, found, data)
    if dst.layout.partitions != 1 or dst.layout.free != data.layout.free:
        errors.fail(call, f"dst is {dst.describe()} and data is {data.describe()}: expected one partition in dst with as many "
                          f"elements as a partition of data")  # fmt: skip
    s.note_read(data, call, "data")
    s.emit("tensor_partition_reduce", "gpsimd", ("dst", "src"), [dst, data], (("op", found.name),))
    if s.values:
        numbers = s.read(data)
        s.write(dst, found.reduce(numbers if found.bitwise else operators.as_float(numbers), (0,)).reshape(dst.shape))
    s.note_write(dst)
    return DONE


# The instructions of an engine share accumulator registers, one per partition.


def accumulate(s, call, engine_name, op, command, part, initial=None, result=None, negate=False):
    """Updates the registers with `part`, one number per partition, as `command` says. `result`
    receives the registers.
    """
    registers = s.state.get(("registers", engine_name))
    name = command.name
    if name in ("reset", "reset_reduce"):
        registers = np.full(part.shape, op.identity, np.float32)
    elif name == "load_reduce":
        registers = np.broadcast_to(np.asarray(initial, np.float32), part.shape)
    elif registers is None or registers.shape != part.shape:
        if name == "reduce":
            errors.fail(call, "reduce_cmd.reduce goes on with registers that nothing has reset")
        registers = np.full(part.shape, op.identity, np.float32)
    if name in ("reduce", "reset_reduce", "load_reduce"):
        registers = operators.apply(op, registers, part)
    s.state[("registers", engine_name)] = registers
    if result is not None:
        s.write(result, (-registers if negate else registers).reshape(result.shape))


def free_axes(data):
    return tuple(range(1, data.ndim))


def tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False,
                         reduce_cmd=reduce_cmd.reset_reduce, reduce_init=None, reduce_res_negate=False, name=None):  # fmt: skip
    """dst = data <op0> operand0 and reduce_res = its reduction over all free axes."""
    call = "nki.isa.tensor_scalar_reduce"
    s = sessions.active(call)
    first, reduction = operators.find(op0, call, "op0"), operators.find(reduce_op, call, "reduce_op")
    check_reduces(call, "reduce_op", reduction)
    check_operand(call, "operand0", first, operand0)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    operands.same_elements(call, "dst", dst, "data", data)
    views, names = [dst, data], ["dst", "src"]
    scalar = operands.per_partition(call, "operand0", operand0, data.layout.partitions)
    operands.scalar_of_float32(call, "operand0", scalar, s.dialect)
    if scalar is not None:
        s.note_read(scalar, call, "operand0")
        views.append(scalar)
        names.append("scalar0")
    if reduce_res is not None:
        operands.per_partition(call, "reduce_res", reduce_res, data.layout.partitions)
        views.insert(1, reduce_res)
        names.insert(1, "dst1")
    s.note_read(data, call, "data")
    s.emit("tensor_scalar", "vector", tuple(names), views,
           (("op0", first.name), ("op1", None), ("reverse0", bool(reverse0)), ("reverse1", False),
            ("reduce_op", reduction.name)))  # fmt: skip
    if s.values:
        numbers = with_scalar(first, s.read(data), scalar_operand(s, call, "operand0", operand0, data, first.bitwise), reverse0)
        s.write(dst, numbers)
        initial = 0.0 if reduce_init is None else scalar_operand(s, call, "reduce_init", reduce_init, data)
        part = reduction.reduce(numbers, free_axes(data)).reshape(-1)
        accumulate(
            s, call, "vector", reduction, reduce_cmd, part, np.reshape(initial, -1), reduce_res, reduce_res_negate
        )
    s.note_write(dst)
    if reduce_res is not None:
        s.note_write(reduce_res)
    return DONE


def tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, name=None):
    """dst[i] = op1(op0(src[i], imm0), dst[i - 1]) in each partition."""
    call = "nki.isa.tensor_scalar_cumulative"
    s = sessions.active(call)
    first, second = operators.find(op0, call, "op0"), operators.find(op1, call, "op1")
    check_operand(call, "imm0", first, imm0)
    if reduce_cmd.name in ("reset", "reset_reduce"):
        check_reduces(call, "op1", second)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "src", src)
    operands.same_elements(call, "dst", dst, "src", src)
    views, names = [dst, src], ["dst", "src"]
    for i, value in enumerate((imm0, imm1)):
        view = operands.per_partition(call, f"imm{i}", value, src.layout.partitions)
        operands.scalar_of_float32(call, f"imm{i}", view, s.dialect)
        if view is not None:
            s.note_read(view, call, f"imm{i}")
            views.append(view)
            names.append(f"scalar{i}")
    s.note_read(src, call, "src")
    s.emit("tensor_tensor_scan", "vector", tuple(names), views, (("op0", first.name), ("op1", second.name)))
    if s.values:
        numbers = with_scalar(first, s.read(src), scalar_operand(s, call, "imm0", imm0, src, first.bitwise), False)
        flat = operators.as_float(numbers).reshape(src.shape[0], -1)
        start = 0.0 if imm1 is None else scalar_operand(s, call, "imm1", imm1, src)
        accumulate(s, call, "vector", second, _start_command(reduce_cmd), np.full(len(flat), second.identity, np.float32),
                   np.reshape(start, -1))  # fmt: skip
        total, out = s.state[("registers", "vector")], np.empty_like(flat)
        for i in range(flat.shape[1]):
            total = out[:, i] = operators.apply(second, flat[:, i], total)
        s.state[("registers", "vector")] = total
        s.write(dst, out.reshape(dst.shape))
    s.note_write(dst)
    return DONE


def _start_command(command):
    """Returns the command that starts the registers in the same way but adds nothing yet."""
    return reduce_cmd.reset if command.name == "reset_reduce" else command


def tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False, name=None):
    """dst[i] = op1(op0(data0[i], dst[i - 1]), data1[i]) in each partition, beginning with
    `initial`.
    """
    call = "nki.isa.tensor_tensor_scan"
    s = sessions.active(call)
    first, second = operators.find(op0, call, "op0"), operators.find(op1, call, "op1")
    for operand, view in (("dst", dst), ("data0", data0), ("data1", data1)):
        operands.on_chip(call, operand, view)
    operands.same_elements(call, "dst", dst, "data0", data0)
    operands.same_elements(call, "data0", data0, "data1", data1)
    operands.not_both_in_psum(call, "data0", data0, "data1", data1)
    views, names = [dst, data0, data1], ["dst", "src", "src1"]
    scalar = operands.required_per_partition(call, "initial", initial, data0.layout.partitions)
    if scalar is not None:
        s.note_read(scalar, call, "initial")
        views.append(scalar)
        names.append("scalar0")
    s.note_read(data0, call, "data0")
    s.note_read(data1, call, "data1")
    s.emit("tensor_tensor_scan", "vector", tuple(names), views, (("op0", first.name), ("op1", second.name)))
    if s.values:
        a, b = (operators.as_float(s.read(v)).reshape(v.shape[0], -1) for v in (data0, data1))
        state = np.broadcast_to(np.reshape(scalar_operand(s, call, "initial", initial, data0), -1), (len(a),))
        out = np.empty_like(a)
        for i in range(a.shape[1]):
            inner = compute(first, *((state, a[:, i]) if reverse0 else (a[:, i], state)))
            state = out[:, i] = compute(second, *((b[:, i], inner) if reverse1 else (inner, b[:, i])))
        s.write(dst, out.reshape(dst.shape))
    s.note_write(dst)
    return DONE


def bn_stats(dst, data, name=None):
    """dst = (count, mean, variance x count) of the even elements of each partition, followed by
    those of the odd elements.
    """
    call = "nki.isa.bn_stats"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    if data.layout.free > _BN_STATS_MAX:
        errors.fail(
            call, f"data: {data.describe()} has {data.layout.free} elements in a partition, more than {_BN_STATS_MAX}"
        )
    if dst.layout.free != 6 or dst.layout.partitions != data.layout.partitions:
        errors.fail(call, f"dst: {dst.describe()}, expected [{data.layout.partitions}, 6]")
    s.note_read(data, call, "data")
    s.emit("bn_stats", "vector", ("dst", "src"), [dst, data])
    if s.values:
        x = operators.as_float(s.read(data)).reshape(data.shape[0], -1)
        columns = []
        for half in (x[:, 0::2], x[:, 1::2]):
            n = half.shape[1]
            mean = half.mean(axis=1) if n else np.zeros(len(x), np.float32)
            columns += [np.full(len(x), n), mean, ((half - mean[:, None]) ** 2).sum(axis=1)]
        s.write(dst, np.stack(columns, axis=1).astype(np.float32).reshape(dst.shape))
    s.note_write(dst)
    return DONE


def bn_aggr(dst, data, name=None):
    """dst = (mean, variance) of all elements that the triples in `data` describe."""
    call = "nki.isa.bn_aggr"
    s = sessions.active(call)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    if data.layout.free % 3 or dst.layout.free != 2 or dst.layout.partitions != data.layout.partitions:
        errors.fail(call, f"dst is {dst.describe()} and data is {data.describe()}: expected triples in data, 2 in dst")
    s.note_read(data, call, "data")
    s.emit("bn_aggr", "vector", ("dst", "src"), [dst, data])
    if s.values:
        x = s.read(data).astype(np.float64).reshape(data.shape[0], -1, 3)
        count, mean, squares = x[..., 0], x[..., 1], x[..., 2]
        total = count.sum(axis=1)
        center = (count * mean).sum(axis=1) / total
        spread = (squares + count * (mean - center[:, None]) ** 2).sum(axis=1) / total
        s.write(dst, np.stack([center, spread], axis=1).astype(np.float32).reshape(dst.shape))
    s.note_write(dst)
    return DONE
