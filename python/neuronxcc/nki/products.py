"""Products and transposes on the Tensor engine. The result is in PSUM."""

from __future__ import annotations

from math import prod

from nki import isa
from nki.tracer import errors
from nki.tracer.dtypes import float32
from nki.tracer.layout import PSUM, SBUF

from . import moves
from .elementwise import mask_box, require_dtype, tile
from .results import issue_later
from .tile import intersect, readable


def product(stationary, moving, mask=None, call: str = "nisa.nc_matmul", **how):
    """Returns stationary.T @ moving, of shape [columns of stationary, *free shape of moving]."""
    a, b = (moves.in_sbuf(tile(v, call, n)) for v, n in ((stationary, "stationary"), (moving, "moving")))
    domain = (prod(a.shape[1:]), *b.shape[1:])
    box = mask_box(mask, domain, call)
    rows = None
    for operand in (a, b):
        if operand.box is not None:
            if operand.box == ():
                box = ()
                break
            rows = intersect(rows, (operand.box[0],))
    if box != ():
        if a.box is not None and len(a.shape) == 2:
            box = intersect(box, (a.box[1], *((0, n) for n in domain[1:])))
        if b.box is not None:
            box = intersect(box, ((0, domain[0]), *b.box[1:]))
    if box == ():
        return issue_later(domain, float32, PSUM, None, (), product=True)
    if rows == ():
        errors.fail(call, f"{a.describe()} and {b.describe()}: the masks leave nothing to contract")
    if box is None and rows is None:
        one, two = readable(a, None, call), readable(b, None, call)
    else:
        whole = box or tuple((0, n) for n in domain)
        one = readable(a, (*(rows or ((0, a.shape[0]),)), *_columns(a, whole[0], call)), call)
        two = readable(b, (*(rows or ((0, b.shape[0]),)), *whole[1:]), call)

    def make(dst, accumulate):
        isa.nc_matmul(dst, one, two, accumulate=accumulate, **how)

    return issue_later(domain, float32, PSUM, make, box, product=True)


def _columns(stationary, columns, call):
    if len(stationary.shape) == 2:
        return (columns,)
    if columns != (0, prod(stationary.shape[1:])):
        errors.fail(call, f"mask: it cuts the {len(stationary.shape) - 1} free dimensions of {stationary.describe()}")
    return tuple((0, n) for n in stationary.shape[1:])


def matmul(x, y, transpose_x=False, mask=None, call: str = "nl.matmul"):
    """Returns x @ y. The Tensor engine needs x transposed, and transposes it unless the kernel has
    done so.
    """
    x = tile(x, call, "x")
    y = tile(y, call, "y")
    if mask is False:
        columns = x.shape[1] if transpose_x else x.shape[0]
        return issue_later((columns, *y.shape[1:]), float32, PSUM, None, (), product=True)
    return product(x if transpose_x else moves.transposed(x), y, mask=mask, call=call)


def transpose(data, mask=None, dtype=None, engine=isa.engine.unknown, call: str = "nisa.nc_transpose"):
    """Returns the transpose of `data`.

    The Tensor engine writes PSUM. The Vector engine writes SBUF and is used for up to 32 x 32.
    Larger transposes run on the Tensor engine even if the kernel asks for the Vector engine,
    because published kernels that do so ran on the device.
    """
    data = tile(data, call, "data")
    p, f = data.shape[0], prod(data.shape[1:])
    box = mask_box(mask, data.shape, call)
    if data.box is not None:
        box = intersect(box, data.box)
    by_vector = p <= 32 and f <= 32 and engine.name in ("vector", "unknown")
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    memory = SBUF if by_vector else PSUM
    if box == ():
        return issue_later((f, p), result_dtype, memory, None, ())
    if not by_vector:
        data = moves.in_sbuf(data)
    if box is not None and data.ndim != 2:
        errors.fail(call, f"mask: {data.describe()} has more than one free dimension")
    source = readable(data, box, call)
    chosen = isa.engine.vector if by_vector else isa.engine.tensor
    return issue_later(
        (f, p), result_dtype, memory, lambda dst: isa.nc_transpose(dst, source, engine=chosen), box and (box[1], box[0])
    )
