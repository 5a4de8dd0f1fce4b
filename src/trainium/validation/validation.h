#pragma once
// Runs every published measurement (published.h) through the timing model and sets the
// results side by side.

#include <vector>

#include "base/result.h"
#include "trainium/validation/published.h"

namespace neuronmm::validation {

struct Row {
  const Published* published = nullptr;
  double simulated = 0;  // in the unit of the published value
  // Relative difference of what is compared, time or bytes: an MFU is compared as the time it
  // means.
  double difference = 0;
};

Result<std::vector<Row>> validate();  // in the order of published()

// Of the rows that are times (milliseconds and MFU) in one set.
struct TimeError {
  double mean_absolute = 0, worst = 0;  // worst: signed
  const Row* worst_row = nullptr;
  int rows = 0;
};
TimeError time_error(const std::vector<Row>& rows, Set set);

// Rows that the mechanisms miss by more than this are unexplained, and shown as such.
inline constexpr double kUnexplained = 0.25;

std::string to_string(const std::vector<Row>& rows);  // the table

}  // namespace neuronmm::validation
