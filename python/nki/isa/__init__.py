"""`import nki.isa as nisa`: one function per instruction.

A function checks its operands, records the instruction, and computes its values if the run computes
values. Names and parameters are those of the public nki.isa documentation.
"""

from .. import removed as _removed
from ..tracer.errors import NkiValidationError
from ..tracer.registers import NkiScalar
from ..tracer.registers import Register as VirtualRegister
from .activations import activation, activation_reduce, exponential
from .cores import core_barrier, sendrecv
from .dma import dma_compute, dma_copy, dma_transpose
from .elementwise import (
    memset,
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_copy_predicated,
    tensor_scalar,
    tensor_tensor,
)
from .enums import (
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    sync_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from .instruction import NkiInstruction
from .movement import local_gather, nc_n_gather, nc_stream_shuffle
from .mx import nc_matmul_mx, quantize_mx
from .names import checked_instruction as _checked_instruction
from .random_numbers import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from .reductions import (
    bn_aggr,
    bn_stats,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor_scan,
)
from .searches import sequence_bounds, topk
from .selection import (
    affine_select,
    iota,
    max8,
    nc_find_index8,
    nc_match_replace8,
    nonzero_with_count,
    range_select,
    select_reduce,
)
from .sequencer import register_alloc, register_load, register_move, register_store, scalar_load, scalar_store
from .staged_activation import activate2
from .tensor_engine import nc_matmul, nc_transpose


for _name, _value in list(globals().items()):
    if not _name.startswith("_"):
        globals()[_name] = _checked_instruction(_value)


def get_nc_version():
    from ..tracer import session

    return nc_version(session.current.device.generation if session.current else 3)


def get_nc_sub_version():
    return 0


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    _removed.unknown("nki.isa", name)


__all__ = [name for name in dir() if not name.startswith("_")]
