#!/usr/bin/env python3
"""Compares forms in which the experts of a mixture can be smaller, at equal parameters, with PyTorch.

    python3 bench/mixture_forms.py MODEL_DIR --calibration FILE --text FILE ... --ratio 0.2

MODEL_DIR is a Mixtral with one expert per tensor, as tools/train_mixture_model.py writes. Every form keeps
1 - ratio of the parameters of the experts; the program prints the KL divergence from the whole model on each
text, in nats per token, with the standard error over windows. The statistics of an expert are those of its own
tokens, each weighted by the square of its routing weight. The forms:

    dropped        whole experts, those that fewest tokens choose; their rows of the router go, too
    neurons        every expert has as many neurons; down makes up for the others (Nystroem)
    neurons plain  the same, but down stays as it is
    neurons of the layer's statistics   the same as neurons, but all experts of a layer have one Gram matrix of
                   their inputs, unweighted: each expert's neurons for all tokens of the layer
    neurons by loss   each expert of the model has as many neurons as pays
    merged         similar experts become one, weighted by use: their neurons are matched first (M-SMoE,
                   arXiv 2310.01334), and tokens that chose one of them go to the merged expert
    shared basis   the inputs of gate and up of all experts of a layer go through one basis, and the outputs of
                   down come from another (principal components, weighted by what the experts make of them)
    shared basis by loss   the same, but each layer has ranks of its own; losses of outputs count a quarter
    shared basis by whole loss   the same, but losses of outputs count as they are predicted
    factors        gate, up and down of every expert as U V, whitened by its own statistics
"""

import argparse
import json
import math
import pathlib
import sys

try:
    import numpy as np
    import tokenizers
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"{error}; mixture_forms.py needs: pip install numpy tokenizers torch")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import train_demo_model as demo  # noqa: E402
import train_mixture_model as mixture_model  # noqa: E402

BLOCK = 32
ORDERS = {}  # what neurons() has computed, by its argument `own`


class Expert:
    """gate, up [I, H] and down [H, I] of one expert."""

    def __init__(self, gate, up, down):
        self.gate, self.up, self.down = gate, up, down

    def neurons(self, x):
        return F.silu(x @ self.gate.T) * (x @ self.up.T)

    def __call__(self, x):
        return self.neurons(x) @ self.down.T

    def parameters(self):
        return self.gate.numel() + self.up.numel() + self.down.numel()


class Layer:
    """The experts of a layer. `target[e]` is the expert that computes what the router sends to e."""

    def __init__(self, router, experts, active, target=None, extra=0):
        self.router, self.experts, self.active, self.extra = router, experts, active, extra
        self.target = list(range(len(experts))) if target is None else target

    def route(self, x):
        weight, chosen = (x @ self.router.T).softmax(-1).topk(self.active, dim=-1)
        return weight / weight.sum(-1, keepdim=True), chosen

    def __call__(self, x):
        weight, chosen = self.route(x)
        target = torch.tensor(self.target)[chosen]
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = (target == e).nonzero(as_tuple=True)
            if len(row):
                out.index_add_(0, row, expert(x[row]) * weight[row, slot, None])
        return out

    def parameters(self):
        return sum(e.parameters() for e in self.experts) + self.extra


