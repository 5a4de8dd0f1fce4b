"""Models whose weights neuronmm has made smaller.

Their MLPs may be smaller, their weights may have 8, 6 or 4 bits, or both. Everything except these
linear layers is transformers' own code.
"""

import torch
import transformers
from torch import nn
from torch.nn import functional as F

from .configuration_neuronmm import CONFIGS, config_of
from .neuronmm_mlp import LowRankMLP, smaller_mlps

SCALED = 128  # columns of a row that share a scale
FLOATS = 16  # the "bits" of a module that keeps its floats


class LowBitWeight(nn.Module):
    """A weight of 8, 6 or 4 bits as the file stores it.

    W[i, j] = weight_scale[i, j // 128] * byte[i, j], where byte depends on the bits:

    - 8 bits: the file stores byte itself.
    - 6 bits: byte = q - 32. A row stores the low 4 bits of all q, two to a byte with the even
      column in the low half. The high 2 bits follow, four to a byte.
    - 4 bits: q is stored like those low 4 bits. byte = sc * q - sc * zz // 2, where weight_group
      holds sc - 1 (low half) and zz - 8 (high half) of every `group` columns.

    The scales are bfloat16 in the file and stay bfloat16, whatever dtype the model computes in.
    """

    def __init__(self, rows, columns, bits, group):
        super().__init__()
        self.columns, self.bits, self.group = columns, bits, group
        self.halves = (columns + 1) // 2
        width = {8: columns, 6: self.halves + (columns + 3) // 4, 4: self.halves}[bits]
        self.weight = self.stored(rows, width, torch.int8 if bits == 8 else torch.uint8)
        self.weight_scale = self.stored(rows, (columns + SCALED - 1) // SCALED, torch.bfloat16)
        if bits == 4:
            self.weight_group = self.stored(rows, (columns + group - 1) // group, torch.uint8)

    @staticmethod
    def stored(rows, columns, dtype):
        return nn.Parameter(torch.zeros(rows, columns, dtype=dtype), requires_grad=False)

    def parts(self, stored, width):
        """Returns the numbers of `width` bits in the bytes of `stored`, the lowest bits of a byte
        first.
        """
        shifts = range(0, 8, width)
        return torch.stack([stored >> shift & (1 << width) - 1 for shift in shifts], dim=-1).flatten(-2)[..., : self.columns]

    def byte_values(self, rows):
        weight = self.weight[rows]
        if self.bits == 8:
            return weight
        q = self.parts(weight[..., : self.halves], 4).to(torch.int16)
        if self.bits == 6:
            return q + 16 * self.parts(weight[..., self.halves :], 2) - 32
        groups = self.weight_group[rows].to(torch.int16)
        sc, zz = (groups & 15) + 1, (groups >> 4) + 8
        sc, zero = (x.repeat_interleave(self.group, dim=-1)[..., : self.columns] for x in (sc, sc * zz // 2))
        return q * sc - zero

    def values(self, rows, dtype):
        scales = self.weight_scale[rows].to(dtype).repeat_interleave(SCALED, dim=-1)
        return self.byte_values(rows).to(dtype) * scales[..., : self.columns]

    def multiply(self, x, bias=None):
        return F.linear(x, self.values(slice(None), x.dtype), bias)


class LowBitLinear(LowBitWeight):
    def __init__(self, linear, bits, group):
        super().__init__(linear.out_features, linear.in_features, bits, group)
        self.bias = linear.bias

    def forward(self, x):
        return self.multiply(x, self.bias)


class LowBitEmbedding(LowBitWeight):
    """An embedding table, which may also be the LM head."""

    def __init__(self, embedding, bits, group):
        super().__init__(embedding.num_embeddings, embedding.embedding_dim, bits, group)
        # The buffer has the dtype that the model computes in. No other tensor of this module has it.
        self.register_buffer("computes_in", torch.empty(0), persistent=False)
        # Gemma 3 multiplies what it reads from the table.
        self.scale = getattr(embedding, "scalar_embed_scale", 1.0)

    def forward(self, ids):
        dtype = self.computes_in.dtype
        return self.values(ids, dtype) * torch.tensor(self.scale, dtype=dtype)


class TiedLowBitHead(nn.Module):
    """An LM head that multiplies with the embedding table. The tuple hides the table from torch's
    search for submodules.
    """

    def __init__(self, embedding):
        super().__init__()
        self.table = (embedding,)

    def forward(self, x):
        return self.table[0].multiply(x)


def format_of(config, module):
    """Returns the bits and the group size of a linear layer of a rounded model.

    module: a name such as "lm_head" or "layers.3.mlp.down_proj". An exception in config.json names
    the module itself, or the last part of its name, which then holds for all layers.
    """
    quantization = config.neuronmm_quantization
    exceptions = quantization.get("exceptions", {})
    found = exceptions.get(module) or exceptions.get(module.rpartition(".")[2], quantization)
    bits, group = found.get("bits"), found.get("group_size")
    if bits == FLOATS and found is not quantization:
        return FLOATS, None
    if bits not in (8, 6, 4) or group not in ((16, 32) if bits == 4 else (SCALED,)):
        raise ValueError(
            'config.json: "neuronmm_quantization": this code reads 8 and 6 bits with a group_size of 128, and 4 bits with '
            f"one of 16 or 32, found {found}"
        )
    return bits, group


class SplitProjections:
    """Stands for the fused projection of q, k and v. The three are modules of the attention."""

    def __init__(self, attention):
        self.attention = attention

    def __call__(self, x):
        return torch.cat([self.attention.q_proj(x), self.attention.k_proj(x), self.attention.v_proj(x)], dim=-1)


def split_projections(attention, config):
    """Replaces the fused projection of a Phi-3 layer by three, as the folder has them."""
    head = config.hidden_size // config.num_attention_heads
    widths = {"q": config.num_attention_heads, "k": config.num_key_value_heads, "v": config.num_key_value_heads}
    for letter, heads in widths.items():
        setattr(attention, f"{letter}_proj", nn.Linear(config.hidden_size, heads * head, bias=False))
    del attention.qkv_proj
    attention.qkv_proj = SplitProjections(attention)


class NoRotary(nn.Module):
    """Positions of a model that does not turn queries and keys."""

    def __init__(self, config):
        super().__init__()
        self.width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def forward(self, x, position_ids):
        cos = torch.ones(*position_ids.shape, self.width, dtype=x.dtype, device=x.device)
        return cos, torch.zeros_like(cos)


class NeuronmmPreTrainedModel:
    """Common code of all models here. Must be the first base class, before transformers' class."""

    _supports_attention_backend = True

    @property
    def dtype(self):
        """The dtype of the final norm, which is never rounded.

        transformers would take the dtype of the first tensor, which may be bytes.
        """
        return self.base_model.norm.weight.dtype

    @classmethod
    def from_pretrained(cls, *args, output_loading_info=False, **kwargs):
        """Loads a model, and raises ValueError if tensors are missing. transformers would warn and
        use random numbers.
        """
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        missing = sorted(info["missing_keys"])
        if missing:
            more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            raise ValueError(f"{model.config._name_or_path}: tensors are missing: {', '.join(missing[:8])}{more}")
        return (model, info) if output_loading_info else model


class NeuronmmModel(NeuronmmPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        if config.model_type == "neuronmm_phi3":
            for layer in self.layers:
                split_projections(layer.self_attn, config)
                layer.mlp = LowRankMLP(config, dict(gate=0, up=0, down=0))
        if getattr(config, "position_embedding_type", "rope") == "nope":
            self.rotary_emb = NoRotary(config)
        if config.neuronmm_compression is not None:
            for layer, mlp in zip(self.layers, smaller_mlps(config, config.neuronmm_compression)):
                layer.mlp = mlp
        if config.neuronmm_quantization is not None:
            self.make_low_bit(config)
        self.post_init()

    def make_low_bit(self, config):
        for index, layer in enumerate(self.layers):
            for part in ("self_attn", "mlp"):
                block = getattr(layer, part)
                for name, module in list(block.named_children()):
                    if isinstance(module, nn.Linear):
                        path = f"layers.{index}.{part}.{name}"
                        setattr(block, name, LowBitLinear(module, *format_of(config, path)))
        # A table that is not the LM head is rounded only if config.json names it.
        named = "embed_tokens" in config.neuronmm_quantization.get("exceptions", {})
        bits, group = format_of(config, "embed_tokens")
        if bits != FLOATS and (named or config.tie_word_embeddings):
            self.embed_tokens = LowBitEmbedding(self.embed_tokens, bits, group)


class NeuronmmForCausalLM(NeuronmmPreTrainedModel):
    """Common code of the causal models. `dense_class` is transformers' class, and `model_class` the
    class of the decoder.
    """

    def __init__(self, config):
        # The original constructor is skipped, because it would build a dense decoder first.
        super(self.dense_class, self).__init__(config)
        self.model = self.model_class(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        rounded = config.neuronmm_quantization is not None
        if rounded and config.tie_word_embeddings and isinstance(self.model.embed_tokens, LowBitEmbedding):
            self.lm_head = TiedLowBitHead(self.model.embed_tokens)
            self._tied_weights_keys = None
        elif rounded and not config.tie_word_embeddings:
            self.lm_head = LowBitLinear(self.lm_head, *format_of(config, "lm_head"))
        self.post_init()

    def get_output_embeddings(self):
        return None if isinstance(self.lm_head, TiedLowBitHead) else self.lm_head


def decoder_of(stem):
    """Returns the class of a family's decoder, which is made when it is first asked for."""
    name = f"Neuronmm{stem}Model"
    if name not in globals():
        dense = getattr(transformers, "Gemma3TextModel" if stem == "Gemma3" else f"{stem}Model")
        fields = {"__module__": __name__, "config_class": config_of(stem)}
        globals()[name] = type(name, (NeuronmmModel, dense), fields)
    return globals()[name]


def causal_model_of(stem):
    """Returns the class of a family's decoder with an LM head."""
    name = f"Neuronmm{stem}ForCausalLM"
    if name not in globals():
        dense = getattr(transformers, f"{stem}ForCausalLM")
        fields = {
            "__module__": __name__,
            "config_class": config_of(stem),
            "dense_class": dense,
            "model_class": decoder_of(stem),
        }
        globals()[name] = type(name, (NeuronmmForCausalLM, dense), fields)
    return globals()[name]


def __getattr__(name):
    """Finds the class that config.json names. Older versions of transformers lack some families."""
    for ending, make in (("ForCausalLM", causal_model_of), ("Model", decoder_of)):
        stem = name.removeprefix("Neuronmm").removesuffix(ending)
        if name == f"Neuronmm{stem}{ending}" and stem in CONFIGS:
            return make(stem)
    raise AttributeError(name)
