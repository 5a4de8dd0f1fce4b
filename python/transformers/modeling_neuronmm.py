"""Models whose weights neuronmm has made smaller: Llama, Mistral, Qwen2 and Qwen3 with smaller MLPs, int8 weights, or both.

Everything but these linear layers is transformers' own code.
"""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    LlamaForCausalLM,
    LlamaModel,
    MistralForCausalLM,
    MistralModel,
    Qwen2ForCausalLM,
    Qwen2Model,
    Qwen3ForCausalLM,
    Qwen3Model,
)
from transformers.activations import ACT2FN

from .configuration_neuronmm import (
    NeuronmmLlamaConfig,
    NeuronmmMistralConfig,
    NeuronmmQwen2Config,
    NeuronmmQwen3Config,
)

MATRICES = ("gate", "up", "down")


class LowRankMLP(nn.Module):
    """down(act(gate(x)) * up(x)). A matrix of rank r > 0 is two: X_v_proj [r, in], applied first, then X_u_proj [out, r]."""

    def __init__(self, config, ranks):
        super().__init__()
        self.ranks = {name: ranks[name] for name in MATRICES}
        self.act_fn = ACT2FN[config.hidden_act]
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


class PivotedMLP(nn.Module):
    """down(act(gate(x)) * up(x)) with fewer neurons, or with pivots: elements of a vector that stand for all of it.

    On the way in t = x[pivots] + D x[others] takes the place of x: of gate, of up, or of both, whose name is "input".
    On the way out, of down, y[pivots] = z and y[others] = C z. X_pivots holds the numbers, X_pivot_proj is D or C.
    """

    def __init__(self, config, sizes):
        super().__init__()
        self.hidden = config.hidden_size
        self.act_fn = ACT2FN[config.hidden_act]
        self.ranks = {name: sizes.get(name, 0) for name in ("input", *MATRICES)}
        neurons = sizes.get("neurons") or config.intermediate_size
        shared = self.ranks["input"] or self.hidden
        self.gate_proj = nn.Linear(self.ranks["gate"] or shared, neurons, bias=False)
        self.up_proj = nn.Linear(self.ranks["up"] or shared, neurons, bias=False)
        self.down_proj = nn.Linear(neurons, self.ranks["down"] or self.hidden, bias=False)
        for name, rank in self.ranks.items():
            if rank == 0:
                continue
            inputs, outputs = self.hidden - rank, rank
            if name == "down":
                inputs, outputs = outputs, inputs
            self.register_buffer(f"{name}_pivots", torch.zeros(rank, dtype=torch.int32))
            self.add_module(f"{name}_pivot_proj", nn.Linear(inputs, outputs, bias=False))

    def pivots_first(self, name):
        """The order of all elements that begins with the pivots; both they and the others ascend."""
        pivots = getattr(self, f"{name}_pivots").long()
        others = torch.ones(self.hidden, dtype=torch.int32, device=pivots.device).index_fill(0, pivots, 0)
        return torch.argsort(others, stable=True)

    def narrow(self, name, x):
        rank = self.ranks[name]
        if rank == 0:
            return x
        x = x[..., self.pivots_first(name)]
        return x[..., :rank] + getattr(self, f"{name}_pivot_proj")(x[..., rank:])

    def widen(self, z):
        if self.ranks["down"] == 0:
            return z
        y = torch.cat([z, self.down_pivot_proj(z)], dim=-1)
        return y[..., torch.argsort(self.pivots_first("down"))]

    def forward(self, x):
        x = self.narrow("input", x)
        gate, up = self.gate_proj(self.narrow("gate", x)), self.up_proj(self.narrow("up", x))
        return self.widen(self.down_proj(self.act_fn(gate) * up))


class Int8Weight(nn.Module):
    """W[i, j] = weight[i, j] * weight_scale[i, j // group]; the last group of a row may be shorter.

    The scales stay bfloat16, as they are in the file, whatever the model computes in.
    """

    def __init__(self, rows, columns, group):
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.zeros(rows, columns, dtype=torch.int8), requires_grad=False)
        groups = (columns + group - 1) // group
        self.weight_scale = nn.Parameter(torch.zeros(rows, groups, dtype=torch.bfloat16), requires_grad=False)

    def scaled(self, values, scales, dtype):
        scales = scales.to(dtype).repeat_interleave(self.group, dim=-1)
        return values.to(dtype) * scales[..., : values.shape[-1]]

    def multiply(self, x, bias=None):
        return F.linear(x, self.scaled(self.weight, self.weight_scale, x.dtype), bias)


class Int8Linear(Int8Weight):
    def __init__(self, linear, group):
        super().__init__(linear.out_features, linear.in_features, group)
        self.bias = linear.bias

    def forward(self, x):
        return self.multiply(x, self.bias)


class Int8Embedding(Int8Weight):
    """The table that is also the LM head."""

    def __init__(self, embedding, group):
        super().__init__(embedding.num_embeddings, embedding.embedding_dim, group)
        # Its dtype is the one that the model computes in: no other tensor here has it.
        self.register_buffer("computes_in", torch.empty(0), persistent=False)

    def forward(self, ids):
        return self.scaled(self.weight[ids], self.weight_scale[ids], self.computes_in.dtype)


