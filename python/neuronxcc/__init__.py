"""The package that the legacy dialect of NKI is imported from; only its `nki` is here."""

from . import nki

__all__ = ["nki"]
