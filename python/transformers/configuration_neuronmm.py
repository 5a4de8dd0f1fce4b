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

import transformers

# An MLP that is split across devices is split between gate and up on one side and down on the
# other. The first factors of gate and up and the second factor of down are whole on each device.
FACTOR_TP_PLAN = {
    "layers.*.mlp.gate_u_proj": "colwise",
    "layers.*.mlp.up_u_proj": "colwise",
    "layers.*.mlp.down_v_proj": "rowwise",
}

# The families by the beginning of their class names, with their class in transformers.
CONFIGS = {
    "Llama": "LlamaConfig",
    "Mistral": "MistralConfig",
    "Qwen2": "Qwen2Config",
    "Qwen3": "Qwen3Config",
    "Phi3": "Phi3Config",
    "Granite": "GraniteConfig",
    "SeedOss": "SeedOssConfig",
    "Ministral": "MinistralConfig",
    "Ministral3": "Ministral3Config",
    "SmolLM3": "SmolLM3Config",
    "Olmo2": "Olmo2Config",
    "Olmo3": "Olmo3Config",
    "HunYuanDenseV1": "HunYuanDenseV1Config",
    "Gemma2": "Gemma2Config",
    "Gemma3": "Gemma3TextConfig",
    "Exaone4": "Exaone4Config",
}


def config_class(stem):
    dense = getattr(transformers, CONFIGS[stem])
    fields = {
        "__module__": __name__,
        "__annotations__": {"neuronmm_compression": dict | None, "neuronmm_quantization": dict | None},
        "model_type": f"neuronmm_{dense.model_type}",
        "base_model_tp_plan": (dense.base_model_tp_plan or {}) | FACTOR_TP_PLAN,
        "neuronmm_compression": None,
        "neuronmm_quantization": None,
    }
    return type(f"Neuronmm{stem}Config", (dense,), fields)


def config_of(stem):
    """Returns the class of a family, which is made when it is first asked for."""
    name = f"Neuronmm{stem}Config"
    if name not in globals():
        globals()[name] = config_class(stem)
    return globals()[name]


def __getattr__(name):
    """Finds the class that config.json names. Older versions of transformers lack some families."""
    stem = name.removeprefix("Neuronmm").removesuffix("Config")
    if name != f"Neuronmm{stem}Config" or stem not in CONFIGS:
        raise AttributeError(name)
    return config_of(stem)
