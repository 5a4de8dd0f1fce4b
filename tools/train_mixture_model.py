#!/usr/bin/env python3
"""Trains a mixture of experts with 19 million parameters on TinyStories, and writes a Hugging Face folder.

    python3 tools/train_mixture_model.py --text DIR --out FOLDER --minutes 50

The text is the one of train_demo_model.py, whose head explains DIR. The result is a Mixtral: 4 layers of 8
experts with 448 neurons each, of which a token uses 2. Embedding, attention and norms begin as those of
models/demo, and each expert as that model's MLP with the neurons that its tokens use most. A run takes --steps
steps or --minutes minutes, whichever ends first; the learning rate falls to zero over the last half of it.
"""

import argparse
import json
import math
import pathlib
import shutil
import struct
import sys
import time

try:
    import numpy as np
    import tokenizers
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"{error}; training needs: pip install numpy tokenizers torch")

import train_demo_model as demo

EXPERTS, ACTIVE, WIDTH = 8, 2, 448
ROUTER_SIZE = 0.3  # length of the routers' first rows, whose logits then differ by about 1
BALANCE = 0.02  # weight of the load-balancing loss of the Switch Transformer, as in Mixtral
CONFIG = {
    **demo.CONFIG, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "intermediate_size": WIDTH,
    "num_local_experts": EXPERTS, "num_experts_per_tok": ACTIVE, "sliding_window": None, "router_jitter_noise": 0.0,
    "output_router_logits": False, "router_aux_loss_coef": BALANCE,
}


def read_safetensors(path):
    blob = path.read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    tensors = {}
    for name, entry in json.loads(blob[8:8 + size]).items():
        if name != "__metadata__":
            first, last = (8 + size + o for o in entry["data_offsets"])
            words = torch.from_numpy(np.frombuffer(blob[first:last], dtype=np.int16).copy())
            tensors[name] = words.view(torch.bfloat16).float().view(entry["shape"])
    return tensors


def dense_mlp_inputs(dense, ids):
    """Returns what the MLP of every layer of the dense model reads, [tokens, hidden] each."""
    inputs, norm = [], demo.rms_norm

    def remembering(x, weight):
        inputs.append(norm(x, weight))
        return inputs[-1]

    demo.rms_norm = remembering
    with torch.no_grad():
        demo.forward(dense, ids)
    demo.rms_norm = norm
    # Each layer has two norms, of which the second is that of its MLP. The last norm is the head's.
    return [x.flatten(0, 1) for x in inputs[1:-1:2]]


def cluster_directions(x, generator):
    """Returns the centres of EXPERTS clusters of the rows of x, less the mean, as unit vectors."""
    x = F.normalize(x - x.mean(0), dim=1)
    centres = x[torch.randperm(len(x), generator=generator)[:EXPERTS]]
    for _ in range(20):
        nearest = (x @ centres.T).argmax(1)
        for e in range(EXPERTS):
            if (nearest == e).any():
                centres[e] = F.normalize(x[nearest == e].mean(0), dim=0)
    return centres


def expert_of(gate, up, down, x):
    """Returns the WIDTH most used neurons for the rows of x, with a down that makes up for the others."""
    h = F.silu(x @ gate.T) * (x @ up.T)
    gram = (h.T @ h).double() / len(h)
    gram += torch.eye(len(gram)) * 1e-4 * gram.diagonal().mean()
    order = (gram.diagonal() * down.double().pow(2).sum(0)).argsort(descending=True)
    kept, others = order[:WIDTH], order[WIDTH:]
    change = torch.linalg.solve(gram[kept][:, kept], gram[kept][:, others] @ down[:, others].double().T)
    return gate[kept], up[kept], down[:, kept] + change.T.float()


def init_parameters(dense, ids, seed):
    """The parameters of the mixture, made of those of the dense model: a router chooses by clusters of the
    MLP's input, and each expert is the dense MLP narrowed for its tokens.
    """
    generator = torch.Generator().manual_seed(seed)
    p = {name: value for name, value in dense.items() if ".mlp." not in name}
    offsets = torch.randint(len(ids) - 256, (48,), generator=generator)
    for i, x in enumerate(dense_mlp_inputs(dense, torch.stack([ids[o : o + 256] for o in offsets]))):
        mlp, moe = f"model.layers.{i}.mlp.", f"model.layers.{i}.block_sparse_moe."
        p[moe + "gate.weight"] = cluster_directions(x, generator) * ROUTER_SIZE
        chosen = (x @ p[moe + "gate.weight"].T).topk(ACTIVE, dim=-1).indices
        for e in range(EXPERTS):
            rows = (chosen == e).any(1)
            mine = x[rows] if rows.sum() > WIDTH else x
            matrices = (dense[mlp + f"{which}_proj.weight"] for which in ("gate", "up", "down"))
            for name, value in zip(("w1", "w3", "w2"), expert_of(*matrices, mine)):
                p[moe + f"experts.{e}.{name}.weight"] = value
    return {name: torch.nn.Parameter(value.clone()) for name, value in p.items()}


