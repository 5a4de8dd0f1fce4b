#!/usr/bin/env python3
"""Writes a GGUF file with random weights and the shape of a mixture of experts, to time llama.cpp with it.

  python tools/random_moe_gguf.py config.json moe-Q4_0.gguf

The config is that of a Qwen3-MoE or an OLMoE, as Hugging Face has it. Matrices are Q4_0, the LM head is Q6_K, and
norms and routers are fp32, as llama-quantize writes them for Q4_0. All layers have the same bytes, but each has its
own in the file. The file has no tokenizer. Needs PyPI's gguf 0.19.0."""

import argparse
import json
import pathlib
import sys

import gguf
import numpy as np

Q4_0, Q6_K = gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q6_K
ARCHITECTURES = {"qwen3_moe": "qwen3moe", "olmoe": "olmoe"}


def random_blocks(random: np.random.Generator, kind: gguf.GGMLQuantizationType, *shape: int) -> np.ndarray:
    """Returns the bytes of a random tensor of blocks, whose values are about as large as those of a real model."""
    elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if shape[-1] % elements != 0:
        sys.exit(f"rows of {kind.name} must be multiples of {elements}, found {shape[-1]}: change the config")
    blocks = np.frombuffer(random.bytes(int(np.prod(shape)) // elements * block_bytes), np.uint8)
    blocks = blocks.reshape(-1, block_bytes).copy()
    # A code of 4 bits is up to 8 times the scale. One of 6 bits is up to 32 times, with a factor of up to 128.
    if kind == Q4_0:
        blocks[:, :2] = np.array([0.005], np.float16).view(np.uint8)
    else:
        blocks[:, -2:] = np.array([0.00002], np.float16).view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def write_settings(writer: gguf.GGUFWriter, config: dict, head_dim: int, width: int) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(width)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")


def write_tensors(writer: gguf.GGUFWriter, config: dict, head_dim: int, width: int) -> None:
    random = np.random.default_rng(1)
    hidden, experts = config["hidden_size"], config["num_experts"]
    q_width, kv_width = (config[name] * head_dim for name in ("num_attention_heads", "num_key_value_heads"))
    per_head = config["model_type"] == "qwen3_moe"
    matrices = {"attn_q": (q_width, hidden), "attn_k": (kv_width, hidden), "attn_v": (kv_width, hidden),
                "attn_output": (hidden, q_width), "ffn_gate_exps": (experts, width, hidden),
                "ffn_up_exps": (experts, width, hidden), "ffn_down_exps": (experts, hidden, width)}
    matrices = {name: random_blocks(random, Q4_0, *shape) for name, shape in matrices.items()}
    floats = {name: np.ones(size, np.float32)
              for name, size in (("attn_norm", hidden), ("ffn_norm", hidden),
                                 ("attn_q_norm", head_dim if per_head else q_width),
                                 ("attn_k_norm", head_dim if per_head else kv_width))}
    floats["ffn_gate_inp"] = random.standard_normal((experts, hidden), np.float32)
    writer.add_tensor("token_embd.weight", random_blocks(random, Q4_0, config["vocab_size"], hidden), raw_dtype=Q4_0)
    writer.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    writer.add_tensor("output.weight", random_blocks(random, Q6_K, config["vocab_size"], hidden), raw_dtype=Q6_K)
    for layer in range(config["num_hidden_layers"]):
        for name, values in floats.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", values)
        for name, values in matrices.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", values, raw_dtype=Q4_0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    config = json.loads(arguments.config.read_text(encoding="utf-8"))
    architecture = ARCHITECTURES.get(config["model_type"])
    if architecture is None:
        sys.exit(f"{arguments.config}: expected a model_type of {', '.join(ARCHITECTURES)}, "
                 f"found {config['model_type']}")
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    writer = gguf.GGUFWriter(arguments.output, architecture)
    write_settings(writer, config, head_dim, width)
    write_tensors(writer, config, head_dim, width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
