#!/usr/bin/env python3
"""Compares weights of other programs with the unpacking code of these programs, and runs such folders.

usage: foreign_weights.py PROGRAM WORK

First, the golden files of tests/io/foreign_golden are decoded by compressed-tensors and AutoAWQ, and, for
GPTQ, by the steps of GPTQModel's dequantize_weight, in fp32. The values must be those in the files. Then the
bundled model is rounded by the packing of make_foreign_golden.py. PROGRAM must measure the same perplexity of
the folder with codes and of the folder with their values in fp32, and its commands must take the former.
"""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import torch
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors import safe_open
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/io/foreign_golden"
SPEC = importlib.util.spec_from_file_location("golden", ROOT / "tests/io/make_foreign_golden.py")
golden = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(golden)


def load(path):
    with safe_open(path, "pt") as file:
        entry = json.loads(file.metadata()["quantization_config"])
        return {name: file.get_tensor(name) for name in file.keys()}, entry


def of_compressed_tensors(tensors, entry):
    weights = dict(entry["config_groups"]["group_0"]["weights"])
    act = "m.weight_g_idx" in tensors and int(tensors["m.weight_g_idx"][0]) >= 0
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))
    packed = "m.weight_packed" in tensors
    compressor = PackedQuantizationCompressor if packed else NaiveQuantizationCompressor
    state = {name[2:]: tensor for name, tensor in tensors.items() if name not in ("expected", "m.weight_g_idx")}
    state["weight_scale"] = state["weight_scale"].float()  # the package computes in the dtype of the scales
    if "weight_shape" in state:
        state["weight_shape"] = torch.Size(state["weight_shape"].tolist())
    if not act:
        return compressor.decompress(state, scheme)["weight"]
    # dequantize() takes groups as ranges of columns, so columns are brought into the order of their groups
    order = torch.argsort(tensors["m.weight_g_idx"], stable=True)
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
    codes = unpack_from_int32(state["weight_packed"], weights["num_bits"], state["weight_shape"])
    state["weight_packed"] = pack_to_int32(codes[:, order].contiguous(), weights["num_bits"])
    sorted_ = compressor.decompress(state, scheme)["weight"]
    result = torch.empty_like(sorted_)
    result[:, order] = sorted_
    return result


def awq_module(name):
    """Returns a module of AutoAWQ without running its package, which wants an old transformers."""
    import importlib.metadata
    path = importlib.metadata.distribution("autoawq").locate_file(f"awq/{name}.py")
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_awq(tensors, entry):
    packing = awq_module("utils/packing_utils")
    if entry["version"] != "gemm":
        return None  # AutoAWQ has kernels for CUDA only
    return packing.dequantize_gemm(tensors["m.qweight"], tensors["m.qzeros"], tensors["m.scales"].float(), 4,
                                   entry["group_size"]).T


