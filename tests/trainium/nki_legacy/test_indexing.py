"""Compares index expressions, masks and block dimensions with NumPy."""

import unittest

import numpy as np
from tracing import Run, close, random

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim


@nki.jit
def scaled_rows(x):
    """Doubles a matrix that is ragged in both dimensions, in tiles of 128 x 256 that masks clip."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.arange(128)[:, None], nl.arange(256)[None, :]
    for r in nl.affine_range((rows + 127) // 128):
        for c in nl.affine_range((columns + 255) // 256):
            inside = (r * 128 + i < rows) & (c * 256 + j < columns)
            tile = nl.load(x[r * 128 + i, c * 256 + j], mask=inside)
            nl.store(out[r * 128 + i, c * 256 + j], nl.multiply(tile, 2.0, mask=inside), mask=inside)
    return out


@nki.jit
def average_pool(x, size):
    channels, height, width = x.shape
    out = nl.ndarray((channels, height // size, width // size), dtype=x.dtype, buffer=nl.shared_hbm)
    c, h, i, w, j = nl.mgrid[0:channels, 0 : height // size, 0:size, 0 : width // size, 0:size]
    tile = nl.load(x)
    nl.store(out, nl.sum(tile[c, h * size + i, w * size + j], axis=[2, 4]) / (size * size))
    return out


@nki.jit
def swapped(x):
    """Transposes each row, a 3 x 4 matrix, by the access patterns of a copy."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray(x.shape, dtype=x.dtype)
    p, a, b = nl.arange(x.shape[0])[:, None, None], nl.arange(3)[None, :, None], nl.arange(4)[None, None, :]
    turned[p, b * 3 + a] = nl.copy(tile[p, a * 4 + b])
    nl.store(out, turned)
    return out


@nki.jit
def transposing_store(x):
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0 : x.shape[0], 0 : x.shape[1]]
    nl.store(out[j, i], nl.load(x[i, j]))
    return out


@nki.jit
def moved_views(x, offsets, masks):
    out = nl.ndarray((x.shape[0], 192), dtype=x.dtype, buffer=nl.shared_hbm)
    tile, o = nl.load(x), nl.load(offsets)
    result = nl.ndarray((x.shape[0], 192), dtype=x.dtype)
    p, i = nl.mgrid[0 : x.shape[0], 0:64]
    result[p, i] = nisa.tensor_copy_dynamic_src(tile[p, i + o[0, 0]])
    result[p, i + 64] = nl.copy(tile[p, o[0, 1] + i])
    place, mask = result[:, nl.ds(o[0, 3], 64)], nl.load(masks[:, o[0, 2], :])
    nisa.tensor_copy_dynamic_dst(dst=place, src=mask, engine=nisa.gpsimd_engine)
    nl.store(out, result)
    return out


