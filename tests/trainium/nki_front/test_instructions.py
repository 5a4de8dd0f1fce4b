"""Compares what instructions compute with NumPy."""

import unittest

import harness
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from harness import argument, output, outputs
from nki.tracer import dtypes, values
from nki.tracer.errors import NkiValidationError

generator = np.random.default_rng(harness.SEED)


def normal(*shape):
    return generator.standard_normal(shape).astype(np.float32)


def loaded(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def on_tiles(instruct, *inputs, shape=None, dtype=nl.float32, **options):
    """Runs `instruct(dst, tiles...)` on inputs that are loaded. dst has the shape of the first one, or `shape`."""

    def kernel(*tensors):
        tiles = [loaded(t) for t in tensors]
        dst = nl.ndarray(shape or tiles[0].shape, dtype)
        instruct(dst, *tiles)
        return stored(dst)

    return output(kernel, *inputs, **options)


class Products(unittest.TestCase):
    def test_sums_over_tiles_of_bf16(self):
        a, b = normal(512, 128), normal(512, 256)

        @nki.jit
        def kernel(a, b):
            out = nl.ndarray((128, 256), nl.float32, buffer=nl.shared_hbm)
            total = nl.ndarray((128, 256), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(4):
                nisa.nc_matmul(total, loaded(a[k * 128 : k * 128 + 128]), loaded(b[k * 128 : k * 128 + 128]))
            tile = nl.ndarray((128, 256), nl.float32)
            nisa.tensor_copy(tile, total)
            nisa.dma_copy(out, tile)
            return out

        x, y = argument("bf16", a), argument("bf16", b)
        found = output(kernel, x, y)
        expected = x.data.astype(np.float64).T @ y.data
        bound = 512 * 2.0**-24 * (np.abs(x.data).T.astype(np.float64) @ np.abs(y.data))
        self.assertTrue((np.abs(found - expected) <= bound).all())

    def _twice(self, flags):
        """Adds two products in one tile of PSUM with the given `accumulate`, and reads it in between if asked to."""

        def kernel(a):
            tile = loaded(a)
            total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
            out = nl.ndarray((32, 32), nl.float32)
            for flag in flags:
                if flag == "read":
                    nisa.tensor_copy(out, total)
                else:
                    nisa.nc_matmul(total, tile, tile, accumulate=flag)
            nisa.tensor_copy(out, total)
            return stored(out)

        a = normal(64, 32)
        return output(kernel, argument("fp32", a)) / (a.T @ a)

    def test_what_is_accumulated(self):
        np.testing.assert_allclose(self._twice([None, None]), 2, rtol=1e-3)
        np.testing.assert_allclose(self._twice([False, True]), 2, rtol=1e-3)
        np.testing.assert_allclose(self._twice([None, False]), 1, rtol=1e-3)
        np.testing.assert_allclose(self._twice([None, "read", None]), 1, rtol=1e-3)

    def test_accumulates_only_where_a_product_was(self):
        def kernel(a):
            tile = loaded(a)
            total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total[:, 0:16], tile, tile[:, 0:16])
            nisa.nc_matmul(total, tile, tile)
            out = nl.ndarray((32, 32), nl.float32)
            nisa.tensor_copy(out, total)
            return stored(out)

        a = normal(64, 32)
        found = output(kernel, argument("fp32", a)) / (a.T @ a)
        np.testing.assert_allclose(found, np.where(np.arange(32) < 16, 2, 1) * np.ones((32, 1)), rtol=1e-3)

    def test_fp8_in_double_rows(self):
        a, b = argument("fp8", normal(128, 2, 64)), argument("fp8", normal(128, 2, 96))

        def kernel(a, b):
            total = nl.ndarray((64, 96), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, loaded(a), loaded(b), perf_mode=nisa.matmul_perf_mode.double_row)
            out = nl.ndarray((64, 96), nl.float32)
            nisa.tensor_copy(out, total)
            return stored(out)

        np.testing.assert_allclose(output(kernel, a, b), np.einsum("kim,kin->mn", a.data, b.data), rtol=1e-4, atol=1e-4)

    def test_transposes(self):
        x = normal(96, 64)

        def by_tensor(x):
            across = nl.ndarray((64, 96), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(across, loaded(x))
            out = nl.ndarray((64, 96), nl.float32)
            nisa.tensor_copy(out, across)
            return stored(out)

        np.testing.assert_array_equal(output(by_tensor, argument("fp32", x)), x.T)
        np.testing.assert_array_equal(on_tiles(nisa.nc_transpose, argument("fp32", x[:32, :32])), x[:32, :32].T)
        np.testing.assert_array_equal(on_tiles(nisa.dma_transpose, argument("fp32", x), shape=(64, 96)), x.T)

    def test_a_transpose_by_the_identity_keeps_what_is_not_finite(self):
        x = normal(8, 8)
        x[2, 3], x[4, 4] = np.nan, np.inf

        def kernel(x):
            across = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(across, loaded(x), nl.shared_identity_matrix(8, nl.float32), is_transpose=True)
            out = nl.ndarray((8, 8), nl.float32)
            nisa.tensor_copy(out, across)
            return stored(out)

        np.testing.assert_array_equal(output(kernel, argument("fp32", x)), x.T)

    def test_microscaled_products(self):
        x, y = argument("bf16", normal(128, 4 * 64)), argument("bf16", normal(128, 4 * 96))

        def quantized(x):
            data = nl.ndarray((128, x.shape[1] // 4), nl.float8_e4m3fn_x4)
            scale = nl.ndarray((128, x.shape[1] // 4), nl.uint8)
            nisa.quantize_mx(data, loaded(x), scale)
            return data, scale

        def kernel(x, y):
            (a, a_scale), (b, b_scale) = quantized(x), quantized(y)
            total = nl.ndarray((64, 96), nl.float32, buffer=nl.psum)
            nisa.nc_matmul_mx(total, a, b, a_scale, b_scale)
            out = nl.ndarray((64, 96), nl.float32)
            nisa.tensor_copy(out, total)
            return stored(out)

        a, b = x.data.reshape(128, 64, 4), y.data.reshape(128, 96, 4)
        exact = np.einsum("kiq,kjq->ij", a.astype(np.float64), b)
        # A factor is rounded to 4 bits, which is a relative error of at most 2^-4 per product.
        bound = np.einsum("kiq,kjq->ij", np.abs(a), np.abs(b)) * (2 * 2.0**-4 + 2.0**-8)
        self.assertTrue((np.abs(output(kernel, x, y, target="trn3") - exact) <= bound).all())


class Elements(unittest.TestCase):
    def test_one_and_two_operands(self):
        x, y, s, t = normal(64, 3, 20), normal(64, 60), normal(64, 1), normal(64, 1)
        a, b, u, v = (argument("fp32", n) for n in (x, y, s, t))
        y3, s3, t3 = y.reshape(64, 3, 20), s[:, None], t[:, None]
        cases = [
            (lambda d, x: nisa.tensor_copy(d, x), (a,), x),
            (lambda d, x, y: nisa.tensor_tensor(d, x, y, nl.subtract), (a, b), x - y3),
            (lambda d, x, y: nisa.tensor_tensor(d, x, y, nl.maximum), (a, b), np.maximum(x, y3)),
            (lambda d, x: nisa.tensor_scalar(d, x, nl.multiply, 2.5, op1=nl.add, operand1=-1.0), (a,), x * np.float32(2.5) - 1),
            (lambda d, x, s: nisa.tensor_scalar(d, x, nl.subtract, s, reverse0=True), (a, u), s3 - x),
            (lambda d, x, s, t: nisa.tensor_scalar(d, x, nl.add, s, op1=nl.multiply, operand1=t), (a, u, v), (x + s3) * t3),
            (lambda d, x: nisa.tensor_scalar(d, x, nl.greater, 0.0), (a,), (x > 0).astype(np.float32)),
            (lambda d, x, y, s: nisa.scalar_tensor_tensor(d, x, nl.multiply, s, nl.add, y), (a, b, u), x * s3 + y3),
            (lambda d, x, y: nisa.scalar_tensor_tensor(d, x, nl.add, 3.0, nl.subtract, y, reverse1=True), (a, b), y3 - (x + 3)),
            (lambda d, x: nisa.reciprocal(d, x), (a,), 1 / x),
            (lambda d, x, s, t: nisa.activation(d, nl.exp, x, bias=s, scale=t), (a, u, v), np.exp(x * t3 + s3)),
            (lambda d, x: nisa.activation(d, nl.silu, x, scale=2.0), (a,), 2 * x / (1 + np.exp(-2 * x))),
        ]  # fmt: skip
        for i, (instruct, inputs, expected) in enumerate(cases):
            np.testing.assert_allclose(on_tiles(instruct, *inputs), expected, rtol=2e-6, atol=1e-6, err_msg=f"case {i}")

    def test_results_are_rounded_to_their_type(self):
        x = normal(32, 40)
        found = on_tiles(
            lambda d, x: nisa.tensor_scalar(d, x, nl.multiply, 3.0), argument("fp32", x), dtype=nl.bfloat16
        )
        np.testing.assert_array_equal(found, values.rounded(x * 3, dtypes.bfloat16))
        found = on_tiles(lambda d, x: nisa.tensor_copy(d, x), argument("fp32", x * 10), dtype=nl.int8)
        np.testing.assert_array_equal(found, np.clip(np.rint(x * 10), -128, 127))

    def test_integers_are_exact(self):
        x = generator.integers(-(2**30), 2**30, (16, 32))
        y = generator.integers(-(2**30), 2**30, (16, 32))
        a, b = argument("i32", x), argument("i32", y)
        np.testing.assert_array_equal(
            on_tiles(lambda d, x, y: nisa.tensor_tensor(d, x, y, nl.add), a, b, dtype=nl.int32), x + y
        )
        np.testing.assert_array_equal(
            on_tiles(
                lambda d, x: nisa.tensor_scalar(d, x, nl.bitwise_and, 0xFF, op1=nl.left_shift, operand1=3),
                a,
                dtype=nl.int32,
            ),
            (x & 0xFF) << 3,
        )

    def test_all_bits_of_integers_are_kept(self):
        a, b = (generator.integers(-(2**31), 2**31, (32, 8)) for _ in range(2))
        for reverse in (False, True):
            found = on_tiles(
                lambda d, x, y: nisa.scalar_tensor_tensor(d, x, nl.bitwise_and, 0x7FFFFFFF, nl.bitwise_xor, y, reverse1=reverse),
                argument("i32", a), argument("i32", b), dtype=nl.int32,
            )  # fmt: skip
            np.testing.assert_array_equal(found, (a & 0x7FFFFFFF) ^ b)

    def test_copies_where_a_predicate_says_so(self):
        x, y, p = normal(8, 16), normal(8, 16), generator.integers(0, 2, (8, 16))

        def instruct(d, x, y, p):
            nisa.tensor_copy(d, y)
            nisa.tensor_copy_predicated(d, x, p)

        inputs = argument("fp32", x), argument("fp32", y), argument("u8", p)
        np.testing.assert_array_equal(on_tiles(instruct, *inputs), np.where(p, x, y))

    def test_broadcasts_of_the_language(self):
        x, y = normal(64, 20), normal(1, 20)

        def kernel(x, y):
            row = nl.broadcast_to(loaded(y), (64, 20))
            return stored(nl.multiply(nl.add(loaded(x), row), 0.5))

        np.testing.assert_allclose(
            output(kernel, argument("fp32", x), argument("fp32", y)), (x + y) / 2, rtol=1e-6, atol=1e-7
        )

    def test_softmax_and_norm_of_the_language(self):
        x, w = normal(32, 50), normal(32, 50)
        found = output(lambda x: stored(nl.softmax(loaded(x), axis=1)), argument("fp32", x))
        powers = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=2e-6)
        found = output(
            lambda x, w: stored(nl.rms_norm(loaded(x), loaded(w), 1, 50)), argument("fp32", x), argument("fp32", w)
        )
        np.testing.assert_allclose(found, x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w, rtol=1e-5, atol=1e-6)


class Reductions(unittest.TestCase):
    def test_over_free_axes(self):
        x = normal(64, 4, 6, 5)
        a = argument("fp32", x)
        for op, axes, expected in (
            (nl.add, (3,), x.sum(3)), (nl.maximum, (2, 3), x.max((2, 3))), (nl.minimum, (1, 2, 3), x.min((1, 2, 3))[:, None]),
            (nl.multiply, (3,), x.prod(3)),
        ):  # fmt: skip
            found = on_tiles(lambda d, x, op=op, axes=axes: nisa.tensor_reduce(d, op, x, axes), a, shape=expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        found = on_tiles(
            lambda d, x: nisa.tensor_partition_reduce(d, nl.add, x), argument("fp32", x[:, 0, 0]), shape=(1, 5)
        )
        np.testing.assert_allclose(found, x[:, 0, 0].sum(0, keepdims=True), rtol=1e-4, atol=1e-5)

    def test_sums_beside_activations(self):
        x = normal(32, 100)

        def kernel(x):
            tile, powers, total = loaded(x), nl.ndarray((32, 50), nl.float32), nl.ndarray((32, 1), nl.float32)
            nisa.activation(powers, nl.exp, tile[:, 0:50], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
            nisa.activation(
                powers, nl.exp, tile[:, 50:100], reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reduce
            )
            both = nl.ndarray((32, 1), nl.float32)
            nisa.activation_reduce(powers, nl.exp, tile[:, 0:50], nl.add, both)
            return stored(total), stored(both)

        whole, part = outputs(kernel, argument("fp32", x))
        np.testing.assert_allclose(whole, np.exp(x).sum(1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(part, np.exp(x[:, :50]).sum(1, keepdims=True), rtol=1e-5)

    def test_scan(self):
        a, b = normal(16, 40), normal(16, 40)
        found = on_tiles(
            lambda d, a, b: nisa.tensor_tensor_scan(d, a, b, 0.5, nl.multiply, nl.add),
            argument("fp32", a),
            argument("fp32", b),
        )
        state, expected = np.full(16, 0.5), np.empty((16, 40))
        for i in range(40):
            state = expected[:, i] = a[:, i] * state + b[:, i]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    def test_statistics_of_batches(self):
        x = normal(32, 700) * 3 + 1

        def instruct(d, x):
            parts = nl.ndarray((32, 2, 6), nl.float32)
            nisa.bn_stats(parts[:, 0], x[:, 0:512])
            nisa.bn_stats(parts[:, 1], x[:, 512:700])
            nisa.bn_aggr(d, parts)

        found = on_tiles(instruct, argument("fp32", x), shape=(32, 2))
        np.testing.assert_allclose(found, np.stack([x.mean(1), x.var(1)], 1), rtol=1e-4)

    def test_reductions_beside_scalars(self):
        x = normal(16, 30)

        def kernel(x):
            out, top = nl.ndarray((16, 30), nl.float32), nl.ndarray((16, 1), nl.float32)
            nisa.tensor_scalar_reduce(out, loaded(x), nl.multiply, 2.0, nl.maximum, top)
            return stored(out), stored(top)

        doubled, top = outputs(kernel, argument("fp32", x))
        np.testing.assert_array_equal(doubled, 2 * x)
        np.testing.assert_array_equal(top, 2 * x.max(1, keepdims=True))


class Selections(unittest.TestCase):
    def test_patterns(self):
        def kernel():
            tile = nl.ndarray((8, 3, 5), nl.int32)
            nisa.iota(tile, [[10, 3], [-1, 5]], offset=7, channel_multiplier=100)
            return stored(tile)

        p, a, b = np.ogrid[:8, :3, :5]
        np.testing.assert_array_equal(output(kernel), 7 + 100 * p + 10 * a - b)

    def test_causal_mask(self):
        x = normal(64, 64)
        found = on_tiles(
            lambda d, x: nisa.affine_select(d, [[-1, 64]], 1, x, -9984.0, cmp_op=nl.greater_equal), argument("fp32", x)
        )
        np.testing.assert_array_equal(found, np.where(np.tril(np.ones((64, 64))) > 0, x, -9984))

    def test_ranges_and_predicates(self):
        x, low, high = normal(16, 40), generator.integers(0, 20, (16, 1)), generator.integers(20, 40, (16, 1))

        def kernel(x, low, high):
            out, top = nl.ndarray((16, 40), nl.float32), nl.ndarray((16, 1), nl.float32)
            nisa.range_select(out, loaded(x), nl.greater_equal, nl.less, loaded(low), loaded(high), reduce_res=top)
            return stored(out), stored(top)

        found, top = outputs(kernel, *(argument("fp32", n) for n in (x, low, high)))
        column = np.arange(40)
        expected = np.where((column >= low) & (column < high), x, np.float32(-3.4028235e38))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(top, expected.max(1, keepdims=True))

    def test_the_eight_largest_and_where_they_are(self):
        x = np.stack([generator.permutation(100) for _ in range(16)]).astype(np.float32)

        def kernel(x):
            tile, top, where, rest = (
                loaded(x),
                nl.ndarray((16, 8), nl.float32),
                nl.ndarray((16, 8), nl.uint32),
                nl.ndarray((16, 100), nl.float32),
            )
            nisa.max8(top, tile)
            nisa.nc_find_index8(where, tile, top)
            nisa.nc_match_replace8(rest, tile, top, -1.0)
            return stored(top), stored(where), stored(rest)

        top, where, rest = outputs(kernel, argument("fp32", x))
        np.testing.assert_array_equal(top, -np.sort(-x)[:, :8])
        np.testing.assert_array_equal(where, np.argsort(-x)[:, :8])
        np.testing.assert_array_equal(rest, np.where(x >= 92, -1, x))

    def test_equal_values_are_paired_in_both_orders(self):
        data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
        wanted = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)

        def kernel(data, wanted):
            rest, where, found = (
                nl.ndarray((1, 11), nl.float32),
                nl.ndarray((1, 8), nl.uint32),
                nl.ndarray((1, 8), nl.uint32),
            )
            nisa.nc_match_replace8(rest, loaded(data), loaded(wanted), 0.0, where)
            nisa.nc_find_index8(found, loaded(data), loaded(wanted))
            return stored(where), stored(found)

        where, found = outputs(kernel, argument("fp32", data), argument("fp32", wanted))
        # The documentation's example.
        self.assertEqual(where.tolist(), [[2, 10, 9, 8, 7, 6, 5, 4]])
        self.assertEqual(found.tolist(), [[2, 4, 5, 6, 7, 8, 9, 10]])

    def test_nonzero_elements_and_their_count(self):
        x = np.zeros((128, 8), np.float32)
        x[16] = [0, 1, 1, 0, 0, 1, 0, 0]

        def kernel(x):
            out = nl.ndarray((128, 9), nl.int32)
            nisa.memset(out, 5)
            nisa.nonzero_with_count(out, loaded(x), index_offset=16, padding_val=-1)
            return stored(out)

        found = output(kernel, argument("fp32", x))
        # The documentation's example.
        self.assertEqual(found[16].tolist(), [17, 18, 21, -1, -1, -1, -1, -1, 3])
        self.assertEqual(found[17].tolist(), [5] * 9)


class RandomNumbers(unittest.TestCase):
    def test_numbers_go_on_from_a_stored_state(self):
        for engine, words in ((nisa.engine.gpsimd, 6), (nisa.engine.vector, 24)):
            def kernel():
                state, first, again = (nl.ndarray((128, n), nl.uint32) for n in (words, 16, 16))
                nisa.rand_get_state(state, engine=engine)
                nisa.rng(first)
                nisa.rand_set_state(state, engine=engine)
                nisa.rng(again)
                return stored(first), stored(again)

            first, again = outputs(kernel, target="trn3")
            np.testing.assert_array_equal(first, again)
            self.assertGreater(len(np.unique(first)), 2000)

    def test_the_engine_of_a_state_may_be_left_open(self):
        on_tiles(lambda d, x: nisa.rand_get_state(d, engine=nisa.engine.unknown), argument("fp32", normal(32, 6)), dtype=nl.uint32)

    def test_a_state_has_its_engines_size(self):
        def kernel(words, engine):
            nisa.rand_get_state(nl.ndarray((128, words), nl.uint32), engine=engine)

        for words, engine, target, text in (
            (24, nisa.engine.gpsimd, "trn2", r"expected uint32 \[partitions, 6\]"),
            (24, nisa.engine.vector, "trn2", "trn2 cannot store the state of vector's generator"),
            (6, nisa.engine.gpsimd, "trn1", "trn1 cannot"),
        ):
            with self.assertRaisesRegex(NkiValidationError, text):
                outputs(kernel, words, engine, target=target)


class Movement(unittest.TestCase):
    def test_shuffles_within_quadrants(self):
        x = normal(64, 10)
        mask = [int(i) for i in generator.permutation(32)]
        mask[3] = 255

        def instruct(d, x):
            nisa.memset(d, 0.0)
            nisa.nc_stream_shuffle(d, x, mask)

        found = on_tiles(instruct, argument("fp32", x))
        expected = x.reshape(2, 32, 10)[:, [0 if m == 255 else m for m in mask]]
        expected[:, 3] = 0
        np.testing.assert_array_equal(found, expected.reshape(64, 10))

    def test_gathers_within_and_across_partitions(self):
        x, i = normal(32, 50), generator.integers(0, 50, (32, 20))
        found = on_tiles(nisa.nc_n_gather, argument("fp32", x), argument("u32", i), shape=(32, 20))
        np.testing.assert_array_equal(found, np.take_along_axis(x, i, 1))
        i = generator.integers(0, 50, (32, 3))
        found = on_tiles(nisa.local_gather, argument("fp32", x), argument("u16", i), shape=(32, 48))
        for core in (0, 16):
            np.testing.assert_array_equal(
                found[core : core + 16], x[core : core + 16][:, i[core : core + 16].T.reshape(-1)]
            )

    def test_a_gather_converts_if_it_is_asked_to(self):
        x = normal(32, 8)
        where = generator.integers(0, 8, (32, 8))
        kernel = nki.jit(lambda x, i: stored(nl.gather_flattened(loaded(x), loaded(i), dtype=nl.float32)))
        found = output(kernel, argument("bf16", x), argument("u32", where))
        rounded = values.rounded(x, dtypes.bfloat16)
        np.testing.assert_array_equal(found, np.take_along_axis(rounded, where, 1))

    def test_rows_that_indices_choose(self):
        x, rows = normal(40, 8), generator.permutation(40)[:16].reshape(16, 1)

        def kernel(x, rows):
            index = loaded(rows)
            tile = nl.ndarray((16, 8), nl.float32)
            nisa.dma_copy(tile, x.ap([[8, 16], [1, 8]], vector_offset=index, indirect_dim=0))
            out = nl.ndarray((40, 8), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, x)
            nisa.tensor_scalar(tile, tile, nl.multiply, -1.0)
            nisa.dma_copy(out.ap([[8, 16], [1, 8]], vector_offset=index, indirect_dim=0), tile)
            return out

        found = output(kernel, argument("fp32", x), argument("u32", rows))
        expected = x.copy()
        expected[rows[:, 0]] *= -1
        np.testing.assert_array_equal(found, expected)

    def test_rows_of_vector_select_are_those_that_indices_choose(self):
        x, rows = normal(40, 8), generator.permutation(40)[:16].reshape(16, 1)

        def kernel(x, rows):
            tile = nl.ndarray((16, 8), nl.float32)
            nisa.dma_copy(tile, x.vector_select(0, loaded(rows)))
            out = nl.ndarray((16, 8), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, tile)
            return out

        np.testing.assert_array_equal(output(kernel, argument("fp32", x), argument("u32", rows)), x[rows[:, 0]])
        for make, text in (
            (lambda x, i: x.vector_select(1, i), "expected a tensor in HBM and dimension 0"),
            (lambda x, i: x.vector_select(0, 3), "vector_offset: expected a tensor, found 3"),
        ):
            with self.assertRaisesRegex(NkiValidationError, text):
                output(lambda x, rows, make=make: make(x, loaded(rows)), argument("fp32", x), argument("u32", rows))

    def test_rows_out_of_bounds_are_skipped_or_refused(self):
        x, rows = normal(10, 8), np.array([[3], [99], [5], [0]])

        def kernel(x, rows, mode):
            tile = nl.ndarray((4, 8), nl.float32)
            nisa.memset(tile, 7.0)
            nisa.dma_copy(tile, x.ap([[8, 4], [1, 8]], vector_offset=loaded(rows)), oob_mode=mode)
            return stored(tile)

        inputs = argument("fp32", x), argument("i32", rows)
        found = output(kernel, *inputs, nisa.oob_mode.skip)
        np.testing.assert_array_equal(found, np.stack([x[3], np.full(8, 7.0), x[5], x[0]]))
        with self.assertRaisesRegex(Exception, "index 99 is out of bounds"):
            output(kernel, *inputs, nisa.oob_mode.error)

    def test_an_offset_in_a_register(self):
        x = normal(6, 32, 8)

        def kernel(x, which):
            register = nisa.register_alloc()
            nisa.register_load(register, loaded(which))
            tile = nl.ndarray((32, 8), nl.float32)
            nisa.dma_copy(tile, x.select(0, register))
            return stored(tile)

        np.testing.assert_array_equal(output(kernel, argument("fp32", x), argument("i32", [[4]])), x[4])

    def test_sums_by_dma(self):
        x, y = normal(16, 8), normal(16, 8)
        found = on_tiles(lambda d, x, y: nisa.dma_compute(d, [x, y], nl.add), argument("fp32", x), argument("fp32", y))
        np.testing.assert_array_equal(found, x + y)

    def test_sums_by_dma_skip_rows_out_of_bounds(self):
        x, y = normal(8, 4), normal(16, 4)
        rows = np.array([[3], [9], [0], [40]])

        def kernel(x, y, rows):
            out, index = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm), loaded(rows)
            nisa.dma_copy(out, x)
            chosen = out.ap([[4, 4], [1, 4]], vector_offset=index, indirect_dim=0)
            nisa.dma_compute(chosen, [chosen, y[0:4]], nl.add, scales=[1.0, 2.0], oob_mode=nisa.oob_mode.skip)
            return out

        found = output(kernel, *(argument(d, n) for d, n in (("fp32", x), ("fp32", y), ("i32", rows))))
        expected = x.copy()
        expected[[3, 0]] += 2 * y[[0, 2]]
        np.testing.assert_array_equal(found, expected)

    def test_a_transposing_transfer_skips_rows_out_of_bounds(self):
        x, rows = normal(8, 4), np.array([[3], [9], [0], [40]])

        def kernel(x, rows):
            out, index = loaded(x[4:8]), loaded(rows)
            nisa.dma_transpose(out, x.ap([[4, 4], [1, 4]], vector_offset=index), oob_mode=nisa.oob_mode.skip)
            return stored(out)

        expected = x[4:8].copy()
        expected[:, [0, 2]] = x[[3, 0]].T
        np.testing.assert_array_equal(output(kernel, argument("fp32", x), argument("i32", rows)), expected)

    def test_rows_that_a_sum_by_dma_cannot_read_keep_their_values(self):
        x, rows = normal(8, 4), np.array([[3], [9], [0], [40]])

        def kernel(x, rows):
            out, index = loaded(x[4:8]), loaded(rows)
            nisa.dma_compute(out, [x.ap([[4, 4], [1, 4]], vector_offset=index)], nl.add, oob_mode=nisa.oob_mode.skip)
            return stored(out)

        expected = x[4:8].copy()
        expected[[0, 2]] = x[[3, 0]]
        np.testing.assert_array_equal(output(kernel, argument("fp32", x), argument("i32", rows)), expected)


if __name__ == "__main__":
    unittest.main()
