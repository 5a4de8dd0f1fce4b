#!/usr/bin/env python3
"""Makes tests/io/foreign_golden: small modules in the layouts of GPTQ, AWQ, compressed-tensors and FP8.

usage: make_foreign_golden.py FOLDER        (needs numpy)

Each file has the tensors of one module "m" as the other program stores them, the config entry in its
metadata, and under "expected" the fp32 values that the module stands for. The packing follows the
packages' code (AutoGPTQ 0.7.1, GPTQModel 7, AutoAWQ 0.2.7, compressed-tensors 0.20.1) and shares
nothing with the reader under test: codes are drawn first, values follow from them by the formula,
and the packing is written from the side of the writer. tests/slow/foreign_weights.py compares the
same files with the unpacking code of the packages.
"""

import json
import pathlib
import struct
import sys

import numpy as np

RNG = np.random.default_rng(62)
NAMES = {np.dtype("int32"): "I32", np.dtype("int64"): "I64", np.dtype("int8"): "I8", np.dtype("float16"): "F16",
         np.dtype("float32"): "F32"}


class Typed:
    """An array whose bytes have a dtype that numpy lacks."""

    def __init__(self, array, name):
        self.array, self.name = array, name


def save(path, tensors, entry):
    header, data = {"__metadata__": {"quantization_config": json.dumps(entry)}}, b""
    for name, tensor in tensors.items():
        array = tensor.array if isinstance(tensor, Typed) else tensor
        dtype = tensor.name if isinstance(tensor, Typed) else NAMES[array.dtype]
        bytes_ = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def pack(fields, bits, axis, order=None):
    """Packs unsigned fields along an axis into int32, the first into the lowest bits.

    The place i of a word takes element order[i] of the elements that share the word.
    """
    per_word = 32 // bits
    fields = np.moveaxis(np.asarray(fields, dtype=np.int64), axis, -1)
    padding = -fields.shape[-1] % per_word
    fields = np.pad(fields, [(0, 0)] * (fields.ndim - 1) + [(0, padding)])
    words = fields.reshape(*fields.shape[:-1], -1, per_word)
    total = np.zeros(words.shape[:-1], dtype=np.int64)
    for place in range(per_word):
        total |= words[..., place if order is None else order[place]] << (bits * place)
    return np.moveaxis((total & 0xFFFFFFFF).astype(np.uint32).view(np.int32), -1, axis)


