"""`import nki.typing as nt`: annotations of kernels' parameters, `nt.tensor` and `nt.tensor[128, 512]`.

The documentation of NKI 0.3 has the shape as a declaration and says nothing of a check, so none is made.
"""

from .tracer.tensor import Tensor as tensor

__all__ = ["tensor"]
