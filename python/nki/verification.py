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
    rows = [[(d, tolerance)] for d in distances]
    if tolerance is None:
        limits = [comparison.rounding_floor(view.dtype) for view in outputs]
        rows = [[pair] for pair in zip(distances, limits)]
        if any(limit < d < math.inf for d, limit in (row[0] for row in rows)):
            moved = _moved_by_rounding(session, found, rerun)
            rows = [_pairs(*each) for each in zip(outputs, found, expected, distances, moved)]
    return [_row(*each) for each in zip(outputs, found, expected, rows)]


def _rounded_to_whole(wanted, view):
    return wanted if view.dtype.float else np.rint(np.asarray(wanted, np.float64))


def _moved_by_rounding(session, found, rerun) -> list[tuple]:
    """Returns for each result its distance and its drift if the kernel rounds otherwise, and the
    largest relative error of one rounding.
    """
    moved = [(0.0, 0.0)] * len(found)
    try:
        for seed in range(1 if min(numbers.size for numbers in found) >= _FEW_ELEMENTS else _RERUNS_OF_FEW):
            with perturbation.perturbed(seed), contextlib.redirect_stdout(io.StringIO()):
                others = rerun()
            now = [(comparison.distance(b, a), comparison.drift(b, a)) for a, b in zip(found, others)]
            moved = [(max(d, e), max(s, t)) for (d, s), (e, t) in zip(moved, now)]
    except (errors.LimitReached, MemoryError):
        raise
    except Exception as error:  # the user's code may raise anything
        moved = [(math.inf, math.inf)] * len(found)
        session.note(f"with other roundings the kernel fails ({error}); up to {comparison.LARGEST:g} is allowed")
    for i, (distance, _) in enumerate(moved):
        if distance > comparison.LARGEST:
            session.note(f"result {i}: other roundings move it by {distance:.3g}; an error of up to "
                         f"{comparison.LARGEST:g} is allowed")  # fmt: skip
    return [(*each, perturbation.coarsest) for each in moved]


def _pairs(view, found, wanted, distance, moved):
    """Returns the pairs of an error and what is allowed: the distance and the drift."""
    by_rounding, drift, unit = moved
    return [(distance, comparison.allowed(view.dtype, by_rounding)),
            (comparison.drift(found, wanted), comparison.allowed_drift(view.dtype, drift, by_rounding, found.size, unit))]  # fmt: skip


def _row(view, found, wanted, pairs):
    distance, limit = max(pairs, key=lambda pair: pair[0] / pair[1] if pair[1] else math.inf if pair[0] else 0.0)
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
