#!/usr/bin/env python3
"""Writes golden_gradients.safetensors: losses and gradients of two-layer models by PyTorch in fp64.

Needs torch and safetensors from PyPI. The test (golden_gradients_test.cc) makes the same weights by
the same formula, so that the file holds gradients only. Of the gradient g of a tensor it holds the
products of its rows with a fixed vector, and its norm.
"""

import math
import pathlib

import torch
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
MASK = (1 << 64) - 1
SWIGLU_LIMIT = torch.tensor(0.8, dtype=torch.float32).item()  # an fp32 number, as in neuronmm
LENGTHS = [8, 5]


def mixed(bits):
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def bits_of(name, index):
    bits = 0xCBF29CE484222325
    for byte in name.encode():
        bits = (bits ^ byte) * 0x100000001B3 & MASK
    return mixed((bits + 0x9E3779B97F4A7C15 * (index + 1)) & MASK)


def drawn(name, shape, mean=0.0, scale=1.0):
    """Numbers in mean + [-scale, scale), with 16 bits each."""
    count = math.prod(shape)
    values = [mean + scale * ((bits_of(name, i) >> 48) / 32768 - 1) for i in range(count)]
    return torch.tensor(values).reshape(shape)


BASE = dict(hidden=16, inner=24, layers=2, heads=4, kv=2, dim=6, vocab=19, eps=1e-5, windows=[0, 0],
            bias=False, o_bias=False, mlp_bias=False, qk=None, input_norms=True, output_norms=False, offset=0.0,
            gelu=False, embedding=1.0, residual=1.0, divisor=1.0, score=0.0, score_cap=0.0,
            logit_cap=0.0, tied=False, form=None, teacher=False, clamp=0.0, sinks=False, swiglu=None,
            experts=0, active=2, divided=True, width=24, router_bias=False)
CASES = {
    "llama": {},
    "teacher": dict(teacher=True),
    "mistral": dict(windows=[3, 3]),
    "qwen2": dict(bias=True),
    "qwen3": dict(qk="head"),
    "olmo2": dict(qk="whole", input_norms=False, output_norms=True),
    "gemma2": dict(output_norms=True, offset=1.0, gelu=True, embedding=4.0, score=0.5, score_cap=5.0,
                   logit_cap=3.0, windows=[3, 0], tied=True),
    "granite": dict(embedding=3.0, score=0.5, residual=0.4, divisor=2.0),
    "biases": dict(bias=True, o_bias=True, mlp_bias=True),
    "uv": dict(form="uv"),
    "pivoted": dict(form="pivoted"),
    "narrow": dict(form="narrow"),
    "neurons": dict(form="neurons"),
    "mixed": dict(form="mixed", mlp_bias=True),
    "mixtral": dict(experts=4),
    "qwen3_moe": dict(experts=6, active=3, width=10, qk="head"),
    "olmoe": dict(experts=5, divided=False, qk="whole", clamp=1.0),
    "granite_moe": dict(experts=4, embedding=3.0, score=0.5, residual=0.4, divisor=2.0),
    "gpt_oss": dict(experts=7, router_bias=True, bias=True, o_bias=True, mlp_bias=True, sinks=True,
                    swiglu=(SWIGLU_LIMIT, 1.5), windows=[3, 0]),
}


def mlp_shape(c, layer):
    """The ranks of a layer's gate, up, down and input, and its neurons; 0 is dense."""
    shape = dict(gate=0, up=0, down=0, input=0, neurons=0)
    form = c["form"]
    if form == "mixed" and layer == 1:
        return shape
    if form == "uv":
        shape.update(gate=5, up=4, down=6)
    if form == "pivoted":
        shape.update(gate=5, up=4, down=5)
    if form in ("narrow", "mixed"):
        shape.update(input=4, down=5)
    if form in ("neurons", "mixed"):
        shape.update(neurons=13 - layer)
    return shape


def pivots(rank):
    return [3 * i + rank % 3 for i in range(rank)]


