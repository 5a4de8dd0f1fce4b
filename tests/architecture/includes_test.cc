// The arrows of docs/architecture.md: which folder of src/ may include which. Checked in the
// includes and in the link lists.

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "places.h"

namespace {

namespace fs = std::filesystem;

using Folders = std::set<std::string>;
const std::map<std::string, Folders> kArrows = {
    {"base", {}},
    {"parallel", {"base"}},
    {"ops", {"base"}},
    {"cpu", {"ops", "base"}},
    {"io", {"base"}},
    {"text/jinja", {"base"}},
    {"text", {"text/jinja", "io", "base"}},
    {"model", {"ops", "io", "text", "base"}},
    {"tensor_parallel", {"parallel", "model", "ops", "base"}},
    {"gguf", {"model", "io", "text", "base"}},
    {"compress/linear_algebra", {"ops", "base"}},
    {"compress/calibration", {"model", "ops", "io", "text", "base"}},
    {"compress/statistics",
     {"compress/calibration", "compress/linear_algebra", "parallel", "model", "ops", "io", "text",
      "base"}},
    {"compress/rounding",
     {"compress/statistics", "compress/calibration", "compress/linear_algebra", "model", "ops",
      "io", "base"}},
    {"compress/factors",
     {"compress/rounding", "compress/statistics", "compress/linear_algebra", "model", "ops", "io",
      "base"}},
    {"compress/sizes",
     {"compress/factors", "compress/rounding", "compress/statistics", "compress/linear_algebra",
      "model", "ops", "io", "base"}},
    {"compress/output",
     {"compress/sizes", "compress/factors", "compress/rounding", "model", "ops", "io", "base"}},
    {"compress",
     {"compress/output", "compress/sizes", "compress/factors", "compress/rounding",
      "compress/statistics", "compress/calibration", "compress/linear_algebra", "parallel", "model",
      "ops", "io", "base"}},
    {"finetune", {"compress/output", "compress/rounding", "model", "ops", "io", "text", "base"}},
    {"eval", {"model", "ops", "io", "text", "base"}},
    {"exports", {"compress/output", "eval", "io", "base"}},
    {"fit",
     {"compress", "compress/sizes", "compress/rounding", "compress/statistics",
      "compress/calibration", "compress/linear_algebra", "eval", "model", "ops", "io", "text",
      "base"}},
    {"serve/engine", {"model", "ops", "text", "base"}},
    {"serve/grammar", {"model", "text", "base"}},
    {"serve/protocol", {"serve/engine", "model", "text", "io", "base"}},
    {"serve/web", {}},
    {"serve/http",
     {"serve/protocol", "serve/grammar", "serve/engine", "serve/web", "model", "text", "base"}},
    {"serve/load", {"text", "io", "base"}},
    {"trainium/tile", {"base"}},
    {"trainium/kernels", {"trainium/tile", "base"}},
    {"trainium/reference", {"trainium/kernels", "base"}},
    {"trainium/nki", {"trainium/tile", "base"}},
    {"trainium/simulator", {"trainium/tile", "base"}},
    {"trainium/trace", {"trainium/simulator", "trainium/tile", "io", "base"}},
    {"trainium/tuner", {"trainium/simulator", "trainium/kernels", "trainium/tile", "io", "base"}},
    {"trainium/device", {"trainium/simulator", "trainium/kernels", "ops", "base"}},
    {"trainium/validation", {"trainium/simulator", "trainium/kernels", "trainium/tile", "base"}},
};

const fs::path kSource = neuronmm::source_dir() / "src";

const std::regex kInclude(R"rx(#include "([a-z_0-9/]+)/[^/"]+")rx");

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first capture of every match.
Folders matches(const std::string& text, const std::regex& pattern) {
  Folders found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

// The parts of serve/ and compress/ are named after them: `engine` or `sizes` alone says little in
// a list of libraries.
std::string library_name(const std::string& folder) {
  const fs::path path = folder;
  const std::string parent = path.parent_path(), name = path.filename();
  return parent == "serve" || parent == "compress" ? parent + "_" + name : name;
}

TEST(Architecture, EveryFolderWithSourcesHasItsArrows) {
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    const std::string folder = fs::relative(entry.path().parent_path(), kSource);
    EXPECT_TRUE(kArrows.contains(folder)) << entry.path();
  }
}

TEST(Architecture, IncludesFollowTheArrows) {
  int arrows_seen = 0;
  for (const auto& [folder, arrows] : kArrows) {
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      for (const std::string& target : matches(read(entry.path()), kInclude)) {
        if (target == folder || !fs::exists(kSource / target)) continue;  // a library's header
        ++arrows_seen;
        EXPECT_TRUE(arrows.contains(target))
            << entry.path() << " includes " << target << "/, which " << folder << " may not";
      }
    }
  }
  EXPECT_GT(arrows_seen, 20);
}

// An arrow that no include uses says something about the house that is not true any more.
TEST(Architecture, EveryArrowIsUsed) {
  for (const auto& [folder, arrows] : kArrows) {
    Folders used;
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      used.merge(matches(read(entry.path()), kInclude));
    }
    for (const std::string& arrow : arrows) {
      EXPECT_TRUE(used.contains(arrow)) << folder << " has an arrow to " << arrow << " for nothing";
    }
  }
}

TEST(Architecture, LinkListsAreTheArrows) {
  // What has an ending or a slash behind it is a file of Python.
  const std::regex link(R"(\bneuronmm_([a-z_]+)\b(?![./]))");
  for (const auto& [folder, arrows] : kArrows) {
    Folders libraries = {"library"};  // the CMake function's own name
    for (const std::string& arrow : arrows) libraries.insert(library_name(arrow));
    Folders found = matches(read(kSource / folder / "CMakeLists.txt"), link);
    found.erase(library_name(folder));  // what is said of the library itself
    EXPECT_EQ(found, libraries) << folder;
  }
}

}  // namespace
