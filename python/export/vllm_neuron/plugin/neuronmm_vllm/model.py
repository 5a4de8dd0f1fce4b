"""The plugin's own models with smaller MLPs.

Everything else is the plugin's: attention, norms, cache and loader. Tensors keep their names,
because the plugin's load_weights loads a tensor that it has no mapping for under its own name.
"""

import importlib
import os
import pathlib

from safetensors import safe_open

from .kernels import kernel_of
from .neuronmm_mlp import FORMS, LowRankMLP, smaller_mlps

# The packages export the classes. Their modules have other names in forks of the plugin.
# Mistral's layers are Llama's. `neuronmm export` refuses models with features that the plugin lacks
# (a sliding window, biases, tied embeddings in Qwen3).
DENSE_CLASSES = {
    "neuronmm_llama": ("vllm_neuron.model.llama3", "LlamaForCausalLM"),
    "neuronmm_mistral": ("vllm_neuron.model.llama3", "LlamaForCausalLM"),
    "neuronmm_qwen3": ("vllm_neuron.model.qwen3", "Qwen3ForCausalLM"),
}


class PluginMLPInterface:
    """An MLP with the interface that the plugin's decoder layers call: hidden_states [tokens,
    hidden_size].
    """

    def forward(self, hidden_states, is_prefill):
        return super().forward(hidden_states)


class KernelMLP(PluginMLPInterface, LowRankMLP):
    """An MLP of two factors per matrix.

    If `kernel` is set, a prefill of exactly the kernel's rows is computed by that fused kernel.
    """

    kernel = None

    def use_kernel(self, kernel):
        """Makes prefills use `kernel`.

        The kernel reads U [in, r] and V [r, out], which are the transposed factors, so that the
        factors are in memory twice. They are transposed on the host, because a device runs only
        what was compiled, and this is not.
        """
        self.kernel = kernel
        for name in self.ranks:
            for ending in ("v", "u"):
                weight = getattr(self, f"{name}_{ending}_proj").weight.detach()
                transposed = weight.cpu().t().contiguous().to(weight.device)
                self.register_buffer(f"{name}_{ending}_t", transposed, persistent=False)

    def forward(self, hidden_states, is_prefill):
        if self.kernel is None or not is_prefill or hidden_states.shape[0] != self.kernel.rows:
            return super().forward(hidden_states, is_prefill)
        operands = [getattr(self, f"{name}_{ending}_t") for name in self.ranks for ending in ("v", "u")]
        return self.kernel.run(hidden_states, *operands)


def with_plugin_interface(form):
    return KernelMLP if form is LowRankMLP else type(f"Phased{form.__name__}", (PluginMLPInterface, form), {})


PLUGIN_FORMS = {name: with_plugin_interface(form) for name, form in FORMS.items()}


def rope_theta_of(config):
    parameters = getattr(config, "rope_parameters", None) or {}
    return parameters.get("rope_theta", getattr(config, "rope_theta", None))


def with_rope(hf_config):
    """Sets both fields of RoPE in a config.

    The plugin's configs replace a missing field by a value of their own. Which of the two fields
    exists depends on the version of transformers.
    """
    theta = rope_theta_of(hf_config)
    hf_config.rope_theta = theta
    if not getattr(hf_config, "rope_parameters", None):
        scaling = getattr(hf_config, "rope_scaling", None) or {"rope_type": "default"}
        hf_config.rope_parameters = scaling | {"rope_theta": theta}
    return hf_config


class SmallerMLPs:
    """Replaces the MLPs of one of the plugin's model classes. Must be its first base class."""

    @classmethod
    def from_configs(cls, hf_config, neuron_config):
        model = super().from_configs(with_rope(hf_config), neuron_config)
        if model.world_size != 1:
            raise ValueError(
                f"expected tensor_parallel_size=1, found {model.world_size}: first factors would be whole on every "
                "core, so run replicas instead"
            )
        if rope_theta_of(model.config) != hf_config.rope_theta:
            raise ValueError(f"the plugin's model has rope_theta {rope_theta_of(model.config)}, not {hf_config.rope_theta}")
        mlps = smaller_mlps(hf_config, hf_config.neuronmm_compression, PLUGIN_FORMS)
        for layer, mlp in zip(model.model.layers, mlps, strict=True):
            layer.mlp = mlp.to(model.config.torch_dtype)
        return model

    def load_weights(self, checkpoint_path, device, cache_dir):
        super().load_weights(checkpoint_path, device, cache_dir)
        self.fix_orders(checkpoint_path, device)
        missing = [name for name, tensor in self.named_parameters() if tensor.is_meta]
        if missing:
            raise ValueError(f"{checkpoint_path}: tensors are missing: {', '.join(missing[:8])}")
        if folder := os.environ.get("NEURONMM_KERNELS"):
            for layer in self.model.layers:
                if isinstance(layer.mlp, KernelMLP) and (kernel := kernel_of(folder, layer.mlp)):
                    layer.mlp.use_kernel(kernel)

    def load_weights_lite(self, checkpoint_path, device, cache_dir):
        super().load_weights_lite(checkpoint_path, device, cache_dir)
        self.fix_orders(checkpoint_path, device)

    def fix_orders(self, checkpoint_path, device):
        """Reads the indices of pivots, which are buffers. The plugin loads parameters only."""
        wanted = {
            f"model.layers.{index}.mlp.{name}_pivots": (layer.mlp, name)
            for index, layer in enumerate(self.model.layers)
            for name in getattr(layer.mlp, "pivoted", list)()
        }
        pivots = read_tensors(checkpoint_path, wanted)
        for mlp in dict.fromkeys(mlp for mlp, _ in wanted.values()):
            mlp.fix_orders({name: pivots[key] for key, (owner, name) in wanted.items() if owner is mlp})
            for name in mlp.pivoted():
                order = getattr(mlp, f"{name}_order")
                order.data = order.data.to(device)


def read_tensors(folder, names):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys() if name in names}
    if missing := sorted(set(names) - set(found)):
        raise ValueError(f"{folder}: tensors are missing: {', '.join(missing[:8])}")
    return found


def model_class(model_type):
    if model_type not in DENSE_CLASSES:
        raise ValueError(f"expected one of {', '.join(DENSE_CLASSES)}, found the model_type {model_type!r}")
    module, name = DENSE_CLASSES[model_type]
    dense = getattr(importlib.import_module(module), name)
    return type(f"Neuronmm{name}", (SmallerMLPs, dense), {})
