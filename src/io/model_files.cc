#include "io/model_files.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/mounted_model.h"
#include "io/ordered_json.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kTokenizerConfigName = "tokenizer_config.json";
constexpr const char* kTemplateName = "chat_template.jinja";
constexpr const char* kTemplateFolder = "additional_chat_templates";

// Says what a file must contain to be copied.
enum class Content { kJson, kText, kPieces };

bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

bool is_licence(std::string_view name) {
  constexpr std::string_view kBeginnings[] = {"LICENSE", "LICENCE", "NOTICE", "COPYING",
                                              "USE_POLICY"};
  const bool text =
      name.find('.') == name.npos || has_ending(name, {".txt", ".md", ".rst", ".TXT", ".MD"});
  return text &&
         std::ranges::any_of(kBeginnings, [&](auto begin) { return name.starts_with(begin); });
}

// Returns what a file of this name contains, or nothing if it does not belong to every folder of
// the model. Configs of image processors and pipelines do not: the folder holds a text model, and
// such files name classes to import.
std::optional<Content> content_of(std::string_view name) {
  constexpr std::string_view kJson[] = {
      "tokenizer.json",          kTokenizerConfigName, "vocab.json",
      "special_tokens_map.json", "tekken.json",        "added_tokens.json",
      "generation_config.json"};
  if (std::ranges::find(kJson, name) != std::end(kJson)) return Content::kJson;
  if (name.starts_with('.')) return std::nullopt;
  if (has_ending(name, {".model", ".tiktoken"})) return Content::kPieces;
  const bool text = name == kTemplateName || name == "merges.txt" || name == "vocab.txt" ||
                    name == "vocab.bpe" || is_licence(name);
  return text ? std::optional(Content::kText) : std::nullopt;
}

bool is_text(std::string_view bytes) {
  return !bytes.starts_with("#!") && std::ranges::all_of(bytes, [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  });
}

// Returns whether the text begins as those of tiktoken: a piece in Base64, a space, and its rank.
bool is_tiktoken(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto base64 = [&](char c) {
    return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '/' ||
           c == '=';
  };
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t space = line.find(' ');
  return space != line.npos && space > 0 && space + 1 < line.size() &&
         std::ranges::all_of(line.substr(0, space), base64) &&
         std::ranges::all_of(line.substr(space + 1), digit) && is_text(text);
}

// A SentencePiece model is a message whose first field, of tag 0x0A, is a piece. Pickles, archives
// and scripts begin otherwise.
bool is_pieces(std::string_view bytes) { return bytes.starts_with('\x0A') || is_tiktoken(bytes); }

// Keys whose values name code that a library loads: files of the folder, or repositories.
bool names_code(std::string_view key, const Json& value) {
  constexpr std::string_view kKeys[] = {"auto_map",        "custom_generate", "custom_pipelines",
                                        "custom_pipeline", "code_revision",   "trust_remote_code"};
  // A vocabulary may have a token of that text.
  if (std::ranges::find(kKeys, key) != std::end(kKeys)) return !value.is_number();
  // transformers loads kernels from a repository that "_attn_implementation" names.
  return key.ends_with("_implementation") && !value.is_null() &&
         value.dump(-1, ' ', true, Json::error_handler_t::replace).find('/') != std::string::npos;
}

// Returns false if no key of the text can name code. Tokenizers of megabytes are parsed only if it
// is true. A key may be spelled with escapes.
bool may_name_code(std::string_view text) {
  constexpr std::string_view kParts[] = {"auto_map",    "custom_",         "code_revision",
                                         "remote_code", "_implementation", "\\u004",
                                         "\\u005",      "\\u006",          "\\u007"};
  return std::ranges::any_of(kParts,
                             [&](auto part) { return text.find(part) != std::string_view::npos; });
}

// Removes keys that name code from the value and from all values within it. Returns whether there
// were any.
bool remove_code(Json& value) {
  bool removed = false;
  if (value.is_object()) {
    auto& members = value.get_ref<Json::object_t&>();
    Json::object_t kept;
    for (auto& [key, member] : members) {
      if (!names_code(key, member)) kept.emplace_back(key, std::move(member));
    }
    removed = kept.size() < members.size();
    members = std::move(kept);
  }
  if (!value.is_structured()) return removed;
  for (Json& member : value) removed |= remove_code(member);
  return removed;
}

