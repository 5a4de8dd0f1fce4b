"""Indices that are in memory while the kernel runs.

`tensor[rows[...], columns]` selects the rows of a tensor in HBM whose numbers are in a tile.
Numbers may come before the tile, as in `cache[0, rows[...], columns]`. A tile of one element moves
the whole view along its dimension. It may follow the rows, be added to an index expression, or
begin a `nl.ds`. Such views exist on chip, too, where `nisa.tensor_copy_dynamic_src` reads them.
"""

from __future__ import annotations

from nki.tracer import errors
from nki.tracer.layout import HBM
from nki.tracer.tensor import Dynamic

from .index import Index
from .tile import Tile, readable
from .views import view


def has_row_per_partition(tensor, key, axis: int) -> bool:
    """Returns whether the tile at this position of a key has a row per partition instead of one
    number for all.
    """
    rows_are_here = tensor.layout.memory == HBM and all(isinstance(part, int) for part in key[:axis])
    return rows_are_here or key[axis].size != 1


def dynamic_index(tensor, dynamic_parts) -> Dynamic:
    """Returns the run-time index of a view. `dynamic_parts` holds the dimension and the tile that
    moves the view along it.
    """
    if len(dynamic_parts) > 1 or tensor.dynamic is not None:
        errors.fail("tensor[...]", f"{tensor.describe()}: one number in memory moves a view, found {len(dynamic_parts)}")
    axis, offset = dynamic_parts[0]
    if offset.size != 1:
        errors.fail("tensor[...]", f"{offset.describe()}: a tile that moves a view has one element")
    if tensor.layout.memory != HBM and axis == 0:
        errors.fail("tensor[...]", f"{tensor.describe()}: a number in memory moves a view within partitions, not among them")
    return Dynamic(readable(offset), None, tensor.strides[axis], tensor.shape[axis], False)


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
