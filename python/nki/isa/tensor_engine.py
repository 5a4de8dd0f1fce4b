"""The Tensor engine: matrix products and transposes."""

from __future__ import annotations

import numpy as np

from ..tracer import device as devices
from ..tracer import dtypes, errors, operands, values, whole
from ..tracer import session as sessions
from ..tracer.layout import PSUM, SBUF
from .enums import engine, matmul_perf_mode
from .instruction import DONE

_CALL = "nki.isa.nc_matmul"
_INPUTS = {dtypes.float8_e4m3, dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.bfloat16, dtypes.float16,
           dtypes.tfloat32, dtypes.float32}  # fmt: skip
_WIDE = {dtypes.tfloat32, dtypes.float32}
_FP8 = {dtypes.float8_e4m3, dtypes.float8_e4m3fn, dtypes.float8_e5m2}
_NAMES = ("dst", "stationary", "moving")


def nc_matmul(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False,
              accumulate=None, tile_position=(), tile_size=(), perf_mode=matmul_perf_mode.none, name=None):  # fmt: skip
    """dst = stationary.T @ moving, or dst += ... if `accumulate` is true. None adds if a product
    has written dst before.
    """
    s = sessions.active(_CALL)
    position = whole.numbers(_CALL, "tile_position", tile_position) if tile_position else ()
    tile = whole.numbers(_CALL, "tile_size", tile_size) if tile_size else ()
    double = perf_mode is not None and getattr(perf_mode, "name", perf_mode) != "none"
    try:
        key = ("nc_matmul", dst.layout, stationary.layout, moving.layout, is_transpose, double, tile)
        checked = s.state.get(key)
    except (AttributeError, TypeError):
        key = checked = None
    if checked is None:
        _check(s, dst, stationary, moving, is_transpose, double, tile)
        onezero = (
            (("onezero", "stationary"),)
            if is_stationary_onezero
            else (("onezero", "moving"),)
            if is_moving_onezero
            else ()
        )
        checked = (("transpose", bool(is_transpose)), *((("perf_mode", "double_row"),) if double else ()), *onezero)
        s.state[key] = checked
    _check_placement(s, dst, stationary, moving)
    unwritten_mask = s.note_read(stationary, _CALL, "stationary"), s.note_read(moving, _CALL, "moving")
    before = dst.storage.begin_sum(dst.layout, dst.offset)
    add = _accumulation(accumulate, before, dst)
    if dst.storage.take_filled(dst.layout, dst.offset) and add is True and s.dialect == "nki" and s.device.generation < 4:
        errors.fail(_CALL, f"dst: {dst.describe()}: accumulate=True adds to what memset or a copy has written, which {s.device.name} "
                           f"does not define; let the first product overwrite, with accumulate=None or False")  # fmt: skip
    attributes = (("accumulate", add is not False), *checked)
    if position or tile:
        attributes += (("tile_position", position), ("tile_size", tile))
    s.emit("nc_matmul", "tensor", _NAMES, [dst, stationary, moving], attributes)
    if s.values:
        _multiply(s, dst, stationary, moving, is_transpose, double, add)
    s.note_product(dst, unwritten_mask=unwritten_in_product(dst, *unwritten_mask, is_transpose))
    return DONE


def unwritten_in_product(dst, stationary, moving, transposes=False):
    """Returns which elements of a product depend on unwritten elements.

    These are whole rows and columns of a product, and single elements of a transpose.
    """
    if stationary is None and moving is None:
        return None
    found = np.zeros((dst.layout.partitions, dst.layout.free), bool)
    for unwritten_mask, axis in ((stationary, 1), (moving, 0)):
        if unwritten_mask is None:
            continue
        flat = unwritten_mask.reshape(unwritten_mask.shape[0], -1)
        moved = flat.T if axis else flat
        if transposes and moved.shape == found.shape:
            found |= moved
        elif flat.shape[1] == found.shape[1 - axis]:
            found |= np.expand_dims(flat.any(axis=0), axis)
        else:
            found[:] = True
    return found.reshape(dst.shape)


def _accumulation(accumulate, before, dst):
    """Returns whether the product is added to dst: True, False, or an array of bool per element."""
    if accumulate is None:
        return before
    if not accumulate:
        return False
    if before is not True and dst.storage.unwritten(dst.layout, dst.offset) is not False:
        errors.fail(_CALL, f"dst: {dst.describe()}: accumulate=True adds to what was never written")
    return True


def _check(s, dst, stationary, moving, is_transpose, double, tile_size):
    for operand, view, memory in (("dst", dst, PSUM), ("stationary", stationary, SBUF), ("moving", moving, SBUF)):
        operands.on_chip(_CALL, operand, view, (memory,))
    _check_types(s, dst, stationary, moving, is_transpose, double)
    rows, columns = (*tile_size, devices.PARTITIONS, devices.STATIONARY_COLUMNS)[:2] if tile_size else (128, 128)
    depth, other = stationary.layout.partitions, moving.layout.partitions
    if depth != other:
        errors.fail(_CALL, f"stationary is {stationary.describe()} and moving is {moving.describe()}: "
                           f"the contraction is {depth} in one and {other} in the other")  # fmt: skip
    if depth > rows:
        errors.fail(_CALL, f"the contraction of {depth} is larger than the {rows} rows of the array")
    halves = 2 if double else 1
    if double and (stationary.shape[1] != 2 or moving.shape[1] != 2):
        errors.fail(_CALL, f"perf_mode double_row: expected a second dimension of 2, found stationary "
                           f"{list(stationary.shape)} and moving {list(moving.shape)}")  # fmt: skip
    m, n = stationary.layout.free // halves, moving.layout.free // halves
    if m > columns:
        errors.fail(_CALL, f"stationary: {stationary.describe()} has {m} columns, the array {columns} ({errors.DIMENSION_SIZE})")
    limit = s.device.moving_columns.get(dst.dtype.name, 512)
    if n > limit:
        errors.fail(_CALL, f"moving: {moving.describe()} has {n} columns, more than {limit} ({errors.DIMENSION_SIZE})")
    if dst.layout.partitions != m or dst.layout.free != n:
        errors.fail(_CALL, f"dst: {dst.describe()}, the product is [{m}, {n}]")


