#pragma once
// The reference backend computes every operation of ops::Backend by its formula, in plain loops
// that accumulate in fp64. Tests compare the fast backends with it, and `--device reference` runs
// it. It is slow on purpose: use it for small models.

#include <memory>

#include "ops/backend.h"

namespace neuronmm::ops {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace neuronmm::ops
