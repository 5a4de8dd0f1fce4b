"""How far a kernel's result is from the expected one, and where it is wrong.

`distance` is one number for a whole result, `allowed` says how large that number may be, and
`describe` names the wrong elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .tracer.dtypes import DType

# A block that is compared as a whole is a row of at least so many elements, or several shorter rows.
# Assumed: enough for a stable mean, and few enough that one wrong row of a large result stands out.
_SHORTEST_BLOCK, _LONGEST_BLOCK = 64, 4096
# The smallest scale of a block relative to the whole result. A block of zeros has no scale of its own.
_SMALLEST_SCALE = 1e-3
# The distance that sums in float32 in another order may cause. Assumed.
_SUMS = 1e-5
# How many times the distance that other roundings cause is allowed. Assumed: a result that is rounded
# to nearest is about 1.7 times as near as one that is rounded by chance, so that right kernels stay
# three times below.
_MARGIN = 2.0
# The largest distance that rounding may explain. A result that depends more on its roundings cannot be
# checked with random numbers.
LARGEST = 0.1


def distance(found: np.ndarray, reference: np.ndarray) -> float:
    """Returns the distance of a result from the reference.

    It is the largest of the relative Frobenius error of the whole, that of each block (a row, or
    several short ones), and the error of each element relative to |ref| + 8 RMS(its block). It is
    infinite if one of the two has a NaN or infinity where the other has not the same.
    """
    length = _block_length(np.shape(reference))
    found, reference = _flat(found), _flat(reference)
    finite = np.isfinite(reference)
    if not np.isfinite(found[finite]).all() or not np.array_equal(found[~finite], reference[~finite], equal_nan=True):
        return math.inf
    error = np.abs(np.where(finite, found, 0.0) - np.where(finite, reference, 0.0))
    size = np.where(finite, np.abs(reference), 0.0)
    rms = _rms(size)
    if not size.size or rms == 0:
        return float(error.max(initial=0.0))
    scales = _block_scales(size, rms, length)
    blocks = np.sqrt(_block_means(error * error, length)) / scales
    elements = error / (size + 8 * np.repeat(scales, length)[: size.size])
    return max(_rms(error) / rms, float(blocks.max()), float(elements.max()))


def drift(found: np.ndarray, reference: np.ndarray) -> float:
    """Returns the part of a result's error that all its elements have in common: a wrong scale, or a
    number that is added to all, relative to the RMS of the reference.

    Roundings go up and down, so that little of them remains here. A scale that is wrong by 2 % stands
    out although the roundings move single elements further.
    """
    found, reference = _flat(found), _flat(reference)
    usable = np.isfinite(found) & np.isfinite(reference)
    a, b = found[usable], reference[usable]
    rms = _rms(b) if b.size else 0.0
    if rms == 0:
        return 0.0
    error = a - b
    return max(abs(float((error * b).mean())) / rms**2, abs(float(error.mean())) / rms)


def rounding_floor(dtype: DType) -> float:
    """Returns the distance that one rounding of the result to its type, and sums in float32 in any
    order, may cause.
    """
    return max(_SUMS, 1.01 * 2.0 ** -(dtype.mantissa + 1)) if dtype.float else _SUMS


def allowed(dtype: DType, by_rounding: float) -> float:
    """Returns the allowed distance of a result of this type, if other roundings in the kernel move
    it by `by_rounding`.
    """
    return max(rounding_floor(dtype), min(_MARGIN * by_rounding, LARGEST))


def allowed_drift(dtype: DType, by_rounding: float, distance_by_rounding: float, size: int, unit: float) -> float:
    """Returns the allowed drift of a result of `size` elements, if other roundings in the kernel give
    it the drift `by_rounding`. All elements may share one rounding of the coarsest type, whose
    relative size is `unit`.
    """
    by_chance = min(distance_by_rounding, LARGEST) / math.sqrt(size)
    return rounding_floor(dtype) + min(unit + 3 * max(by_rounding, by_chance), LARGEST)


@dataclass
class WrongElements:
    index: list  # of the first wrong element, row-major
    found: float
    expected: float
    share: float  # wrong elements of all
    ulps: float  # the largest error, in units of the last place of the result's type


def wrong_elements(found: np.ndarray, reference: np.ndarray, dtype: DType, tolerance: float) -> WrongElements:
    """Returns where a result that is too far from the reference is wrong."""
    length = _block_length(np.shape(reference))
    a, b = _flat(found), _flat(reference)
    finite = np.isfinite(a) & np.isfinite(b)
    unequal = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    error = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0))
    size = np.where(np.isfinite(b), np.abs(b), 0.0)
    scale = np.repeat(_block_scales(size, _rms(size), length), length)[: size.size]
    wrong = unequal | (error > tolerance * np.maximum(size, scale))
    if not wrong.any():  # many errors that are each below the tolerance
        wrong = error > tolerance * scale
    if not wrong.any():
        wrong = error == error.max()
    first = int(np.argmax(wrong))
    ulps = math.inf if unequal.any() else float((error / _ulp(size, dtype))[wrong].max())
    index = [int(i) for i in np.unravel_index(first, np.shape(found))]
    return WrongElements(index, float(a[first]), float(b[first]), float(wrong.mean()), ulps)


def _ulp(size, dtype):
    if not dtype.float:
        return np.ones_like(size)
    exponent = np.maximum(np.frexp(size)[1] - 1, 1 - dtype.bias)
    return np.ldexp(1.0, exponent - dtype.mantissa)


def _flat(numbers):
    return np.asarray(numbers).astype(np.float64).reshape(-1)


def _rms(numbers):
    return math.sqrt(float((numbers * numbers).mean()))


def _block_length(shape):
    length = 1
    for n in reversed(shape):
        if length >= _SHORTEST_BLOCK:
            break
        length *= n
    return min(length, _LONGEST_BLOCK)


def _block_means(numbers, length):
    starts = np.arange(0, numbers.size, length)
    return np.add.reduceat(numbers, starts) / np.diff(np.append(starts, numbers.size))


def _block_scales(numbers, rms, length):
    return np.maximum(np.sqrt(_block_means(numbers * numbers, length)), _SMALLEST_SCALE * rms)
