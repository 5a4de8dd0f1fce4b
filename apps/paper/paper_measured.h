#pragma once
// This file compares what an owner of a Trainium measured with what the export predicted, for
// `neuronmm paper validation --measured`.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace neuronmm::apps {

// The rows in two formats.
struct MeasuredRows {
  std::string text, json;  // A table, and an array of objects.
};

// Reads `file`, the check_report.json of an export. Its "steps" have the times, and its "export"
// has the prediction. Errors name the file and the field. A report without a measured time is an
// error.
Result<MeasuredRows> measured_rows(const std::filesystem::path& file);

}  // namespace neuronmm::apps
