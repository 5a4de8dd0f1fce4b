#!/usr/bin/env python3
"""Moves the weights of a Llama or Qwen folder off the grid on which they were published.

    bench/off_grid.py MODEL OUT            keeps what the model computes
    bench/off_grid.py MODEL OUT noise      makes another model

The weights of a model that was published with four bits per weight are on the grid of that format.
Any such format then keeps the model exactly, and a comparison of formats means nothing.

Without `noise`, the program scales every channel between two linear layers by a log-normal factor
(standard deviation .25) and scales it back after it. Norm gains are folded into the layers that read
the norm, up into down, v into o, and the table into a separate LM head. Models with biases, such as
Qwen2, need `noise`. It moves every weight of a linear layer by up to half a step of Q4_1, which no
scaling of channels could undo.

MODEL has one model.safetensors of float32, as `neuronmm import --dtype f32` writes. Needs NumPy.
"""

import argparse
import json
import pathlib
import shutil
import sys

import safetensors_file  # says so if NumPy is missing
import numpy as np  # noqa: I001

DEVIATION = 0.25


def scale_channels(tensors, config, random):
    if biases := sorted(name for name in tensors if name.endswith("_proj.bias")):
        sys.exit(f"{biases[0]}: expected a model without biases, whose channels can be scaled; use noise")

    def factors(count):
        return np.exp(DEVIATION * random.standard_normal(count))

    def fold(norm, readers):
        scale = factors(tensors[norm].size)
        for reader in readers:
            tensors[reader] *= tensors[norm] * scale
        tensors[norm] = 1 / scale

    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        fold(prefix + "input_layernorm.weight", [f"{attention}{name}_proj.weight" for name in "qkv"])
        fold(prefix + "post_attention_layernorm.weight", [f"{mlp}{name}_proj.weight" for name in ("gate", "up")])
        scale = factors(config["intermediate_size"])
        tensors[mlp + "up_proj.weight"] *= scale[:, None]
        tensors[mlp + "down_proj.weight"] /= scale
        value, output = attention + "v_proj.weight", attention + "o_proj.weight"
        scale = factors(tensors[value].shape[0])
        tensors[value] *= scale[:, None]
        tensors[output] /= np.repeat(scale.reshape(kv_heads, -1), heads // kv_heads, axis=0).reshape(-1)
    if config.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
        config["tie_word_embeddings"] = False
    fold("model.norm.weight", ["lm_head.weight"])


def add_noise(tensors, random):
    """Moves the weights by up to half a step. Q4_1 has 16 values from the smallest to the largest
    of every 32 weights.
    """
    for name, tensor in tensors.items():
        if not name.endswith("_proj.weight"):
            continue
        blocks = tensor.reshape(-1, 32)
        step = (blocks.max(1) - blocks.min(1)) / 15
        tensors[name] = (blocks + step[:, None] * random.uniform(-0.5, 0.5, blocks.shape)).reshape(tensor.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL", help="folder of the model in float32")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="folder to write, which must not exist")
    parser.add_argument("noise", nargs="?", choices=["noise"], help="move each weight, so that the model becomes another")
    options = parser.parse_args()
    model, out = options.model, options.out
    for name in ("config.json", "model.safetensors"):
        if not (model / name).is_file():
            parser.error(f"{model / name}: expected a file, found none; `neuronmm import --dtype f32` writes such a folder")
    if out.exists():
        parser.error(f"{out}: exists already; choose another output")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    file = safetensors_file.read_f32(model / "model.safetensors")
    tensors = {name: tensor.astype(np.float64) for name, tensor in file.items()}
    if options.noise:
        add_noise(tensors, np.random.default_rng(1))
    else:
        scale_channels(tensors, config, np.random.default_rng(1))
    out.mkdir()
    safetensors_file.write(out / "model.safetensors", "F32", tensors)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        if (model / name).exists():
            shutil.copy(model / name, out / name)


if __name__ == "__main__":
    main()
