"""MLPs that neuronmm has made smaller, in plain torch: of every form, each layer with its own sizes.

`sizes` is one entry of "ranks" in "neuronmm_compression" of config.json; what is 0 or absent in it is whole.
"""

import torch
from torch import nn

MATRICES = ("gate", "up", "down")


def activation(config):
    if config.hidden_act != "silu":
        raise ValueError(f'config.json: "hidden_act": this code computes silu, found {config.hidden_act!r}')
    return nn.SiLU()


class LowRankMLP(nn.Module):
    """down(act(gate(x)) * up(x)). A matrix of rank r > 0 is two: X_v_proj [r, in], applied first, then X_u_proj [out, r]."""

    def __init__(self, config, sizes):
        super().__init__()
        self.ranks = {name: sizes[name] for name in MATRICES}
        self.act_fn = activation(config)
        for name, rank in self.ranks.items():
            inputs, outputs = config.hidden_size, config.intermediate_size
            if name == "down":
                inputs, outputs = outputs, inputs
            if rank == 0:
                self.add_module(f"{name}_proj", nn.Linear(inputs, outputs, bias=False))
            else:
                self.add_module(f"{name}_v_proj", nn.Linear(inputs, rank, bias=False))
                self.add_module(f"{name}_u_proj", nn.Linear(rank, outputs, bias=False))

    def project(self, name, x):
        if self.ranks[name] == 0:
            return getattr(self, f"{name}_proj")(x)
        return getattr(self, f"{name}_u_proj")(getattr(self, f"{name}_v_proj")(x))

    def forward(self, x):
        return self.project("down", self.act_fn(self.project("gate", x)) * self.project("up", x))


def pivots_first(pivots, hidden_size):
    """The order of all elements that begins with the pivots; both they and the others ascend."""
    others = torch.ones(hidden_size, dtype=torch.int32, device=pivots.device).index_fill(0, pivots.long(), 0)
    return torch.argsort(others, stable=True)


def order_of(name, pivots, hidden_size):
    """In which order an MLP takes the elements of the vector that the pivots are of: of x pivots first, of y, which is
    made with pivots first, back to the model's."""
    order = pivots_first(pivots, hidden_size)
    return torch.argsort(order) if name == "down" else order


class PivotedMLP(nn.Module):
    """down(act(gate(x)) * up(x)) with fewer neurons, or with pivots: elements of a vector that stand for all of it.

    On the way in t = x[pivots] + D x[others] takes the place of x: of gate, of up, or of both, whose name is "input".
    On the way out, of down, y[pivots] = z and y[others] = C z. X_pivots holds the numbers, X_pivot_proj is D or C.
    """

    def __init__(self, config, sizes):
        super().__init__()
        self.hidden = config.hidden_size
        self.act_fn = activation(config)
        self.ranks = {name: sizes.get(name, 0) for name in ("input", *MATRICES)}
        neurons = sizes.get("neurons") or config.intermediate_size
        shared = self.ranks["input"] or self.hidden
        self.gate_proj = nn.Linear(self.ranks["gate"] or shared, neurons, bias=False)
        self.up_proj = nn.Linear(self.ranks["up"] or shared, neurons, bias=False)
        self.down_proj = nn.Linear(neurons, self.ranks["down"] or self.hidden, bias=False)
        for name in self.pivoted():
            rank = self.ranks[name]
            inputs, outputs = self.hidden - rank, rank
            if name == "down":
                inputs, outputs = outputs, inputs
            self.register_buffer(f"{name}_pivots", torch.zeros(rank, dtype=torch.int32))
            self.add_module(f"{name}_pivot_proj", nn.Linear(inputs, outputs, bias=False))

    def pivoted(self):
        return [name for name, rank in self.ranks.items() if rank > 0]

    def fix_orders(self, pivots=None):
        """For compilers, which should neither sort in every pass nor take the numbers for constants: parameters X_order,
        int32, take the place of X_pivots. Made of `pivots`, by name; without, they are zeros, to be loaded (add_orders)."""
        for name in self.pivoted():
            zeros = torch.zeros(self.hidden, dtype=torch.int32)
            order = zeros if pivots is None else order_of(name, pivots[name], self.hidden).to(torch.int32)
            delattr(self, f"{name}_pivots")
            self.register_parameter(f"{name}_order", nn.Parameter(order, requires_grad=False))

    def ordered(self, name, x):
        order = getattr(self, f"{name}_order", None)
        if order is None:
            order = order_of(name, getattr(self, f"{name}_pivots"), self.hidden)
        return torch.index_select(x, -1, order)

    def narrow(self, name, x):
        rank = self.ranks[name]
        if rank == 0:
            return x
        x = self.ordered(name, x)
        return x[..., :rank] + getattr(self, f"{name}_pivot_proj")(x[..., rank:])

    def widen(self, z):
        if self.ranks["down"] == 0:
            return z
        return self.ordered("down", torch.cat([z, self.down_pivot_proj(z)], dim=-1))

    def forward(self, x):
        x = self.narrow("input", x)
        gate, up = self.gate_proj(self.narrow("gate", x)), self.up_proj(self.narrow("up", x))
        return self.widen(self.down_proj(self.act_fn(gate) * up))


FORMS = {"uv": LowRankMLP} | dict.fromkeys(("pivoted", "narrow", "neurons", "mixed"), PivotedMLP)


def smaller_mlps(config, record, forms=FORMS):
    """One for each layer. record: "neuronmm_compression" of config.json. forms: what to make of each form."""
    form, ranks = record.get("form", "uv"), record["ranks"]
    if form not in forms:
        raise ValueError(f'config.json: "neuronmm_compression": this code reads the forms {", ".join(forms)}, found {form!r}')
    if len(ranks) != config.num_hidden_layers:
        raise ValueError(f'config.json: "neuronmm_compression": ranks of {len(ranks)} layers, expected {config.num_hidden_layers}')
    return [forms[form](config, sizes) for sizes in ranks]


def add_orders(tensors, hidden_size):
    """What fix_orders() has parameters for, beside the X_pivots in a dictionary of a model's tensors."""
    for name in [name for name in tensors if name.endswith("_pivots")]:
        stem = name.removesuffix("_pivots")
        order = order_of(stem.rpartition(".")[2], tensors[name], hidden_size)
        tensors[f"{stem}_order"] = order.to(torch.int32)
