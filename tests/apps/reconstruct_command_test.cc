// `compress --reconstruct` and `quantize --reconstruct`: what they print, write and refuse, and
// that a run which is killed goes on to the same bytes.

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kDemo;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

class ReconstructCommand : public neuronmm::apps::ProgramTest {
 protected:
  std::string compress(const std::string& out, const std::string& more,
                       const std::string& form = "mixed", int tokens = 4000) const {
    return "compress " + kDemo + " -o " + path(out) + " --ratio 0.3 --form " + form +
           " --method whitened --allocate uniform --calibration " + kDemo +
           "/calibration.txt --calibration-tokens " + std::to_string(tokens) + " " + more;
  }
  std::string quantize(const std::string& out, const std::string& more, int tokens = 3000) const {
    return "quantize " + kDemo + " -o " + path(out) + " --bits 4 --calibration " + kDemo +
           "/calibration.txt --calibration-tokens " + std::to_string(tokens) + " " + more;
  }
  double kl(const std::string& model) const {
    expect(neuronmm("perplexity " + path(model) + " " + kDemo + "/evaluation.txt --limit 2 " +
                    "--reference " + kDemo + " --json " + path("p.json")),
           0, {});
    return nlohmann::json::parse(read(path("p.json")))["kl"];
  }
};

TEST_F(ReconstructCommand, LayersLearnAndTheReportSaysWhat) {
  expect(neuronmm(compress("off", "--reconstruct off", "uv", 12000)), 0, {"written to"});
  const Outcome done =
      neuronmm(compress("on", "--reconstruct 10000 --json " + path("r.json"), "uv", 12000));
  expect(done, 0,
         {"reconstruction: 4 layers learn from", "memory for a layer is about", "error before",
          "mean error of a layer", "written to"});
  const auto report = nlohmann::json::parse(read(path("r.json")));
  EXPECT_EQ(report["reconstruct"], "10000");
  const auto& learnt = report["reconstruction"];
  EXPECT_GT(learnt["tokens"], 5000);
  EXPECT_LE(learnt["tokens"], 10000);
  EXPECT_EQ(learnt["layers"].size(), 4u);
  for (const auto& layer : learnt["layers"]) {
    EXPECT_LE(layer["error_after"], layer["error_before"]);
  }
  EXPECT_NE(read(path("on/README.md")).find("layers learnt"), std::string::npos);
  EXPECT_LT(kl("on"), 0.9 * kl("off"));
  expect(neuronmm("quantize " + path("on") + " -o " + path("eight") + " --bits 8"), 0, {});
  EXPECT_LT(kl("eight"), kl("off"));
}

TEST_F(ReconstructCommand, AutoSaysWhyItIsOff) {
  expect(neuronmm(compress("out", "--no-measure")), 0, {"reconstruction: off, because"});
}

TEST_F(ReconstructCommand, AKilledRunGoesOnToTheSameBytes) {
  const std::string flags = "--no-measure --reconstruct 3000";
  expect(neuronmm(compress("whole", flags)), 0, {});
  for (const char* const signal : {"KILL", "TERM"}) {
    int stopped = 0;
    for (const char* const seconds : {"2", "4", "8"}) {
      const Outcome outcome =
          neuronmm(compress(signal, flags),
                   "timeout --preserve-status -s " + std::string(signal) + " " + seconds);
      stopped += outcome.exit_code == 0 ? 0 : 1;
      EXPECT_EQ(fs::exists(path(signal)), outcome.exit_code == 0);
      if (outcome.exit_code == 0) break;
    }
    if (!fs::exists(path(signal))) expect(neuronmm(compress(signal, flags)), 0, {});
    EXPECT_EQ(read(path(std::string(signal) + "/model.safetensors")),
              read(path("whole/model.safetensors")))
        << "stopped " << stopped << " times by " << signal;
  }
}

TEST_F(ReconstructCommand, RoundedLayersLearnTheirCodes) {
  expect(neuronmm(quantize("off", "--reconstruct off", 12000)), 0, {"written to"});
  const Outcome done =
      neuronmm(quantize("on", "--reconstruct 10000 --json " + path("r.json"), 12000));
  expect(done, 0, {"reconstruction: 4 layers learn from", "error before", "mean error of a layer"});
  const auto report = nlohmann::json::parse(read(path("r.json")));
  EXPECT_EQ(report["reconstruct"], "10000");
  const auto& learnt = report["reconstruction"];
  EXPECT_LE(learnt["tokens"], 10000);
  EXPECT_EQ(learnt["layers"].size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(
                read(path("on/config.json")))["neuronmm_quantization"]["reconstruction_tokens"],
            learnt["tokens"]);
  EXPECT_NE(read(path("on/README.md")).find("layers learnt"), std::string::npos);
  expect(neuronmm("inspect " + path("on")), 0, {"layers learnt"});
  EXPECT_LT(kl("on"), kl("off"));
}

TEST_F(ReconstructCommand, AKilledQuantizationGoesOnToTheSameBytes) {
  const std::string flags = "--reconstruct 3000";
  expect(neuronmm(quantize("whole", flags)), 0, {});
  for (const char* const seconds : {"1", "2", "4", "8"}) {
    const Outcome outcome =
        neuronmm(quantize("parts", flags), "timeout -s KILL " + std::string(seconds));
    EXPECT_EQ(fs::exists(path("parts")), outcome.exit_code == 0);
    if (outcome.exit_code == 0) break;
  }
  if (!fs::exists(path("parts"))) expect(neuronmm(quantize("parts", flags)), 0, {});
  EXPECT_EQ(read(path("parts/model.safetensors")), read(path("whole/model.safetensors")));
}

TEST_F(ReconstructCommand, WrongNumbersAreUsageErrors) {
  const std::string text = " --calibration " + kDemo + "/calibration.txt";
  const std::string rounded = "quantize " + kDemo + " -o " + path("out") + " --reconstruct ";
  expect(neuronmm(rounded + "maybe --bits 4"), 2, {"--reconstruct", "maybe", "auto, off"});
  expect(neuronmm(rounded + "1000" + text), 2, {"--reconstruct 1000 is for --bits 6 and 4"});
  expect(neuronmm(rounded + "1000 --bits 4"), 2, {"--reconstruct 1000 needs --calibration"});
  for (const char* const wrong : {"maybe", "0", "-1", "1.5", "1e6"}) {
    expect(neuronmm(compress("out", "--reconstruct " + std::string(wrong))), 2,
           {"--reconstruct", wrong, "auto, off"});
  }
  expect(neuronmm("compress " + kOneLayer + " --ratio 0.5 --method svd --reconstruct 1000 -o " +
                  path("out")),
         2, {"--reconstruct 1000 needs --calibration"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
