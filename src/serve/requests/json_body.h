#pragma once
// Parsing and writing of the JSON in requests and answers. Objects keep the order of their keys,
// because chat templates show them to the model in that order.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "serve/requests/api_error.h"

namespace neuronmm::serve {

using Json = nlohmann::ordered_json;

// The contents of a text. Schemas, and schemas inside the body of a request, must not contain
// numbers that a double would change (request_json_builder.h).
enum class JsonOf { kAnything, kSchema, kBody };

// Parses a text and returns its value. A lone surrogate becomes U+FFFD. Returns an error for
// malformed JSON, invalid UTF-8, numbers that no double can hold, and keys that occur twice. The
// same holds for nesting so deep that recursion over the value could exhaust the stack. The time is
// O(n log n) in the length of the text. `param` is the field's name in errors.
ApiResult<Json> parse_json_text(std::string_view text, const std::string& param,
                                JsonOf what = JsonOf::kAnything);
// Parses the body of a request, which must be an object.
ApiResult<Json> parse_body(std::string_view body);

// Returns a 64-bit whole number however it is written (16, 16.0, 1.6e1); nothing if the value is
// not one.
std::optional<int64_t> as_integer(const Json& value);

// Returns the JSON in one line. Bytes that are not UTF-8 become U+FFFD.
std::string dump_json(const Json& value);

// Returns a short description of a value for messages, for example `"gelu"`, `-3` or `an array of
// 2`. Long strings are cut.
std::string describe(const Json& value);

}  // namespace neuronmm::serve
