"""The limits of the NeuronCores of three generations that a kernel can break.

Documented: partitions, PSUM (8 banks of 2 KiB per partition), SBUF per partition (192, 224, 256
KiB), and the limits of nc_matmul and bn_stats. The usable part of SBUF is 16 KiB smaller. That is
documented for trn1, the practice of public kernels on trn2, and assumed on trn3.
"""

from __future__ import annotations

from dataclasses import dataclass

PARTITIONS = 128
BANK_BYTES = 2048
BANKS = 8
PSUM_BYTES = BANKS * BANK_BYTES
STATIONARY_COLUMNS = 128


@dataclass(frozen=True)
class Device:
    name: str
    generation: int  # the number in nki.isa.nc_version
    sbuf_bytes: int  # physical bytes of each partition
    # The largest free size of nc_matmul's moving operand, by the result's type.
    moving_columns: dict

    @property
    def usable_sbuf_bytes(self) -> int:
        return self.sbuf_bytes - 16 * 1024


_BANK = {"float32": 512, "bfloat16": 1024}
DEVICES = {
    "trn1": Device("trn1", 2, 192 * 1024, _BANK),
    "trn2": Device("trn2", 3, 224 * 1024, _BANK),
    "trn3": Device("trn3", 4, 256 * 1024, {"float32": 4096, "bfloat16": 8192}),
}
ALIASES = {"inf2": "trn1", "gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


def find(name: str) -> Device | None:
    return DEVICES.get(ALIASES.get(name, name))
