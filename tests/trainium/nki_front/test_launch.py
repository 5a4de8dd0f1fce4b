"""Checks how kernels are called: from their own files, on several cores, and with all kinds of arguments."""

import os
import sys
import types
import unittest
from dataclasses import dataclass
from unittest import mock

import harness
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
import numpy as np
from harness import argument, outputs
from nki import compiler
from nki.launch import execute
from nki.tracer import dtypes, releases, values
from nki.tracer.errors import NkiValidationError

generator = np.random.default_rng(harness.SEED)


@nki.jit
def doubled(x):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.multiply(tile, 2.0))
    return out


@nki.jit(mode="trace")
def half_each(x):
    """Writes a half on each core. After the barrier, each core adds the other half."""
    core, cores = nl.program_id(0), nl.num_programs(0)
    rows = x.shape[0] // cores
    both = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    mine = nl.load(x[core * rows : (core + 1) * rows])
    nl.store(both[core * rows : (core + 1) * rows], mine)
    nisa.core_barrier(both, (0, 1))
    other = nl.load(both[(1 - core) * rows : (2 - core) * rows])
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out[core * rows : (core + 1) * rows], nl.add(mine, other))
    return out


@nki.jit
def exchanged(x):
    core = nl.program_id(0)
    mine = nl.load(x[core * 16 : core * 16 + 16])
    theirs = nl.ndarray(mine.shape, mine.dtype)
    nisa.sendrecv(mine, theirs, 1 - core, 1 - core, pipe_id=0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out[core * 16 : core * 16 + 16], theirs)
    return out


class Calls(unittest.TestCase):
    def test_a_call_outside_of_a_kernel_computes(self):
        x = generator.standard_normal((8, 5)).astype(np.float32)
        np.testing.assert_array_equal(doubled(x), 2 * x)
        np.testing.assert_array_equal(nki.simulate(doubled)(x), 2 * x)
        self.assertEqual(doubled(x.astype(np.float16)).dtype, np.float16)

    def test_tensors_of_a_framework_come_back_as_such(self):
        class Tensor:  # Has what the tracer uses of torch's tensors.
            dtype = "torch.bfloat16"

            def __init__(self, numbers):
                self.numbers = numbers

            def detach(self):
                return self

            cpu = float = detach

            def numpy(self):
                return self.numbers

        Tensor.__module__ = "torch"
        torch = types.ModuleType("torch")
        torch.bfloat16 = "bf16"
        torch.from_numpy = lambda numbers: types.SimpleNamespace(dtype=None, to=lambda dtype: (numbers, dtype))
        x = generator.standard_normal((8, 5)).astype(np.float32)
        with mock.patch.dict(sys.modules, torch=torch):
            numbers, dtype = doubled(Tensor(x))
        np.testing.assert_array_equal(numbers, 2 * values.rounded(x, dtypes.bfloat16))
        self.assertEqual(dtype, "bf16")

    def test_the_environment_names_the_device(self):
        def kernel(x):
            self.assertEqual(nisa.get_nc_version(), nisa.nc_version.gen4)
            return doubled(x)

        with mock.patch.dict(os.environ, NEURON_PLATFORM_TARGET_OVERRIDE="trn3"):
            nki.simulate(kernel)(np.ones((4, 4), np.float32))

    def test_configurations_of_the_compiler(self):
        config = compiler.CompileConfig(non_ssa_legalization=True, address_rotation=compiler.AddressRotation.DISABLE)
        special = compiler.SpecializationConfig(allow_nested_config_override=True)
        x = generator.standard_normal((8, 5)).astype(np.float32)
        np.testing.assert_array_equal(nki.jit(compile_config=config, specialization_config=special)(doubled.func)(x), 2 * x)

    def test_a_call_inside_of_a_kernel_is_part_of_it(self):
        x = generator.standard_normal((8, 5)).astype(np.float32)
        np.testing.assert_array_equal(harness.output(lambda x: doubled(doubled(x)), x), 4 * x)

    def test_tensors_in_hbm_are_filled_whatever_their_size(self):
        wide = nki.jit(lambda: nl.full((4, 100000), 2, nl.float32, buffer=nl.shared_hbm))
        tall = nki.jit(lambda: nl.ones((300, 5), nl.float32, buffer=nl.shared_hbm))
        np.testing.assert_array_equal(harness.output(wide), np.full((4, 100000), 2))
        np.testing.assert_array_equal(harness.output(tall), np.ones((300, 5)))

    def test_arguments_of_all_kinds(self):
        seen = []

        def kernel(x, pair, scale, name, flag=None, options=()):
            seen.append((pair[1].shape, scale, name, flag, options))
            return doubled(pair[0])

        x, y = np.ones((4, 4), np.float32), np.ones((2, 3), np.float32)
        harness.output(kernel, x, (x, y), 0.5, "silu", options=(1, None))
        self.assertEqual(seen, [((2, 3), 0.5, "silu", None, (1, None))])

    def test_an_argument_is_in_either_kind_of_hbm(self):
        """AWS's MX samples expect one kind of HBM, nki-library the other."""

        def kernel(x):
            self.assertTrue(x.buffer == nl.hbm and x.buffer == nl.shared_hbm and nl.private_hbm == x.buffer == x.buffer)
            self.assertTrue(x.buffer != nl.sbuf and nl.is_hbm(x.buffer) and x.buffer in (nl.psum, nl.hbm))
            out, scratch = nl.empty_like(x), nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
            self.assertTrue(out.buffer == nl.shared_hbm and scratch.buffer == nl.hbm != out.buffer)
            nl.store(out, nl.load(x))
            return out

        x = generator.standard_normal((8, 5)).astype(np.float32)
        np.testing.assert_array_equal(harness.output(kernel, x), x)

    def test_calls_of_the_language_outside_of_a_kernel(self):
        with self.assertRaisesRegex(NkiValidationError, "called outside of a kernel"):
            nl.ndarray((4, 4), nl.float32)

    def test_classes_of_kernels(self):
        @dataclass
        class Config(nl.NKIObject):
            rows: int
            columns: int
            name = None

        config = Config(rows=3, name="x", extra=4)
        self.assertEqual((config.rows, config.columns, config.name, config.extra), (3, None, "x", 4))

    def test_a_kernel_that_raises_leaves_no_run_behind(self):
        def kernel():
            raise ValueError

        with self.assertRaises(ValueError):
            execute(harness.session(), kernel, (), {})
        with self.assertRaisesRegex(NkiValidationError, "outside of a kernel"):
            nl.program_id(0)


