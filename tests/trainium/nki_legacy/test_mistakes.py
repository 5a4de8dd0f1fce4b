"""Checks wrong kernels: the message names the line, the call, what was expected and what was found."""

import unittest

from nki.tracer.errors import NkiValidationError
from tracing import Run, random

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

I, J = nl.arange(128)[:, None], nl.arange(64)[None, :]


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


class Mistakes(unittest.TestCase):
    def fails(self, function, *texts, arguments=None, values=(True, False)):
        arguments = (random(100, 64),) if arguments is None else arguments
        for with_values in values:
            with self.assertRaises(NkiValidationError) as caught:
                Run(function, *arguments, values=with_values)
            message = str(caught.exception)
            self.assertRegex(message, r"test_mistakes\.py:\d+: ")
            for text in texts:
                self.assertIn(text, message)
        return message

    def test_an_index_outside_of_the_tensor(self):
        self.fails(lambda x: stored(nl.load(x[I, J])), "indices 0 to 127 of dimension 0, which has 100 elements")
        self.fails(lambda x: stored(nl.load(x[0:128, 0:64])), "nl.load", "of dimension 0, which has 100")

    def test_fractions_are_not_cut_to_whole_numbers(self):
        tile = nl.ndarray
        self.fails(lambda x: tile((64, 5 / 2), nl.float32), "nl.ndarray: shape: expected whole numbers, found (64, 2.5)")
        self.fails(lambda x: nl.load(x[0:64, 0:2.5]), "slice of dimension 1: expected whole numbers")
        self.fails(lambda x: nl.load(x[0:64, nl.ds(0.5, 4)]), "nl.ds: start: expected a whole number, found 0.5")
        self.fails(lambda x: nl.arange(2.5), "nl.arange: limits: expected whole numbers, found (2.5,)")
        self.fails(lambda x: nl.affine_range(2.5), "nl.affine_range: stop: expected a whole number, found 2.5")
        self.fails(lambda x: nl.program_id(-1), "nl.program_id: axis: expected 0 or more, found -1")

    def test_a_mask_is_a_comparison_of_indices(self):
        self.fails(lambda x: nl.exp(nl.load(x), mask=[1]), "nl.exp: mask: expected a comparison of index expressions, found [1] (list)")
        self.fails(lambda x: nl.exp(nl.load(x), mask=nl.load(x) > 0), "nl.exp: mask: expected a comparison", "nl.where selects by a tile")

    def test_operands_of_a_kind_that_a_call_does_not_take(self):
        self.fails(lambda x: nisa.max8(src=None), "nisa.max8: src: expected a tile, found None")
        self.fails(lambda x: nisa.nc_stream_shuffle(nl.load(x), None, [0] * 32), "nisa.nc_stream_shuffle: dst: expected a tile")
        self.fails(
            lambda x: nisa.tensor_copy_predicated(src=nl.load(x), dst=None, predicate=nl.load(x)),
            "nisa.tensor_copy_predicated: dst: expected a tile, found None",
        )
        self.fails(
            lambda x: nisa.activation_reduce(nl.exp, nl.load(x), reduce_op=nl.add, reduce_res=nl.load(x)),
            "nisa.activation_reduce: reduce_res: float32 [100, 64] in sbuf, expected one element per partition",
        )
        self.fails(lambda x: nl.par_dim("a"), "nl.par_dim: size: expected a whole number, found 'a'")

    def test_slices_go_forward(self):
        self.fails(lambda x: nl.load(x[0:64, 10:2:-1]), "the slice of dimension 1 has the step -1, expected at least 1")
        self.fails(lambda x: nl.load(x[0:64, ::0]), "the slice of dimension 1 has the step 0, expected at least 1")
        self.fails(lambda x: nl.arange(0, 4, 0), "expected stop, or start, stop and a step other than 0")

    def test_an_axis_that_is_named_twice(self):
        self.fails(lambda x: nl.sum(nl.load(x), axis=(1, -1)), "nl.sum: axis: (1, -1) names a dimension twice")

    def test_a_mask_that_leaves_too_much(self):
        self.fails(lambda x: stored(nl.load(x[I, J], mask=(I < 110))), "indices 0 to 109 of dimension 0, which has 100")

    def test_a_mask_that_cuts_no_box(self):
        self.fails(lambda x: stored(nl.load(x[I, J], mask=(I + J < 100))), "nl.load", "mask", "cuts no box")

    def test_masks_are_combined_with_and_alone(self):
        self.fails(lambda x: stored(nl.load(x[I, J], mask=(I < 100) | (J < 0))), "masks are combined with & only")
        self.fails(lambda x: stored(nl.load(x[I, J], mask=~(I < 100))), "write the opposite comparison")

    def test_a_mask_is_no_condition(self):
        def kernel(x):
            if I < 100:
                return stored(nl.load(x))

        self.fails(kernel, "a mask is no condition")

    def test_a_comparison_of_tiles_is_no_condition(self):
        def kernel(x):
            tile = nl.load(x)
            return stored(tile) if tile > 0 else x

        self.fails(kernel, "a branch on a comparison of tiles")
        self.fails(lambda x: stored((nl.load(x) > 0) and nl.load(x)), "nl.where selects by it")

    def test_misspelt_keywords(self):
        for function, text in (
            (lambda x: nl.load(x, dtpye=nl.bfloat16), "nl.load: dtpye: no keyword of it; did you mean dtype?"),
            (lambda x: nl.exp(nl.load(x), msak=None), "nl.exp: msak: no keyword of it; did you mean mask?"),
            (lambda x: nl.softmax(nl.load(x), axes=1), "nl.softmax: axes: no keyword of it; did you mean axis?"),
            (lambda x: nisa.activation(nl.exp, nl.load(x), bais=0.0), "nisa.activation: bais: no keyword of it; did you mean bias?"),
        ):
            self.fails(function, text)
        # Unknown keywords may be hints for the compiler.
        unknown = Run(lambda x: stored(nl.exp(nl.load(x, lazy=True), hint=3)), random(100, 64))
        self.assertEqual(unknown.names(), ["dma_copy", "activation", "dma_copy"])

    def test_an_index_that_is_not_affine(self):
        self.fails(lambda x: stored(nl.load(x[I // 3, J], mask=I < 4)), "not affine")

    def test_indices_that_do_not_broadcast(self):
        self.fails(lambda x: stored(nl.load(x[nl.arange(3)[:, None], nl.arange(4)[:, None]])), "do not broadcast")

    def test_tiles_of_different_shapes(self):
        self.fails(lambda x: stored(nl.add(nl.load(x), nl.load(x[:, 0:32]))), "nl.add", "[100, 64]", "[100, 32]")

        def kernel(x):
            tile = nl.ndarray((100, 32), dtype=x.dtype)
            tile[...] = nl.load(x)

        self.fails(kernel, "[100, 32]", "does not hold a tile of [100, 64]")

    def test_a_product_of_different_contractions(self):
        self.fails(
            lambda x: stored(nl.copy(nisa.nc_matmul(nl.load(x), nl.load(x[0:50, :])))),
            "nc_matmul",
            "contraction is 100 in one and 50",
        )

    def test_reading_what_was_never_written(self):
        def kernel(x):
            tile = nl.ndarray((128, 64), dtype=x.dtype)
            return stored(nl.exp(tile))

        self.fails(kernel, "never written")

    def test_returning_what_a_mask_left_out(self):
        def kernel(x):
            tile = nl.load(x[I, J], mask=(I < 100))
            return stored(nl.exp(tile))

        self.fails(kernel, "never written", "1792 of the 8192", values=(True,))

    def test_contracting_what_a_mask_left_out(self):
        def kernel(x):
            tile = nl.load(x[I, J], mask=(I < 100))
            sums = nl.zeros((64, 64), nl.float32, buffer=nl.psum)
            sums += nisa.nc_matmul(tile, tile)
            return stored(nl.copy(sums))

        self.fails(kernel, "were never written, and with them 4096", "nc_matmul: stationary", values=(True,))

    def test_too_many_partitions(self):
        self.fails(lambda x: nl.ndarray((129, 4), dtype=nl.float32), "128 partitions", "129")

    def test_partitions_that_are_not_the_first_dimension(self):
        def kernel(x):
            tile = nl.load(x)
            return stored(nl.copy(tile[nl.arange(64)[None, :], nl.arange(20)[:, None]]))

        self.fails(kernel, "partitions have to be the first dimension")

    def test_block_dimensions_take_numbers(self):
        def kernel(x):
            blocks = nl.zeros((2, nl.par_dim(64), 8), dtype=nl.float32)
            return stored(nl.copy(blocks[0:2]))

        self.fails(kernel, "block dimension 0 is indexed by numbers")
        self.fails(
            lambda x: nl.zeros((2, nl.par_dim(64), 8), dtype=nl.float32)[2], "index 2 of block dimension 0, which has 2"
        )

    def test_reducing_the_partitions(self):
        self.fails(lambda x: stored(nl.sum(nl.load(x), axis=0)), "nl.sum", "axis", "only free axes")

    def test_hbm_is_no_operand(self):
        self.fails(lambda x: stored(nl.exp(x)), "nl.exp", "in hbm", "nl.load moves it")

    def test_unknown_calls(self):
        self.fails(lambda x: nl.frobnicate(x), "nl.frobnicate".replace("nl", "neuronxcc.nki.language"), "not known")
        self.fails(lambda x: nisa.frobnicate(x), "neuronxcc.nki.isa.frobnicate", "not known")
        self.assertFalse(hasattr(nl, "frobnicate"))

    def test_the_line_is_that_of_the_call(self):
        def kernel(x):
            product = nisa.nc_matmul(nl.load(x), nl.load(x[0:50, :]))
            later = 1
            return stored(nl.copy(product)), later

        message = self.fails(kernel, "nc_matmul")
        self.assertIn(f"test_mistakes.py:{kernel.__code__.co_firstlineno + 1}: ", message)

    def test_different_allocations_in_a_grid(self):
        @nki.jit
        def kernel(x):
            for _ in range(nl.program_id(0) + 1):
                out = stored(nl.load(x))
            return out

        self.fails(kernel[2], "programs of the grid allocate different tensors")

    def test_a_failed_kernel_leaves_nothing_behind(self):
        self.fails(lambda x: (nl.exp(nl.load(x)), nl.load(x[I, J])), "of dimension 0")
        self.assertEqual(Run(lambda x: stored(nl.load(x)), random(4, 4)).names(), ["dma_copy", "dma_copy"])

    def test_a_tile_that_a_mask_left_empty_may_be_copied_if_nothing_of_it_is_stored(self):
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            for i in nl.affine_range(2):
                tile = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf)
                p, j = nl.arange(64)[:, None], nl.arange(64)[None, :]
                tile[p, j] = nl.load(x[64 * i + p, j], mask=(64 * i + p < 64))
                other = nl.copy(tile)
                nl.store(out[64 * i + p, j], value=other, mask=(64 * i + p < 64))
            return out

        x = random(64, 64)
        self.assertTrue((Run(kernel, x).output == x).all())


class Carried(unittest.TestCase):
    """Values that one iteration of a loop hands to the next."""

    def notes(self, loop, update):
        def kernel(x):
            total = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            psum = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.psum)
            for k in loop(3):
                tile = nl.load(x[k * 128 : (k + 1) * 128, 0:64])
                update(total, psum, tile, k)
            return stored(total)

        run = Run(kernel, random(384, 64))
        self.kernel_line = kernel.__code__.co_firstlineno
        return [note for note in run.notes if "carries" in note]

    def test_a_sum_in_sbuf_is_noted_with_tensor_and_line(self):
        def add(total, psum, tile, k):
            total[...] = nl.add(total, tile)

        (note,) = self.notes(nl.affine_range, add)
        self.assertRegex(note, rf"test_mistakes\.py:{add.__code__.co_firstlineno + 1}: 'total' carries a value in sbuf")
        self.assertRegex(note, rf"affine_range loop of \S*test_mistakes\.py:{self.kernel_line + 3} to the next")
        self.assertEqual(self.notes(nl.sequential_range, add), [])

    def test_sums_of_products_in_psum_are_allowed(self):
        def add(total, psum, tile, k):
            psum[0:64, 0:64] += nisa.nc_matmul(tile, tile)
            total[...] = tile

        self.assertEqual(self.notes(nl.affine_range, add), [])

    def test_iterations_may_use_parts_of_their_own_and_reductions(self):
        def parts(total, psum, tile, k):
            total[:, k * 16 : k * 16 + 16] = tile[:, 0:16]
            total[:, k * 16 : k * 16 + 16] = nl.exp(total[:, k * 16 : k * 16 + 16])

        def shifted(total, psum, tile, k):
            total[:, k * 16 + 16 : k * 16 + 32] = nl.exp(total[:, k * 16 : k * 16 + 16])

        def reduced(total, psum, tile, k):
            total[...] = nl.loop_reduce(tile, op=nl.add, loop_indices=[k])

        self.assertEqual(self.notes(nl.affine_range, parts), [])
        self.assertEqual(len(self.notes(nl.affine_range, shifted)), 1)
        self.assertEqual(self.notes(nl.affine_range, reduced), [])

    def test_an_outer_loop_carries_and_an_inner_sequential_one_may(self):
        def inner(total, psum, tile, k):
            mine = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            for j in nl.sequential_range(2):
                mine[...] = nl.add(mine, tile)
            total[:, k * 16 : k * 16 + 16] = mine[:, 0:16]

        def outer(total, psum, tile, k):
            for j in nl.sequential_range(2):
                total[...] = nl.add(total, tile)

        self.assertEqual(self.notes(nl.affine_range, inner), [])
        self.assertEqual(len(self.notes(nl.affine_range, outer)), 1)


if __name__ == "__main__":
    unittest.main()
