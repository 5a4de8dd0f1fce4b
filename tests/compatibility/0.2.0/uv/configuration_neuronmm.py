"""config.json of a model whose weights neuronmm has made smaller.

The fields are those of the original architecture and two more:

    neuronmm_compression   its "form" (absent: "uv"), and "ranks": for each layer the rank of gate, up and down; 0 is a
                           dense matrix. A rank is of two factors in the form uv, else a number of pivots. "input":
                           pivots that gate and up share; "neurons": rows of gate and up, if not intermediate_size
    neuronmm_quantization  "bits" (8, 6 or 4) and "group_size" (of 4 bits 16 or 32, else 128) of all linear weights, but for
                           the modules that "exceptions" names by the last part of their names, or of one layer as
                           "layers.3.mlp.down_proj", with entries like this

A field that is absent means that nothing of the kind was done.
"""

from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

# An MLP that is split across devices is split where gate and up end and down begins: first factors of gate and up and
# second ones of down are whole on each.
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
