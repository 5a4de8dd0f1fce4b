"""The class that is registered in vLLM for our architectures. The Neuron plugin's runner asks it
for a model.
"""

from torch import nn


class NeuronmmForCausalLM(nn.Module):
    """Makes models by from_configs, which the runner calls.

    The other methods are never called. vLLM looks for their names before it accepts a class as a
    model that generates text (vllm/model_executor/models/interfaces_base.py).
    """

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
        # The import loads the plugin's models, which is too early at registration.
        from .model import model_class

        return model_class(hf_config.model_type).from_configs(hf_config, neuron_config)
