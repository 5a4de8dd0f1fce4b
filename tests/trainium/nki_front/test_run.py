"""Checks the command `python -m nki.run`."""

import json
import os
import sys
import unittest

import harness

_KERNEL = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def kernel(x, w, scale=1.0, act="relu"):
        total = nl.ndarray((64, 96), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, nl.load(x), nl.load(w))
        tile = nl.ndarray((64, 96), x.dtype)
        nisa.activation(tile, getattr(nl, act), total, scale=scale)
        out = nl.ndarray((64, 96), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    def reference(x, w, scale=1.0, **others):
        return (x.T @ w * scale).clip(0)
"""
_ARGUMENTS = ("kernel.py:kernel", "--arg", "x=bf16[128,64]", "--arg", "w=bf16[128,96]")


class Run(harness.Folder):
    def setUp(self):
        super().setUp()
        self.file(_KERNEL)

    def good(self, *argv):
        done = self.run_here(*argv)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bad(self, status, *argv):
        done = self.run_here(*argv)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def test_references(self):
        self.good(*_ARGUMENTS, "--ref", "relu(x.T @ w)")
        self.good(*_ARGUMENTS, "--kwarg", "scale=0.25", "--ref", "kernel.py:reference")
        self.good(*_ARGUMENTS, "--kwarg", "act='square'", "--ref", "(x.T @ w) ** 2", "--seed", "3")
        found = self.run_command(*_ARGUMENTS, "--ref", "relu(x.T @ w) * 1.1")
        self.assertEqual(found.returncode, 1)
        self.assertIn("too far", found.stdout)
        self.good(*_ARGUMENTS, "--ref", "relu(x.T @ w) * 1.1", "--tolerance", "0.2")

    def test_report(self):
        self.good(*_ARGUMENTS, "--json", "report.json", "--values")
        with open(os.path.join(self.folder, "report.json")) as file:
            report = json.load(file)
        self.assertEqual(report["instructions"], 5)
        self.assertEqual(report["by_instruction"], {"dma_copy": 3, "nc_matmul": 1, "activation": 1})
        self.assertEqual(report["outputs"], [{"dtype": "bfloat16", "shape": [64, 96]}])
        self.assertEqual(json.loads(self.good(*_ARGUMENTS, "--json", "-"))["kernel"], "kernel")

    def test_tensors_by_position_and_tuples(self):
        self.good(
            "kernel.py:kernel", "--arg", "p=bf16[128,64]", "--arg", "q=bf16[128,96]*0.1", "--ref", "relu(x.T @ w)"
        )
        self.file(
            """
            import nki.language as nl

            def kernel(parts):
                out = nl.ndarray(parts[0].shape, parts[0].dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.add(nl.load(parts[0]), nl.load(parts[1])))
                return out
        """,
            "pair.py",
        )
        self.good(
            "pair.py:kernel", "--arg", "parts=fp32[8,8]", "--arg", "parts=fp32[8,8]", "--ref", "parts[0] + parts[1]"
        )

    def test_command_lines_that_mean_nothing(self):
        self.assertIn("--arg: expected NAME=DTYPE[SHAPE]", self.bad(2, "kernel.py:kernel", "--arg", "x=bf16"))
        self.assertIn("--arg x: expected a type", self.bad(2, "kernel.py:kernel", "--arg", "x=bf17[4]"))
        self.assertIn("--arg x: expected sizes", self.bad(2, "kernel.py:kernel", "--arg", "x=bf16[4,0]"))
        self.assertIn("--arg x: expected a finite number behind '*'", self.bad(2, "kernel.py:kernel", "--arg", "x=bf16[4]*1e400"))
        self.assertIn("no such parameter", self.bad(2, *_ARGUMENTS, "--arg", "z=bf16[4,4]"))
        self.assertIn("no such parameter", self.bad(2, *_ARGUMENTS, "--kwarg", "z=1"))
        self.assertIn("--kwarg scale", self.bad(2, *_ARGUMENTS, "--kwarg", "scale=1+"))
        self.assertIn(
            "--device: expected trn1, trn2 or trn3, found 'trn9'", self.bad(2, *_ARGUMENTS, "--device", "trn9")
        )
        self.assertIn("has no kernel 'kernal'; it has kernel", self.bad(2, "kernel.py:kernal"))
        self.assertIn("expected FILE.py:KERNEL", self.bad(2, "kernel.py"))
        self.assertIn("1 to 1024 cores, found [0]", self.bad(2, "kernel.py:kernel[0]"))
        self.assertIn("--ref", self.bad(2, *_ARGUMENTS, "--ref", "x.T @@ w"))

        for flag, value in (("--tolerance", "nan"), ("--tolerance", "-1"), ("--max-seconds", "nan"), ("--max-seconds", "1e300"),
                            ("--max-seconds", "-1"), ("--max-instructions", "0"), ("--seed", "-1")):  # fmt: skip
            self.assertIn(f"{flag}: expected", self.bad(2, *_ARGUMENTS, f"{flag}={value}"))
        self.file("class Kernel:\n    pass\n", "none.py")
        self.assertIn("none.py has no kernel 'Kernel'; it has none", self.bad(2, "none.py:Kernel"))

    def test_files_that_cannot_be_read(self):
        os.mkdir(os.path.join(self.folder, "folder.py"))
        for name, error in (("nothing.py", "No such file or directory"), ("folder.py", "Is a directory")):
            self.assertIn(f"{name}: {error}", self.bad(1, f"{name}:kernel"))
            self.assertIn(f"{name}: {error}", self.bad(1, *_ARGUMENTS, "--ref", f"{name}:expected"))

    def test_numbers_that_are_none(self):
        self.file(
            """
            import nki
            import nki.language as nl

            @nki.jit
            def kernel(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.log(nl.load(x)))
                return out
        """,
            "log.py",
        )
        self.good("log.py:kernel", "--arg", "x=fp32[64,32]", "--ref", "log(x)")
        wrong = ("log.py:kernel", "--arg", "x=fp32[64,32]", "--ref", "log(abs(x))", "--json", "report.json")
        self.assertEqual(self.run_command(*wrong).returncode, 1)
        with open(os.path.join(self.folder, "report.json")) as file:
            report = json.load(file, parse_constant=self.fail)
        self.assertEqual([(o["error"], o["passed"]) for o in report["outputs"]], [("infinity", False)])

    def test_modules_beside_the_kernel_by_their_whole_names(self):
        self.file("TILE = 64\n", "p/q/util.py")
        self.file(
            """
            import nki.language as nl
            from p.q.util import TILE

            def kernel(x):
                out = nl.ndarray((TILE, 8), x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.load(x))
                return out
        """,
            "p/q/k.py",
        )
        self.good("p/q/k.py:kernel", "--arg", "x=fp32[64,8]", "--ref", "x")

    def test_a_kernel_that_does_nothing(self):
        self.file("def kernel():\n    pass\n", "nothing.py")
        self.assertIn("note: the kernel has issued no instructions", self.good("nothing.py:kernel"))

    def test_numbers_that_are_not_finite_are_no_warnings(self):
        self.file('''
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x):
                tile = nl.zeros((4, 4), nl.float32)
                nisa.memset(tile, 1e300)
                total = nl.sum(nl.multiply(tile, 1e300), axis=1)
                out = nl.ndarray((4, 1), nl.float32, buffer=nl.shared_hbm)
                nl.store(out, nl.divide(nl.subtract(total, total), nl.divide(1, 0)))
                return out
        ''')
        done = self.run_command("kernel.py:kernel", "--arg", "x=fp32[4,4]", "--values")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_limit_names_the_line_of_the_core_that_runs(self):
        self.file('''
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x):
                while nl.program_id(0) == 1:
                    pass
                nisa.core_barrier(x, (0, 1))
                return x
        ''')
        done = self.run_command("kernel.py:kernel[2]", "--arg", "x=fp32[4,4]", "--values", "--max-seconds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^error: kernel.py:[67]: limit: the kernel has run for 1 seconds")

    def test_names_of_any_language(self):
        self.file('''
            import nki.language as nl

            def örtlich(ä, größe=1):
                тензор = nl.load(ä)
                out = nl.ndarray(ä.shape, ä.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.multiply(тензор, größe))
                return out
        ''')
        done = self.run_here("kernel.py:örtlich", "--arg", "ä=fp32[4,4]", "--kwarg", "größe=3", "--ref", "3 * ä")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_arguments_that_are_missing(self):
        self.assertIn("the kernel needs w", self.bad(2, "kernel.py:kernel", "--arg", "x=bf16[128,64]"))

    def test_packages_that_are_missing(self):
        self.file(
            """
            import jax.numpy as jnp
            import nki.language as nl
            from torch_neuronx import device

            @device.decorated
            def unused(x: jnp.ndarray | None = None):
                pass

            def kernel(x, wrong=False):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.load(x))
                return jnp.sum(out) if wrong else out
        """,
            "tests.py",
        )
        self.good("tests.py:kernel", "--arg", "x=fp32[8,8]", "--ref", "x")
        found = self.bad(1, "tests.py:kernel", "--arg", "x=fp32[8,8]", "--kwarg", "wrong=True")
        self.assertIn("tests.py:13: jax.numpy.sum: the kernel uses jax, which is not installed", found)
        annotated = """
            import nki
            import nki.language as nl
            from nki.backends.mlir_tracer.tensor import Tensor

            def kernel(x: Tensor, wrong=False):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.load(x))
                return Tensor(out) if wrong else out
        """
        self.file(annotated, "annotated.py")
        self.good("annotated.py:kernel", "--arg", "x=fp32[8,8]", "--ref", "x")
        found = self.bad(1, "annotated.py:kernel", "--arg", "x=fp32[8,8]", "--kwarg", "wrong=True")
        self.assertIn("annotated.py:9: nki.backends.mlir_tracer.tensor.Tensor: the kernel uses nki.backends, which", found)
        self.file("def kernel(x:\n    pass\n", "broken.py")
        self.assertIn("broken.py:1: ", self.bad(1, "broken.py:kernel"))

    def test_any_package_may_be_missing_where_the_file_does_not_ask(self):
        self.file(
            """
            import frobnicate.ops as ops
            import nki.language as nl
            from twiddle import tuned

            SCALE = 2 * ops.limits("bf16").max / 3
            try:
                import knobs
            except ImportError:
                knobs = None

            @tuned(parts=2)
            def kernel(x, wrong=False):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.load(x))
                assert knobs is None
                return out * SCALE if wrong else out
        """,
            "other.py",
        )
        printed = self.good("other.py:kernel", "--arg", "x=fp32[8,8]", "--ref", "x")
        self.assertIn("note: frobnicate is not installed", printed)
        self.assertIn("note: twiddle is not installed", printed)
        found = self.bad(1, "other.py:kernel", "--arg", "x=fp32[8,8]", "--kwarg", "wrong=True")
        self.assertIn("other.py:17: frobnicate.ops.limits().max: the kernel uses frobnicate, which is not installed", found)
        self.file("import frobnicate\n\nN = len(frobnicate.parts())\n\ndef kernel(x):\n    pass\n", "counts.py")
        self.assertIn("counts.py:3: frobnicate.parts(): the kernel uses frobnicate", self.bad(1, "counts.py:kernel"))
        self.file("import nki.languages\n\ndef kernel(x):\n    pass\n", "typo.py")
        self.assertIn("typo.py:1: import: No module named 'nki.languages'", self.bad(1, "typo.py:kernel"))
        self.file("from .helpers import kernel\n", "parts/__init__.py")
        self.file("from . import helpers\n", "parts/kernel.py")
        self.assertIn("parts/__init__.py:1: import: No module named 'parts.helpers'", self.bad(1, "parts/kernel.py:kernel"))

    def test_files_of_packages(self):
        """Folders may have the name of an imported package, need no __init__.py, and may fail to import."""
        kernel = """
            import nki.language as nl
            {}

            def kernel(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.multiply(nl.load(x), SCALE))
                return out
        """
        arguments = "--arg", "x=fp32[8,8]", "--ref", "3 * x"
        scale = "SCALE = 3.0\n"
        self.file(kernel.format("from .sizes import SCALE"), "deep/nki/scaled.py")
        self.file(scale, "deep/nki/sizes.py")
        self.file("", "deep/nki/__init__.py")
        self.good("deep/nki/scaled.py:kernel", *arguments)
        self.file(kernel.format("from ..sizes import SCALE"), "bare/parts/scaled.py")
        self.file(scale, "bare/sizes.py")
        self.good("bare/parts/scaled.py:kernel", *arguments)
        self.file(kernel.format(scale), "deep/copy.py")
        self.good("deep/copy.py:kernel", *arguments)
        self.file(kernel.format(scale), "whole/scaled.py")
        self.file("raise RuntimeError('no device')\n", "whole/__init__.py")
        self.assertIn("the package whole cannot be imported here (RuntimeError: no device)", self.good("whole/scaled.py:kernel", *arguments))

    def test_installed_modules_come_before_those_of_the_kernels_folder(self):
        trap = "raise RuntimeError('a trap')\n"
        for name in ("json", "numpy", "colorsys", "wave"):
            self.file(trap, name + ".py")
        self.file("import colorsys, wave\nSCALE = 1.0\n", "scales.py")
        self.file(
            """
            import colorsys, json, numpy
            import nki.language as nl
            import scales

            def kernel(x):
                import wave
                from scales import SCALE
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.multiply(nl.load(x), SCALE))
                return out
        """,
            "traps.py",
        )
        self.good("traps.py:kernel", "--arg", "x=fp32[8,8]", "--ref", "x")
        # Only the kernel's files see the folder, even for a module that is not installed.
        self.file(trap, "not_installed.py")
        self.file("import not_installed\n", "site-packages/installed.py")
        sys.path.append(os.path.join(self.folder, "site-packages"))
        self.addCleanup(sys.path.remove, sys.path[-1])
        self.file("import installed\n\ndef kernel():\n    pass\n", "user.py")
        self.assertIn("No module named 'not_installed'", self.run_here("user.py:kernel").stderr)
        self.file("import not_installed\n\ndef kernel():\n    pass\n", "user2.py")
        self.assertIn("RuntimeError: a trap", self.run_here("user2.py:kernel").stderr)

    def test_a_package_of_the_user_may_have_the_name_of_an_installed_one(self):
        kernel = """
            import nki.language as nl
            from .sizes import SCALE

            def kernel(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.multiply(nl.load(x), SCALE))
                return out
        """
        for package in ("xmlrpc", "curses"):
            self.file(kernel, package + "/scaled.py")
            self.file("SCALE = 3.0\n", package + "/sizes.py")
            self.file("", package + "/__init__.py")
            self.good(package + "/scaled.py:kernel", "--arg", "x=fp32[8,8]", "--ref", "3 * x")

    def test_arguments_that_no_memory_holds(self):
        huge = self.bad(2, "kernel.py:kernel", "--values", "--arg", "x=fp32[99999999999,99999999]", "--arg", "w=fp32[8,8]")
        self.assertIn("--arg: the tensors' numbers do not fit into memory", huge)

    def test_a_result_on_chip_is_refused(self):
        self.file("import nki.language as nl\n\ndef kernel(x):\n    return nl.load(x)\n", "chip.py")
        for values in ((), ("--values",)):
            found = self.bad(1, "chip.py:kernel", "--arg", "x=fp32[8,8]", *values)
            self.assertIn("chip.py:4: result 0, float32 [8, 8] in sbuf: expected a tensor in shared_hbm", found)

    def test_an_endless_recursion_is_shown_in_part(self):
        self.file("def kernel(x):\n    return kernel(x)\n", "again.py")
        done = self.run_here("again.py:kernel", "--arg", "x=fp32[8,8]")
        self.assertEqual(done.returncode, 1)
        self.assertIn("again.py:2: RecursionError", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 22)
        self.assertRegex(done.stderr, r"and \d+ calls more")

    def test_nothing_is_left_of_a_kernel_that_fails(self):
        self.bad(1, "kernel.py:kernel", "--arg", "x=bf16[128,64]", "--arg", "w=bf16[64,96]", "--trace", "t.trace")
        self.assertEqual([name for name in os.listdir(self.folder) if "trace" in name], [])
        self.assertIn("no_such_folder", self.bad(1, *_ARGUMENTS, "--trace", "no_such_folder/t.trace"))

    def test_cores(self):
        self.file(
            """
            import nki.language as nl

            def kernel(x):
                i = nl.program_id(0)
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out[i * 8:i * 8 + 8], nl.load(x[i * 8:i * 8 + 8]))
                return out
        """,
            "halves.py",
        )
        printed = self.good("halves.py:kernel[2]", "--arg", "x=fp32[16,4]", "--ref", "x", "--trace", "t.trace")
        self.assertIn("launched on [2] cores", printed)
        self.assertEqual(harness.TraceFile(os.path.join(self.folder, "t.trace")).header["grid"], [2])
        self.file("import nki, halves\nkernel = nki.jit(grid=[2])(halves.kernel)\n", "both.py")
        self.assertIn("launched on [2] cores", self.good("both.py:kernel", "--arg", "x=fp32[16,4]", "--ref", "x"))


if __name__ == "__main__":
    unittest.main()
