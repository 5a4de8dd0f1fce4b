#pragma once
// Writes the README.md of an export: how to run it, with which versions, and which times the
// simulator predicts.

#include <string>

#include "exports/manifest.h"

namespace neuronmm::exports {

// Returns the text of README.md.
std::string readme(const Manifest& manifest);

}  // namespace neuronmm::exports
