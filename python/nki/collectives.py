"""`import nki.collectives as ncc`: data exchange between the ranks of a replica group.

Only one rank runs, the first of its group. Nothing is known about the other ranks, so that a run
with values needs a group of one rank. The trace records what the rank's own DMA engines move, as
`sendrecv`. The result of an exchange is recorded once, and the result of all_reduce twice. Assumed:
all_reduce runs on a ring that reduces on its first pass and gathers on its second. There is no
public figure for the links between chips, so their time is not included, and a note of the trace
says so.
"""

from __future__ import annotations

from enum import Enum
from functools import partial

import numpy as np

from . import collective_memory
from .isa.instruction import DONE, NkiInstruction
from .language.objects import NKIObject
from .tracer import dtypes, errors, operands, operators, registers, releases
from .tracer import location as _location
from .tracer import session as sessions
from .tracer.layout import HBM, SBUF

_NOTE = "collectives: the trace is that of rank {}; what they move is priced as this core's DMA (assumed), the links between chips are not"


class rg_partition_op(Enum):  # noqa: N801
    bitwise_and = 0
    div = 1
    mod = 2


_PARTITIONS = {rg_partition_op.bitwise_and: int.__and__, rg_partition_op.div: int.__floordiv__,
               rg_partition_op.mod: int.__mod__}  # fmt: skip


class ReplicaGroup(NKIObject):
    """Lists of ranks. The ranks of a list exchange data with each other."""

    def __init__(self, replica_groups=None, **kwargs):
        groups = replica_groups if replica_groups is not None else next(iter(kwargs.values()), None)
        call = "nki.collectives.ReplicaGroup"
        try:
            self.replica_groups = [[int(rank) for rank in group] for group in groups]
        except TypeError:
            errors.fail(call, f"expected lists of ranks, found {groups!r}")
        ranks = sum(self.replica_groups, [])
        if not ranks or not all(self.replica_groups) or len(set(ranks)) != len(ranks) or min(ranks) < 0:
            errors.fail(call, f"expected lists of ranks, each rank once, found {groups!r}")

    @staticmethod
    def from_partition_op(world_size, op, operand):
        lists: dict = {}
        for rank in range(int(world_size)):
            lists.setdefault(_PARTITIONS[op](rank, int(operand)), []).append(rank)
        return ReplicaGroup(list(lists.values()))


def _ranks(call, group) -> list:
    """Returns the list that the traced rank is in."""
    if not isinstance(group, ReplicaGroup):
        errors.fail(call, f"replica_group: expected a ReplicaGroup, found {group!r}")
    found = group.replica_groups[0]
    s = sessions.active(call)
    s.note(_NOTE.format(found[0]))
    if s.values and len(found) > 1:
        errors.fail(call, f"replica_group: the numbers of {len(found) - 1} other ranks are not known here; run without values")
    return found


def _pairs(call, dsts, srcs, memories=(HBM, SBUF)):
    """Checks the tensors of an exchange and returns them in pairs."""
    if not isinstance(dsts, (list, tuple)) or not isinstance(srcs, (list, tuple)) or len(dsts) != len(srcs) or not dsts:
        errors.fail(call, "srcs, dsts: expected two lists of equally many tensors")
    for i, (dst, src) in enumerate(zip(dsts, srcs)):
        for operand, view in ((f"dsts[{i}]", dst), (f"srcs[{i}]", src)):
            if operands.tensor(call, operand, view).memory not in memories:
                errors.fail(call, f"{operand}: {view.describe()}, expected a tensor in {' or '.join(memories)}")
        if src.memory != dst.memory:
            errors.fail(call, f"srcs[{i}] is {src.describe()} and dsts[{i}] is {dst.describe()}: expected one memory")
    if len(dsts) > 1 and dsts[0].memory != HBM:
        errors.fail(call, f"srcs: several tensors have to lie in hbm, found {srcs[0].describe()}")
    return list(zip(dsts, srcs))


