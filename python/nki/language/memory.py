"""The memories, and the sizes of a tile."""

from __future__ import annotations

from enum import Enum

from ..tracer import device as devices
from ..tracer import session as sessions
from ..tracer import tensor as tensors
from ..tracer.layout import HBM, PSUM, SBUF


class MemoryRegion(Enum):
    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"


sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm = hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm


class _ArgumentHbm:
    """The memory of arguments, which equals both kinds of HBM. AWS's MX samples compare with
    `nl.hbm`, nki-library with `nl.shared_hbm`.
    """

    name = value = "shared_hbm"

    def __eq__(self, other):
        return other is self or other is private_hbm or other is shared_hbm

    def __hash__(self):
        return hash(shared_hbm)

    def __repr__(self):
        return repr(shared_hbm)


_argument_hbm = _ArgumentHbm()
tensors.BUFFERS.update({SBUF: sbuf, PSUM: psum, HBM: _argument_hbm})
_MEMORY = {sbuf: SBUF, psum: PSUM, private_hbm: HBM, shared_hbm: HBM}
_NAMES = {"sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": private_hbm, "shared_hbm": shared_hbm}


def region(buffer) -> tuple:
    """Returns the region and the tracer's memory that `buffer` names, or (None, None)."""
    found = _NAMES.get(buffer) if isinstance(buffer, str) else shared_hbm if buffer is _argument_hbm else buffer
    return (found, _MEMORY[found]) if isinstance(found, MemoryRegion) else (None, None)


def _region(buffer):
    return region(getattr(buffer, "buffer", buffer))[1]


def is_hbm(buffer):
    return _region(buffer) == HBM


def is_on_chip(buffer):
    return _region(buffer) in (SBUF, PSUM)


def is_psum(buffer):
    return _region(buffer) == PSUM


def is_sbuf(buffer):
    return _region(buffer) == SBUF


class _TileSize:
    """`nl.tile_size`: sizes of the device that the kernel is traced for. Outside a kernel the
    device is trn2.
    """

    pmax = devices.PARTITIONS
    psum_fmax = psum_bank_fmax = gemm_moving_fmax = bn_stats_fmax = 512
    psum_bank_fmax_bytes = devices.BANK_BYTES
    gemm_stationary_fmax = devices.STATIONARY_COLUMNS
    psum_min_align = sbuf_min_align = 4
    psum_num_banks = devices.BANKS

    @property
    def _device(self):
        return sessions.current.device if sessions.current else devices.DEVICES["trn2"]

    @property
    def sbuf_size_bytes(self):
        return self._device.sbuf_bytes * devices.PARTITIONS

    @property
    def sbuf_fmax(self):
        return self._device.usable_sbuf_bytes // 4

    @property
    def sbuf_fmax_bytes(self):
        return self._device.usable_sbuf_bytes

    total_available_sbuf_size = sbuf_fmax_bytes


tile_size = _TileSize()
