"""Checks wrong kernels: each message names the line, the call, what was expected and what was found."""

import textwrap
import unittest

import harness

_BEGIN = """
import nki
import nki.isa as nisa
import nki.language as nl


def kernel(x):
"""
_BEGIN_LINES = len(_BEGIN.splitlines())
_LOAD = """
tile = nl.ndarray((64, 32), nl.float32)
nisa.dma_copy(tile, x)
"""


class Wrong(harness.Folder):
    def message(self, body: str, *argv: str) -> str:
        text = _BEGIN + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
        self.file(text)
        done = self.run_here("kernel.py:kernel", "--arg", "x=fp32[64,32]", *argv)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        return done.stderr

    def check(self, body: str, expected: str, *argv: str):
        """Checks that `body` fails at its line that ends with `# here`, with `expected` in the message."""
        lines = textwrap.dedent(body).strip("\n").splitlines()
        line = _BEGIN_LINES + 1 + next(i for i, text in enumerate(lines) if text.endswith("# here"))
        found = self.message(body, *argv)
        self.assertIn(f"kernel.py:{line}: ", found)
        self.assertIn(expected, found)

    def test_what_the_tracer_does_not_know(self):
        self.check("nisa.frobnicate(x)  # here", "nki.isa.frobnicate is not known to this tracer")
        self.check("nl.frobnicate(x)  # here", "nki.language.frobnicate is not known to this tracer")

    def test_shapes(self):
        self.check("tile = nl.ndarray((129, 4), nl.float32)  # here", "nki.language.ndarray: sbuf has 128 partitions")
        self.check("nl.ndarray((4, 60000), nl.float32)  # here", "sbuf of trn2 has 229376 bytes in each partition")
        self.check("nl.ndarray((4, 5000), nl.float32, buffer=nl.psum)  # here", "psum of trn2 has 16384 bytes")
        self.check("nl.ndarray((4, 0), nl.float32)  # here", "expected sizes of at least 1, found [4, 0]")
        self.check("nl.ndarray((4, 4), 'float31')  # here", "expected an element type of nki.language, found 'float31'")
        self.check("nl.ndarray((4, 4), nl.float32, address=(0, 229374))  # here", "bytes up to 229390 of 229376")
        self.check(
            "tile = nl.ndarray((64, 31), nl.float32)\nnisa.dma_copy(tile, x)  # here", "expected equally many elements"
        )

    def test_indices(self):
        self.check("x[64]  # here", "index 64 of dimension 0, which has 64 elements")
        self.check("x[0:65]  # here", "slice 0:65:1 of dimension 0, which has 64 elements")
        self.check("x[:, 4:4]  # here", "slice 4:4:1 of dimension 1")
        self.check("x[0, 0, 0]  # here", "3 indices for 2 dimensions")
        self.check("x.ap([[32, 64], [1, 33]])  # here", "elements 0 to 2048 of 2048")
        self.check("x.reshape((63, 32))  # here", "has not the 2048 elements")

    def test_memories(self):
        self.check(
            "nisa.tensor_copy(x, x)  # here", "dst: 'x', float32 [64, 32] in hbm, expected a tensor in sbuf or psum"
        )
        self.check(
            "t = nl.ndarray((64, 32), nl.float32, buffer=nl.psum)\nnisa.dma_copy(t, x)  # here",
            "DMA reaches hbm and sbuf",
        )
        self.check(_LOAD + "nisa.nc_matmul(tile, tile, tile)  # here", "expected a tensor in psum")
        self.check("nl.ndarray((4, 4), nl.float32, buffer='l2')  # here", "buffer: expected sbuf, psum, hbm")

    def test_limits_of_nc_matmul(self):
        total = "t = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)\n"
        self.check(
            _LOAD + total + "nisa.nc_matmul(t, tile, tile[0:32])  # here",
            "the contraction is 64 in one and 32 in the other",
        )
        self.check(
            _LOAD + "t = nl.ndarray((32, 16), nl.float32, buffer=nl.psum)\nnisa.nc_matmul(t, tile, tile)  # here",
            "the product is [32, 32]",
        )
        self.check(
            "tile = nl.zeros((64, 600), nl.float32)\nt = nl.ndarray((128, 600), nl.float32, buffer=nl.psum)\n"
            "nisa.nc_matmul(t, tile[:, 0:128], tile)  # here", "has 600 columns, more than 512",
        )  # fmt: skip
        self.check(
            "tile = nl.zeros((64, 512), nl.float32)\nt = nl.ndarray((64, 1024), nl.float32, buffer=nl.psum)\n"
            "nisa.nc_matmul(t[:, 100:612], tile[:, 0:64], tile)  # here", "crosses a PSUM bank: bytes 400 to 2447",
        )  # fmt: skip
        self.check(
            _LOAD + "b = nl.zeros((64, 32), nl.bfloat16)\n" + total + "nisa.nc_matmul(t, tile, b)  # here",
            "float32 multiplies float32 only",
        )
        self.check(
            _LOAD + total + "nisa.nc_matmul(t, tile, tile, accumulate=True)  # here",
            "adds to what was never written",
            "--values",
        )

    def test_start_partitions(self):
        self.check(
            _LOAD + "t = nl.zeros((64, 32), nl.float32)\nnisa.tensor_copy(t[0:8], tile[8:16])  # here",
            "begins at partition 8",
        )

    def test_memory_that_was_never_written(self):
        for flags in ((), ("--values",)):
            self.check(
                "a = nl.ndarray((64, 32), nl.float32)\nnl.store(x, a)  # here",
                "src: 'a', float32 [64, 32] in sbuf was never written",
                *flags,
            )
        partly = """
            a, b = nl.ndarray((64, 32), nl.float32), nl.ndarray((64, 32), nl.float32)
            nisa.dma_copy(a[0:32], x[0:32])
            nisa.tensor_scalar(b, a, nl.add, 1.0)  # here
            out = nl.ndarray((64, 32), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, b)
            return out
        """
        self.check(partly, "1024 of the 2048 elements of result 0", "--values")
        self.message("out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)\nreturn out", "--values")

    def test_kernels_that_raise(self):
        found = self.message("y = 1\nassert x.shape == (1, 2), f'not {x.shape}'")
        self.assertIn("AssertionError: not (64, 32)", found)
        self.assertIn("kernel.py:9 in kernel: assert x.shape", found)
        self.assertIn("ZeroDivisionError", self.message("1 / 0"))
        self.assertIn("SystemExit", self.message("raise SystemExit(0)"))

    def test_arguments_of_a_kind_that_a_call_does_not_take(self):
        tile = "t = nl.ndarray((64, 4), nl.float32)\nnisa.memset(t, 1.0)\n"
        self.check(tile + "nisa.nc_stream_shuffle(t, t, 'a')  # here", "nki.isa.nc_stream_shuffle: ValueError")
        self.check(tile + "nisa.tensor_reduce(t, nl.add, t, axis='a')  # here", "nki.isa.tensor_reduce: TypeError")
        self.check("nl.program_id('a')  # here", "nki.language.program_id: TypeError")
        self.check("x.ap([1, 2])  # here", "tensor.ap: TypeError")
        self.check("x.frobnicate(2)  # here", "tensor.frobnicate: not known to this tracer")
        self.check("x.select(0, 'a')  # here", "tensor.select: 'x', float32 [64, 32] in hbm: index: expected a number")
        self.check("nl.ndarray((4, 2.5), nl.float32)  # here", "shape: expected whole numbers, found (4, 2.5)")

    def test_results_that_nothing_wrote(self):
        body = "out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)  # here\nreturn out"
        self.check(body, "result 0, 'out', float32 [4, 4] in hbm, was never written")
        found = self.message("yield x")
        self.assertIn("the kernel yields or awaits, which runs nothing; expected a plain function", found)

    def test_kernels_that_do_not_end(self):
        endless = "t = nl.ndarray((4, 4), nl.float32)\nwhile True:\n    nisa.memset(t, 0.0)  # here"
        self.check(
            endless, "the kernel has executed 5000 instructions, which is the limit", "--max-instructions", "5000"
        )
        self.check(
            "while True: pass  # here", "the kernel has run for 1 seconds, which is the limit", "--max-seconds", "1"
        )

    def test_numbers_that_nobody_knows(self):
        body = """
            r = nisa.register_alloc()
            nisa.register_load(r, x[0:1, 0:1])
            nl.fori_loop(0, r, lambda i: None)  # here
        """
        self.check(body, "run with --values")

    def test_operators(self):
        self.check(_LOAD + "nisa.tensor_tensor(tile, tile, tile, 'plus')  # here",
                   "op: expected an operator of nki.language, found 'plus'")  # fmt: skip
        self.check(_LOAD + "nisa.activation(tile, nl.add, tile)  # here", "nl.add is no activation function")
        self.check(_LOAD + "nisa.tensor_scalar(tile, tile, nl.bitwise_and, 3)  # here", "works on the bits of integers")
        self.check(
            _LOAD + "nisa.activation(tile, nl.exp, tile, engine=nisa.engine.vector, scale=tile)  # here",
            "scale: 'tile', float32 [64, 32]",
        )
        self.check(
            _LOAD + "nisa.tensor_copy(tile, tile, engine=nisa.engine.tensor)  # here",
            "engine: tensor does not execute it",
        )

    def test_what_a_generation_lacks(self):
        self.check(_LOAD + "nisa.exponential(tile, tile)  # here", "trn2 does not have it, trn3 does")
        self.check(
            _LOAD + "nisa.tensor_copy(tile, tile, engine=nisa.engine.scalar)  # here",
            "trn1 copies on the scalar engine",
            "--device",
            "trn1",
        )


class Unwritten(harness.Folder):
    def test_tiles_that_are_used_in_part_are_fine(self):
        self.file("""
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x):
                tile, twice = nl.ndarray((64, 32), nl.float32), nl.ndarray((64, 32), nl.float32)
                nisa.dma_copy(tile[0:32, 0:20], x[0:32, 0:20])
                nisa.tensor_scalar(twice, tile, nl.multiply, 2.0)
                across = nl.ndarray((32, 64), nl.float32, buffer=nl.psum)
                nisa.nc_transpose(across, twice)
                back = nl.ndarray((32, 64), nl.float32)
                nisa.tensor_copy(back, across)
                out = nl.ndarray((20, 32), nl.float32, buffer=nl.shared_hbm)
                nisa.dma_copy(out, back[0:20, 0:32])
                return out
        """)
        done = self.run_command("kernel.py:kernel", "--arg", "x=fp32[64,32]", "--ref", "2 * x[:32, :20].T")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
