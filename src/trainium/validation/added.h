#pragma once
// Published measurements that were collected later (Set::kAdded of published.h).

#include <vector>

#include "trainium/validation/published.h"

namespace neuronmm::validation {

std::vector<Published> added_rows();

}  // namespace neuronmm::validation
