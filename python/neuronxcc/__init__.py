"""The package that kernels import the legacy dialect of NKI from. Only its `nki` exists here."""

from . import nki

__all__ = ["nki"]
