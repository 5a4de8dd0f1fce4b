#!/usr/bin/env python3
"""Trains models/demo, a Llama with 7 million parameters, on TinyStories, and writes a Hugging Face
folder.

    apt-get install python3-torch python3-numpy libopenblas-dev
    python3 tools/train_demo_model.py --text DIR --steps 1850

DIR holds tinystories_sample_2M.txt, whose stories are separated by <|endoftext|>. It may also hold
tinystories_4M.txt, which has the same stories and two more megabytes in lower case. The new stories
of that file get their capitals back. The last 5 % of the first file's stories are held out.

An interrupted run resumes from its checkpoint. The learning rate warms up, stays constant, and falls
linearly to zero over the last quarter of --steps. A resumed run may therefore have another --steps.
"""

import argparse
import collections
import json
import math
import pathlib
import re
import struct
import sys
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"{error}; training needs: apt-get install python3-torch python3-numpy")

import demo_tokenizer

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 2048, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "hidden_act": "silu",
    "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
}


# ---- text ----------------------------------------------------------------------------------------------------

def restore_capitals(stories, cased_text):
    """Returns stories with capitals at sentence starts. Other words are written as `cased_text`
    mostly writes them inside a sentence.
    """
    seen = collections.defaultdict(collections.Counter)
    for word in re.findall(r"(?<=[a-z,] )[A-Za-z]+", cased_text):
        seen[word.lower()][word] += 1
    usual = {low: forms.most_common(1)[0][0] for low, forms in seen.items()}
    cased = []
    for story in stories:
        story = re.sub(r"(?<!')\b[a-z]+", lambda m: usual.get(m.group(), m.group()), story)
        cased.append(re.sub(r"(^|[.!?]\s+|\n|(?:^|\s)\")([a-z])", lambda m: m.group(1) + m.group(2).upper(), story))
    return cased


def load_stories(folder):
    text = (folder / "tinystories_sample_2M.txt").read_text()
    stories = [s.strip() for s in text.split("<|endoftext|>") if s.strip()][:-1]  # the last one is cut off
    held_out = stories[-len(stories) // 20:]
    training = stories[:-len(stories) // 20]
    more = folder / "tinystories_4M.txt"
    if more.exists():
        lower = re.split(r"(?<!\n)\n(?!\n)", more.read_text())
        last = re.sub(r"\s+", " ", stories[-1].lower())[:60]
        start = next(i for i, s in enumerate(lower) if re.sub(r"\s+", " ", s).startswith(last)) + 2
        new = [s.strip().replace("\n\n", "\n") for s in lower[start:] if s.isascii() and len(s) > 200]
        training += restore_capitals(new, text)
    return training, held_out


def encode_stories(tokenizer, stories):
    ids = []
    for story in stories:
        ids += [tokenizer.bos, *tokenizer.encode(story), tokenizer.eos]
    return torch.from_numpy(np.array(ids, dtype=np.int64))


# ---- model (names as in Hugging Face checkpoints) ----------------------------------------------------------------

def init_parameters(seed):
    generator = torch.Generator().manual_seed(seed)
    hidden, inner, heads = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["num_attention_heads"]
    kv = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    std = 0.02
    residual_std = std / math.sqrt(2 * CONFIG["num_hidden_layers"])  # GPT-2's scale for layers that write the residual

    def normal(rows, columns, scale=std):
        return torch.nn.Parameter(torch.randn(rows, columns, generator=generator) * scale)

    p = {"model.embed_tokens.weight": normal(CONFIG["vocab_size"], hidden)}
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        p[layer + "input_layernorm.weight"] = torch.nn.Parameter(torch.ones(hidden))
        p[layer + "post_attention_layernorm.weight"] = torch.nn.Parameter(torch.ones(hidden))
        p[layer + "self_attn.q_proj.weight"] = normal(heads * CONFIG["head_dim"], hidden)
        p[layer + "self_attn.k_proj.weight"] = normal(kv, hidden)
        p[layer + "self_attn.v_proj.weight"] = normal(kv, hidden)
        p[layer + "self_attn.o_proj.weight"] = normal(hidden, heads * CONFIG["head_dim"], residual_std)
        p[layer + "mlp.gate_proj.weight"] = normal(inner, hidden)
        p[layer + "mlp.up_proj.weight"] = normal(inner, hidden)
        p[layer + "mlp.down_proj.weight"] = normal(hidden, inner, residual_std)
    p["model.norm.weight"] = torch.nn.Parameter(torch.ones(hidden))
    return p


def rms_norm(x, weight):
    x32 = x.float()
    return x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * weight


def rotary_tables(length):
    half = CONFIG["head_dim"] // 2
    angle = torch.arange(length)[:, None] * CONFIG["rope_theta"] ** (-torch.arange(half) / half)[None, :]
    return angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)  # [length, head_dim]


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def attention(x, p, layer, cos, sin, mask):
    batch, length, _ = x.shape
    dim, groups = CONFIG["head_dim"], CONFIG["num_attention_heads"] // CONFIG["num_key_value_heads"]

    def heads(name):
        return F.linear(x, p[layer + f"self_attn.{name}.weight"]).view(batch, length, -1, dim).transpose(1, 2)

    q = rotate(heads("q_proj"), cos, sin)
    k = rotate(heads("k_proj"), cos, sin).repeat_interleave(groups, dim=1)
    v = heads("v_proj").repeat_interleave(groups, dim=1)
    scores = q @ k.transpose(-1, -2) * dim ** -0.5 + mask
    mixed = scores.softmax(-1).to(v.dtype) @ v
    return F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), p[layer + "self_attn.o_proj.weight"])


