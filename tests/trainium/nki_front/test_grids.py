"""Compares grids of tiles and blocks (NKI 0.7) with NumPy's slices."""

import unittest

import harness
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.launch import execute
from nki.tracer.errors import NkiValidationError


def _numbers(shape):
    return np.random.default_rng(harness.SEED).standard_normal(shape).astype(np.float32)


def _shown(make, shape):
    """Returns what `make` selects from a tensor in HBM, and the tensor as a NumPy array."""
    numbers = _numbers(shape)
    s = harness.session()
    view = execute(s, lambda t: make(t), (harness.argument("fp32", numbers),), {})
    return s.read(view), numbers


def copy_tile_grid(src):
    """Copies as the documentation of NkiTileGrid does."""
    src_tiles = nl.tiles(src, tile_shape=(128, 256))
    dst = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.shared_hbm)
    dst_tiles = nl.tiles(dst, tile_shape=(128, 256))
    for i in range(src_tiles.shape[0]):
        for j in range(src_tiles.shape[1]):
            tile = nl.ndarray(src_tiles[i, j].element_shape, dtype=src.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile.data, src=src_tiles[i, j].data)
            nisa.dma_copy(dst=dst_tiles[i, j].data, src=tile.data)
    return dst


class Tiles(unittest.TestCase):
    def test_the_documented_copy(self):
        for shape in ((512, 1024), (300, 700), (5, 3)):
            x = _numbers(shape)
            np.testing.assert_array_equal(harness.output(copy_tile_grid, harness.argument("fp32", x)), x)

    def test_selections(self):
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[1, 2].data, (10, 20))
        np.testing.assert_array_equal(found, x[4:8, 16:20])
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[-1].data, (10, 20))
        np.testing.assert_array_equal(found, x[8:10])
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[0:1, 1:].data, (10, 20))
        np.testing.assert_array_equal(found, x[0:4, 8:20])
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[1, 0, ...].data, (3, 10, 20))
        np.testing.assert_array_equal(found, x[1, :4])
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[..., 2, 1].data, (3, 10, 20))
        np.testing.assert_array_equal(found, x[:, 8:, 8:16])
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[2, 1, 1].data, (3, 10, 20))
        np.testing.assert_array_equal(found, x[2, 4:8, 8:16])

    def test_a_loop_over_a_grid_ends_with_its_last_row(self):
        found = []

        def kernel(x):
            found.extend(row.element_shape for row in nl.tiles(x, tile_shape=(4, 8)))

        harness.outputs(kernel, harness.argument("fp32", _numbers((10, 20))))
        self.assertEqual(found, [(4, 20), (4, 20), (2, 20)])

    def test_what_a_grid_says_of_itself(self):
        def kernel(x):
            grid = nl.tiles(x, tile_shape=(4, 8))
            self.assertIsInstance(grid, nl.NkiGrid)
            self.assertEqual((grid.shape, grid.element_shape, len(grid)), ((3, 3, 3), (3, 10, 20), 3))
            self.assertEqual((grid.index_step_elements, grid.tile_shape), ((1, 4, 8), (4, 8)))
            self.assertEqual((grid.is_remainder, grid.dtype, grid.buffer), (True, nl.float32, nl.shared_hbm))
            row = grid[1, 2]
            self.assertEqual((row.shape, row.element_shape, row.index_step_elements), ((3,), (2, 20), (8,)))
            tile = row[0]
            self.assertEqual((tile.shape, tile.element_shape, tile.is_remainder), ((), (2, 8), True))
            self.assertFalse(grid[0, 1, 1].is_remainder)
            again = nl.tiles(grid[0, 1:], tile_shape=(2, 4))
            self.assertEqual((again.shape, again[1, 1].data.shape), ((3, 5), (2, 4)))
            return x

        harness.output(kernel, harness.argument("fp32", _numbers((3, 10, 20))))

    def test_several_rows_of_tiles_are_an_operand_of_whole_tiles(self):
        found, x = _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[0:2, 0:2].data, (10, 20))
        np.testing.assert_array_equal(found, x[:8, :16].reshape(2, 4, 2, 8).transpose(1, 0, 2, 3))
        with self.assertRaisesRegex(NkiValidationError, r"NkiTileGrid.data: .*no single operand"):
            _shown(lambda t: nl.tiles(t, tile_shape=(4, 8))[:, :].data, (10, 20))

    def test_mistakes_are_named(self):
        for make, message in (
            (lambda t: nl.tiles(t, tile_shape=(4,)), r"tile_shape: \(4,\), expected 2 to 2 dimensions"),
            (lambda t: nl.tiles(t, tile_shape=[4, 8]), "tile_shape: expected a tuple of positive integers"),
            (lambda t: nl.tiles(t, tile_shape=(0, 8)), "tile_shape: expected a tuple of positive integers"),
            (lambda t: nl.tiles(t), "tile_shape: expected one"),
            (lambda t: nl.tiles(3, tile_shape=(4, 8)), "source: expected a tensor or a grid, found 3"),
            (lambda t: nl.tiles(t, tile_shape=(4, 8))[3], r"index 3 of 3"),
            (lambda t: len(nl.tiles(t, tile_shape=(4, 8))[0, 0]), "NkiTileGrid.len: a single tile has no coordinates"),
            (lambda t: nl.tiles(t, tile_shape=(4, 8))[0, 0, 0], "3 indices for a grid"),
            (lambda t: nl.blocks(t, tile_shape=(4, 8), block_shape=(2,)), "block_shape: expected a tuple of 2 positive"),
            (lambda t: nisa.dma_copy(t, nl.tiles(t, tile_shape=(4, 8))[0, 0]), "src: expected a tensor.*its .data is one"),
        ):
            with self.assertRaisesRegex(NkiValidationError, message):
                _shown(make, (10, 20))


