#include "text/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"
#include "text/tokenizer/added_token_json.h"

namespace neuronmm::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Reads a token that is written as "<s>" or as {"content": "<s>", ...}.
Result<std::optional<std::string>> read_token(const io::JsonFields& fields,
                                              const std::string& key) {
  const json* value = fields.find(key);
  if (value == nullptr || !value->is_object()) return fields.string(key);
  return io::JsonFields(*value, fmt::format("{}: {}", fields.source(), key)).string("content");
}

// The special tokens that every tokenizer of transformers has.
constexpr std::array<std::string_view, 7> kStandardTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// The special tokens of one file, by name.
struct NamedTokens {
  std::map<std::string, std::string> fields;  // The fields named "..._token".
  std::map<std::string, std::string> extra;   // The named tokens of extra_special_tokens.
};

Result<NamedTokens> read_special_tokens(const json& root, const std::string& source) {
  NamedTokens tokens;
  const io::JsonFields fields(root, source);
  for (const auto& [key, value] : root.items()) {
    // Other fields may be switches, such as add_bos_token.
    const bool must_be_one = key == "bos_token" || key == "eos_token";
    if (!key.ends_with("_token") || !(must_be_one || value.is_string() || value.is_object()))
      continue;
    NMM_ASSIGN(const auto token, read_token(fields, key));
    if (token) tokens.fields.emplace(key, *token);
  }
  for (const char* key : {"extra_special_tokens", "model_specific_special_tokens"}) {
    const json* named = fields.find(key);
    if (named == nullptr || !named->is_object()) continue;
    const io::JsonFields named_fields(*named, fmt::format("{}: {}", source, key));
    for (const auto& [name, value] : named->items()) {
      NMM_ASSIGN(const auto token, read_token(named_fields, name));
      if (token) tokens.extra.insert_or_assign(name, *token);
    }
  }
  return tokens;
}

// Adds the tokens of special_tokens_map.json to those of tokenizer_config.json. Where both have a
// name, the map decides, except for fields that are not standard tokens.
void merge_tokens(NamedTokens map, NamedTokens& tokens) {
  for (auto& [name, token] : map.fields) {
    const bool is_standard = std::ranges::find(kStandardTokens, name) != kStandardTokens.end();
    if (is_standard || !tokens.fields.contains(name)) tokens.fields[name] = std::move(token);
  }
  for (auto& [name, token] : map.extra) tokens.extra[name] = std::move(token);
}

// Reads {"default": "...", "tool_use": "..."}.
Status read_template_object(const json& object, const std::string& source,
                            TokenizerConfig& config) {
  const io::JsonFields named(object, source);
  for (const auto& [name, value] : object.items()) {
    NMM_ASSIGN(const auto text, named.string(name));
    if (text) config.chat_templates[name] = *text;
  }
  return {};
}

// Reads "chat_template": a string, a list of {"name", "template"}, or an object of templates.
Status read_chat_templates(const io::JsonFields& fields, TokenizerConfig& config) {
  const json* value = fields.find("chat_template");
  if (value != nullptr && value->is_object())
    return read_template_object(*value, fields.source() + ": chat_template", config);
  if (value == nullptr || !value->is_array()) {
    NMM_ASSIGN(const auto text, fields.string("chat_template"));
    if (text && !text->empty()) config.chat_templates["default"] = *text;
    return {};
  }
  for (const json& entry : *value) {
    if (!entry.is_object()) return fields.wrong("chat_template", "a string or a list of objects");
    const io::JsonFields named(entry, fields.source() + ": chat_template");
    NMM_ASSIGN(const auto name, named.string("name"));
    NMM_ASSIGN(const auto text, named.string("template"));
    if (!name) return named.missing("name");
    if (!text) return named.missing("template");
    config.chat_templates[*name] = *text;
  }
  return {};
}

// Reads the template files of a folder. Newer folders have their templates only there.
Status read_template_files(const fs::path& folder, TokenizerConfig& config) {
  std::map<std::string, std::string, std::less<>> templates;
  if (const auto path = folder / "chat_template.jinja"; file_exists(path)) {
    NMM_ASSIGN(templates["default"], io::read_text_file(path, io::kMaxConfigBytes));
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder / "additional_chat_templates", error), end;
       !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() != ".jinja") continue;
    NMM_ASSIGN(templates[path.stem().string()], io::read_text_file(path, io::kMaxConfigBytes));
  }
  if (!templates.empty()) config.chat_templates = std::move(templates);
  return {};
}

// Reads {"128000": {"content": "<|begin_of_text|>", ...}, ...} and sorts the tokens by id.
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

std::optional<std::string> TokenizerConfig::special_token(std::string_view name) const {
  const auto found = special_tokens.find(name);
  return found == special_tokens.end() ? std::nullopt : std::optional(found->second);
}

Result<TokenizerConfig> load_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  config.folder = folder.string();
  NamedTokens tokens;
  bool has_added_tokens_decoder = false;
  if (const auto path = folder / "tokenizer_config.json"; file_exists(path)) {
    NMM_ASSIGN(const json root, io::read_json_object(path, io::kMaxConfigBytes));
    const io::JsonFields fields(root, path.string());
    has_added_tokens_decoder = fields.find("added_tokens_decoder") != nullptr;
    NMM_ASSIGN(tokens, read_special_tokens(root, path.string()));
    NMM_TRY(read_added_tokens_decoder(fields, config));
    NMM_TRY(read_chat_templates(fields, config));
  }
  const auto map_path = folder / "special_tokens_map.json";
  if (!has_added_tokens_decoder && file_exists(map_path)) {
    NMM_ASSIGN(const json root, io::read_json_object(map_path, io::kMaxConfigBytes));
    NMM_ASSIGN(NamedTokens map, read_special_tokens(root, map_path.string()));
    merge_tokens(std::move(map), tokens);
  }
  for (const auto* named : {&tokens.fields, &tokens.extra}) {
    for (const auto& [name, token] : *named) config.special_tokens.insert_or_assign(name, token);
  }
  NMM_TRY(read_template_files(folder, config));
  return config;
}

}  // namespace neuronmm::text
