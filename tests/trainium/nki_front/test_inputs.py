"""Checks the numbers of arguments (files and rules), saved results, folders of tests, and the limits of a
run. Files of strangers are hostile.
"""

import json
import os
import struct
import unittest

import harness
import numpy as np
from nki import inputs, limits
from nki.tracer import dtypes

_SAME = """
    import nki.language as nl

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out
"""


def safetensors(path, name, kind, shape, data, changes=None):
    header = {name: {"dtype": kind, "shape": shape, "data_offsets": [0, len(data)], **(changes or {})}}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Inputs(harness.Folder):
    def setUp(self):
        super().setUp()
        self.file(_SAME)
        self.numbers = np.random.default_rng(5).standard_normal((16, 24)).astype(np.float32)

    def path(self, name):
        return os.path.join(self.folder, name)

    def result(self, argument, *argv):
        done = self.run_here("kernel.py:kernel", "--arg", argument, "--save-outputs", "out.npy", *argv)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.path("out.npy"))

    def refused(self, argument, text, status=2):
        done = self.run_here("kernel.py:kernel", "--arg", argument, "--values")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_files_of_numpy(self):
        np.save(self.path("a.npy"), self.numbers)
        np.savez(self.path("two.npz"), a=self.numbers, b=np.arange(8).reshape(2, 4))
        np.testing.assert_array_equal(self.result("x=@a.npy"), self.numbers)
        np.testing.assert_array_equal(self.result("x=@two.npz:a"), self.numbers)
        self.assertEqual(self.result("x=@two.npz:b").dtype, np.int64)
        rounded = self.result("x=bf16@a.npy")
        self.assertTrue((np.abs(rounded - self.numbers) <= np.abs(self.numbers) / 256).all())
        self.assertTrue((rounded != self.numbers).any())
        self.refused("x=@two.npz", "has 2 arrays; name one of them")
        self.refused("x=@two.npz:c", "has no array 'c', only a, b")
        os.rename(self.path("two.npz"), self.path("two.npy"))
        self.refused("x=@two.npy", "two.npy: holds several arrays; rename it to .npz")
        with open(self.path("one.npz"), "wb") as file:
            np.save(file, self.numbers)
        self.refused("x=@one.npz", "one.npz: holds one array; rename it to .npy")

    def test_files_of_safetensors(self):
        bits = (self.numbers.view(np.uint32) >> 16).astype(np.uint16)
        safetensors(self.path("w.safetensors"), "w", "BF16", [16, 24], bits.tobytes())
        safetensors(self.path("f.safetensors"), "w", "F32", [16, 24], self.numbers.tobytes())
        np.testing.assert_array_equal(self.result("x=@w.safetensors:w"), (bits.astype(np.uint32) << 16).view(np.float32))
        np.testing.assert_array_equal(self.result("x=@f.safetensors"), self.numbers)
        done = self.run_here("kernel.py:kernel", "--arg", "x=@w.safetensors:w", "--ref", "x", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["outputs"][0]["dtype"], "bfloat16")

    def test_hostile_files(self):
        data = self.numbers.tobytes()
        for changes, text in (
            ({"data_offsets": [0, 1 << 60]}, "does not fit"),
            ({"data_offsets": [-4, len(data) - 4]}, "does not fit"),
            ({"data_offsets": "x"}, "damaged"),
            ({"shape": [1 << 40, 1 << 40]}, "does not fit"),
            ({"shape": [-16, -24]}, "does not fit"),
            ({"dtype": "F7"}, "found F7"),
        ):
            safetensors(self.path("w.safetensors"), "w", "F32", [16, 24], data, changes)
            self.refused("x=@w.safetensors:w", text)
        for content in (b"", b"\xff" * 8, struct.pack("<Q", 1 << 62) + b"{", struct.pack("<Q", 4) + b"[[[["):
            with open(self.path("w.safetensors"), "wb") as file:
                file.write(content)
            self.refused("x=@w.safetensors:w", "w.safetensors: ")
        for name in ("a.npy", "a.npz"):
            with open(self.path(name), "wb") as file:
                file.write(b"\x93NUMPY\x01\x00 nothing else")
            self.refused(f"x=@{name}", name)
        np.save(self.path("o.npy"), np.array([{}], object))
        self.refused("x=@o.npy", "is no array of NumPy")
        np.save(self.path("e.npy"), np.zeros((0, 3)))
        self.refused("x=@e.npy", "expected an array with elements")
        self.refused("x=@none.npy", "No such file")
        self.refused("x=@file.txt", "expected FILE.npy, FILE.npz:NAME or FILE.safetensors:NAME")

    def test_rules(self):
        self.assertTrue((self.result("x=bf16[4,6]:zeros") == 0).all())
        np.testing.assert_array_equal(self.result("x=i32[4,6]:arange"), np.arange(24).reshape(4, 6))
        np.testing.assert_array_equal(self.result("x=fp32[4,6]*0.5:arange"), 0.5 * np.arange(24).reshape(4, 6))
        first, again = self.result("x=fp32[4,6]:normal:7"), self.result("x=fp32[4,6]:normal:7", "--seed", "3")
        np.testing.assert_array_equal(first, again)
        self.assertTrue((first != self.result("x=fp32[4,6]:normal:8")).any())
        self.refused("x=fp32[4,6]:uniform", "expected one of the rules normal, zeros, arange, found 'uniform'")

    def test_saved_results(self):
        done = self.run_here("kernel.py:kernel", "--arg", "x=fp16[4,6]:arange", "--save-outputs", "all.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        with np.load(self.path("all.npz")) as saved:
            self.assertEqual((saved.files, saved["out"].dtype), (["out"], np.dtype(np.float16)))
        for file, text in (("out.txt", "expected FILE.npz or FILE.npy"), ("no_folder/out.npz", "no_folder")):
            done = self.run_here("kernel.py:kernel", "--arg", "x=fp16[4,6]", "--save-outputs", file)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder) if ".part" in n], [])

    def test_arange_saturates_in_small_types(self):
        found = inputs.by_rule("arange", dtypes.int8, (200,), None, None, True)
        self.assertEqual(found.max(), 127)


