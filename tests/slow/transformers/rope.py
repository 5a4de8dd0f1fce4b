"""Compares logits of random models with each kind of RoPE scaling with those of transformers.

usage: rope.py NEURONMM WORK_FOLDER

The models are dense and are saved by transformers, which computes whole sequences at once.
Sequences are as long as neuronmm supports (docs/reference/commands.md, "Long contexts").
"""

import pathlib
import shutil
import subprocess
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

PROGRAM, WORK = sys.argv[1], pathlib.Path(sys.argv[2])
CONTEXT, HALF_HEAD = 256, 16

SIZES = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 2 * HALF_HEAD, "vocab_size": 512, "initializer_range": 0.1, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
# An output of a matrix product with K inputs is off by at most K roundings of fp32. A layer has
# seven such products in a row.
TOLERANCE = SIZES["num_hidden_layers"] * 7 * SIZES["hidden_size"] * 2.0**-24

SCALINGS = {
    "default": ({}, CONTEXT, CONTEXT),
    "linear": ({"rope_type": "linear", "factor": 4.0}, CONTEXT, CONTEXT),
    "dynamic": ({"rope_type": "dynamic", "factor": 2.0}, CONTEXT, CONTEXT),
    "llama3": ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32}, CONTEXT, CONTEXT),
    "yarn": ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, CONTEXT, CONTEXT),
    "yarn_attention": ({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 16.0,
                        "beta_slow": 2.0, "attention_factor": 0.8}, CONTEXT, CONTEXT),
    "longrope": ({"rope_type": "longrope", "short_factor": [1.0 + i / 8 for i in range(HALF_HEAD)],
                  "long_factor": [2.0 + i for i in range(HALF_HEAD)], "original_max_position_embeddings": 128},
                 CONTEXT, 128),
}  # fmt: skip
ARCHITECTURES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


@torch.no_grad()
def check(name, architecture, scaling, context, length):
    make_config, make_model = ARCHITECTURES[architecture]
    rope = {"rope_theta": 10000.0, "rope_type": "default"} | scaling
    model = make_model(make_config(**SIZES, max_position_embeddings=context, rope_parameters=rope)).eval()
    folder = WORK / f"{architecture}_{name}"
    model.save_pretrained(folder)
    ids = torch.randint(3, SIZES["vocab_size"], (2, length))
    tensors = {}
    for i, sequence in enumerate(ids):
        tensors[f"sequences.{i}"] = sequence.clone()
        tensors[f"logits.{i}"] = model(sequence[None]).logits[0].contiguous()
    reference = folder.with_suffix(".safetensors")
    save_file(tensors, reference)
    for device in "reference", "cpu":
        done = subprocess.run([PROGRAM, "check", folder, "--reference", reference, "--divergence-tol", str(TOLERANCE),
                               "--device", device], capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, f"{folder} on {device}: {done.stdout}{done.stderr}"
    print(f"  {architecture:6} {name:15} {length} tokens: logits within {TOLERANCE:.1e} of {tensors['logits.0'].abs().max():.1f}")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    torch.manual_seed(0)
    for architecture in ARCHITECTURES:
        for name, (scaling, context, length) in SCALINGS.items():
            check(name, architecture, scaling, context, length)


main()
