"""`import nki.typing as nt`: annotations of kernels' parameters, `nt.tensor` and `nt.tensor[128,
512]`.

The documentation of NKI 0.3 describes the shape as a declaration and mentions no check, so that
nothing is checked.
"""

from .tracer.tensor import Tensor as tensor

__all__ = ["tensor"]
