#pragma once
// Reads the "decoder" of a tokenizer.json. tokenizer_json.cc is the caller. Unknown steps are
// errors.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer/tokenizer_definition.h"

namespace neuronmm::text {

// Sets `decoder` and `decodes_bytes` of the definition. Errors begin with `source`.
Status read_decoder(const nlohmann::json& value, const std::string& source,
                    TokenizerDefinition& definition);

}  // namespace neuronmm::text
