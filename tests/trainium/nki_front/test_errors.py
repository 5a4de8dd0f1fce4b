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
        self.check(tile + "nisa.nc_stream_shuffle(t, t, 'a')  # here", "shuffle_mask: expected whole numbers, found 'a'")
        self.check(tile + "nisa.tensor_reduce(t, nl.add, t, axis='a')  # here", "axis: expected whole numbers, found ('a',)")
        self.check(tile + "nisa.iota(t, 3)  # here", "nki.isa.iota: pattern: expected pairs (step, count), found 3")
        self.check(tile + "nisa.tensor_copy(t, t, name=3)  # here", "nki.isa.tensor_copy: name: expected a string, found 3")
        self.check(
            tile + "nisa.activation(dst=t, op=nl.exp, data=t, reduce_cmd=None)  # here",
            "reduce_cmd: expected one of nki.isa.reduce_cmd, found None",
        )
        self.check(tile + "nisa.register_move(None, 1)  # here", "nki.isa.register_move: dst: expected a register, found None")
        self.check(tile + "nisa.register_store(t[0:1, 0:1], 5)  # here", "src: expected a register, found 5 (int)")
        self.check("nisa.core_barrier(x, 5)  # here", "nki.isa.core_barrier: cores: expected whole numbers, found 5")
        self.check("nisa.dma_compute(x, None, nl.add)  # here", "nki.isa.dma_compute: srcs: expected tensors, found None")
        self.check("nl.program_id('a')  # here", "nki.language.program_id: axis: expected a whole number, found 'a'")
        self.check("nl.program_id(-1)  # here", "nki.language.program_id: axis: expected 0 or more, found -1")
        self.check("nl.where(None, 1, 2)  # here", "nki.language.where: condition: expected a tensor, found None")
        self.check("nl.matmul(x, None)  # here", "nki.language.matmul: y: expected a tensor, found None")
        self.check("nl.shared_identity_matrix(4, 'f7')  # here", "dtype: expected an element type of nki.language, found 'f7'")
        self.check("x.ap([1, 2])  # here", "tensor.ap: pattern: expected whole numbers, found 1")
        self.check("x.frobnicate(2)  # here", "tensor.frobnicate: not known to this tracer")
        self.check("x.select(0, 'a')  # here", "tensor.select: 'x', float32 [64, 32] in hbm: index: expected a number")
        self.check("nl.ndarray((4, 2.5), nl.float32)  # here", "shape: expected whole numbers, found (4, 2.5)")
        self.check("nl.ndarray((4, float('inf')), nl.float32)  # here", "shape: expected whole numbers, found (4, inf)")

    def test_fractions_are_not_cut_to_whole_numbers(self):
        self.check("x[0:64, nl.ds(0.5, 4)]  # here", "nki.language.ds: start: expected a whole number, found 0.5")
        self.check("x[0:64, nl.ds(0, 4.5)]  # here", "nki.language.ds: size: expected a whole number, found 4.5")
        self.check("x.ap([[32, 64], [1, 8.5]])  # here", "tensor.ap: pattern: expected whole numbers, found [1, 8.5]")
        self.check("x.ap([[32, 64], [1, 8]], offset=0.5)  # here", "tensor.ap: offset: expected a whole number, found 0.5")
        self.check("x.reshape((64.5, 32))  # here", "tensor.reshape: shape: expected whole numbers, found (64.5, 32)")
        self.check("nl.sum(nl.load(x), axis=1.5)  # here", "nki.language.sum: axis: expected whole numbers, found (1.5,)")

    def test_names_of_tensors(self):
        self.check("nl.ndarray((4, 4), nl.float32, name=[1])  # here", "nki.language.ndarray: name: expected a string, found [1]")
        self.check("nl.ndarray((4, 4), nl.float32, name='\\udc80')  # here", "name: expected text in Unicode, found '\\udc80'")

    def test_huge_numbers(self):
        huge = "shape: expected at most 2^46 elements, found [1099511627776, 1099511627776]"
        for flags in ((), ("--values",)):
            self.check("nl.ndarray((1 << 40, 1 << 40), nl.float32, buffer=nl.shared_hbm)  # here", huge, *flags)
        self.check("nl.affine_range(10**30)  # here", "nki.language.affine_range: expected fewer than 2^31 iterations")

    def test_reductions(self):
        begin = "t = nl.load(x)\n"
        self.check(begin + "nl.sum(t, axis=3)  # here", "nki.language.sum: axis: 3 is no free axis of")
        self.check(begin + "nl.max(t, axis=(1, -1))  # here", "nki.language.max: axis: expected different free axes of")
        self.check(
            begin + "nisa.tensor_partition_reduce(t, nl.add, t)  # here", "expected one partition in dst with as many elements"
        )
        self.check(
            begin + "nisa.tensor_scalar_reduce(t, t, nl.add, 1.0, nl.divide)  # here", "reduce_op: nl.divide does not reduce"
        )

    def test_views(self):
        self.check("x[0:1].broadcast(0, 0)  # here", "tensor.broadcast: 'x', float32 [1, 32] in hbm: a dimension of 0 elements")
        self.check("x[0:1].broadcast_to((None, 32))  # here", "tensor.broadcast_to: size: expected a whole number, found None")
        self.check("x.reshape((-1, -2, -2))  # here", "has not the 2048 elements")
        self.check("x[4:0:-1]  # here", "slice 4:0:-1 of dimension 0: expected a step of at least 1")
        self.check("x.flatten_dims(1, 0)  # here", "tensor.flatten_dims: 'x', float32 [64, 32] in hbm: dimension 1 comes after")
        self.check("x.rearrange('pf', 'fp')  # here", "src_pattern: expected names of dimensions and tuples of names, found 'pf'")
        self.check(
            "r, i = nisa.register_alloc(1), nl.zeros((4, 1), nl.int32)\n"
            "x.ap([[32, 4], [1, 4]], scalar_offset=r, vector_offset=i)  # here",
            "tensor.ap: 'x', float32 [64, 32] in hbm: expected scalar_offset or vector_offset, found both",
        )
        self.check("x.select(0, -65)  # here", "index -65 of dimension 0, which has 64 elements")
        self.check(
            "x.rearrange(('p', 'f'), ('f', 'p'), {'p': 32})  # here", "dimension 'p' has 64 elements, and fixed_sizes says 32"
        )
        self.check("i = nl.zeros((64, 1), nl.float32)\nx.vector_select(0, i)  # here", "in sbuf, expected integers")

    def test_scales_of_a_sum_by_dma(self):
        body = "nisa.dma_compute(nl.load(x), [x, x], nl.add, scales={})  # here"
        self.check(body.format("[1.0]"), "scales: expected a number for each of 2 sources, found [1.0]")
        self.check(body.format("[1.0, None]"), "scales: expected a number for each of 2 sources, found [1.0, None]")

    def test_operands_that_are_missing(self):
        begin = "t = nl.load(x)\n"
        self.check(begin + "nisa.tensor_scalar(t, t, nl.multiply)  # here", "operand0: nl.multiply takes a number or a tensor, found None")
        self.check(begin + "nisa.tensor_scalar(t, t, nl.add, 1.0, op1=nl.add)  # here", "operand1: nl.add takes a number or a tensor")
        self.check(
            begin + "nisa.tensor_tensor_scan(t, t, t, None, nl.add, nl.add)  # here",
            "initial: expected a number or a tensor, found None (NoneType)",
        )
        self.check(
            begin + "nisa.affine_select(t, [[1, 32]], 0, t, None)  # here", "on_false_value: expected a number, found None"
        )
        self.check(begin + "nisa.memset(t, 10**400)  # here", "value: expected a number that float64 can hold")

    def test_partitions_of_the_eight_largest(self):
        begin = "t, few = nl.load(x), nl.zeros((32, 8), nl.float32)\nd = nl.zeros((64, 8), nl.uint32)\n"
        self.check(begin + "nisa.max8(few, t)  # here", "expected equal partitions")
        self.check(begin + "nisa.nc_find_index8(d, t, few)  # here", "nki.isa.nc_find_index8: vals is 'few'")
        self.check(begin + "nisa.nc_match_replace8(t, t, few, 0.0)  # here", "nki.isa.nc_match_replace8: vals is 'few'")

    def test_operators_of_bits(self):
        begin = "t = nl.load(x)\n"
        bits = "nl.bitwise_xor works on the bits of integers"
        self.check(begin + "nisa.tensor_reduce(t[:, 0:1], nl.bitwise_xor, t, axis=1)  # here", bits)
        self.check(begin + "nisa.tensor_partition_reduce(t[0:1], nl.bitwise_xor, t)  # here", bits)
        self.check(begin + "nisa.scalar_tensor_tensor(t, t, nl.add, 1.0, nl.bitwise_xor, t)  # here", bits)

    def test_types_of_gathers(self):
        begin = "t = nl.load(x)\nn = nl.zeros((64, 32), nl.bfloat16)\ni = nl.zeros((64, 32), nl.uint32)\n"
        self.check(begin + "nisa.nc_n_gather(n, t, i)  # here", "expected equal types and partitions")
        self.check(begin + "nisa.local_gather(n, t, i, num_valid_indices=32)  # here", "expected equal types and partitions")
        self.check(begin + "nisa.nc_stream_shuffle(i, t, [0] * 32)  # here", "expected equal types and free sizes")

    def test_exceptions_of_any_class(self):
        self.check("raise BaseException('stop')  # here", "BaseException: stop")
        silent = "class Silent(Exception):\n    def __str__(self): return 1 / 0\nraise Silent  # here"
        self.check(silent, "Silent: an error without a text")

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