def _check_types(s, dst, stationary, moving, is_transpose, double):
    for operand, view in (("stationary", stationary), ("moving", moving)):
        if view.dtype not in _INPUTS:
            errors.fail(_CALL, f"{operand}: {view.describe()}: the Tensor engine does not multiply {view.dtype}")
        if double and view.dtype not in _FP8:
            errors.fail(_CALL, f"{operand}: {view.describe()}: perf_mode double_row takes fp8")
    if (stationary.dtype in _WIDE) != (moving.dtype in _WIDE):
        errors.fail(_CALL, f"stationary is {stationary.dtype} and moving is {moving.dtype}: "
                           f"float32 multiplies float32 only")  # fmt: skip
    if double and s.device.generation < 3:
        errors.fail(_CALL, f"perf_mode double_row: {s.device.name} does not have it")
    allowed = {dtypes.float32, dtypes.bfloat16} if s.device.generation >= 4 else {dtypes.float32}
    if is_transpose:  # a transpose keeps its operand's type
        allowed = allowed | {moving.dtype, stationary.dtype}
    if dst.dtype not in allowed:
        errors.fail(_CALL, f"dst: {dst.describe()}: {s.device.name} writes {' or '.join(sorted(allowed))}")


def _check_placement(s, dst, stationary, moving):
    layout = dst.layout
    if s.device.generation < 4:
        begin = dst.offset % layout.row * layout.dtype.itemsize
        last = begin + layout.span * layout.dtype.itemsize - 1
        if begin // devices.BANK_BYTES != last // devices.BANK_BYTES:
            errors.fail(_CALL, f"dst: {dst.describe()} crosses a PSUM bank: bytes {begin} to {last} of a partition")
    operands.in_partitions(_CALL, "stationary", stationary)
    operands.in_partitions(_CALL, "moving", moving)


def _multiply(s, dst, stationary, moving, is_transpose, double, add):
    a, b = (s.read(v).reshape(v.layout.partitions, -1) for v in (stationary, moving))
    if double:
        k = a.shape[0]
        a, b = (x.reshape(k, 2, -1).transpose(1, 0, 2).reshape(2 * k, -1) for x in (a, b))
    if is_transpose and not (np.isfinite(a).all() and np.isfinite(b).all()):
        product = _apply_permutation(a, b)
    else:
        with np.errstate(all="ignore"):
            product = a.T @ b
    product = product.reshape(dst.shape)
    if add is not False:
        before = values.decode(dst.bits(), dst.dtype).astype(np.float32)
        product = before + product if add is True else np.where(add, before + product, product)
    s.write(dst, product)


def _apply_permutation(a, b):
    """Returns a.T @ b where one is a permutation and the other may contain NaN or infinities."""
    clean_a, clean_b = np.isfinite(a).all(), np.isfinite(b).all()
    if clean_b and not clean_a:  # a is transposed: column j of b selects a row of a
        return np.stack([a[np.argmax(b[:, j] != 0)] for j in range(b.shape[1])], axis=1)
    return np.stack([b[np.argmax(a[:, i] != 0)] for i in range(a.shape[1])])


def nc_transpose(dst, data, engine=engine.unknown, name=None):
    """dst = data.T, where all free axes count as one. Runs on the Tensor engine (into PSUM) or on
    the Vector engine.
    """
    call = "nki.isa.nc_transpose"
    s = sessions.active(call)
    by = operands.engine(call, engine, ("tensor", "vector"))
    operands.on_chip(call, "dst", dst)
    operands.on_chip(call, "data", data)
    p, f = data.layout.partitions, data.layout.free
    if dst.layout.partitions != f or dst.layout.free != p:
        errors.fail(call, f"dst: {dst.describe()}, data transposed is [{f}, {p}]")
    if by == "any":
        by = "tensor" if dst.memory == PSUM and data.memory == SBUF else "vector"
    limit = devices.PARTITIONS if by == "tensor" else 32
    if p > limit or f > limit:
        errors.fail(call, f"data: {data.describe()} is larger than the {limit} x {limit} of the {by} engine ({errors.DIMENSION_SIZE})")
    if by == "tensor" and (dst.memory != PSUM or data.memory != SBUF):
        errors.fail(call, f"dst is in {dst.memory} and data in {data.memory}: the tensor engine goes from sbuf to psum")
    if dst.dtype is not data.dtype and s.device.generation >= 3 and by == "vector":
        errors.fail(call, f"dst is {dst.dtype} and data is {data.dtype}: expected equal types")
    operands.in_partitions(call, "data", data)
    unwritten_mask = s.note_read(data, call, "data")
    s.emit("nc_transpose", by, ("dst", "src"), [dst, data])
    if s.values:
        s.write(dst, s.read(data).reshape(p, f).T.reshape(dst.shape))
    s.note_write(dst, unwritten_mask=None if unwritten_mask is None else unwritten_mask.reshape(p, f).T.reshape(dst.shape))
    return DONE
