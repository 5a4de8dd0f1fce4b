#include "serve/requests/foreign_fields.h"

#include <initializer_list>
#include <utility>

namespace neuronmm::serve {
namespace {

using Row = RequestField;
using Names = std::initializer_list<const char*>;

constexpr const char* kUnknownHow = "this server does not know how";

void append(std::vector<Row>& all, std::vector<Row> more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Row> refused(Names names, const char* reason) {
  std::vector<Row> fields;
  for (const char* name : names) fields.push_back(Row::not_supported(name, reason));
  return fields;
}

std::vector<Row> refused_unless(const std::vector<Json>& off, Names names, const char* reason) {
  std::vector<Row> fields;
  for (const char* name : names) fields.push_back(Row::not_supported(name, reason).unless(off));
  return fields;
}

// Returns fields that say who asks, how the work is divided among machines, how memory is used, or
// what the response has beside the answer.
std::vector<Row> fields_without_effect() {
  return Row::ignored(
      {// OpenAI
       "user", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
       "safety_identifier", "verbosity", "prediction",
       // llama.cpp. The context is never shifted, so nothing has to be kept of it.
       "verbose", "timings_per_token", "cache_prompt", "return_progress", "sse_ping_interval",
       "n_keep", "n_discard", "n_cache_reuse", "id_slot", "slot_id", "backend_sampling",
       "reasoning_control", "speculative.n_max", "speculative.n_min", "speculative.p_min",
       "speculative.type", "grammar_type",
       // Ollama and LM Studio
       "keep_alive", "ttl", "draft_model", "num_keep", "num_batch", "num_gpu", "main_gpu",
       "num_thread", "low_vram", "use_mmap", "use_mlock", "numa", "f16_kv",
       // vLLM
       "request_id", "session_id", "length_penalty", "guided_decoding_backend",
       "kv_transfer_params", "ec_transfer_params", "stream_interval", "truncation_side",
       "media_io_kwargs", "mm_processor_kwargs", "return_mm_kwargs", "return_token_offsets",
       "return_prompt_text", "routed_experts_prompt_start", "include_reasoning",
       // SGLang
       "rid", "extra_key", "custom_labels", "data_parallel_rank", "routed_dp_rank",
       "disagg_prefill_dp_rank", "bootstrap_host", "bootstrap_port", "bootstrap_room",
       "ngram_corpus_id", "images_config", "max_dynamic_patch", "min_dynamic_patch",
       "use_audio_in_video", "routed_experts_start_len",
       // KoboldCpp and text-generation-webui
       "genkey", "quiet", "max_context_length", "using_openai_tools",
       "replace_instruct_placeholders", "static_cache", "prompt_lookup_num_tokens",
       "max_tokens_second", "early_stopping", "auto_max_new_tokens",
       // Settings of samplers that are refused unless they are off
       "mirostat_tau", "mirostat_eta", "dynatemp_exponent", "dynatemp_low", "dynatemp_high",
       "smoothing_curve", "adaptive_decay", "rep_pen_range", "rep_pen_slope"});
}

// Returns samplers and penalties, which have a number that switches them off.
std::vector<Row> other_samplers() {
  std::vector<Row> fields =
      refused_unless({0},
                     {"mirostat", "mirostat_mode", "dynatemp_range", "dynatemp_min", "dynatemp_max",
                      "top_a", "epsilon_cutoff", "eta_cutoff", "smoothing_factor", "skew",
                      "penalty_alpha", "no_repeat_ngram_size", "n_indent"},
                     kUnknownHow);
  append(fields,
         refused_unless(
             {1}, {"tfs", "tfs_z", "guidance_scale", "num_beams", "encoder_repetition_penalty"},
             kUnknownHow));
  append(fields, refused_unless({0, 1}, {"min_keep"}, kUnknownHow));
  append(fields, refused_unless({1}, {"rep_pen"}, "expected repeat_penalty instead"));
  append(fields, refused_unless({1}, {"typical"}, "expected typical_p instead"));
  append(fields, refused_unless({0, -1}, {"repetition_penalty_range"},
                                "expected repeat_penalty and repeat_last_n instead"));
  append(fields, refused_unless({-1}, {"sampler_seed", "sampling_seed"}, "expected seed instead"));
  append(fields, refused_unless({true}, {"do_sample"}, "expected temperature 0 to draw nothing"));
  append(fields,
         refused({"use_beam_search", "dynamic_temperature", "temperature_last", "sampler_order",
                  "sampler_priority", "watermark", "watermarking", "negative_prompt", "preset"},
                 kUnknownHow));
  for (const char* name : {"top_n_sigma", "nsigma", "adaptive_target"})
    fields.push_back(Row::not_supported(name, kUnknownHow).unless_at_most(0.0));
  return fields;
}

// Returns fields about what may be in the answer and where it ends.
std::vector<Row> other_limits() {
  std::vector<Row> fields = refused({"n_predict", "num_predict", "max_new_tokens", "max_length"},
                                    "expected max_tokens instead");
  append(fields,
         refused_unless({0}, {"min_new_tokens", "min_length"}, "expected min_tokens instead"));
  append(fields, refused_unless({1}, {"n_cmpl"}, "expected n instead"));
  append(fields, refused({"stop_sequence", "stopping_strings", "custom_stopping_strings"},
                         "expected stop instead"));
  append(fields, refused({"ban_eos_token"}, "expected ignore_eos instead"));
  append(fields, refused({"no_stop_trim"}, "expected include_stop_str_in_output instead"));
  append(fields,
         refused_unless({true}, {"trim_stop"}, "expected include_stop_str_in_output instead"));
  append(fields, refused({"stop_regex", "repetition_detection", "bad_words", "allowed_token_ids",
                          "banned_tokens", "banned_strings", "custom_token_bans",
                          "use_default_badwordsids", "bypass_eos", "logits_processors",
                          "custom_logit_processor", "custom_params", "vllm_xargs"},
                         kUnknownHow));
  for (const char* name : {"t_max_predict_ms", "t_max_prompt_ms"})
    fields.push_back(Row::not_supported(name, "answers have no limit of time").unless_at_most(0));
  return fields;
}

// Returns fields about how the prompt is made.
std::vector<Row> other_prompts() {
  std::vector<Row> fields =
      refused({"truncate_prompt_tokens", "truncate"}, "the server does not shorten prompts");
  append(fields, refused_unless({0}, {"truncation_length"}, "the server does not shorten prompts"));
  append(fields, refused_unless({true}, {"add_bos_token"}, "expected add_special_tokens instead"));
  append(fields, refused_unless({"instruct"}, {"mode"}, kUnknownHow));
  append(fields, refused({"chat_template", "chat_template_str", "instruction_template",
                          "instruction_template_str", "chat_instruct_command", "guideline",
                          "tool_prompt", "generation_prompt"},
                         "the template is the model's own"));
  append(fields, refused({"character", "bot_name", "user_name", "user_bio", "greeting", "name1",
                          "name2", "memory", "adapter", "task", "continue_"},
                         "expected messages with these texts instead"));
  append(fields, refused({"images", "image_data", "audio", "audio_data"}, "this model reads text"));
  append(fields, refused({"input_ids", "prompt_embeds"}, "expected messages or prompt instead"));
  append(fields, refused({"lora", "lora_path", "adapter_id", "session_params"}, kUnknownHow));
  return fields;
}

// Returns fields about the form of the answer.
std::vector<Row> other_forms() {
  std::vector<Row> fields = refused({"grammar_string"}, "expected grammar instead");
  append(fields, refused({"grammar_lazy", "grammar_triggers", "grammar_retain_state",
                          "preserved_tokens", "guided_whitespace_pattern", "structural_tag"},
                         kUnknownHow));
  append(fields, refused_unless({0}, {"n_probs"}, "expected logprobs instead"));
  append(fields, refused({"prompt_logprobs", "logprob_token_ids", "return_tokens_as_token_ids",
                          "post_sampling_probs", "top_n_tokens", "decoder_input_details",
                          "response_fields", "return_hidden_states", "return_routed_experts",
                          "return_cached_tokens_details", "return_meta_info"},
                         kUnknownHow));
  append(fields, refused({"return_tokens", "return_prompt_token_ids"},
                         "expected return_token_ids instead"));
  append(fields, refused({"return_full_text"}, "expected echo instead"));
  append(fields, refused({"render_special"}, "expected skip_special_tokens instead"));
  append(fields, refused_unless({true}, {"spaces_between_special_tokens"}, kUnknownHow));
  append(fields,
         refused_unless({true}, {"separate_reasoning", "stream_reasoning", "parse_tool_calls"},
                        kUnknownHow));
  append(fields, refused_unless({"auto", "deepseek"}, {"reasoning_format"}, kUnknownHow));
  append(fields, refused_unless({-1}, {"reasoning_budget_tokens", "thinking_token_budget"},
                                "expected reasoning_budget instead"));
  append(fields, refused({"reasoning_budget_message", "reasoning_budget_start_tag",
                          "reasoning_budget_end_tag", "reasoning_budget_end_tags", "chat_parser",
                          "chat_format"},
                         kUnknownHow));
  return fields;
}

std::vector<Row> all_fields() {
  std::vector<Row> fields = fields_without_effect();
  for (auto more : {other_samplers(), other_limits(), other_prompts(), other_forms()})
    append(fields, std::move(more));
  return fields;
}

}  // namespace

const std::vector<RequestField>& fields_of_other_servers() {
  static const std::vector<RequestField> fields = all_fields();
  return fields;
}

}  // namespace neuronmm::serve
