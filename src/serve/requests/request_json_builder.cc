#include "serve/requests/request_json_builder.h"

#include <algorithm>
#include <string_view>

namespace neuronmm::serve {
namespace {

// The fields of a request's body that can contain a schema.
constexpr std::string_view kSchemaFields[] = {
    "response_format", "structured_outputs", "guided_json",  "json_schema", "text",
    "tools",           "output_config",      "output_format"};

// The keywords of JSON schemas whose values can be numbers that answers are held to.
constexpr std::string_view kKeywords[] = {
    "const", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};

bool is_whole(std::string_view text) { return text.find_first_of(".eE") == std::string_view::npos; }

// Returns the digits of a number without sign, point, exponent and zeros at both ends.
std::string significant_digits(std::string_view number) {
  std::string digits;
  for (const char c : number.substr(0, number.find('e'))) {
    if (c >= '0' && c <= '9' && (c != '0' || !digits.empty())) digits += c;
  }
  digits.resize(digits.find_last_not_of('0') + 1);
  return digits;
}

}  // namespace

bool RequestJsonBuilder::number_float(double value, const std::string& text) {
  constexpr size_t kMostShown = 60;
  const bool changes =
      is_whole(text) && significant_digits(text) != significant_digits(fmt::format("{}", value));
  if (!changes || !is_enforced()) return BasicJsonBuilder::number_float(value, text);
  const bool is_long = text.size() > kMostShown;
  changed_ = {key_of(0),
              fmt::format("{}: expected a whole number of 64 bits, or one that a double has all "
                          "digits of, found {}{}",
                          place(), text.substr(0, kMostShown), is_long ? "..." : "")};
  return refuse(changed_->message);
}

// Returns the key of the value at this level; empty if the level is an array.
const std::string& RequestJsonBuilder::key_of(size_t level) const {
  static const std::string none;
  const Json& value = *open_values()[level];
  return value.is_object() ? value.get_ref<const Json::object_t&>().back().first : none;
}

bool RequestJsonBuilder::is_enforced() const {
  if (what_ == JsonOf::kAnything || open_values().empty()) return false;
  if (what_ == JsonOf::kBody && !std::ranges::count(kSchemaFields, key_of(0))) return false;
  for (size_t level = 0; level < open_values().size(); ++level) {
    if (std::ranges::count(kKeywords, key_of(level)) > 0) return true;
  }
  return false;
}

std::string RequestJsonBuilder::place() const {
  std::string path;
  for (size_t level = 0; level < open_values().size(); ++level) {
    const Json& value = *open_values()[level];
    if (value.is_array())
      path += fmt::format("[{}]", value.size() - (level + 1 < open_values().size() ? 1 : 0));
    else
      path += (path.empty() ? "" : ".") + key_of(level);
  }
  return path;
}

}  // namespace neuronmm::serve