class Model:
    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        demo.CONFIG.update({k: config[k] for k in demo.CONFIG if k in config})
        p = mixture_model.read_safetensors(folder / "model.safetensors")
        self.p, self.layers = p, []
        for i in range(config["num_hidden_layers"]):
            moe = f"model.layers.{i}.block_sparse_moe."
            experts = [Expert(*(p[f"{moe}experts.{e}.{w}.weight"] for w in ("w1", "w3", "w2")))
                       for e in range(config["num_local_experts"])]
            self.layers.append(Layer(p[moe + "gate.weight"], experts, config["num_experts_per_tok"]))

    def logits(self, ids, layers, inputs=None):
        """Log-probabilities of a batch of windows. `inputs` receives what each mixture reads."""
        length = ids.shape[1]
        cos, sin = demo.rotary_tables(length)
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = F.embedding(ids, self.p["model.embed_tokens.weight"])
        for i, layer in enumerate(layers):
            name = f"model.layers.{i}."
            h = demo.rms_norm(x, self.p[name + "input_layernorm.weight"])
            x = x + demo.attention(h, self.p, name, cos, sin, mask)
            h = demo.rms_norm(x, self.p[name + "post_attention_layernorm.weight"])
            flat = h.flatten(0, 1)
            if inputs is not None:
                inputs.append((flat, x))
            x = x + layer(flat).view(h.shape)
        h = demo.rms_norm(x, self.p["model.norm.weight"])
        return F.linear(h, self.p["model.embed_tokens.weight"]).log_softmax(-1)


# ---- statistics ---------------------------------------------------------------------------------------------------

class Statistics:
    """Statistics of one layer: own tokens, their routing weights, and all inputs."""

    def __init__(self, layer, x, residual):
        self.x = x
        self.scale = 1.0 / residual.pow(2).mean().item()  # the local metric of `compress`
        weight, chosen = layer.route(x)
        self.tokens = [(chosen == e).any(1).nonzero(as_tuple=True)[0] for e in range(len(layer.experts))]
        self.weights = [(weight * (chosen == e)).sum(1)[rows] for e, rows in enumerate(self.tokens)]

    def use(self, e):
        return len(self.tokens[e])

    def grams(self, layer, e, own=True):
        """Gram matrices of the inputs and of the neurons of expert e, as means over all tokens."""
        x = self.x[self.tokens[e]] if own else self.x
        w = self.weights[e][:, None] if own else torch.ones(len(x), 1)
        h = layer.experts[e].neurons(x) * w
        x = x * w
        return (x.T @ x).double() / len(self.x), (h.T @ h).double() / len(self.x)


def ridge(gram):
    return gram + torch.eye(len(gram), dtype=gram.dtype) * 1e-6 * gram.diagonal().mean()


def order_of(expert, gram, scale):
    """The neurons from the most important to the least, each judged alone (optimal brain surgeon), and the loss
    of every number of them.
    """
    d = expert.down.double()
    order = (d.pow(2).sum(0) / torch.linalg.inv(ridge(gram)).diagonal()).argsort(descending=True)
    root = torch.linalg.cholesky(ridge(gram)[order][:, order])
    added = (d[:, order] @ root).pow(2).sum(0) * 0.5 * scale
    losses = torch.cat([added.flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=added.dtype)])
    return order, losses


def fewer_neurons(expert, gram, order, count, compensate=True):
    kept, others = order[:count].sort().values, order[count:]
    down = expert.down[:, kept]
    if compensate and len(others):
        change = torch.linalg.solve(ridge(gram)[kept][:, kept], gram[kept][:, others] @ expert.down[:, others].double().T)
        down = down + change.T.float()
    return Expert(expert.gate[kept], expert.up[kept], down)


# ---- forms --------------------------------------------------------------------------------------------------------

def dropped(layers, stats, ratio):
    out = []
    for layer, s in zip(layers, stats):
        left = round(len(layer.experts) * (1 - ratio))
        by_use = sorted(range(len(layer.experts)), key=lambda e: -s.use(e))
        kept = sorted(by_use[:left])
        out.append(Layer(layer.router[kept], [layer.experts[e] for e in kept], layer.active))
    return out


