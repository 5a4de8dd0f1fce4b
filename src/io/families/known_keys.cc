#include "io/families/known_keys.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// Keys that all families read.
constexpr std::string_view kRead[] = {
    "architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "max_position_embeddings", "rms_norm_eps", "initializer_range", "tie_word_embeddings",
    "rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor",
    "original_max_position_embeddings", "bos_token_id", "eos_token_id", "torch_dtype", "dtype",
    "neuronmm_compression", "neuronmm_quantization", "quantization_config", "quantization",
    "compression_config",
    // Read by the families with windows and ignored by the classes of the others.
    "sliding_window", "use_sliding_window", "max_window_layers",
    // Values other than "silu" are refused; classes without the key ignore it.
    "hidden_act", "hidden_activation"};

// Keys of published files that change nothing in a forward pass of a language model: settings of
// transformers' base class, of generation, of training, and notes of the programs that wrote them.
constexpr std::string_view kHarmless[] = {"auto_map",
                                          "use_cache",
                                          "cache_implementation",
                                          "attn_implementation",
                                          "return_dict",
                                          "return_dict_in_generate",
                                          "torchscript",
                                          "use_bfloat16",
                                          "is_decoder",
                                          "prefix",
                                          "problem_type",
                                          "id2label",
                                          "label2id",
                                          "finetuning_task",
                                          "task_specific_params",
                                          "chunk_size_feed_forward",
                                          "tf_legacy_loss",
                                          "bad_words_ids",
                                          "suppress_tokens",
                                          "begin_suppress_tokens",
                                          "do_sample",
                                          "early_stopping",
                                          "exponential_decay_length_penalty",
                                          "length_penalty",
                                          "max_length",
                                          "min_length",
                                          "max_new_tokens",
                                          "no_repeat_ngram_size",
                                          "num_beam_groups",
                                          "num_beams",
                                          "num_return_sequences",
                                          "diversity_penalty",
                                          "repetition_penalty",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "typical_p",
                                          "min_p",
                                          "remove_invalid_values",
                                          "pretraining_tp",
                                          "tensor_parallel_degree",
                                          "use_flash_attention",
                                          "use_flash_attention_2",
                                          "use_flash_attn",
                                          "fused_rms_norm",
                                          "fused_swiglu",
                                          "gradient_checkpointing",
                                          "use_rmsnorm",
                                          "is_llama_config",
                                          "max_sequence_length",
                                          "model_max_length",
                                          "max_seq_len",
                                          "seq_length",
                                          "seq_len",
                                          "n_ctx",
                                          "padding_side",
                                          "bos_token",
                                          "eos_token",
                                          "pad_token",
                                          "unk_token",
                                          "image_token_index",
                                          "boi_token_index",
                                          "eoi_token_index",
                                          "mm_tokens_per_image",
                                          "vision_config",
                                          "audio_config",
                                          "vision_feature_layer",
                                          "vision_feature_select_strategy",
                                          "projector_hidden_act",
                                          "multimodal_projector_bias",
                                          "spatial_merge_size",
                                          "org_vocab_size",
                                          "loss_type",
                                          "embedding_size_multiple",
                                          "num_nextn_predict_layers",
                                          "description",
                                          "license",
                                          "author",
                                          "language",
                                          "tags",
                                          "name",
                                          "base_model",
                                          "model_name",
                                          "datasets",
                                          "dataset",
                                          "task",
                                          "domain",
                                          "comment",
                                          "note",
                                          "notes",
                                          "_tie_by_weights",
                                          "_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_commit_hash",
                                          "_name_or_path",
                                          "_from_model_config",
                                          "_moe_implementation",
                                          "_flash_attn_2_enabled"};

// Parts of names that only harmless keys have.
constexpr std::string_view kHarmlessParts[] = {"dropout",
                                               "_pdrop",
                                               "token_id",
                                               "_version",
                                               "version_",
                                               "transformers",
                                               "unsloth",
                                               "initializer",
                                               "init_method",
                                               "init_std",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "output_scores",
                                               "output_router_logits",
                                               "aux_loss",
                                               "loss_coef",
                                               "z_loss",
                                               "name_or_path",
                                               "tokenizer",
                                               "chat_template",
                                               "checkpoint",
                                               "pretrained",
                                               "training",
                                               "finetune",
                                               "trainer",
                                               "learning_rate",
                                               "date",
                                               "encoder_no_repeat",
                                               "cross_attention",
                                               "encoder_decoder",
                                               "tie_encoder",
                                               "pruned_heads",
                                               "forced_bos",
                                               "forced_eos",
                                               "memory_efficient"};

bool is_multiplier(std::string_view key) {
  constexpr std::string_view kEndings[] = {"multiplier", "scale", "scaling", "factor", "divisor"};
  return std::ranges::any_of(kEndings, [&](auto ending) { return key.ends_with(ending); });
}

// Returns whether the value means that something is not used.
bool is_off(std::string_view key, const json& value) {
  if (value.is_null() || value == false) return true;
  if (key == "layer_types" && value.is_array())
    return std::ranges::all_of(value, [](const json& type) { return type == "full_attention"; });
  if (value.is_string() || value.is_structured()) return value.empty() || value == "";
  return value.is_number() && (value == 0 || (value == 1 && is_multiplier(key)));
}

