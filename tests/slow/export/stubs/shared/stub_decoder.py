"""The parts of a decoder around its MLPs, in plain torch and over whole sequences.

The stubs of both packages use these functions together with the MLPs of an export. The code was
written for these tests and is slow.
"""

import torch
from torch.nn import functional as F


def rms_norm(x, weight, eps):
    wide = x.float()
    return (weight.float() * wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def frequencies(config):
    base = config["rope_theta"] ** -(torch.arange(0, config["head_dim"], 2).double() / config["head_dim"])
    scaling = config.get("rope_scaling")
    if not scaling:
        return base
    turns = scaling["original_max_position_embeddings"] * base / (2 * torch.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return base * (kept + (1 - kept) / scaling["factor"])


def rotate(x, config):
    angles = torch.arange(x.shape[-2]).double()[:, None] * frequencies(config)
    angles = torch.cat([angles, angles], -1)
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x.float() * angles.cos().float() + turned.float() * angles.sin().float()).to(x.dtype)


def attention(x, weights, config):
    """Computes causal attention, [tokens, hidden] -> [tokens, hidden].

    `weights` holds q, k, v and o as [out, in]. The keys q_bias, k_bias, v_bias, o_bias, q_norm and
    k_norm are optional. `config` holds the fields of a config.json.
    """
    tokens, heads, shared, size = len(x), config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    split = lambda name, count: F.linear(x, weights[name], weights.get(f"{name}_bias")).view(tokens, count, size).transpose(0, 1)
    q, k, v = split("q", heads), split("k", shared), split("v", shared)
    if weights.get("q_norm") is not None:
        q, k = (rms_norm(t, weights[f"{n}_norm"], config["rms_norm_eps"]) for t, n in ((q, "q"), (k, "k")))
    q, k = rotate(q, config), rotate(k, config)
    k, v = (t.repeat_interleave(heads // shared, 0) for t in (k, v))
    places = torch.arange(tokens)
    seen = places[:, None] >= places
    if config.get("sliding_window"):
        seen &= places[:, None] - places < config["sliding_window"]
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return F.linear(mixed.transpose(0, 1).reshape(tokens, -1), weights["o"], weights.get("o_bias"))


def check_dtype(dtype):
    """Returns `dtype`, or fp32 if STUB_FP32 is 1.

    Tests compare exactly in fp32, which no export asks for.
    """
    import os

    return torch.float32 if os.environ.get("STUB_FP32") == "1" else dtype
