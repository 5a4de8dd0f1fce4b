"""What vLLM's registry knows our architectures by. The Neuron plugin's runner asks it for a model, which it makes."""

from torch import nn


class NeuronmmForCausalLM(nn.Module):
    """from_configs is what the runner calls. The other methods are what vLLM looks for in a class, by name, before it
    takes it for a model that generates text (vllm/model_executor/models/interfaces_base.py); none is ever called."""

    def __init__(self, *, vllm_config, prefix=""):
        raise NotImplementedError("these models run in the vLLM Neuron plugin, which calls from_configs")

    def embed_input_ids(self, input_ids):
        raise NotImplementedError

    def forward(self, input_ids, positions, **kwargs):
        raise NotImplementedError

    def compute_logits(self, hidden_states):
        raise NotImplementedError

    @classmethod
    def from_configs(cls, hf_config, neuron_config):
        from .model import model_class  # imports the plugin's models, which is too early where vLLM registers

        return model_class(hf_config.model_type).from_configs(hf_config, neuron_config)
