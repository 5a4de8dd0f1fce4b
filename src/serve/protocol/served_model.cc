#include "serve/protocol/served_model.h"

#include <algorithm>

#include "serve/protocol/json_body.h"

namespace neuronmm::serve {

// text::apply_chat_template chooses in the same way.
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
  if (name.empty() || std::ranges::find(model.names, name) != model.names.end()) return true;
  return model_not_found(name);
}

std::string models_json(const ServedModel& model) {
  Json list = Json::array();
  for (const std::string& name : model.names) {
    list.push_back({{"id", name},
                    {"object", "model"},
                    {"created", model.created},
                    {"owned_by", "neuronmm"},
                    {"root", model.names.front()},
                    {"parent", nullptr},
                    {"max_model_len", model.context_tokens}});
  }
  return dump_json({{"object", "list"}, {"data", std::move(list)}});
}

std::string version_json(std::string_view version) { return dump_json({{"version", version}}); }

}  // namespace neuronmm::serve
