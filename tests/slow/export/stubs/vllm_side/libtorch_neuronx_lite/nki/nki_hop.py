"""A stub of the call of an NKI kernel from torch, wrap_nki(kernel)[grid](tensors).

The stub computes the formula of the kernel `mlp` in the dtype of the tensors. If STUB_KERNEL_NOTE
names a file, each call appends a line with the shape of x to it.
"""

import os

from torch.nn import functional as F

calls = []


def wrap_nki(kernel):
    class Caller:
        def __getitem__(self, grid):
            assert kernel.__name__ == "mlp" and grid == 2, (kernel, grid)
            return self.run

        @staticmethod
        def run(x, u_gate, v_gate, u_up, v_up, u_down, v_down):
            kernel.check_shapes(x, u_gate, v_gate, u_up, v_up, u_down, v_down)
            if note := os.environ.get("STUB_KERNEL_NOTE"):
                with open(note, "a") as file:
                    file.write(f"{tuple(x.shape)}\n")
            return F.silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up) @ u_down @ v_down

    return Caller()
