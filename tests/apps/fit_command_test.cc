// The tests in this file run `neuronmm fit` as a user does.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kDemo;
using neuronmm::apps::neuronmm;
using neuronmm::apps::read;

class FitCommand : public neuronmm::apps::ProgramTest {
 protected:
  // Few tokens give poor Gram matrices of 384 channels, but the command does the same steps.
  std::string fit(const std::string& more) const {
    return "fit " + kDemo + " --calibration " + kDemo +
           "/calibration.txt --calibration-tokens 800 --sensitivities " + path("known") + " " +
           more;
  }
  // Returns the least size that any form and format has, as the refusal of a smaller one says.
  double least_bytes() const {
    const std::string said = neuronmm(fit("-o " + path("y") + " --bytes 100")).output;
    const size_t at = said.find("this model has ");
    return at == std::string::npos ? 0.0 : std::atof(said.c_str() + at + 15);
  }
};

TEST_F(FitCommand, MeetsTheBudgetAndReusesItsSensitivities) {
  expect(neuronmm(fit("-o " + path("out") + " --bytes 5M --json " + path("fit.json") + " --html " +
                      path("fit.html"))),
         0, {"matrices:", "no choice is better by more than", "measured on", "KL", "written to"});
  const auto report = nlohmann::json::parse(read(path("fit.json")));
  EXPECT_LE(report["measured"]["bytes"], 5e6);
  EXPECT_EQ(report["provenance"]["models"].size(), 1u);
  EXPECT_EQ(report["format_version"], 1);
  EXPECT_NE(read(path("fit.html")).find("What made this page"), std::string::npos);
  EXPECT_EQ(report["layers"].size(), 4u);
  EXPECT_GE(report["front_of_bytes"].size(), 3u);
  EXPECT_NE(read(path("fit.html")).find("</html>"), std::string::npos);
  expect(neuronmm("generate " + path("out") + " --prompt Once --max-new-tokens 4"), 0, {});
  expect(neuronmm("inspect " + path("out")), 0, {"bits"});
  // The second run uses the sensitivities that the first has measured.
  expect(neuronmm(fit("--plan --max-kl 0.05")), 0, {"predicted: KL 0.0", "another budget"});
  expect(neuronmm(fit("-o " + path("out") + " --bytes 5M")), 1, {"already exists", "--force"});
  expect(neuronmm(fit("-o " + path("x") + " --bytes 100K")), 1, {"out of reach", "smallest"});
  expect(neuronmm(fit("-o " + path("x") + " --decode 1000x")), 1, {"out of reach", "at most"});
  EXPECT_GE(report["front_of_bytes"][0]["bytes"], least_bytes());
  expect(neuronmm(fit("-o " + path("x") + " --bytes 5M --max-kl 1e-8")), 1,
         {"5000000 bytes", "beside the other budgets", "nearest"});
  expect(neuronmm(fit("-o " + path("x") + " --bytes 1G")), 1, {"meets the budget as it is"});
  expect(neuronmm(fit("--plan --prefill 1.05x --device trn1")), 0,
         {"predictions for trn1", "no Trainium", "as it is"});
  expect(neuronmm("fit " + path("out") + " --plan --bytes 4M --sensitivities s --calibration " +
                  kDemo + "/calibration.txt"),
         1, {"rounded already (", "); fit the original model"});
  expect(neuronmm("quantize " + path("out") + " -o " + path("x")), 1,
         {"out: its weights are rounded already ("});
  EXPECT_FALSE(fs::exists(path("x")));
}

// Nothing is measured for a budget that no model can meet, and no folder is made. A text that
// cannot be encoded would be found later.
TEST_F(FitCommand, ImpossibleBudgetsAndOutputsAreRefusedFirst) {
  const std::string start =
      "fit " + kDemo + " --calibration " + write("short.txt", "Once") + " -o ";
  const std::string out = start + path("out") + " ";
  expect(neuronmm(out + "--bytes 100"), 1, {"100 bytes are out of reach", "smallest form"});
  const double least = least_bytes();
  EXPECT_GT(least, 1e5);
  EXPECT_LT(least, 2.5e6) << "4 bits without narrower MLPs have 4 MB";
  expect(neuronmm(out + "--bytes " + fmt::format("{:.0f}", least - 1)), 1, {"out of reach"});
  expect(neuronmm(out + "--bytes " + fmt::format("{:.0f}", least)), 1, {"calibration tokens"});
  expect(neuronmm(out + "--bytes 1G"), 1, {"meets the budget as it is"});
  expect(neuronmm(out + "--bytes 1G --decode 0.9x"), 1, {"meets the budget as it is"});
  expect(neuronmm(out + "--bytes 1G --decode 1.1x"), 1, {"calibration tokens"});
  fs::create_directory(path("exists"));
  expect(neuronmm(start + path("exists") + " --bytes 5M"), 1, {"exists", "--force"});
  expect(neuronmm(start + kDemo + "/inside --bytes 5M"), 1, {"outside the input folder"});
  expect(neuronmm(start + path("short.txt") + "/x --bytes 5M"), 1, {"short.txt", "found a file"});
  for (const char* left : {"out", "out.fit", "out.partial"}) EXPECT_FALSE(fs::exists(path(left)));
}

TEST_F(FitCommand, RefusesWrongBudgetsAndTexts) {
  const std::string out = "-o " + path("out") + " ";
  expect(neuronmm(fit(out)), 2, {"--bytes", "--decode", "--max-kl", "budget"});
  expect(neuronmm(fit("--bytes 5M")), 2, {"--output"});
  for (const char* const wrong : {"80X", "M", "-5", "0", "nan", "1e99", "5 M"}) {
    expect(neuronmm(fit(out + "--bytes '" + wrong + "'")), 2, {"--bytes", "80M, 80MB, 80MiB"});
  }
  for (const char* const wrong : {"x", "0x", "-1x", "2y", "inf"}) {
    expect(neuronmm(fit(out + "--decode " + wrong)), 2, {"--decode", "1.5x"});
  }
  for (const char* const wrong : {"0", "nan", "-1"}) {
    expect(neuronmm(fit(out + "--max-kl " + wrong)), 2, {"--max-kl", wrong});
  }
  expect(neuronmm("fit " + kDemo + " " + out + "--bytes 5M"), 2, {"--calibration"});
  expect(neuronmm("fit " + kDemo + " " + out + "--bytes 5M --calibration nowhere.txt"), 1,
         {"nowhere.txt"});
  write("short.txt", "Once upon a time");
  expect(neuronmm("fit " + kDemo + " " + out + "--bytes 5M --calibration " + path("short.txt")), 1,
         {"calibration tokens", "384"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
