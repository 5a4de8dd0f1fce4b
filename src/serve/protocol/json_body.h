#pragma once
// The JSON of requests and answers. Keys keep their order: chat templates show them to the model.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "serve/protocol/api_error.h"

namespace neuronmm::serve {

using Json = nlohmann::ordered_json;

// Refuses malformed text, bytes that are no UTF-8, numbers that no double can hold, keys that occur
// twice, and nesting so deep that recursion over the value could exhaust the stack. The time is
// linear in the text, up to a logarithm. `param` is what the error names. Of schemas, and in those
// of a body, numbers are refused that a double would change (request_json_builder.h).
enum class JsonOf { kAnything, kSchema, kBody };
ApiResult<Json> parse_json_text(std::string_view text, const std::string& param,
                                JsonOf what = JsonOf::kAnything);
// The same, and the value must be an object: the body of a request.
ApiResult<Json> parse_body(std::string_view body);

// A whole number of 64 bits, however it is written: 16, 16.0, 1.6e1.
std::optional<int64_t> as_integer(const Json& value);

// In one line; what is no UTF-8 becomes U+FFFD.
std::string dump_json(const Json& value);

// A value for messages: `"gelu"`, `-3`, `an array of 2`; long strings are cut.
std::string describe(const Json& value);

}  // namespace neuronmm::serve
