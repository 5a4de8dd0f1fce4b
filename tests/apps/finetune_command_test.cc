// The tests in this file run `neuronmm finetune` as a user does, with and without the program that
// links libtorch.

#include <chrono>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

class FinetuneCommand : public neuronmm::apps::ProgramTest {};

TEST_F(FinetuneCommand, AMissingTrainerIsReported) {
  // A copy of the program alone in a folder stands for a build without libtorch.
  const std::string alone =
      "sh -c 'cp \"$0\" " + path("neuronmm") + " && exec " + path("neuronmm") + " \"$@\"'";
  expect(neuronmm("finetune model --data text -o out", alone), 1,
         {"neuronmm-finetune is missing", "libtorch", "install_dependencies.sh finetune"});
  expect(neuronmm("finetune --help", alone), 0,
         {"--which", "--teacher", "--steps", "--resume", "MODEL_DIR", "--json"});
  expect(neuronmm("finetune model --data text -o out --epoch 2", alone), 2,
         {"unknown flag \"--epoch\"", "did you mean \"--epochs\"?"});
  expect(neuronmm("finetune model --data text -o out --seed -1", alone), 2, {"--seed", "whole"});
}

class FinetuneProgram : public FinetuneCommand {
 protected:
  void SetUp() override {
    FinetuneCommand::SetUp();
    const fs::path program = neuronmm::program_path().parent_path() / "neuronmm-finetune";
    if (!fs::exists(program)) GTEST_SKIP() << "built without libtorch";
    write("stories.txt", read(kOneLayer + "/calibration.txt").substr(0, 4000));
    expect(neuronmm("compress " + kOneLayer + " --ratio 0.5 --block 64 --method svd -o " + model()),
           0, {});
  }
  std::string model() const { return path("small"); }
  std::string finetune(const std::string& out, const std::string& more) const {
    return "finetune " + model() + " --data " + path("stories.txt") + " -o " + path(out) +
           " --cutoff 32 --batch 8 --lr 1e-3 --threads 1 " + more;
  }
  double perplexity(const std::string& folder) const {
    const Outcome outcome = neuronmm("perplexity " + folder + " " + path("stories.txt"));
    const size_t at = outcome.output.find("\nperplexity");
    return std::stod(outcome.output.substr(outcome.output.find_first_of("0123456789", at)));
  }
};

TEST_F(FinetuneProgram, LowersThePerplexityAtTheSameSize) {
  expect(neuronmm(finetune("out", "--which both --epochs 2")), 0,
         {"trained", "both", "written to", path("out").c_str()});
  EXPECT_EQ(fs::file_size(path("out") + "/model.safetensors"),
            fs::file_size(model() + "/model.safetensors"));
  EXPECT_LT(perplexity(path("out")), 0.9 * perplexity(model()));
}

// The model has different ranks and some dense matrices, which training does not change.
TEST_F(FinetuneProgram, TrainsModelsWithRanksByMeasurement) {
  expect(neuronmm("compress " + kOneLayer +
                  " --ratio 0.1 --block 64 --form uv --allocate measured " + "--calibration " +
                  kOneLayer + "/calibration.txt --calibration-tokens 2048 --force -o " + model()),
         0, {"dense", "192"});
  expect(neuronmm(finetune("out", "--which both --epochs 1")), 0, {"trained", "written to"});
  EXPECT_EQ(fs::file_size(path("out") + "/model.safetensors"),
            fs::file_size(model() + "/model.safetensors"));
  expect(neuronmm("inspect " + path("out")), 0, {"allocate measured", "dense", "192"});
  EXPECT_LT(perplexity(path("out")), perplexity(model()));
}

