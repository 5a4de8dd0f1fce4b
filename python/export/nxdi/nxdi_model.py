"""NxD Inference's own models with smaller MLPs. Never run on a Trainium.

`model_class(model_type)` returns a NeuronBaseForCausalLM, which has `compile`, `load` and `to_cpu`
like any other. `inference_config` returns its config. Everything except the MLPs is NxDI's. Models
run on one core group (tp_degree 1), because the first factors would be whole on every core.
"""

import importlib
import json
import pathlib

import torch
from neuronmm_mlp import FORMS, add_orders, smaller_mlps

DENSE_CLASSES = {
    "neuronmm_llama": ("llama", "NeuronLlamaModel", "NeuronLlamaForCausalLM"),
    # This class supports sliding windows.
    "neuronmm_mistral": ("llama", "NeuronLlamaModel", "NeuronLlamaForCausalLM"),
    "neuronmm_qwen2": ("qwen2", "NeuronQwen2Model", "NeuronQwen2ForCausalLM"),
    "neuronmm_qwen3": ("qwen3", "NeuronQwen3Model", "NeuronQwen3ForCausalLM"),
}


class NxdiMLPInterface:
    """An MLP with the interface of NeuronLlamaMLP, as NxDI's decoder layers call it.

    `rmsnorm` and `residual` are passed only with NxDI's own MLP kernels, which must be off.
    """

    def forward(self, x, rmsnorm=None, residual=None, adapter_ids=None):
        assert rmsnorm is None and residual is None, "NxDI's MLP kernels do not know factors: leave mlp_kernel_enabled off"
        return super().forward(x), None


NXDI_FORMS = {name: type(f"Neuron{form.__name__}", (NxdiMLPInterface, form), {}) for name, form in FORMS.items()}


class SmallerMLPs:
    """Replaces the MLPs of NxDI's decoder class. Must be its first base class."""

    def init_model(self, config):
        super().init_model(config)
        for layer, mlp in zip(self.layers, smaller_mlps(config, config.neuronmm_compression, NXDI_FORMS)):
            if hasattr(mlp, "fix_orders"):
                mlp.fix_orders()
            layer.mlp = mlp


class SmallerForCausalLM:
    """Changes NxDI's model class to load weights from the folder. Must be its first base class."""

    @staticmethod
    def load_hf_model(model_path, **kwargs):
        raise NotImplementedError("weights come from the folder's safetensors")


def model_class(model_type):
    if model_type not in DENSE_CLASSES:
        raise ValueError(f"expected one of {', '.join(DENSE_CLASSES)}, found the model_type {model_type!r}")
    name, decoder, causal = DENSE_CLASSES[model_type]
    module = importlib.import_module(f"neuronx_distributed_inference.models.{name}.modeling_{name}")
    dense = getattr(module, causal)

    def convert_hf_to_neuron_state_dict(state_dict, config):
        add_orders(state_dict, config.hidden_size)
        return dense.convert_hf_to_neuron_state_dict(state_dict, config)

    smaller_decoder = type(f"Neuronmm{decoder}", (SmallerMLPs, getattr(module, decoder)), {})
    methods = {
        "_model_cls": smaller_decoder,
        "convert_hf_to_neuron_state_dict": staticmethod(convert_hf_to_neuron_state_dict),
    }
    return type(f"Neuronmm{causal}", (SmallerForCausalLM, dense), methods)


def read_config(folder, seq_len):
    """Returns a load_config for InferenceConfig. NxDI's own knows only the model types of
    transformers.
    """
    fields = json.loads((pathlib.Path(folder) / "config.json").read_text())
    fields.pop("torch_dtype", None)
    fields.pop("dtype", None)  # NeuronConfig holds the dtype of the computation
    end = fields.get("eos_token_id")
    fields.setdefault("pad_token_id", (end[0] if isinstance(end, list) else end) or 0)
    fields.setdefault("head_dim", fields["hidden_size"] // fields["num_attention_heads"])
    if rope := fields.get("rope_parameters"):  # transformers 5 writes two former fields as one
        fields["rope_theta"] = rope["rope_theta"]
        fields["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    # A window that covers everything is left out, because NxDI would make a cache of its length.
    if (fields.get("sliding_window") or 0) >= seq_len:
        fields["sliding_window"] = None
    # Fields that NxDI or its adapters read, and that are not in the file. In transformers' configs
    # they exist by default.
    defaults = {"output_attentions": False, "output_hidden_states": False, "use_return_dict": True, "return_dict": True,
                "use_cache": True, "rope_scaling": None, "tie_word_embeddings": False}  # fmt: skip

    def load_config(config):
        config.__dict__.update(defaults | fields | {"_name_or_path": str(folder)})

    return load_config


def inference_config(folder, dense, seq_len, context_length, **kwargs):
    config_class = dense.get_config_cls()
    neuron_config = config_class.get_neuron_config_cls()(
        batch_size=1, tp_degree=1, seq_len=seq_len, max_context_length=context_length, torch_dtype=torch.bfloat16, **kwargs
    )
    return config_class(neuron_config, load_config=read_config(folder, seq_len))
