"""Checks where results go (into place, into PSUM sums, into new memory), and in which order."""

import unittest

import numpy as np
from tracing import Run, bfloat16, close, random

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def product(a, b):
    """Computes a.T @ b over three tiles of the contraction."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    sums = nl.zeros((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    for k in nl.affine_range(a.shape[0] // 128):
        rows = slice(k * 128, (k + 1) * 128)
        sums[...] += nl.matmul(nl.load(a[rows, :]), nl.load(b[rows, :]), transpose_x=True)
    nl.store(out, value=sums)
    return out


@nki.jit
def product_of_rows(a, b):
    """Computes a @ b, for which the Tensor engine first transposes a."""
    out = nl.ndarray((a.shape[0], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(nl.matmul(nl.load(a), nl.load(b))))
    return out


@nki.jit
def sum_that_is_read_between(a):
    """Continues a sum after it was read."""
    out = nl.ndarray((2, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a)
    sums = nl.zeros((128, 128), nl.float32, buffer=nl.psum)
    for i in range(2):
        sums += nisa.nc_matmul(tile, tile)
        nl.store(out[i], sums)
    return out


@nki.jit
def zeros_that_are_read(a):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
    nl.store(out, nl.add(sums, nl.load(a)))
    return out


@nki.jit
def zeros_of_which_a_part_is_summed(a):
    """Reads a sum of which only a part was written, and adds to all of a sum of which a part was written."""
    out = nl.ndarray((2, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a)
    sums = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
    sums[:, 8:40] += nisa.nc_matmul(tile, tile[:, 8:40])
    nl.store(out[0], sums)
    more = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
    more[:, 0:40] += nisa.nc_matmul(tile, tile[:, 0:40])
    more[...] += nisa.nc_matmul(tile, tile[:, 0:64])
    nl.store(out[1], more)
    return out


@nki.jit
def in_place(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    buffer = nl.ndarray((a.shape[0], 2, a.shape[1]), dtype=a.dtype)
    buffer[:, 0, :] = nl.load(a)
    buffer[:, 1, :] = nl.exp(buffer[:, 0, :])
    buffer[:, 1, :] *= 3.0
    buffer[:, 1, :] -= buffer[:, 0, :]
    nl.store(out, buffer[:, 1, :])
    return out


@nki.jit
def used_after_its_source_changed(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype)
    tile[...] = nl.load(a)
    before = nl.square(tile)
    tile[...] = 0.0
    nl.store(out, nl.add(before, tile))
    return out


@nki.jit
def reduced_over_loops(a):
    """Computes the maximum and the sum over column tiles, as compilers write them out."""
    out = nl.ndarray((a.shape[0], 2), dtype=nl.float32, buffer=nl.shared_hbm)
    both = nl.ndarray((a.shape[0], 2), dtype=nl.float32)
    for i in nl.affine_range(1, 3):
        for j in nl.affine_range(2):
            first = (2 * (i - 1) + j) * 32
            tile = nl.load(a[:, nl.ds(first, 32)])
            both[:, 0] = nl.loop_reduce(nl.max(tile, axis=1), op=np.max, loop_indices=[i, j])
            both[:, 1] = nl.loop_reduce(nl.sum(tile, axis=1), op=np.add, loop_indices=[i, j])
    nl.store(out, both)
    return out


@nki.jit
def begun_without_zeros(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray(a.shape, dtype=a.dtype)
    for _ in range(3):
        total[...] += nl.load(a)
    nl.store(out, total)
    return out


class Results(unittest.TestCase):
    def test_products_accumulate_in_psum(self):
        a, b = random(384, 64), random(384, 500, seed=2)
        run = Run(product, bfloat16(a), bfloat16(b))
        close(self, run.output, a.T @ b, 2e-2)
        self.assertEqual(run.names(), ["dma_copy", "dma_copy", "nc_matmul"] * 3 + ["tensor_copy", "dma_copy"])
        sums = [(a["accumulate"], v["dst"][0]) for n, _, a, v in run.instructions if n == "nc_matmul"]
        self.assertEqual([s[0] for s in sums], [False, True, True])
        self.assertEqual(len({s[1] for s in sums}), 1)

    def test_a_product_that_transposes(self):
        a, b = random(96, 128), random(128, 200, seed=2)
        run = Run(product_of_rows, a, b)
        close(self, run.output, a @ b)
        self.assertEqual(
            [n for n in run.names() if n != "dma_copy"], ["nc_transpose", "tensor_copy", "nc_matmul", "tensor_copy"]
        )

    def test_reading_a_sum_does_not_end_it(self):
        a = random(128, 128)
        run = Run(sum_that_is_read_between, a)
        close(self, run.output, np.stack([a.T @ a, 2 * a.T @ a]))

    def test_zeros_beside_a_sum_are_written_for_a_reader(self):
        a = random(128, 128)
        run = Run(zeros_of_which_a_part_is_summed, a)
        product = a.T @ a[:, :64]
        one, two = product.copy(), product.copy()
        one[:, :8] = one[:, 40:] = 0
        two[:, :40] *= 2
        close(self, run.output, np.stack([one, two]))
        self.assertEqual(sum(name == "memset" for name, *_ in run.instructions), 3)

    def test_zeros_in_psum_are_written_for_a_reader_only(self):
        a = random(128, 64)
        run = Run(zeros_that_are_read, a)
        close(self, run.output, a)
        self.assertEqual(run.names(), ["dma_copy", "memset", "tensor_tensor", "dma_copy"])

    def test_results_are_written_where_they_are_stored(self):
        a = random(64, 32)
        run = Run(in_place, a)
        close(self, run.output, 3 * np.exp(a) - a)
        self.assertEqual(run.names(), ["dma_copy", "activation", "tensor_scalar", "tensor_tensor", "dma_copy"])
        self.assertEqual([t["shape"] for t in run.header["tensors"] if t["memory"] == "sbuf"], [[64, 2, 32]])

    def test_the_program_decides_the_order(self):
        a = random(64, 32)
        close(self, Run(used_after_its_source_changed, a).output, a * a)

    def test_reductions_over_loops(self):
        a = random(50, 128)
        run = Run(reduced_over_loops, a)
        close(self, run.output, np.stack([a.max(1), a.sum(1)], 1))

    def test_a_sum_begins_where_nothing_was_written(self):
        a = random(30, 20)
        run = Run(begun_without_zeros, a)
        close(self, run.output, 3 * a)
        self.assertEqual(
            run.names(),
            ["dma_copy", "tensor_copy", "dma_copy", "tensor_tensor", "dma_copy", "tensor_tensor", "dma_copy"],
        )
        self.assertIn("begins at zero", run.notes[0])

    def test_an_instruction_belongs_to_the_line_that_asked_for_it(self):
        run = Run(used_after_its_source_changed, random(8, 4))
        lines = {n: a["line"] for n, _, a, _ in run.instructions}
        first = used_after_its_source_changed.body.__code__.co_firstlineno
        self.assertEqual(lines["activation"] - first, 5)
        self.assertEqual(lines["memset"] - first, 6)


if __name__ == "__main__":
    unittest.main()