constexpr const char* kNameKey = "_name_or_path";

bool is_absolute_path(const std::string& name) {
  const bool drive = name.size() > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/');
  return name.starts_with('/') || name.starts_with('~') || drive;
}

// Replaces absolute paths in the object and in the objects within it. Returns whether there were
// any.
bool replace_paths(Json& object) {
  bool replaced = false;
  for (auto& [key, value] : object.items()) {
    if (value.is_object()) replaced |= replace_paths(value);
    if (key != kNameKey || !value.is_string()) continue;
    std::string name = value.get<std::string>();
    if (!is_absolute_path(name)) continue;
    while (name.ends_with('/') || name.ends_with('\\')) name.pop_back();
    value = name.substr(name.find_last_of("/\\") + 1);
    replaced = true;
  }
  return replaced;
}

std::string text_of(const Json& value) {
  return value.dump(kConfigIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns the JSON object in a text, or nothing.
std::optional<Json> parse_object(const std::string& text) {
  if (!parse_json_object(text, "").ok()) return std::nullopt;
  return parse_ordered_json(text);
}

// A tokenizer whose class was code of the folder is read by the class that takes tokenizer.json as
// it is.
void use_published_class(Json& tokenizer_config) {
  constexpr const char* kClass = "tokenizer_class";
  if (tokenizer_config.contains("auto_map") && tokenizer_config.contains(kClass))
    tokenizer_config[kClass] = "PreTrainedTokenizerFast";
}

// Returns the text without what names code, or nothing if it is no JSON object.
std::optional<std::string> without_code(const std::string& name, std::string text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '{') return std::nullopt;
  if (!may_name_code(text)) return text;
  auto document = parse_object(strict_json(text));
  if (!document) return std::nullopt;
  if (name == kTokenizerConfigName) use_published_class(*document);
  return remove_code(*document) ? text_of(*document) : std::move(text);
}

// Returns what is copied of a file, or nothing if it does not contain what its name promises.
std::optional<std::string> copied_text(const std::string& name, Content content,
                                       std::string bytes) {
  if (content == Content::kJson) return without_code(name, std::move(bytes));
  const bool expected = content == Content::kText ? is_text(bytes) : is_pieces(bytes);
  return expected ? std::optional(std::move(bytes)) : std::nullopt;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// Returns whether the file lies in the folder. A link must not lead out of it, because a folder
// from somebody else could then copy any file of the machine. The exception is the cache of Hugging
// Face, where the files in REPOSITORY/snapshots/REVISION are links to REPOSITORY/blobs.
Result<bool> lies_in(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  const fs::path target = error ? fs::path() : fs::canonical(file, error);
  if (error == std::errc::no_such_file_or_directory) return false;
  if (error) return fail("{}: cannot be read: {}", file.string(), error.message());
  const fs::path revisions = home.parent_path();
  const bool cache = revisions.filename() == "snapshots";
  return is_below(target, home) || (cache && is_below(target, revisions.parent_path() / "blobs"));
}

// Copies the files of one folder to another one, and collects messages about those that are not
// copied.
class Copy {
 public:
  Copy(const fs::path& from, const fs::path& to) : from_(from), to_(to) {}

  Status file(const std::string& name, Content content) {
    const auto read_text = read(from_ / name);
    if (!read_text.ok()) return read_text.error();
    if (!*read_text) return {};
    auto text = copied_text(name, content, **read_text);
    if (!text) {
      leave_out(from_ / name, "it is not what its name says");
      return {};
    }
    if (**read_text != *text)
      notes_.push_back(
          fmt::format("{}: keys that name code are not copied", (from_ / name).string()));
    return write_text_file(to_ / name, *text);
  }

  // Returns the templates that have files of their own, by name.
  Result<std::map<std::string, std::string>> additional_templates() {
    std::map<std::string, std::string> templates;
    std::error_code error;
    for (fs::directory_iterator entry(from_ / kTemplateFolder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() != ".jinja") continue;
      NMM_ASSIGN(auto text, read(entry->path()));
      if (text && is_text(*text)) templates[entry->path().stem().string()] = *std::move(text);
    }
    if (error && error != std::errc::no_such_file_or_directory)
      return fail("{}: cannot be read: {}", (from_ / kTemplateFolder).string(), error.message());
    return templates;
  }

  // Puts the templates into the new tokenizer_config.json, where every version of transformers
  // finds them.
  Status templates(std::map<std::string, std::string> templates) {
    NMM_ASSIGN(auto text, read(from_ / kTemplateName, /*optional=*/true));
    if (text && is_text(*text)) templates["default"] = *std::move(text);
    const fs::path path = to_ / kTokenizerConfigName;
    Json config = Json::object();
    NMM_ASSIGN(const bool written_before, is_there(path));
    if (written_before) {
      NMM_ASSIGN(const std::string written, read_text_file(path, kMaxConfigBytes));
      config = parse_object(strict_json(written)).value_or(Json::object());
    }
    Json list = Json::array();
    for (const auto& [name, content] : templates)
      list.push_back({{"name", name}, {"template", content}});
    config["chat_template"] = std::move(list);
    return write_text_file(path, text_of(config));
  }

  std::vector<std::string> take_notes() { return std::move(notes_); }

 private:
  // Returns the bytes of a file, or nothing if it must not be copied.
  Result<std::optional<std::string>> read(const fs::path& path, bool optional = false) {
    std::error_code error;
    NMM_ASSIGN(const bool found, is_there(path));
    if (optional && !found) return std::optional<std::string>();
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::none)
      return fail("{}: cannot be read: {}", path.string(), error.message());
    NMM_ASSIGN(const bool inside, lies_in(from_, path));
    if (!fs::is_regular_file(status)) {
      leave_out(path, "it is not a regular file");
    } else if (!inside) {
      leave_out(path, "it is a link out of the folder; put the file itself there");
    } else {
      NMM_ASSIGN(std::string bytes, read_text_file(path, kMaxTokenizerBytes));
      return std::optional(std::move(bytes));
    }
    return std::optional<std::string>();
  }
  void leave_out(const fs::path& path, std::string_view reason) {
    notes_.push_back(fmt::format("{}: is not copied: {}", path.string(), reason));
  }

  const fs::path& from_;
  const fs::path& to_;
  std::vector<std::string> notes_;
};

// Writes the texts of a mounted model. We made them ourselves, so they name no code.
Result<std::vector<std::string>> write_mounted_texts(const MountedModel& model,
                                                     const fs::path& to) {
  for (const std::string& name : model.texts()) {
    NMM_ASSIGN(const bool written_before, is_there(to / name));
    if (!content_of(name) || written_before) continue;
    NMM_ASSIGN(const std::string text, model.text(name));
    NMM_TRY(write_text_file(to / name, text));
  }
  return std::vector<std::string>();
}

}  // namespace

