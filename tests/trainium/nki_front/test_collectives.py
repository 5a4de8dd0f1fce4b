"""Checks collectives: what one rank moves, its numbers if it is alone, and what is refused."""

import unittest

import harness
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from harness import argument, output
from nki.launch import execute
from nki.tracer.errors import NkiValidationError

generator = np.random.default_rng(harness.SEED)
FOUR = ncc.ReplicaGroup([[0, 1, 2, 3], [4, 5, 6, 7]])
ALONE = ncc.ReplicaGroup([[0]])


def in_hbm(shape, like):
    return nl.ndarray(shape, like.dtype, buffer=nl.private_hbm)


def exchanged(exchange, shape):
    """Returns a kernel that copies its input, exchanges it into `shape`, and returns a copy of the result."""

    def kernel(x):
        src, dst, out = in_hbm(x.shape, x), in_hbm(shape, x), in_hbm(shape, x)
        nisa.dma_copy(src, x)
        exchange(src, dst)
        nisa.dma_copy(out, dst)
        return out

    return kernel


def traced(kernel, *args):
    s = harness.session(with_values=False)
    execute(s, kernel, args, {})
    return s


def exchanges(group):
    """Returns for each exchange its name, a call, the factor of the result's rows, and the transfers of a rank."""
    ranks = len(group.replica_groups[0])
    return (
        ("all_reduce", lambda a, b: ncc.all_reduce([a], [b], group, nl.add), 1, 2 if ranks > 1 else 1),
        ("all_gather", lambda a, b: ncc.all_gather([a], [b], group, 0), ranks, ranks),
        ("reduce_scatter", lambda a, b: ncc.reduce_scatter([a], [b], group, 0, nl.maximum), 1 / ranks, ranks),
        ("all_to_all", lambda a, b: ncc.all_to_all([a], [b], group, 0), 1, ranks),
        ("permute", lambda a, b: ncc.collective_permute_implicit([[a]], [[b]], group), 1, 1),
    )


