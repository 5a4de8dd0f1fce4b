#include "text/tokenizer_config.h"

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

// "<s>" or {"content": "<s>", ...}.
Result<std::optional<std::string>> read_token(const io::JsonFields& fields,
                                              const std::string& key) {
  const json* value = fields.find(key);
  if (value == nullptr || !value->is_object()) return fields.string(key);
  return io::JsonFields(*value, fmt::format("{}: {}", fields.source(), key)).string("content");
}

// A string, or a list of {"name", "template"} of which the one named "default" counts.
Result<std::optional<std::string>> read_chat_template(const io::JsonFields& fields) {
  const json* value = fields.find("chat_template");
  if (value == nullptr || !value->is_array()) return fields.string("chat_template");
  for (const json& entry : *value) {
    if (!entry.is_object()) return fields.wrong("chat_template", "a string or a list of objects");
    const io::JsonFields named(entry, fields.source() + ": chat_template");
    NMM_ASSIGN(const auto name, named.string("name"));
    if (name == "default") return named.string("template");
  }
  return std::optional<std::string>();
}

}  // namespace

Result<TokenizerConfig> load_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  std::error_code ignored;
  if (const auto path = folder / "tokenizer_config.json"; std::filesystem::exists(path, ignored)) {
    NMM_ASSIGN(const json root, io::read_json_object(path, io::kMaxConfigBytes));
    const io::JsonFields fields(root, path.string());
    NMM_ASSIGN(config.bos_token, read_token(fields, "bos_token"));
    NMM_ASSIGN(config.eos_token, read_token(fields, "eos_token"));
    NMM_ASSIGN(auto chat_template, read_chat_template(fields));
    config.chat_template = std::move(chat_template).value_or("");
  }
  // The file wins over the field: newer folders have the template here only.
  if (const auto path = folder / "chat_template.jinja"; std::filesystem::exists(path, ignored)) {
    NMM_ASSIGN(config.chat_template, io::read_text_file(path, io::kMaxConfigBytes));
  }
  return config;
}

}  // namespace neuronmm::text
