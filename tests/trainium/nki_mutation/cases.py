"""The right kernels of the proof by mutation, and how each is run."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Case:
    file: str
    kernel: str
    arguments: list  # of the options --arg and --kwarg
    reference: str
    grid: str = ""
    device: str = "trn2"

    @property
    def name(self) -> str:
        return f"{os.path.basename(self.file)}:{self.kernel}"

    def command(self, file: str) -> list[str]:
        """Returns the arguments of `nki.run` for the kernel or a variant of it in `file`."""
        return [f"{file}:{self.kernel}{self.grid}", *self.arguments, "--device", self.device]


def _tensors(*texts):
    return [word for text in texts for word in ("--arg", text)]


_SOFTMAX = "np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)"


def own() -> list[Case]:
    """Returns the kernels of kernels_nki.py and kernels_legacy.py."""
    new, old = os.path.join(HERE, "kernels_nki.py"), os.path.join(HERE, "kernels_legacy.py")
    return [
        Case(new, "scale_add", _tensors("x=bf16[256,96]", "y=bf16[256,96]*1"), "2 * x + y"),
        Case(new, "matmul", _tensors("lhsT=bf16[256,256]", "rhs=bf16[256,192]"), "lhsT.T @ rhs"),
        Case(new, "matmul_flags", _tensors("lhsT=fp32[384,64]", "rhs=fp32[384,128]"), "0.5 * (lhsT.T @ rhs)"),
        Case(new, "rmsnorm", _tensors("x=bf16[256,128]", "w=bf16[1,128]*1"), "x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-2) * w"),
        Case(new, "softmax", _tensors("x=fp32[128,100]"), _SOFTMAX),
        Case(new, "layernorm", _tensors("x=fp32[96,128]"), "(x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)"),
        Case(new, "attention", _tensors("q=bf16[64,128]", "k=bf16[64,128]*1", "v=bf16[128,64]*1"), "softmax(q.T @ k * 0.125) @ v"),
        Case(new, "exchanged_halves", _tensors("x=bf16[64,48]"), "3 * np.concatenate([x[32:], x[:32]])", "[2]"),
        Case(new, "sum_of_cores", _tensors("x=fp32[64,40]"), "x[:32] ** 2 + x[32:] ** 2", "[2]"),
        Case(new, "cache_update", _tensors("cache=fp32[128,64]", "new=fp32[32,64]*1"),
             "np.concatenate([cache[:32], cache[32:64] + new, cache[64:]])"),
        Case(new, "fp8_matmul", _tensors("a=fp8[128,64]", "b=fp8[128,128]*1"), "0.25 * (a.T @ b)"),
        Case(new, "transposed", _tensors("x=bf16[256,256]"), "x.T"),
        Case(new, "max_pool", _tensors("x=bf16[96,64]"), "x.reshape(96, 16, 4).max(2)"),
        Case(new, "swiglu", _tensors("gate=bf16[128,192]", "up=bf16[128,192]*1"), "silu(gate) * up"),
        Case(new, "running_sum", _tensors("x=fp32[64,128]"), "np.cumsum(x, 1)"),
        Case(new, "rotary", _tensors("x=bf16[96,64]", "cosine=fp32[96,32]*1", "sine=fp32[96,32]*1"),
             "np.concatenate([x[:, :32] * cosine - x[:, 32:] * sine, x[:, 32:] * cosine + x[:, :32] * sine], 1)"),
        Case(new, "addressed", _tensors("x=fp32[64,256]", "y=fp32[64,256]*1"), "(x + 1.5) * y + x"),
        Case(new, "causal", _tensors("x=bf16[128,128]"), "np.where(np.tri(128) > 0, x, -1000)"),
        Case(new, "column_means", _tensors("x=bf16[384,128]"), "x.mean(0, keepdims=True)"),
        Case(new, "depthwise", _tensors("x=fp32[64,100]", "w=fp32[64,4]*1"), "sum(w[:, t:t + 1] * x[:, t:t + 97] for t in range(4))"
             .replace("sum(", "sum([").replace("range(4))", "range(4)], 0)")),
        Case(old, "add_programs", _tensors("a=fp32[256,128]", "b=fp32[256,128]*1"), "a + 0.5 * b", "[2,2]"),
        Case(old, "matmul", _tensors("lhsT=bf16[256,256]", "rhs=bf16[256,192]"), "lhsT.T @ rhs", device="trn1"),
        Case(old, "softmax", _tensors("x=fp32[256,96]"), _SOFTMAX),
        Case(old, "transposed", _tensors("x=bf16[64,48]"), "x.reshape(64, 6, 8).transpose(0, 2, 1).reshape(64, 48)"),
        Case(old, "average_pool", _tensors("x=fp32[32,12,16]"), "x.reshape(32, 6, 2, 8, 2).mean((2, 4))"),
        Case(old, "scaled_norm", _tensors("x=fp32[256,64]", "g=fp32[64]*1"),
             "x / np.sqrt((x * x).mean(1, keepdims=True) + 0.01) * g", device="trn1"),
    ]  # fmt: skip


# Says what `neuronmm emit` writes: the kernel, its shape and further options.
_EMITTED = [
    ("xuv", "256,256,128,512"), ("xtuv", "256,256,128,512"), ("xuv_transposed", "256,256,128,256"),
    ("xuv_naive", "128,256,128,512"), ("xuv_sequential", "128,256,128,512"), ("xuv_pivoted", "128,256,128,256"),
    ("matmul_tiled", "256,256,512"), ("matmul_hoisted", "256,256,512", "--dtype", "fp32"), ("matmul_blocked", "256,256,1024"),
    ("matmul_optimized", "256,256,1024"), ("matmul_fixed_order", "256,384,512", "--device", "trn1"),
    ("mlp_up", "128,256,128,256"), ("mlp", "128,256,128,256"), ("dense_mlp", "128,256,512"),
    ("xuv", "256,256,128,512", "--device", "trn1"),
]  # fmt: skip


def emitted(program: str, folder: str) -> list[Case]:
    """Returns kernels that `program` emits into the folder. The file's own docstring names the
    operands and the expression of the result.
    """
    found = []
    for number, (kernel, shape, *options) in enumerate(_EMITTED):
        file = os.path.join(folder, f"emitted{number}.py")
        subprocess.run([program, "emit", kernel, "--shape", shape, "-o", file, *options], check=True, stdout=subprocess.DEVNULL)
        arguments, reference = _described(file)
        device = options[options.index("--device") + 1] if "--device" in options else "trn2"
        found.append(Case(file, kernel, arguments, reference, device=device))
    return found


def _described(file):
    """Returns the options --arg and the reference that an emitted file's docstring states."""
    with open(file) as source:
        lines = source.read().splitlines()
    sizes: dict = {}
    for line in lines:
        names, equals, numbers = line.partition(" = ")
        if equals and all(part.strip().isdigit() for part in numbers.split(",")):
            sizes.update(zip((n.strip() for n in names.split(",")), map(int, numbers.split(","))))
            break
    begin = next(i for i, line in enumerate(lines) if line.startswith("def "))
    body = [line.strip() for line in lines[begin:]]
    arguments = body.index("Args:")
    returns = body.index("Returns:")
    reference = next(line for line in body[2:arguments] if " = " in line)
    tensors = []
    for line in filter(None, body[arguments + 1 : returns]):
        name, _, described = line.partition(": (")
        shape, _, dtype = described.partition(") ")
        tensors.append(f"{name}={dtype.split()[0]}[{','.join(str(eval(part, {}, sizes)) for part in shape.split(','))}]")
    text = reference.partition(" = ")[2]
    for name, size in sizes.items():
        text = text.replace(f":{name}]", f":{size}]").replace(f"[{name}:", f"[{size}:").replace(f"{name}:]", f"{size}:]")
    return _tensors(*tensors), text
