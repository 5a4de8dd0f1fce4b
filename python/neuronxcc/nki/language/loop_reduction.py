"""`nl.loop_reduce` and the in-place operators, which combine a result with the contents of its
destination.
"""

from __future__ import annotations

from nki import isa
from nki.tracer import location, operators, session
from nki.tracer.layout import SBUF

from .. import elementwise
from ..results import accumulate, issue_later, issue_pending, store
from ..tile import Tile, readable
from .launch import LoopIndex


def loop_reduce(x, op, loop_indices, *, mask=None, dtype=None, **unused):
    """Reduces over the iterations of the loops: the first iteration copies x, and later ones
    compute `destination <op> x`.
    """
    call = "nl.loop_reduce"
    tensor = operators.find(op, call)
    x = elementwise.tile(x, call, "x")
    box = elementwise.intersect_boxes(x.shape, elementwise.mask_box(mask, x.shape, call), x)
    result_dtype = elementwise.require_dtype(dtype, call) if dtype is not None else x.dtype
    first = all(int(i) == (i.first if isinstance(i, LoopIndex) else 0) for i in loop_indices)
    source = None if box == () else readable(x, box, call)

    def make(dst):
        if first:
            isa.tensor_copy(dst, source)
        else:
            with session.current.carried.allowed():
                isa.tensor_tensor(dst, dst, source, tensor)

    return issue_later(x.shape, result_dtype, SBUF, make, box)


def _begins_sum(destination: Tile) -> bool:
    """Returns whether `+=` begins a sum, because nothing has written the destination. Published
    kernels rely on this.
    """
    view = destination.tensor
    issue_pending()
    if destination.memory != SBUF or destination.overflow or view.storage.unwritten(view.layout, view.offset) is not True:
        return False
    session.current.note(f"{location.describe()}: += on memory that nothing has written begins at zero")
    return True


def _in_place(name):
    op = operators.ALL[name]

    def method(self, other):
        if name == "add":
            if accumulate(self, other):
                return self
            if _begins_sum(self):
                store(self, elementwise.copy_tile(other, self.dtype, call="+="))
                return self
        result = elementwise.binary(op, self, other, dtype=self.dtype, call=f"{name} in place")
        store(self, result)
        return self

    return method


for _sign, _name in (("iadd", "add"), ("isub", "subtract"), ("imul", "multiply"), ("itruediv", "divide")):
    setattr(Tile, f"__{_sign}__", _in_place(_name))
