"""Checks that wrong kernels do not pass: what the reference sees, how large an error is allowed, where a
result is wrong, and what the compiler or the hardware refuses.
"""

import json
import os
import unittest

import harness
import numpy as np
from nki import comparison
from nki.tracer import dtypes, perturbation, values

_HEAD = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
"""


class Checked(harness.Folder):
    def run_kernel(self, body, *argv, status=0):
        self.file(_HEAD + body)
        done = self.run_here("kernel.py:kernel", *argv)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def report(self, body, *argv, status=0):
        self.run_kernel(body, *argv, "--json", "r.json", status=status)
        with open(os.path.join(self.folder, "r.json")) as file:
            return json.load(file)["outputs"]


_IN_PLACE = """
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, {factor})
        nisa.dma_copy(x, tile)
        return x
"""

_SCALED = """
    def kernel(x):
        tile = nl.load(x)
        out = nl.ndarray(x.shape, {dtype}, buffer=nl.shared_hbm)
        wide = nl.ndarray(x.shape, {between})
        nisa.tensor_scalar(wide, tile, nl.multiply, {factor})
        nisa.dma_copy(out, wide)
        return out
"""


class References(Checked):
    def test_the_reference_gets_the_arguments_from_before_the_kernel(self):
        for dtype in ("fp32", "bf16", "i32"):
            argument = ("--arg", f"x={dtype}[8,8]*9")
            self.run_kernel(_IN_PLACE.format(factor=2), *argument, "--ref", "x * 2")
            self.run_kernel(_IN_PLACE.format(factor=2), *argument, "--ref", "x", status=1)
            self.run_kernel(_IN_PLACE.format(factor=1), *argument, "--ref", "x * 2", status=1)

    def test_an_argument_that_is_written_and_not_returned_is_noted(self):
        body = _IN_PLACE.format(factor=2).replace("return x", "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n        nl.store(out, tile)\n        return out")
        argument = ("--arg", "x=fp32[8,8]", "--ref", "2 * x")
        self.assertIn("note: kernel.py:11: writes to the argument 'x', which the kernel does not return", self.run_kernel(body, *argument))
        self.assertNotIn("writes to the argument", self.run_kernel(_IN_PLACE.format(factor=2), *argument))

    def test_a_reference_may_write_to_its_arguments(self):
        self.file("def double(x):\n    x *= 2\n    return x\n", "reference.py")
        self.run_kernel(_IN_PLACE.format(factor=2), "--arg", "x=fp32[8,8]", "--ref", "reference.py:double")

    def test_exact_arguments_of_a_coarse_type_allow_nothing(self):
        for dtype in ("fp8", "fp8e5", "bf16", "fp16"):
            argument = ("--arg", f"x={dtype}[128,64]", "--ref", "x * 2")
            right = self.report(_SCALED.format(dtype="nl.float32", between="nl.float32", factor=2), *argument)
            self.assertEqual(right[0]["tolerance"], 1e-5)
            self.run_kernel(_SCALED.format(dtype="nl.float32", between="nl.float32", factor=2.001), *argument, status=1)

    def test_the_tolerance_follows_from_the_roundings(self):
        argument = ("--arg", "x=fp32[128,64]", "--ref", "x * 0.3")
        for between, low, high in (("nl.float32", 1e-5, 1e-5), ("nl.float16", 1e-4, 2e-3), ("nl.bfloat16", 2e-3, 2e-2), ("nl.float8_e4m3", 3e-2, 0.1)):  # fmt: skip
            body = _SCALED.format(dtype="nl.float32", between=between, factor=0.3)
            row = self.report(body, *argument)[0]
            self.assertTrue(low <= row["tolerance"] <= high, (between, row))
            self.assertLess(row["error"], row["tolerance"] / 2 if between != "nl.float32" else 1e-5)

    def test_a_chain_of_roundings_passes_and_a_wrong_scale_of_one_percent_fails(self):
        body = """
    def kernel(x):
        tile = nl.load(x)
        for i in range(24):
            nisa.tensor_scalar(tile, tile, nl.multiply, {factor})
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out
"""
        argument = ("--arg", "x=bf16[128,64]", "--ref", "x * 1.03 ** 24")
        self.run_kernel(body.format(factor=1.03), *argument)
        self.run_kernel(body.format(factor=1.034), *argument, status=1)
        self.run_kernel(_SCALED.format(dtype="x.dtype", between="x.dtype", factor=1.01), "--arg", "x=bf16[128,64]", "--ref", "x", status=1)

    def test_a_wrong_result_names_the_place(self):
        body = """
    def kernel(x):
        tile = nl.load(x)
        nisa.memset(tile[64:96, 5:7], 3.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out
"""
        argument = ("--arg", "x=fp32[128,64]", "--ref", "x")
        wrong = self.report(body, *argument, status=1)[0]["wrong"]
        self.assertEqual(wrong["index"], [64, 5])
        self.assertEqual(wrong["found"], 3.0)
        self.assertAlmostEqual(wrong["share"], 32 * 2 / (128 * 64))
        self.assertGreater(wrong["ulps"], 1e5)
        printed = self.run_kernel(body, *argument, status=1)
        self.assertRegex(printed, r"too far: first at \[64, 5\], found 3, expected \S+; 0\.781 % of the elements are wrong, the largest error is \S+ ulps")

    def test_infinities_are_named(self):
        body = _SCALED.format(dtype="nl.float32", between="nl.float32", factor=1e38)
        wrong = self.report(body, "--arg", "x=fp32[8,8]*1e6", "--ref", "x", status=1)[0]["wrong"]
        self.assertIn(wrong["found"], ("infinity", "-infinity"))


    def test_a_wrong_scale_fails_where_roundings_move_single_elements_further(self):
        body = """
    def kernel(x):
        tile = nl.load(x)
        coarse = nl.ndarray(x.shape, nl.float8_e4m3)
        nisa.tensor_copy(coarse, tile)
        rest = nl.ndarray(x.shape, nl.float32)
        nisa.tensor_scalar(rest, coarse, nl.multiply, {factor})
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, rest)
        return out
