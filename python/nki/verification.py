"""Checks the results of a kernel's run against rules of the hardware and against a reference."""

from __future__ import annotations

import contextlib
import io
import math

import numpy as np

from . import comparison, launch, reference
from .arguments import UsageError
from .tracer import errors, perturbation

# A result of fewer elements may be rounded in the same way twice by chance. The kernel then runs with
# several other roundings.
_FEW_ELEMENTS, _RERUNS_OF_FEW = 256, 4


def check_outputs(session, outputs):
    """Raises an error for a result outside HBM, or one with elements that were never written. The
    second is known without values, too.
    """
    for i, view in enumerate(outputs):
        launch.check_result(session, view, f"result {i}")


def compared(session, outputs, text: str, arguments: dict, tolerance: float | None, rerun) -> list[dict]:
    """Returns the report's rows of the comparison with the reference.

    `arguments` are the numbers that the kernel got. `rerun` runs the kernel anew and returns the
    numbers of its results. It serves to find out how far other roundings move the results, and is
    called only if one rounding of the result cannot explain its error.
    """
    expected = reference.expected(text, arguments)
    if len(expected) != len(outputs):
        raise UsageError(f"--ref: the kernel returns {len(outputs)} tensors, the reference {len(expected)}")
    for i, (view, wanted) in enumerate(zip(outputs, expected)):
        if tuple(wanted.shape) != view.shape:
            raise errors.NkiValidationError(f"result {i}: {view.describe()}, the reference has shape {list(wanted.shape)}")
    found = [session.read(view) for view in outputs]
    expected = [_rounded_to_whole(wanted, view) for view, wanted in zip(outputs, expected)]
    distances = [comparison.distance(a, b) for a, b in zip(found, expected)]
    limits = [tolerance] * len(found)
    if tolerance is None:
        limits = [comparison.rounding_floor(view.dtype) for view in outputs]
        if any(limit < d < math.inf for d, limit in zip(distances, limits)):
            limits = _limits(session, outputs, found, rerun)
    return [_row(*each) for each in zip(outputs, found, expected, distances, limits)]


def _rounded_to_whole(wanted, view):
    return wanted if view.dtype.float else np.rint(np.asarray(wanted, np.float64))


def _limits(session, outputs, found, rerun):
    try:
        by_rounding = [0.0] * len(found)
        for seed in range(1 if min(numbers.size for numbers in found) >= _FEW_ELEMENTS else _RERUNS_OF_FEW):
            with perturbation.perturbed(seed), contextlib.redirect_stdout(io.StringIO()):
                others = rerun()
            by_rounding = [max(d, comparison.distance(b, a)) for d, a, b in zip(by_rounding, found, others)]
    except (errors.LimitReached, MemoryError):
        raise
    except Exception as error:  # the user's code may raise anything
        by_rounding = [math.inf] * len(found)
        session.note(f"with other roundings the kernel fails ({error}); up to {comparison.LARGEST:g} is allowed")
    for i, moved in enumerate(by_rounding):
        if moved > comparison.LARGEST:
            session.note(f"result {i}: other roundings move it by {moved:.3g}; an error of up to "
                         f"{comparison.LARGEST:g} is allowed")  # fmt: skip
    return [comparison.allowed(view.dtype, moved) for view, moved in zip(outputs, by_rounding)]


def _row(view, found, wanted, distance, limit):
    passed = bool(distance <= limit)
    row = {"error": _number(distance), "tolerance": limit, "passed": passed}
    if not passed:
        wrong = comparison.wrong_elements(found, wanted, view.dtype, limit)
        row["wrong"] = {"index": wrong.index, "found": _number(wrong.found), "expected": _number(wrong.expected),
                        "share": wrong.share, "ulps": _number(wrong.ulps)}  # fmt: skip
    return row


def _number(value):
    """Returns a number that JSON has, or the name of one that it has not."""
    return value if math.isfinite(value) else "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"


def text_of(row: dict, index: int) -> str:
    """Returns a result's line for people."""
    text = f"result {index}: {row['dtype']} {row['shape']}"
    if "error" not in row:
        return text
    text += f": error {float(row['error']):.3g} of {row['tolerance']:.3g} allowed"
    if row["passed"]:
        return text
    wrong = row["wrong"]
    return (
        f"{text}, too far: first at {wrong['index']}, found {float(wrong['found']):.6g}, expected {float(wrong['expected']):.6g}; "
        f"{100 * wrong['share']:.3g} % of the elements are wrong, the largest error is {float(wrong['ulps']):.3g} ulps"
    )
