#pragma once
// The "normalizer" of a tokenizer.json.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

Status read_normalizer(const nlohmann::json& value, const std::string& source,
                       Normalizer& normalizer);

}  // namespace neuronmm::text
