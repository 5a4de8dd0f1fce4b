import dataclasses

import torch

from ..stub_model import DenseMLP, ForCausalLM


@dataclasses.dataclass
class Qwen3Config:
    vocab_size: int = 151936
    hidden_size: int = 5120
    intermediate_size: int = 25600
    num_hidden_layers: int = 64
    num_attention_heads: int = 64
    num_key_value_heads: int = 8
    head_dim: int = 128
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1_000_000.0
    tie_word_embeddings: bool = False
    torch_dtype: torch.dtype = torch.bfloat16

    @classmethod
    def from_configs(cls, hf_config, neuron_config=None):
        fields = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in hf_config.to_dict().items() if name in fields})

    def of_decoder(self):
        return dataclasses.asdict(self)


class Qwen3MLP(DenseMLP):
    def forward(self, hidden_states: torch.Tensor, is_prefill: bool) -> torch.Tensor:
        return super().forward(hidden_states, is_prefill)


class Qwen3ForCausalLM(ForCausalLM):
    mlp_class, qk_norm = Qwen3MLP, True

    @classmethod
    def from_configs(cls, hf_config, neuron_config):
        return cls(Qwen3Config.from_configs(hf_config, neuron_config))
