#pragma once
// Reads the "post_processor" of a tokenizer.json, which says what surrounds a text (BOS and EOS,
// for example). tokenizer_json.cc is the caller. Unknown processors are errors.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

// Adds the tokens to the definition's prefix and suffix. The definition's vocabulary must be
// complete.
Status read_post_processor(const nlohmann::json& value, const std::string& source,
                           TokenizerDefinition& definition);

}  // namespace neuronmm::text
