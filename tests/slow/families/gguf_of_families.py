"""Writes what llama.cpp's converter writes for a model of transformers: keys, names and changed tensors.

The description is independent of the program under test. It follows the converter's rules:
- rows of q and k are reordered for architectures whose RoPE turns neighbours, except ERNIE's, whose
  rows stand in that order already;
- 1 is added to Gemma's gains;
- names change;
- the matrices of all experts of a layer become one tensor, and those of gpt-oss are divided again and transposed.
"""

import re

MODEL_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm"}
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp"}
EXPERT_NAMES = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps",
                "w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps"}
OUTPUT_NORMS = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm",
                "pre_feedforward_layernorm": "ffn_norm"}
# model_type: architecture, whether q and k are reordered
ARCHITECTURES = {
    "llama": ("llama", True), "mistral": ("llama", True), "qwen3": ("qwen3", False), "phi3": ("phi3", False),
    "granite": ("granite", True), "seed_oss": ("seed_oss", False), "ernie4_5": ("ernie4_5", False),
    "qwen2_5_vl": ("qwen2vl", False), "qwen3_vl": ("qwen3vl", False), "mistral3": ("mistral3", True),
    "ministral3": ("mistral3", True), "smollm3": ("smollm3", True), "olmo2": ("olmo2", False),
    "olmo3": ("olmo2", False), "hunyuan_v1_dense": ("hunyuan-dense", False), "gemma2": ("gemma2", False),
    "gemma3": ("gemma3", False), "gemma3_text": ("gemma3", False), "exaone4": ("exaone4", False),
    "qwen3_moe": ("qwen3moe", False), "mixtral": ("llama", True), "olmoe": ("olmoe", False),
    "granitemoe": ("granitemoe", True), "gpt_oss": ("gpt-oss", False)}


def text_config(config):
    return config.get("text_config", config)


def rope_table(config):
    table = config["rope_parameters"]
    return table.get("full_attention", table), table.get("sliding_attention")


class Keys(list):
    def __init__(self, architecture):
        super().__init__([["general.architecture", "string", architecture]])
        self.architecture = architecture

    def put(self, key, kind, value):
        if value is not None:
            self.append([f"{self.architecture}.{key}", kind, value])


def put_rope(keys, config, table):
    kind, head = table["rope_type"], config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta = table["rope_theta"]
    if table.get("alpha"):
        theta *= table["alpha"] ** (head / (head - 2))
    keys.put("rope.freq_base", "float32", theta)
    rotary = int(head * table.get("partial_rotary_factor", 1.0))
    keys.put("rope.dimension_count", "uint32", rotary)
    if kind in ("linear", "yarn"):
        keys.put("rope.scaling.type", "string", kind)
        keys.put("rope.scaling.factor", "float32", table["factor"])
    if kind == "yarn":
        keys.put("rope.scaling.original_context_length", "uint32", table["original_max_position_embeddings"])
        if keys.architecture == "mistral3":
            keys.put("rope.scaling.yarn_log_multiplier", "float32", table.get("mscale_all_dim"))
            keys.put("attention.temperature_scale", "float32", table["llama_4_scaling_beta"])


def llama3_divisors(table, head):
    """Returns the divisors that llama.cpp stores for llama3 scaling."""
    import math
    divisors = []
    for j in range(head // 2):
        wavelength = 2 * math.pi * table["rope_theta"] ** (2 * j / head)
        original = table["original_max_position_embeddings"]
        low, high = table["low_freq_factor"], table["high_freq_factor"]
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(table["factor"])
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / table["factor"] + smooth))
    return divisors


def put_family(keys, config, numbers):
    kind = config["model_type"]
    if kind in ("mistral", "phi3", "gemma2", "gemma3_text", "olmo3", "exaone4", "gpt_oss"):
        keys.put("attention.sliding_window", "uint32", config.get("sliding_window"))
    experts = config.get("num_experts", config.get("num_local_experts"))
    if experts:
        keys.put("expert_count", "uint32", experts)
        keys.put("expert_used_count", "uint32", config["num_experts_per_tok"])
    if kind in ("qwen3_moe", "gpt_oss"):
        keys.put("expert_feed_forward_length", "uint32",
                 config["moe_intermediate_size" if kind == "qwen3_moe" else "intermediate_size"])
    if kind in ("granite", "granitemoe"):
        for key, own in (("embedding_scale", "embedding_multiplier"), ("attention.scale", "attention_multiplier"),
                         ("residual_scale", "residual_multiplier"), ("logit_scale", "logits_scaling")):
            keys.put(key, "float32", config[own])
    if kind == "gemma2":
        keys.put("attn_logit_softcapping", "float32", config["attn_logit_softcapping"])
    if kind in ("gemma2", "gemma3_text"):
        keys.put("final_logit_softcapping", "float32", config["final_logit_softcapping"])
    if kind == "gemma3_text":
        keys.put("rope.freq_base_swa", "float32", config["rope_parameters"]["sliding_attention"]["rope_theta"])
    if kind in ("gemma3_text", "olmo3"):
        local = [t == "sliding_attention" for t in config["layer_types"]]
        keys.put("attention.sliding_window_pattern", "bools", local)
    if kind.startswith(("qwen2_5_vl", "qwen3_vl")):
        keys.put("rope.dimension_sections", "uint32s", config["rope_parameters"]["mrope_section"] + [0])
    if kind.startswith("qwen3_vl"):
        keys.put("n_deepstack_layers", "uint32", 0)
    if kind == "phi3" and config["rope_parameters"]["rope_type"] == "longrope":
        import math
        table, original = config["rope_parameters"], config["original_max_position_embeddings"]
        keys.put("rope.scaling.original_context_length", "uint32", original)
        ratio = config["max_position_embeddings"] / original
        keys.put("rope.scaling.attn_factor", "float32", math.sqrt(1 + math.log(ratio) / math.log(original)))
        numbers["rope_factors_long.weight"] = table["long_factor"]
        numbers["rope_factors_short.weight"] = table["short_factor"]
    if config["rope_parameters"].get("rope_type") == "llama3":
        head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        numbers["rope_freqs.weight"] = llama3_divisors(config["rope_parameters"], head)


