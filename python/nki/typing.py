"""`from nki.typing import tensor`: annotations of kernels' parameters."""

from .tracer.tensor import Tensor as tensor

__all__ = ["tensor"]
