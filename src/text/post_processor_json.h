#pragma once
// The "post_processor" of a tokenizer.json.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

// What it puts around a text, added to the definition's prefix and suffix. The definition's
// vocabulary is already read.
Status read_post_processor(const nlohmann::json& value, const std::string& source,
                           TokenizerDefinition& definition);

}  // namespace neuronmm::text