def neurons(layers, stats, ratio, own=True, compensate=True, by_loss=False):
    units = [(l, e) for l, layer in enumerate(layers) for e in range(len(layer.experts))]
    if own not in ORDERS:
        grams = {(l, e): stats[l].grams(layers[l], e, own)[1] for l, e in units}
        ORDERS[own] = grams, {(l, e): order_of(layers[l].experts[e], grams[l, e], stats[l].scale) for l, e in units}
    grams, orders = ORDERS[own]
    width = layers[0].experts[0].gate.shape[0]
    sizes = dict.fromkeys(units, round(width * (1 - ratio) / BLOCK) * BLOCK)
    if by_loss:
        sizes = allocate({u: orders[u][1] for u in units}, width, int((1 - ratio) * width * len(units)))
    made = [Layer(layer.router, [], layer.active) for layer in layers]
    for l, e in units:
        made[l].experts.append(fewer_neurons(layers[l].experts[e], grams[l, e], orders[l, e][0], sizes[l, e], compensate))
    for layer in made:
        layer.target = list(range(len(layer.experts)))
    return made


def allocate(losses, width, budget):
    """Greedy on the convex hull of each expert's losses, in blocks."""
    steps, sizes = [], {}
    for unit, loss in losses.items():
        points = [(n, loss[n].item()) for n in [*range(BLOCK, width, BLOCK), width]]
        at = 0
        sizes[unit] = points[0][0]
        while at < len(points) - 1:
            gains = [((points[at][1] - points[j][1]) / (points[j][0] - points[at][0]), j)
                     for j in range(at + 1, len(points))]
            gain, j = max(gains)
            steps.append((gain, unit, points[at][0], points[j][0]))
            at = j
    left = budget - sum(sizes.values())
    for gain, unit, before, after in sorted(steps, key=lambda s: -s[0]):
        if sizes[unit] == before and after - before <= left:
            sizes[unit] = after
            left -= after - before
    return sizes


def matched(expert, like):
    """The expert with its neurons in the order in which they resemble those of `like`, best pairs first."""
    a = torch.cat([like.gate, like.up, like.down.T], 1)
    b = torch.cat([expert.gate, expert.up, expert.down.T], 1)
    likeness = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T
    order, free = [-1] * len(a), set(range(len(b)))
    for at in likeness.flatten().argsort(descending=True).tolist():
        i, j = divmod(at, len(b))
        if order[i] < 0 and j in free:
            order[i] = j
            free.remove(j)
        if not free:
            break
    order = torch.tensor(order)
    return Expert(expert.gate[order], expert.up[order], expert.down[:, order])


def merged(layers, stats, ratio):
    out = []
    for layer, s in zip(layers, stats):
        left = round(len(layer.experts) * (1 - ratio))
        outputs = [e(s.x[:2000]).flatten() for e in layer.experts]
        likeness = torch.tensor([[F.cosine_similarity(a, b, dim=0) for b in outputs] for a in outputs])
        groups = [[e] for e in range(len(layer.experts))]
        while len(groups) > left:
            pairs = [(min(likeness[a, b].item() for a in g for b in h), i, j)
                     for i, g in enumerate(groups) for j, h in enumerate(groups) if i < j]
            _, i, j = max(pairs)
            groups[i] += groups.pop(j)
        experts, target = [], [0] * len(layer.experts)
        for n, group in enumerate(groups):
            group.sort(key=lambda e: -s.use(e))
            first = layer.experts[group[0]]
            parts = [first] + [matched(layer.experts[e], first) for e in group[1:]]
            share = torch.tensor([float(s.use(e)) for e in group])
            share /= share.sum()
            experts.append(Expert(*(sum(w * getattr(p, name) for w, p in zip(share, parts))
                                    for name in ("gate", "up", "down"))))
            for e in group:
                target[e] = n
        out.append(Layer(layer.router, experts, layer.active, target))
    return out


