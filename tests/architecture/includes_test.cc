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

namespace {

namespace fs = std::filesystem;

using Folders = std::set<std::string>;
const std::map<std::string, Folders> kArrows = {
    {"base", {}},
    {"ops", {"base"}},
    {"cpu", {"ops", "base"}},
    {"io", {"base"}},
    {"text", {"io", "base"}},
    {"model", {"ops", "io", "text", "base"}},
    {"compress", {"model", "ops", "io", "text", "base"}},
    {"eval", {"model", "text", "base"}},
};

const fs::path kSource = fs::path(NEURONMM_SOURCE_DIR) / "src";

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Folders matches(const std::string& text, const std::regex& pattern) {
  Folders found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

TEST(Architecture, EveryFolderHasItsArrows) {
  Folders folders;
  for (const auto& entry : fs::directory_iterator(kSource)) folders.insert(entry.path().filename());
  Folders known;
  for (const auto& [folder, arrows] : kArrows) known.insert(folder);
  EXPECT_EQ(folders, known);
}

TEST(Architecture, IncludesFollowTheArrows) {
  const std::regex include(R"rx(#include "([a-z_0-9]+)/)rx");
  int files = 0;
  for (const auto& [folder, arrows] : kArrows) {
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") continue;
      ++files;
      for (const std::string& target : matches(read(entry.path()), include)) {
        EXPECT_TRUE(target == folder || arrows.contains(target))
            << entry.path() << " includes " << target << "/, which " << folder << " may not";
      }
    }
  }
  EXPECT_GT(files, 20);
}

TEST(Architecture, LinkListsAreTheArrows) {
  const std::regex link(R"(\bneuronmm_([a-z]+)\b(?!\())");
  for (const auto& [folder, arrows] : kArrows) {
    std::string text = read(kSource / folder / "CMakeLists.txt");
    text = std::regex_replace(text, std::regex("neuronmm_library"), "");
    EXPECT_EQ(matches(text, link), arrows) << folder << "/CMakeLists.txt";
  }
}

}  // namespace