def of_gptq(tensors, entry):
    """The steps of convert_gptq_v1_to_v2_format_module and dequantize_weight of GPTQModel."""
    bits, zeros = entry["bits"], tensors["m.qzeros"].clone()
    if entry["checkpoint_format"] == "gptq":
        zeros += 0b00010001000100010001000100010001 if bits == 4 else 0b00000001000000010000000100000001
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    mask = 2 ** bits - 1
    zeros = (torch.bitwise_right_shift(zeros.unsqueeze(2), shifts.view(1, 1, -1)) & mask).reshape(zeros.shape[0], -1)
    weight = tensors["m.qweight"]
    weight = (torch.bitwise_right_shift(weight.unsqueeze(1), shifts.view(1, -1, 1)) & mask).reshape(-1, weight.shape[1])
    size = weight.shape[0] if entry["group_size"] == -1 else entry["group_size"]
    index = tensors.get("m.g_idx", torch.arange(weight.shape[0]) // size).long()
    return (tensors["m.scales"].float()[index] * (weight - zeros[index])).T


def of_float8(tensors, entry):
    block = entry["weight_block_size"][0]
    weight, scales = tensors["m.weight"].float(), tensors["m.weight_scale_inv"]
    wide = scales.repeat_interleave(block, 0).repeat_interleave(block, 1)
    return weight * wide[:weight.shape[0], :weight.shape[1]]


def compare_golden():
    decoders = {"gptq": of_gptq, "awq": of_awq, "compressed-tensors": of_compressed_tensors, "fp8": of_float8}
    compared = 0
    for path in sorted(GOLDEN.glob("*.safetensors")):
        tensors, entry = load(path)
        found = decoders[entry["quant_method"]](tensors, entry)
        if found is None:
            continue
        assert torch.equal(found.float(), tensors["expected"]), f"{path.name}: {found} {tensors['expected']}"
        compared += 1
    assert compared == 16, compared
    print(f"{compared} golden files have the values of the packages")


# How a model's linear weight W [N, K] is rounded: codes, scales and zero points by group.
def rounded(weight, group, bits):
    n, k = weight.shape
    parts = weight.reshape(n, k // group, group)
    low, high = np.minimum(parts.min(2), 0), np.maximum(parts.max(2), 1e-6)
    scales = ((high - low) / (2 ** bits - 1)).astype(np.float16)
    wide = scales.astype(np.float32)
    zeros = np.clip(np.round(-low / wide), 1, 2 ** bits - 1).astype(int)
    codes = np.clip(np.round(parts / wide[..., None]) + zeros[..., None], 0, 2 ** bits - 1).astype(int)
    return codes.reshape(n, k), scales, zeros, np.arange(k) // group


def gptq_module(stem, weight):
    codes, scales, zeros, groups = rounded(weight, 128, 4)
    tensors = {"qweight": golden.pack(codes.T, 4, 0), "qzeros": golden.pack(zeros.T - 1, 4, 1),
               "scales": np.ascontiguousarray(scales.T), "g_idx": groups.astype(np.int32)}
    return {f"{stem}.{name}": tensor for name, tensor in tensors.items()}, golden.values(codes, scales, zeros, groups)


def awq_module_of_model(stem, weight):
    codes, scales, zeros, groups = rounded(weight, 64, 4)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    tensors = {"qweight": golden.pack(codes.T, 4, 1, order), "qzeros": golden.pack(zeros.T, 4, 1, order),
               "scales": np.ascontiguousarray(scales.T)}
    return {f"{stem}.{name}": tensor for name, tensor in tensors.items()}, golden.values(codes, scales, zeros, groups)


def packed_module(stem, weight):
    codes, scales, zeros, groups = rounded(weight, 32, 8)
    tensors = {"weight_packed": golden.pack(codes, 8, 1), "weight_scale": scales,
               "weight_zero_point": golden.pack(zeros, 8, 0), "weight_shape": np.array(weight.shape, np.int64)}
    return {f"{stem}.{name}": tensor for name, tensor in tensors.items()}, golden.values(codes, scales, zeros, groups)


def float8_module(stem, weight):
    n, k = weight.shape
    blocks = np.abs(weight).reshape(n // 128, 128, k // 128, 128).max((1, 3))
    scales = (blocks / 448).astype(np.float32)
    wide = np.repeat(np.repeat(scales, 128, 0), 128, 1)
    codes = torch.from_numpy(weight / wide).to(torch.float8_e4m3fn)
    return {f"{stem}.weight": codes, f"{stem}.weight_scale_inv": scales}, codes.float().numpy() * wide


METHODS = {
    "gptq": (gptq_module, {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": False,
                           "checkpoint_format": "gptq"}),
    "awq": (awq_module_of_model, {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True,
                                  "version": "gemm"}),
    "packed": (packed_module, golden.compressed_entry("pack-quantized", 8, "group", symmetric=False, group=32)),
    "float8": (float8_module, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}),
}


def write_folders(work, name):
    module, entry = METHODS[name]
    source = ROOT / "models/demo"
    config = json.loads((source / "config.json").read_text())
    with safe_open(source / "model.safetensors", "pt") as file:
        tensors = {key: file.get_tensor(key).float() for key in file.keys()}
    codes, floats = {}, {}
    for key, tensor in tensors.items():
        if not key.endswith("proj.weight") or ".layers.1.mlp.up_proj" in key:  # one module stays floats
            codes[key] = floats[key] = tensor
            continue
        parts, values = module(key.removesuffix(".weight"), tensor.numpy())
        codes |= {part: torch.from_numpy(array) if isinstance(array, np.ndarray) else array
                  for part, array in parts.items()}
        floats[key] = torch.from_numpy(values)
    for folder, content, more in ((work / name, codes, {"quantization_config": entry}), (work / f"{name}_floats", floats, {})):
        folder.mkdir(parents=True)
        for extra in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            shutil.copy(source / extra, folder)
        (folder / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"} | more))
        save_file({key: tensor.contiguous() for key, tensor in content.items()}, folder / "model.safetensors")


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def run_folders(program, work):
    text = ROOT / "models/demo/evaluation.txt"
    for name in METHODS:
        write_folders(work, name)
        folder, floats = work / name, work / f"{name}_floats"
        for more in (("--activations", "fp32"), ("--device", "reference", "--limit", "2")):
            found = [run(program, "perplexity", each, text, "--context", "128", "--json", "-", *more).stdout
                     for each in (folder, floats)]
            perplexities = [json.loads(each)["perplexity"] for each in found]
            assert perplexities[0] == perplexities[1], f"{name}, {more}: {perplexities}"
        print(f"{name}: perplexity {perplexities[0]}, the same as of its values")
        out = work / "out"
        said = run(program, "generate", folder, "Once upon a time", "--max-new-tokens", "8", "--temperature", "0")
        assert "keep their codes" in said.stderr, said.stderr
        for command in (("quantize", folder, "--bits", "4"), ("compress", folder, "--ratio", "0.2", "--method", "svd")):
            shutil.rmtree(out, ignore_errors=True)
            run(program, *command, "-o", out)
            config = json.loads((out / "config.json").read_text())
            assert "quantization_config" not in config, config
            run(program, "generate", out, "Once upon a time", "--max-new-tokens", "4")
        run(program, "inspect", folder)


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    compare_golden()
    shutil.rmtree(work, ignore_errors=True)
    run_folders(program, work)


if __name__ == "__main__":
    main()
