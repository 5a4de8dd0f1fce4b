"""`nki.compiler`: what `@nki.jit(compile_config=..., specialization_config=...)` takes since NKI 0.7.

All of it concerns the compiler; the tracer records the program whatever it says. None is the compiler's own choice.
Source: the public nki.compiler documentation (SDK 2.33).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AddressRotation(Enum):
    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass
class CompileConfig:
    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True


@dataclass
class SpecializationConfig:
    allow_nested_config_override: bool | None = None