"""
        argument = ("--arg", "x=fp32[128,256]", "--ref", "x")
        row = self.report(body.format(factor=1.0), *argument)[0]
        self.assertGreater(row["error"], 0.01)
        wrong = self.report(body.format(factor=1.1), *argument, status=1)[0]
        self.assertGreater(wrong["error"], 0.09)


    def test_whole_numbers_may_be_rounded_either_way_at_a_tie_only(self):
        body = """
    def kernel(x):
        tile = nl.load(x)
        whole = nl.ndarray(x.shape, nl.int32)
        nisa.tensor_scalar(whole, tile, nl.multiply, 0.5)
        out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, whole)
        return out
"""
        argument = ("--arg", "x=fp32[8,8]:arange")
        self.run_kernel(body, *argument, "--ref", "np.rint(x * 0.5)")
        self.run_kernel(body, *argument, "--ref", "np.floor(x * 0.5 + 0.5)")
        self.run_kernel(body, *argument, "--ref", "np.rint(x * 0.55)", status=1)


class Comparison(unittest.TestCase):
    def test_drift_is_what_errors_have_in_common(self):
        right = np.random.default_rng(4).standard_normal((256, 256))
        noise = 0.02 * np.random.default_rng(5).standard_normal(right.shape)
        self.assertLess(comparison.drift(right + noise, right), 1e-3)
        self.assertAlmostEqual(comparison.drift(1.01 * right + noise, right), 0.01, delta=1e-3)
        self.assertAlmostEqual(comparison.drift(right + 0.01 + noise, right), 0.01, delta=1e-3)
        self.assertEqual(comparison.drift(np.zeros(3), np.zeros(3)), 0)

    def test_a_wrong_row_of_a_large_result_is_far(self):
        right = np.random.default_rng(1).standard_normal((512, 512))
        right[7] *= 1e-2  # a row with a scale of its own
        wrong = right.copy()
        wrong[7] *= 1.05
        self.assertGreater(comparison.distance(wrong, right), 0.02)
        self.assertEqual(comparison.distance(right, right), 0)

    def test_ulps(self):
        found = comparison.wrong_elements(np.array([[1.0, 2.0 + 2.0**-5]]), np.array([[1.0, 2.0]]), dtypes.bfloat16, 1e-3)
        self.assertEqual((found.index, found.share, found.ulps), ([0, 1], 0.5, 2.0))

    def test_other_roundings_stay_neighbours(self):
        x = np.random.default_rng(2).standard_normal(4096).astype(np.float32)
        for dtype in (dtypes.bfloat16, dtypes.float16, dtypes.tfloat32, dtypes.float8_e4m3, dtypes.float8_e5m2):
            nearest = values.rounded(x, dtype)
            with perturbation.perturbed(3):
                other = values.rounded(x, dtype)
                np.testing.assert_array_equal(values.rounded(nearest, dtype), nearest)
            step = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, 1 - dtype.bias) - dtype.mantissa)
            self.assertTrue((np.abs(other - x) <= 1.001 * step).all(), dtype)
            self.assertGreater((other != nearest).mean(), 0.1)


class Refused(Checked):
    def test_products_are_not_added_to_what_memset_wrote(self):
        body = """
    def kernel(x):
        total = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
        tile = nl.load(x)
        nisa.memset(total, 0.0)
        for k in range(2):
            nisa.nc_matmul(total, tile, tile, accumulate={accumulate})
        out = nl.ndarray((64, 64), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, total)
        return out
