"""A stub of NxD Inference's configuration (0.7 to 0.9).

Names, parameters and the order of calls are those of NxD Inference. The code was written for these
tests.
"""

import os

import torch


class NeuronConfig:
    def __init__(self, **kwargs):
        named = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE") in ("trn1", "trn2")
        assert named or os.environ.get("STUB_DEVICE") == "1", "no device and no name of one"
        self.batch_size = kwargs.pop("batch_size", 1)
        self.seq_len = kwargs.pop("seq_len", 128)
        self.max_context_length = kwargs.pop("max_context_length", self.seq_len)
        self.tp_degree = kwargs.pop("tp_degree", 1)
        self.torch_dtype = kwargs.pop("torch_dtype", torch.bfloat16)
        self.on_cpu = kwargs.pop("on_cpu", False)
        self.mlp_kernel_enabled = kwargs.pop("mlp_kernel_enabled", False)
        assert not kwargs, kwargs


class InferenceConfig:
    def __init__(self, neuron_config, fused_spec_config=None, load_config=None, metadata=None, **kwargs):
        self.neuron_config = neuron_config
        if load_config is not None:
            load_config(self)
        self.metadata = metadata
        self.__dict__.update(kwargs)
        self.add_derived_config()
        missing = [name for name in self.get_required_attributes() if not hasattr(self, name)]
        assert len(missing) == 0, f"Config must define {missing}"

    def add_derived_config(self):
        self.num_cores_per_group = 1

    def get_required_attributes(self):
        return ["hidden_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "pad_token_id", "vocab_size",
                "max_position_embeddings", "rope_theta", "rms_norm_eps", "hidden_act"]  # fmt: skip

    @classmethod
    def get_neuron_config_cls(cls):
        return NeuronConfig

    def get_text_config(self):
        return self
