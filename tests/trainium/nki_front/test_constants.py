"""Checks `--set`, which gives a parameter of a kernel or a constant of its file a value."""

import errno
import os
import py_compile
import subprocess
import sys
import unittest

import harness
import nki

_FILE = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    TILE = 128
    HALF = TILE // 2
    A, B = 1, 2
    C = D = 3
    TYPED: int = 4
    DECLARED: int
    if A:
        INSIDE = 5
    TWICE = 6
    TWICE += 1
    LIST = [TILE for TILE in range(2)]

    def other():
        TILE = 7
        return TILE

    @nki.jit
    def kernel(x, cols=8):
        print("found", [TILE, HALF, A, B, C, D, TYPED, INSIDE, TWICE, other(), cols])
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(y, nl.load(x))
        return y

    def open_kernel(x, **more):
        print("found", more)
        return kernel(x)

    made = nki.jit(kernel.func)
"""
_DEFAULT = [128, 64, 1, 2, 3, 3, 4, 5, 7, 7, 8]


class Constants(harness.Folder):
    def setUp(self):
        super().setUp()
        self.file(_FILE)

    def run_with(self, *settings, kernel="kernel.py:kernel", more=()):
        options = [word for text in settings for word in ("--set", text)]
        return self.run_here(kernel, "--arg", "x=fp32[16,16]", *options, *more)

    def found(self, *settings, **options):
        done = self.run_with(*settings, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("found ")]
        return line.removeprefix("found ")

    def changed(self, **changes):
        return str([changes.get(f"i{i}", value) for i, value in enumerate(_DEFAULT)])

    def refused(self, text, *settings, status=2, **options):
        done = self.run_with(*settings, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    def test_constants(self):
        self.assertEqual(self.found(), str(_DEFAULT))
        self.assertEqual(self.found("TILE=32"), self.changed(i0=32, i1=16))
        self.assertEqual(self.found("TYPED=9"), self.changed(i6=9))
        self.assertEqual(self.found("A=9", "B=10"), self.changed(i2=9, i3=10))
        self.assertEqual(self.found("C=9"), self.changed(i4=9))
        self.assertEqual(self.found("D=2 * 5"), self.changed(i5=10))
        self.assertEqual(self.found("HALF=(lambda n: n)(TILE)"), self.changed(i1=128))
        self.assertEqual(self.found(), str(_DEFAULT))  # nothing stays for the next run

    def test_parameters(self):
        self.assertEqual(self.found("cols=9"), self.changed(i10=9))
        self.assertEqual(self.found("cols=HALF"), self.changed(i10=64))
        self.assertEqual(self.found("cols=9", kernel="kernel.py:made"), self.changed(i10=9))
        self.assertEqual(self.found("TILE=2", kernel="kernel.py:made"), self.changed(i0=2, i1=1))
        self.assertIn("{'depth': 2}", self.run_with("depth=2", kernel="kernel.py:open_kernel").stdout)

    def test_a_value_reaches_an_imported_file_and_the_reference(self):
        self.file("TILE = 1\n", "sizes.py")
        self.file(
            """
            import nki.language as nl
            import again
            TILE = 2
            def kernel(x):
                y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(y, nl.multiply(nl.load(x), TILE * again.tile()))
                return y
            def reference(x):
                return x * TILE * TILE
            """,
            "twice.py",
        )
        self.file("def tile():\n    import twice\n    return twice.TILE\n", "again.py")
        for value in "123":
            done = self.run_with(f"TILE={value}", kernel="twice.py:kernel", more=("--ref", "twice.py:reference"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_compiled_file_is_not_taken_for_the_changed_one(self):
        py_compile.compile(os.path.join(self.folder, "kernel.py"))
        self.assertEqual(self.found("TILE=32"), self.changed(i0=32, i1=16))

    def test_refused(self):
        self.refused("--set TIEL: expected a parameter of the kernel (x, cols) or a constant at the top level of kernel.py "
                     "(TILE, HALF, A, B, C, D, TYPED, LIST, made)", "TIEL=1")  # fmt: skip
        self.refused("--set TWICE: kernel.py assigns it in lines 14, 15; expected one assignment", "TWICE=1")
        self.refused("--set INSIDE: kernel.py:13: expected an assignment at the top level", "INSIDE=1")
        self.refused("--set DECLARED: expected a parameter", "DECLARED=1")
        self.refused("--set x: --arg or --kwarg gives this parameter, too", "x=1")
        self.refused("--set cols: --arg or --kwarg gives this parameter, too", "cols=1", more=("--kwarg", "cols=2"))
        self.refused("--set TILE: '1 2' is no expression of Python: invalid syntax", "TILE=1 2")
        self.refused("--set cols: 'foo' is no Python literal", "cols=foo")
        for text in ("TILE", "=1", "TILE=", "1x=2", "a.b=2"):
            self.refused(f"--set: expected NAME=VALUE, found {text!r}", text)
        self.refused("kernel.py:6: NameError: name 'foo' is not defined", "TILE=foo", status=1)
        self.refused("no kernel 'none'", "TILE=1", kernel="kernel.py:none")
        self.refused("--set TIEL: expected a parameter", "TIEL=1", kernel="kernel.py:made")
        self.refused("none.py: No such file", "TILE=1", kernel="none.py:kernel", status=1)
        self.refused("invalid syntax", "TILE=1", kernel=self.file("def (", "bad.py") + ":kernel", status=1)
        self.file("cols = 1\nfrom kernel import kernel\n", "both.py")
        self.refused("both.py:kernel has a parameter and its file a constant of this name", "cols=1",
                     kernel="both.py:kernel")  # fmt: skip

    def test_a_value_that_loops_for_ever_ends(self):
        self.file("STEP = 1\nn = 0\nwhile n < 8:\n    n += STEP\ndef kernel(x):\n    return x\n", "loads.py")
        done = self.run_command("loads.py:kernel", "--arg", "x=fp32[4,4]", "--set", "STEP=0", "--max-seconds", "0.5")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"loads.py:[34]: limit: the kernel has run for 0.5 seconds")

    def test_who_is_to_blame(self):
        """`neuronmm nki` ends a sweep if the machine fails, and goes on if the kernel does."""
        self.file("import errno\nN = 5\ndef kernel(x):\n    raise OSError(N, 'text')\n", "raises.py")
        start = os.path.join(os.path.dirname(nki.__file__), "start.py")
        for number, expected in ((errno.EIO, 1), (errno.ENOSPC, 1), (errno.ENOENT, 122), (errno.EACCES, 122)):
            command = [sys.executable, "-P", start, "raises.py:kernel", "--arg", "x=fp32[4,4]", "--set", f"N={number}"]
            with self.subTest(number=number):
                done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