class Bases:
    """The bases of one layer and half the energy that each rank of them loses."""

    def __init__(self, layer, s):
        hidden = layer.experts[0].gate.shape[1]
        weighted, produced = torch.zeros(hidden, hidden).double(), torch.zeros(hidden, hidden).double()
        for e, expert in enumerate(layer.experts):
            x = s.x[s.tokens[e]]
            g, u = x @ expert.gate.T, x @ expert.up.T
            sigmoid, norms = g.sigmoid(), expert.down.pow(2).sum(0)
            w2 = s.weights[e].pow(2)[:, None]
            of_gate = (w2 * (u * sigmoid * (1 + g * (1 - sigmoid))).pow(2)).mean(0) * norms
            of_up = (w2 * (g * sigmoid).pow(2)).mean(0) * norms
            share = s.use(e) / len(s.x)
            weighted += share * ((expert.gate.T * of_gate) @ expert.gate + (expert.up.T * of_up) @ expert.up).double()
            y = expert(x) * s.weights[e][:, None]
            produced += (y.T @ y).double() / len(s.x)
        gram = ridge((s.x.T @ s.x).double() / len(s.x))
        self.root = torch.linalg.cholesky(gram)
        of_inputs = torch.linalg.eigh(self.root.T @ weighted @ self.root)
        of_outputs = torch.linalg.eigh(produced)
        self.vectors, self.basis = of_inputs[1], of_outputs[1].float()
        # Entry r is what the hidden - r smallest eigenvalues add up to.
        self.losses = [torch.cat([torch.zeros(1).double(), values.clamp(min=0).cumsum(0)]).flip(0) * 0.5 * s.scale
                       for values in (of_inputs[0], of_outputs[0])]

    def apply(self, layer, r_in, r_out):
        count, (width, hidden) = len(layer.experts), layer.experts[0].gate.shape
        project_in = project_out = torch.eye(hidden)
        if r_in < hidden:
            # x is replaced by P x with P = root V V' root^-1, the least loss for inputs of this Gram matrix.
            v = self.vectors[:, -r_in:]
            project_in = (self.root @ v @ v.T @ torch.linalg.inv(self.root)).float()
        if r_out < hidden:
            project_out = self.basis[:, -r_out:] @ self.basis[:, -r_out:].T
        experts = [Expert(e.gate @ project_in, e.up @ project_in, project_out @ e.down) for e in layer.experts]
        return Layer(layer.router, experts, layer.active,
                     extra=self.parameters(r_in, r_out, count * width, hidden) - 3 * count * width * hidden)

    @staticmethod
    def parameters(r_in, r_out, neurons, hidden):
        return neurons * (2 * r_in + r_out) + hidden * sum(r for r in (r_in, r_out) if r < hidden)


def shared_basis(layers, stats, ratio):
    """Inputs and outputs in bases of one rank: E experts of 3 I r parameters and two bases of H r."""
    out = []
    for layer, s in zip(layers, stats):
        count, (width, hidden) = len(layer.experts), layer.experts[0].gate.shape
        rank = int((1 - ratio) * 3 * count * width * hidden / (3 * count * width + 2 * hidden))
        out.append(Bases(layer, s).apply(layer, rank, rank))
    return out


def shared_basis_by_loss(layers, stats, ratio, output_share):
    """Each layer has the ranks that pay, in blocks. Losses of outputs count `output_share`."""
    count, (width, hidden) = len(layers[0].experts), layers[0].experts[0].gate.shape
    bases = [Bases(layer, s) for layer, s in zip(layers, stats)]
    ranks = [*range(BLOCK, hidden, BLOCK), hidden]
    tables = [[(b.losses[0][i].item() + output_share * b.losses[1][o].item(),
                Bases.parameters(i, o, count * width, hidden), i, o) for i in ranks for o in ranks] for b in bases]
    budget = (1 - ratio) * 3 * count * width * hidden * len(layers)
    low, high = 1e-15, 1.0
    for _ in range(60):  # bisection of the price of a parameter
        price = math.sqrt(low * high)
        chosen = [min(table, key=lambda row: row[0] + price * row[1]) for table in tables]
        low, high = (price, high) if sum(row[1] for row in chosen) > budget else (low, price)
    chosen = [min(table, key=lambda row: row[0] + high * row[1]) for table in tables]
    return [b.apply(layer, row[2], row[3]) for b, layer, row in zip(bases, layers, chosen)]


