#pragma once
// Reads JSON from outside. The text is parsed with limits, and fields are read one by one. Errors
// name the file, the field, what was expected and what was found.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace neuronmm::io {

// The indentation of config.json, which is that of transformers.
inline constexpr int kConfigIndent = 2;

// Returns the text as strict JSON. Hugging Face's libraries read and write their files with
// Python's json module, which also knows NaN, Infinity and -Infinity. Such a number becomes the
// object
// {"__float__": "NaN"}, which is how transformers spells it and reads it, too. A text without such
// numbers is returned as it is. Texts that are no JSON stay none.
std::string strict_json(std::string_view text);
// Parses a text. Fails on malformed text, keys that occur twice with different values, and nesting
// so deep that recursion over the value could exhaust the stack. `source` begins every message.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& source);
// Parse a text that must be an object. The second function reads it from a file of at most
// `max_bytes` that Python may have written (see strict_json).
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& source);
Result<nlohmann::json> read_json_object(const std::filesystem::path& path, int64_t max_bytes);

// Describes a value for messages: `"gelu"`, `-3`, `an array of 2`. Long strings are cut.
std::string describe_json(const nlohmann::json& value);

// The typed fields of one object, which must outlive this one. A field that is missing or null
// reads as nullopt, and a field of another type is an error.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string source);

  // Returns null if the field is missing or null.
  const nlohmann::json* find(const std::string& key) const;
  Result<std::optional<int64_t>> integer(const std::string& key) const;
  // Returns the same, but also reads a float without a fraction, such as 1e6, below 2^53.
  Result<std::optional<int64_t>> whole_number(const std::string& key) const;
  Result<std::optional<double>> number(const std::string& key) const;
  Result<std::optional<bool>> boolean(const std::string& key) const;
  Result<std::optional<std::string>> string(const std::string& key) const;
  // Fail if the field is missing, or if the number is negative.
  Result<std::string> required_string(const std::string& key) const;
  Result<int64_t> required_count(const std::string& key) const;

  // Returns a number in [minimum, maximum]. A missing field gives `otherwise`, or an error if there
  // is none.
  Result<double> number_in(const std::string& key, double minimum, double maximum,
                           std::optional<double> otherwise = {}) const;

  const std::string& source() const { return source_; }
  // Returns the error `source: "key": expected ..., found ...`.
  Error wrong(const std::string& key, std::string_view expected) const;
  Error missing(const std::string& key) const;

 private:
  const nlohmann::json& object_;
  std::string source_;
};

}  // namespace neuronmm::io
