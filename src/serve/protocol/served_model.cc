#include "serve/protocol/served_model.h"

#include <algorithm>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMostNameBytes = 256;  // assumed

bool is_name_of(const ServedModel& model, std::string_view name) {
  return std::ranges::find(model.names, name) != model.names.end();
}

}  // namespace

// The choice between the templates must be the same as in text::apply_chat_template().
void describe_templates(ServedModel& model) {
  const auto& templates = model.tokenizer->config().chat_templates;
  const auto traits = [&](const char* name) {
    const auto found = templates.find(name);
    return found == templates.end() ? TemplateTraits() : template_traits(found->second);
  };
  model.plain_chats = traits("default");
  model.tool_chats = templates.contains("tool_use") ? traits("tool_use") : model.plain_chats;
}

ApiResult<bool> check_model(const ServedModel& model, std::string_view name) {
  // Clients that got the name from GET /api/tags add Ollama's tag.
  constexpr std::string_view kLatest = ":latest";
  const std::string_view plain =
      name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
  if (name.empty() || is_name_of(model, name) || is_name_of(model, plain)) return true;
  if (model.any_name && name.size() <= kMostNameBytes) return true;
  return model_not_found(name);
}

std::string name_in_answer(const ServedModel& model, const std::string& asked) {
  const bool own = asked.empty() || is_name_of(model, asked);
  return own ? model.names.front() : asked;
}

namespace {

// llama.cpp's number of the type of a vocabulary of byte pairs.
constexpr int kBytePairs = 2;

Json listed(const ServedModel& model, std::string_view name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "neuronmm"},
          {"root", model.names.front()},
          {"parent", nullptr},
          {"max_model_len", model.context_tokens},
          {"meta",
           {{"vocab_type", kBytePairs},
            {"n_vocab", model.vocab_size},
            {"n_ctx", model.context_tokens},
            {"n_ctx_train", model.sizes.trained_context_tokens},
            {"n_embd", model.sizes.hidden_size},
            {"n_params", model.sizes.parameters},
            {"size", model.sizes.bytes}}}};
}

}  // namespace

std::string models_json(const ServedModel& model) {
  Json list = Json::array();
  for (const std::string& name : model.names) list.push_back(listed(model, name));
  return dump_json({{"object", "list"}, {"data", std::move(list)}});
}

ApiResult<std::string> model_json(const ServedModel& model, std::string_view name) {
  NMM_TRY(check_model(model, name));
  return dump_json(listed(model, name));
}

std::string version_json(std::string_view version) { return dump_json({{"version", version}}); }

}  // namespace neuronmm::serve
