#pragma once
// The oracle: every operation of ops::Backend as its formula, in plain loops with fp64 accumulation
// and no blocking. Slow on purpose; the fast backends are tested against it.

#include <memory>

#include "ops/backend.h"

namespace neuronmm::ops {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace neuronmm::ops
