import dataclasses

import torch

from ..stub_model import DenseMLP, ForCausalLM


@dataclasses.dataclass
class LlamaConfig:
    vocab_size: int = 128256
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 16
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 64
    rms_norm_eps: float = 1e-5
    rope_parameters: dict = dataclasses.field(default_factory=lambda: {"rope_type": "default", "rope_theta": 500000.0})
    tie_word_embeddings: bool = True
    torch_dtype: torch.dtype = torch.bfloat16

    @classmethod
    def from_configs(cls, hf_config, neuron_config=None):
        fields = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in hf_config.to_dict().items() if name in fields})

    def of_decoder(self):
        rope = self.rope_parameters
        scaling = rope if rope["rope_type"] == "llama3" else None
        return dataclasses.asdict(self) | {"rope_theta": rope["rope_theta"], "rope_scaling": scaling}


class LlamaMLP(DenseMLP):
    def forward(self, hidden_states: torch.Tensor, is_prefill: bool) -> torch.Tensor:
        return super().forward(hidden_states, is_prefill)


class LlamaForCausalLM(ForCausalLM):
    mlp_class = LlamaMLP

    @classmethod
    def from_configs(cls, hf_config, neuron_config):
        return cls(LlamaConfig.from_configs(hf_config, neuron_config))
