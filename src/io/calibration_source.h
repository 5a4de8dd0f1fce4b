#pragma once
// The texts that decided what became of a model's weights, as files name them: a list under
// "calibration", in the records of compression and of rounding in config.json and beside saved
// statistics.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace neuronmm::io {

class JsonFields;

struct CalibrationSource {
  std::string name;    // of the file, without its folder
  std::string xxh3;    // io::checksum of the whole file
  int64_t bytes = 0;   // of the whole file
  int64_t tokens = 0;  // that were used of it

  bool operator==(const CalibrationSource&) const = default;
};

nlohmann::ordered_json calibration_json(const std::vector<CalibrationSource>& sources);
// Empty where the key is absent.
Result<std::vector<CalibrationSource>> read_calibration(const JsonFields& fields);

}  // namespace neuronmm::io
