"""Errors of kernels. A message begins with the line of the user's file and the call on that line.
"""

from __future__ import annotations


class NkiValidationError(Exception):
    """A kernel broke a rule of the hardware or of the language. The text begins with the file and
    line.
    """


class UnknownCall(NkiValidationError, AttributeError):
    """A name of the NKI language that this tracer does not have. `hasattr` returns False, and
    `import` fails.
    """


class LimitReached(NkiValidationError):
    """The kernel has reached a limit on instructions or seconds."""


class ValuesNeeded(NkiValidationError):
    """The kernel's next step depends on numbers, but the run computes no values."""


def fail(call: str, text: str, kind: type = NkiValidationError):
    """Raises `file:line: call: text` for the innermost line of the user's files."""
    from . import location  # location imports the errors of this module

    raise kind(f"{location.describe()}: {call}: {text}")
