"""The vendor's samples as cases of the proof by mutation. Nothing of theirs is kept here:

    NKI_SAMPLES=COPY tests/slow/nki_mutation.sh tests/slow/nki_mutation/samples.py:cases

COPY is a copy of the repository aws-neuron/nki-samples (tested with commit 6905a68).
"""

import os

import numpy as np
from cases import Case

_TUTORIALS = os.path.join(os.environ.get("NKI_SAMPLES", "nki-samples"), "src/nki_samples/tutorials")


def mamba(delta, u, A, B, C):
    """Returns the state-space model's output, step by step."""
    delta, u, A, B, C = (np.asarray(x, np.float64) for x in (delta, u, A, B, C))
    state = np.zeros((*u.shape[:2], A.shape[1]))
    out = np.zeros(u.shape)
    for t in range(u.shape[2]):
        step = delta[:, :, t, None]
        state = np.exp(step * A) * state + step * B[:, None, :, t] * u[:, :, t, None]
        out[:, :, t] = (state * C[:, None, :, t]).sum(2)
    return out


def _matmul(kernel, K, M, N, *options):
    arguments = ["--arg", f"lhsT=bf16[{K},{M}]", "--arg", f"rhs=bf16[{K},{N}]", *options]
    return Case(os.path.join(_TUTORIALS, "matrix_multiplication/matrix_multiplication_nki_kernels.py"), kernel, arguments, "lhsT.T @ rhs")


def cases():
    mine = f"{os.path.abspath(__file__)}:mamba"
    scan = [word for text in ("delta=fp32[1,128,64]*0.3", "u=fp32[1,128,64]*1", "A=fp32[128,4]*0.5", "B=fp32[1,4,64]*1", "C=fp32[1,4,64]*1")
            for word in ("--arg", text)]  # fmt: skip
    return [
        Case(os.path.join(_TUTORIALS, "tensor_addition/spmd_tensor_addition_nki_kernels.py"), "nki_tensor_add_kernel_",
             ["--arg", "a_input=fp32[256,1024]", "--arg", "b_input=fp32[256,1024]*1"], "a_input + b_input", "[2,2]"),
        Case(os.path.join(_TUTORIALS, "average_pool2d/average_pool2d_nki_kernels.py"), "tensor_avgpool_kernel",
             ["--arg", "in_tensor=fp32[32,12,16]", "--kwarg", "pool_size=2"], "in_tensor.reshape(32, 6, 2, 8, 2).mean((2, 4))"),
        Case(os.path.join(_TUTORIALS, "transpose2d/transpose2d_nki_kernels.py"), "tensor_transpose2D_kernel_",
             ["--arg", "in_tensor=fp32[64,48]", "--kwarg", "shape2D=(6,8)"],
             "in_tensor.reshape(64, 6, 8).transpose(0, 2, 1).reshape(64, 48)"),
        _matmul("nki_matmul_basic_", 128, 64, 512),
        _matmul("nki_matmul_tiled_", 256, 256, 1024),
        _matmul("nki_matmul_hoist_load_", 256, 256, 1024),
        _matmul("nki_matmul_block_free_dimension_", 256, 256, 1024),
        _matmul("nki_matmul_fully_optimized_", 512, 256, 1024, "--kwarg", "TILES_IN_BLOCK_M=1", "--kwarg", "TILES_IN_BLOCK_N=1",
                "--kwarg", "TILES_IN_BLOCK_K=2"),
        *(Case(os.path.join(_TUTORIALS, "fused_mamba/mamba_nki_kernels.py"), f"mamba_v{n}", scan, mine) for n in (1, 2)),
    ]  # fmt: skip
