#pragma once
// The Python files of an export, which the program carries along.

#include <string>
#include <string_view>
#include <vector>

#include "exports/target.h"

namespace neuronmm::exports {

struct PayloadFile {
  std::string path;  // in python/export, or in the folder that is written
  std::string_view text;
};

const std::vector<PayloadFile>& all_payload();

// What lies in an export for `target`: the files for all targets, its own, and the smaller MLPs,
// which are those beside the weights (python/transformers/neuronmm_mlp.py).
std::vector<PayloadFile> payload(Target target);

}  // namespace neuronmm::exports
