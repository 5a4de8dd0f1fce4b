"""A stand-in for `neuronxcc.nki`, the legacy dialect of NKI, built on the tracer of `nki`. See
docs/reference/nki_legacy.md.

In this dialect instructions return their results, masks clip them, tensors have block dimensions,
and the launch grid is a loop.
"""

import logging as _logging
import os as _os

from nki.tracer import location as _location

_location.exclude_folder(_os.path.dirname(_os.path.abspath(__file__)))

from . import compiler, isa, language, typing  # noqa: E402
from .kernel import Kernel, function_to_trace, jit, simulate_kernel  # noqa: E402
from .typing import tensor  # noqa: E402

# Published files call `logging.disable(logging.OFF)` after importing neuronxcc, which defines that
# level. Python does not.
if not hasattr(_logging, "OFF"):
    _logging.OFF = _logging.CRITICAL + 10

trace = baremetal = benchmark = profile = jit

__all__ = ["Kernel", "function_to_trace", "baremetal", "benchmark", "compiler", "isa", "jit", "language", "profile", "simulate_kernel",
           "tensor", "trace", "typing"]  # fmt: skip