def bf16(values):
    """Returns values that bf16 holds, and their bits."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32) >> 16
    return (bits << 16).astype(np.uint32).view(np.float32), Typed(bits.astype(np.uint16), "BF16")


def scales_of(*shape):
    return RNG.uniform(0.001, 0.1, shape).astype(np.float16)


def values(codes, scales, zeros, groups):
    """Returns [N, K] from codes [N, K], scales and zeros [N, G], and the group of each column."""
    return (scales.astype(np.float32)[:, groups] * (codes - zeros[:, groups]).astype(np.float32)).astype(np.float32)


def gptq(n, k, bits, group_size, *, act=False, sym=False, v2=False, zero_fields=None):
    group = k if group_size == -1 else group_size
    g = -(-k // group)
    codes = RNG.integers(0, 1 << bits, (n, k))
    zeros = np.full((n, g), 1 << (bits - 1)) if sym else RNG.integers(1, 1 << bits, (n, g))
    if zero_fields is not None:
        zeros = RNG.choice(zero_fields, (n, g))
    scales = scales_of(n, g)
    groups = np.arange(k) // group
    if act:
        groups = groups[RNG.permutation(k)]
    stored = pack(zeros.T, bits, 1)
    if not v2:  # GPTQModel subtracts from whole words, so that a 0 borrows from its neighbour
        stored = (stored.view(np.uint32) - np.uint32(0x11111111 if bits == 4 else 0x01010101)).view(np.int32)
    tensors = {"m.qweight": pack(codes.T, bits, 0), "m.qzeros": stored,
               "m.scales": np.ascontiguousarray(scales.T), "expected": values(codes, scales, zeros, groups)}
    if act or v2:
        tensors["m.g_idx"] = groups.astype(np.int32)
    entry = {"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": act, "sym": sym,
             "checkpoint_format": "gptq_v2" if v2 else "gptq"}
    return tensors, entry


def awq(n, k, group, *, gemv=False):
    g = k // group
    codes, zeros = RNG.integers(0, 16, (n, k)), RNG.integers(0, 16, (n, g))
    scales = scales_of(n, g)
    expected = values(codes, scales, zeros, np.arange(k) // group)
    entry = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True,
             "version": "gemv" if gemv else "gemm", "modules_to_not_convert": None}
    if not gemv:
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        return {"m.qweight": pack(codes.T, 4, 1, order), "m.qzeros": pack(zeros.T, 4, 1, order),
                "m.scales": np.ascontiguousarray(scales.T), "expected": expected}, entry
    multiplier = {64: 2, 32: 4}.get(group, 1)  # calculate_zeros_width of gemv.py
    width = -(-(-(-g // 8)) // multiplier) * multiplier
    wide_zeros, wide_scales = np.zeros((n, width * 8), int), np.zeros((n, width * 8), np.float16)
    wide_zeros[:, :g], wide_scales[:, :g] = zeros, scales
    return {"m.qweight": pack(codes, 4, 1), "m.qzeros": pack(wide_zeros, 4, 1), "m.scales": wide_scales,
            "expected": expected}, entry


def compressed_entry(format_, bits, strategy, *, symmetric=True, group=None, type_="int", block=None):
    weights = {"num_bits": bits, "type": type_, "symmetric": symmetric, "strategy": strategy, "group_size": group,
               "dynamic": False, "block_structure": block, "actorder": None}
    return {"quant_method": "compressed-tensors", "format": format_, "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}}


def packed(n, k, bits, group=None, *, symmetric=True, act=False):
    g = 1 if group is None else k // group
    middle = 1 << (bits - 1)
    codes = RNG.integers(-middle, middle, (n, k))
    zeros = np.zeros((n, g), int) if symmetric else RNG.integers(-middle, middle, (n, g))
    numbers, scales = bf16(RNG.uniform(0.001, 0.1, (n, g)))
    groups = np.zeros(k, int) if group is None else np.arange(k) // group
    if act:
        groups = groups[RNG.permutation(k)]
    tensors = {"m.weight_packed": pack(codes + middle, bits, 1), "m.weight_scale": scales,
               "m.weight_shape": np.array([n, k], np.int64), "expected": values(codes, numbers, zeros, groups)}
    if not symmetric:
        tensors["m.weight_zero_point"] = pack(zeros + middle, bits, 0)
    if act or symmetric:  # -1 stands for columns in order
        tensors["m.weight_g_idx"] = groups.astype(np.int32) if act else np.full(k, -1, np.int32)
    strategy = "channel" if group is None else "group"
    return tensors, compressed_entry("pack-quantized", bits, strategy, symmetric=symmetric, group=group)


def int8(n, k, strategy):
    codes = RNG.integers(-128, 128, (n, k))
    whole = strategy == "tensor"
    scales = RNG.uniform(0.001, 0.1, (1, 1) if whole else (n, 1)).astype(np.float32)
    zeros = RNG.integers(-128, 128, scales.shape)
    wide = np.broadcast_to(scales, (n, 1)), np.broadcast_to(zeros, (n, 1))
    shape = (1,) if whole else (n, 1)
    return {"m.weight": codes.astype(np.int8), "m.weight_scale": scales.reshape(shape),
            "m.weight_zero_point": zeros.astype(np.int8).reshape(shape),
            "expected": values(codes, *wide, np.zeros(k, int))}, \
        compressed_entry("int-quantized", 8, strategy, symmetric=False)


def float8_values(codes):
    exponent, fraction = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, fraction * 2.0 ** -9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    return np.where(codes >= 128, -magnitude, magnitude).astype(np.float32)


def float8(n, k, *, block=None, name="weight_scale"):
    codes = RNG.integers(0, 256, (n, k))
    codes[codes & 127 == 127] = 0  # NaN
    if block:
        scales = RNG.uniform(1e-4, 1e-2, (-(-n // block), -(-k // block))).astype(np.float32)
        wide = np.repeat(np.repeat(scales, block, 0), block, 1)[:n, :k]
        entry = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [block, block]}
    else:
        scales = RNG.uniform(1e-4, 1e-2, (n, 1)).astype(np.float32)
        wide = scales
        entry = compressed_entry("float-quantized", 8, "channel", type_="float")
    return {"m.weight": Typed(codes.astype(np.uint8), "F8_E4M3"), "m." + name: scales,
            "expected": (wide * float8_values(codes)).astype(np.float32)}, entry


CASES = {
    "gptq_4_g32": lambda: gptq(16, 64, 4, 32),
    "gptq_4_g128_act": lambda: gptq(8, 256, 4, 128, act=True),
    "gptq_4_borrow": lambda: gptq(16, 64, 4, 32, zero_fields=[0, 0, 15]),
    "gptq_8_row": lambda: gptq(16, 48, 8, -1, sym=True),
    "gptq_v2_4_g64": lambda: gptq(16, 128, 4, 64, v2=True),
    "gptq_v2_8_g32": lambda: gptq(16, 64, 8, 32, v2=True),
    "awq_gemm_g64": lambda: awq(24, 128, 64),
    "awq_gemv_g32": lambda: awq(16, 64, 32, gemv=True),
    "awq_gemv_g128": lambda: awq(8, 256, 128, gemv=True),
    "packed_4_g32": lambda: packed(12, 64, 4, 32),
    "packed_4_g32_asymmetric": lambda: packed(12, 96, 4, 32, symmetric=False),
    "packed_4_g32_act": lambda: packed(12, 64, 4, 32, act=True),
    "packed_8_channel": lambda: packed(10, 30, 8),
    "packed_8_channel_asymmetric": lambda: packed(10, 30, 8, symmetric=False),
    "int8_channel": lambda: int8(10, 20, "channel"),
    "int8_tensor": lambda: int8(10, 20, "tensor"),
    "float8_block": lambda: float8(40, 48, block=32, name="weight_scale_inv"),
    "float8_channel": lambda: float8(10, 40),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in CASES.items():
        tensors, entry = make()
        save(folder / f"{name}.safetensors", tensors, entry)


if __name__ == "__main__":
    main()
