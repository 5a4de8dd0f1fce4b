#pragma once
// This file chooses Python names for the loops and buffers of a program, for the emitter.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::nki {

// Returns a Python identifier like `name`: "up.BM" becomes "up_BM", and "lambda" becomes "lambda_".
std::string identifier(std::string_view name);

// Returns the name of a step as a constant: "up.BM" becomes "UP_BM".
std::string constant_name(std::string_view step_name);

// The names of one program.
struct Names {
  std::vector<std::string> loops;    // By LoopId.
  std::vector<std::string> buffers;  // By BufferId.
  // All names that must not be given again: the names above, and the `taken` of choose_names.
  std::set<std::string> taken;
};
// Returns the names of all loops and buffers. Every buffer has a name of its own, by which a trace
// of the source identifies it. No chosen name is in `taken`.
Names choose_names(const tile::Program& program, const std::set<std::string>& taken);

}  // namespace neuronmm::nki
