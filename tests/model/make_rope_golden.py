#!/usr/bin/env python3
"""Writes rope_golden.json: frequencies and attention factors of RoPE's variants, computed by transformers' functions.

  python3 -m venv venv && venv/bin/pip install numpy==2.4.6 transformers==5.23.0
  venv/bin/python tests/model/make_rope_golden.py > tests/model/rope_golden.json

torch is not needed: the functions run on NumPy arrays in fp64, where torch would use fp32. The file therefore holds their
values without fp32 rounding.
"""

import json
import types

import numpy as np
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers import modeling_rope_utils as rope


class Tensor(np.ndarray):
    def to(self, device=None, dtype=None):
        return self.astype(dtype)

    def float(self):
        return self.astype(np.float64)


def tensor(values, dtype=None, device=None):
    return np.asarray(values, dtype=dtype).view(Tensor)


rope.torch = types.SimpleNamespace(
    Tensor=Tensor, tensor=tensor, float=np.float64, float32=np.float64, int64=np.int64, where=np.where,
    arange=lambda *ends, dtype=None, device=None: tensor(np.arange(*ends, dtype=dtype)),
    clamp=lambda x, low, high: np.clip(x, low, high), maximum=np.maximum)

CLASSES = {"LlamaForCausalLM": LlamaConfig, "MistralForCausalLM": MistralConfig, "Qwen2ForCausalLM": Qwen2Config,
           "Qwen3ForCausalLM": Qwen3Config}


def config(positions, theta, scaling, architecture="LlamaForCausalLM", heads=32, head_dim=128, **more):
    return {"architectures": [architecture], "hidden_size": heads * head_dim, "intermediate_size": 64,
            "num_hidden_layers": 1, "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": head_dim,
            "vocab_size": 100, "max_position_embeddings": positions, "rope_theta": theta, "rope_scaling": scaling, **more}


def yarn(factor, original=None, **more):
    scaling = {"rope_type": "yarn", "factor": factor, **more}
    return scaling if original is None else {**scaling, "original_max_position_embeddings": original}


# The 48 factors are like those of Phi-3-mini-128k. The short ones end at 2, the long ones at 64.
SHORT = [round(1 + j / 47, 3) for j in range(48)]
LONG = [round(64 ** (j / 47), 3) for j in range(48)]
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}

CASES = {
    "linear": config(8192, 10000.0, {"type": "linear", "factor": 4.0}),
    "Llama-3.2-1B": config(131072, 500000.0, {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}, head_dim=64),
    "dynamic": config(2048, 10000.0, {"type": "dynamic", "factor": 2.0}),
    "Qwen2.5-7B with YaRN": config(32768, 1000000.0, {
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, "Qwen2ForCausalLM", heads=28),
    "Qwen3-8B with YaRN": config(40960, 1000000.0, yarn(4.0, 32768), "Qwen3ForCausalLM"),
    "Yarn-Llama-2-7b-64k": config(65536, 10000.0, yarn(16.0, 4096, finetuned=True)),
    "Yarn-Mistral-7b-128k": config(131072, 10000.0, yarn(16.0, 8192, finetuned=True), "MistralForCausalLM"),
    "DeepSeek-V2's mscale": config(163840, 10000.0, yarn(
        40, 4096, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=0.707), head_dim=64),
    "two mscales": config(163840, 10000.0, yarn(40, 4096, mscale=1.0, mscale_all_dim=0.5), head_dim=64),
    "one mscale": config(163840, 10000.0, yarn(40, 4096, mscale=0.5), head_dim=64),
    "without truncation": config(131072, 150000.0, yarn(32.0, 4096, truncate=False), head_dim=64),
    "attention factor and turns": config(32768, 500000.0, yarn(
        8.0, 4096, attention_factor=0.8, beta_fast=16, beta_slow=2)),
    "yarn without an original context": config(4096, 10000.0, yarn(2.0), head_dim=64),
    "a few tokens": config(64, 10000.0, yarn(4.0, 4), heads=2, head_dim=16),
    "more turns than any pair makes": config(1 << 20, 100.0, yarn(4.0, 1 << 20), heads=2, head_dim=16),
    "equal turns": config(8192, 10000.0, yarn(4.0, 2048, beta_fast=8, beta_slow=8, truncate=False), head_dim=16),
    "factor 1": config(4096, 10000.0, yarn(1.0, 4096), head_dim=16),
    "Phi-3's longrope": config(131072, 10000.0, LONGROPE, head_dim=96, original_max_position_embeddings=4096),
    "longrope with a factor": config(131072, 10000.0, {
        **LONGROPE, "factor": 8.0, "original_max_position_embeddings": 32768}, head_dim=96),
    "longrope with an attention factor": config(131072, 10000.0, {
        **LONGROPE, "attention_factor": 1.25, "original_max_position_embeddings": 32768}, head_dim=96),
    "longrope of one list": config(131072, 10000.0, {
        **LONGROPE, "long_factor": SHORT, "original_max_position_embeddings": 32768}, head_dim=96),
}


def longest(case, parameters):
    """Returns the longest sequence that may run."""
    if parameters["rope_type"] == "yarn":
        return max(case["max_position_embeddings"],
                   int(parameters["factor"] * parameters["original_max_position_embeddings"]))
    return case["max_position_embeddings"]


def golden(case):
    made = CLASSES[case["architectures"][0]](**json.loads(json.dumps(case)))  # a copy, because the class changes it
    made.standardize_rope_params()
    function = rope.ROPE_INIT_FUNCTIONS[made.rope_parameters["rope_type"]]
    frequencies, attention_factor = function(made)
    last = longest(case, made.rope_parameters)
    for length in (1, last // 2, last):
        again, factor = function(made, seq_len=length)
        assert np.array_equal(again, frequencies) and factor == attention_factor
    if made.rope_parameters["rope_type"] in ("dynamic", "longrope"):
        beyond, _ = function(made, seq_len=last + 1)
        changes = not np.array_equal(beyond, frequencies)
        assert changes != (made.rope_parameters.get("long_factor") == SHORT)
    return {"config": case, "max_position_embeddings": last, "attention_factor": float(attention_factor),
            "inverse_frequencies": [float(f) for f in frequencies]}


print(json.dumps({name: golden(case) for name, case in CASES.items()}, separators=(",", ":")).replace('},"', '},\n"'))
