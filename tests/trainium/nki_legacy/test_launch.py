"""Checks decorators, launch grids, output parameters and explicit allocation."""

import unittest

import numpy as np
from tracing import Run, close, random

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as compiler
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt


@nki.jit
def tiles_of_a_grid(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    j = nl.program_id(1) * 256 + nl.arange(256)[None, :]
    assert nl.program_ndim() == 2 and nl.num_programs(0) == 2
    nl.store(out[i, j], nl.load(a[i, j]) + nl.load(b[i, j]))
    return out


def host_function(a, b):
    return tiles_of_a_grid[a.shape[0] // 128, nl.spmd_dim(1, nl.nc(2))](a, b)


def into_its_argument(a: nt.tensor[8, 4], out: nt.tensor[nt.mutable]):
    nl.store(out, nl.exp(nl.load(a)))


@nki.jit(mode="simulation")
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2))
    return out


@nki.trace
def quadrupled(a):
    return doubled(doubled(a))


@compiler.skip_middle_end_transformations
@nki.baremetal(additional_compile_opt="--anything")
def at_addresses(a):
    out = nl.ndarray((4, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = nl.ndarray(
        (4, nl.par_dim(128), 128), dtype=nl.float32, buffer=compiler.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(2,))
    )
    sums = nl.ndarray(
        (4, nl.par_dim(128), 128), dtype=nl.float32, buffer=compiler.psum.mod_alloc(base_bank=3, num_bank_tiles=(2,))
    )
    for i in nl.sequential_range(4, directives=compiler.no_reorder()):
        tiles[i] = nl.load(a[i])
        sums[i] = nisa.nc_matmul(tiles[i], tiles[i])
        nl.store(out[i], sums[i])
    return out


class Launch(unittest.TestCase):
    def test_programs_of_a_grid_share_their_output(self):
        a, b = random(256, 512), random(256, 512, seed=2)
        for kernel, options in ((tiles_of_a_grid, {"grid": (2, 2)}), (tiles_of_a_grid[2, 2], {}), (host_function, {})):
            run = Run(kernel, a, b, **options)
            close(self, run.output, a + b)
            self.assertEqual(run.names().count("tensor_tensor"), 4)
            self.assertEqual(sum(t["memory"] == "hbm" for t in run.header["tensors"]), 3)
            self.assertIn("4 programs", run.notes[0])

    def test_a_kernel_called_with_arrays_computes(self):
        a, b = random(256, 512), random(256, 512, seed=2)
        close(self, tiles_of_a_grid[2, 2](a, b), a + b)
        close(self, nki.simulate_kernel(doubled, a[:128]), 2 * a[:128])

    def test_output_parameters(self):
        a = random(8, 4)
        close(self, Run(into_its_argument, a, np.zeros((8, 4), np.float32)).output, np.exp(a))

    def test_kernels_call_kernels(self):
        a = random(8, 4)
        run = Run(quadrupled, a)
        close(self, run.output, 4 * a)
        self.assertEqual(run.header["dialect"], "neuronxcc")

    def test_blocks_take_their_addresses_in_turn(self):
        a = random(4, 128, 128)
        run = Run(at_addresses, a)
        close(self, run.output, np.stack([x.T @ x for x in a]), 1e-4)

    def test_decorators(self):
        for decorator in (
            nki.jit,
            nki.trace,
            nki.baremetal,
            nki.benchmark,
            nki.profile,
            nki.benchmark(warmup=2, iters=10),
        ):
            kernel = decorator(doubled.body)
            close(self, kernel(np.ones((2, 2), np.float32)), np.full((2, 2), 2))


if __name__ == "__main__":
    unittest.main()