"""
        argument = ("--arg", "x=fp32[64,64]", "--ref", "2 * x.T @ x")
        found = self.run_kernel(body.format(accumulate=True), *argument, status=1)
        self.assertIn("kernel.py:13: nki.isa.nc_matmul: dst: 'total', float32 [64, 64] in psum: accumulate=True adds to what memset", found)
        self.run_kernel(body.format(accumulate=None), *argument)
        self.run_kernel(body.format(accumulate="k > 0"), *argument)
        self.run_kernel(body.format(accumulate=True), *argument, "--device", "trn3")

    def test_scalars_of_partitions_are_float32(self):
        body = """
    def kernel(x, w):
        tile, scalar = nl.load(x), nl.load(w)
        {call}
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out
"""
        calls = {
            "nisa.tensor_scalar(tile, tile, nl.multiply, scalar)": "operand0",
            "nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, op1=nl.add, operand1=scalar)": "operand1",
            "nisa.scalar_tensor_tensor(tile, tile, nl.multiply, scalar, nl.add, tile)": "operand0",
            "nisa.activation(tile, nl.copy, tile, scale=scalar)": "scale",
        }
        for call, operand in calls.items():
            for dtype in ("bf16", "fp16"):
                found = self.run_kernel(body.format(call=call), "--arg", "x=bf16[8,8]", "--arg", f"w={dtype}[8,1]", status=1)
                self.assertIn(f"kernel.py:10: nki.isa.{call[5:].partition('(')[0]}: {operand}: ", found)
                self.assertIn("float32", found)
            self.run_kernel(body.format(call=call), "--arg", "x=bf16[8,8]", "--arg", "w=fp32[8,1]")

    def test_a_missing_store_fails_without_values_too(self):
        body = """
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for i in range(4):
            if i != 2:
                nl.store(out[i * 8 : i * 8 + 8, 0:16], nl.load(x[i * 8 : i * 8 + 8, 0:16]))
        return out
