"""Microscaled numbers of trn3: a group of 8 partitions x 4 elements shares a scale, which is a
power of two.

A packed element holds four neighbours of one partition. The scales of the partitions [32 q, 32 q +
32) are in the partitions 32 q to 32 q + 3. Source: the nki.isa documentation of quantize_mx and
nc_matmul_mx (SDK 2.32).
"""

from __future__ import annotations

import numpy as np

from ..tracer import dtypes, errors, operands, values
from ..tracer import session as sessions
from ..tracer.layout import PSUM, SBUF
from .instruction import DONE
from .tensor_engine import _accumulation, unwritten_in_product

_LARGEST_EXPONENT = {dtypes.float8_e4m3fn: 8, dtypes.float8_e5m2: 15}
_LARGEST = {dtypes.float8_e4m3fn: 448.0, dtypes.float8_e5m2: 57344.0}
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_FP4 = np.concatenate([_FP4, -_FP4])
_SCALES = (dtypes.uint8, dtypes.float8_e8m0fnu)


def _check_generation(s, call):
    if s.device.generation < 4:
        errors.fail(call, f"{s.device.name} does not have it, trn3 does")


def quantize_mx(dst, src, dst_scale, name=None):
    """dst = src in fp8, four elements packed into one, and dst_scale = the exponents of the groups.
    """
    call = "nki.isa.quantize_mx"
    s = sessions.active(call)
    _check_generation(s, call)
    for operand, view in (("dst", dst), ("src", src), ("dst_scale", dst_scale)):
        operands.on_chip(call, operand, view, (SBUF,))
    element = dtypes.PACKED_ELEMENT.get(dst.dtype)
    if element is None or src.dtype not in (dtypes.bfloat16, dtypes.float16) or dst_scale.dtype not in _SCALES:
        errors.fail(call, f"dst is {dst.dtype}, src {src.dtype}, dst_scale {dst_scale.dtype}: expected packed fp8, 16 bits, "
                          f"and uint8 or float8_e8m0fnu")  # fmt: skip
    if src.layout.partitions % 32 or src.layout.free % 4 or dst.layout.free * 4 != src.layout.free:
        errors.fail(call, f"src is {src.describe()} and dst is {dst.describe()}: expected multiples of 32 partitions, and four "
                          f"elements of src for each of dst")  # fmt: skip
    if dst_scale.layout.free != dst.layout.free:
        errors.fail(call, f"dst_scale: {dst_scale.describe()}, expected {dst.layout.free} elements in a partition")
    s.note_read(src, call, "src")
    s.emit("quantize_mx", "vector", ("dst", "dst1", "src"), [dst, dst_scale, src])
    s.note_write(dst)
    rows = _scale_rows(src.layout.partitions)
    where = np.zeros(dst_scale.shape, bool)
    where[rows[rows < dst_scale.shape[0]]] = True
    if s.values:
        bits, scales = quantized(s.read(src).reshape(src.shape[0], -1), element)
        dst.put(bits.reshape(dst.shape))
        old = dst_scale.bits().copy()
        old[rows] = scales.reshape(len(rows), *dst_scale.shape[1:])
        dst_scale.put(old)
    s.note_write(dst_scale, where)
    return DONE


def _scale_rows(partitions):
    """Returns the partitions that hold the scales of `partitions` partitions."""
    return np.array([32 * (g // 4) + g % 4 for g in range(partitions // 8)])


def quantized(numbers: np.ndarray, element) -> tuple[np.ndarray, np.ndarray]:
    """Returns packed bits [P, F / 4] and biased exponents [P / 8, F / 4] of float32 numbers [P, F].
    """
    p, f = numbers.shape
    groups = np.abs(numbers).reshape(p // 8, 8, f // 4, 4).max(axis=(1, 3))
    exponent = np.frexp(np.where(groups > 0, groups, 1.0))[1] - 1 - (_LARGEST_EXPONENT[element] - 1)
    exponent = np.where(groups > 0, np.clip(exponent, -127, 127), -127)
    scale = np.repeat(np.repeat(np.ldexp(1.0, exponent), 8, axis=0), 4, axis=1)
    clipped = np.clip(numbers / scale, -_LARGEST[element], _LARGEST[element])
    codes = values.encode(clipped.astype(np.float32), element)
    return np.ascontiguousarray(codes).view(np.uint32), (exponent + 127).astype(np.uint8)


def unpacked(bits: np.ndarray, dtype) -> np.ndarray:
    """Returns the float32 numbers [P, F, 4] of packed bits [P, F]."""
    if dtype is dtypes.float4_e2m1fn_x4:
        return _FP4[np.stack([(bits >> shift) & 0xF for shift in (0, 4, 8, 12)], axis=-1)]
    codes = np.ascontiguousarray(bits).view(np.uint8).reshape(*bits.shape, 4)
    return values.decode(codes, dtypes.PACKED_ELEMENT[dtype])


def nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None, tile_size=None, accumulate=None,
                 name=None):  # fmt: skip
    """dst (+)= stationary.T @ moving. The sum runs over partitions and the four packed elements,
    with their scales.
    """
    call = "nki.isa.nc_matmul_mx"
    s = sessions.active(call)
    _check_generation(s, call)
    operands.on_chip(call, "dst", dst, (PSUM,))
    names = ("stationary", "moving", "stationary_scale", "moving_scale")
    views = [stationary, moving, stationary_scale, moving_scale]
    for operand, view in zip(names, views):
        operands.on_chip(call, operand, view, (SBUF,))
    for operand, view in (("stationary", stationary), ("moving", moving)):
        if not view.dtype.packed:
            errors.fail(call, f"{operand}: {view.describe()}, expected a packed type")
    depth, m, n = stationary.layout.partitions, stationary.layout.free, moving.layout.free
    if depth != moving.layout.partitions or depth % 32 or m > 128:
        errors.fail(call, f"stationary is {stationary.describe()} and moving is {moving.describe()}: expected equal multiples "
                          f"of 32 partitions and at most 128 columns")  # fmt: skip
    if dst.layout.partitions != m or dst.layout.free != n:
        errors.fail(call, f"dst: {dst.describe()}, the product is [{m}, {n}]")
    unwritten_mask = s.note_read(stationary, call, "stationary"), s.note_read(moving, call, "moving")
    add = _accumulation(accumulate, dst.storage.begin_sum(dst.layout, dst.offset), dst)
    attributes = (("accumulate", add is not False), ("transpose", False))
    if tile_size:
        attributes += (("tile_position", tuple(tile_position or (0, 0))), ("tile_size", tuple(tile_size)))
    s.emit("nc_matmul_mx", "tensor", ("dst", *names), [dst, *views], attributes)
    if s.values:
        a, b = _scaled(stationary, stationary_scale), _scaled(moving, moving_scale)
        product = np.einsum("kiq,kjq->ij", a, b, optimize=True).reshape(dst.shape)
        if add is not False:
            before = values.decode(dst.bits(), dst.dtype)
            product = before + product if add is True else np.where(add, before + product, product)
        s.write(dst, product)
    s.note_product(dst, unwritten_mask=unwritten_in_product(dst, *unwritten_mask))
    return DONE


def _scaled(view, scales):
    p = view.shape[0]
    numbers = unpacked(view.bits().reshape(p, -1), view.dtype)
    exponents = scales.bits().reshape(scales.shape[0], -1)[_scale_rows(p)].astype(np.int64) - 127
    return numbers * np.repeat(np.ldexp(np.float32(1), exponents), 8, axis=0)[:, :, None]
