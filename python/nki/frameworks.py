"""Converts tensors of torch and jax that a user's file passes to kernels. They become arrays, and
results become tensors of the same package.

This module imports neither package: whoever passes a tensor has imported it already.
"""

from __future__ import annotations

import sys

import numpy as np

from .tracer import dtypes


def package_of(value) -> str | None:
    """Returns "torch" or "jax" for a tensor of that package, else None."""
    name = type(value).__module__.partition(".")[0]
    if name == "torch" and hasattr(value, "detach"):
        return "torch"
    return "jax" if name in ("jax", "jaxlib") and hasattr(value, "dtype") else None


def as_array(value) -> tuple[np.ndarray, dtypes.DType | None]:
    """Returns the numbers of a framework's tensor, and its type."""
    dtype = dtypes.find(str(value.dtype))
    if package_of(value) == "torch":
        value = value.detach().cpu()
        value = value.float() if dtype is not None and dtype.float and dtype.itemsize < 4 else value
        return value.numpy(), dtype
    return np.asarray(value, np.float32 if dtype is not None and dtype.float else None), dtype


def as_framework_tensor(array: np.ndarray, dtype: dtypes.DType, package: str):
    """Returns a result as a tensor of `package`, the package of the arguments."""
    if package == "torch":
        torch = sys.modules["torch"]
        signed = array.astype({"uint16": np.int32, "uint32": np.int64}.get(str(array.dtype), array.dtype))
        tensor = torch.from_numpy(np.ascontiguousarray(signed))
        return tensor.to(getattr(torch, str(dtype), tensor.dtype)) if dtype.float else tensor
    jnp = sys.modules["jax"].numpy
    return jnp.asarray(array).astype(getattr(jnp, str(dtype), array.dtype))
