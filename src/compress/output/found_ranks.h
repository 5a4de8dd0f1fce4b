#pragma once
// The ranks of a folder that has factors and does not say so: the reference system writes such.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The config.json text of `checkpoint` with a record of its ranks, which transformers needs before
// it sees a tensor. Unchanged where there is a record already, or nothing to record. What the
// tensors do not tell is written as method "unknown", and the ratio is the share that is gone.
Result<std::string> with_found_ranks(std::string config_text, const io::Checkpoint& checkpoint,
                                     const io::ModelConfig& config);

}  // namespace neuronmm::compress
