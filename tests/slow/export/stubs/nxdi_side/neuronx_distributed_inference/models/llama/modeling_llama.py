import torch
from torch import nn
from torch.nn import functional as F

from ..config import InferenceConfig
from ..model_base import NeuronBaseForCausalLM, NeuronBaseModel


class LlamaInferenceConfig(InferenceConfig):
    pass


class NeuronLlamaMLP(nn.Module):
    def __init__(self, config, tensor_model_parallel_group=None):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x, rmsnorm=None, residual=None, adapter_ids=None):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)), None


class NeuronLlamaModel(NeuronBaseModel):
    def init_model(self, config):
        super().init_model(config)


class NeuronLlamaForCausalLM(NeuronBaseForCausalLM):
    _model_cls = NeuronLlamaModel

    @staticmethod
    def convert_hf_to_neuron_state_dict(state_dict: dict, config: InferenceConfig) -> dict:
        state_dict["rank_util.rank"] = torch.arange(0, config.neuron_config.tp_degree, dtype=torch.int32)
        return state_dict

    @staticmethod
    def update_state_dict_for_tied_weights(state_dict):
        state_dict["lm_head.weight"] = state_dict["embed_tokens.weight"].clone()

    @classmethod
    def get_config_cls(cls):
        return LlamaInferenceConfig
