#pragma once
// Reads the "normalizer" of a tokenizer.json. tokenizer_json.cc is the caller. Unknown steps are
// errors.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

Status read_normalizer(const nlohmann::json& value, const std::string& source,
                       Normalizer& normalizer);

}  // namespace neuronmm::text
