"""Compares topk, sequence_bounds and activate2 with NumPy, and checks what they refuse."""

import unittest

import harness
import nki.isa as nisa
import nki.language as nl
import numpy as np
from harness import argument, output, outputs
from nki.tracer.errors import NkiValidationError

generator = np.random.default_rng(harness.SEED)


def loaded(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


class Topk(unittest.TestCase):
    def _found(self, numbers, n, k, **options):
        def kernel(x):
            columns = -(-k // 16)
            values, places = nl.ndarray((x.shape[0], k), nl.bfloat16), nl.ndarray((x.shape[0], k), nl.uint32)
            nisa.topk(values, places, loaded(x), n, **options)
            return stored(values[:, :columns]), stored(places[:, :columns])

        return outputs(kernel, numbers)

    def _unsnaked(self, tile, k):
        """Returns the first k elements of each group. Element i lies in partition i % 16 and column i // 16."""
        return np.array([[tile[g + i % 16, i // 16] for i in range(k)] for g in range(0, len(tile), 16)])

    def test_each_group_of_16_partitions_has_its_own_snake(self):
        for rows, n, k in ((128, 500, 20), (16, 8, 8), (32, 33, 1), (64, 160, 48)):
            numbers = argument("bf16", generator.permutation(rows * 32).reshape(rows, 32) % 251 / 4)
            values, places = self._found(numbers, n, k)
            snakes = self._unsnaked(numbers.data, n)
            values, places = self._unsnaked(values, k), self._unsnaked(places, k)
            np.testing.assert_array_equal(values, np.sort(snakes, axis=1)[:, n - k :])
            np.testing.assert_array_equal(np.take_along_axis(snakes, places.astype(int), axis=1), values)
            self.assertTrue(all(len(set(row)) == k for row in places))

    def test_sorted_has_the_largest_first(self):
        numbers = argument("bf16", generator.standard_normal((16, 8)))
        values, _ = self._found(numbers, 100, 40, sorted=True)
        expected = -np.sort(-self._unsnaked(numbers.data, 100), axis=1)[:, :40]
        np.testing.assert_array_equal(self._unsnaked(values, 40), expected)

    def test_what_lies_behind_the_last_column_is_not_written(self):
        def kernel(x):
            values, places = nl.ndarray((16, 20), nl.bfloat16), nl.ndarray((16, 20), nl.uint32)
            nisa.topk(values, places, loaded(x), 100)
            return stored(values)

        with self.assertRaisesRegex(NkiValidationError, "never written"):
            outputs(kernel, argument("bf16", np.ones((16, 8))))

    def test_wrong_sizes_are_refused(self):
        numbers = argument("bf16", np.ones((16, 8)))
        for n, k, text in ((129, 8, "n: expected 8 to 128"), (7, 1, "n: expected"), (20, 21, "asks for 21 of 20")):
            with self.assertRaisesRegex(NkiValidationError, rf"test_searches.py:\d+: nki.isa.topk: .*{text}"):
                self._found(numbers, n, k)
        with self.assertRaisesRegex(NkiValidationError, "multiple of 16 partitions"):
            self._found(argument("bf16", np.ones((20, 8))), 100, 8)


class SequenceBounds(unittest.TestCase):
    def test_of_segments_and_padding(self):
        def slow(ids):
            begins = [len(ids) if v == 0 else next(j for j in range(i, -1, -1) if j == 0 or ids[j - 1] != v)
                      for i, v in enumerate(ids)]  # fmt: skip
            ends = [-1 if v == 0 else next(j for j in range(i + 1, len(ids) + 1) if j == len(ids) or ids[j] != v)
                    for i, v in enumerate(ids)]  # fmt: skip
            return np.array([begins, ends])

        def kernel(x):
            ids = loaded(x)
            bounds = nl.ndarray((1, 2, ids.shape[1]), nl.int32)
            nisa.sequence_bounds(bounds, ids)
            return stored(bounds)

        cases = [[0, 1, 1, 2, 2, 2, 0, 3, 3], [5], [0], [1, 0, 0, 1], sorted(generator.integers(0, 9, 60))]
        for ids in cases:
            found = output(kernel, argument("int32", np.array([ids], np.int32)))
            np.testing.assert_array_equal(found[0], slow(list(ids)))


class Activate2(unittest.TestCase):
    def _run(self, x, *scalars, target="trn3", **options):
        def kernel(x, *scalars):
            tile = loaded(x)
            dst, sums = nl.ndarray(x.shape, nl.float32), nl.ndarray((x.shape[0], 1), nl.float32)
            given = [s if isinstance(s, float) else loaded(s) for s in scalars]
            reduces = "reduce_op" in options
            more = {"reduce_res": sums, "reduce_cmd": nisa.reduce_cmd.reset_reduce} if reduces else {}
            nisa.activate2(dst=dst, data=tile, imm0=given[0], imm1=given[1], **more, **options)
            return (stored(dst), stored(sums)) if reduces else (stored(dst),)

        return outputs(kernel, x, *scalars, target=target)

    def test_both_stages_then_the_function(self):
        x, column = generator.standard_normal((40, 12)), generator.standard_normal((40, 1))
        numbers, scalar = argument("fp32", x), argument("fp32", column)
        x, column = numbers.data, scalar.data
        cases = (
            ({"op0": nl.multiply, "op1": nl.add}, (2.0, 0.5), x * 2 + 0.5),
            ({"op0": nl.subtract, "op1": nl.bypass}, (scalar, 0.0), x - column),
            ({"op0": nl.subtract, "op1": nl.bypass, "reverse0": True}, (scalar, 0.0), column - x),
            ({"op0": nl.multiply, "op1": nl.subtract, "reverse1": True}, (3.0, scalar), column - x * 3),
            ({"op0": nl.bypass, "op1": nl.bypass}, (0.0, 0.0), x),
        )
        for options, scalars, expected in cases:
            (found,) = self._run(numbers, *scalars, op=nl.tanh, **options)
            # There are two roundings before tanh, whose slope is at most 1, and one after it.
            bound = 3 * 2.0**-23 * (np.abs(expected) + np.abs(x) * 3 + np.abs(column) + 1)
            self.assertTrue((np.abs(found - np.tanh(expected)) <= bound).all(), options)

    def test_reduces_to_the_largest(self):
        numbers = argument("fp32", generator.standard_normal((40, 12)))
        found, most = self._run(
            numbers, -2.0, 0.0, op=nl.copy, op0=nl.multiply, op1=nl.bypass, reduce_op=nl.maximum
        )
        np.testing.assert_array_equal(found, numbers.data * -2)
        np.testing.assert_array_equal(most, found.max(axis=1, keepdims=True))

    def test_prelu_has_the_slope_that_is_given(self):
        numbers = argument("fp32", generator.standard_normal((8, 9)))
        (found,) = self._run(numbers, 0.0, 0.0, op=nl.prelu, op0=nl.bypass, op1=nl.bypass, relu_param=0.25)
        np.testing.assert_array_equal(found, np.where(numbers.data < 0, numbers.data * np.float32(0.25), numbers.data))

    def test_other_pairs_and_older_devices_are_refused(self):
        numbers = argument("fp32", np.ones((4, 4)))
        with self.assertRaisesRegex(NkiValidationError, "trn2 does not have it"):
            self._run(numbers, 1.0, 0.0, op=nl.exp, op0=nl.add, op1=nl.bypass, target="trn2")
        with self.assertRaisesRegex(NkiValidationError, "op0, op1: the engine does not compute"):
            self._run(numbers, 1.0, 1.0, op=nl.exp, op0=nl.add, op1=nl.multiply)


if __name__ == "__main__":
    unittest.main()
