"""A stand-in for the package `nki` of the Neuron SDK. It runs a kernel's Python unchanged and
records every instruction.

    python -m nki.run kernel.py:matmul --arg a=bf16[128,128] --arg b=bf16[128,512] --device trn2 \
        --trace matmul.trace

`nki.isa` and `nki.language` are this dialect. `nki.tracer` is the common base of both dialects. See
docs/reference/nki_functions.md.
"""

from . import collectives, compiler, isa, language, simulator
from .launch import Kernel, jit, simulate
from .tracer.dtypes import DType as dtype

__all__ = ["Kernel", "collectives", "compiler", "dtype", "isa", "jit", "language", "simulate", "simulator"]
