#pragma once
// Reads and writes measured losses by name in a JSON file, which grows with every measurement.
// rounding_losses.cc uses it to continue after an interrupt.

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "fit/rounding_losses.h"

namespace neuronmm::fit {

using LossesByName = std::map<std::string, FormatLosses>;

// Reads the file. The map is empty if there is no file. Errors: another kind of file.
Result<LossesByName> read_losses(const std::filesystem::path& path);
// Writes the file.
Status write_losses(const std::filesystem::path& path, const LossesByName& losses);

}  // namespace neuronmm::fit
