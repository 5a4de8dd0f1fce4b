#pragma once
// A second implementation of JSON Schema, with which tests compare the compiler. It walks through
// the document recursively. It knows only the keywords that the schemas of the tests contain.

#include <nlohmann/json.hpp>

namespace neuronmm::grammar {

// Returns whether `value` is valid. References such as "#/$defs/..." start at `root`.
bool validates(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value,
               const nlohmann::ordered_json& root);

}  // namespace neuronmm::grammar
