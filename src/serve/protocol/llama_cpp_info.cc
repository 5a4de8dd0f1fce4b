#include "serve/protocol/llama_cpp_info.h"

#include "serve/protocol/engine_request.h"
#include "serve/protocol/llama_cpp_settings.h"

namespace neuronmm::serve {
namespace {

// Returns the settings of a request that sets nothing. Its seed stands for a random one, as
// llama.cpp writes it.
Json default_settings(const ServedModel& model) {
  LlamaCppRequest request;
  request.parameters.max_tokens = kNoTokenLimit;
  fill_llama_cpp_defaults(model.generation, request);
  const auto submission =
      engine_request(model, request.parameters, {}, true, [] { return uint64_t{UINT32_MAX}; });
  return submission.ok() ? llama_cpp_settings_json(model, request, *submission) : Json::object();
}

std::string token_text(const ServedModel& model, std::optional<TokenId> id) {
  return id ? model.tokenizer->decode(std::vector{*id}) : "";
}

}  // namespace

std::string llama_cpp_props_json(const ServedModel& model, std::string_view version) {
  const auto& templates = model.tokenizer->config().chat_templates;
  const auto chat_template = [&](const char* name) {
    const auto found = templates.find(name);
    return found == templates.end() ? std::string() : found->second;
  };
  const std::string& name = model.names.front();
  Json props = {{"default_generation_settings",
                 {{"params", default_settings(model)}, {"n_ctx", model.context_tokens}}},
                {"total_slots", model.slots},
                {"model_alias", name},
                {"model_path", name},  // clients do not need to know the folder
                {"modalities", {{"vision", false}, {"video", false}, {"audio", false}}},
                {"endpoint_slots", true},
                {"endpoint_props", false},
                {"endpoint_metrics", true},
                {"chat_template", chat_template("default")},
                {"chat_template_caps", Json::object()},
                {"bos_token", token_text(model, model.tokenizer->bos_id())},
                {"eos_token", token_text(model, model.tokenizer->eos_id())},
                {"build_info", fmt::format("neuronmm-{}", version)},
                {"is_sleeping", false}};
  if (templates.contains("tool_use")) props["chat_template_tool_use"] = chat_template("tool_use");
  return dump_json(props);
}

std::string llama_cpp_slots_json(const ServedModel& model, int64_t busy) {
  Json list = Json::array();
  for (int64_t id = 0; id < model.slots; ++id)
    list.push_back({{"id", id},
                    {"n_ctx", model.context_tokens},
                    {"speculative", false},
                    {"is_processing", id < busy}});
  return dump_json(list);
}

std::string llama_cpp_adapters_json() { return "[]"; }

}  // namespace neuronmm::serve
