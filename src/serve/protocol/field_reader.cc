#include "serve/protocol/field_reader.h"

#include <algorithm>

namespace neuronmm::serve {
namespace {

std::string integer_range(int64_t lowest, int64_t highest) {
  if (lowest == INT64_MIN && highest == INT64_MAX) return "an integer of 64 bits";
  if (highest == INT64_MAX) return fmt::format("an integer from {}", lowest);
  return fmt::format("an integer from {} to {}", lowest, highest);
}

}  // namespace

bool expect_object(const Json& value, const std::string& path, std::string_view with,
                   RequestProblem& problem) {
  if (value.is_object()) return true;
  problem.add(invalid_request(
      path, fmt::format("{}: expected an object with {}, found {}", path, with, describe(value))));
  return false;
}

FieldReader::FieldReader(const Json& object, std::string path, RequestProblem& problem)
    : object_(object), path_(std::move(path)), problem_(problem) {}

const Json* FieldReader::find(const std::string& key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> FieldReader::boolean(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(key, "true or false");
  return std::nullopt;
}

std::optional<int64_t> FieldReader::integer(const std::string& key, int64_t lowest,
                                            int64_t highest) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (number && *number >= lowest && *number <= highest) return number;
  wrong(key, integer_range(lowest, highest));
  return std::nullopt;
}

std::optional<double> FieldReader::number(const std::string& key, double lowest, double highest) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= lowest && number <= highest) return number;
  }
  wrong(key, fmt::format("a number from {} to {}", lowest, highest));
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  wrong(key, "a string");
  return std::nullopt;
}

std::string FieldReader::required_string(const std::string& key) {
  const Json* value = find(key);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  wrong(key, "a string");
  return {};
}

std::vector<int64_t> FieldReader::integers(const std::string& key, int64_t highest) {
  std::vector<int64_t> values;
  const Json* list = array(key);
  if (list == nullptr) return values;
  for (size_t i = 0; i < list->size(); ++i) {
    const auto value = as_integer((*list)[i]);
    if (!value || *value < 0 || *value > highest) {
      fail(fmt::format("{}[{}]", key, i),
           fmt::format("expected {}, found {}", integer_range(0, highest), describe((*list)[i])));
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

const Json* FieldReader::object(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  wrong(key, "an object");
  return nullptr;
}

const Json* FieldReader::array(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  wrong(key, "an array");
  return nullptr;
}

void FieldReader::refuse(const std::string& key, std::string_view reason) {
  const Json* value = find(key);
  if (value == nullptr || *value == false || *value == "") return;
  if (value->is_structured() && value->empty()) return;
  fail(key, fmt::format("not supported: {}", reason));
}

void FieldReader::ignore(std::initializer_list<const char*> keys) {
  asked_.insert(keys.begin(), keys.end());
}

void FieldReader::wrong(const std::string& key, std::string_view expected) {
  const Json* value = find(key);
  fail(key, fmt::format("expected {}, found {}", expected,
                        value == nullptr ? "nothing" : describe(*value)));
}

void FieldReader::fail(const std::string& key, const std::string& message) {
  problem_.add(invalid_request(path(key), path(key) + ": " + message));
}

std::vector<std::string> FieldReader::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (!asked_.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace neuronmm::serve
