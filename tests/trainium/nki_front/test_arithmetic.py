"""Compares rounding of every type with a search for the nearest number, and operators with float64."""

import unittest

import harness
import numpy as np
from nki.tracer import dtypes, operators, values

_EIGHT_BITS = (dtypes.float8_e4m3, dtypes.float8_e4m3fn, dtypes.float8_e5m2)


def _decoded(code, exponent_bits, mantissa_bits, bias):
    """Returns a number of a small floating type, by its definition."""
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    return sign * (fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias))


class Rounding(unittest.TestCase):
    def test_numbers_of_eight_bits(self):
        for dtype, exponent_bits, bias in (
            (dtypes.float8_e4m3, 4, 7),
            (dtypes.float8_e4m3fn, 4, 7),
            (dtypes.float8_e5m2, 5, 15),
        ):
            found = values.decode(np.arange(256, dtype=np.uint8), dtype)
            for code in range(256):
                if np.isfinite(found[code]):
                    self.assertEqual(found[code], _decoded(code, exponent_bits, 7 - exponent_bits, bias), (dtype, code))
        largest = {d: np.nanmax(np.where(np.isfinite(t), t, np.nan)) for d in _EIGHT_BITS
                   for t in [values.decode(np.arange(256, dtype=np.uint8), d)]}  # fmt: skip
        self.assertEqual([float(largest[d]) for d in _EIGHT_BITS], [240.0, 448.0, 57344.0])

    def test_nearest_number_of_eight_bits_ties_to_even(self):
        generator = np.random.default_rng(harness.SEED)
        for dtype in _EIGHT_BITS:
            table = values.decode(np.arange(128, dtype=np.uint8), dtype)
            codes = np.flatnonzero(np.isfinite(table))
            grid = table[codes].astype(np.float64)
            middles = (grid[1:] + grid[:-1]) / 2
            numbers = np.concatenate([grid, middles, np.exp(generator.uniform(-12, np.log(grid[-1]), 2000))]).astype(
                np.float32
            )
            distance = np.abs(numbers.astype(np.float64)[:, None] - grid)
            nearest = distance == distance.min(axis=1, keepdims=True)
            even = np.argmax(nearest & ((codes % 2 == 0) | (nearest.sum(axis=1, keepdims=True) == 1)), axis=1)
            np.testing.assert_array_equal(values.encode(numbers, dtype), codes[even], str(dtype))
            np.testing.assert_array_equal(values.encode(-numbers, dtype), codes[even] | 0x80, str(dtype))

    def test_bits_that_rounding_drops(self):
        generator = np.random.default_rng(harness.SEED)
        numbers = (generator.standard_normal(20000) * np.exp(generator.uniform(-20, 20, 20000))).astype(np.float32)
        for dtype, bits in ((dtypes.bfloat16, 8), (dtypes.tfloat32, 11)):
            fraction, exponent = np.frexp(numbers.astype(np.float64))
            expected = np.ldexp(np.rint(fraction * 2.0**bits) / 2.0**bits, exponent)
            np.testing.assert_array_equal(values.rounded(numbers, dtype), expected.astype(np.float32), str(dtype))

    def test_what_is_not_finite_stays_so(self):
        special = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
        for dtype in (dtypes.bfloat16, dtypes.float16, dtypes.tfloat32, dtypes.float8_e4m3, dtypes.float8_e5m2):
            found = values.rounded(special, dtype)
            np.testing.assert_array_equal(np.isnan(found), [False, False, True, False], str(dtype))
            self.assertEqual((found[0], found[1], np.signbit(found[3])), (np.inf, -np.inf, True), dtype)

    def test_integers_round_to_even_and_saturate(self):
        found = values.encode(np.array([0.5, 1.5, -2.5, 300.0, -300.0, np.nan], np.float32), dtypes.int8)
        self.assertEqual(found.tolist(), [0, 2, -2, 127, -128, 0])
        self.assertEqual(values.encode(np.array([-1.0, 4e9], np.float32), dtypes.uint32).tolist(), [0, 4000000000])

    def test_types_of_results(self):
        """Checks the documentation's table, and both orders of each pair."""
        table = """int32 float16 float16, uint16 tfloat32 tfloat32, float32 tfloat32 float32, float32 bfloat16 float32,
                   float16 bfloat16 float32, float8_e4m3 float16 float16, float8_e4m3 bfloat16 bfloat16,
                   float8_e4m3 float8_e5m2 bfloat16, int16 int32 int32, uint8 uint16 uint16, uint16 int32 int32, int8 uint8 int16,
                   int8 uint16 int32, int32 uint32 float32, int8 int8 int8"""
        for row in table.split(","):
            a, b, wanted = map(dtypes.find, row.split())
            self.assertEqual((dtypes.promoted(a, b), dtypes.promoted(b, a)), (wanted, wanted), row)

    def test_names_of_types(self):
        self.assertIs(dtypes.find("bf16"), dtypes.bfloat16)
        self.assertIs(dtypes.find(np.float32), dtypes.float32)
        self.assertTrue(dtypes.float32 == np.float32 and dtypes.bfloat16 == "bfloat16" and dtypes.int8 != np.int16)
        self.assertIsNone(dtypes.find("complex"))
        self.assertEqual({dtypes.float8_e4m3: 1}["float8_e4m3"], 1)


class Operators(unittest.TestCase):
    def test_functions(self):
        x = np.linspace(-4, 4, 81)
        sigmoid = 1 / (1 + np.exp(-x))
        expected = {"silu": x * sigmoid, "sigmoid": sigmoid, "relu": np.maximum(x, 0), "square": x * x, "tanh": np.tanh(x),
                    "softplus": np.log1p(np.exp(x)), "exp": np.exp(x), "abs": np.abs(x), "sign": np.sign(x),
                    "gelu_apprx_sigmoid": x / (1 + np.exp(-1.702 * x)), "copy": x, "negative": -x}  # fmt: skip
        for name, wanted in expected.items():
            np.testing.assert_allclose(
                operators.apply(operators.ALL[name], x), wanted, rtol=2e-6, atol=2e-6, err_msg=name
            )

    def test_derivatives_are_those_of_the_functions(self):
        x, step = np.linspace(-3, 3, 61), 1e-4
        for name in ("gelu", "silu", "gelu_apprx_sigmoid", "erf"):
            f, dx = operators.ALL[name].evaluate, operators.ALL[name + "_dx"].evaluate
            slope = (np.asarray(f(x + step), float) - np.asarray(f(x - step), float)) / (2 * step)
            np.testing.assert_allclose(np.asarray(dx(x), float), slope, rtol=1e-5, atol=1e-7, err_msg=name)

    def test_operators_that_numpy_names(self):
        self.assertIs(operators.find(np.add, "call"), operators.ALL["add"])
        self.assertIs(operators.find(np.maximum, "call"), operators.ALL["maximum"])


if __name__ == "__main__":
    unittest.main()
