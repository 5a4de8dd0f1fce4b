// The tests in this file run `neuronmm finetune` as a user does.

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
using neuronmm::apps::kDemo;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

class FinetuneCommand : public neuronmm::apps::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("stories.txt", read(kOneLayer + "/calibration.txt").substr(0, 4000));
    expect(neuronmm("compress " + kOneLayer + " --ratio 0.5 --block 64 --method svd -o " + model()),
           0, {});
  }
  std::string model() const { return path("small"); }
  std::string finetune(const std::string& out, const std::string& more,
                       const std::string& of = {}) const {
    return "finetune " + (of.empty() ? model() : of) + " --data " + path("stories.txt") + " -o " +
           path(out) + " --cutoff 32 --batch 8 --threads 1 " + more;
  }
  double perplexity(const std::string& arguments) const {
    const Outcome outcome = neuronmm("perplexity " + arguments + " " + path("stories.txt"));
    const size_t at = outcome.output.find("\nperplexity");
    return std::stod(outcome.output.substr(outcome.output.find_first_of("0123456789", at)));
  }
};

// Without a learning rate a trial finds one.
TEST_F(FinetuneCommand, LowersThePerplexityAtTheSameSize) {
  expect(neuronmm(finetune("out", "--tokens 4000")), 0,
         {"learning rate 2e-05: held-out loss", "which was the best", "written to",
          path("out").c_str()});
  EXPECT_EQ(fs::file_size(path("out") + "/model.safetensors"),
            fs::file_size(model() + "/model.safetensors"));
  EXPECT_LT(perplexity(path("out")), 0.95 * perplexity(model()));
}

// The model has different ranks and some dense matrices.
TEST_F(FinetuneCommand, TrainsModelsWithRanksByMeasurement) {
  expect(neuronmm("compress " + kOneLayer +
                  " --ratio 0.1 --block 64 --form uv --allocate measured " + "--calibration " +
                  kOneLayer + "/calibration.txt --calibration-tokens 2048 --force -o " + model()),
         0, {"dense", "192"});
  expect(neuronmm(finetune("out", "--learning-rate 1e-3")), 0, {"written to"});
  EXPECT_EQ(fs::file_size(path("out") + "/model.safetensors"),
            fs::file_size(model() + "/model.safetensors"));
  expect(neuronmm("inspect " + path("out")), 0, {"allocate measured", "dense", "192"});
  EXPECT_LT(perplexity(path("out")), perplexity(model()));
}

