"""Compares the instructions of nisa in their legacy form with NumPy."""

import unittest

import numpy as np
from tracing import Run, close, random

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def run(function, *arguments, **options):
    """Runs a kernel that loads the arguments, applies the function and stores its result."""

    @nki.jit
    def kernel(*given):
        result = function(*(nl.load(a) for a in given))
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    made = Run(kernel, *arguments, **options)
    return made.output, [i for i in made.instructions if i[0] != "dma_copy"]


class Instructions(unittest.TestCase):
    def test_activation(self):
        x, bias, scale = random(64, 40), random(64, 1, seed=2), random(64, 1, seed=3)
        found, made = run(lambda x, b, s: nisa.activation(op=nl.exp, data=x, bias=b, scale=s), x, bias, scale)
        close(self, found, np.exp(x * scale + bias))
        self.assertEqual(set(made[0][3]), {"dst", "src", "bias", "scale"})
        found, _ = run(lambda x: nisa.activation(np.square, x, bias=0.5, scale=2.0), x, on="trn1")
        close(self, found, (2 * x + 0.5) ** 2)

    def test_activation_with_a_sum(self):
        def both(x):
            total = nl.ndarray((x.shape[0], 2), dtype=nl.float32)
            powers = nisa.activation_reduce(nl.exp, x, reduce_op=np.add, reduce_res=total[:, 0])
            total[:, 1] = nl.sum(powers, axis=1)
            return total

        found, _ = run(both, random(64, 40))
        close(self, found[:, 0], found[:, 1])

    def test_sequence_bounds(self):
        ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.float32)
        found, made = run(lambda x: nisa.sequence_bounds(segment_ids=x), ids)
        expected = [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]
        np.testing.assert_array_equal(found, [expected])
        self.assertEqual(made[0][0], "sequence_bounds")

    def test_tensor_scalar(self):
        x, column = random(64, 40), random(64, 1, seed=2)
        found, _ = run(lambda x, c: nisa.tensor_scalar(x, np.subtract, c, True, np.multiply, 3.0), x, column)
        close(self, found, (column - x) * 3)
        found, made = run(lambda x: nisa.tensor_scalar(x, nl.maximum, 0.0, engine=nisa.vector_engine), x)
        close(self, found, np.maximum(x, 0))
        self.assertEqual(made[0][1], "vector")

    def test_tensor_scalar_reduce(self):
        def both(x):
            largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32)
            doubled = nisa.tensor_scalar_reduce(
                data=x, op0=np.multiply, operand0=2.0, reduce_op=nl.max, reduce_res=largest
            )
            return doubled - largest

        x = random(64, 40)
        found, _ = run(both, x)
        close(self, found, 2 * x - (2 * x).max(1, keepdims=True))

    def test_tensor_reduce_negated(self):
        x = random(64, 4, 10)
        found, _ = run(lambda x: nisa.tensor_reduce(np.min, x, axis=(1,), negate=True), x)
        close(self, found, -x.min(1))

    def test_scan(self):
        a, b = random(32, 20), random(32, 20, seed=2)
        found, _ = run(lambda a, b: nisa.tensor_tensor_scan(a, b, initial=1.0, op0=np.multiply, op1=np.add), a, b)
        state, expected = np.ones(32), []
        for i in range(20):
            state = a[:, i] * state + b[:, i]
            expected.append(state)
        close(self, found, np.stack(expected, 1), 1e-4)

    def test_scalar_tensor_tensor(self):
        a, b, c = random(32, 20), random(32, 20, seed=2), random(32, 1, seed=3)
        found, _ = run(
            lambda a, b, c: nisa.scalar_tensor_tensor(data=a, op0=nl.multiply, operand0=c, op1=nl.subtract, operand1=b),
            a,
            b,
            c,
        )
        close(self, found, a * c - b)

    def test_iota_and_affine_select(self):
        x = random(64, 48)
        i, j = nl.arange(64)[:, None], nl.arange(48)[None, :]
        found, _ = run(lambda x: nl.add(nl.copy(nisa.iota(48 * i + 2 * j + 5, dtype=nl.int32), dtype=nl.float32), x), x)
        close(self, found, x + 48 * np.arange(64)[:, None] + 2 * np.arange(48) + 5)
        head = 7  # For example a loop's counter or program_id.
        found, _ = run(lambda x: nl.add(nl.copy(nisa.iota(head, dtype=nl.int32), dtype=nl.float32).broadcast_to((64, 48)), x), x)
        close(self, found, x + 7)
        found, made = run(lambda x: nisa.affine_select(pred=(i >= j + 3), on_true_tile=x, on_false_value=-9.0), x)
        close(self, found, np.where(np.arange(64)[:, None] >= np.arange(48) + 3, x, -9))
        self.assertEqual([m[0] for m in made], ["affine_select"])

    def test_batch_normalization(self):
        x = random(64, 300)
        found, _ = run(lambda x: nisa.bn_aggr(nisa.bn_stats(x)), x)
        close(self, found, np.stack([x.mean(1), x.var(1)], 1), 1e-4)

    def test_predicated_copy(self):
        def picked(x, where):
            result = nisa.memset(shape=(32, 20), value=7.0, dtype=nl.float32)
            nisa.tensor_copy_predicated(src=x, dst=result, predicate=where)
            return result

        x, where = random(32, 20), (random(32, 20, seed=2) > 0).astype(np.uint8)
        found, _ = run(picked, x, where)
        close(self, found, np.where(where != 0, x, 7))

    def test_transposing_loads(self):
        x = random(96, 64)

        @nki.jit
        def kernel(x):
            out = nl.ndarray((64, 96), dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load_transpose2d(x))
            return out

        made = Run(kernel, x)
        np.testing.assert_array_equal(made.output, x.T)
        self.assertEqual([a["transpose"] for n, _, a, _ in made.instructions], [True, False])

    def test_the_eight_largest(self):
        x = random(16, 100)
        found, _ = run(lambda x: nisa.max8(src=x), x)
        close(self, found, -np.sort(-x, axis=1)[:, :8])

    def test_dma_between_tensors(self):
        x = random(40, 30)

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=x)
            return out

        np.testing.assert_array_equal(Run(kernel, x).output, x)

    def test_random_and_constant_data(self):
        constant = np.arange(12, dtype=np.float32).reshape(3, 4)
        found, _ = run(lambda x: nl.add(x, nl.load(nl.shared_constant(constant))), np.zeros((3, 4), np.float32))
        np.testing.assert_array_equal(found, constant)
        found, _ = run(lambda x: nl.add(x, nl.rand((3, 4))), np.zeros((3, 4), np.float32))
        self.assertTrue(((found >= 0) & (found < 1)).all())


if __name__ == "__main__":
    unittest.main()