class Cores(unittest.TestCase):
    def test_a_barrier_between_two_cores(self):
        x = generator.standard_normal((32, 6)).astype(np.float32)
        expected = np.tile(x[:16] + x[16:], (2, 1))
        np.testing.assert_array_equal(harness.output(half_each, x, grid=(2,)), expected)
        np.testing.assert_array_equal(half_each[2](x), expected)

    def test_an_exchange_between_two_cores(self):
        x = generator.standard_normal((32, 6)).astype(np.float32)
        np.testing.assert_array_equal(exchanged[2](x), np.concatenate([x[16:], x[:16]]))
        with self.assertRaisesRegex(NkiValidationError, "runs on one core"):
            exchanged(x)

    def test_a_schedule_keeps_the_order_of_the_program(self):
        scheduled = doubled[2].with_schedule([("second", ["first"])])
        self.assertEqual(scheduled.grid, (2,))
        x = np.ones((4, 4), np.float32)
        np.testing.assert_array_equal(doubled.with_schedule([("second", "first")])(x), 2 * x)
        s = harness.session()
        execute(s, scheduled.func, (x,), {})
        self.assertTrue(any("with_schedule" in note for note in s.notes))

    def test_annotations_with_shapes(self):
        def kernel(x: nt.tensor[128, 512], y: nt.tensor):
            return x if isinstance(x, nt.tensor) and not isinstance(3, nt.tensor) else None

        x = generator.standard_normal((4, 4)).astype(np.float32)
        np.testing.assert_array_equal(harness.output(kernel, x, x), x)

    def test_programs_of_a_grid(self):
        @nki.jit
        def kernel(x):
            i, j = nl.program_id(0), nl.program_id(1)
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(
                out[i * 4 : i * 4 + 4, j * 8 : j * 8 + 8],
                nl.multiply(nl.load(x[i * 4 : i * 4 + 4, j * 8 : j * 8 + 8]), 3.0),
            )
            return out

        x = generator.standard_normal((8, 24)).astype(np.float32)
        with mock.patch.object(releases, "selected", releases.RELEASES["2.32"]):
            np.testing.assert_array_equal(kernel[2, 3](x), x * np.float32(3))

    def test_a_core_that_never_comes(self):
        def kernel(x):
            if nl.program_id(0) == 0:
                nisa.core_barrier(x, (0, 1))
            return doubled(x)

        with self.assertRaisesRegex(NkiValidationError, "core 1 never comes to it"):
            outputs(kernel, np.ones((4, 4), np.float32), grid=(2,))

    def test_what_a_core_sends_fits_what_the_other_receives(self):
        def kernel(sent, received):
            other = 1 - nl.program_id(0)
            tile, result = (nl.zeros((4, 8), dtype) for dtype in (sent(other), received(other)))
            nisa.sendrecv(tile, result, other, other, pipe_id=0)

        for sent, received, text in (
            (lambda core: nl.float32, lambda core: nl.bfloat16, "expected equal types"),
            ((lambda core: (nl.float32, nl.bfloat16)[core]),) * 2 + ("core . sends ",),
        ):
            with self.assertRaisesRegex(NkiValidationError, text):
                outputs(kernel, sent, received, grid=(2,))

    def test_an_error_of_another_core(self):
        def kernel(x):
            if nl.program_id(0) == 1:
                raise RuntimeError("only here")
            nisa.core_barrier(x, (0, 1))
            return doubled(x)

        with self.assertRaisesRegex(RuntimeError, "only here"):
            outputs(kernel, np.ones((4, 4), np.float32), grid=(2,))


