"""Compares views with NumPy's, and access patterns with their definition."""

import unittest

import harness
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.launch import execute
from nki.tracer.errors import NkiValidationError
from nki.tracer.layout import reshaped_strides, row_major, simplified


def _view_of(make, shape=(6, 4, 10), dtype="fp32"):
    """Returns what `make` selects from a tensor in HBM, and the tensor's numbers as a NumPy array."""
    numbers = np.arange(np.prod(shape)).reshape(shape)
    s = harness.session()
    view = execute(s, lambda t: make(t), (harness.argument(dtype, numbers),), {})
    return s.read(view), numbers


def _by_definition(numbers, index, count, group):
    """Gathers by the definition: offset i of a group lies in its partition i % group and column i // group."""
    picked = np.empty((len(numbers), count), numbers.dtype)
    for p in range(len(numbers)):
        for i in range(count):
            picked[p, i] = numbers[p, index[p // group * group + i % group, i // group]]
    return picked


class Ranges(unittest.TestCase):
    def test_the_range_of_a_loop_is_an_index(self):
        x = np.random.default_rng(harness.SEED).standard_normal((16, 24)).astype(np.float32)

        def kernel(x):
            rows, columns = nl.affine_range(1, 13, 2), nl.affine_range(24)
            out = nl.ndarray((6, 24), x.dtype, buffer=nl.shared_hbm)
            nl.store(out[nl.affine_range(6), columns], nl.load(x[rows, columns]))
            return out

        np.testing.assert_array_equal(harness.output(kernel, harness.argument("fp32", x)), x[1:13:2])
        with self.assertRaisesRegex(NkiValidationError, r"test_views.py:\d+: .* of dimension 0, which has 16 elements"):
            harness.output(lambda x: nl.load(x[nl.affine_range(17)]), harness.argument("fp32", x))


class Columns(unittest.TestCase):
    """Checks `tensor.indirect`, which accesses elements at run-time offsets along the free dimension."""

    def setUp(self):
        generator = np.random.default_rng(harness.SEED)
        self.numbers = generator.standard_normal((64, 40)).astype(np.float32)
        self.index = generator.integers(0, 40, (64, 3)).astype(np.uint32)
        self.arguments = harness.argument("fp32", self.numbers), harness.argument("u32", self.index)

    def loaded(self, *tensors):
        made = [nl.ndarray(t.shape, t.dtype, buffer=nl.sbuf) for t in tensors]
        for tile, t in zip(made, tensors):
            nisa.dma_copy(tile, t)
        return made

    def stored(self, tile):
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    def test_a_gather_is_its_definition(self):
        def kernel(x, index):
            tile, offsets = self.loaded(x, index)
            out = nl.ndarray((64, 43), x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(out, tile.indirect(offsets, num_elem=43), engine=nisa.engine.vector)
            return self.stored(out)

        found = harness.output(kernel, *self.arguments, target="trn3")
        np.testing.assert_array_equal(found, _by_definition(self.numbers, self.index, 43, 16))

    def test_the_tensor_engine_shares_offsets_among_32_partitions(self):
        def kernel(x, index):
            tile, offsets = self.loaded(x, index)
            sums = nl.ndarray((40, 64), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(sums, tile, tile.indirect(offsets, num_elem=64))
            out = nl.ndarray((40, 64), nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(out, sums)
            return self.stored(out)

        found = harness.output(kernel, *self.arguments, target="trn3")
        expected = self.numbers.T @ _by_definition(self.numbers, self.index, 64, 32)
        np.testing.assert_allclose(found, expected, atol=64 * 2**-23 * np.abs(expected).max())

    def test_a_scatter_writes_these_and_no_others(self):
        order = np.random.default_rng(harness.SEED + 1).permutation(40)[:16].astype(np.uint32)
        index = harness.argument("u32", np.tile(order, 4)[:, None])

        def kernel(x, index):
            tile, offsets = self.loaded(x, index)
            out = nl.zeros((64, 40), x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(out.indirect(offsets, num_elem=16), tile[:, 0:16])
            return self.stored(out)

        expected = np.zeros_like(self.numbers)
        expected[:, order] = self.numbers[:, :16]
        np.testing.assert_array_equal(harness.output(kernel, self.arguments[0], index, target="trn3"), expected)

    def test_mistakes_are_named(self):
        def using(make, engine=nisa.engine.vector):
            def kernel(x, index):
                tile, offsets = self.loaded(x, index)
                out = nl.ndarray((64, 8), x.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(out, make(tile, offsets), engine=engine)
                return self.stored(out)

            return kernel

        for make, target, text in (
            (lambda t, i: t.indirect(i, 8), "trn2", "trn2 does not have it"),
            (lambda t, i: t.indirect(i[0:32], 8), "trn3", "expected the 64 partitions"),
            (lambda t, i: t.indirect(t, 8), "trn3", "expected integers"),
            (lambda t, i: t.indirect(i, 100)[:, 0:8], "trn3", "slices before"),
            (lambda t, i: t[:, 0:8].indirect(i, 8), "trn3", "out of bounds, there are 8"),
        ):
            with self.assertRaisesRegex(NkiValidationError, text):
                harness.output(using(make), *self.arguments, target=target)


class Views(unittest.TestCase):
    def test_indexing_is_numpys(self):
        for make in (
            lambda t: t[1], lambda t: t[:, 1:3], lambda t: t[2:5, ..., 1::3], lambda t: t[-1, :, -4:-1], lambda t: t[..., 7],
            lambda t: t[0:6:2, 3, 2:10:4], lambda t: t[1][2], lambda t: t[2:4][1, 1:], lambda t: t[np.int64(3)],
        ):  # fmt: skip
            found, numbers = _view_of(make)
            np.testing.assert_array_equal(found, make(numbers))

    def test_other_shapes_are_numpys(self):
        found, numbers = _view_of(lambda t: t.reshape((3, 8, -1)))
        np.testing.assert_array_equal(found, numbers.reshape(3, 8, -1))
        found, numbers = _view_of(lambda t: t[:, :, 2:8].permute((2, 0, 1)))
        np.testing.assert_array_equal(found, numbers[:, :, 2:8].transpose(2, 0, 1))
        found, numbers = _view_of(lambda t: t[:, 1:2].broadcast(1, 5))
        np.testing.assert_array_equal(found, np.broadcast_to(numbers[:, 1:2], (6, 5, 10)))
        found, numbers = _view_of(lambda t: t.reshape_dim(2, (5, 2)).expand_dim(1).squeeze_dim(1).flatten_dims(1, 2))
        np.testing.assert_array_equal(found, numbers.reshape(6, 20, 2))
        found, numbers = _view_of(lambda t: t.rearrange(("a", "b", ("c", "d")), ("d", ("a", "b"), "c"), {"c": 5}))
        np.testing.assert_array_equal(found, numbers.reshape(6, 4, 5, 2).transpose(3, 0, 1, 2).reshape(2, 24, 5))
        found, numbers = _view_of(lambda t: t.select(1, 2).slice(1, 1, 9, 2))
        np.testing.assert_array_equal(found, numbers[:, 2, 1:9:2])

    def test_negative_indices_count_from_the_end(self):
        found, numbers = _view_of(lambda t: t.select(1, -1))
        np.testing.assert_array_equal(found, numbers[:, -1])

    def test_access_patterns_are_their_definition(self):
        found, numbers = _view_of(lambda t: t.ap([[40, 3], [1, 2], [7, 4], [0, 2]], offset=5))
        flat = numbers.reshape(-1)
        for index in np.ndindex(3, 2, 4, 2):
            self.assertEqual(found[index], flat[5 + 40 * index[0] + index[1] + 7 * index[2]])

    def test_a_pattern_over_a_slice_on_chip_counts_the_slices_own_partitions(self):
        def kernel(x):
            tile = nl.ndarray((6, 40), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            part = tile[0:4, 8:24]
            own, whole = part.ap([[16, 4], [2, 8]]), part.ap([[40, 4], [2, 8]])
            assert (own.strides, own.offset) == (whole.strides, whole.offset) == ((40, 2), 8)
            return tile

        execute(harness.session(), kernel, (harness.argument("fp32", np.zeros((6, 40), np.float32)),), {})

    def test_reinterpreted_bytes_are_numpys(self):
        numbers = np.arange(48, dtype=np.float32).reshape(6, 8)
        s = harness.session()
        for dtype, kind in ((nl.uint8, np.uint8), (nl.int32, np.int32), (nl.uint16, np.uint16)):
            view = execute(s, lambda t: t.view(dtype), (harness.argument("fp32", numbers),), {})
            np.testing.assert_array_equal(s.read(view), numbers.view(kind))
        view = execute(
            s, lambda t: t.ap([[16, 3], [2, 4]], offset=3, dtype=nl.uint16), (harness.argument("fp32", numbers),), {}
        )
        expected = [[numbers.view(np.uint16).reshape(-1)[3 + 16 * i + 2 * j] for j in range(4)] for i in range(3)]
        np.testing.assert_array_equal(s.read(view), expected)

    def test_on_chip_the_partition_axis_stays(self):
        def kernel():
            t = nl.ndarray((8, 4, 6), nl.float32)
            self.assertEqual(t[3].shape, (1, 4, 6))
            self.assertEqual(t[3, 1].shape, (1, 6))
            self.assertEqual(t[2:5, 1, 2].shape, (3, 1))
            for wrong in (lambda: t.permute((1, 0, 2)), lambda: t.reshape((4, 2, 24)), lambda: t.expand_dim(0),
                          lambda: t.ap([[6, 8], [1, 6]]), lambda: t.ap([[24, 8], [1, 25]])):  # fmt: skip
                with self.assertRaises(NkiValidationError):
                    wrong()

        execute(harness.session(), kernel, (), {})

    def test_random_reshapes_agree_with_numpy(self):
        generator = np.random.default_rng(harness.SEED)
        for _ in range(300):
            base = np.arange(720).reshape(generator.permutation([2, 3, 4, 5, 6]))
            slices = tuple(slice(0, n, int(generator.integers(1, 3))) for n in base.shape)
            view = base[slices].transpose(generator.permutation(5) if generator.random() < 0.3 else range(5))
            sizes = [int(n) for n in view.shape]
            cut = int(generator.integers(1, 4))
            new = (
                (int(np.prod(sizes[:cut])), *sizes[cut:])
                if generator.random() < 0.5
                else (*sizes[:3], int(np.prod(sizes[3:])))
            )
            strides = tuple(s // base.itemsize for s in view.strides)
            found = reshaped_strides(view.shape, strides, new)
            expected = view.reshape(new)
            if found is None:
                self.assertFalse(np.shares_memory(expected, base), (view.shape, strides, new))
            else:
                walked = np.lib.stride_tricks.as_strided(
                    base.reshape(-1)[view.ravel()[0] :], new, [s * 8 for s in found]
                )
                np.testing.assert_array_equal(walked, expected)


class Patterns(unittest.TestCase):
    def test_simplified_patterns_touch_the_same_elements_in_order(self):
        generator = np.random.default_rng(harness.SEED)
        for _ in range(300):
            shape = tuple(int(n) for n in generator.integers(1, 5, generator.integers(1, 5)))
            strides = tuple(int(s) for s in generator.integers(0, 30, len(shape)))
            if generator.random() < 0.5:
                strides = row_major(shape)
            expected = [sum(i * s for i, s in zip(index, strides)) for index in np.ndindex(*shape)]
            found = np.zeros(1, int)
            for stride, count in simplified(shape, strides, 0):
                found = (found[:, None] + np.arange(count) * stride).reshape(-1)
            self.assertEqual(found.tolist(), expected)

    def test_patterns_are_short(self):
        self.assertEqual(simplified((128, 4, 1, 128), (512, 128, 128, 1), 512), ((512, 128), (1, 512)))
        self.assertEqual(simplified((1, 128), (7, 2), 512), ((512, 1), (2, 128)))
        self.assertEqual(simplified((16, 8), (8, 1), 0), ((1, 128),))


if __name__ == "__main__":
    unittest.main()
