"""Collectives between chips, of which the tracer knows none: a kernel that imports this module runs as far as it calls none."""

from ..tracer import errors as _errors
from ..tracer import location as _location


class ReplicaGroup:
    """Which ranks take part; part of kernels' parameters."""

    def __init__(self, replica_groups=None, **described):
        self.replica_groups = replica_groups
        self.__dict__.update(described)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise _errors.UnknownCall(f"{_location.describe()}: nki.collectives.{name} is not known to this tracer")
