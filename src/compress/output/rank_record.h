#pragma once
// Records the ranks of a model folder that has factors but no compression record, such as the
// folders that the reference system writes. `quantize`, `dequantize` and `finetune` call it before
// they write a new folder.

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Returns the config.json text of `checkpoint` with a record of its ranks, which transformers needs
// before it reads a tensor. The text is unchanged if it has a record already or if no matrix is
// low-rank. The method is recorded as "unknown", because the tensors do not tell it; the ratio is
// the mean share of parameters that the factors save. Fails if the weights of a layer cannot be
// read.
Result<std::string> with_rank_record(std::string config_text, const io::Checkpoint& checkpoint,
                                     const io::ModelConfig& config);

}  // namespace neuronmm::compress
