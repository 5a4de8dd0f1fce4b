#pragma once
// Checks the keys of config.json. A key that is not known could change what the model computes, so
// it is refused by name unless its value switches it off. model_config.cc is the caller.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "io/families/family.h"

namespace neuronmm::io {

// Refuses a key of `document` that neither all families nor this one knows. Values that switch
// something off are accepted under any key: null, false, 0, "", [], {}, and 1 for multipliers.
Status refuse_unknown_keys(const nlohmann::json& document, const Family& family,
                           const std::string& source);

// Returns what a kind of model needs that is missing here, such as "layers with a recurrent state",
// or "" if the kind is not known. `name` is a class, a model type or an architecture of GGUF.
std::string_view missing_for(std::string_view name);

}  // namespace neuronmm::io
