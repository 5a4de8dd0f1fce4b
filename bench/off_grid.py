"""Moves the weights of a Llama folder off the grid on which they were published, without changing
what the model computes.

The weights of a model that was published with four bits per weight are on the grid of that format.
Any such format then keeps the model exactly, and a comparison of formats means nothing. This
program scales every channel between two linear layers by a log-normal factor (standard deviation
.25) and scales it back after it. Norm gains are folded into the layers that read the norm, up into
down, v into o, and the table into a separate LM head.

    python off_grid.py MODEL OUT            MODEL: one model.safetensors of float32; needs numpy
    python off_grid.py MODEL OUT noise      makes another model, which no scaling of channels could move
                                            back to the grid: every weight of a linear layer is moved by
                                            up to half a step of Q4_1
"""

import json
import pathlib
import shutil
import sys

import numpy as np

DEVIATION = 0.25


def read(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: {name}: expected F32, found {entry['dtype']}")
        first, last = entry["data_offsets"]
        values = np.frombuffer(data[8 + size + first : 8 + size + last], np.float32)
        tensors[name] = values.reshape(entry["shape"]).astype(np.float64)
    return tensors


def write(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + 4 * tensor.size]}
        offset += 4 * tensor.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.astype("<f4").tobytes())


def scale_channels(tensors, config, random):
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
    model, out = map(pathlib.Path, sys.argv[1:3])
    config = json.loads((model / "config.json").read_text())
    tensors = read(model / "model.safetensors")
    if sys.argv[3:] == ["noise"]:
        add_noise(tensors, np.random.default_rng(1))
    else:
        scale_channels(tensors, config, np.random.default_rng(1))
    out.mkdir()
    write(out / "model.safetensors", tensors)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        if (model / name).exists():
            shutil.copy(model / name, out / name)


main()