class Limits(harness.Folder):
    def ended(self, body, text, *argv):
        self.file(body)
        done = self.run_here("kernel.py:kernel", "--arg", "x=fp32[8,8]", *argv)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    def test_time(self):
        self.ended("while True: pass\n", "kernel.py:1: limit: the kernel has run for 0.2 seconds", "--max-seconds", "0.2")
        self.ended(
            "def kernel(x):\n    return x\n\ndef slow(x):\n    while True: pass\n",
            "kernel.py:5: limit",
            "--max-seconds", "0.2", "--ref", "kernel.py:slow",
        )  # fmt: skip

    def test_memory(self):
        self.ended("def kernel(x):\n    kept = []\n    while True:\n        kept.append(bytearray(1 << 26))\n",
                   "kernel.py:4: limit: the kernel needs more than 512 MiB of memory", "--max-memory", "512MiB")  # fmt: skip
        done = self.run_here("kernel.py:kernel", "--max-memory", "much")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertEqual([limits.bytes_of(t) for t in ("3", "2KiB", "1GiB", "0", "-1", "GiB")], [3, 2048, 1 << 30, None, None, None])


class Folders(harness.Folder):
    def rows(self, *argv, status=0):
        done = self.run_here("tests", "--json", "-", *argv)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return {row["test"]: (row["outcome"], row["message"]) for row in json.loads(done.stdout)["tests"]}

    def test_functions_classes_parameters_and_fixtures(self):
        self.file(
            """
            import pytest

            @pytest.fixture
            def three():
                yield 3
            """,
            "tests/conftest.py",
        )
        self.file(
            """
            import numpy as np
            import pytest
            import nki
            import nki.language as nl

            @nki.jit
            def double(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.add(nl.load(x), nl.load(x)))
                return out

            @pytest.mark.parametrize("rows", [1, pytest.param(2, id="two")])
            @pytest.mark.parametrize("columns", (4, 8))
            def test_double(rows, columns, three):
                x = np.full((rows, columns), three, np.float32)
                np.testing.assert_array_equal(double(x), 2 * x)

            class TestErrors:
                def setup_method(self):
                    self.ready = True

                def test_raises(self):
                    assert self.ready
                    with pytest.raises(ValueError, match="no"):
                        raise ValueError("no number")

                @pytest.mark.skip(reason="needs a device")
                def test_device(self):
                    assert False

                def test_unknown(self, tmp_path):
                    pass

            @pytest.mark.parametrize(argnames="size", argvalues=[4, 8])
            @pytest.mark.skipif(condition=False, reason="never")
            def test_keywords(size):
                assert size in (4, 8)

            @pytest.mark.skipif(condition=True, reason="always")
            def test_skipped():
                assert False

            @pytest.mark.parametrize("size")
            def test_marks(size):
                pass

            def test_wrong():
                assert 1 == 2

            def helper():
                assert False
            """,
            "tests/test_double.py",
        )
        rows = self.rows(status=1)
        self.assertEqual([rows[f"test_double[{i}]"][0] for i in range(4)], ["passed"] * 4)
        self.assertEqual(rows["TestErrors.test_raises"], ("passed", ""))
        self.assertEqual(rows["TestErrors.test_device"], ("skipped", "needs a device"))
        self.assertEqual(rows["TestErrors.test_unknown"][0], "skipped")
        self.assertEqual([rows[f"test_keywords[{i}]"][0] for i in range(2)], ["passed"] * 2)
        self.assertEqual(rows["test_skipped"], ("skipped", "always"))
        self.assertIn("its marks cannot be read: KeyError: 'argvalues'", rows["test_marks"][1])
        self.assertEqual(rows["test_wrong"], ("failed", "tests/test_double.py:49: AssertionError: assert 1 == 2"))
        self.assertNotIn("helper", rows)

    def test_a_file_that_fails_does_not_stop_the_others(self):
        self.file("import os\nos._exit(0)\n", "tests/test_exit.py")
        self.file("def test_forever():\n    while True: pass\n", "tests/test_forever.py")
        self.file("def test_good():\n    pass\n", "tests/deep/good_test.py")
        self.file("def test(:\n", "tests/test_syntax.py")
        done = self.run_here("tests", "--json", "-", "--max-seconds", "0.3")
        self.assertIn("tests/test_exit.py", [r["file"] for r in json.loads(done.stdout)["tests"] if r["outcome"] == "failed"])
        rows = self.rows("--max-seconds", "0.3", status=1)
        self.assertEqual(rows["test_good"][0], "passed")
        self.assertIn("limit", rows["test_forever"][1])
        self.assertEqual(rows[""][0], "failed")

    def test_a_folder_without_tests(self):
        os.makedirs(os.path.join(self.folder, "tests"))
        done = self.run_here("tests")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tests: expected files test_*.py or *_test.py", done.stderr)
        self.assertEqual(self.run_here("tests", "--arg", "x=fp32[8,8]").returncode, 2)


if __name__ == "__main__":
    unittest.main()