class Blocks(unittest.TestCase):
    def test_blocks_of_tiles(self):
        def kernel(x):
            grid = nl.blocks(x, tile_shape=(4, 8), block_shape=(2, 2))
            self.assertEqual((grid.shape, grid.block_shape, grid.tile_shape), ((3, 2), (2, 2), (4, 8)))
            self.assertEqual(grid.index_step_elements, (8, 16))
            last = grid[2, 1]
            self.assertEqual((last.shape, last.element_shape, last.is_remainder), ((), (2, 14), True))
            inside = nl.tiles(grid[1, 1])
            self.assertEqual((inside.shape, inside.element_shape), ((2, 2), (8, 14)))
            return inside[1, 1].data

        x = _numbers((18, 30))
        s = harness.session()
        view = execute(s, kernel, (harness.argument("fp32", x),), {})
        np.testing.assert_array_equal(s.read(view), x[12:16, 24:30])

    def test_a_matmul_in_blocks(self):
        def kernel(left, right):
            """Multiplies left [K, M] and right [K, N]. Each block of K comes by one transfer."""
            out = nl.ndarray((left.shape[1], right.shape[1]), nl.float32, buffer=nl.shared_hbm)
            sizes = {"tile_shape": (128, 128), "block_shape": (2, 1)}
            left_blocks, right_blocks = nl.blocks(left, **sizes), nl.blocks(right, **sizes)
            out_tiles = nl.tiles(out, tile_shape=(128, 128))
            for m in range(out_tiles.shape[0]):
                for n in range(out_tiles.shape[1]):
                    acc = nl.alloc_tiles(
                        tile_shape=(128, 128), element_shape=(128, 128), buffer=nl.psum, dtype=nl.float32
                    )
                    for k in range(left_blocks.shape[0]):
                        a = nl.alloc_blocks(element_shape=(256, 128), buffer=nl.sbuf, dtype=left.dtype, **sizes)
                        b = nl.alloc_blocks(element_shape=(256, 128), buffer=nl.sbuf, dtype=left.dtype, **sizes)
                        nisa.dma_copy(a.data, left_blocks[k, m].data)
                        nisa.dma_copy(b.data, right_blocks[k, n].data)
                        for t in range(2):
                            nisa.nc_matmul(acc[0, 0].data, nl.tiles(a)[t, 0].data, nl.tiles(b)[t, 0].data)
                    done = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
                    nisa.tensor_copy(done, acc.data)
                    nisa.dma_copy(out_tiles[m, n].data, done)
            return out

        left, right = _numbers((512, 256)), _numbers((512, 384))
        found = harness.output(kernel, harness.argument("fp32", left), harness.argument("fp32", right))
        exact = left.T.astype(np.float64) @ right
        # The bound of sums of 512 products in fp32.
        bound = 512 * 2.0**-24 * (np.abs(left).T @ np.abs(right)).max()
        np.testing.assert_allclose(found, exact, rtol=0, atol=bound)


class Allocated(unittest.TestCase):
    def test_tiles_lie_side_by_side(self):
        def kernel(x):
            grid = nl.alloc_tiles(tile_shape=(128, 64), element_shape=(300, 100), buffer=nl.sbuf, dtype=x.dtype)
            self.assertEqual((grid.shape, grid.buffer, grid.is_data_representable), ((3, 2), nl.sbuf, False))
            source = nl.tiles(x, tile_shape=(128, 64))
            out = nl.alloc_tiles(tile_shape=(128, 64), element_shape=(300, 100), buffer=nl.shared_hbm, dtype=x.dtype)
            for i in range(3):
                for j in range(2):
                    nisa.dma_copy(grid[i, j].data, source[i, j].data)
            offsets = [grid[i, j].data.offset for i in range(3) for j in range(2)]
            self.assertEqual(offsets, [64 * n for n in range(6)])
            for i in range(3):
                for j in range(2):
                    nisa.dma_copy(out[i, j].data, grid[i, j].data)
            return out[:, :]._backing.tensor

        x = _numbers((300, 100))
        np.testing.assert_array_equal(harness.output(kernel, harness.argument("fp32", x)), x)

    def test_a_row_of_tiles_is_one_operand(self):
        def kernel(x):
            grid = nl.alloc_tiles(tile_shape=(128, 64), element_shape=(256, 256), buffer=nl.sbuf, dtype=x.dtype)
            nisa.memset(grid[0].data, 1.0)
            nisa.memset(grid[1].data, 2.0)
            self.assertEqual((grid[0].data.shape, grid[:, 1].data.shape), ((128, 256), (128, 2, 1, 64)))
            out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(out, grid.data)
            return out

        found = harness.output(kernel, harness.argument("fp32", _numbers((2, 2))))
        np.testing.assert_array_equal(found, np.repeat([1.0, 2.0], 256)[None, :].repeat(128, 0))

    def test_tiles_have_the_size_that_they_were_allocated_in(self):
        def kernel(x):
            grid = nl.alloc_tiles(tile_shape=(128, 64), element_shape=(256, 256), buffer=nl.sbuf, dtype=x.dtype)
            return nl.tiles(grid, tile_shape=(64, 64))

        with self.assertRaisesRegex(NkiValidationError, r"the source was allocated in tiles of \(128, 64\)"):
            harness.output(kernel, harness.argument("fp32", _numbers((2, 2))))


if __name__ == "__main__":
    unittest.main()
