"""The MLPs that neuronmm has made smaller, in plain torch. Every form is here, and each layer has
its own sizes.

`sizes` is one entry of "ranks" in "neuronmm_compression" of config.json. A matrix whose entry is 0
or absent is dense.
"""

import torch
from torch import nn

MATRICES = ("gate", "up", "down")


def activation(config):
    """Returns SiLU, or Gemma's GELU, whose key has another name."""
    name = getattr(config, "hidden_activation", None) or config.hidden_act
    if name in ("silu", "swish"):
        return nn.SiLU()
    if name == "gelu_pytorch_tanh":
        return nn.GELU(approximate="tanh")
    raise ValueError(f'config.json: "hidden_act": this code computes silu and gelu_pytorch_tanh, found {name!r}')


class Bias(nn.Module):
    """The bias of a matrix that is stored as two factors."""

    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, y):
        return y + self.bias


class LowRankMLP(nn.Module):
    """Computes down(act(gate(x)) * up(x)).

    A matrix of rank r > 0 is stored as two: X_v_proj [r, in], which is applied first, and X_u_proj
    [out, r].
    """

    def __init__(self, config, sizes):
        super().__init__()
        self.ranks = {name: sizes[name] for name in MATRICES}
        self.act_fn = activation(config)
        bias = getattr(config, "mlp_bias", False)
        for name, rank in self.ranks.items():
            inputs, outputs = config.hidden_size, config.intermediate_size
            if name == "down":
                inputs, outputs = outputs, inputs
            if rank == 0:
                self.add_module(f"{name}_proj", nn.Linear(inputs, outputs, bias=bias))
            else:
                self.add_module(f"{name}_v_proj", nn.Linear(inputs, rank, bias=False))
                self.add_module(f"{name}_u_proj", nn.Linear(rank, outputs, bias=False))
                if bias:
                    self.add_module(f"{name}_proj", Bias(outputs))

    def project(self, name, x):
        if self.ranks[name] == 0:
            return getattr(self, f"{name}_proj")(x)
        y = getattr(self, f"{name}_u_proj")(getattr(self, f"{name}_v_proj")(x))
        return getattr(self, f"{name}_proj")(y) if hasattr(self, f"{name}_proj") else y

    def forward(self, x):
        return self.project("down", self.act_fn(self.project("gate", x)) * self.project("up", x))


def pivots_first(pivots, hidden_size):
    """Returns an order of all elements that begins with the pivots. The pivots and the others are
    both in ascending order.
    """
    others = torch.ones(hidden_size, dtype=torch.int32, device=pivots.device).index_fill(0, pivots.long(), 0)
    return torch.argsort(others, stable=True)


def order_of(name, pivots, hidden_size):
    """Returns the order in which an MLP reads the elements of a vector.

    For an input vector x the order puts the pivots first. The output y is computed with its pivots
    first, and the order for it leads back to the model's own order.
    """
    order = pivots_first(pivots, hidden_size)
    return torch.argsort(order) if name == "down" else order


class PivotedMLP(nn.Module):
    """Computes down(act(gate(x)) * up(x)) with fewer neurons, or with pivots.

    Pivots are elements of a vector that stand for the whole vector. On the input side, t =
    x[pivots] + D x[others] replaces x. This can be the input of gate, of up, or of both, which is
    then named "input". On the output side, down computes z, and y[pivots] = z and y[others] = C z.
    X_pivots holds the indices, and X_pivot_proj is D or C.
    """

    def __init__(self, config, sizes):
        super().__init__()
        self.hidden = config.hidden_size
        self.act_fn = activation(config)
        self.ranks = {name: sizes.get(name, 0) for name in ("input", *MATRICES)}
        bias = getattr(config, "mlp_bias", False)
        if bias and self.ranks["down"] > 0:
            raise ValueError("this code has no biases with pivots of the output; compress with --form uv")
        neurons = sizes.get("neurons") or config.intermediate_size
        shared = self.ranks["input"] or self.hidden
        self.gate_proj = nn.Linear(self.ranks["gate"] or shared, neurons, bias=bias)
        self.up_proj = nn.Linear(self.ranks["up"] or shared, neurons, bias=bias)
        self.down_proj = nn.Linear(neurons, self.ranks["down"] or self.hidden, bias=bias)
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
        """Replaces the buffers X_pivots by parameters X_order (int32), for compilers.

        A compiled model should not sort in every pass, nor treat the indices as constants. The
        orders are computed from `pivots` (indices by name). Without `pivots` they are zeros, which
        are loaded later (add_orders).
        """
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
    """Returns one MLP per layer.

    record: "neuronmm_compression" of config.json. forms: the class for each form.
    """
    form, ranks = record.get("form", "uv"), record["ranks"]
    if form not in forms:
        raise ValueError(f'config.json: "neuronmm_compression": this code reads the forms {", ".join(forms)}, found {form!r}')
    if len(ranks) != config.num_hidden_layers:
        raise ValueError(f'config.json: "neuronmm_compression": ranks of {len(ranks)} layers, expected {config.num_hidden_layers}')
    return [forms[form](config, sizes) for sizes in ranks]


def add_orders(tensors, hidden_size):
    """Adds the orders that fix_orders() makes parameters for to a dictionary of a model's tensors,
    next to X_pivots.
    """
    for name in [name for name in tensors if name.endswith("_pivots")]:
        stem = name.removesuffix("_pivots")
        order = order_of(stem.rpartition(".")[2], tensors[name], hidden_size)
        tensors[f"{stem}_order"] = order.to(torch.int32)
