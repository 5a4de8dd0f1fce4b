#pragma once
// Where the optional things outside the repository lie. Real test data: $NEURONMM_TEST_DATA, or the
// folder data/ of a `shared` checkout beside this one. The independent NKI interpreter:
// $NEURONMM_NKI_CHECK, or tools/nki_check beside the data.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "places.h"

namespace neuronmm {

inline std::optional<std::filesystem::path> existing(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path;
}

inline std::filesystem::path test_data_root() {
  const char* given = std::getenv("NEURONMM_TEST_DATA");
  if (given != nullptr) return given;
  return source_dir() / "../shared/data";
}

inline std::optional<std::filesystem::path> test_data_path(const std::string& relative) {
  return existing(test_data_root() / relative);
}

inline std::optional<std::filesystem::path> nki_check_path() {
  const char* given = std::getenv("NEURONMM_NKI_CHECK");
  return existing(given != nullptr ? given : test_data_root() / "../tools/nki_check");
}

}  // namespace neuronmm

// Defines `name`, or skips the test because `relative` is not there.
#define NMM_TEST_DATA_OR_SKIP(name, relative)                               \
  const auto name##_found = ::neuronmm::test_data_path(relative);           \
  if (!name##_found)                                                        \
    GTEST_SKIP() << "no test data " << (relative)                           \
                 << "; set NEURONMM_TEST_DATA to the folder that holds it"; \
  const std::filesystem::path name = *name##_found
