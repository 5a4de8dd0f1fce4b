"""The common part of the stubs of the plugin's two dense models.

Parameters have the names and layouts of the public models:
- The fused qkv_proj_weight is [hidden, q + k + v].
- o_proj_weight is [heads, hidden].
- MLP weights are [in, out].

The loader maps these names to names in the checkpoint. Any other parameter is expected in the
checkpoint under its own name.
"""

import pathlib

import torch
from safetensors.torch import load_file
from stub_decoder import attention, check_dtype, rms_norm
from torch import nn
from torch.nn import functional as F


def empty(*shape):
    return nn.Parameter(torch.empty(*shape), requires_grad=False)


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = empty(size)


class Attention(nn.Module):
    def __init__(self, config, qk_norm):
        super().__init__()
        self.sizes = [heads * config.head_dim for heads in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
        self.qkv_proj_weight = empty(config.hidden_size, sum(self.sizes))
        self.o_proj_weight = empty(self.sizes[0], config.hidden_size)
        self.q_norm, self.k_norm = (Norm(config.head_dim) if qk_norm else None for _ in "qk")

    def forward(self, x, config):
        q, k, v = self.qkv_proj_weight.split(self.sizes, dim=1)
        weights = {"q": q.t(), "k": k.t(), "v": v.t(), "o": self.o_proj_weight.t()}
        if self.q_norm is not None:
            weights |= {"q_norm": self.q_norm.weight, "k_norm": self.k_norm.weight}
        return attention(x, weights, config)


class DenseMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj_weight = empty(config.hidden_size, config.intermediate_size)
        self.up_proj_weight = empty(config.hidden_size, config.intermediate_size)
        self.down_proj_weight = empty(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states, is_prefill):
        return F.silu(hidden_states @ self.gate_proj_weight) * (hidden_states @ self.up_proj_weight) @ self.down_proj_weight


class Layer(nn.Module):
    def __init__(self, config, mlp_class, qk_norm):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(config.hidden_size), Norm(config.hidden_size)
        self.self_attn = Attention(config, qk_norm)
        self.mlp = mlp_class(config)

    def forward(self, x, config, is_prefill):
        eps = config["rms_norm_eps"]
        x = x + self.self_attn(rms_norm(x, self.input_layernorm.weight, eps), config)
        return x + self.mlp(rms_norm(x, self.post_attention_layernorm.weight, eps), is_prefill=is_prefill)


class Backbone(nn.Module):
    def __init__(self, config, mlp_class, qk_norm):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config, mlp_class, qk_norm) for _ in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)


class ForCausalLM(nn.Module):
    mlp_class, qk_norm, world_size = DenseMLP, False, 1

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Backbone(config, self.mlp_class, self.qk_norm)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, is_prefill):
        config = self.config.of_decoder()
        # Tracing needs the shapes of the MLPs alone.
        if input_ids.is_meta:
            zeros = torch.zeros(len(input_ids), config["hidden_size"], device="meta", dtype=self.config.torch_dtype)
            for layer in self.model.layers:
                torch.compile(layer.mlp, fullgraph=True, backend="eager")(zeros, is_prefill=is_prefill)
            return None
        x = self.model.embed_tokens(input_ids)
        for layer in self.model.layers:
            x = layer(x, config, is_prefill)
        return self.lm_head(rms_norm(x, self.model.norm.weight, config["rms_norm_eps"]))

    def sources(self, name):
        """Returns the names of the checkpoint's tensors that make up a parameter."""
        if name == "lm_head.weight" and self.config.tie_word_embeddings:
            return ["model.embed_tokens.weight"]
        stem, _, last = name.rpartition(".")
        if last == "qkv_proj_weight":
            return [f"{stem}.{part}_proj.weight" for part in "qkv"]
        return [f"{stem}.{last.removesuffix('_weight')}.weight"] if last.endswith("_proj_weight") else [name]

    def load_weights(self, checkpoint_path: str, device: torch.device, cache_dir: str | None) -> None:
        tensors = {}
        for path in sorted(pathlib.Path(checkpoint_path).glob("*.safetensors")):
            tensors |= load_file(path)
        loaded, wanted = {}, check_dtype(self.config.torch_dtype)
        # The loader does not load buffers.
        for name, parameter in self.named_parameters():
            found = torch.cat([tensors[source] for source in self.sources(name)])
            found = found.t() if name.endswith("_proj_weight") else found
            assert found.shape == parameter.shape, f"{name}: {found.shape}, expected {parameter.shape}"
            loaded[name] = found.to(wanted) if found.is_floating_point() else found
        self.load_state_dict(loaded, strict=False, assign=True)

    def load_weights_lite(self, checkpoint_path: str, device: torch.device, cache_dir: str | None) -> None:
        pass
