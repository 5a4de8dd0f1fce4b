"""`import nki.language as nl`: types, memories, tensors, loops and functions of tiles."""

from .. import removed as _removed
from ..tracer.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ..tracer.tensor import Tensor as NkiTensor
from .composite import (
    broadcast_to,
    dropout,
    expand_dims,
    gather_flattened,
    matmul,
    rms_norm,
    softmax,
    transpose,
    var,
    where,
)
from .creation import (
    device_print,
    ds,
    empty_like,
    full,
    load,
    load_transpose2d,
    ndarray,
    ones,
    rand,
    random_seed,
    shared_constant,
    shared_identity_matrix,
    store,
    zeros,
    zeros_like,
)
from .device_loops import fori_loop, no_reorder, while_loop
from .grids import NkiBlockGrid, NkiGrid, NkiTileGrid, alloc_blocks, alloc_tiles, blocks, tiles
from .loops import (
    affine_range,
    dynamic_range,
    num_programs,
    program_id,
    program_ndim,
    range_,
    sequential_range,
    static_range,
)
from .math import *  # noqa: F403
from .memory import (
    MemoryRegion,
    hbm,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    private_hbm,
    psum,
    sbuf,
    shared_hbm,
    tile_size,
)
from .objects import NKIObject

tensor = NkiTensor
bool = bool_  # noqa: A001
range = range_  # noqa: A001
dtype = DType


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    _removed.unknown("nki.language", name)
