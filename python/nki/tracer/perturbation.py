"""Other roundings of the same kernel, which show how far rounding moves its result.

While `active` holds a generator, every number that is rounded to a type goes up or down by chance,
with the probability that its place between the two neighbours gives. Numbers that the type can hold
stay. Arithmetic in float32 also moves by one unit in the last place, except that whole numbers stay,
because kernels count and compare with them. Copies of float32 are exact.

The distance between the two results follows from the operations and types on the path to each
result, and from how much the operations after a rounding amplify it.
"""

from __future__ import annotations

import contextlib

import numpy as np

active: np.random.Generator | None = None
coarsest = 0.0  # the largest relative error of one rounding so far

# Instructions that choose or move elements. Their results in float32 are exact.
_EXACT = {"tensor_copy", "dma_copy", "nc_transpose", "memset", "iota", "max8", "nc_find_index8", "nc_match_replace8",
          "tensor_copy_predicated", "affine_select", "range_select", "select_reduce", "nc_stream_shuffle", "nc_n_gather",
          "local_gather", "sendrecv", "rng", "dropout", "topk", "quantize_mx"}  # fmt: skip
_EXACT_OPERATORS = {"max", "maximum", "min", "minimum", "bypass", "copy", "relu", "abs", "absolute_max", "None", None}


@contextlib.contextmanager
def perturbed(seed: int):
    """Rounds by chance inside the block."""
    global active, coarsest
    active, coarsest = np.random.default_rng(seed), 0.0
    try:
        yield
    finally:
        active = None


def is_exact(name: str, attributes: tuple) -> bool:
    """Returns whether an instruction's result in float32 is one of its inputs."""
    if name in _EXACT:
        return True
    found = [value for key, value in attributes if key in ("op", "op0", "op1", "reduce_op")]
    return bool(found) and all(value in _EXACT_OPERATORS for value in found)


def moved(wide: np.ndarray, rounded: np.ndarray, mantissa: int, bias: int) -> np.ndarray:
    """Returns numbers whose nearest neighbour in a type is one of the two around each of `wide`.

    `rounded` are the numbers rounded to the type, which has `mantissa` bits after the leading one.
    """
    global coarsest
    finite = np.isfinite(wide)
    inexact = finite & (wide != rounded)
    if inexact.any():
        coarsest = max(coarsest, 2.0 ** -(mantissa + 1))
    exponent = np.maximum(np.frexp(np.where(finite, wide, 1))[1] - 1, 1 - bias)
    step = np.ldexp(np.float32(1), exponent - mantissa)
    noise = (active.random(wide.shape, np.float32) - np.float32(0.5)) * step
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(inexact, wide + noise, wide).astype(np.float32)


# How near to a half, relative to its size, a number may be rounded to either whole number, since sums
# in another order move it so far. Assumed.
_TIE = 1e-6


def moved_at_ties(numbers: np.ndarray) -> np.ndarray:
    """Returns numbers in which those that are almost halfway between two whole numbers go to the
    farther one.
    """
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    nearest = np.rint(finite)
    distance = finite - nearest
    is_tie = 0.5 - np.abs(distance) < _TIE * np.maximum(np.abs(finite), 1)
    return np.where(is_tie, nearest + np.where(distance > 0, 1, -1), numbers)


def moved_by_one_ulp(wide: np.ndarray) -> np.ndarray:
    """Returns float32 numbers moved by -1, 0 or 1 unit in the last place. Whole numbers stay."""
    fraction = np.isfinite(wide) & (wide != np.rint(np.where(np.isfinite(wide), wide, 0)))
    steps = active.integers(-1, 2, wide.shape, dtype=np.int32)
    return np.where(fraction, (np.ascontiguousarray(wide).view(np.int32) + steps).view(np.float32), wide)
