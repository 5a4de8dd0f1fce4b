#include "serve/requests/field_reader.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/result.h"

namespace neuronmm::serve {
namespace {

constexpr int64_t kHighestToken = std::numeric_limits<text::TokenId>::max();

std::string integer_range(int64_t lowest, int64_t highest) {
  if (lowest == INT64_MIN && highest == INT64_MAX) return "an integer of 64 bits";
  if (highest == INT64_MAX) return fmt::format("an integer from {}", lowest);
  return fmt::format("an integer from {} to {}", lowest, highest);
}

std::string dump_joined(const std::vector<Json>& values) {
  std::string text;
  for (const Json& value : values) text += (text.empty() ? "" : ", ") + dump_json(value);
  return text;
}

}  // namespace

std::optional<text::TokenId> as_token_id(const Json& value) {
  const auto number = as_integer(value);
  const bool good = number && *number >= 0 && *number <= kHighestToken;
  return good ? std::optional(static_cast<text::TokenId>(*number)) : std::nullopt;
}

std::optional<text::TokenId> token_id_of_digits(std::string_view text) {
  text::TokenId id = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, id);
  const bool good = error == std::errc() && rest == end && !text.starts_with('-');
  return good ? std::optional(id) : std::nullopt;
}

bool expect_object(const Json& value, const std::string& path, std::string_view with,
                   RequestProblem& problem) {
  if (value.is_object()) return true;
  problem.add(invalid_request(
      path, fmt::format("{}: expected an object with {}, found {}", path, with, describe(value))));
  return false;
}

FieldReader::FieldReader(const Json& object, std::string path, RequestProblem& problem,
                         const RequestTable* table)
    : object_(object), path_(std::move(path)), problem_(problem), table_(table) {}

const RequestField* FieldReader::field_of(const std::string& key) const {
  if (table_ == nullptr) return nullptr;
  const RequestField* field = table_->find(key);
  NMM_CHECK(field != nullptr);
  return field;
}

const RequestField& FieldReader::field_of(const std::string& key, RequestField::Type type) const {
  const RequestField* field = field_of(key);
  NMM_CHECK(field != nullptr && field->type == type);
  return *field;
}

const Json* FieldReader::find(const std::string& key) {
  (void)field_of(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> FieldReader::boolean(const std::string& key) {
  const Json* value = find(key);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  if (value != nullptr) add_mismatch(key, "true or false");
  const RequestField* field = field_of(key);
  if (field == nullptr || field->default_value.is_null()) return std::nullopt;
  return field->default_value.get<bool>();
}

std::optional<int64_t> FieldReader::integer(const std::string& key) {
  const RequestField& field = field_of(key, RequestField::Type::kInteger);
  if (const Json* value = find(key)) {
    const auto number = as_integer(*value);
    if (number && *number >= field.lowest && *number <= field.highest) return number;
    add_mismatch(key, integer_range(field.lowest, field.highest));
  }
  if (field.default_value.is_null()) return std::nullopt;
  return field.default_value.get<int64_t>();
}

std::optional<double> FieldReader::number(const std::string& key) {
  const RequestField& field = field_of(key, RequestField::Type::kNumber);
  if (const Json* value = find(key)) {
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (number >= field.least && number <= field.most) return number;
    add_mismatch(key, fmt::format("a number from {} to {}", field.least, field.most));
  }
  if (field.default_value.is_null()) return std::nullopt;
  return field.default_value.get<double>();
}

std::optional<std::string> FieldReader::string(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    add_mismatch(key, "a string");
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  const RequestField* field = field_of(key);
  if (field != nullptr && field->most_bytes && text.size() > *field->most_bytes)
    add_mismatch(key, fmt::format("a string of at most {} bytes", *field->most_bytes));
  return text;
}

std::string FieldReader::required_string(const std::string& key) {
  const Json* value = find(key);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  add_mismatch(key, "a string");
  return {};
}

std::vector<text::TokenId> FieldReader::token_ids(const std::string& key) {
  (void)field_of(key, RequestField::Type::kTokenIds);
  std::vector<text::TokenId> values;
  const Json* list = array(key);
  if (list == nullptr) return values;
  for (size_t i = 0; i < list->size(); ++i) {
    const auto id = as_token_id((*list)[i]);
    if (!id) {
      add_error(fmt::format("{}[{}]", key, i),
                fmt::format("expected {}, found {}", integer_range(0, kHighestToken),
                            describe((*list)[i])));
      return {};
    }
    values.push_back(*id);
  }
  return values;
}

const Json* FieldReader::object(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  add_mismatch(key, "an object");
  return nullptr;
}

const Json* FieldReader::array(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  add_mismatch(key, "an array");
  return nullptr;
}

std::optional<FieldReader> FieldReader::inner(const std::string& key) {
  const RequestField& field = field_of(key, RequestField::Type::kObject);
  const Json* value = object(key);
  if (value == nullptr) return std::nullopt;
  FieldReader reader(*value, path(key) + ".", problem_, &field.inner);
  reader.refuse_unsupported();
  return reader;
}

void FieldReader::refuse(const RequestField& field) {
  const Json* value = find(field.name);
  if (value == nullptr || field.is_harmless(*value)) return;
  if (field.harmless.empty() && !field.harmless_most)
    return add_error(field.name, fmt::format("not supported: {}", field.meaning));
  const std::string allowed = field.harmless_most ? fmt::format("at most {}", *field.harmless_most)
                                                  : dump_joined(field.harmless);
  add_error(field.name, fmt::format("not supported: {}; expected {} or nothing, found {}",
                                    field.meaning, allowed, describe(*value)));
}

void FieldReader::refuse_unsupported() {
  for (const RequestField& field : table_->fields()) {
    if (field.type == RequestField::Type::kNotSupported) refuse(field);
  }
}

void FieldReader::add_mismatch(const std::string& key, std::string_view expected) {
  const Json* value = find(key);
  add_error(key, fmt::format("expected {}, found {}", expected,
                             value == nullptr ? "nothing" : describe(*value)));
}

void FieldReader::add_error(const std::string& key, const std::string& message) {
  problem_.add(invalid_request(path(key), path(key) + ": " + message));
}

std::vector<std::string> FieldReader::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (table_->find(key) == nullptr) keys.push_back(key);
  }
  return keys;
}

}  // namespace neuronmm::serve
