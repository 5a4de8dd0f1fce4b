#include "io/json_file.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// Real files nest less than 10 deep; serializing a value recurses once per level.
constexpr size_t kMaxDepth = 100;
constexpr size_t kMaxDescription = 60;  // bytes of a string that a message quotes

// nlohmann's messages begin with "[json.exception.parse_error.101] ".
std::string_view without_tag(std::string_view message) {
  const size_t end = message.find("] ");
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

// Builds the value from the parser's events. Unlike nlohmann's own builder it refuses duplicate
// keys and deep nesting.
class Builder : public nlohmann::json_sax<json> {
 public:
  json& value() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(int64_t value) override { return add(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return add(value) != nullptr; }
  bool string(std::string& value) override { return add(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) override { return refuse("binary data"); }

  bool start_object(size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  // A key that occurs twice means different things to different parsers, which an attacker may use
  // and a typo may cause.
  bool key(std::string& key) override {
    auto& object = open_.back()->get_ref<json::object_t&>();
    const auto [entry, is_new] = object.try_emplace(std::move(key));
    if (!is_new) return refuse(fmt::format("the key {} occurs twice", describe_json(entry->first)));
    member_ = &entry->second;
    return true;
  }

  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    return refuse(std::string(without_tag(error.what())));
  }

 private:
  // Puts the value where the parser is: at the top, behind the last key, or at the end of an array.
  json* add(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
  }
  bool open(json container) {
    if (open_.size() >= kMaxDepth) return refuse(fmt::format("nested deeper than {}", kMaxDepth));
    open_.push_back(add(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool refuse(std::string reason) {
    error_ = std::move(reason);
    return false;
  }

  json root_;
  std::vector<json*> open_;  // the objects and arrays around the parser's place, outermost first
  json* member_ = nullptr;   // of the innermost object: what its last key names
  std::string error_;
};

}  // namespace

// Through the events of the parser, which keeps no call stack of its own.
Result<json> parse_json(std::string_view text, const std::string& source) {
  Builder builder;
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

// What a message quotes of a value: short, and without control characters.
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

// null counts as absent, as in the files of transformers.
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
