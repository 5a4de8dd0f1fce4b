#pragma once
// "neuronmm_compression" of config.json: what `compress` did to the model.

#include "io/json_file.h"
#include "io/model_config.h"

namespace neuronmm::io {

// nullopt when `fields` (those of config.json) have no record. The sizes of `config` must be known.
Result<std::optional<CompressionRecord>> read_compression_record(const JsonFields& fields,
                                                                 const ModelConfig& config);

}  // namespace neuronmm::io
