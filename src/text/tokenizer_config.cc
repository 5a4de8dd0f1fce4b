#include "text/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"
#include "io/json_file.h"
#include "io/text_file.h"
#include "text/added_token_json.h"

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

// bos_token and the like. What an earlier file has said stays.
Status read_special_tokens(const io::JsonFields& fields, TokenizerConfig& config) {
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
                          "cls_token", "mask_token"}) {
    NMM_ASSIGN(auto token, read_token(fields, key));
    if (token) config.special_tokens.push_back(*token);
    if (std::string_view(key) == "bos_token" && !config.bos_token) config.bos_token = token;
    if (std::string_view(key) == "eos_token" && !config.eos_token) config.eos_token = token;
  }
  return {};
}

// {"128000": {"content": "<|begin_of_text|>", ...}, ...}
Status read_added_tokens_decoder(const io::JsonFields& fields, TokenizerConfig& config) {
  const json* decoder = fields.find("added_tokens_decoder");
  if (decoder == nullptr) return {};
  if (!decoder->is_object()) return fields.wrong("added_tokens_decoder", "an object");
  for (const auto& [key, entry] : decoder->items()) {
    const std::string source = fmt::format("{}: added_tokens_decoder[{:?}]", fields.source(), key);
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      return fail("{}: expected a token id as the key", source);
    if (!entry.is_object())
      return fail("{}: expected an object, found {}", source, io::describe_json(entry));
    NMM_ASSIGN(AddedToken token, read_added_token(io::JsonFields(entry, source)));
    token.id = id;
    config.added_tokens.push_back(std::move(token));
  }
  std::sort(config.added_tokens.begin(), config.added_tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return {};
}

}  // namespace

Result<TokenizerConfig> load_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  std::error_code ignored;
  if (const auto path = folder / "tokenizer_config.json"; std::filesystem::exists(path, ignored)) {
    NMM_ASSIGN(const json root, io::read_json_object(path, io::kMaxConfigBytes));
    const io::JsonFields fields(root, path.string());
    NMM_TRY(read_special_tokens(fields, config));
    NMM_TRY(read_added_tokens_decoder(fields, config));
    NMM_ASSIGN(auto chat_template, read_chat_template(fields));
    config.chat_template = std::move(chat_template).value_or("");
  }
  if (const auto path = folder / "special_tokens_map.json";
      std::filesystem::exists(path, ignored)) {
    NMM_ASSIGN(const json root, io::read_json_object(path, io::kMaxConfigBytes));
    NMM_TRY(read_special_tokens(io::JsonFields(root, path.string()), config));
  }
  // The file wins over the field: newer folders have the template here only.
  if (const auto path = folder / "chat_template.jinja"; std::filesystem::exists(path, ignored)) {
    NMM_ASSIGN(config.chat_template, io::read_text_file(path, io::kMaxConfigBytes));
  }
  return config;
}

}  // namespace neuronmm::text
