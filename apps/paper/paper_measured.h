#pragma once
// What an owner of a Trainium measured, beside what the export had predicted.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace neuronmm::apps {

struct MeasuredRows {
  std::string text, json;  // a table; an array of objects
};

// `file`: check_report.json of an export, whose "steps" have the times and whose "export" has the
// prediction. Errors name the file and the field; a report without a time has no rows and is one.
Result<MeasuredRows> measured_rows(const std::filesystem::path& file);

}  // namespace neuronmm::apps