def gguf_keys(outer, architecture, numbers):
    config = text_config(outer)
    keys = Keys(architecture)
    put = keys.put
    put("context_length", "uint32", config["max_position_embeddings"])
    put("embedding_length", "uint32", config["hidden_size"])
    put("block_count", "uint32", config["num_hidden_layers"])
    put("feed_forward_length", "uint32", config["intermediate_size"])
    put("attention.head_count", "uint32", config["num_attention_heads"])
    put("attention.head_count_kv", "uint32", config["num_key_value_heads"])
    put("attention.layer_norm_rms_epsilon", "float32", config["rms_norm_eps"])
    for key in ("attention.key_length", "attention.value_length"):
        put(key, "uint32", config.get("head_dim"))
    put_rope(keys, config, rope_table(config)[0])
    put_family(keys, config, numbers)
    return keys


def gguf_tensor(name, config, architecture, permuted):
    """Returns the GGUF name of a tensor and what happens to it, or None for parts that are left out."""
    for prefix in ("model.language_model.", "language_model.model.", "model."):
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    if name.removeprefix("language_model.") == "lm_head.weight":
        return "output.weight", {}
    module, _, ending = name.rpartition(".")
    if module in MODEL_NAMES:
        new, module = MODEL_NAMES[module], ""
    elif module.startswith("layers."):
        _, layer, module = module.split(".", 2)
        names = dict(LAYER_NAMES)
        if architecture in ("olmo2", "exaone4", "gemma2", "gemma3"):
            names |= OUTPUT_NORMS
        if architecture in ("seed_oss", "gpt-oss"):
            names["post_attention_layernorm"] = "post_attention_norm"
        new = f"blk.{layer}.{names[module]}"
    else:
        return None
    change = {}
    if permuted and module in ("self_attn.q_proj", "self_attn.k_proj"):
        change["heads"] = config["num_attention_heads" if module.endswith("q_proj") else "num_key_value_heads"]
    if architecture.startswith("gemma") and new.endswith("norm"):
        change["add"] = 1.0
    return f"{new}.{ending}", change


def expert_tensors(name, config):
    """Returns GGUF names and sources of a tensor of experts, or None for other tensors. "from" may be a list of
    tensors that are stacked. "rows" are those of each expert, "every" is a start and a step among them, and
    "transposed" sources have the inputs of an expert as its rows.
    """
    found = re.fullmatch(r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe)\.(.*)", name)
    if not found:
        return None
    layer, module = found.groups()
    def of(stem, ending, **change):
        return f"blk.{layer}.{stem}.{ending}", {"from": name} | change
    width = config["intermediate_size"]
    if module == "input_linear.weight":
        return [of("ffn_gate_exps", "weight", rows=[0, width]), of("ffn_up_exps", "weight", rows=[width, width])]
    if module == "output_linear.weight":
        return [of("ffn_down_exps", "weight", rows=[0, config["hidden_size"]])]
    if module == "experts.gate_up_proj":
        return [of("ffn_gate_exps", "weight", every=[0, 2], transposed=True),
                of("ffn_up_exps", "weight", every=[1, 2], transposed=True)]
    if module == "experts.down_proj":
        return [of("ffn_down_exps", "weight", every=[0, 1], transposed=True)]
    if module == "experts.gate_up_proj_bias":
        return [of("ffn_gate_exps", "bias", every=[0, 2]), of("ffn_up_exps", "bias", every=[1, 2])]
    if module == "experts.down_proj_bias":
        return [of("ffn_down_exps", "bias", every=[0, 1])]
    alone = re.fullmatch(r"experts\.(\d+)\.(\w+)\.weight", module)
    if not alone:
        return None
    if alone.group(1) != "0":
        return []
    count = config.get("num_experts", config.get("num_local_experts"))
    names = [name.replace(".experts.0.", f".experts.{i}.") for i in range(count)]
    return [(f"blk.{layer}.{EXPERT_NAMES[alone.group(2)]}.weight", {"from": names})]


def gguf_description(outer, tensors):
    architecture, permuted = ARCHITECTURES[outer["model_type"]]
    numbers, described = {}, {}
    for name in sorted(tensors):
        experts = expert_tensors(name, text_config(outer))
        if experts is not None:
            described |= dict(experts)
            continue
        if name.endswith("self_attn.sinks"):
            described[f"blk.{name.split('.')[2]}.attn_sinks.weight"] = {"from": name}
            continue
        found = gguf_tensor(name, text_config(outer), architecture, permuted)
        if found:
            described[found[0]] = {"from": name} | found[1]
    return {"keys": gguf_keys(outer, architecture, numbers), "tensors": described, "numbers": numbers}