class Registers(unittest.TestCase):
    def _bounded(self, n):
        def kernel(x, bound):
            tile = nl.load(bound)
            register = nisa.register_alloc()
            nisa.register_load(register, tile)
            total = nl.zeros((4, 8), nl.float32)

            def body(i):
                nisa.tensor_tensor(total, total, nl.load(x), nl.add)

            nl.fori_loop(0, register, body)
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, total)
            return out

        x = np.ones((4, 8), np.float32)
        return harness.output(kernel, x, argument("i32", [[n]]))

    def test_a_loop_whose_bound_is_data(self):
        np.testing.assert_array_equal(self._bounded(3), np.full((4, 8), 3))
        np.testing.assert_array_equal(self._bounded(0), np.zeros((4, 8)))

    def test_a_loop_until_data_says_stop(self):
        def kernel(count):
            left, one = nl.load(count), nl.full((1, 1), 1, nl.int32)
            turns = nl.zeros((1, 1), nl.int32)
            register = nisa.register_alloc()
            nisa.register_load(register, left)

            def body(r):
                nisa.tensor_tensor(left, left, one, nl.subtract)
                nisa.tensor_tensor(turns, turns, one, nl.add)
                nisa.register_load(r, left)
                return r

            nl.while_loop(register, body)
            out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
            nl.store(out, turns)
            return out

        self.assertEqual(harness.output(kernel, argument("i32", [[5]])).tolist(), [[5]])

    def test_a_loop_whose_bound_the_kernel_knows_needs_no_values(self):
        seen = []
        execute(
            harness.session(with_values=False),
            lambda: nl.fori_loop(0, nisa.register_alloc(4), lambda i: seen.append(i.number)),
            (),
            {},
        )
        self.assertEqual(seen, [0, 1, 2, 3])

    def test_scalars_have_a_width_and_wrap_around(self):
        def computed(dtype, n):
            def kernel(index):
                scalar = nisa.scalar_load(nl.load(index))
                tile = nl.ndarray((1, 1), dtype, nl.sbuf)
                nisa.scalar_store(tile, -(3 - scalar * 100000) + 1)
                out = nl.ndarray((1, 1), dtype, nl.shared_hbm)
                nl.store(out, tile)
                return out

            return harness.output(kernel, argument(str(dtype), [[n]])).item()

        self.assertEqual(computed(nl.int32, 5), 499998)
        self.assertEqual(computed(nl.int32, 100000), 1410065408 - 2)
        self.assertEqual(computed(nl.int64, 100000), 10**10 - 2)

    def test_scalars_bound_loops_and_address_tensors(self):
        def kernel(x, count):
            total = nl.zeros((1, 8), nl.float32)

            def add(i):
                row = nl.ndarray((1, 8), nl.float32)
                nisa.dma_copy(row, x.ap([[8, 1], [1, 8]], scalar_offset=2 * i + 1))
                nisa.tensor_tensor(total, total, row, nl.add)

            nl.fori_loop(0, nisa.scalar_load(nl.load(count)) + 1, add)
            out = nl.ndarray((1, 8), x.dtype, buffer=nl.shared_hbm)
            nl.store(out, total)
            return out

        x = generator.standard_normal((16, 8)).astype(np.float32)
        np.testing.assert_allclose(harness.output(kernel, x, argument("i32", [[2]])), x[1:7:2].sum(0, keepdims=True), rtol=1e-6)
        with self.assertRaisesRegex(NkiValidationError, "a bound is a scalar of 64 bits"):
            harness.output(kernel, x, argument("i64", [[2]]))

    def test_scalars_that_are_wrong(self):
        def kernel(index):
            scalar = nisa.scalar_load(nl.load(index))
            nisa.scalar_store(nl.ndarray((1, 1), nl.int32), scalar if index.dtype == nl.int64 else 3)

        for dtype, text in (("fp32", "expected int32 or int64"), ("i32", "expected an NkiScalar, found 3"), ("i64", "the width")):
            with self.assertRaisesRegex(NkiValidationError, text):
                harness.outputs(kernel, argument(dtype, [[1]]))

    def test_the_same_seed_makes_the_same_random_numbers(self):
        def kernel():
            outs = []
            for number in (42, 42, 7):
                nl.random_seed(nl.full((1, 1), number, dtype=nl.int32, buffer=nl.sbuf))
                outs.append(nl.ndarray((16, 40), nl.float32, buffer=nl.shared_hbm))
                nl.store(outs[-1], nl.rand((16, 40), dtype=nl.float32))
            return tuple(outs)

        first, again, other = outputs(kernel)
        np.testing.assert_array_equal(first, again)
        self.assertTrue((first != other).any())
        self.assertTrue(((0 <= first) & (first < 1)).all())


if __name__ == "__main__":
    unittest.main()
