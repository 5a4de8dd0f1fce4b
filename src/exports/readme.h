#pragma once
// README.md of an export: how to run it, with which versions, and what the simulator expects.

#include <string>

#include "exports/manifest.h"

namespace neuronmm::exports {

std::string readme(const Manifest& manifest);

}  // namespace neuronmm::exports