Result<std::vector<std::string>> copy_model_files(const fs::path& from, const fs::path& to) {
  NMM_ASSIGN(const auto mounted, mounted_model(from));
  if (mounted != nullptr) return write_mounted_texts(*mounted, to);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return fail("{}: cannot be read: {}", from.string(), error.message());
  std::ranges::sort(names);
  Copy copy(from, to);
  NMM_ASSIGN(auto templates, copy.additional_templates());
  for (const std::string& name : names) {
    const auto content = content_of(name);
    if (!content) continue;
    // Files that this program has written itself are not overwritten.
    NMM_ASSIGN(const bool written_before, is_there(to / name));
    if (written_before) continue;
    if (name == kTemplateName && !templates.empty()) continue;
    NMM_TRY(copy.file(name, *content));
  }
  if (!templates.empty()) NMM_TRY(copy.templates(std::move(templates)));
  return copy.take_notes();
}

Result<std::string> read_public_config(const fs::path& config_json) {
  NMM_ASSIGN(const std::string written, read_text_file(config_json, kMaxConfigBytes));
  std::string text = strict_json(written);
  // A text that is no JSON object is reported by those who parse it.
  auto config = parse_object(text);
  const bool repeats_keys = !config;
  if (repeats_keys) {
    const auto parsed = parse_json_object(text, config_json.string());
    if (!parsed.ok()) return text;
    config = Json::parse(parsed->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  const bool paths = replace_paths(*config), code = remove_code(*config);
  return paths || code || repeats_keys ? text_of(*config) : text;
}

}  // namespace neuronmm::io
