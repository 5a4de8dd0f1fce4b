"""Tiny models of every family, with settings that make each of its switches act.

A recipe has the name of its golden file, the classes of transformers, the fields of the config, and
`toggles`: changes of single settings, each of which must change the logits. A switch that changes
nothing is not tested.
"""

SIZES = dict(vocab_size=48, hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
WIDE = dict(SIZES, head_dim=32)  # head_dim is not hidden_size / heads
LOCAL, FULL = "sliding_attention", "full_attention"


def rope(**fields):
    return {"rope_parameters": dict(rope_type="default", rope_theta=10000.0) | fields}


YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=8)
LLAMA3 = rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LONGROPE = rope(rope_type="longrope", partial_rotary_factor=0.5, short_factor=[1.0, 1.5, 2.0, 3.0],
                long_factor=[2.0, 4.0, 8.0, 16.0])

# An odd number of experts finds errors in strides.
FIVE = dict(num_experts=5, num_experts_per_tok=2)
GPT_OSS = dict(WIDE, intermediate_size=96, sliding_window=8, num_local_experts=5, num_experts_per_tok=2) | rope(
    rope_type="yarn", factor=4.0, original_max_position_embeddings=64, truncate=False, beta_fast=32.0, beta_slow=1.0)

RECIPES = {
    "llama": ("Llama", WIDE | LLAMA3, {}),
    "llama_biases": ("Llama", WIDE | rope() | dict(attention_bias=True, mlp_bias=True), {}),
    "mistral": ("Mistral", WIDE | rope() | dict(sliding_window=8), dict(sliding_window=None)),
    "qwen2": ("Qwen2", SIZES | rope() | dict(use_sliding_window=True, sliding_window=8, max_window_layers=1,
                                             layer_types=[FULL, LOCAL]), dict(layer_types=[LOCAL, LOCAL])),
    "qwen3": ("Qwen3", WIDE | rope() | dict(attention_bias=True, tie_word_embeddings=True), {}),
    "phi3": ("Phi3", SIZES | LONGROPE | dict(original_max_position_embeddings=16, sliding_window=8),
             dict(sliding_window=None)),
    "phi4": ("Phi3", SIZES | rope() | dict(tie_word_embeddings=True), {}),
    "granite": ("Granite", WIDE | rope() | dict(embedding_multiplier=12.0, attention_multiplier=0.1,
                                                residual_multiplier=0.22, logits_scaling=8.0,
                                                tie_word_embeddings=True),
                dict(embedding_multiplier=1.0, attention_multiplier=0.2, residual_multiplier=1.0, logits_scaling=1.0)),
    "granite_biases": ("Granite", SIZES | rope() | dict(attention_bias=True, mlp_bias=True), {}),
    "granite4": ("GraniteMoeHybrid", SIZES | rope() | dict(
        layer_types=[FULL] * 2, num_local_experts=0, shared_intermediate_size=80, mamba_n_heads=4, mamba_d_head=32,
        position_embedding_type="rope", embedding_multiplier=12.0, attention_multiplier=0.1,
        residual_multiplier=0.22, logits_scaling=8.0), dict(position_embedding_type=None)),
    "granite4_nope": ("GraniteMoeHybrid", SIZES | rope() | dict(
        layer_types=[FULL] * 2, num_local_experts=0, shared_intermediate_size=80, mamba_n_heads=4, mamba_d_head=32,
        position_embedding_type=None, attention_multiplier=0.1), {}),
    "seed_oss": ("SeedOss", WIDE | rope() | dict(attention_bias=True, attention_out_bias=True, mlp_bias=True), {}),
    "seed_oss_plain": ("SeedOss", WIDE | rope() | dict(attention_bias=False), {}),
    "ernie4_5": ("Ernie4_5", WIDE | rope(rope_theta=500000.0) | dict(use_bias=True), {}),
    "ernie4_5_plain": ("Ernie4_5", WIDE | rope() | dict(use_bias=False, tie_word_embeddings=False), {}),
    "qwen2_5_vl": ("Qwen2_5_VL", SIZES | rope(rope_theta=1000000.0, mrope_section=[2, 3, 3]), {}),
    "qwen3_vl": ("Qwen3VL", WIDE | rope(rope_theta=500000.0, mrope_section=[6, 5, 5]), {}),
    "mistral3": ("Mistral3:Mistral", WIDE | rope() | dict(sliding_window=None), {}),
    "ministral3": ("Mistral3:Ministral3", WIDE | rope(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=8, llama_4_scaling_beta=0.3,
        mscale=1.0, mscale_all_dim=1.0, beta_fast=32.0, beta_slow=1.0), {}),
    "ministral3_text": ("Ministral3", WIDE | rope(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=8, llama_4_scaling_beta=0.3), {}),
    "ministral": ("Ministral", WIDE | rope() | dict(layer_types=[LOCAL, FULL], sliding_window=8),
                  dict(layer_types=[FULL, FULL])),
    "smollm3": ("SmolLM3", SIZES | rope() | dict(num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0]),
                dict(no_rope_layers=[1, 1, 1, 0])),
    "smollm3_window": ("SmolLM3", SIZES | rope() | dict(
        num_hidden_layers=4, use_sliding_window=True, sliding_window=8, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=False), dict(layer_types=[FULL] * 4)),
    "smollm3_default": ("SmolLM3", SIZES | rope() | dict(num_hidden_layers=4), {}),
    "olmo2": ("Olmo2", SIZES | rope(), {}),
    "hunyuan": ("HunYuanDenseV1", WIDE | rope(rope_type="dynamic", alpha=1000.0, factor=1.0), {}),
    "hunyuan_biases": ("HunYuanDenseV1", WIDE | rope() | dict(attention_bias=True, tie_word_embeddings=True), {}),
    "gemma2": ("Gemma2", WIDE | rope() | dict(
        query_pre_attn_scalar=24, sliding_window=8, attn_logit_softcapping=5.0, final_logit_softcapping=3.0),
        dict(query_pre_attn_scalar=48, sliding_window=16, attn_logit_softcapping=None, final_logit_softcapping=None)),
    "gemma2_head_dim": ("Gemma2", WIDE | rope() | dict(query_pre_attn_scalar=32, sliding_window=8), {}),
    "gemma3": ("Gemma3Text", WIDE | dict(
        num_hidden_layers=3, sliding_window=8, layer_types=[LOCAL, LOCAL, FULL], query_pre_attn_scalar=24,
        rope_parameters={FULL: dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                         LOCAL: dict(rope_type="default", rope_theta=10000.0)}),
        dict(sliding_window=16, query_pre_attn_scalar=48)),
    "gemma3_cap": ("Gemma3Text", WIDE | dict(
        num_hidden_layers=3, sliding_window=8, layer_types=[LOCAL, LOCAL, FULL], final_logit_softcapping=3.0,
        query_pre_attn_scalar=32), dict(final_logit_softcapping=None)),
    "gemma3_multimodal": ("Gemma3", WIDE | dict(
        num_hidden_layers=3, sliding_window=8, layer_types=[LOCAL, LOCAL, FULL], query_pre_attn_scalar=32), {}),
    "olmo3": ("Olmo3", SIZES | dict(
        layer_types=[LOCAL, FULL], sliding_window=8,
        rope_parameters={FULL: dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32,
                                    rope_theta=10000.0),
                         LOCAL: dict(rope_type="default", rope_theta=10000.0)}), dict(sliding_window=16)),
    "exaone4": ("Exaone4", SIZES | rope() | dict(num_hidden_layers=4, layer_types=[LOCAL, LOCAL, LOCAL, FULL],
                                                 sliding_window=8), dict(sliding_window=16)),
    "qwen3_moe": ("Qwen3Moe", WIDE | rope() | FIVE | dict(
        num_hidden_layers=3, moe_intermediate_size=24, norm_topk_prob=True, mlp_only_layers=[1]),
        dict(norm_topk_prob=False)),
    "qwen3_moe_undivided": ("Qwen3Moe", WIDE | rope() | FIVE | dict(
        num_hidden_layers=4, num_experts=3, moe_intermediate_size=24, norm_topk_prob=False, decoder_sparse_step=2,
        attention_bias=True), dict(norm_topk_prob=True)),
    "qwen3_moe_plain": ("Qwen3Moe", WIDE | rope() | FIVE | dict(
        moe_intermediate_size=24, norm_topk_prob=True, tie_word_embeddings=True), {}),
    "mixtral": ("Mixtral", WIDE | rope(rope_theta=1000000.0) | FIVE, dict(num_experts_per_tok=3)),
    "olmoe": ("Olmoe", SIZES | rope() | FIVE | dict(clip_qkv=1.0, norm_topk_prob=True),
              dict(clip_qkv=None, norm_topk_prob=False)),
    "olmoe_plain": ("Olmoe", SIZES | rope() | FIVE, dict(norm_topk_prob=True)),
    "granite_moe": ("GraniteMoe", SIZES | rope() | dict(
        num_local_experts=5, num_experts_per_tok=2,
        embedding_multiplier=12.0, attention_multiplier=0.1, residual_multiplier=0.22, logits_scaling=8.0,
        tie_word_embeddings=True),
        dict(embedding_multiplier=1.0, attention_multiplier=0.2, residual_multiplier=1.0, logits_scaling=1.0)),
    "gpt_oss": ("GptOss", GPT_OSS | dict(swiglu_limit=1.0, swiglu_alpha=1.5, layer_types=[FULL, LOCAL]),
                dict(swiglu_limit=7.0, swiglu_alpha=1.702, layer_types=[LOCAL, FULL], sliding_window=4)),
    "gpt_oss_plain": ("GptOss", GPT_OSS, {}),
    "gpt_oss_mxfp4": ("GptOss", GPT_OSS | dict(swiglu_limit=1.0), dict(swiglu_limit=7.0)),
    "exaone4_full": ("Exaone4", SIZES | LLAMA3 | dict(layer_types=[FULL, FULL], sliding_window=None), {}),
}

# These settings are those that llama.cpp's converter cannot express or that llama.cpp computes otherwise.
WITHOUT_GGUF = {"ministral", "granite4", "granite4_nope", "qwen2", "smollm3", "smollm3_window", "exaone4", "gemma2",
                "gemma3", "ernie4_5", "qwen3_moe", "qwen3_moe_undivided", "olmoe", "gpt_oss", "gpt_oss_mxfp4"}
