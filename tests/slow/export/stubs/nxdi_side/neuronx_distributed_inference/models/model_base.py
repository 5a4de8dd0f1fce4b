import types

import torch
from stub_decoder import attention, rms_norm
from torch import nn

from .application_base import NeuronApplicationBase


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))


class Attention(nn.Module):
    """The attention of a layer, with the weights q_proj, k_proj, v_proj and o_proj.

    The norms of q and k are q_layernorm and k_layernorm, which differ from the names in
    checkpoints.
    """

    def __init__(self, config, bias, qk_norm):
        super().__init__()
        heads, shared = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        for name, size in (("q", heads), ("k", shared), ("v", shared)):
            self.add_module(f"{name}_proj", nn.Linear(config.hidden_size, size, bias=bias))
        self.o_proj = nn.Linear(heads, config.hidden_size, bias=False)
        self.q_layernorm, self.k_layernorm = (Norm(config.head_dim) if qk_norm else None for _ in "qk")

    def forward(self, x, config):
        weights = {name: getattr(self, f"{name}_proj").weight for name in "qkvo"}
        weights |= {f"{name}_bias": getattr(self, f"{name}_proj").bias for name in "qkv"}
        if self.q_layernorm is not None:
            weights |= {"q_norm": self.q_layernorm.weight, "k_norm": self.k_layernorm.weight}
        return attention(x, weights, vars(config))


class DecoderLayer(nn.Module):
    def __init__(self, config, bias=False, qk_norm=False):
        super().__init__()
        from .llama.modeling_llama import NeuronLlamaMLP

        self.self_attn = Attention(config, bias, qk_norm)
        self.mlp = NeuronLlamaMLP(config)
        self.input_layernorm, self.post_attention_layernorm = Norm(config.hidden_size), Norm(config.hidden_size)

    def call_mlp(self, x):
        hidden_states, _ = self.mlp(x, rmsnorm=None, adapter_ids=None)
        return hidden_states

    def forward(self, x, config):
        x = x + self.self_attn(rms_norm(x[0], self.input_layernorm.weight, config.rms_norm_eps), config)[None]
        return x + self.call_mlp(rms_norm(x, self.post_attention_layernorm.weight, config.rms_norm_eps))


class NeuronBaseModel(nn.Module):
    bias = qk_norm = False
    layer_class = DecoderLayer

    def __init__(self, config, optimize_inference=True):
        super().__init__()
        self.config = config
        self.setup_attr_for_model(config)
        self.init_model(config)

    def setup_attr_for_model(self, config):
        self.on_device_sampling = False

    def init_model(self, config):
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([self.layer_class(config, self.bias, self.qk_norm) for _ in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @torch.no_grad()
    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.config)
        return self.lm_head(rms_norm(x, self.norm.weight, self.config.rms_norm_eps))


class NeuronBaseForCausalLM(NeuronApplicationBase):
    _model_cls = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        text = self.config.get_text_config()
        assert text.output_attentions is False and text.output_hidden_states is False and text.use_return_dict
        self.seen = None

    def reset(self):
        self.seen = torch.zeros(1, 0, dtype=torch.long)

    def forward(self, input_ids=None, seq_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
                inputs_embeds=None, sampling_params=None, **kwargs):  # fmt: skip
        """Returns the logits of the last token as [1, 1, vocabulary].

        The ids of all tokens so far take the place of the KV cache. When a token is decoded, the
        attention mask covers the positions in the cache alone (attention_base.py,
        compute_for_token_gen). A longer mask would cover a position that nothing was written to.
        """
        before = position_ids[0, 0].item()
        assert before == self.seen.shape[1] and attention_mask.shape == (1, before or input_ids.shape[1]), attention_mask.shape
        assert input_ids.shape[1] <= self.neuron_config.max_context_length and seq_ids.tolist() == [0]
        self.seen = torch.cat([self.seen, input_ids], 1)
        return types.SimpleNamespace(logits=self.decoder(self.seen)[:, -1:])
