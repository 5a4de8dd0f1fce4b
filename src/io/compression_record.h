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

// The list under "calibration", and how it is read; absent it is empty. The saved Gram matrices of
// a text have it too.
nlohmann::ordered_json calibration_json(const std::vector<CalibrationSource>& sources);
Result<std::vector<CalibrationSource>> read_calibration(const JsonFields& fields);

// Whether the record of a model's folder names a text with this checksum (io/checksum.h).
bool calibrated_on(const ModelConfig& config, std::string_view text_checksum);

}  // namespace neuronmm::io
