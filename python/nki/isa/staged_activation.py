"""activate2 of trn3: two operators, an activation function and a reduction in one instruction."""

from __future__ import annotations

import numpy as np

from ..tracer import errors, operands, operators
from ..tracer import session as sessions
from .activations import FUNCTIONS
from .elementwise import scalar_operand, with_scalar
from .enums import reduce_cmd
from .instruction import DONE
from .reductions import accumulate, free_axes

# The documentation of nki.isa.activate2 lists these pairs of operators and these reductions.
_STAGES = {("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"), ("subtract", "bypass"),
           ("bypass", "bypass")}  # fmt: skip
_REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")
_CALL = "nki.isa.activate2"


def activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False, reduce_op=None, reduce_res=None,
              reduce_cmd=reduce_cmd.idle, engine=None, name=None):  # fmt: skip
    """dst = op((data <op0> imm0) <op1> imm1). Also reduces dst over the free axes if `reduce_cmd`
    says so.
    """
    s = sessions.active(_CALL)
    function, stages, reduction = _operators(s, op, (op0, op1), reduce_op)
    by = operands.engine(_CALL, engine, ("scalar", "gpsimd"), "scalar")
    if by == "gpsimd" and (reduce_res is not None or reduce_cmd.name != "idle"):
        errors.fail(_CALL, "engine: gpsimd has no registers to reduce into, scalar has")
    for operand, view in (("dst", dst), ("data", data)):
        operands.on_chip(_CALL, operand, view)
        operands.in_partitions(_CALL, operand, view)
    operands.same_elements(_CALL, "dst", dst, "data", data)
    views, names = _views(s, dst, data, reduce_res, {"imm0": imm0, "imm1": imm1, "relu_param": relu_param})
    attributes = (("op", function.name), *((f"op{i}", stage.name) for i, stage in enumerate(stages)))
    if reduce_cmd.name not in ("idle", "reset"):
        attributes += (("reduce_op", reduction.name),)
    s.emit("activate2", by, names, views, attributes)
    if s.values:
        result = _values(s, data, function, zip(stages, (imm0, imm1), (reverse0, reverse1)), relu_param)
        s.write(dst, result)
        if reduce_cmd.name != "idle" or reduce_res is not None:
            part = reduction.reduce(result, free_axes(data)).reshape(-1)
            accumulate(s, _CALL, "scalar", reduction, reduce_cmd, part, result=reduce_res)
    s.note_write(dst)
    if reduce_res is not None:
        s.note_write(reduce_res)
    return DONE


def _operators(s, op, before, reduce_op):
    if s.device.generation < 4:
        errors.fail(_CALL, f"{s.device.name} does not have it, trn3 does")
    function = operators.find(op, _CALL)
    if function.name not in FUNCTIONS:
        errors.fail(_CALL, f"op: {function!r} is no activation function of the scalar engine")
    stages = [operators.find("bypass" if o is None else o, _CALL, f"op{i}") for i, o in enumerate(before)]
    if tuple(stage.name for stage in stages) not in _STAGES:
        errors.fail(_CALL, f"op0, op1: the engine does not compute {stages[0]!r} and then {stages[1]!r}")
    reduction = operators.find("add" if reduce_op is None else reduce_op, _CALL, "reduce_op")
    if reduction.name not in _REDUCTIONS:
        errors.fail(_CALL, f"reduce_op: expected one of {', '.join(_REDUCTIONS)}, found {reduction!r}")
    return function, stages, reduction


def _views(s, dst, data, reduce_res, scalars):
    views, names = [dst, data], ["dst", "src"]
    for operand, value in scalars.items():
        view = operands.per_partition(_CALL, operand, value, data.layout.partitions)
        if view is not None:
            s.note_read(view, _CALL, operand)
            names.append(f"scalar{len(views) - 2}")
            views.append(view)
    if reduce_res is not None:
        operands.per_partition(_CALL, "reduce_res", reduce_res, data.layout.partitions)
        views.insert(1, reduce_res)
        names.insert(1, "dst1")
    s.note_read(data, _CALL, "data")
    return views, tuple(names)


def _values(s, data, function, stages, relu_param):
    x = operators.as_float(s.read(data))
    for i, (stage, value, reverse) in enumerate(stages):
        if stage.name != "bypass":
            x = with_scalar(stage, x, scalar_operand(s, _CALL, f"imm{i}", value, data), reverse)
    if function.name == "prelu":
        return np.where(x < 0, x * scalar_operand(s, _CALL, "relu_param", relu_param, data), x).astype(np.float32)
    return operators.apply(function, x)
