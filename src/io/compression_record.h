#pragma once
// "neuronmm_compression" of config.json: what `compress` did to the model.

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/json_file.h"
#include "io/model_config.h"

namespace neuronmm::io {

// nullopt when `fields` (those of config.json) have no record. The sizes of `config` must be known.
Result<std::optional<CompressionRecord>> read_compression_record(const JsonFields& fields,
                                                                 const ModelConfig& config);

// Whether what a model's folder says of its making names a text with this checksum
// (io/checksum.h).
bool calibrated_on(const ModelConfig& config, std::string_view text_checksum);

}  // namespace neuronmm::io
