// docs/design/architecture.md describes the code as it is: each step of its four paths names a file
// that exists, and its table of folders has every folder of src.

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "places.h"

namespace {

namespace fs = std::filesystem;

// A numbered list under a heading of the page.
struct Path {
  std::string heading;
  std::vector<std::string> steps;
};

std::string page() {
  std::ifstream file(neuronmm::source_dir() / "docs/design/architecture.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Path> paths() {
  const std::regex step(R"(\d+\. .*)");
  std::vector<Path> found;
  std::istringstream lines(page());
  std::string heading;
  bool in_step = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) heading = line;
    if (std::regex_match(line, step)) {
      if (found.empty() || found.back().heading != heading) found.push_back({heading, {}});
      found.back().steps.push_back(line);
      in_step = true;
    } else if (in_step && line.starts_with(" ")) {
      found.back().steps.back() += line;
    } else {
      in_step = false;
    }
  }
  return found;
}

std::vector<std::string> files_in(const std::string& step) {
  const std::regex file(R"(`([a-z0-9_/]+\.(h|cc|py))`)");
  std::vector<std::string> names;
  for (std::sregex_iterator match(step.begin(), step.end(), file), end; match != end; ++match) {
    names.push_back((*match)[1]);
  }
  return names;
}

TEST(ArchitecturePage, HasFivePathsOfAtMostTenSteps) {
  const std::vector<Path> found = paths();
  EXPECT_EQ(found.size(), 5u);
  for (const Path& path : found) {
    EXPECT_GE(path.steps.size(), 5u) << path.heading;
    EXPECT_LE(path.steps.size(), 10u) << path.heading;
  }
}

TEST(ArchitecturePage, EachStepNamesFilesThatExist) {
  for (const Path& path : paths()) {
    for (const std::string& step : path.steps) {
      const std::vector<std::string> files = files_in(step);
      EXPECT_FALSE(files.empty()) << path.heading << ": " << step;
      for (const std::string& file : files) {
        EXPECT_TRUE(fs::exists(neuronmm::source_dir() / file)) << path.heading << ": " << file;
      }
    }
  }
}

TEST(ArchitecturePage, TheTableHasEveryFolder) {
  const std::string text = page();
  for (const auto& entry : fs::recursive_directory_iterator(neuronmm::source_dir() / "src")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    const std::string folder =
        fs::relative(entry.path().parent_path(), neuronmm::source_dir()).string();
    if (folder == "src/trainium") continue;  // it only lists its folders
    EXPECT_NE(text.find("`" + folder + "`"), std::string::npos) << folder;
  }
}

}  // namespace
