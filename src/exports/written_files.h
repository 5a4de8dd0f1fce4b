#pragma once
// Lists the files of an export with their sizes and checksums, so that check_on_trainium.py can say
// which file is missing or changed.

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace neuronmm::exports {

// Returns {"run.py": {"bytes": 3000, "crc32": 1234}, ...} with every file below `folder`, named by
// its path from there. Weight files have no crc32: reading them again would take as long as writing
// them, and the golden logits depend on every weight.
Result<nlohmann::ordered_json> written_files(const std::filesystem::path& folder);

}  // namespace neuronmm::exports
