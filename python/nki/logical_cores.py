"""The logical core that a kernel is launched on: LNC 1 is one physical core, LNC 2 a pair of them.

A launch `kernel[2]` or the variable NEURON_LOGICAL_NC_CONFIG chooses the LNC. The default is 1.
The compiler of a graph takes LNC 2 on trn2 and trn3 unless the variable says otherwise, and refuses a kernel of
another LNC with the code NCC_EVRF066. Sources: the pages "Using Logical NeuronCores (LNC) with NKI"
and NCC_EVRF066 of SDK 2.33. The variable counts since NKI 0.7.
"""

from __future__ import annotations

import math
import os

from .tracer import errors, releases

VARIABLE = "NEURON_LOGICAL_NC_CONFIG"
_MISMATCH = "NCC_EVRF066"


def grid_of(name: str, grid: tuple, device, release: releases.Release) -> tuple:
    """Returns the launch grid of a kernel of the dialect `nki`. Raises an error if no logical core of
    the device has so many cores.
    """
    if release.nki < (0, 7):
        return grid
    wanted = _configured()
    cores = math.prod(grid) if grid else wanted or 1
    if cores not in (1, 2):
        raise errors.NkiValidationError(f"{name}: launched on {list(grid)} cores, expected 1 or 2, which a logical core has")
    if cores == 2 and device.generation < 3:
        raise errors.NkiValidationError(f"{name}: launched on two cores ({_MISMATCH}): {device.name} has LNC 1 only")
    if wanted is not None and cores != wanted:
        raise errors.NkiValidationError(
            f"{name}: the launch asks for LNC {cores} and {VARIABLE}={wanted} for LNC {wanted} ({_MISMATCH}): "
            f"expected one number of cores"
        )
    return grid or ((cores,) if cores > 1 else ())


def note_launch(session):
    """Adds notes on the launch to the report."""
    release, device = session.release, session.device
    if release.nki < (0, 7) or device.generation < 3 or os.environ.get(VARIABLE):
        return
    if math.prod(session.grid) == 1:
        session.note(f"LNC 1: half of a core pair idles. In a graph neuronx-cc takes LNC 2 on {device.name} and refuses the kernel "
                     f"({_MISMATCH}); launch KERNEL[2], or set {VARIABLE}=1 for the whole graph")  # fmt: skip
    else:
        session.note(f"the brackets of KERNEL{list(session.grid)} are being deprecated: {VARIABLE}=2 launches on two cores, too")


def _configured() -> int | None:
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    if value not in ("1", "2"):
        raise errors.NkiValidationError(f"{VARIABLE}: expected 1 or 2, found {value!r}")
    return int(value)