class TiedInt8Head(nn.Module):
    """Has no weights of its own: a tuple hides the table's from the search for sub-modules."""

    def __init__(self, embedding):
        super().__init__()
        self.table = (embedding,)

    def forward(self, x):
        return self.table[0].multiply(x)


FORMS = {"uv": LowRankMLP} | dict.fromkeys(("pivoted", "narrow", "neurons", "mixed"), PivotedMLP)


def group_size(config):
    """Columns that share a scale; None: the weights are floats."""
    quantization = config.neuronmm_quantization
    if quantization is None:
        return None
    if quantization.get("bits") != 8 or not quantization.get("group_size"):
        raise ValueError(f'config.json: "neuronmm_quantization": this code reads 8 bits with a group_size, found {quantization}')
    return quantization["group_size"]


def smaller_mlps(config):
    """One for each layer, or none at all."""
    record = config.neuronmm_compression
    if record is None:
        return []
    form, ranks = record.get("form", "uv"), record["ranks"]
    if form not in FORMS:
        raise ValueError(f'config.json: "neuronmm_compression": this code reads the forms {", ".join(FORMS)}, found {form!r}')
    if len(ranks) != config.num_hidden_layers:
        raise ValueError(f'config.json: "neuronmm_compression": ranks of {len(ranks)} layers, expected {config.num_hidden_layers}')
    return [FORMS[form](config, sizes) for sizes in ranks]


class NeuronmmPreTrainedModel:
    """What all models here have in common; stands before transformers' class."""

    _supports_attention_backend = True

    @property
    def dtype(self):
        """Norms are never rounded; the first tensor, which transformers asks, may be int8 with its scales."""
        return self.base_model.norm.weight.dtype

    @classmethod
    def from_pretrained(cls, *args, output_loading_info=False, **kwargs):
        """Missing tensors are an error. transformers would warn and go on with random numbers."""
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        missing = sorted(info["missing_keys"])
        if missing:
            more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            raise ValueError(f"{model.config._name_or_path}: tensors are missing: {', '.join(missing[:8])}{more}")
        return (model, info) if output_loading_info else model


class NeuronmmModel(NeuronmmPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        for layer, mlp in zip(self.layers, smaller_mlps(config)):
            layer.mlp = mlp
        group = group_size(config)
        if group is not None:
            self.make_int8(config, group)
        self.post_init()

    def make_int8(self, config, group):
        for layer in self.layers:
            for block in (layer.self_attn, layer.mlp):
                for name, module in list(block.named_children()):
                    if isinstance(module, nn.Linear):
                        setattr(block, name, Int8Linear(module, group))
        if config.tie_word_embeddings:
            self.embed_tokens = Int8Embedding(self.embed_tokens, group)


class NeuronmmForCausalLM(NeuronmmPreTrainedModel):
    """`model_class` is the class of the decoder."""

    def __init__(self, config):
        # Not the original constructor, which would build a dense decoder first.
        super(self.dense_class, self).__init__(config)
        self.model = self.model_class(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        group = group_size(config)
        if group is not None and config.tie_word_embeddings:
            self.lm_head = TiedInt8Head(self.model.embed_tokens)
            self._tied_weights_keys = None
        elif group is not None:
            self.lm_head = Int8Linear(self.lm_head, group)
        self.post_init()

    def get_output_embeddings(self):
        return None if isinstance(self.lm_head, TiedInt8Head) else self.lm_head


class NeuronmmLlamaModel(NeuronmmModel, LlamaModel):
    config_class = NeuronmmLlamaConfig


class NeuronmmLlamaForCausalLM(NeuronmmForCausalLM, LlamaForCausalLM):
    config_class = NeuronmmLlamaConfig
    dense_class, model_class = LlamaForCausalLM, NeuronmmLlamaModel


class NeuronmmMistralModel(NeuronmmModel, MistralModel):
    config_class = NeuronmmMistralConfig


class NeuronmmMistralForCausalLM(NeuronmmForCausalLM, MistralForCausalLM):
    config_class = NeuronmmMistralConfig
    dense_class, model_class = MistralForCausalLM, NeuronmmMistralModel


class NeuronmmQwen2Model(NeuronmmModel, Qwen2Model):
    config_class = NeuronmmQwen2Config


class NeuronmmQwen2ForCausalLM(NeuronmmForCausalLM, Qwen2ForCausalLM):
    config_class = NeuronmmQwen2Config
    dense_class, model_class = Qwen2ForCausalLM, NeuronmmQwen2Model


class NeuronmmQwen3Model(NeuronmmModel, Qwen3Model):
    config_class = NeuronmmQwen3Config


class NeuronmmQwen3ForCausalLM(NeuronmmForCausalLM, Qwen3ForCausalLM):
    config_class = NeuronmmQwen3Config
    dense_class, model_class = Qwen3ForCausalLM, NeuronmmQwen3Model
