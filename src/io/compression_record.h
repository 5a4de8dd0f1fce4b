#pragma once
// "neuronmm_compression" of config.json: what `compress` did to the model.

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/json_file.h"
#include "io/model_config.h"

namespace neuronmm::io {

// Returns the record in the fields of config.json, or nothing if they have none. The sizes of
// `config` must be known.
Result<std::optional<CompressionRecord>> read_compression_record(const JsonFields& fields,
                                                                 const ModelConfig& config);

// Returns whether the model was calibrated on a text with this checksum (io/checksum.h).
bool calibrated_on(const ModelConfig& config, std::string_view text_checksum);

}  // namespace neuronmm::io
