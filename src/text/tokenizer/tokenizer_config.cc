#include "text/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/mounted_model.h"
#include "io/ordered_json.h"
#include "io/text_file.h"
#include "text/tokenizer/added_token_json.h"

namespace neuronmm::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A file that cannot be examined counts as one that exists, so that reading it gives an error.
bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::status(path, ignored).type() != fs::file_type::not_found || io::has_mounted_text(path);
}

// The special tokens that every tokenizer of transformers has, in the order in which transformers
// adds them.
constexpr std::array<std::string_view, 7> kStandardTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

bool is_standard(std::string_view name) {
  return std::ranges::find(kStandardTokens, name) != kStandardTokens.end();
}

// Reads a token that is written as "<s>" or as {"content": "<s>", ...}. An object without content
// is no token.
Result<std::optional<AddedToken>> read_token(const json& value, const std::string& source) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
  } else {
    const io::JsonFields fields(value, source);
    if (fields.find("content") == nullptr) return std::optional<AddedToken>();
    NMM_ASSIGN(token, read_added_token(fields));
  }
  token.special = true;
  return std::optional(std::move(token));
}

// Tokens by name, in the order of the file.
using TokenList = std::vector<std::pair<std::string, AddedToken>>;

// The special tokens of one file.
struct NamedTokens {
  TokenList fields;                 // The fields named "..._token".
  TokenList extra;                  // The named tokens of extra_special_tokens.
  std::vector<AddedToken> unnamed;  // The list extra_special_tokens.
};

// The largest number of named tokens in a file, because lists of them are searched from their
// beginnings. Assumed: ten times the largest known number.
constexpr size_t kMaxNamedTokens = 500;

auto find_named(TokenList& tokens, const std::string& name) {
  return std::ranges::find(tokens, name, &TokenList::value_type::first);
}

void set_named(TokenList& tokens, const std::string& name, AddedToken token) {
  const auto found = find_named(tokens, name);
  if (found == tokens.end())
    tokens.emplace_back(name, std::move(token));
  else
    found->second = std::move(token);
}

std::unordered_set<std::string> contents_of(const std::vector<AddedToken>& tokens) {
  std::unordered_set<std::string> contents;
  for (const AddedToken& token : tokens) contents.insert(token.content);
  return contents;
}

// Returns the keys of an object of the file in the order of the file, which decides about ids.
std::vector<std::string> ordered_keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

Status read_named_extra(const json& object, const nlohmann::ordered_json& ordered,
                        const std::string& source, NamedTokens& tokens) {
  for (const std::string& name : ordered_keys(ordered)) {
    const json& value = object.at(name);
    const std::string what = fmt::format("{}: {:?}", source, name);
    if (value.is_null()) continue;
    if (!value.is_string() && !value.is_object())
      return fail("{}: expected a string, found {}", what, io::describe_json(value));
    NMM_ASSIGN(auto token, read_token(value, what));
    if (token) tokens.extra.emplace_back(name, *std::move(token));
  }
  return {};
}

Status read_unnamed(const json& list, const std::string& source, NamedTokens& tokens) {
  for (const json& value : list) {
    if (!value.is_string() && !value.is_object())
      return fail("{}: expected a list of tokens, found {} in it", source,
                  io::describe_json(value));
    NMM_ASSIGN(auto token, read_token(value, source));
    if (token && !token->content.empty()) tokens.unnamed.push_back(*std::move(token));
  }
  return {};
}

// Reads extra_special_tokens, which lists tokens or names them, and the two older fields of that
// meaning. transformers reads additional_special_tokens if the newer field has no list.
Status read_extra_tokens(const json& root, const nlohmann::ordered_json& ordered,
                         const std::string& source, NamedTokens& tokens) {
  const io::JsonFields fields(root, source);
  for (const char* key : {"extra_special_tokens", "model_specific_special_tokens"}) {
    const json* value = fields.find(key);
    if (value == nullptr) continue;
    const std::string what = fmt::format("{}: {}", source, key);
    if (value->is_array()) {
      NMM_TRY(read_unnamed(*value, what, tokens));
    } else if (value->is_object()) {
      NMM_TRY(read_named_extra(*value, ordered.at(key), what, tokens));
    } else {
      return fields.wrong(key, "a list or an object of tokens");
    }
  }
  constexpr const char* kOlder = "additional_special_tokens";
  const json* older = fields.find(kOlder);
  if (older == nullptr || !older->is_array() || !tokens.unnamed.empty()) return {};
  return read_unnamed(*older, fmt::format("{}: {}", source, kOlder), tokens);
}