TEST_F(FinetuneCommand, ATerminatedRunResumesToTheSameBytes) {
  const std::string recipe = "--learning-rate 1e-3 --tokens 6000 --teacher " + kOneLayer;
  const auto start = std::chrono::steady_clock::now();
  expect(neuronmm(finetune("whole", recipe)), 0, {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  // After two thirds of the time the model is loaded and training has not ended, on a machine of
  // any speed. If the machine has become less busy, the run may end before that, so shorter times
  // follow. Without --preserve-status a run that ended would have the exit code of an interrupted
  // one.
  for (const char* const signal : {"TERM", "KILL"}) {
    Outcome stopped;
    for (const double share : {2.0 / 3, 1.0 / 2, 1.0 / 3}) {
      stopped = neuronmm(
          finetune("parts", recipe),
          fmt::format("timeout --preserve-status -s {} {:.3f}", signal, seconds.count() * share));
      if (stopped.exit_code != 0) break;
      fs::remove_all(path("parts"));
    }
    ASSERT_NE(stopped.exit_code, 0);
    EXPECT_FALSE(fs::exists(path("parts")));
    expect(neuronmm(finetune("parts", recipe + " --resume")), 0, {});
    EXPECT_TRUE(read(path("whole") + "/model.safetensors") ==
                read(path("parts") + "/model.safetensors"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(FinetuneCommand, TheTeacherWritesTheTextIfThereIsNoData) {
  write("held_out.txt", read(kOneLayer + "/evaluation.txt").substr(0, 500));
  const std::string json = path("report.json");
  expect(neuronmm("finetune " + model() + " -o " + path("out") + " --teacher " + kOneLayer +
                  " --self-generated 500 --validation " + path("held_out.txt") +
                  " --cutoff 32 --batch 4 --learning-rate 1e-3 --threads 1 --json " + json),
         0,
         {"wrote 16 sequences of 32 tokens", "tokens of them written by",
          "held-out divergence: ", "is kept", "written to"});
  const auto report = nlohmann::json::parse(read(json));
  EXPECT_EQ(report["generated_tokens"], 512);
  EXPECT_EQ(report["provenance"]["models"].size(), 2u);  // the model and its teacher
  EXPECT_EQ(report["format_version"], 1);
  EXPECT_TRUE(report["data"].is_null()) << report["data"];
  EXPECT_TRUE(report["lora_rank"].is_null());
  EXPECT_EQ(report["steps"], 4);
  EXPECT_EQ(report["skipped_steps"], 0);
  EXPECT_TRUE(report["trials"].empty());
  ASSERT_EQ(report["measurements"].size(), 5u);
  EXPECT_EQ(report["measurements"][0]["step"], 0);
  EXPECT_LT(report["measurements"][4]["held_out_loss"], report["measurements"][0]["held_out_loss"]);
  EXPECT_NE(read(path("out") + "/README.md").find("500 tokens that the model wrote"),
            std::string::npos);
}

TEST_F(FinetuneCommand, WritesAnAdapterThatOtherCommandsMerge) {
  const std::string json = path("report.json");
  expect(neuronmm(finetune("adapter", "--lora 4 --learning-rate 3e-3 --tokens 4000 --json " + json,
                           kOneLayer)),
         0, {"written to"});
  EXPECT_EQ(nlohmann::json::parse(read(json))["lora_rank"], 4);
  EXPECT_EQ(nlohmann::json::parse(read(path("adapter") + "/adapter_config.json"))["lora_alpha"], 8);
  const double before = perplexity(kOneLayer);
  const double merged = perplexity(kOneLayer + " --adapter " + path("adapter"));
  EXPECT_LT(merged, 0.95 * before);
  expect(neuronmm("import " + kOneLayer + " --adapter " + path("adapter") + " -o " + path("new")),
         0, {});
  EXPECT_NEAR(perplexity(path("new")), merged, 0.01 * merged);
  expect(neuronmm(finetune("adapter", "--lora 4 --learning-rate 3e-3", kOneLayer)), 1,
         {"already exists", "--force"});
  expect(neuronmm(finetune("adapter", "--lora 2 --learning-rate 3e-3 --force", kOneLayer)), 0, {});
  expect(neuronmm(finetune("x", "--lora 4")), 1, {"not compressed for --lora"});
}

TEST_F(FinetuneCommand, TrainsQuantizedWeights) {
  const std::string rate = " --learning-rate 1e-3";
  expect(neuronmm(finetune("four", "--bits 4 --lm-head-bits 8" + rate)), 0, {"written to"});
  expect(neuronmm("inspect " + path("four")), 0, {"4 bits in groups of 16, embed_tokens int8"});
  const std::string rounded = path("rounded"), again = path("again");
  expect(neuronmm("quantize " + model() + " -o " + rounded + " --bits 4 --lm-head-bits 8"), 0, {});
  expect(neuronmm(finetune("again", rate, rounded)), 0, {"written to"});
  EXPECT_EQ(fs::file_size(again + "/model.safetensors"),
            fs::file_size(rounded + "/model.safetensors"));
  EXPECT_LT(perplexity(again), perplexity(rounded));
  EXPECT_LT(perplexity(path("four")), perplexity(rounded));
  expect(neuronmm(finetune("x", "--bits 8" + rate, path("four"))), 1,
         {"4 bits in groups of 16", "int8"});
  expect(neuronmm(finetune("x", "--bits 6 --group 16")), 2, {"--group", "--bits 6"});
  expect(neuronmm(finetune("x", "--bits 6 --lora 4", kOneLayer)), 2,
         {"--lora", "--bits", "exclude each other; give one of them"});
  expect(neuronmm(finetune("x", "--lora 4", path("four"))), 1, {"float weights for --lora"});
}

TEST_F(FinetuneCommand, RefusesBadInput) {
  expect(neuronmm("finetune --help"), 0,
         {"--learning-rate", "--teacher", "--resume", "--lora", "MODEL_DIR", "--json"});
  expect(neuronmm("finetune"), 2, {"MODEL_DIR"});
  expect(neuronmm(finetune("out", "--token 2")), 2,
         {"unknown flag \"--token\"", "did you mean \"--tokens\"?"});
  expect(neuronmm(finetune("out", "--seed -1")), 2, {"--seed", "whole"});
  expect(neuronmm(finetune("out", "--learning-rate nan")), 2, {"--learning-rate", "positive"});
  expect(neuronmm(finetune("out", "--lora 0")), 2, {"--lora"});
  expect(neuronmm("finetune " + model() + " -o " + path("out")), 2, {"--data", "--self-generated"});
  expect(neuronmm(finetune("out", "--validation " + path("stories.txt"))), 1,
         {"stories.txt", "not trained on", "100 %"});
  write("broken.json", "[\n{\"instruction\": \"Sing.\"}]");
  expect(neuronmm("finetune " + model() + " -o " + path("out") + " --data " + path("broken.json")),
         1, {"broken.json:2", "\"output\""});
  for (const char* const name : {"empty.txt", "empty.jsonl", "list.json"}) {
    write(name, std::string(name) == "list.json" ? "[]" : "");
    expect(neuronmm("finetune " + model() + " -o " + path("out") + " --data " + path(name)), 1,
           {name, "expected training examples, found none"});
    expect(neuronmm(finetune("out", "--validation " + path(name))), 1,
           {name, "expected training examples, found none"});
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

// A limit of address space stands for a small machine.
TEST_F(FinetuneCommand, SaysWhatWouldFitIfMemoryIsShort) {
  const std::string limited = "sh -c 'ulimit -v 300000; exec \"$0\" \"$@\"'";
  expect(neuronmm(finetune("out", "--learning-rate 1e-3", kDemo), limited), 1,
         {"training needs", "of memory, found", "with --lora 8 it needs"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
