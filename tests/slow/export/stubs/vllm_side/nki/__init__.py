"""A stub of NKI, sufficient to import and simulate the kernel `mlp`.

The stub computes the formula of the kernel in fp32 and rounds to bf16 where the kernel rounds.
tests/trainium/nki checks that the kernel computes this formula.
"""

import numpy as np


class Kernel:
    """A jitted function, launched on one core or with brackets on two."""

    def __init__(self, function, check_shapes):
        self.__name__, self.check_shapes = function.__name__, check_shapes
        self.cores = 1

    def __getitem__(self, cores):
        launched = Kernel(self, self.check_shapes)
        launched.cores = cores
        return launched


def jit(kernel):
    arguments = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]

    def check_shapes(*tensors):
        sizes = {name: kernel.__globals__[name] for name in "MKrN"}
        wanted = dict(x="MK", u_gate="Kr", v_gate="rN", u_up="Kr", v_up="rN", u_down="Nr", v_down="rK")
        assert list(arguments) == list(wanted)
        for name, tensor in zip(arguments, tensors, strict=True):
            assert tuple(tensor.shape) == tuple(sizes[letter] for letter in wanted[name]), (name, tensor.shape)

    return Kernel(kernel, check_shapes)


def simulate(kernel):
    def run(*operands):
        assert kernel.cores == 2, "the kernel splits its rows over two cores"
        kernel.check_shapes(*operands)
        rounded = lambda values: values.astype(operands[0].dtype).astype(np.float32)
        x, *factors = (operand.astype(np.float32) for operand in operands)
        gate, up = (rounded(x @ factors[i]) @ factors[i + 1] for i in (0, 2))
        hidden = rounded(gate / (1 + np.exp(-gate)) * up)
        return rounded(rounded(hidden @ factors[4]) @ factors[5])

    return run
