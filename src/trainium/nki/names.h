#pragma once
// Python names for the loops and buffers of a program.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::nki {

// A Python identifier like `name`: "up.BM" becomes "up_BM", "lambda" "lambda_".
std::string identifier(std::string_view name);

// The name of a step as a constant: "up.BM" becomes "UP_BM".
std::string constant_name(std::string_view step_name);

struct Names {
  std::vector<std::string> loops;    // by LoopId
  std::vector<std::string> buffers;  // by BufferId
  std::set<std::string> taken;       // all that must not be given again: those, and `taken` below
};
// Every buffer has a name of its own, by which a trace of the source knows it. None is in `taken`.
Names choose_names(const tile::Program& program, const std::set<std::string>& taken);

}  // namespace neuronmm::nki
