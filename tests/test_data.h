#pragma once
// Where the optional real test data lies: $NEURONMM_TEST_DATA, or the folder data/ of a `shared`
// checkout beside this one.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace neuronmm {

inline std::optional<std::filesystem::path> test_data_path(const std::string& relative) {
  const char* given = std::getenv("NEURONMM_TEST_DATA");
  const std::filesystem::path root =
      given != nullptr ? given : std::filesystem::path(NEURONMM_SOURCE_DIR) / "../shared/data";
  std::error_code ignored;
  const std::filesystem::path path = root / relative;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path;
}

}  // namespace neuronmm

// Defines `name`, or skips the test because `relative` is not there.
#define NMM_TEST_DATA_OR_SKIP(name, relative)                               \
  const auto name##_found = ::neuronmm::test_data_path(relative);           \
  if (!name##_found)                                                        \
    GTEST_SKIP() << "no test data " << (relative)                           \
                 << "; set NEURONMM_TEST_DATA to the folder that holds it"; \
  const std::filesystem::path name = *name##_found