@nki.jit
def moved_view(x, offsets, key):
    out = nl.ndarray((x.shape[0], 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(nl.load(x)[key(nl.arange(64)[None, :], nl.load(offsets))]))
    return out


@nki.jit
def moved_number(offsets, use):
    o = nl.load(offsets)
    use(nl.arange(1)[:, None] + o[0, 0])


@nki.jit
def backwards(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.arange(x.shape[0])[:, None], nl.arange(x.shape[1])[None, :]
    nl.store(out[i, j], nl.load(x[i, x.shape[1] - 1 - j]))
    return out


@nki.jit
def block_sum(x):
    """Sums blocks, which are separate tiles. Zeros are written only if an instruction reads them."""
    blocks = x.shape[0] // 128
    sums = nl.zeros((blocks, par_dim(128), x.shape[1]), dtype=nl.float32)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for twice in nl.sequential_range(2):
        for b in nl.affine_range(blocks):
            sums[b] += nl.load(x[b * 128 : (b + 1) * 128, :])
    for b in nl.affine_range(blocks):
        nl.store(out[nl.ds(b * 128, 128), :], sums[b])
    return out


@nki.jit
def gathered_rows(x, rows):
    out = nl.ndarray((rows.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    index = nl.load(rows)
    nl.store(out, nl.load(x[index[nl.arange(rows.shape[0])[:, None], 0], nl.arange(x.shape[1])[None, :]]))
    return out


@nki.jit
def gathered_values(caches, rows):
    out = nl.ndarray((rows.shape[0], caches.shape[2]), dtype=caches.dtype, buffer=nl.shared_hbm)
    index = nl.load(rows)
    nl.store(out, nl.load(caches[1, index[nl.arange(rows.shape[0])[:, None], 0], nl.arange(caches.shape[2])[None, :]]))
    return out


@nki.jit
def masked_part(x):
    """Multiplies with `tile[mask]`, of which only the part inside the mask counts."""
    out = nl.ndarray((64, 100), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    j = nl.arange(512)[None, :]
    k = nl.arange(128)[:, None]
    product = nl.zeros((64, 512), nl.float32, buffer=nl.psum)
    product[nl.arange(64)[:, None], j] += nisa.nc_matmul(tile[:, 0:64], tile[k, j][j < 100])
    nl.store(out, product[:, 0:100])
    return out


@nki.jit
def reshaped(x, row):
    """Reads a vector in HBM as a row of one partition, and splits the free dimension of a tile into two."""
    out = nl.ndarray((x.shape[0], 4, x.shape[1] // 4), dtype=x.dtype, buffer=nl.shared_hbm)
    bias = nl.load(row.reshape((1, row.shape[0]))).broadcast_to(x.shape)
    nl.store(out, nl.add(nl.load(x), bias).reshape((x.shape[0], 4, -1)))
    return out


class Indexing(unittest.TestCase):
    def test_masks_clip_to_the_extents(self):
        x = random(200, 300)
        run = Run(scaled_rows, x)
        close(self, run.output, 2 * x)
        moved = [v["src"][1] for n, _, _, v in run.instructions if n == "dma_copy"]
        self.assertIn([[300, 72], [1, 44]], moved)  # The last tile has 72 rows of 44 elements.

    def test_without_values_the_instructions_are_the_same(self):
        x = random(200, 300)
        self.assertEqual(Run(scaled_rows, x, values=False).instructions, Run(scaled_rows, x).instructions)

    def test_five_dimensions_of_an_index(self):
        x = random(16, 12, 18)
        run = Run(average_pool, x, 3)
        close(self, run.output, x.reshape(16, 4, 3, 6, 3).mean((2, 4)))
        self.assertEqual([n for n in run.names() if n != "dma_copy"], ["tensor_reduce", "tensor_scalar"])

    def test_patterns_transpose_within_partitions(self):
        x = np.arange(60, dtype=np.int8).reshape(5, 12)
        run = Run(swapped, x)
        np.testing.assert_array_equal(run.output, x.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12))

    def test_hbm_is_written_through_swapped_indices(self):
        x = random(20, 30)
        close(self, Run(transposing_store, x).output, x.T)

    def test_negative_steps(self):
        x = random(8, 16)
        close(self, Run(backwards, x).output, x[:, ::-1])

    def test_block_dimensions(self):
        x = random(384, 40)
        run = Run(block_sum, x)
        close(self, run.output, 2 * x)
        self.assertEqual(run.names().count("memset"), 3)
        sbuf = [t for t in run.header["tensors"] if t["memory"] == "sbuf"]
        self.assertTrue(all(t["shape"] == [128, 40] for t in sbuf))

    def test_reshaping(self):
        x, row = random(20, 32), random(32, seed=2)
        close(self, Run(reshaped, x, row).output, (x + row).reshape(20, 4, 8))

    def test_rows_that_a_tile_names(self):
        x, rows = random(50, 24), np.array([[4], [49], [0], [4]], np.int32)
        run = Run(gathered_rows, x, rows)
        close(self, run.output, x[rows[:, 0]])
        self.assertIn("src", [a.get("indirect") for n, _, a, _ in run.instructions if n == "dma_copy"])
        # A cache of keys and one of values, of which the kernel reads one.
        caches = random(2, 50, 24)
        close(self, Run(gathered_values, caches, rows).output, caches[1, rows[:, 0]])

    def test_numbers_in_memory_move_views(self):
        x, offsets, masks = random(16, 256), np.array([[5, 77, 2, 128]], np.uint32), random(16, 4, 64, seed=2)
        run = Run(moved_views, x, offsets, masks)
        first, second, which, place = offsets[0]
        expected = np.concatenate([x[:, first : first + 64], x[:, second : second + 64], masks[:, which]], axis=1)
        self.assertEqual(place, 128)
        np.testing.assert_array_equal(run.output, expected)
        # An access waits for its index.
        self.assertEqual(sum("index" in v for _, _, _, v in run.instructions), 4)
        copies = [(e, a) for n, e, a, _ in run.instructions if n == "tensor_copy"]
        self.assertEqual([e for e, _ in copies], ["any", "any", "gpsimd"])
        # A copy has the least time of a run-time address.
        self.assertTrue(all(a["dynamic"] for _, a in copies))
        # Other instructions wait for all of these.
        self.assertEqual([a["indirect"] for _, a in copies], ["src", "src", "dst"])
        for key, message in (
            (lambda i, o: (slice(None), (i + o[0, 0]) * 2), "can be added to, and nothing else"),
            (lambda i, o: (slice(None), i + o[0, 0] + o[0, 1]), "found two"),
            (lambda i, o: (slice(None), i + o[0, 0:2]), "has one element"),
            (lambda i, o: (nl.ds(o[0, 0], 8), slice(None)), "within partitions"),
        ):
            with self.assertRaisesRegex(Exception, message):
                Run(moved_view, x, offsets, key)
        for number in (lambda i: nisa.iota(i, nl.int32), lambda i: nl.ndarray((4, par_dim(16), 8), nl.int32)[i]):
            # Code that needs the index's value is refused.
            with self.assertRaisesRegex(Exception, "moved by 'o'"):
                Run(moved_number, offsets, number)

    def test_a_mask_on_an_operand(self):
        x = random(128, 512)
        run = Run(masked_part, x)
        close(self, run.output, x[:, :64].T @ x[:, :100])
        moving = [v["moving"][1] for n, _, _, v in run.instructions if n == "nc_matmul"]
        self.assertEqual(moving, [[[512, 128], [1, 100]]])

    def test_arithmetic_of_expressions(self):
        i = nl.arange(4)[:, None] * 6 + nl.arange(3)[None, :] + 2
        self.assertEqual((i.shape, i.steps, i.first), ((4, 3), (6, 1), 2))
        half = (nl.arange(8) * 4 + 2) // 2
        self.assertEqual((half.steps, half.first), ((2,), 1))
        self.assertEqual((nl.arange(3, 9, 2)[None, :] - 1).limits(), (2, 6))


if __name__ == "__main__":
    unittest.main()