def _parts(call, view, dim, count, operand):
    """Returns `count` equal parts of a view along `dim`."""
    dim = int(dim)
    if not 0 <= dim < view.ndim or view.shape[dim] % count:
        errors.fail(call, f"{operand}: {view.describe()} has no {count} equal parts along dimension {dim}")
    size = view.shape[dim] // count
    return [view[(slice(None),) * dim + (slice(i * size, (i + 1) * size),)] for i in range(count)]


def _move(s, call, dst, src, ranks):
    if dst.size != src.size or dst.dtype is not src.dtype:
        errors.fail(call, f"dsts is {dst.describe()} and srcs is {src.describe()}, in parts of {len(ranks)} ranks: expected "
                          f"equally many elements of one type")  # fmt: skip
    s.note_read(src, call, "srcs")
    s.emit("sendrecv", "dma", ("dst", "src"), [dst, src], (("collective", call.rpartition(".")[2]), ("ranks", len(ranks))))
    if s.values:
        dst.put(src.bits().reshape(dst.shape))
    s.note_write(dst)


def _reduction(call, op):
    found = operators.find(op, call)
    if found.name not in ("add", "minimum", "maximum"):
        errors.fail(call, f"op: expected nl.add, nl.minimum or nl.maximum, found {found!r}")


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None):
    """Sets dsts to the reduction of the srcs of all ranks."""
    call = "nki.collectives.all_reduce"
    s = sessions.active(call)
    _reduction(call, op)
    ranks = _ranks(call, replica_group)
    for dst, src in _pairs(call, dsts, srcs):
        for _ in range(2 if len(ranks) > 1 else 1):
            _move(s, call, dst, src, ranks)
    return DONE


def all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None):
    """Sets dsts to the srcs of all ranks, concatenated along `collective_dim`."""
    call = "nki.collectives.all_gather"
    s = sessions.active(call)
    ranks = _ranks(call, replica_group)
    pairs = _pairs(call, dsts, srcs)
    collective_memory.check_gather(call, s, srcs, dsts)
    for dst, src in pairs:
        for part in _parts(call, dst, collective_dim, len(ranks), "dsts"):
            _move(s, call, part, src, ranks)
    return DONE


def reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None):
    """Sets dsts to this rank's part of the reduction of the srcs of all ranks."""
    call = "nki.collectives.reduce_scatter"
    s = sessions.active(call)
    _reduction(call, op)
    ranks = _ranks(call, replica_group)
    for dst, src in _pairs(call, dsts, srcs):
        for part in _parts(call, src, collective_dim, len(ranks), "srcs"):
            _move(s, call, dst, part, ranks)
    return DONE


def all_to_all(srcs, dsts, replica_group, collective_dim, priority=None, name=None):
    """Sets part r of dsts to this rank's part of the srcs of rank r."""
    call = "nki.collectives.all_to_all"
    s = sessions.active(call)
    ranks = _ranks(call, replica_group)
    for dst, src in _pairs(call, dsts, srcs, (HBM,)):
        parts = (_parts(call, view, collective_dim, len(ranks), o) for view, o in ((dst, "dsts"), (src, "srcs")))
        for target, source in zip(*parts):
            _move(s, call, target, source, ranks)
    return DONE


def all_to_all_v(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None):
    """Sets dsts to the chunks that all ranks send to this rank. A run-time table holds their
    lengths and positions.
    """
    call = "nki.collectives.all_to_all_v"
    collective_memory.note_exchange(call, sessions.active(call), has_rdispls, [*srcs, *dsts])
    return _exchange_of_run_time_sizes(call, srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls)


def all_gather_v(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None):
    """Sets dsts to one chunk of the srcs of each rank, in slots of one size. A run-time table holds
    the lengths of the chunks.
    """
    call = "nki.collectives.all_gather_v"
    return _exchange_of_run_time_sizes(call, srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, slots=True)


