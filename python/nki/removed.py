"""Names and parameters that NKI once had in this dialect or in the legacy one, and what replaces them.

Source: the NKI migration guides (SDK 2.32), sections on NKI 0.2 to 0.4.
"""

from __future__ import annotations

from .tracer import errors, location, releases

_SLICES = "slices, nl.ds or tensor.ap, which say which elements an instruction works on"
_BLOCKS = "a list of tiles, because block dimensions were removed"
_LAUNCH = "kernel[2], which launches on the two cores of a pair"
_DYNAMIC = "nki.isa.tensor_copy with tensor.ap(scalar_offset=...)"

# By module and name: what replaces it.
_NAMES = {
    "nki.language": {"arange": _SLICES, "mgrid": _SLICES, "par_dim": _BLOCKS, "spmd_dim": _LAUNCH, "nc": _LAUNCH},
    "nki.isa": {"tensor_copy_dynamic_src": _DYNAMIC, "tensor_copy_dynamic_dst": _DYNAMIC},
}
_PARAMETERS = {
    "mask": _SLICES,
    "dst_rmw_op": "nki.isa.dma_compute(dst, srcs, reduce_op)",
    "unique_indices": "nki.isa.dma_compute(dst, srcs, reduce_op, unique_indices=...)",
    "use_gpsimd_dma": "dma_engine=nki.isa.dma_engine.gpsimd_dma",
    "imm": "src=nki.isa.register_alloc(NUMBER)",
}


def unknown(module: str, name: str):
    """Raises the error for a name that a module does not have."""
    instead = _NAMES.get(module, {}).get(name)
    text = f"was removed: use {instead}" if instead else "is not known to this tracer"
    raise errors.UnknownCall(f"{location.describe()}: {module}.{name} {text}")


def check_parameters(call: str, names):
    """Raises an error if a call was given a removed parameter, and names what replaces it."""
    for name in names:
        if name in _PARAMETERS:
            errors.fail(call, f"{name} was removed: use {_PARAMETERS[name]}")


def check_buffer(call: str, buffer):
    """Raises an error for a memory that is named by a string, if the release has no such names."""
    if isinstance(buffer, str) and releases.current().nki >= (0, 3):
        errors.fail(call, f"buffer: strings name no memory since NKI 0.3: use nl.{buffer}, without quotes")
