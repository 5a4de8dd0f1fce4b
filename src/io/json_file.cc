#include "io/json_file.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "io/json_builder.h"
#include "io/mistaken_files.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// The bytes of a string that a message quotes.
constexpr size_t kMaxDescription = 60;

constexpr const char* kFloatKey = "__float__";
constexpr std::string_view kNotInJson[] = {"NaN", "Infinity", "-Infinity"};

// Builds a value from a file whose keys may occur twice if they have the same value both times, as
// a hand-edited config may.
class FileBuilder : public JsonBuilder {
 public:
  // Returns true if all repeated keys had one value. Called at the end.
  bool finish() {
    for (const Repeated& repeated : repeated_) {
      if (*repeated.last == repeated.first) continue;
      return refuse(fmt::format("the key {} occurs twice, with {} and with {}",
                                describe_json(repeated.key), describe_json(repeated.first),
                                describe_json(*repeated.last)));
    }
    return true;
  }

 private:
  struct Repeated {
    std::string key;
    json first;
    const json* last;
  };
  // The nodes of an object stay where they are, so the address of a value is that of the last one.
  bool repeat_key(const std::string& key, json& value) override {
    if (repeated_.size() == kMaxRepeated) return refuse_key(key);
    repeated_.push_back({key, std::move(value), &value});
    return true;
  }

  // Bounds the memory of a hostile file.
  static constexpr size_t kMaxRepeated = 100;
  std::vector<Repeated> repeated_;
};

// Returns the number of bytes of the string that begins at `at`, with its quotes.
size_t string_length(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size()) - at;
}

// Returns the number that begins at `at` and that JSON does not know, or an empty text.
std::string_view number_not_in_json(std::string_view text, size_t at) {
  for (const std::string_view number : kNotInJson) {
    if (text.substr(at).starts_with(number)) return number;
  }
  return {};
}

}  // namespace

std::string strict_json(std::string_view text) {
  if (text.find("NaN") == text.npos && text.find("Infinity") == text.npos) return std::string(text);
  std::string strict;
  for (size_t at = 0; at < text.size();) {
    const std::string_view number = number_not_in_json(text, at);
    const size_t length = !number.empty()   ? number.size()
                          : text[at] == '"' ? string_length(text, at)
                                            : 1;
    if (number.empty())
      strict += text.substr(at, length);
    else
      strict += fmt::format(R"({{"{}":"{}"}})", kFloatKey, number);
    at += length;
  }
  return strict;
}

// The text is parsed through events, which need no recursion.
Result<json> parse_json(std::string_view text, const std::string& source) {
  FileBuilder builder;
  if (!json::sax_parse(text, &builder) || !builder.finish()) {
    return fail("{}: malformed JSON: {}", source, builder.error());
  }
  return std::move(builder.value());
}

Result<json> parse_json_object(std::string_view text, const std::string& source) {
  NMM_ASSIGN(json value, parse_json(text, source));
  if (!value.is_object())
    return fail("{}: expected a JSON object, found {}", source, describe_json(value));
  return value;
}

Result<json> read_json_object(const std::filesystem::path& path, int64_t max_bytes) {
  NMM_ASSIGN(const std::string text, read_text_file(path, max_bytes));
  auto value = parse_json_object(strict_json(text), path.string());
  if (!value.ok()) return explain_parse_error(value.error(), text, path.string());
  return value;
}

// Descriptions are short and contain no control characters.
std::string describe_json(const json& value) {
  if (value.is_object() && value.size() == 1 && value.contains(kFloatKey))
    return describe_json(value.front());
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= kMaxDescription) return fmt::format("{:?}", text);
  return fmt::format("{:?}...", std::string_view(text).substr(0, kMaxDescription));
}

JsonFields::JsonFields(const json& object, std::string source)
    : object_(object), source_(std::move(source)) {}

// A null counts as missing, as in the files of transformers.
const json* JsonFields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<int64_t>> JsonFields::integer(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  // The parser stores non-negative numbers as unsigned, and these may exceed int64_t.
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= INT64_MAX
                                                : value->is_number_integer();
  if (!fits) return wrong(key, "an integer");
  return std::optional(value->get<int64_t>());
}

Result<std::optional<int64_t>> JsonFields::whole_number(const std::string& key) const {
  constexpr double kExact = int64_t{1} << 53;
  const json* value = find(key);
  if (value == nullptr || !value->is_number_float()) return integer(key);
  const double number = value->get<double>();
  if (std::trunc(number) != number || std::abs(number) >= kExact) return wrong(key, "an integer");
  return std::optional(static_cast<int64_t>(number));
}

Result<std::string> JsonFields::required_string(const std::string& key) const {
  NMM_ASSIGN(auto value, string(key));
  if (!value) return missing(key);
  return *std::move(value);
}

Result<int64_t> JsonFields::required_count(const std::string& key) const {
  NMM_ASSIGN(const auto count, integer(key));
  if (!count) return missing(key);
  if (*count < 0) return wrong(key, "a number from 0");
  return *count;
}

Result<std::optional<double>> JsonFields::number(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong(key, "a number");
  return std::optional(value->get<double>());
}

Result<double> JsonFields::number_in(const std::string& key, double minimum, double maximum,
                                     std::optional<double> otherwise) const {
  NMM_ASSIGN(const auto given, number(key));
  if (!given && !otherwise) return missing(key);
  const double found = given.value_or(otherwise.value_or(0.0));
  if (!(found >= minimum && found <= maximum))
    return wrong(key, fmt::format("a number from {} to {}", minimum, maximum));
  return found;
}

Result<std::optional<bool>> JsonFields::boolean(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong(key, "true or false");
  return std::optional(value->get<bool>());
}

Result<std::optional<std::string>> JsonFields::string(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong(key, "a string");
  return std::optional(value->get<std::string>());
}

Error JsonFields::wrong(const std::string& key, std::string_view expected) const {
  const json* value = find(key);
  return fail("{}: \"{}\": expected {}, found {}", source_, key, expected,
              value == nullptr ? "nothing" : describe_json(*value));
}

Error JsonFields::missing(const std::string& key) const {
  return fail("{}: \"{}\" is missing", source_, key);
}

}  // namespace neuronmm::io
