"""Types for annotations: `nt.tensor[128, 512]` and `nt.tensor[nt.mutable]`. The tracer ignores
them.
"""


class tensor:
    def __class_getitem__(cls, shape):
        return cls


mutable_tensor = tensor


class mutable:
    """A tensor that the kernel writes."""


scalar = int
