"""What is wrong with a kernel, said with the line of the user's file and the call that was made there."""

from __future__ import annotations


class NkiValidationError(Exception):
    """A kernel broke a rule of the hardware or of the language. The text begins with the file and line."""


class UnknownCall(NkiValidationError, AttributeError):
    """A name of the NKI language that this tracer does not have. `hasattr` says no, `import` fails."""


class LimitReached(NkiValidationError):
    """The kernel ran for too long: a limit on instructions or on seconds."""


class ValuesNeeded(NkiValidationError):
    """What the kernel does next depends on numbers, and it runs without."""


def fail(call: str, text: str, kind: type = NkiValidationError):
    """Raises `file:line: call: text` for the innermost line of the user's files."""
    from . import location  # which imports this module's errors

    raise kind(f"{location.describe()}: {call}: {text}")