"""
        for values_ in ((), ("--values",)):
            found = self.run_kernel(body, "--arg", "x=bf16[32,16]", *values_, status=1)
            self.assertIn("kernel.py:9: 128 of the 512 elements of result 0", found)
            self.assertIn("never written (err_tensor_output_not_written_to)", found)

    def test_tensors_at_addresses_that_overlap(self):
        body = """
    def kernel(x):
        a = nl.ndarray((32, 16), x.dtype, address=(0, 0))
        b = nl.ndarray((32, 16), x.dtype, address=({partition}, {byte}))
        nisa.dma_copy(a, x)
        nisa.tensor_scalar(b, a, nl.multiply, 2.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.tensor_tensor(b, a, b, nl.add)
        nisa.dma_copy(out, b)
        return out
"""
        argument = ("--arg", "x=fp32[32,16]", "--ref", "3 * x")
        self.run_kernel(body.format(partition=0, byte=64), *argument)
        self.run_kernel(body.format(partition=32, byte=0), *argument)
        found = self.run_kernel(body.format(partition=0, byte=32), *argument, status=1)
        self.assertIn("'b' of kernel.py:10 has overwritten 256 of its 512 elements", found)

    def test_a_copy_may_read_bytes_of_an_older_tensor_that_it_never_wrote(self):
        body = """
    def kernel(x):
        old = nl.ndarray((32, 16), x.dtype, address=(0, 0))
        nisa.dma_copy(old, x)
        new = nl.ndarray((32, 16), x.dtype, address=(0, 0))
        nisa.dma_copy(new[0:32, 0:8], x[0:32, 0:8])
        whole = nl.ndarray((32, 16), x.dtype)
        nisa.tensor_copy(whole, new)
        out = nl.ndarray((32, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, whole[0:32, 0:8])
        return out
"""
        self.run_kernel(body, "--arg", "x=fp32[32,16]", "--ref", "x[:, :8]")


_CORES = """
    def kernel(x):
        core = nl.program_id(0)
        shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        mine, other = slice(32 * core, 32 * core + 32), slice(32 * (1 - core), 32 * (1 - core) + 32)
        tile = nl.load(x[mine, 0:16])
        nisa.dma_copy(shared[mine, 0:16], tile)
        {barrier}
        got = nl.load(shared[{read}, 0:16])
        nisa.dma_copy(out[mine, 0:16], got)
        return out
"""
_BARRIER = "nisa.core_barrier(shared, cores=(0, 1))"


class Cores(Checked):
    def test_a_missing_barrier_is_refused(self):
        argument = ("--arg", "x=fp32[64,16]")
        self.file(_HEAD + _CORES.format(barrier=_BARRIER, read="other"))
        right = self.run_here("kernel.py:kernel[2]", *argument, "--ref", "np.concatenate([x[32:], x[:32]])")
        self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
        self.file(_HEAD + _CORES.format(barrier="pass", read="other"))
        wrong = self.run_here("kernel.py:kernel[2]", *argument, "--ref", "np.concatenate([x[32:], x[:32]])")
        self.assertEqual(wrong.returncode, 1)

    def test_core_1_may_not_read_what_core_0_wrote_by_chance_before(self):
        body = _CORES.format(barrier="pass", read="slice(0, 32)")
        self.file(_HEAD + body)
        found = self.run_here("kernel.py:kernel[2]", "--arg", "x=fp32[64,16]", "--ref", "np.concatenate([x[:32], x[:32]])")
        self.assertEqual(found.returncode, 1)
        self.assertIn("core 1 reads elements of 'shared', float32 [32, 16] in hbm that core 0 has written at kernel.py:14", found.stderr)
        self.assertIn("core_barrier", found.stderr)

    def test_a_legacy_launch_on_two_cores_is_refused(self):
        self.file(
            """
            import neuronxcc.nki as nki
            import neuronxcc.nki.language as nl

            @nki.jit
            def kernel(x):
                out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.load(x))
                return out
            """
        )
        found = self.run_here("kernel.py:kernel[2]", "--arg", "x=fp32[32,16]")
        self.assertEqual(found.returncode, 1)
        self.assertIn("kernel.py:kernel[2]: the programs of a kernel that imports neuronxcc.nki run one after the other on one core", found.stderr)
        self.assertEqual(self.run_here("kernel.py:kernel[2,1]", "--arg", "x=fp32[32,16]").returncode, 0)

    def test_two_cores_may_write_equal_numbers(self):
        body = """
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.add, {added})
        nisa.dma_copy(out, tile)
        return out
"""
        self.file(_HEAD + body.format(added="1.0"))
        right = self.run_here("kernel.py:kernel[2]", "--arg", "x=fp32[32,16]", "--ref", "x + 1")
        self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
        self.file(_HEAD + body.format(added="1.0 * nl.program_id(0)"))
        wrong = self.run_here("kernel.py:kernel[2]", "--arg", "x=fp32[32,16]", "--ref", "x + 1")
        self.assertIn("core 1 writes elements of", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
