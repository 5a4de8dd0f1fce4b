#pragma once
// This file runs every published measurement (published.h) through the timing model and compares
// the results. The `paper` command and the tests call it.

#include <vector>

#include "base/result.h"
#include "trainium/validation/published.h"

namespace neuronmm::validation {

// A published value with its simulated counterpart. The pointer refers to published(), whose rows
// live as long as the program.
struct Row {
  const Published* published = nullptr;
  double simulated = 0;  // The simulated value, in the unit of the published value.
  // The relative difference: simulated / published - 1. It is positive if the simulation takes
  // longer or moves more bytes than was published. An MFU is compared as the time that it implies,
  // so a smaller MFU gives a positive difference.
  double difference = 0;
};

// Simulates each program once and returns the rows in the order of published(). Fails if a program
// cannot be simulated.
Result<std::vector<Row>> validate();

// The error of those rows of one set that are times (kMilliseconds and kMfuPercent).
struct TimeError {
  double mean_absolute = 0, worst = 0;  // Relative errors. `worst` has the sign of Row::difference.
  const Row* worst_row = nullptr;       // The row of `worst`, or null if the set has no times.
  int rows = 0;                         // The number of rows that are times.
};
// Returns the error of one set. The result points into `rows`.
TimeError time_error(const std::vector<Row>& rows, Set set);

// The largest absolute value of Row::difference that the timing model is said to explain. The
// tables mark rows beyond it as "unexplained", and the tests list such times by name. Assumed.
inline constexpr double kUnexplained = 0.25;

// Returns a table with one line per row and, after each set, the error of its times.
std::string to_string(const std::vector<Row>& rows);

}  // namespace neuronmm::validation
