#pragma once
// This file runs every published measurement (published.h) through the timing model and compares
// the results. The `paper` command and the tests call it.

#include <vector>

#include "base/result.h"
#include "trainium/validation/published.h"

namespace neuronmm::validation {

// A published value with its simulated counterpart.
struct Row {
  const Published* published = nullptr;
  double simulated = 0;  // The simulated value, in the unit of the published value.
  // The relative difference of the compared quantity, time or bytes. An MFU is compared as the time
  // that it implies.
  double difference = 0;
};

// Returns the rows in the order of published(). Fails if a program cannot be simulated.
Result<std::vector<Row>> validate();

// The error of the rows of one set that are times (milliseconds and MFU).
struct TimeError {
  double mean_absolute = 0, worst = 0;  // Relative errors; `worst` is signed.
  const Row* worst_row = nullptr;
  int rows = 0;
};
TimeError time_error(const std::vector<Row>& rows, Set set);

// Rows that the mechanisms miss by more than this are unexplained, and are printed as such.
inline constexpr double kUnexplained = 0.25;

std::string to_string(const std::vector<Row>& rows);  // Returns the table as text.

}  // namespace neuronmm::validation
