"""Exchange and barrier between the two cores of a logical core."""

from __future__ import annotations

from ..tracer import errors, operands, whole
from ..tracer import session as sessions
from ..tracer.layout import SBUF
from .enums import dma_engine, engine
from .instruction import DONE


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma, name=None):
    """Sends src to another core, and receives a core's src in dst."""
    call = "nki.isa.sendrecv"
    s = sessions.active(call)
    operands.on_chip(call, "src", src, (SBUF,))
    operands.on_chip(call, "dst", dst, (SBUF,))
    operands.same_elements(call, "src", src, "dst", dst)
    if src.dtype is not dst.dtype:
        errors.fail(call, f"src is {src.describe()} and dst is {dst.describe()}: expected equal types")
    pipe, sender = whole.number(call, "pipe_id", pipe_id), whole.number(call, "recv_from_rank", recv_from_rank)
    s.note_read(src, call, "src")
    s.emit("sendrecv", "gpsimd" if dma_engine.name == "gpsimd_dma" else "dma", ("dst", "src"), [dst, src],
           (("pipe", pipe),))  # fmt: skip
    if s.values:
        if s.group is None:
            errors.fail(call, "the kernel runs on one core; launch it as KERNEL[2]")
        received = s.group.exchange(call, ("sendrecv", pipe), (src.describe(), src.dtype, src.bits().copy()))
        if not 0 <= sender < len(received):
            errors.fail(call, f"recv_from_rank: {sender} is none of {len(received)} cores")
        sent, dtype, bits = received[sender]
        if dtype is not dst.dtype or bits.size != dst.size:
            errors.fail(call, f"dst: {dst.describe()}, core {sender} sends {sent}")
        dst.put(bits.reshape(dst.shape))
    s.note_write(dst)
    return DONE


def core_barrier(data, cores, engine=engine.gpsimd, name=None):
    """Waits until all `cores` have reached this call. They are always (0, 1) since NKI 0.7."""
    call = "nki.isa.core_barrier"
    s = sessions.active(call)
    operands.tensor(call, "data", data)
    numbers = whole.numbers(call, "cores", cores)
    if s.release.nki >= (0, 7) and numbers != (0, 1):
        errors.fail(call, f"cores: expected (0, 1), found {cores!r}")
    by = operands.engine(call, engine, ("tensor", "vector", "scalar", "gpsimd", "sync"), "gpsimd")
    s.emit("core_barrier", by, ("src",), [data], (("cores", len(numbers)),))
    if s.group is not None and len(numbers) > 1:
        s.group.exchange(call, "barrier")
    return DONE
