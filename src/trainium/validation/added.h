#pragma once
// This file declares the published measurements that were collected later (Set::kAdded of
// published.h). published() appends them to its rows.

#include <vector>

#include "trainium/validation/published.h"

namespace neuronmm::validation {

// Returns the rows in the order of the tables.
std::vector<Published> added_rows();

}  // namespace neuronmm::validation