Result<NamedTokens> read_special_tokens(const json& root, const nlohmann::ordered_json& ordered,
                                        const std::string& source) {
  NamedTokens tokens;
  const io::JsonFields fields(root, source);
  for (const std::string& key : ordered_keys(ordered)) {
    const json& value = root.at(key);
    // Other fields may be switches, such as add_bos_token.
    const bool must_be_one = key == "bos_token" || key == "eos_token";
    if (!key.ends_with("_token") || value.is_null()) continue;
    if (!value.is_string() && !value.is_object()) {
      if (must_be_one) return fields.wrong(key, "a string");
      continue;
    }
    NMM_ASSIGN(auto token, read_token(value, fmt::format("{}: {}", source, key)));
    if (token) tokens.fields.emplace_back(key, *std::move(token));
  }
  NMM_TRY(read_extra_tokens(root, ordered, source, tokens));
  if (tokens.fields.size() + tokens.extra.size() > kMaxNamedTokens)
    return fail("{}: expected at most {} special tokens with names", source, kMaxNamedTokens);
  return tokens;
}

// Adds the tokens of special_tokens_map.json to those of tokenizer_config.json. Where both have a
// name, the map decides, except for fields that are not standard tokens.
void merge_tokens(NamedTokens map, NamedTokens& tokens) {
  for (auto& [name, token] : map.fields) {
    if (is_standard(name) || find_named(tokens.fields, name) == tokens.fields.end())
      set_named(tokens.fields, name, std::move(token));
  }
  for (auto& [name, token] : map.extra) set_named(tokens.extra, name, std::move(token));
  for (AddedToken& token : map.unnamed) tokens.unnamed.push_back(std::move(token));
}

// Moves the tokens to the config, in the order in which transformers adds those that the tokenizer
// lacks: the standard tokens, the other named ones, the rest.
void move_to_config(NamedTokens tokens, TokenizerConfig& config) {
  TokenList named = std::move(tokens.fields);
  for (auto& [name, token] : tokens.extra) set_named(named, name, std::move(token));
  std::ranges::stable_sort(named, {}, [](const auto& entry) {
    return std::ranges::find(kStandardTokens, entry.first) - kStandardTokens.begin();
  });
  for (auto& [name, token] : named) {
    config.special_tokens.insert_or_assign(name, token.content);
    if (!token.content.empty()) config.tokens_to_add.push_back(std::move(token));
  }
  for (AddedToken& token : tokens.unnamed) config.tokens_to_add.push_back(std::move(token));
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

// The contents of a file in the two orders of its keys.
struct ConfigFile {
  json root;
  nlohmann::ordered_json ordered;
};

Result<ConfigFile> read_config_file(const fs::path& path) {
  ConfigFile file;
  NMM_ASSIGN(file.root, io::read_json_object(path, io::kMaxConfigBytes));
  NMM_ASSIGN(const std::string text, io::read_text_file(path, io::kMaxConfigBytes));
  file.ordered = io::parse_ordered_json(io::strict_json(text));
  return file;
}

// Reads added_tokens.json, {"<tool>": 32000, ...}, which folders of older versions have. The tokens
// are ordinary ones unless they are named as special.
Status read_added_tokens_file(const fs::path& path, TokenizerConfig& config) {
  NMM_ASSIGN(const json root, io::read_json_object(path, io::kMaxConfigBytes));
  const io::JsonFields fields(root, path.string());
  std::vector<AddedToken> tokens;
  const std::unordered_set<std::string> special = contents_of(config.tokens_to_add);
  for (const auto& [content, value] : root.items()) {
    NMM_ASSIGN(const int64_t id, fields.required_count(content));
    AddedToken token;
    token.content = content;
    token.id = static_cast<TokenId>(std::min<int64_t>(id, std::numeric_limits<TokenId>::max()));
    token.special = special.contains(content);
    token.normalized = !token.special;
    if (!content.empty()) tokens.push_back(std::move(token));
  }
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  config.tokens_to_add.insert(config.tokens_to_add.begin(), tokens.begin(), tokens.end());
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
    NMM_ASSIGN(const ConfigFile file, read_config_file(path));
    const io::JsonFields fields(file.root, path.string());
    has_added_tokens_decoder = fields.find("added_tokens_decoder") != nullptr;
    NMM_ASSIGN(tokens, read_special_tokens(file.root, file.ordered, path.string()));
    NMM_TRY(read_added_tokens_decoder(fields, config));
    NMM_TRY(read_chat_templates(fields, config));
  }
  const auto map_path = folder / "special_tokens_map.json";
  if (!has_added_tokens_decoder && file_exists(map_path)) {
    NMM_ASSIGN(const ConfigFile file, read_config_file(map_path));
    NMM_ASSIGN(NamedTokens map, read_special_tokens(file.root, file.ordered, map_path.string()));
    merge_tokens(std::move(map), tokens);
  }
  move_to_config(std::move(tokens), config);
  const auto added_path = folder / "added_tokens.json";
  if (!has_added_tokens_decoder && file_exists(added_path))
    NMM_TRY(read_added_tokens_file(added_path, config));
  NMM_TRY(read_template_files(folder, config));
  return config;
}

}  // namespace neuronmm::text
