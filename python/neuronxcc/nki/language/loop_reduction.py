"""`nl.loop_reduce` and the in-place operators, which combine a result with the contents of its
place.
"""

from __future__ import annotations

from nki import isa
from nki.tracer import location, operators, session
from nki.tracer.layout import SBUF

from .. import elementwise
from ..results import accumulate, issue_later, settle, store
from ..tile import Tile, readable
from .launch import LoopIndex


def loop_reduce(x, op, loop_indices, *, mask=None, dtype=None, **unused):
    """Reduces over the iterations of the loops: the first iteration copies x, and later ones
    compute `place <op> x`.
    """
    call = "nl.loop_reduce"
    found = operators.find(op, call)
    x = elementwise.tile(x, call, "x")
    box = elementwise.boxes(x.shape, elementwise.mask_box(mask, x.shape, call), x)
    given = elementwise.found_dtype(dtype, call) if dtype is not None else x.dtype
    first = all(int(i) == (i.first if isinstance(i, LoopIndex) else 0) for i in loop_indices)
    source = None if box == () else readable(x, box, call)

    def make(dst):
        if first:
            isa.tensor_copy(dst, source)
        else:
            isa.tensor_tensor(dst, dst, source, found)

    return issue_later(x.shape, given, SBUF, make, box)


def _begins(place: Tile) -> bool:
    """Returns whether `+=` begins a sum, because nothing has written the place. Published kernels
    rely on this.
    """
    view = place.tensor
    settle()
    if place.memory != SBUF or place.overflow or view.storage.unwritten(view.layout, view.offset) is not True:
        return False
    session.current.note(f"{location.describe()}: += on memory that nothing has written begins at zero")
    return True


def _in_place(name):
    op = operators.ALL[name]

    def method(self, other):
        if name == "add":
            if accumulate(self, other):
                return self
            if _begins(self):
                store(self, elementwise.copied(other, self.dtype, call="+="))
                return self
        result = elementwise.binary(op, self, other, dtype=self.dtype, call=f"{name} in place")
        store(self, result)
        return self

    return method


for _sign, _name in (("iadd", "add"), ("isub", "subtract"), ("imul", "multiply"), ("itruediv", "divide")):
    setattr(Tile, f"__{_sign}__", _in_place(_name))
