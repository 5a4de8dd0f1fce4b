#pragma once
// The "decoder" of a tokenizer.json.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

// Sets the definition's decoder and decodes_bytes.
Status read_decoder(const nlohmann::json& value, const std::string& source,
                    TokenizerDefinition& definition);

}  // namespace neuronmm::text