def reduce_scatter_v(srcs, dsts, replica_group, metadata_tensor, op, recv_counts_known=False, has_rdispls=False, priority=None,
                     name=None):  # fmt: skip
    """Sets dsts to the reduction of the chunks that all ranks send to this rank. A run-time table
    holds their lengths and positions.

    The call is in a preview of NKI 0.7.0, and its page could not be read. Assumed: the parameters of
    `all_gather_v`, and `op` as in `reduce_scatter`.
    """
    call = "nki.collectives.reduce_scatter_v"
    s = sessions.active(call)
    releases.since(call, (0, 7))
    _reduction(call, op)
    ranks = _ranks(call, replica_group)
    _pairs(call, dsts, srcs, (HBM,))
    collective_memory.check_reduce_scatter_v(call, s, ranks, srcs, dsts)
    s.note(f"{call}: a call of a preview of NKI 0.7.0 whose parameters are assumed to be those of all_gather_v and op")
    return _exchange_of_run_time_sizes(call, srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls)


class Prepared(NkiInstruction):
    """The result of a "prepare" call, which a trigger runs. The table is read by then. Its setup
    takes no time of its own (assumed: the setup is hidden).
    """

    __slots__ = ("kind", "arguments")

    def __init__(self, kind, arguments):
        self.kind = kind
        self.arguments = arguments


def _prepare(kind, srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None,
             name=None):  # fmt: skip
    call = f"nki.collectives.{kind}_prepare"
    releases.since(call, (0, 7))
    s = sessions.active(call)
    if s.state.get("prepared") is not None:
        errors.fail(call, "the collective prepared before has not been triggered; they share one slot")
    _table(call, metadata_tensor, 4 if has_rdispls else 3, len(_ranks(call, replica_group)))
    prepared = s.state["prepared"] = Prepared(kind, (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls))
    return prepared


def _trigger(kind, prepare_instr, name=None):
    call = f"nki.collectives.{kind}_trigger"
    s = sessions.active(call)
    if getattr(prepare_instr, "kind", None) != kind or s.state.get("prepared") is not prepare_instr:
        errors.fail(call, f"prepare_instr: expected what the {kind}_prepare before it returned, and once")
    s.state["prepared"] = None
    return _EXCHANGES[kind](*prepare_instr.arguments)


# An exchange in two steps, since NKI 0.7: one call prepares it, and a trigger moves the data.
_EXCHANGES = {"all_to_all_v": all_to_all_v, "all_gather_v": all_gather_v}
all_to_all_v_prepare, all_to_all_v_trigger = partial(_prepare, "all_to_all_v"), partial(_trigger, "all_to_all_v")
all_gather_v_prepare, all_gather_v_trigger = partial(_prepare, "all_gather_v"), partial(_trigger, "all_gather_v")


def _exchange_of_run_time_sizes(call, srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, slots=False):
    """Records an exchange whose sizes are known only at run time. With `slots`, a chunk arrives
    from each rank, otherwise as much as this rank sends.
    """
    s = sessions.active(call)
    ranks = _ranks(call, replica_group)
    dst, src = _pairs(call, dsts, srcs, (HBM,))[0]
    if len(dsts) > 1:
        errors.fail(call, f"srcs, dsts: expected lists of one tensor each, found {len(dsts)}")
    if dst.dtype is not src.dtype:
        errors.fail(call, f"dsts is {dst.describe()} and srcs is {src.describe()}: expected one type")
    table = _table(call, metadata_tensor, 4 if has_rdispls else 3, len(ranks))
    s.note_read(src, call, "srcs")
    s.note(f"{call}: how much is moved is known at run time only; priced is what both tensors hold (assumed)")
    flat, source = dst.reshape((dst.size,)), src.reshape((src.size,))
    attributes = (("collective", call.rpartition(".")[2]), ("ranks", len(ranks)))
    for part in _parts(call, flat, 0, len(ranks), "dsts") if slots else [flat]:
        common = min(part.size, src.size)
        s.emit("sendrecv", "dma", ("dst", "src", "scalar0"), [part[:common], source[:common], table], attributes)
    if s.values:
        counts = table.bits().reshape(-1, len(ranks)).astype(np.int64)
        at = int(counts[3, 0]) if has_rdispls else 0
        sent, begin = int(counts[0, 0]), int(counts[1, 0])
        if begin + sent > src.size or at + sent > dst.size:
            errors.fail(call, f"metadata_tensor: {sent} elements from {begin} of {src.describe()} to {at} of {dst.describe()}")
        flat[at : at + sent].put(source[begin : begin + sent].bits())
        if not recv_counts_known:
            _row(table, 2).put(counts[:1, :].astype(np.uint32).reshape(_row(table, 2).shape))
    s.note_write(dst)
    if not recv_counts_known:
        s.note_write(_row(table, 2))
    return DONE


