#pragma once
// Measured losses by name, in a JSON file that grows with every measurement.

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "fit/rounding_losses.h"

namespace neuronmm::fit {

using LossesByName = std::map<std::string, FormatLosses>;

// Nothing where there is no file. Errors: a file that is not one of these.
Result<LossesByName> read_losses(const std::filesystem::path& path);
Status write_losses(const std::filesystem::path& path, const LossesByName& losses);

}  // namespace neuronmm::fit
