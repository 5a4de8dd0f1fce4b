"""The functions of the Scalar engine, and the exponential of the Vector engine."""

from __future__ import annotations

import numpy as np

from ..tracer import errors, operands, operators
from ..tracer import session as sessions
from .elementwise import scalar_operand
from .enums import reduce_cmd
from .instruction import DONE
from .reductions import accumulate, check_reduces, free_axes

FUNCTIONS = {"copy", "square", "sigmoid", "relu", "prelu", "gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid",
              "gelu_apprx_sigmoid_dx", "silu", "silu_dx", "tanh", "softplus", "mish", "erf", "erf_dx", "exp", "log",
              "sin", "arctan", "sqrt", "rsqrt", "reciprocal", "sign", "abs"}  # fmt: skip


def activation(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, name=None,
               engine=None):  # fmt: skip
    """dst = op(data * scale + bias). `reduce_cmd` may add a sum over the free axes in the engine's
    registers.
    """
    return _activation("nki.isa.activation", dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd)


def activation_reduce(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None):
    """dst = op(data * scale + bias), and reduce_res = the reduction of dst over the free axes."""
    return _activation(
        "nki.isa.activation_reduce", dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd.reset_reduce
    )


def _activation(call, dst, op, data, bias, scale, reduce_op, reduce_res, command):
    s = sessions.active(call)
    function = operators.find(op, call)
    if function.name not in FUNCTIONS:
        errors.fail(call, f"op: {function!r} is no activation function of the scalar engine")
    reduction = operators.find(reduce_op, call, "reduce_op") if reduce_op is not None else None
    check_reduces(call, "reduce_op", reduction)
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    operands.same_elements(call, "dst", dst, "data", data)
    operands.in_partitions(call, "dst", dst)
    operands.in_partitions(call, "data", data)
    views, names = [dst, data], ["dst", "src"]
    for operand, value in (("bias", bias), ("scale", scale)):
        view = operands.per_partition(call, operand, value, data.layout.partitions)
        _check_scalar_type(call, operand, view)
        if view is not None:
            s.note_read(view, call, operand)
            views.append(view)
            names.append(operand)
    if bias is not None and operands.is_number(bias) and bias != 0 and s.device.generation < 3:
        errors.fail(call, f"bias: {s.device.name} takes a tensor of one element per partition, found {bias!r}")
    if reduce_res is not None:
        operands.per_partition(call, "reduce_res", reduce_res, data.layout.partitions)
        views.insert(1, reduce_res)
        names.insert(1, "dst1")
    s.note_read(data, call, "data")
    reduces = reduction is not None and command.name not in ("idle", "reset")
    attributes = (("op", function.name), *((("reduce_op", reduction.name),) if reduces else ()))
    s.emit(call.rpartition(".")[2], "scalar", tuple(names), views, attributes)
    if s.values:
        result = _values(s, call, function, data, bias, scale)
        s.write(dst, result)
        if reduction is not None or reduce_res is not None:
            reduction = reduction or operators.ALL["add"]
            part = reduction.reduce(result, free_axes(data)).reshape(-1)
            accumulate(s, call, "scalar", reduction, command, part, result=reduce_res)
    s.note_write(dst)
    if reduce_res is not None:
        s.note_write(reduce_res)
    return DONE


def _check_scalar_type(call, operand, view):
    allowed = ("float32",) if operand == "scale" else ("float32", "float16", "bfloat16")
    if view is not None and view.dtype not in allowed:
        code = errors.SCALE_TYPE if operand == "scale" else errors.BIAS_TYPE
        errors.fail(call, f"{operand}: {view.describe()}: expected {' or '.join(allowed)} ({code})")


def _values(s, call, function, data, bias, scale):
    x = operators.as_float(s.read(data))
    if scale is not None and not (operands.is_number(scale) and scale == 1):
        x = x * scalar_operand(s, call, "scale", scale, data)
    if bias is not None and not (operands.is_number(bias) and bias == 0):
        x = x + scalar_operand(s, call, "bias", bias, data)
    return operators.apply(function, x)


def exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_init=0.0, name=None):
    """dst = exp(src - max_value) on the Vector engine of trn3. `reduce_cmd` may add a sum in its
    registers.
    """
    call = "nki.isa.exponential"
    s = sessions.active(call)
    if s.device.generation < 4:
        errors.fail(call, f"{s.device.name} does not have it, trn3 does")
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "src", src)
    operands.same_elements(call, "dst", dst, "src", src)
    views, names = [dst, src], ["dst", "src"]
    if operands.per_partition(call, "max_value", max_value, src.layout.partitions) is not None:
        s.note_read(max_value, call, "max_value")
        views.append(max_value)
        names.append("scalar0")
    if reduce_res is not None:
        views.insert(1, reduce_res)
        names.insert(1, "dst1")
    s.note_read(src, call, "src")
    s.emit("exponential", "vector", tuple(names), views, (("op", "exp"),))
    if s.values:
        x = operators.as_float(s.read(src)) - scalar_operand(s, call, "max_value", max_value, src)
        result = operators.apply(operators.ALL["exp"], x)
        s.write(dst, result)
        if reduce_cmd.name != "idle" or reduce_res is not None:
            initial = np.reshape(scalar_operand(s, call, "reduce_init", reduce_init, src), -1)
            part = result.reshape(len(result), -1).sum(axis=1)
            accumulate(s, call, "vector", operators.ALL["add"], reduce_cmd, part, initial, reduce_res)
    s.note_write(dst)
    if reduce_res is not None:
        s.note_write(reduce_res)
    return DONE