def tensors(c, prefix=""):
    t = {}

    def matrix(name, out, inside):
        t[name] = drawn(prefix + name, (out, inside), scale=0.5)

    def vector(name, size, mean=0.0):
        t[name] = drawn(prefix + name, (size,), mean=mean, scale=0.25)

    h, q, kv = c["hidden"], c["heads"] * c["dim"], c["kv"] * c["dim"]
    matrix("model.embed_tokens.weight", c["vocab"], h)
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        gain = 1.0 - c["offset"]
        if c["input_norms"]:
            vector(p + "input_layernorm.weight", h, gain)
            vector(p + "post_attention_layernorm.weight", h, gain)
        if c["output_norms"]:
            vector(p + "self_attn.output_norm.weight", h, gain)
            vector(p + "mlp.output_norm.weight", h, gain)
        for letter, out in (("q", q), ("k", kv), ("v", kv)):
            matrix(p + f"self_attn.{letter}_proj.weight", out, h)
            if c["bias"]:
                vector(p + f"self_attn.{letter}_proj.bias", out)
            if c["qk"] and letter != "v":
                vector(p + f"self_attn.{letter}_norm.weight", c["dim"] if c["qk"] == "head" else out, gain)
        matrix(p + "self_attn.o_proj.weight", h, q)
        if c["o_bias"]:
            vector(p + "self_attn.o_proj.bias", h)
        if c["sinks"]:
            vector(p + "self_attn.sinks", c["heads"])
        if c["experts"]:
            matrix(p + "mlp.router.weight", c["experts"], h)
            if c["router_bias"]:
                vector(p + "mlp.router.bias", c["experts"])
            for e in range(c["experts"]):
                for which, out, inside in (("gate", c["width"], h), ("up", c["width"], h), ("down", h, c["width"])):
                    matrix(f"{p}mlp.experts.{e}.{which}_proj.weight", out, inside)
                    if c["mlp_bias"]:
                        vector(f"{p}mlp.experts.{e}.{which}_proj.bias", out)
            continue
        s = mlp_shape(c, i)
        m, n = p + "mlp.", s["neurons"] or c["inner"]
        width = s["input"] or h
        if s["input"]:
            matrix(m + "input_pivot_proj.weight", s["input"], h - s["input"])
        for which, out, inside in (("gate", n, width), ("up", n, width), ("down", h, n)):
            rank = s[which]
            if c["mlp_bias"]:
                vector(m + which + "_proj.bias", out)
            if rank and c["form"] == "uv":
                matrix(m + which + "_v_proj.weight", rank, inside)
                matrix(m + which + "_u_proj.weight", out, rank)
            elif rank and which == "down":
                matrix(m + "down_pivot_proj.weight", h - rank, rank)
                matrix(m + "down_proj.weight", rank, n)
            elif rank:
                matrix(m + which + "_pivot_proj.weight", rank, h - rank)
                matrix(m + which + "_proj.weight", n, rank)
            else:
                matrix(m + which + "_proj.weight", out, inside)
    vector("model.norm.weight", h, 1.0 - c["offset"])
    if not c["tied"]:
        matrix("lm_head.weight", c["vocab"], h)
    return t


def norm(x, gain, c):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + c["eps"]) * (gain + c["offset"])


def cap(x, limit):
    return limit * torch.tanh(x / limit) if limit else x


def narrowed(x, rank, w):
    index = pivots(rank)
    others = [i for i in range(x.shape[-1]) if i not in index]
    return x[..., index] + x[..., others] @ w.T


def widened(z, features, rank, w):
    index = pivots(rank)
    others = [i for i in range(features) if i not in index]
    y = torch.zeros(*z.shape[:-1], features)
    y[..., index] = z
    y[..., others] = z @ w.T
    return y


