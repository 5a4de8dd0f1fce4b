#pragma once
// Finds the files that are installed with the program, in share/neuronmm beside the folder of the
// program.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::apps {

// A folder that is installed with the program. In a build folder a link beside the program leads to
// it, relative to which both can be moved together.
struct InstalledFolder {
  const char* name;     // in share/neuronmm: "python"
  const char* link;     // in a build folder: "python_packages"
  const char* source;   // in the source tree: "python"
  const char* file;     // a file that must be in it: "nki/run.py"
  const char* purpose;  // what is missing without it, in the plural: "the Python files that ..."
};

// Returns the absolute path of the folder. The error names both places that were searched.
Result<std::filesystem::path> find_installed(const InstalledFolder& folder);

}  // namespace neuronmm::apps