TEST_F(FinetuneProgram, AnInterruptedRunResumesToTheSameBytes) {
  const std::string recipe = "--which factors --teacher " + kOneLayer;
  const auto start = std::chrono::steady_clock::now();
  expect(neuronmm(finetune("whole", recipe)), 0, {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  // After two thirds of the time the model is loaded and training has not ended, on a machine of
  // any speed. If the machine has become less busy, the run may end before that, so shorter times
  // follow. Without --preserve-status a run that ended would have the exit code of an interrupted
  // one.
  Outcome stopped;
  for (const double share : {2.0 / 3, 1.0 / 2, 1.0 / 3}) {
    stopped =
        neuronmm(finetune("parts", recipe),
                 fmt::format("timeout --preserve-status -s INT {:.3f}", seconds.count() * share));
    if (stopped.exit_code != 0) break;
    fs::remove_all(path("parts"));
  }
  ASSERT_NE(stopped.exit_code, 0);
  EXPECT_FALSE(fs::exists(path("parts")));
  expect(neuronmm(finetune("parts", recipe + " --resume")), 0, {});
  EXPECT_TRUE(read(path("whole") + "/model.safetensors") ==
              read(path("parts") + "/model.safetensors"));
}

TEST_F(FinetuneProgram, TheTeacherWritesTheTextIfThereIsNoData) {
  write("held_out.txt", read(kOneLayer + "/evaluation.txt").substr(0, 500));
  const std::string json = path("report.json");
  expect(neuronmm("finetune " + model() + " -o " + path("out") + " --teacher " + kOneLayer +
                  " --self-generated 500 --refine-blocks 1 --validation " + path("held_out.txt") +
                  " --validate-every 2 --patience 2 --cutoff 32 --batch 4 --which factors" +
                  " --epochs 1 --lr 1e-3 --threads 1 --json " + json),
         0,
         {"wrote 16 sequences of 32 tokens", "tokens of them written by", "blocks", "1 layers",
          "validation:", "is kept", "written to"});
  const auto report = nlohmann::json::parse(read(json));
  EXPECT_EQ(report["generated_tokens"], 512);
  EXPECT_EQ(report["provenance"]["models"].size(), 2u);  // the model and its teacher
  EXPECT_EQ(report["format_version"], 1);
  EXPECT_TRUE(report["data"].is_null()) << report["data"];
  ASSERT_EQ(report["phases"].size(), 2u);
  for (const auto& layer : report["phases"][0]["layers"]) {
    EXPECT_LE(layer["error_after"], layer["error_before"]);
  }
  EXPECT_EQ(report["phases"][1]["validations"][0]["step"], 0);
  EXPECT_NE(read(path("out") + "/README.md").find("500 tokens that the model wrote"),
            std::string::npos);
}

TEST_F(FinetuneProgram, EveryPhaseStopsAfterTheSteps) {
  const std::string json = path("report.json");
  expect(neuronmm(finetune("out", "--which v,u --epochs 9 --steps 2 --json " + json)), 0,
         {"written to"});
  const auto report = nlohmann::json::parse(read(json));
  ASSERT_EQ(report["phases"].size(), 2u);
  for (const auto& phase : report["phases"]) {
    EXPECT_EQ(phase["steps"], 2);
    EXPECT_EQ(phase["epoch_losses"].size(), 1u);
  }
  EXPECT_NE(read(path("out") + "/README.md").find("fine-tuned on | stories.txt"),
            std::string::npos);
}

TEST_F(FinetuneProgram, TrainsQuantizedWeights) {
  const std::string recipe = " --which factors --epochs 1";
  expect(neuronmm(finetune("four", "--bits 4 --lm-head-bits 8" + recipe)), 0, {"written to"});
  expect(neuronmm("inspect " + path("four")), 0, {"4 bits in groups of 16, embed_tokens int8"});
  expect(neuronmm("finetune " + path("four") + " --data " + path("stories.txt") + " -o " +
                  path("again") + " --cutoff 32 --batch 8 --lr 3e-3 --threads 1" + recipe),
         0, {"written to"});
  EXPECT_EQ(fs::file_size(path("again") + "/model.safetensors"),
            fs::file_size(path("four") + "/model.safetensors"));
  EXPECT_LT(perplexity(path("again")), perplexity(path("four")));
  expect(neuronmm("finetune " + path("four") + " --data " + path("stories.txt") + " -o " +
                  path("x") + " --bits 8" + recipe),
         1, {"4 bits in groups of 16", "int8"});
  expect(neuronmm(finetune("x", "--bits 6 --group 16")), 2, {"--group", "--bits 6"});
  expect(neuronmm(finetune("x", "--bits 6")), 1, {"which", "6 bits"});
}

TEST_F(FinetuneProgram, RefusesBadInput) {
  expect(neuronmm("finetune --help"), 0, {"--which", "--teacher", "--resume", "MODEL_DIR"});
  expect(neuronmm("finetune"), 2, {"MODEL_DIR"});
  expect(neuronmm(finetune("out", "--which w")), 2, {"--which", "u, v, both, factors or all"});
  expect(neuronmm(finetune("out", "--lr nan")), 2, {"--lr", "positive"});
  expect(neuronmm(finetune("out", "--rank 0")), 2, {"--rank"});
  expect(neuronmm(finetune("out", "--refine-blocks 1")), 2, {"--refine-blocks", "--teacher"});
  expect(neuronmm(finetune("out", "--refine-lr 1e-3")), 2, {"--refine-lr", "--refine-blocks"});
  expect(neuronmm(finetune("out", "--refine-tokens 5")), 2, {"--refine-tokens", "--refine-blocks"});
  expect(neuronmm(finetune("out", "--patience 1")), 2, {"--patience", "--validation"});
  expect(neuronmm("finetune " + model() + " -o " + path("out")), 2, {"--data", "--self-generated"});
  write("broken.json", "[\n{\"instruction\": \"Sing.\"}]");
  expect(neuronmm("finetune " + model() + " -o " + path("out") + " --data " + path("broken.json")),
         1, {"broken.json:2", "\"output\""});
  expect(
      neuronmm("finetune " + kOneLayer + " -o " + path("out") + " --data " + path("stories.txt")),
      1, {"expected a compressed model"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
