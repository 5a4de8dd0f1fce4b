#pragma once
// What an export consists of, so that the check there can say which file is missing or another.

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace neuronmm::exports {

// {"run.py": {"bytes": 3000, "crc32": 1234}, ...} of every file below `folder`, by their paths from
// there. Weights have no crc32: reading them once more would take as long as writing them, and
// the golden logits depend on every one of them.
Result<nlohmann::ordered_json> written_files(const std::filesystem::path& folder);

}  // namespace neuronmm::exports
