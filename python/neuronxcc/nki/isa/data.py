"""Instructions that move, generate and select elements."""

from __future__ import annotations

from nki import isa
from nki.tracer import errors, operands, whole
from nki.tracer.layout import HBM, SBUF

from ..elementwise import broadcast_operand, column_operand, mask_box, require_dtype, tile, writable_column
from ..index import Index, Mask
from ..language.transfer import any_tile, note_store
from ..results import issue_later, issue_pending
from ..tile import intersect, match_shape, readable, writable


def _pattern(expression: Index, shape, call, operand):
    """Returns an affine expression for the hardware's generator: pairs (step, count), start, step
    between partitions.
    """
    if expression.shape != tuple(shape):
        steps = (0,) * (len(shape) - expression.ndim) + expression.steps
    else:
        steps = expression.steps
    if len(steps) != len(shape):
        errors.fail(call, f"{operand}: {expression!r} has other dimensions than a tile of {list(shape)}")
    return [[s, n] for s, n in zip(steps[1:], shape[1:])], expression.first, steps[0]


def iota(expr, dtype, *, mask=None, **unused):
    """Returns the numbers of an index expression. A loop's counter or a program_id has no
    dimensions and gives one number.
    """
    call = "nisa.iota"
    if isinstance(expr, int) and not isinstance(expr, bool):
        return issue_later((1, 1), require_dtype(dtype, call), SBUF, lambda dst: isa.iota(dst, [[0, 1]], expr))
    if type(expr) is not Index:
        errors.fail(call, f"expr: expected an index expression, found {operands.describe(expr)}")
    shape = expr.shape if expr.ndim > 1 else (1, *expr.shape)
    pattern, first, channel = _pattern(expr, shape, call, "expr")
    return issue_later(shape, require_dtype(dtype, call), SBUF, lambda dst: isa.iota(dst, pattern, first, channel))


def affine_select(pred, on_true_tile, on_false_value, *, mask=None, dtype=None, **unused):
    """Returns on_true_tile where the affine predicate holds, else the number."""
    call = "nisa.affine_select"
    data = tile(on_true_tile, call, "on_true_tile")
    result_dtype = require_dtype(dtype, call) if dtype is not None else data.dtype
    box = intersect(mask_box(mask, data.shape, call), data.box)
    if box == ():
        return issue_later(data.shape, result_dtype, SBUF, None, ())
    if isinstance(pred, bool):
        source = readable(data, box, call)
        if pred:
            return issue_later(data.shape, result_dtype, SBUF, lambda dst: isa.tensor_copy(dst, source), box)
        return issue_later(data.shape, result_dtype, SBUF, lambda dst: isa.memset(dst, on_false_value), box)
    if not isinstance(pred, Mask):
        errors.fail(call, f"pred: expected a comparison of index expressions, found {operands.describe(pred)}")
    if box is not None:
        errors.fail(call, "mask: a part of a tile cannot be selected from")
    source = readable(data, box, call)

    def make(dst):
        current = source
        for term in pred.terms:
            pattern, first, channel = _pattern(term, data.shape, call, "pred")
            isa.affine_select(dst, pattern, channel, current, on_false_value, cmp_op="greater_equal", offset=first)
            current = dst

    return issue_later(data.shape, result_dtype, SBUF, make, box)


def dma_copy(
    *, dst, src, mask=None, dst_rmw_op=None, oob_mode=isa.oob_mode.error, dge_mode=isa.dge_mode.unknown, **unused
):
    call = "nisa.dma_copy"
    dst, src = any_tile(dst, call, "dst"), any_tile(src, call, "src")
    src.tensor
    issue_pending()
    if dst.memory == HBM:
        note_store(dst)
    box = intersect(intersect(mask_box(mask, dst.shape, call), dst.box), src.box)
    if box != ():
        source = readable(match_shape(src, dst.shape), box, call)
        isa.dma_copy(writable(dst, box, call), source, dst_rmw_op=dst_rmw_op, oob_mode=oob_mode, dge_mode=dge_mode)


def dma_transpose(src, *, axes=None, mask=None, dtype=None, **unused):
    call = "nisa.dma_transpose"
    src = any_tile(src, call, "src")
    source = readable(src, mask_box(mask, src.shape, call), call)
    order = whole.numbers(call, "axes", axes) if axes is not None else {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(src.ndim, ())
    if sorted(order) != list(range(src.ndim)):
        errors.fail(call, f"axes: {axes} is no order of the dimensions of {src.describe()}")

    def make(dst):
        isa.dma_transpose(dst, source, axes=order)

    make.dma = True
    return issue_later(tuple(src.shape[a] for a in order), require_dtype(dtype or src.dtype, call), SBUF, make)


def nc_stream_shuffle(src, dst, shuffle_mask, *, mask=None, **unused):
    call = "nisa.nc_stream_shuffle"
    source, dst = readable(tile(src, call, "src")), tile(dst, call, "dst")
    issue_pending()
    isa.nc_stream_shuffle(writable(dst), source, shuffle_mask)


def local_gather(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None, **unused):
    call = "nisa.local_gather"
    src, numbers = tile(src_buffer, call, "src_buffer"), tile(index, call, "index")
    columns = numbers.size // numbers.shape[0]
    whole = num_valid_indices in (None, columns * 16)  # 16 partitions share their indices
    shape = (src.shape[0], *((columns, 16) if whole else (num_valid_indices,)), num_elem_per_idx)
    one, two = readable(src), readable(numbers)
    return issue_later(
        shape, src.dtype, SBUF, lambda dst: isa.local_gather(dst, one, two, num_elem_per_idx, num_valid_indices)
    )


def range_select(*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=isa.reduce_cmd.idle, reduce_res=None,
                 reduce_op="maximum", range_start=0, on_false_value=-3.4028235e38, mask=None, dtype=None, **unused):  # fmt: skip
    call = "nisa.range_select"
    data = tile(on_true_tile, call, "on_true_tile")
    low, high = (column_operand(v, data, None, call, n) for v, n in ((bound0, "bound0"), (bound1, "bound1")))
    source = readable(data)
    total = None if reduce_res is None else writable_column(reduce_res, None, call, "reduce_res")

    def make(dst):
        isa.range_select(
            dst, source, comp_op0, comp_op1, low, high, reduce_cmd, total, reduce_op, range_start, on_false_value
        )

    return issue_later(data.shape, require_dtype(dtype or data.dtype, call), SBUF, make)


def select_reduce(*, dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=isa.reduce_cmd.idle, reduce_op="maximum",
                  reverse_pred=False, mask=None, **unused):  # fmt: skip
    call = "nisa.select_reduce"
    dst = tile(dst, call, "dst")
    issue_pending()
    chosen = broadcast_operand(tile(predicate, call, "predicate"), dst.shape, None, call)
    yes = broadcast_operand(tile(on_true, call, "on_true"), dst.shape, None, call)
    no = column_operand(on_false, dst, None, call, "on_false")
    total = None if reduce_res is None else writable_column(reduce_res, None, call, "reduce_res")
    issue_pending()
    isa.select_reduce(writable(dst), chosen, yes, no, total, reduce_cmd, reduce_op, reverse_pred)


def sequence_bounds(*, segment_ids, dtype=None, **unused):
    call = "nisa.sequence_bounds"
    ids = tile(segment_ids, call, "segment_ids")
    source = readable(ids)
    shape = (ids.shape[0], 2, ids.size // ids.shape[0])
    return issue_later(shape, require_dtype(dtype or ids.dtype, call), SBUF, lambda dst: isa.sequence_bounds(dst, source))
