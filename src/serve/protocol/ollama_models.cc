#include "serve/protocol/ollama_models.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

#include "serve/protocol/ollama_generation.h"
#include "serve/requests/generation_parameters.h"
#include "serve/requests/ollama_request.h"
#include "serve/responses/ollama_writer.h"

namespace neuronmm::serve {
namespace {

// The time at which the model is unloaded: never.
constexpr const char* kNever = "2318-01-01T00:00:00Z";

std::string size_in_words(double parameters) {
  if (parameters >= 1e9) return fmt::format("{:.1f}B", parameters / 1e9);
  if (parameters >= 1e6) return fmt::format("{:.2f}M", parameters / 1e6);
  return fmt::format("{:.2f}K", parameters / 1e3);
}

// Returns an architecture's name as GGUF files have it: "llama" for "LlamaForCausalLM".
std::string family_of(std::string architecture) {
  constexpr std::string_view kSuffix = "ForCausalLM";
  if (architecture.ends_with(kSuffix)) architecture.resize(architecture.size() - kSuffix.size());
  std::ranges::transform(architecture, architecture.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  return architecture;
}

// Returns what a description says about the weights, for example "BF16" or "int4".
std::string quantization_of(const Json& description) {
  const std::string weights = description.value("weights", "floats");
  return weights == "floats" ? description.value("dtypes", "") : weights;
}

std::string recommended_options(const io::GenerationConfig& generation) {
  std::string lines;
  const auto add = [&](const char* name, const auto& value) {
    if (value) lines += fmt::format("{:<30} {}\n", name, *value);
  };
  add("temperature", generation.temperature);
  add("top_k", generation.top_k);
  add("top_p", generation.top_p);
  add("min_p", generation.min_p);
  add("repeat_penalty", generation.repetition_penalty);
  add("num_predict", generation.max_new_tokens);
  if (!lines.empty()) lines.pop_back();
  return lines;
}

Json gguf_info(const ServedModel& model, const Json& description, const std::string& family) {
  Json info = {{"general.architecture", family}, {"general.basename", model.names.front()}};
  const std::pair<const char*, const char*> names[] = {
      {"block_count", "num_hidden_layers"},
      {"embedding_length", "hidden_size"},
      {"feed_forward_length", "intermediate_size"},
      {"attention.head_count", "num_attention_heads"},
      {"attention.head_count_kv", "num_key_value_heads"},
      {"attention.key_length", "head_dim"},
      {"vocab_size", "vocab_size"}};
  if (description.contains("parameters"))
    info["general.parameter_count"] = description["parameters"];
  info[family + ".context_length"] = model.context_tokens;
  for (const auto& [gguf, ours] : names) {
    if (description.contains(ours)) info[fmt::format("{}.{}", family, gguf)] = description[ours];
  }
  return info;
}

std::string template_of(const ServedModel& model) {
  const auto& templates = model.tokenizer->config().chat_templates;
  const auto found = templates.find("default");
  return found == templates.end() ? "" : found->second;
}

Json details(const ServedModel& model, const OllamaModel& facts) {
  Json json = {{"parent_model", ""},
               {"format", "safetensors"},
               {"family", facts.family},
               {"families", Json::array({facts.family})},
               {"parameter_size", facts.parameter_size},
               {"quantization_level", facts.quantization},
               {"context_length", model.context_tokens}};
  if (model.hidden_size > 0) json["embedding_length"] = model.hidden_size;
  return json;
}

std::string loaded_at(const ServedModel& model) {
  return ollama_time(std::chrono::system_clock::time_point(std::chrono::seconds(model.created)));
}

// Returns {"models": [...]}, with an entry for every name of the model. A name without a tag gets
// the tag "latest". `more` is added to each entry.
std::string list_json(const ServedModel& model, const OllamaModel& facts, const Json& more) {
  Json models = Json::array();
  for (const std::string& name : model.names) {
    const bool tagged = name.find(':') != std::string::npos;
    const std::string shown = tagged ? name : name + ":latest";
    Json entry = {{"name", shown},
                  {"model", shown},
                  {"size", facts.bytes},
                  {"digest", facts.digest},
                  {"details", details(model, facts)}};
    entry.update(more);
    models.push_back(std::move(entry));
  }
  return dump_json({{"models", std::move(models)}});
}

}  // namespace

OllamaModel ollama_model(const ServedModel& model, std::string_view description_json,
                         std::string digest) {
  const Json description = Json::parse(description_json, nullptr, /*allow_exceptions=*/false);
  const Json& known = description.is_object() ? description : Json::object();
  OllamaModel facts{.digest = std::move(digest),
                    .family = family_of(known.value("architecture", "unknown")),
                    .parameter_size = size_in_words(known.value("parameters", 0.0)),
                    .quantization = quantization_of(known),
                    .bytes = known.value("bytes", int64_t{0}),
                    .parameters = recommended_options(model.generation),
                    .chat_template = template_of(model),
                    .capabilities = {"completion", "tools"}};
  facts.info = gguf_info(model, known, facts.family);
  if (model.plain_chats.thinks) facts.capabilities.emplace_back("thinking");
  facts.capabilities.emplace_back("embedding");
  return facts;
}

std::string ollama_tags_json(const ServedModel& model, const OllamaModel& facts) {
  return list_json(model, facts,
                   {{"modified_at", loaded_at(model)}, {"capabilities", facts.capabilities}});
}

std::string ollama_ps_json(const ServedModel& model, const OllamaModel& facts) {
  return list_json(
      model, facts,
      {{"expires_at", kNever}, {"size_vram", 0}, {"context_length", model.context_tokens}});
}

std::string ollama_version_json(std::string_view version) {
  return dump_json({{"version", kSpokenOllamaVersion}, {"neuronmm", version}});
}

const RequestTable& ollama_show_table() {
  static const RequestTable table = {{RequestField::string("model", kOllamaModelMeaning),
                                      RequestField::string("name", "The older name of model"),
                                      RequestField::boolean("verbose", "Without effect")},
                                     RequestField::ignored({"system", "template", "options"})};
  return table;
}

ApiResult<std::string> ollama_show_json(const ServedModel& model, const OllamaModel& facts,
                                        std::string_view body, std::vector<std::string>* unknown) {
  NMM_ASSIGN(const std::string name, read_body(body, ollama_show_table(), [&](FieldReader& fields) {
               (void)fields.boolean("verbose");
               if (unknown != nullptr) *unknown = unknown_fields(fields);
               return read_ollama_model(fields, /*name_too=*/true);
             }));
  NMM_TRY(check_ollama_model(model, name));
  return dump_json({{"modelfile", fmt::format("FROM {}\n", model.names.front())},
                    {"parameters", facts.parameters},
                    {"template", facts.chat_template},
                    {"details", details(model, facts)},
                    {"model_info", facts.info},
                    {"capabilities", facts.capabilities},
                    {"modified_at", loaded_at(model)}});
}

}  // namespace neuronmm::serve
