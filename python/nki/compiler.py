"""`nki.compiler`: the arguments of `@nki.jit(compile_config=..., specialization_config=...)`, which
exist since NKI 0.7.

All of them concern the compiler only. The tracer records the same program for all their values, and
notes those that change what fits into SBUF. None leaves a choice to the compiler.
Source: the public nki.compiler documentation (SDK 2.33).
"""

from __future__ import annotations

import os

from dataclasses import dataclass
from enum import Enum

from .tracer import errors, releases


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


def check(call: str, compile_config, specialization_config):
    """Raises an error if the arguments are of other classes, if the release has no such arguments, or
    if they contradict the environment.
    """
    for name, value, expected in (("compile_config", compile_config, CompileConfig),
                                  ("specialization_config", specialization_config, SpecializationConfig)):  # fmt: skip
        if value is None:
            continue
        releases.since(f"{call}: {name}", (0, 7))
        if not isinstance(value, expected):
            errors.fail(call, f"{name}: expected a nki.compiler.{expected.__name__}, found {value!r}")
    if compile_config is not None and compile_config.prefetch_auto and os.environ.get("NKI_PREFETCH_RING_SIZE"):
        errors.fail(call, "compile_config: prefetch_auto excludes the variable NKI_PREFETCH_RING_SIZE; expected one of them")


def note(session, config: CompileConfig | None):
    """Adds notes on what of the configuration the run leaves out."""
    if config is not None and config.prefetch_auto:
        session.note("prefetch_auto: the ring that it reserves in SBUF is not counted, so the kernel may fit less than reported")


def has_alloc_fallback(session, config: CompileConfig | None) -> bool:
    """Returns whether the compiler hands a kernel to another allocator if it overflows SBUF."""
    return session.dialect == "nki" and session.release.nki >= (0, 7) and (config is None or config.nki_alloc_fallback)
