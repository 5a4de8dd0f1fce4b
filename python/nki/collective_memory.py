"""Checks where the tensors of collectives lie: in which kind of HBM, and who made them.

Documented (page of `all_gather`, SDK 2.33): its sources lie all in private_hbm or all in shared_hbm.
At LNC 1 sources are private, and destinations are shared only with NKI_LNC1_SHARED_HBM=1. Measured by
a user of NKI 0.7.0b1 on trn2: what `reduce_scatter_v` needs. Arguments of a kernel have no kind of
their own and pass.
"""

from __future__ import annotations

import math
import os

from .tracer import errors
from .tracer.layout import HBM

_SHARED, _PRIVATE = "shared_hbm", "private_hbm"
# Limits of `reduce_scatter_v` on trn2. Measured by a user.
V_RANKS = 4
V_BYTES_PER_RANK = 16 * 1024


def _kind(view) -> str | None:
    return getattr(view.storage.root.buffer, "name", None) if view.memory == HBM else None


def check_gather(call: str, s, srcs, dsts):
    """Checks the kinds of HBM of a gather. Earlier releases have no such rule."""
    if s.release.nki < (0, 7):
        return
    kinds = [_kind(view) for view in srcs]
    if _SHARED in kinds and _PRIVATE in kinds:
        errors.fail(call, f"srcs[{kinds.index(_SHARED)}] is in {_SHARED} and srcs[{kinds.index(_PRIVATE)}] in {_PRIVATE}: "
                    "expected all of them in one of the two")  # fmt: skip
    if math.prod(s.grid) > 1:
        return
    if _SHARED in kinds:
        errors.fail(call, f"srcs[{kinds.index(_SHARED)}]: {srcs[kinds.index(_SHARED)].describe()} is in {_SHARED}, "
                    f"expected {_PRIVATE} at LNC 1")  # fmt: skip
    found = [_kind(view) for view in dsts]
    if _SHARED in found and os.environ.get("NKI_LNC1_SHARED_HBM") != "1":
        errors.fail(call, f"dsts[{found.index(_SHARED)}]: {dsts[found.index(_SHARED)].describe()} is in {_SHARED}, expected "
                    f"{_PRIVATE} at LNC 1, or the variable NKI_LNC1_SHARED_HBM=1")  # fmt: skip


def check_reduce_scatter_v(call: str, s, ranks: list, srcs, dsts):
    """Checks what a user measured that `reduce_scatter_v` needs on trn2."""
    if math.prod(s.grid) != 2:
        errors.fail(call, "works at LNC 2 only (measured by a user): launch the kernel as KERNEL[2]")
    if len(ranks) != V_RANKS:
        errors.fail(call, f"replica_group: works with {V_RANKS} ranks only (measured by a user), found {len(ranks)}")
    for operand, view in [("srcs[0]", srcs[0]), ("dsts[0]", dsts[0])]:
        if _kind(view) != _SHARED:
            errors.fail(call, f"{operand}: {view.describe()}, expected a tensor that the kernel makes in {_SHARED}")
    if s.device.name == "trn2":
        per_rank = srcs[0].size * srcs[0].dtype.itemsize // len(ranks)
        if per_rank > V_BYTES_PER_RANK:
            errors.fail(call, f"srcs[0]: {per_rank} bytes per rank, at most {V_BYTES_PER_RANK} work on trn2 (measured by a user)")


def note_exchange(call: str, s, has_rdispls: bool, views):
    """Adds notes on what a user measured of `all_to_all_v`, which its page does not say."""
    if has_rdispls:
        s.note(f"{call}: within a node only has_rdispls=False works (measured by a user of NKI 0.7.0b1)")
    if any(_kind(view) != _SHARED for view in views):
        s.note(f"{call}: its tensors have to be made inside the kernel in {_SHARED} (measured by a user of NKI 0.7.0b1)")
