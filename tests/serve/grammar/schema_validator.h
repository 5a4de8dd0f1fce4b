#pragma once
// Another reading of JSON Schema: recursion over the document, in plain loops. It knows the
// keywords that random_schemas_test.cc writes.

#include <nlohmann/json.hpp>

namespace neuronmm::grammar {

// `root` is where "#/$defs/..." count from.
bool validates(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value,
               const nlohmann::ordered_json& root);

}  // namespace neuronmm::grammar
