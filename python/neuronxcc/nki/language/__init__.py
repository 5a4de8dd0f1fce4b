"""`import neuronxcc.nki.language as nl`."""

import numpy as np
from nki.language import tile_size
from nki.tracer import errors as _errors
from nki.tracer import location as _location
from nki.tracer.dtypes import (
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)

from ..index import arange, mgrid
from ..keywords import refuse_misspelt_keywords as _refuse_misspelt_keywords
from .creation import (
    BUFFERS,
    device_print,
    ds,
    empty_like,
    full,
    hbm,
    ndarray,
    ones,
    par_dim,
    private_hbm,
    psum,
    rand,
    random_seed,
    sbuf,
    shared_constant,
    shared_hbm,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from .launch import affine_range, nc, num_programs, program_id, program_ndim, sequential_range, spmd_dim, static_range
from .math import *  # noqa: F403
from .transfer import atomic_rmw, copy, load, load_transpose2d, static_cast, store

float8_e4m3fn = float8_e4m3
dslice = ds


class fp32:
    """The limits of float32 as Python numbers."""

    min = float(np.finfo(np.float32).min)


_refuse_misspelt_keywords(globals(), "nl")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise _errors.UnknownCall(f"{_location.describe()}: neuronxcc.nki.language.{name} is not known to this tracer")
