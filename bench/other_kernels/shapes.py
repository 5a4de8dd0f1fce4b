"""A stand-in for torch where only the shapes and types of a kernel's arguments matter. It computes
and stores nothing.
"""

from __future__ import annotations

import sys
import types

import numpy as np

TYPES = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16", "int32": "i32", "int8": "i8", "uint8": "u8", "float8_e4m3fn": "fp8e4fn"}


class Tensor:
    def __init__(self, shape, dtype="float32"):
        self.data = np.broadcast_to(np.int8(0), tuple(int(n) for n in shape))
        self.dtype = dtype

    @property
    def shape(self):
        return self.data.shape

    def like(self, shape, dtype=None):
        return Tensor(shape, dtype or self.dtype)

    def argument(self):
        """Returns the tensor as an argument of `neuronmm nki --arg`."""
        return f"{TYPES[self.dtype]}[{','.join(map(str, self.shape))}]"

    def __getitem__(self, index):
        return self.like(self.data[index].shape)

    def __setitem__(self, index, value):
        pass

    def _with(self, other):
        return self.like(np.broadcast_shapes(self.shape, getattr(other, "shape", ())))

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = _with

    def dim(self):
        return len(self.shape)

    def to(self, target):
        return self.like(self.shape, target if target in TYPES else None)

    def bfloat16(self):
        return self.to("bfloat16")

    def contiguous(self):
        return self

    abs = clone = contiguous

    def clamp(self, *limits, **named):
        return self

    def amax(self, dim):
        return self.like(self.shape[:dim] + self.shape[dim + 1 :])

    def unsqueeze(self, dim):
        return self.like(np.expand_dims(self.data, dim).shape)

    def reshape(self, *shape):
        return self.like(np.empty(self.shape, "V0").reshape(*shape).shape)

    def view(self, *shape):
        return self.to(shape[0]) if isinstance(shape[0], str) else self.reshape(*shape)

    def permute(self, *order):
        return self.like(self.data.transpose(*order).shape)


def _new_tensor(*shape, dtype="float32", **others):
    return Tensor(shape[0] if isinstance(shape[0], (tuple, list)) else shape, dtype)


def _tensor(values, dtype=None, **others):
    return Tensor(np.shape(values), dtype or ("float32" if np.asarray(values).dtype.kind == "f" else "int32"))


def _cat(parts, dim=0):
    return parts[0].like(np.concatenate([part.data for part in parts], dim).shape)


def _pad(tensor, widths):
    ends = zip(widths[-2::-2], widths[::-2])
    return tensor.like(tuple(n + a + b for n, (a, b) in zip(tensor.shape, [(0, 0)] * (tensor.dim() - len(widths) // 2) + list(ends))))


def install():
    """Makes `import torch` and `import torch_xla.core.xla_model` find the stand-in."""
    torch = types.ModuleType("torch")
    vars(torch).update({name: name for name in TYPES})
    torch.randn = torch.zeros = torch.ones = torch.rand = torch.empty = _new_tensor
    torch.tensor = torch.from_numpy = torch.as_tensor = _tensor
    torch.cat, torch.manual_seed, torch.Tensor, torch.device = _cat, lambda seed: None, Tensor, str
    torch.nn = types.ModuleType("torch.nn")
    torch.nn.functional = types.ModuleType("torch.nn.functional")
    torch.nn.functional.pad = _pad
    xla = types.ModuleType("torch_xla")
    xla.core = types.ModuleType("torch_xla.core")
    xla.core.xla_model = types.ModuleType("torch_xla.core.xla_model")
    xla.core.xla_model.xla_device = lambda: "xla"
    xla.core.xla_model.mark_step = xla.sync = lambda *args: None
    for module in (torch, torch.nn, torch.nn.functional, xla, xla.core, xla.core.xla_model):
        sys.modules[module.__name__] = module
