"""A vLLM plugin with the models whose MLPs neuronmm has made smaller, for vLLM Neuron. Never run on
a Trainium.
"""

ARCHITECTURES = ("NeuronmmLlamaForCausalLM", "NeuronmmMistralForCausalLM", "NeuronmmQwen3ForCausalLM")


def register():
    """Registers the architectures. vLLM calls this function in each of its processes before it
    reads a model's config.
    """
    from vllm import ModelRegistry

    from .factory import NeuronmmForCausalLM

    for architecture in ARCHITECTURES:
        ModelRegistry.register_model(architecture, NeuronmmForCausalLM)
