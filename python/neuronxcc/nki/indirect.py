"""`tensor[rows[...], columns]`: the rows of a tensor in HBM that the numbers of a tile name. Numbers may come before them, as
in `cache[0, rows[...], columns]`."""

from __future__ import annotations

from nki.tracer import errors
from nki.tracer.layout import HBM
from nki.tracer.tensor import Dynamic

from .index import Index
from .tile import Tile, readable
from .views import view


def indirect_view(tensor, key):
    while isinstance(key[0], int):
        tensor, key = tensor[key[0]], key[1:]
    rows = key[0]
    if tensor.layout.memory != HBM or not isinstance(rows, Tile) or any(n != 1 for n in rows.shape[1:]):
        errors.fail(
            "tensor[...]",
            f"{tensor.describe()}: a tile indexes the first dimension of a tensor in hbm, behind numbers alone, one number per partition",
        )
    index = readable(rows)
    first = 0 if any(isinstance(part, Index) for part in key[1:]) else slice(0, 1)
    row, overflow = view(tensor, (first, *key[1:]))
    dynamic = Dynamic(index, None, tensor.strides[0], tensor.shape[0], True)
    shape = (rows.shape[0], *row.shape[1:])
    return row.with_layout(shape, (tensor.strides[0], *row.strides[1:]), row.offset, dynamic), overflow
