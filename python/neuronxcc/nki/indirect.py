"""`tensor[rows[...], columns]`: the rows of a tensor in HBM that the numbers of a tile name."""

from __future__ import annotations

from nki.tracer import errors
from nki.tracer.layout import HBM
from nki.tracer.tensor import Dynamic

from .tile import Tile, _view


def indirect_view(tensor, key):
    from .tile import readable

    at = next(i for i, part in enumerate(key) if isinstance(part, Tile))
    rows = key[at]
    if tensor.layout.memory != HBM or at != 0 or any(n != 1 for n in rows.shape[1:]):
        errors.fail("tensor[...]", f"{tensor.describe()}: a tile indexes the first dimension of a tensor in hbm, one number per partition")
    index = readable(rows)
    rest = _view(tensor, (slice(0, 1), *key[1:]), None) if not _by_expression(key[1:]) else _view(tensor, (0, *key[1:]), None)
    view = rest.tensor
    dynamic = Dynamic(index, None, tensor.strides[0], tensor.shape[0], True)
    shape = (rows.shape[0], *view.shape[1:])
    return Tile(view.with_layout(shape, (tensor.strides[0], *view.strides[1:]), view.offset, dynamic))


def _by_expression(key):
    return any(not isinstance(part, (slice, int)) for part in key)
