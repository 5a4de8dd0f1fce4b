"""Two cores of a logical core: exchange and barrier. The trace is core 0's; both calls are recorded as it executes them."""

from __future__ import annotations

from ..tracer import errors, operands
from ..tracer import session as sessions
from ..tracer.layout import SBUF
from .enums import dma_engine, engine
from .instruction import DONE


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma, name=None):
    """src goes to another core while its src comes into dst."""
    call = "nki.isa.sendrecv"
    s = sessions.active(call)
    operands.on_chip(call, "src", src, (SBUF,))
    operands.on_chip(call, "dst", dst, (SBUF,))
    operands.same_elements(call, "src", src, "dst", dst)
    s.reads(src, call, "src")
    s.emit("sendrecv", "gpsimd" if dma_engine.name == "gpsimd_dma" else "dma", ("dst", "src"), [dst, src],
           (("pipe", int(pipe_id)),))  # fmt: skip
    if s.values:
        errors.fail(call, "what the other core sends is not computed: trace it without --values")
    s.writes(dst)
    return DONE


def core_barrier(data, cores, engine=engine.gpsimd, name=None):
    """Waits until all `cores` are here."""
    call = "nki.isa.core_barrier"
    s = sessions.active(call)
    operands.tensor(call, "data", data)
    by = operands.engine(call, engine, ("tensor", "vector", "scalar", "gpsimd", "sync"), "gpsimd")
    s.emit("core_barrier", by, ("src",), [data], (("cores", len(cores)),))
    return DONE