def _table(call, view, rows, ranks):
    """Checks and returns the table of counts and displacements. Row 2 need not have been written,
    because the exchange writes it.
    """
    expected = (rows, ranks) if operands.tensor(call, "metadata_tensor", view).memory == HBM else (1, rows, ranks)
    if view.dtype is not dtypes.uint32 or view.shape != expected:
        errors.fail(call, f"metadata_tensor: {view.describe()}, expected uint32 {list(expected)}")
    for row in (0, 1, 3)[: rows - 1]:
        sessions.active(call).note_read(_row(view, row), call, "metadata_tensor")
    return view


def _row(table, row):
    return table[row : row + 1] if table.memory == HBM else table[:, row : row + 1]


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None):
    """Sets dsts to the srcs of the rank that sends to this one."""
    call = "nki.collectives.collective_permute"
    s = sessions.active(call)
    ranks = sorted({int(rank) for pair in source_target_pairs for rank in pair})
    _ranks(call, ReplicaGroup([ranks]))
    for dst, src in _pairs(call, dsts, srcs, (HBM,)):
        _move(s, call, dst, src, ranks)
    return DONE


def _channels(call, lists, operand):
    if not isinstance(lists, (list, tuple)) or any(not isinstance(c, (list, tuple)) or len(c) != 1 for c in lists):
        errors.fail(call, f"{operand}: expected a list with one tensor for each channel")
    return [channel[0] for channel in lists]


def collective_permute_implicit(srcs_by_channel, dsts_by_channel, replica_group, channel_ids=(0,), priority=None, name=None):
    """Sets dsts to the srcs of the previous rank in the ring."""
    call = "nki.collectives.collective_permute_implicit"
    s = sessions.active(call)
    ranks = _ranks(call, replica_group)
    dsts, srcs = _channels(call, dsts_by_channel, "dsts_by_channel"), _channels(call, srcs_by_channel, "srcs_by_channel")
    for dst, src in zip(dsts, srcs):
        _pairs(call, [dst], [src])
        _move(s, call, dst, src, ranks)
    return DONE


def collective_permute_implicit_reduce(srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op,
                                       channel_ids=(0,), priority=None, name=None):  # fmt: skip
    """Sets dsts to op(srcs0, srcs1) of the previous rank in the ring."""
    call = "nki.collectives.collective_permute_implicit_reduce"
    s = sessions.active(call)
    _reduction(call, op)
    ranks = _ranks(call, replica_group)
    lists = (dsts_by_channel, srcs0_by_channel, srcs1_by_channel)
    for dst, first, second in zip(*(_channels(call, one, "channels") for one in lists)):
        _pairs(call, [dst], [first])
        _pairs(call, [dst], [second])
        s.note_read(second, call, "srcs1_by_channel")
        s.note_read(first, call, "srcs0_by_channel")
        s.emit("sendrecv", "dma", ("dst", "src", "src1"), [dst, first, second],
               (("collective", "collective_permute_implicit_reduce"), ("ranks", len(ranks))))  # fmt: skip
        if s.values:
            s.write(dst, operators.apply(operators.find(op, call), s.read(first), s.read(second)).reshape(dst.shape))
        s.note_write(dst)
    return DONE


def collective_permute_implicit_current_processing_rank_id(iteration_id, replica_group, channel_id=0, name=None):
    """Returns the rank whose data this rank has after `iteration_id` steps of the ring."""
    ranks = _ranks("nki.collectives.collective_permute_implicit_current_processing_rank_id", replica_group)
    return registers.Register(ranks[-int(iteration_id) % len(ranks)])


def rank_id(name=None):
    """Returns the traced rank, which is 0."""
    sessions.active("nki.collectives.rank_id").note(_NOTE.format(0))
    return registers.Register(0)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise errors.UnknownCall(f"{_location.describe()}: nki.collectives.{name} is not known to this tracer")