class Collectives(unittest.TestCase):
    def test_a_rank_alone_keeps_its_numbers(self):
        x = argument("fp32", generator.standard_normal((8, 6)))
        for name, exchange, _, _ in exchanges(ALONE):
            np.testing.assert_array_equal(output(exchanged(exchange, (8, 6)), x), x.data, name)

    def test_the_trace_has_what_a_rank_moves(self):
        x = argument("fp32", np.zeros((8, 6)))
        for name, exchange, factor, transfers in exchanges(FOUR):
            s = traced(exchanged(exchange, (int(8 * factor), 6)), x)
            self.assertEqual(s.trace.instruction_counts(), {"dma_copy": 2, "sendrecv": transfers}, name)
            self.assertTrue(any("rank 0" in note for note in s.notes))

    def test_chunks_lie_where_the_table_says(self):
        x = argument("fp32", generator.standard_normal((8, 6)))
        count, begin, at = (int(n) for n in generator.integers(1, 20, 3))
        table = argument("u32", [[count], [begin], [99], [at]])

        def kernel(x, table):
            src, dst, out = in_hbm(x.shape, x), in_hbm((7, 6), x), in_hbm((7, 6), x)
            counts, seen = in_hbm((4, 1), table), in_hbm((4, 1), table)
            zeros = nl.zeros((7, 6), x.dtype, buffer=nl.sbuf)
            for end, begin in ((src, x), (dst, zeros), (counts, table)):
                nisa.dma_copy(end, begin)
            exchange([src], [dst], ALONE, counts, has_rdispls=True)
            nisa.dma_copy(out, dst)
            nisa.dma_copy(seen, counts)
            return out, seen

        for exchange in (ncc.all_to_all_v, ncc.all_gather_v):
            found, counts = harness.outputs(kernel, x, table)
            expected = np.zeros(42, np.float32)
            expected[at : at + count] = x.data.reshape(-1)[begin : begin + count]
            np.testing.assert_array_equal(found.reshape(-1), expected)
            np.testing.assert_array_equal(counts, [[count], [begin], [count], [at]])

    def test_an_exchange_in_two_steps(self):
        """Only the trigger reads the data, so its source may be filled after the preparation."""
        x, table = argument("fp32", np.arange(48).reshape(8, 6)), argument("u32", [[48], [0], [48]])

        def kernel(x, table):
            src, dst = in_hbm((8, 6), x), in_hbm((8, 6), x)
            prepared = ncc.all_to_all_v_prepare([src], [dst], ALONE, table, recv_counts_known=True)
            nisa.dma_copy(src, x)
            ncc.all_to_all_v_trigger(prepared)
            prepared = ncc.all_gather_v_prepare([dst], [src], ALONE, table, recv_counts_known=True)
            ncc.all_gather_v_trigger(prepared)
            return src

        np.testing.assert_array_equal(output(kernel, x, table), x.data)

        def twice(x, table):
            for _ in range(2):
                prepared = ncc.all_gather_v_prepare([x], [in_hbm((8, 6), x)], ALONE, table)
            ncc.all_gather_v_trigger(prepared)

        def other(x, table):
            ncc.all_to_all_v_trigger(ncc.all_gather_v_prepare([x], [in_hbm((8, 6), x)], ALONE, table))

        for wrong, text in ((twice, "they share one slot"), (other, "the all_to_all_v_prepare before it")):
            with self.assertRaisesRegex(NkiValidationError, text):
                traced(wrong, x, table)

    def test_a_gathering_with_a_table_fills_a_slot_for_each_rank(self):
        x, table = argument("fp32", np.zeros((8, 6))), argument("u32", np.zeros((3, 4)))

        def kernel(x, table):
            dst = in_hbm((4 * 10, 6), x)
            ncc.all_gather_v([x], [dst], FOUR, table)
            return dst

        self.assertEqual(traced(kernel, x, table).trace.instruction_counts(), {"sendrecv": 4})

    def test_numbers_of_other_ranks_are_not_known(self):
        x = argument("fp32", np.zeros((8, 6)))
        for _, exchange, factor, _ in exchanges(FOUR):
            with self.assertRaisesRegex(NkiValidationError, r"test_collectives.py:\d+: nki.collectives.*3 other ranks"):
                output(exchanged(exchange, (int(8 * factor), 6)), x)

    def test_the_ring_passes_the_ranks_before(self):
        def kernel(x):
            self.assertEqual(ncc.rank_id().number, 0)
            step = ncc.collective_permute_implicit_current_processing_rank_id
            self.assertEqual([step(i, FOUR).number for i in range(5)], [0, 3, 2, 1, 0])

        traced(kernel, argument("fp32", np.zeros((8, 6))))

    def test_groups_by_an_operator(self):
        made = {op: ncc.ReplicaGroup.from_partition_op(4, op, 2).replica_groups for op in ncc.rg_partition_op}
        self.assertEqual(made[ncc.rg_partition_op.div], [[0, 1], [2, 3]])
        self.assertEqual(made[ncc.rg_partition_op.mod], [[0, 2], [1, 3]])

    def test_mistakes_are_named(self):
        x = argument("fp32", np.zeros((8, 6)))
        wrong = (
            (lambda a, b: ncc.all_gather([a], [b], FOUR, 0), (8, 6), "expected equally many elements"),
            (lambda a, b: ncc.all_gather([a], [b], FOUR, 0), (9, 6), "no 4 equal parts along dimension 0"),
            (lambda a, b: ncc.all_reduce([a], [b], [[0, 1]], nl.add), (8, 6), "expected a ReplicaGroup"),
            (lambda a, b: ncc.all_reduce(a, b, FOUR, nl.add), (8, 6), "two lists"),
            (lambda a, b: ncc.all_reduce([a], [b], FOUR, nl.divide), (8, 6), "op: expected nl.add"),
            (lambda a, b: ncc.all_reduce([a], [b], ncc.ReplicaGroup([[0, 0]]), nl.add), (8, 6), "each rank once"),
            (lambda a, b: ncc.all_to_all_v([a], [b], FOUR, a), (8, 6), r"metadata_tensor: .* expected uint32 \[3, 4\]"),
            (lambda a, b: ncc.all_to_all_v([a, a], [b, b], FOUR, a), (8, 6), "lists of one tensor"),
            (lambda a, b: ncc.frobnicate([a], [b]), (8, 6), "frobnicate is not known to this tracer"),
        )
        for exchange, shape, text in wrong:
            with self.assertRaisesRegex(NkiValidationError, rf"test_collectives.py:\d+: nki.collectives.*{text}"):
                traced(exchanged(exchange, shape), x)


if __name__ == "__main__":
    unittest.main()