def forward(p, ids, dropout=0.0):
    length = ids.shape[1]
    cos, sin = rotary_tables(length)
    mask = torch.full((length, length), float("-inf")).triu(1)
    x = F.embedding(ids, p["model.embed_tokens.weight"])
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        mixed = attention(rms_norm(x, p[layer + "input_layernorm.weight"]), p, layer, cos, sin, mask)
        x = x + F.dropout(mixed, dropout)
        h = rms_norm(x, p[layer + "post_attention_layernorm.weight"])
        gate = F.silu(F.linear(h, p[layer + "mlp.gate_proj.weight"]))
        inner = gate * F.linear(h, p[layer + "mlp.up_proj.weight"])
        x = x + F.dropout(F.linear(inner, p[layer + "mlp.down_proj.weight"]), dropout)
    return F.linear(rms_norm(x, p["model.norm.weight"]), p["model.embed_tokens.weight"])


def loss_of(p, windows, dropout=0.0):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = forward(p, windows[:, :-1], dropout)
    return F.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())


# ---- training -----------------------------------------------------------------------------------------------------

def learning_rate(step, steps, peak):
    decay = steps // 4
    return peak * min(1.0, (step + 1) / 100, (steps - step) / decay)


def held_out_perplexity(p, ids, context):
    windows = ids[: (len(ids) - 1) // context * context].view(-1, context)
    with torch.no_grad():
        losses = [loss_of(p, chunk).item() * len(chunk) for chunk in windows.split(16)]
    return math.exp(sum(losses) / len(windows))


def train(p, ids, held_out, args, checkpoint):
    decayed = [w for w in p.values() if w.dim() == 2]
    gains = [w for w in p.values() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}], betas=(0.9, 0.95))
    context, first = CONFIG["max_position_embeddings"], 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        first = saved["step"]
        optimizer.load_state_dict(saved["optimizer"])
        for name, value in saved["parameters"].items():
            p[name].data.copy_(value)
        print(f"resuming at step {first}", flush=True)
    start = time.time()
    for step in range(first, args.steps):
        generator = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
        offsets = torch.randint(len(ids) - context, (args.batch,), generator=generator)
        windows = torch.stack([ids[o : o + context + 1] for o in offsets])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr)
        loss = loss_of(p, windows, args.dropout)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
        optimizer.step()
        if (step + 1) % 10 == 0:
            speed = (step + 1 - first) * args.batch * context / (time.time() - start)
            print(f"step {step + 1}/{args.steps}  loss {loss.item():.3f}  {speed:.0f} tokens/s", flush=True)
        if (step + 1) % 100 == 0 or step + 1 == args.steps:
            torch.save({"step": step + 1, "parameters": p, "optimizer": optimizer.state_dict()}, checkpoint)
            print(f"held-out perplexity {held_out_perplexity(p, held_out, context):.3f}", flush=True)


def save(p, tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.eos}
    generation = {"bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.eos}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    tokenizer.save(folder)
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(p):
        blob = p[name].detach().to(torch.bfloat16).view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(p[name].shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, metavar="DIR", help="folder of the training text")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("models/demo"),
                        help="folder to write the model to (default models/demo)")
    parser.add_argument("--checkpoint", type=pathlib.Path, default=pathlib.Path("build/demo_model.checkpoint"),
                        help="file that keeps an unfinished run (default build/demo_model.checkpoint)")
    parser.add_argument("--steps", type=int, default=1850, help="number of training steps (default 1850)")
    parser.add_argument("--batch", type=int, default=8, help="sequences in a step (default 8)")
    parser.add_argument("--lr", type=float, default=1.5e-3, help="largest learning rate (default 0.0015)")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout probability (default 0.1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights and batches (default 1)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(),
                        help="number of CPU threads (default: torch's choice)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    training, held_out = load_stories(args.text)
    tokenizer = demo_tokenizer.train("\n".join(training), CONFIG["vocab_size"])
    ids, held_out_ids = encode_stories(tokenizer, training), encode_stories(tokenizer, held_out)
    print(f"{len(training)} stories, {len(ids)} training tokens, {len(held_out_ids)} held out", flush=True)
    p = init_parameters(args.seed)
    print(f"{sum(w.numel() for w in p.values())} parameters", flush=True)
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    try:
        train(p, ids, held_out_ids, args, args.checkpoint)
    except KeyboardInterrupt:
        sys.exit("interrupted; run again to resume")
    save(p, tokenizer, args.out)


if __name__ == "__main__":
    main()
