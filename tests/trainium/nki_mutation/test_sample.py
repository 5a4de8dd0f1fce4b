"""Runs a sample of the proof by mutation: some right kernels pass, and their wrong variants fail. The
whole proof is tests/slow/nki_mutation.sh.
"""

import tempfile
import unittest

import cases
import mutate
import proof

_SAMPLE = {"scale_add": 6, "exchanged_halves": 6, "addressed": 6, "fp8_matmul": 6, "average_pool": 4}


class Sample(unittest.TestCase):
    def test_right_kernels_pass_and_wrong_variants_fail(self):
        for case in cases.own():
            if case.kernel not in _SAMPLE:
                continue
            with self.subTest(case.name), tempfile.TemporaryDirectory() as folder:
                result = proof.tried(case, _SAMPLE[case.kernel], folder)
                self.assertEqual(result.right, "")
                self.assertEqual([change for _, change, _ in result.passed], [])
                self.assertEqual(result.wrong, _SAMPLE[case.kernel])

    def test_the_proof_sees_a_right_kernel_that_fails(self):
        case = next(c for c in cases.own() if c.kernel == "scale_add")
        case.reference = "2.02 * x + y"
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("too far", proof.tried(case, 1, folder).right)

    def test_every_rule_changes_the_source(self):
        with open(cases.own()[0].file) as source:
            text = source.read()
        rules = set()
        for kernel in ("exchanged_halves", "matmul", "addressed"):
            for rule, _, changed in mutate.variants(text, kernel, 1):
                self.assertNotEqual(changed, text)
                compile(changed, kernel, "exec")
                rules.add(rule)
        self.assertEqual(rules, set(mutate.RULES))


if __name__ == "__main__":
    unittest.main()
