#include "io/json_file.h"

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// Real files nest less than 10 deep; serializing a value recurses once per level.
constexpr int kMaxDepth = 100;
constexpr size_t kMaxDescription = 60;  // bytes of a string that a message quotes

// What our own checks throw through nlohmann's parser; never leaves this file.
struct Refused {
  std::string reason;
};

// Follows the parser's events to find duplicate keys and deep nesting, which it does not refuse.
class Watcher {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMaxDepth) throw Refused{fmt::format("nested deeper than {}", kMaxDepth)};
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        throw Refused{fmt::format("the key {} occurs twice", describe_json(key))};
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of every object that is open
};

// nlohmann's messages begin with "[json.exception.parse_error.101] ".
std::string_view without_tag(std::string_view message) {
  const size_t end = message.find("] ");
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& source) {
  Watcher watcher;
  try {
    return json::parse(text, [&watcher](int depth, json::parse_event_t event, json& parsed) {
      return watcher(depth, event, parsed);
    });
  } catch (const json::exception& error) {
    return fail("{}: malformed JSON: {}", source, without_tag(error.what()));
  } catch (const Refused& refused) {
    return fail("{}: malformed JSON: {}", source, refused.reason);
  }
}

Result<json> parse_json_object(std::string_view text, const std::string& source) {
  NMM_ASSIGN(json value, parse_json(text, source));
  if (!value.is_object())
    return fail("{}: expected a JSON object, found {}", source, describe_json(value));
  return value;
}

Result<json> read_json_object(const std::filesystem::path& path) {
  NMM_ASSIGN(const std::string text, read_text_file(path));
  return parse_json_object(text, path.string());
}

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

const json* JsonFields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<int64_t>> JsonFields::integer(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  // Unsigned is how the parser stores what does not fit a negative number; it may exceed int64_t.
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= INT64_MAX
                                                : value->is_number_integer();
  if (!fits) return wrong(key, "an integer");
  return std::optional(value->get<int64_t>());
}

Result<std::optional<double>> JsonFields::number(const std::string& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong(key, "a number");
  return std::optional(value->get<double>());
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
