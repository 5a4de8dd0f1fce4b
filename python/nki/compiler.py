"""`nki.compiler`: the arguments of `@nki.jit(compile_config=..., specialization_config=...)`, which
exist since NKI 0.7.

All of them concern the compiler only. The tracer records the same program for all their values.
None leaves a choice to the compiler. Source: the public nki.compiler documentation (SDK 2.33).
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
