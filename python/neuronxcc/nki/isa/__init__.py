"""`import neuronxcc.nki.isa as nisa`: the instructions, which return their results."""

from nki.isa.enums import (
    dge_mode,
    engine,
    gpsimd_engine,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from nki.tracer import errors as _errors
from nki.tracer import location as _location

from ..keywords import refuse_misspelt_keywords as _refuse_misspelt_keywords
from .arithmetic import (
    activation,
    activation_reduce,
    bn_aggr,
    bn_stats,
    dropout,
    max8,
    memset,
    nc_find_index8,
    nc_match_replace8,
    nc_matmul,
    nc_transpose,
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
    tensor_copy_predicated,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor,
    tensor_tensor_scan,
)
from .data import (
    affine_select,
    dma_copy,
    dma_transpose,
    iota,
    local_gather,
    nc_stream_shuffle,
    range_select,
    select_reduce,
    sequence_bounds,
)


def get_nc_version():
    from nki import isa

    return isa.get_nc_version()


_refuse_misspelt_keywords(globals(), "nisa")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise _errors.UnknownCall(f"{_location.describe()}: neuronxcc.nki.isa.{name} is not known to this tracer")
