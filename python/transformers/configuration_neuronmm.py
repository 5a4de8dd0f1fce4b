"""The config.json of a model whose weights neuronmm has made smaller.

The fields are those of the original architecture and two more. An absent field means that nothing
of that kind was done.

neuronmm_compression describes the smaller MLPs:

    form     the form of the MLPs; "uv" if absent
    ranks    one entry per layer with these fields:
      gate, up, down   the rank of each matrix; 0 means a dense matrix. In the form uv a matrix of
                       rank r is two factors, in other forms the rank is a number of pivots
      input            the number of pivots that gate and up share; optional
      neurons          the rows of gate and up, if not intermediate_size; optional

neuronmm_quantization describes rounded weights:

    bits         8, 6 or 4, for all linear weights
    group_size   16 or 32 for 4 bits, else 128
    exceptions   modules with other formats. A key is the last part of a module's name, or the name
                 of a module in one layer such as "layers.3.mlp.down_proj". A value is an entry with
                 bits and group_size
"""

from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

# An MLP that is split across devices is split between gate and up on one side and down on the
# other. The first factors of gate and up and the second factor of down are whole on each device.
FACTOR_TP_PLAN = {
    "layers.*.mlp.gate_u_proj": "colwise",
    "layers.*.mlp.up_u_proj": "colwise",
    "layers.*.mlp.down_v_proj": "rowwise",
}


class NeuronmmLlamaConfig(LlamaConfig):
    model_type = "neuronmm_llama"
    base_model_tp_plan = LlamaConfig.base_model_tp_plan | FACTOR_TP_PLAN

    neuronmm_compression: dict | None = None
    neuronmm_quantization: dict | None = None


class NeuronmmMistralConfig(MistralConfig):
    model_type = "neuronmm_mistral"
    base_model_tp_plan = MistralConfig.base_model_tp_plan | FACTOR_TP_PLAN

    neuronmm_compression: dict | None = None
    neuronmm_quantization: dict | None = None


class NeuronmmQwen2Config(Qwen2Config):
    model_type = "neuronmm_qwen2"
    base_model_tp_plan = Qwen2Config.base_model_tp_plan | FACTOR_TP_PLAN

    neuronmm_compression: dict | None = None
    neuronmm_quantization: dict | None = None


class NeuronmmQwen3Config(Qwen3Config):
    model_type = "neuronmm_qwen3"
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | FACTOR_TP_PLAN

    neuronmm_compression: dict | None = None
    neuronmm_quantization: dict | None = None
