"""Compares the functions of nl.* with NumPy, and checks which instructions they become."""

import math
import unittest

import numpy as np
from tracing import Run, close, random

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
UNARY = {
    "exp": np.exp, "square": np.square, "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "abs": np.abs, "sin": np.sin, "negative": np.negative, "reciprocal": lambda x: 1 / x,
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}  # fmt: skip
POSITIVE = {"sqrt": np.sqrt, "log": np.log, "rsqrt": lambda x: 1 / np.sqrt(x)}


def kernel_of(function, *shapes):
    """Returns a kernel that loads its arguments and stores the function's result."""

    @nki.jit
    def kernel(*arguments):
        result = function(*(nl.load(a) for a in arguments))
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return kernel


def run(function, *arguments):
    made = Run(kernel_of(function), *arguments)
    return made.output, [(n, e) for n, e, *_ in made.instructions if n != "dma_copy"]


class Functions(unittest.TestCase):
    def test_two_tiles(self):
        a, b = random(64, 48), random(64, 48, seed=2) + 3
        for name, expected in BINARY.items():
            with self.subTest(name):
                found, instructions = run(getattr(nl, name), a, b)
                close(self, found, expected(a, b))
                self.assertEqual([n for n, _ in instructions], ["tensor_tensor"])

    def test_functions_of_one_tile(self):
        x = random(64, 48)
        for name, expected in {**UNARY, **POSITIVE}.items():
            with self.subTest(name):
                data = np.abs(x) + 0.1 if name in POSITIVE else x
                found, instructions = run(getattr(nl, name), data)
                close(self, found, expected(data.astype(np.float64)), 3e-5)
                engine = "any" if name == "negative" else "vector" if name == "reciprocal" else "scalar"
                self.assertEqual([e for _, e in instructions], [engine])

    def test_numbers_and_columns_are_operands(self):
        a, column = random(64, 48), random(64, 1, seed=2)
        for function, expected in (
            (lambda a, c: a * 3.0, a * 3),
            (lambda a, c: 2.0 - a, 2 - a),
            (lambda a, c: a + c, a + column),
            (lambda a, c: c - a, column - a),
            (lambda a, c: 1.0 / c * a, a / column),
        ):
            found, instructions = run(function, a, column)
            close(self, found, expected, 1e-4)
            self.assertEqual(set(n for n, _ in instructions), {"tensor_scalar"})

    def test_free_dimensions_broadcast_by_stride_0(self):
        a, b = random(32, 6, 10), random(32, 1, 10, seed=2)
        found, instructions = run(nl.multiply, a, b)
        close(self, found, a * b)
        self.assertEqual([n for n, _ in instructions], ["tensor_tensor"])

    def test_one_partition_meets_many(self):
        a, row = random(100, 1100), random(1, 1100, seed=2)
        found, instructions = run(nl.multiply, a, row)
        close(self, found, a * row)
        # There is a product for every bank of 512 columns.
        self.assertEqual([n for n, _ in instructions].count("nc_matmul"), 3)
        found, _ = run(lambda a, row: row.broadcast_to((100, 1100)), a, row)
        np.testing.assert_array_equal(found, np.broadcast_to(row, a.shape))

    def test_reductions(self):
        x = random(32, 5, 7)
        for name, expected in (("sum", np.sum), ("max", np.max), ("min", np.min), ("mean", np.mean), ("prod", np.prod)):
            for axis in ([1, 2], 2, [1]):
                with self.subTest(name, axis=axis):
                    found, _ = run(lambda x: getattr(nl, name)(x, axis=axis), x)
                    wanted = expected(x.astype(np.float64), axis=tuple(axis) if isinstance(axis, list) else axis)
                    close(self, found, wanted.reshape(found.shape))
        found, _ = run(lambda x: nl.var(x, axis=[1, 2]), x)
        close(self, found, x.var((1, 2)).reshape(32, 1), 1e-4)
        found, _ = run(lambda x: nl.sum(x, axis=1, keepdims=True), x)
        self.assertEqual(found.shape, (32, 1, 7))

    def test_a_gather_converts_if_it_is_asked_to(self):
        x, where = np.arange(256, dtype=np.float32).reshape(32, 8), np.arange(256).reshape(32, 8) % 7
        found, _ = run(lambda x, i: nl.gather_flattened(x, i, dtype=nl.int32), x, where.astype(np.uint32))
        self.assertEqual(found.dtype, np.int32)
        np.testing.assert_array_equal(found, np.take_along_axis(x, where, 1))

    def test_loops_take_their_limits_by_name(self):
        counts = []

        def kernel(x):
            counts.extend(nl.affine_range(1, stop=8, step=3))
            return nl.copy(x)

        run(kernel, random(4, 4))
        self.assertEqual(counts, [1, 4, 7])

    def test_softmax(self):
        x = 5 * random(20, 90)
        found, instructions = run(nl.softmax, x)
        powers = np.exp(x - x.max(1, keepdims=True))
        close(self, found, powers / powers.sum(1, keepdims=True))
        self.assertEqual([n for n, _ in instructions], ["tensor_reduce", "activation", "reciprocal", "tensor_scalar"])

    def test_rms_norm(self):
        x, w = 3 * random(40, 96), random(1, 96, seed=2)
        expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5) * w
        found, instructions = run(lambda x, w: nl.rms_norm(x, w, 1, 96, 1e-5), x, w)
        close(self, found, expected)
        self.assertEqual([n for n, _ in instructions][:3], ["activation", "tensor_reduce", "memset"])
        found, _ = run(lambda x, w: nl.rms_norm(x, w, axis=[1], n=96, epsilon=1e-5, dtype=nl.bfloat16), x, w)
        self.assertLessEqual(np.abs(found / expected - 1).max(), 2.0**-8)

    def test_rms_norm_of_a_part(self):
        @nki.jit
        def kernel(x, w):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            ix, iy = nl.arange(128)[:, None], nl.arange(96)[None, :]
            row = nl.load(w.reshape((1, 96)))
            for i in nl.affine_range(2):
                held = i * 128 + ix < 200
                tile = nl.rms_norm(nl.load(x[i * 128 + ix, iy], mask=held), row, 1, 96, mask=held)
                nl.store(out[i * 128 + ix, iy], tile, mask=held)
            return out

        x, w = random(200, 96), random(96, seed=2)
        expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * w
        close(self, Run(kernel, x, w).output, expected)

    def test_random_numbers_follow_from_the_seed(self):
        def differences(x):
            made = []
            for seed in (5, nl.full((1, 1), 5, dtype=nl.int32), 6):
                nl.random_seed(seed)
                made.append(nl.rand((16, 40)))
            return nl.maximum(nl.abs(made[0] - made[1]), 0.5 * nl.not_equal(made[0], made[2], dtype=nl.float32))

        np.testing.assert_array_equal(run(differences, random(4, 4))[0], np.full((16, 40), 0.5))

    def test_operators(self):
        x = np.arange(-60, 60, dtype=np.float32).reshape(8, 15)
        close(self, run(lambda x: abs(x), x)[0], np.abs(x))
        np.testing.assert_array_equal(run(lambda x: nl.copy(abs(x), dtype=nl.int32) % 7, x)[0], np.abs(x) % 7)
        np.testing.assert_array_equal(run(lambda x: ~nl.copy(x, dtype=nl.int32), x)[0], ~x.astype(np.int32))

    def test_where(self):
        x, y = random(40, 30), random(40, 30, seed=2)
        found, _ = run(lambda x, y: nl.where(nl.greater(x, y), x, y), x, y)
        close(self, found, np.maximum(x, y))
        found, _ = run(lambda x, y: nl.where(nl.less(x, 0.0), -1.0, y), x, y)
        close(self, found, np.where(x < 0, -1, y))

    def test_types(self):
        x = random(16, 16)
        found, _ = run(lambda x: nl.exp(x, dtype=nl.bfloat16), x)
        self.assertLessEqual(np.abs(found / np.exp(x) - 1).max(), 2.0**-8)
        found, _ = run(lambda x: nl.add(nl.copy(x, dtype=nl.bfloat16), x), x)
        self.assertEqual(found.dtype, np.float32)

    def test_transposes(self):
        small, large = random(20, 30), random(100, 70)
        found, instructions = run(lambda x: nl.copy(nl.transpose(x)), small)
        np.testing.assert_array_equal(found, small.T)
        self.assertEqual(instructions[0], ("nc_transpose", "vector"))
        found, instructions = run(lambda x: nl.copy(nl.transpose(x)), large)
        np.testing.assert_array_equal(found, large.T)
        self.assertEqual(instructions[0], ("nc_transpose", "tensor"))


if __name__ == "__main__":
    unittest.main()
