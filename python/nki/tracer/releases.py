"""The releases of the Neuron SDK whose rules a run may follow, and what each of them changed.

`--sdk` selects a release before the kernel's file is imported. Without it, the rules are those of
the newest release that has the device. Source: the NKI migration guides (SDK 2.32 and 2.33), which
list what each version added, deprecated and removed. What came before NKI 0.6 runs under all of
them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import errors


@dataclass(frozen=True)
class Release:
    sdk: str
    nki: tuple
    legacy: bool  # whether it compiles kernels that import neuronxcc.nki

    def __str__(self):
        return f"the Neuron SDK {self.sdk} (NKI {version(self.nki)})"


RELEASES = {
    r.sdk: r
    for r in (
        Release("2.27", (0, 1), True),
        Release("2.28", (0, 2), True),
        Release("2.29", (0, 3), True),
        Release("2.30", (0, 4), False),
        Release("2.31", (0, 5), False),
        Release("2.32", (0, 6), False),
        Release("2.33", (0, 7), False),
    )
}
NEWEST = RELEASES["2.33"]
# Documented: the notes of SDK 2.29 leave trn1 to SDK 2.28.
NEWEST_OF_TRN1 = NEWEST_WITH_LEGACY = RELEASES["2.28"]

# The release of `--sdk`. None: the newest one that has the device.
selected: Release | None = None
# The release of the next run, for code of a kernel's file that runs before the kernel, such as
# decorators.
next_run = NEWEST


def version(nki: tuple) -> str:
    return f"{nki[0]}.{nki[1]}"


def of_device(name: str) -> Release:
    """Returns the release whose rules a run on the device follows."""
    return selected or (NEWEST_OF_TRN1 if name == "trn1" else NEWEST)


def _run_in_progress():
    from . import session  # session imports the table of this module

    return session.current


def current() -> Release:
    """Returns the release of the run in progress, or outside a kernel that of the next run."""
    run = _run_in_progress()
    return run.release if run is not None else selected or next_run


def since(call: str, nki: tuple):
    """Raises an error if the release in use does not have the call yet."""
    release = current()
    if release.nki < nki:
        sdk = next(r.sdk for r in RELEASES.values() if r.nki == nki)
        errors.fail(call, f"exists since NKI {version(nki)}, and the rules are those of {release}; expected --sdk {sdk}")


def removed(call: str, nki: tuple, instead: str):
    """Raises an error if the release in use no longer has the call."""
    release = current()
    if release.nki >= nki:
        errors.fail(call, f"was removed in NKI {version(nki)}: use {instead} (the rules are those of {release})")


def deprecated(name: str, nki: tuple, instead: str):
    """Adds a note if the release in use deprecates `name`."""
    run = _run_in_progress()
    if run is not None and run.release.nki >= nki:
        run.note(f"{name} is deprecated since NKI {version(nki)}: write {instead}")


def reads_text() -> bool:
    """Returns whether NKI_COMPILER_FRONTEND asks for the passes that read a kernel's text, the only
    way until NKI 0.6.
    """
    return os.environ.get("NKI_COMPILER_FRONTEND", "").lower() in ("parser", "custom")
