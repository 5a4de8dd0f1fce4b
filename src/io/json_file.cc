#include "io/json_file.h"

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"
#include "io/json_builder.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// The bytes of a string that a message quotes.
constexpr size_t kMaxDescription = 60;

}  // namespace

// The text is parsed through events, which need no recursion.
Result<json> parse_json(std::string_view text, const std::string& source) {
  JsonBuilder builder;
  if (!json::sax_parse(text, &builder)) {
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
  return parse_json_object(text, path.string());
}

// Descriptions are short and contain no control characters.
std::string describe_json(const json& value) {
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
