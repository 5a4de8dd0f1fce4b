#!/usr/bin/env python3
"""LoRA on the factors of a compressed model in plain PyTorch, which tests compare `neuronmm
finetune` with.

    lora_reference.py FOLDER

FOLDER holds a model (config.json, model.safetensors in F32), adapters.safetensors (NAME.lora_a and
NAME.lora_b for each trained factor NAME) and run.json:

    {"scale": alpha / rank, "steps": [{"learning_rate": x, "sequences": [{"tokens": [...],
     "scored_from": n}, ...]}, ...]}

Prints {"losses": [...], "adapters": {NAME: [...]}}: the mean loss of each step before its update,
and the trained adapters after all steps. Needs torch. It is written independently of the C++ code,
with one sequence at a time, complex numbers for RoPE and torch.optim.AdamW.
"""

import json
import pathlib
import struct
import sys

import torch


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        first, last = (8 + length + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(data[first:last]), dtype=torch.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = read_safetensors(folder / "model.safetensors")
        self.adapters = read_safetensors(folder / "adapters.safetensors")
        self.scale = 1.0
        for adapter in self.adapters.values():
            adapter.requires_grad_(True)

    def matrix(self, name):
        weight = self.weights[name]
        if name + ".lora_a" in self.adapters:
            weight = weight + self.scale * self.adapters[name + ".lora_b"] @ self.adapters[name + ".lora_a"]
        return weight

    def norm(self, x, name):
        root = (x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]).sqrt()
        return x / root * self.weights[name]

    def rotate(self, x):  # [T, heads, D]
        half = x.shape[-1] // 2
        frequencies = self.config["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.outer(torch.arange(x.shape[0], dtype=torch.float64), frequencies)
        turn = torch.polar(torch.ones_like(angles), angles).unsqueeze(1)
        turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * turn
        return torch.cat([turned.real, turned.imag], -1).float()

    def attention(self, x, stem):
        dim = self.config["head_dim"]
        q, k, v = (
            (x @ self.weights[f"{stem}.{letter}_proj.weight"].T).reshape(len(x), -1, dim) for letter in "qkv"
        )
        q, k = self.rotate(q), self.rotate(k)
        group = q.shape[1] // k.shape[1]
        heads = []
        for head in range(q.shape[1]):
            scores = q[:, head] @ k[:, head // group].T / dim**0.5
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
            heads.append(scores.softmax(-1) @ v[:, head // group])
        return torch.cat(heads, -1) @ self.weights[f"{stem}.o_proj.weight"].T

    def linear(self, x, stem):
        if f"{stem}_proj.weight" in self.weights:
            return x @ self.matrix(f"{stem}_proj.weight").T
        return x @ self.matrix(f"{stem}_v_proj.weight").T @ self.matrix(f"{stem}_u_proj.weight").T

    def logits(self, tokens):
        x = self.weights["model.embed_tokens.weight"][tokens]
        for layer in range(self.config["num_hidden_layers"]):
            stem = f"model.layers.{layer}"
            x = x + self.attention(self.norm(x, f"{stem}.input_layernorm.weight"), f"{stem}.self_attn")
            y = self.norm(x, f"{stem}.post_attention_layernorm.weight")
            inner = torch.nn.functional.silu(self.linear(y, f"{stem}.mlp.gate")) * self.linear(y, f"{stem}.mlp.up")
            x = x + self.linear(inner, f"{stem}.mlp.down")
        head = "model.embed_tokens.weight" if self.config["tie_word_embeddings"] else "lm_head.weight"
        return self.norm(x, "model.norm.weight") @ self.weights[head].T


def loss_of(model, sequences):
    total, count = 0.0, 0
    for sequence in sequences:
        tokens, first = torch.tensor(sequence["tokens"]), sequence["scored_from"]
        logits = model.logits(tokens)[first - 1 : -1]
        total = total + torch.nn.functional.cross_entropy(logits, tokens[first:], reduction="sum")
        count += len(tokens) - first
    return total / count


def main():
    folder = pathlib.Path(sys.argv[1])
    run = json.loads((folder / "run.json").read_text())
    model = Model(folder)
    model.scale = run["scale"]
    adapters = list(model.adapters.values())
    optimizer = torch.optim.AdamW(adapters, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for step in run["steps"]:
        for group in optimizer.param_groups:
            group["lr"] = step["learning_rate"]
        optimizer.zero_grad()
        loss = loss_of(model, step["sequences"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    trained = {name: adapter.detach().flatten().tolist() for name, adapter in model.adapters.items()}
    json.dump({"losses": losses, "adapters": trained}, sys.stdout)


if __name__ == "__main__":
    main()
