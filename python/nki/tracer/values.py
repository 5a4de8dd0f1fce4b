"""Conversion between bits and numbers: emulates in NumPy how a NeuronCore rounds at each write.

`decode` returns float32 for all floating-point types, and integers for integer types. `encode`
rounds to nearest, ties to even, as documented for every engine's output. Integers saturate, which
is the behaviour of the public simulator and not documented for the hardware. An fp8 value beyond
the largest number becomes infinite (NaN for e4m3fn).
"""
from __future__ import annotations

import numpy as np

from . import dtypes, perturbation
from .dtypes import DType


def decode(raw: np.ndarray, dtype: DType) -> np.ndarray:
    """Returns the numbers of the bits in `raw` as a new array."""
    if dtype is dtypes.float32 or dtype is dtypes.tfloat32 or dtype.kind != "float":
        return raw.copy()
    if dtype is dtypes.bfloat16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if dtype is dtypes.float16:
        return raw.astype(np.float32)
    return _table(dtype)[raw]


def encode(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Returns the bits of `numbers` (any NumPy type), rounded to `dtype`."""
    if dtype.kind == "int":
        return _to_integer(numbers, dtype)
    if dtype.kind == "packed":
        return np.asarray(numbers).astype(dtype.raw)
    wide = np.asarray(numbers, np.float32)
    if dtype is dtypes.float32:
        return wide
    if perturbation.active is not None and dtype.mantissa:
        wide = perturbation.moved(wide, decode(_rounded_bits(wide, dtype), dtype), dtype.mantissa, dtype.bias)
    return _rounded_bits(wide, dtype)


def _rounded_bits(wide, dtype):
    """Returns the bits of float32 numbers, rounded to nearest."""
    if dtype is dtypes.bfloat16:
        return (_round_bits(wide, 16) >> 16).astype(np.uint16)
    if dtype is dtypes.tfloat32:
        return _round_bits(wide, 13).view(np.float32)
    with np.errstate(over="ignore"):
        if dtype is dtypes.float16:
            return wide.astype(np.float16)
        return _to_float8(wide, dtype)


def rounded(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Returns `numbers` as they are read back from memory of that type."""
    return decode(encode(numbers, dtype), dtype)


def _round_bits(wide, dropped):
    """Returns the bits of fp32 numbers with the last `dropped` bits rounded away. A NaN stays a
    NaN.
    """
    bits = np.ascontiguousarray(wide).view(np.uint32)
    half = np.uint32((1 << (dropped - 1)) - 1)
    odd = (bits >> np.uint32(dropped)) & np.uint32(1)
    kept = (bits + half + odd) & np.uint32(0xFFFFFFFF ^ ((1 << dropped) - 1))
    return np.where(np.isnan(wide), np.uint32(0x7FC00000), kept)


def _to_integer(numbers, dtype):
    numbers = np.asarray(numbers)
    limits = np.iinfo(dtype.raw)
    if numbers.dtype.kind in "iub":
        if numbers.dtype == dtype.raw:
            return numbers
        return np.clip(numbers.astype(np.int64), limits.min, limits.max).astype(dtype.raw)
    if perturbation.active is not None:
        numbers = perturbation.moved_at_ties(numbers)
    whole = np.rint(np.nan_to_num(numbers.astype(np.float64), nan=0.0, posinf=2.0**62, neginf=-(2.0**62)))
    return np.clip(whole, limits.min, limits.max).astype(dtype.raw)


_tables: dict[DType, np.ndarray] = {}


def _table(dtype):
    """Returns the numbers of all 256 codes of an 8-bit type."""
    if dtype in _tables:
        return _tables[dtype]
    code = np.arange(256)
    m = dtype.mantissa
    if m == 0:  # e8m0 has powers of two and no sign
        table = np.ldexp(1.0, code - 127)
        table[255] = np.nan
    else:
        exponent, fraction = (code & 0x7F) >> m, code & ((1 << m) - 1)
        normal = np.ldexp(1 + fraction / (1 << m), exponent - dtype.bias)
        table = np.where(exponent == 0, np.ldexp(fraction / (1 << m), 1 - dtype.bias), normal)
        top = (0x7F >> m) if dtype.infinite else None
        if dtype.infinite:
            table = np.where(exponent == top, np.where(fraction == 0, np.inf, np.nan), table)
        else:
            table = np.where((code & 0x7F) == 0x7F, np.nan, table)
        table = np.where(code & 0x80, -table, table)
    _tables[dtype] = table.astype(np.float32)
    return _tables[dtype]


def _to_float8(wide, dtype):
    if dtype.mantissa == 0:
        with np.errstate(divide="ignore"):
            exponent = np.rint(np.log2(np.abs(wide)))
        return np.where(np.isnan(wide), 255, np.clip(exponent + 127, 0, 254)).astype(np.uint8)
    m, bias = dtype.mantissa, dtype.bias
    size = np.abs(wide.astype(np.float64))
    finite = np.where(np.isfinite(size), size, 0.0)
    exponent = np.maximum(np.frexp(np.maximum(finite, 1e-30))[1] - 1, 1 - bias)
    steps = np.rint(np.ldexp(finite, m - exponent)).astype(np.int64)
    # A mantissa that rounds up to the next power of two carries into the exponent correctly.
    code = np.where(exponent == 1 - bias, 0, (exponent + bias - 1) << m) + steps
    largest = ((0x7F >> m) << m) - 1 if dtype.infinite else 0x7E
    beyond = largest + 1  # infinity, or NaN if the type has no infinity
    code = np.where((code > largest) | np.isinf(wide), beyond, code)
    code = np.where(np.isnan(wide), 0x7F, code)
    return (code | np.where(np.signbit(wide), 0x80, 0)).astype(np.uint8)