def mixture(h, p, moe, dropout):
    """Returns the output of the chosen experts and the load-balancing loss."""
    flat = h.flatten(0, 1)
    with torch.autocast("cpu", enabled=False):
        probability = F.linear(flat.float(), p[moe + "gate.weight"]).softmax(-1)
    weight, chosen = probability.topk(ACTIVE, dim=-1)
    weight = weight / weight.sum(-1, keepdim=True)
    used = F.one_hot(chosen, EXPERTS).sum(1).float().mean(0)
    balance = EXPERTS * (used * probability.mean(0)).sum() / ACTIVE
    out = torch.zeros(flat.shape, dtype=torch.float32)
    for e in range(EXPERTS):
        row, slot = (chosen == e).nonzero(as_tuple=True)
        x = flat[row]
        expert = moe + f"experts.{e}."
        inner = F.silu(F.linear(x, p[expert + "w1.weight"])) * F.linear(x, p[expert + "w3.weight"])
        y = F.dropout(F.linear(inner, p[expert + "w2.weight"]), dropout)
        out = out.index_add(0, row, y.float() * weight[row, slot, None])
    return out.view(h.shape), balance, used / ACTIVE


def forward(p, ids, dropout):
    length = ids.shape[1]
    cos, sin = demo.rotary_tables(length)
    mask = torch.full((length, length), float("-inf")).triu(1)
    x = F.embedding(ids, p["model.embed_tokens.weight"])
    balance, shares = 0.0, []
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        h = demo.rms_norm(x, p[layer + "input_layernorm.weight"])
        x = x + F.dropout(demo.attention(h, p, layer, cos, sin, mask), dropout)
        h = demo.rms_norm(x, p[layer + "post_attention_layernorm.weight"])
        y, part, share = mixture(h, p, layer + "block_sparse_moe.", dropout)
        x, balance = x + y, balance + part / CONFIG["num_hidden_layers"]
        shares.append(share)
    return F.linear(demo.rms_norm(x, p["model.norm.weight"]), p["model.embed_tokens.weight"]), balance, shares


def losses_of(p, windows, dropout=0.0):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, balance, shares = forward(p, windows[:, :-1], dropout)
    return F.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten()), balance, shares


def held_out_perplexity(p, ids, context):
    windows = ids[: (len(ids) - 1) // context * context].view(-1, context)
    with torch.no_grad():
        losses = [losses_of(p, chunk)[0].item() * len(chunk) for chunk in windows.split(16)]
        shares = losses_of(p, windows[:16])[2]
    for i, share in enumerate(shares):
        print(f"  layer {i}: each expert's share in percent:", *(f"{100 * s:.0f}" for s in share.tolist()))
    return math.exp(sum(losses) / len(windows))


def train(p, ids, held_out, args):
    decayed = [w for w in p.values() if w.dim() == 2]
    gains = [w for w in p.values() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}], betas=(0.9, 0.95))
    context, start, step, done = CONFIG["max_position_embeddings"], time.time(), 0, 0.0
    while done < 1.0:
        generator = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
        offsets = torch.randint(len(ids) - context, (args.batch,), generator=generator)
        windows = torch.stack([ids[o : o + context + 1] for o in offsets])
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(1.0, (step + 1) / 30, 2 * (1.0 - done))
        loss, balance, _ = losses_of(p, windows, args.dropout)
        optimizer.zero_grad()
        (loss + BALANCE * balance).backward()
        torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
        optimizer.step()
        step += 1
        done = max(step / args.steps, (time.time() - start) / (60 * args.minutes))
        if step % 10 == 0:
            speed = step * args.batch * context / (time.time() - start)
            print(f"step {step}, {100 * done:.0f} %  loss {loss.item():.3f}  balance {balance.item():.3f}  "
                  f"{speed:.0f} tokens/s", flush=True)
        if step % 100 == 0 or done >= 1.0:
            print(f"held-out perplexity {held_out_perplexity(p, held_out, context):.3f}", flush=True)


class DenseTokenizer:
    """The tokenizer of the dense model, as train_demo_model.py wants it."""

    def __init__(self, folder):
        self.folder = folder
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "config.json").read_text())
        self.bos, self.eos = config["bos_token_id"], config["eos_token_id"]

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def save(self, folder):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.folder / name, folder / name)


def save(p, tokenizer, folder):
    demo.CONFIG.update(CONFIG)  # demo.save writes the settings of its own module
    demo.save(p, tokenizer, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, metavar="DIR", help="folder of the training text")
    parser.add_argument("--dense", type=pathlib.Path, default=pathlib.Path("models/demo"),
                        help="folder of the dense model to begin with (default models/demo)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write the model to")
    parser.add_argument("--steps", type=int, default=1000, help="largest number of steps (default 1000)")
    parser.add_argument("--minutes", type=float, default=50, help="largest duration (default 50)")
    parser.add_argument("--batch", type=int, default=8, help="sequences in a step (default 8)")
    parser.add_argument("--lr", type=float, default=1e-3, help="largest learning rate (default 0.001)")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout probability (default 0.1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights and batches (default 1)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(),
                        help="number of CPU threads (default: torch's choice)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    training, held_out = demo.load_stories(args.text)
    tokenizer = DenseTokenizer(args.dense)
    ids, held_out_ids = demo.encode_stories(tokenizer, training), demo.encode_stories(tokenizer, held_out)
    print(f"{len(training)} stories, {len(ids)} training tokens, {len(held_out_ids)} held out", flush=True)
    p = init_parameters(read_safetensors(args.dense / "model.safetensors"), ids, args.seed)
    print(f"{sum(w.numel() for w in p.values())} parameters", flush=True)
    try:
        train(p, ids, held_out_ids, args)
    except KeyboardInterrupt:
        print("interrupted; the model is written as it is", file=sys.stderr)
    save(p, tokenizer, args.out)


if __name__ == "__main__":
    main()
