#pragma once
// JSON from outside: parsed with limits, and read field by field with errors that name the file,
// the field, what was expected and what was found.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace neuronmm::io {

// Refuses malformed text, duplicate keys, and nesting so deep that recursion over the value could
// exhaust the stack. `source` begins every message.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& source);
// The same, and the value must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& source);
Result<nlohmann::json> read_json_object(const std::filesystem::path& path, int64_t max_bytes);

// A value for messages: `"gelu"`, `-3`, `an array of 2`; long strings are cut.
std::string describe_json(const nlohmann::json& value);

// The typed fields of one object, which must outlive this. A field that is absent or null reads as
// nullopt; a field of another type is an error.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string source);

  const nlohmann::json* find(const std::string& key) const;  // nullptr: absent or null
  Result<std::optional<int64_t>> integer(const std::string& key) const;
  Result<std::optional<double>> number(const std::string& key) const;
  Result<std::optional<bool>> boolean(const std::string& key) const;
  Result<std::optional<std::string>> string(const std::string& key) const;
  // Errors where the field is absent, or the number is negative.
  Result<std::string> required_string(const std::string& key) const;
  Result<int64_t> required_count(const std::string& key) const;

  // A number in [minimum, maximum]; `otherwise` when the field is absent, an error without one.
  Result<double> number_in(const std::string& key, double minimum, double maximum,
                           std::optional<double> otherwise = {}) const;

  const std::string& source() const { return source_; }
  // `source: "key": expected ..., found ...`
  Error wrong(const std::string& key, std::string_view expected) const;
  Error missing(const std::string& key) const;

 private:
  const nlohmann::json& object_;
  std::string source_;
};

}  // namespace neuronmm::io