def factors(layers, stats, ratio):
    out = []
    for layer, s in zip(layers, stats):
        experts, extra = [], 0
        for e, expert in enumerate(layer.experts):
            rows, columns = expert.gate.shape
            rank = int((1 - ratio) * rows * columns / (rows + columns))
            made = []
            for w, gram in zip((expert.gate, expert.up, expert.down), [s.grams(layer, e)[i] for i in (0, 0, 1)]):
                root = torch.linalg.cholesky(ridge(gram))
                u, d, v = torch.linalg.svd(w.double() @ root)
                low = (u[:, :rank] * d[:rank]) @ v[:rank] @ torch.linalg.inv(root)
                made.append(low.float())
                extra += rank * (rows + columns) - rows * columns
            experts.append(Expert(*made))
        out.append(Layer(layer.router, experts, layer.active, extra=extra))
    return out


# ---- measuring ----------------------------------------------------------------------------------------------------

def windows_of(tokenizer, path, length, limit):
    ids = tokenizer.encode(path.read_text(), add_special_tokens=False).ids[:limit]
    count = len(ids) // length
    return torch.tensor(ids[: count * length]).view(count, length)


def divergence(model, windows, layers):
    found = []
    for chunk in windows.split(4):
        whole, small = model.logits(chunk, model.layers), model.logits(chunk, layers)
        found += (whole.exp() * (whole - small)).sum(-1).mean(-1).tolist()
    return np.mean(found), np.std(found, ddof=1) / math.sqrt(len(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL_DIR", help="folder of the mixture")
    parser.add_argument("--calibration", type=pathlib.Path, required=True, metavar="FILE", help="text for the statistics")
    parser.add_argument("--calibration-tokens", type=int, default=8192, help="tokens of this text (default 8192)")
    parser.add_argument("--text", type=pathlib.Path, nargs="+", required=True, metavar="FILE",
                        help="texts to measure the divergence on")
    parser.add_argument("--ratio", type=float, nargs="+", default=[0.25], help="shares to remove (default 0.25)")
    parser.add_argument("--length", type=int, default=256, help="tokens of a window (default 256)")
    parser.add_argument("--forms", nargs="*", help="only these forms (default: all)")
    args = parser.parse_args()
    model = Model(args.model)
    tokenizer = tokenizers.Tokenizer.from_file(str(args.model / "tokenizer.json"))
    texts = {path.name: windows_of(tokenizer, path, args.length, 10 ** 9) for path in args.text}
    with torch.no_grad():
        inputs = []
        for chunk in windows_of(tokenizer, args.calibration, args.length, args.calibration_tokens).split(8):
            inputs.append([])
            model.logits(chunk, model.layers, inputs[-1])
        stats = [Statistics(layer, torch.cat([i[n][0] for i in inputs]), torch.cat([i[n][1].flatten(0, 1) for i in inputs]))
                 for n, layer in enumerate(model.layers)]
        for n, s in enumerate(stats):
            print(f"layer {n}: tokens of each expert:", *(s.use(e) for e in range(len(s.tokens))))
        whole = sum(layer.parameters() for layer in model.layers)
        forms = {
            "dropped": dropped, "merged": merged, "neurons": neurons,
            "neurons plain": lambda *a: neurons(*a, compensate=False),
            "neurons of the layer's statistics": lambda *a: neurons(*a, own=False),
            "neurons by loss": lambda *a: neurons(*a, by_loss=True),
            "shared basis": shared_basis,
            "shared basis by loss": lambda *a: shared_basis_by_loss(*a, 0.25),
            "shared basis by whole loss": lambda *a: shared_basis_by_loss(*a, 1.0),
            "factors": factors,
        }
        for ratio in args.ratio:
            for name, form in forms.items():
                if args.forms and name not in args.forms:
                    continue
                layers = form(model.layers, stats, ratio)
                kept = sum(layer.parameters() for layer in layers) / whole
                cells = ["{:.4f} +- {:.4f}".format(*divergence(model, windows, layers)) for windows in texts.values()]
                print(f"{ratio} | {name} | kept {kept:.4f} | " + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