bool is_known(std::string_view key, const Family& family) {
  const auto in = [&](const auto& list) { return std::ranges::find(list, key) != std::end(list); };
  if (in(kRead) || in(kHarmless) || in(family.keys)) return true;
  return std::ranges::any_of(kHarmlessParts,
                             [&](auto part) { return key.find(part) != std::string_view::npos; });
}

// A kind of models that is refused, by the start of its name in lower case without separators.
struct RefusedKind {
  std::string_view start, missing;
};

constexpr std::string_view kExperts = "its own kind of mixture of experts";
constexpr std::string_view kLatent = "attention over a compressed latent vector (MLA) and experts";
constexpr std::string_view kRecurrent = "layers with a recurrent state";

// The first entry that fits is taken, so longer starts come first.
constexpr RefusedKind kRefused[] = {
    {"qwen35", "gated DeltaNet layers, which keep a recurrent and a convolution state"},
    {"qwen3next", "gated DeltaNet layers, which keep a recurrent and a convolution state"},
    {"qwen3vlmoe", kExperts},
    {"qwen2moe", kExperts},
    {"qwen2vl", "the vision part's older classes; Qwen2.5-VL and Qwen3-VL run"},
    {"gemma3n", "several residual streams (AltUp), embeddings per layer and shared caches"},
    {"gemma4", "head sizes and caches that differ between layers, and embeddings per layer"},
    {"gemma", "GemmaModel's layers; Gemma 2 and Gemma 3 run"},
    {"recurrentgemma", kRecurrent},
    {"glm4moe", kExperts},
    {"glm", "RoPE on neighbouring elements of a half of each head, with fused gate and up"},
    {"chatglm", "RoPE on neighbouring elements of a half of each head, with fused gate and up"},
    {"cohere", "attention and MLP in parallel behind one LayerNorm"},
    {"commandr", "attention and MLP in parallel behind one LayerNorm"},
    {"lfm2", "short convolutions with a state of their own beside the cache"},
    {"deepseek", kLatent},
    {"kimi", kLatent},
    {"minicpm3", kLatent},
    {"granitemoehybrid", kRecurrent},
    {"granitehybrid", kRecurrent},
    {"granitemoeshared", "a dense MLP beside the experts of every layer"},
    {"llama4", kExperts},
    {"phimoe", kExperts},
    {"phi4multimodal", "the adapters of its image and audio parts"},
    {"phi4mm", "the adapters of its image and audio parts"},
    {"phi", "LayerNorm and an MLP without a gate; Phi-3 and Phi-4 run"},
    {"ernie45moe", kExperts},
    {"ernie45vl", kExperts},
    {"hunyuanv1moe", kExperts},
    {"hunyuanmoe", kExperts},
    {"exaone4moe", kExperts},
    {"exaone", "the tensor names of EXAONE 3; EXAONE 4 runs"},
    {"dbrx", kExperts},
    {"arctic", kExperts},
    {"jamba", kRecurrent},
    {"bamba", kRecurrent},
    {"zamba", kRecurrent},
    {"falconh1", kRecurrent},
    {"falconmamba", kRecurrent},
    {"mamba", kRecurrent},
    {"rwkv", kRecurrent},
    {"nemotronh", kRecurrent},
    {"nemotron", "LayerNorm and an MLP without a gate"},
    {"olmo", "a norm without gains; OLMo 2 and OLMo 3 run"},
    {"falcon", "attention and MLP in parallel, and LayerNorm"},
    {"gptneox", "LayerNorm and an MLP without a gate"},
    {"gptbigcode", "LayerNorm and an MLP without a gate"},
    {"gpt2", "LayerNorm and learned positions"},
    {"gptj", "attention and MLP in parallel, and LayerNorm"},
    {"opt", "LayerNorm and learned positions"},
    {"bloom", "LayerNorm and ALiBi positions"},
    {"mpt", "LayerNorm and ALiBi positions"},
    {"starcoder2", "LayerNorm and an MLP without a gate"},
    {"stablelm", "LayerNorm and RoPE on a part of each head"},
    {"minicpm", "MiniCPM's multipliers"},
    {"baichuan", "its fused attention and normed LM head"},
    {"internlm", "its fused attention"},
    {"apertus", "the activation xIELU"},
    {"bert", "a decoder: it is an encoder"},
    {"roberta", "a decoder: it is an encoder"},
    {"t5", "cross attention: it is an encoder and a decoder"},
    {"whisper", "audio, and cross attention"},
};

}  // namespace

Status refuse_unknown_keys(const json& document, const Family& family, const std::string& source) {
  for (const auto& [key, value] : document.items()) {
    if (is_off(key, value) || is_known(key, family)) continue;
    return fail(
        "{}: \"{}\" is {}: this key is not known in {}, and what it changes would be missing; "
        "remove it if it changes nothing",
        source, key, describe_json(value), family.class_name);
  }
  return {};
}

std::string_view missing_for(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const RefusedKind& kind : kRefused) {
    if (letters.starts_with(kind.start)) return kind.missing;
  }
  return {};
}

}  // namespace neuronmm::io
