#pragma once
// Finds optional files outside the repository that some tests need. Those tests are skipped if the
// files are absent. Test data lie in $NEURONMM_TEST_DATA. The default is the folder data/ of a
// checkout named `shared`, next to this checkout. An independent NKI interpreter lies in
// $NEURONMM_NKI_CHECK. Its default is ../tools/nki_check, relative to the test data.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "places.h"

namespace neuronmm {

// Returns the path if something exists there.
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

// Returns the path of a file or folder below the root of the test data, if it exists.
inline std::optional<std::filesystem::path> test_data_path(const std::string& relative) {
  return existing(test_data_root() / relative);
}

inline std::optional<std::filesystem::path> nki_check_path() {
  const char* given = std::getenv("NEURONMM_NKI_CHECK");
  return existing(given != nullptr ? given : test_data_root() / "../tools/nki_check");
}

}  // namespace neuronmm

// Defines `name` as the path of the test data `relative`, or skips the test if there are none.
#define NMM_TEST_DATA_OR_SKIP(name, relative)                               \
  const auto name##_found = ::neuronmm::test_data_path(relative);           \
  if (!name##_found)                                                        \
    GTEST_SKIP() << "no test data " << (relative)                           \
                 << "; set NEURONMM_TEST_DATA to the folder that holds it"; \
  const std::filesystem::path name = *name##_found