def turned(x, dim):
    """x [T, heads, dim]"""
    half = dim // 2
    # The frequencies are rounded to fp32 once, as everywhere in neuronmm.
    frequency = (10000.0 ** (-2.0 * torch.arange(half) / dim)).float().double()
    angle = torch.arange(x.shape[0]).double()[:, None, None] * frequency
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def attend(x, t, p, c, window):
    length, dim = x.shape[0], c["dim"]

    def projected(letter, count):
        y = x @ t[p + letter + "_proj.weight"].T
        if c["bias"]:
            y = y + t[p + letter + "_proj.bias"]
        if c["qk"] == "whole" and letter != "v":
            y = norm(y, t[p + letter + "_norm.weight"], c)
        y = y.reshape(length, count, dim)
        if c["qk"] == "head" and letter != "v":
            y = norm(y, t[p + letter + "_norm.weight"], c)
        return y

    def limited(y):
        return y.clamp(-c["clamp"], c["clamp"]) if c["clamp"] else y

    q = turned(limited(projected("q", c["heads"])), dim)
    k, v = turned(limited(projected("k", c["kv"])), dim), limited(projected("v", c["kv"]))
    k, v = (y.repeat_interleave(c["heads"] // c["kv"], 1) for y in (k, v))
    scores = cap(torch.einsum("ihd,jhd->hij", q, k) * (c["score"] or dim ** -0.5), c["score_cap"])
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    hidden = (j > i) | ((j <= i - window) if window else (j < 0))
    scores = scores.masked_fill(hidden, -math.inf)
    if c["sinks"]:
        sinks = t[p + "sinks"][:, None, None].expand(-1, length, 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    o = torch.einsum("hij,jhd->ihd", weights, v).reshape(length, -1)
    y = o @ t[p + "o_proj.weight"].T
    return y + t[p + "o_proj.bias"] if c["o_bias"] else y


def mlp(x, t, p, c, s):
    if s["input"]:
        x = narrowed(x, s["input"], t[p + "input_pivot_proj.weight"])

    def linear(x, which):
        stem, rank = p + which, s[which]
        if rank and c["form"] == "uv":
            y = x @ t[stem + "_v_proj.weight"].T @ t[stem + "_u_proj.weight"].T
        elif rank and which == "down":
            y = widened(x @ t[stem + "_proj.weight"].T, c["hidden"], rank, t[stem + "_pivot_proj.weight"])
        elif rank:
            y = narrowed(x, rank, t[stem + "_pivot_proj.weight"]) @ t[stem + "_proj.weight"].T
        else:
            y = x @ t[stem + "_proj.weight"].T
        return y + t[stem + "_proj.bias"] if c["mlp_bias"] else y

    gate = linear(x, "gate")
    if c["swiglu"]:
        limit, alpha = c["swiglu"]
        gate = gate.clamp(max=limit)
        return linear((linear(x, "up").clamp(-limit, limit) + 1) * gate * (alpha * gate).sigmoid(), "down")
    active = torch.nn.functional.gelu(gate, approximate="tanh") if c["gelu"] else torch.nn.functional.silu(gate)
    return linear(active * linear(x, "up"), "down")


def mixture(x, t, p, c):
    """The weighted sum of the experts of each token, each by itself."""
    z = x @ t[p + "router.weight"].T
    if c["router_bias"]:
        z = z + t[p + "router.bias"]
    top, chosen = z.softmax(-1).topk(c["active"], -1)
    if c["divided"]:
        top = top / top.sum(-1, keepdim=True)
    rows = []
    for i in range(x.shape[0]):
        outputs = [mlp(x[i], t, f"{p}experts.{e}.", c, mlp_shape(c, 0)) for e in chosen[i].tolist()]
        rows.append(sum(w * y for w, y in zip(top[i], outputs)))
    return torch.stack(rows)


def logits(ids, t, c):
    x = t["model.embed_tokens.weight"][ids] * c["embedding"]
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        y = norm(x, t[p + "input_layernorm.weight"], c) if c["input_norms"] else x
        y = attend(y, t, p + "self_attn.", c, c["windows"][i])
        if c["output_norms"]:
            y = norm(y, t[p + "self_attn.output_norm.weight"], c)
        x = x + c["residual"] * y
        y = norm(x, t[p + "post_attention_layernorm.weight"], c) if c["input_norms"] else x
        y = mixture(y, t, p + "mlp.", c) if c["experts"] else mlp(y, t, p + "mlp.", c, mlp_shape(c, i))
        if c["output_norms"]:
            y = norm(y, t[p + "mlp.output_norm.weight"], c)
        x = x + c["residual"] * y
    head = t["model.embed_tokens.weight" if c["tied"] else "lm_head.weight"]
    return cap(norm(x, t["model.norm.weight"], c) @ head.T / c["divisor"], c["logit_cap"])


def main():
    out = {}
    for case, changes in CASES.items():
        c = {**BASE, **changes}
        t = {name: value.requires_grad_() for name, value in tensors(c).items()}
        other = tensors(c, "teacher.")
        loss = torch.zeros(())
        first = 0
        for length in LENGTHS:
            ids = torch.tensor([bits_of("tokens", first + i) % c["vocab"] for i in range(length)])
            first += length
            z = logits(ids, t, c)[:-1]
            if c["teacher"]:
                w = logits(ids, other, c)[:-1].softmax(-1)
                loss = loss + (w * (w.log() - z.log_softmax(-1))).sum()
            else:
                loss = loss + torch.nn.functional.cross_entropy(z, ids[1:], reduction="sum")
        loss.backward()
        out[case + "/loss"] = loss.detach().reshape(1)
        for name, value in t.items():
            g = torch.zeros_like(value) if value.grad is None else value.grad
            g = g.reshape(-1, value.shape[-1])
            rows = g @ drawn("rows", (g.shape[1],))
            out[f"{case}/{name}"] = torch.cat([rows, g.norm().reshape(1)])
    save_file(out, pathlib.Path(__file__).with_name("golden_gradients.safetensors"))


if __name__ == "__main__":
    main()
