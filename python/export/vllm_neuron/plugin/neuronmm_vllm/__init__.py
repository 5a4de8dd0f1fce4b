"""Models whose MLPs neuronmm has made smaller, for the vLLM Neuron plugin. Never run on a Trainium."""

ARCHITECTURES = ("NeuronmmLlamaForCausalLM", "NeuronmmMistralForCausalLM", "NeuronmmQwen3ForCausalLM")


def register():
    """vLLM calls this in each of its processes, before it reads a model's config."""
    from vllm import ModelRegistry

    from .factory import NeuronmmForCausalLM

    for architecture in ARCHITECTURES:
        ModelRegistry.register_model(architecture, NeuronmmForCausalLM)
