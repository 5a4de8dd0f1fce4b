#!/usr/bin/env python3
"""Compares the mixtures of make_golden_gradients.py with those of transformers: outputs and gradients.

Needs torch, safetensors and transformers (5.24) from PyPI. Routers of transformers round their softmax
to fp32, so differences below 1e-6 are allowed.
"""

import importlib

import torch
from make_golden_gradients import BASE, CASES, drawn, mixture, tensors

BLOCKS = {
    "mixtral": ("mixtral", "MixtralSparseMoeBlock", "MixtralConfig"),
    "qwen3_moe": ("qwen3_moe", "Qwen3MoeSparseMoeBlock", "Qwen3MoeConfig"),
    "olmoe": ("olmoe", "OlmoeSparseMoeBlock", "OlmoeConfig"),
    "granite_moe": ("granitemoe", "GraniteMoeMoE", "GraniteMoeConfig"),
    "gpt_oss": ("gpt_oss", "GptOssMLP", "GptOssConfig"),
}
PREFIX = "model.layers.0.mlp."


def block_of(case, c):
    family, block, config = BLOCKS[case]
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    configs = importlib.import_module(f"transformers.models.{family}.configuration_{family}")
    sizes = dict(hidden_size=c["hidden"], intermediate_size=c["width"], num_experts_per_tok=c["active"])
    sizes["num_experts" if case in ("qwen3_moe", "olmoe") else "num_local_experts"] = c["experts"]
    if case in ("qwen3_moe", "olmoe"):
        sizes["norm_topk_prob"] = c["divided"]
    if case == "qwen3_moe":
        sizes["moe_intermediate_size"] = c["width"]
    settings = getattr(configs, config)(**sizes)
    if c["swiglu"]:
        settings.swiglu_limit, settings.swiglu_alpha = c["swiglu"]
    return getattr(module, block)(settings).double()


def stacked(t, c, name):
    return torch.stack([t[f"{PREFIX}experts.{e}.{name}"] for e in range(c["experts"])])


def fill(parameters, t, c):
    """Gives the block of transformers the weights `t`, which keep their gradients."""
    gate, up, down = (stacked(t, c, f"{which}_proj.weight") for which in ("gate", "up", "down"))
    values = {"weight": t[PREFIX + "router.weight"]}
    if c["swiglu"]:  # gpt-oss interleaves gate and up, and stores matrices as they multiply
        biases = [stacked(t, c, f"{which}_proj.bias") for which in ("gate", "up", "down")]
        values |= {"bias": t[PREFIX + "router.bias"], "down_proj": down.transpose(1, 2), "down_proj_bias": biases[2],
                   "gate_up_proj": torch.stack([gate, up], 2).flatten(1, 2).transpose(1, 2),
                   "gate_up_proj_bias": torch.stack(biases[:2], 2).flatten(1)}
    else:
        values |= {"gate_up_proj": torch.cat([gate, up], 1), "down_proj": down}
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name.rpartition(".")[2]])
    return values


def main():
    for case in BLOCKS:
        c = {**BASE, **CASES[case]}
        t = {name: value.requires_grad_() for name, value in tensors(c).items()}
        x, dy = drawn("x", (11, c["hidden"])).requires_grad_(), drawn("dy", (11, c["hidden"]))
        block = block_of(case, c)
        parameters = dict(block.named_parameters())
        values = fill(parameters, t, c)
        y = mixture(x, t, PREFIX, c)
        own = torch.autograd.grad(y, [x], dy, retain_graph=True)[0]
        other = x.detach().clone().requires_grad_()
        theirs = block(other[None])
        theirs = theirs[0] if isinstance(theirs, tuple) else theirs
        theirs.backward(dy[None])
        differences = {"output": (theirs[0] - y).abs().max(), "input": (other.grad - own).abs().max()}
        # The stacked values are functions of t, so that both sums have the same derivative by t.
        inputs = [value for name, value in t.items() if name.startswith(PREFIX)]
        by_own = torch.autograd.grad(y, inputs, dy, allow_unused=True, retain_graph=True)
        sums = sum((values[name.rpartition(".")[2]] * parameter.grad).sum() for name, parameter in parameters.items())
        by_block = torch.autograd.grad(sums, inputs)
        differences["weights"] = max(((a if a is not None else 0) - b).abs().max() for a, b in zip(by_own, by_block))
        worst = max(float(value.detach()) for value in differences.values())
        print(f"{case}: {worst:.1e}")
        assert worst < 1e-6, differences


main()
