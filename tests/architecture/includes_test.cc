// Tests that the folders of src/ depend on each other only as docs/design/architecture.md allows.
// Both the #include lines and the link lists of CMake are checked.

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
// For each folder of src/, the folders whose headers it may include.
const std::map<std::string, Folders> kDependencies = {
    {"base", {}},
    {"parallel", {"base"}},
    {"ops", {"base"}},
    {"cpu", {"ops", "base"}},
    {"io", {"io/families", "base"}},
    {"io/families", {"io", "base"}},
    {"text/jinja", {"base"}},
    {"text/unicode", {"base"}},
    {"text/tokenizer", {"text/unicode", "io", "base"}},
    {"text", {"text/jinja", "text/tokenizer", "text/unicode", "io", "base"}},
    {"model", {"ops", "io/families", "io", "text/tokenizer", "base"}},
    {"tensor_parallel", {"parallel", "model", "ops", "io", "base"}},
    {"training", {"cpu", "model", "ops", "io", "text/tokenizer", "base"}},
    {"gguf", {"model", "io/families", "io", "text/tokenizer", "text/unicode", "base"}},
    {"gguf_out", {"gguf", "model", "ops", "io/families", "io", "text/tokenizer", "base"}},
    {"compress/linear_algebra", {"ops", "base"}},
    {"compress/calibration", {"model", "ops", "io", "text", "text/tokenizer", "base"}},
    {"compress/statistics",
     {"compress/calibration", "compress/linear_algebra", "training", "parallel", "model", "ops",
      "io", "text/tokenizer", "base"}},
    {"compress/rounding",
     {"compress/statistics", "compress/calibration", "compress/linear_algebra", "model", "ops",
      "io", "base"}},
    {"compress/block_rounding",
     {"compress/rounding", "compress/statistics", "compress/linear_algebra", "gguf_out", "model",
      "ops", "io", "base"}},
    {"compress/factors",
     {"compress/rounding", "compress/statistics", "compress/linear_algebra", "model", "ops", "io",
      "base"}},
    {"compress/sizes",
     {"compress/factors", "compress/rounding", "compress/statistics", "compress/linear_algebra",
      "model", "ops", "io", "base"}},
    {"compress/output",
     {"compress/sizes", "compress/factors", "compress/rounding", "model", "ops", "io/families",
      "io", "base"}},
    {"compress/reconstruction",
     {"compress/output", "compress/statistics", "compress/calibration", "training", "cpu", "model",
      "ops", "io", "base"}},
    {"compress",
     {"compress/reconstruction", "compress/output", "compress/sizes", "compress/factors",
      "compress/rounding", "compress/statistics", "compress/calibration", "compress/linear_algebra",
      "parallel", "model", "ops", "io", "base"}},
    {"finetune",
     {"compress/output", "compress/rounding", "training", "model", "io", "text", "text/tokenizer",
      "base"}},
    {"eval", {"model", "ops", "io", "text", "text/tokenizer", "text/unicode", "base"}},
    {"exports", {"compress/output", "compress/rounding", "eval", "gguf_out", "io", "base"}},
    {"fit",
     {"eval", "compress", "compress/sizes", "compress/rounding", "compress/statistics",
      "compress/calibration", "compress/linear_algebra", "model", "text/tokenizer", "io", "ops",
      "base"}},
    {"serve/engine", {"model", "text/tokenizer", "ops", "base"}},
    {"serve/grammar", {"model", "text/tokenizer", "text/unicode", "base"}},
    {"serve/schema", {"serve/grammar", "text/unicode", "base"}},
    {"serve/requests", {"serve/engine", "model", "text", "text/tokenizer", "io", "base"}},
    {"serve/output", {"serve/requests", "text", "text/tokenizer", "text/unicode"}},
    {"serve/responses",
     {"serve/output", "serve/requests", "serve/engine", "model", "text/tokenizer", "text/unicode"}},
    {"serve/protocol",
     {"serve/responses", "serve/output", "serve/requests", "serve/engine", "model", "text",
      "text/tokenizer", "text/unicode", "io", "base"}},
    {"serve/web", {}},
    {"serve/http",
     {"serve/web", "serve/protocol", "serve/responses", "serve/requests", "serve/schema",
      "serve/grammar", "serve/engine", "model", "text/tokenizer", "base"}},
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

// Folders whose sources belong to the library of the folder above.
const Folders kParts = {"io/families"};

const fs::path kSource = neuronmm::source_dir() / "src";

const std::regex kInclude(R"rx(#include "([a-z_0-9/]+)/[^/"]+")rx");

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the first capture of every match.
Folders matches(const std::string& text, const std::regex& pattern) {
  Folders found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

// Returns the name of a folder's library. Libraries in serve/ and compress/ have the name of that
// folder as a prefix, because `engine` or `sizes` alone would say little in a list of libraries.
std::string library_name(const std::string& folder) {
  const fs::path path = folder;
  const std::string parent = path.parent_path(), name = path.filename();
  return parent == "serve" || parent == "compress" ? parent + "_" + name : name;
}

TEST(Architecture, EveryFolderWithSourcesIsInTheTable) {
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    const std::string folder = fs::relative(entry.path().parent_path(), kSource);
    EXPECT_TRUE(kDependencies.contains(folder)) << entry.path();
  }
}

TEST(Architecture, IncludesFollowTheTable) {
  int includes_seen = 0;
  for (const auto& [folder, dependencies] : kDependencies) {
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      for (const std::string& target : matches(read(entry.path()), kInclude)) {
        // A folder that src/ does not have belongs to an installed library.
        if (target == folder || !fs::exists(kSource / target)) continue;
        ++includes_seen;
        EXPECT_TRUE(dependencies.contains(target))
            << entry.path() << " includes " << target << "/, which " << folder << " may not";
      }
    }
  }
  EXPECT_GT(includes_seen, 20);
}

// A dependency that no #include uses would make the table wrong.
TEST(Architecture, EveryDependencyInTheTableIsUsed) {
  for (const auto& [folder, dependencies] : kDependencies) {
    Folders used;
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      used.merge(matches(read(entry.path()), kInclude));
    }
    for (const std::string& dependency : dependencies) {
      EXPECT_TRUE(used.contains(dependency))
          << folder << " may include " << dependency << ", but never does";
    }
  }
}

TEST(Architecture, LinkListsAgreeWithTheTable) {
  // A name with an ending or a slash behind it is a Python file, not a library.
  const std::regex link(R"(\bneuronmm_([a-z_]+)\b(?![./]))");
  for (const auto& [folder, dependencies] : kDependencies) {
    if (kParts.contains(folder)) continue;
    Folders libraries = {"library"};  // the name of the CMake function
    for (const std::string& dependency : dependencies) {
      if (!kParts.contains(dependency)) libraries.insert(library_name(dependency));
    }
    Folders found = matches(read(kSource / folder / "CMakeLists.txt"), link);
    found.erase(library_name(folder));  // mentions of the library itself
    EXPECT_EQ(found, libraries) << folder;
  }
}

}  // namespace
