// `neuronmm eval` and `neuronmm compare` on the bundled model, with data sets of a few lines.

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kDemo;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

// A data folder with PIQA, WinoGrande and Penn Treebank.
class EvaluationCommand : public neuronmm::apps::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::create_directories(folder_ / "piqa");
    std::string piqa, labels, winogrande;
    for (int i = 0; i < 20; ++i) {
      const std::string name = "the cat number " + std::to_string(i);
      piqa += R"({"goal": "Find )" + name +
              R"(.", "sol1": "Look at home.", "sol2": "Cry."})"
              "\n";
      labels += i % 3 == 0 ? "1\n" : "0\n";
      winogrande += R"({"sentence": "Lily saw )" + name +
                    R"( and _ ran home.", "option1": "Lily",)" +
                    R"( "option2": "it", "answer": ")" + (i % 2 == 0 ? "1" : "2") + "\"}\n";
    }
    write("piqa/valid.jsonl", piqa);
    write("piqa/valid-labels.lst", labels);
    write("winogrande_xl_val.jsonl", winogrande);
    write("ptb.test.txt", read(kDemo + "/evaluation.txt").substr(0, 6000));
  }

  std::vector<nlohmann::json> read_lines(const std::string& name) const {
    std::istringstream file(read(path(name)));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  std::string eval(const std::string& tasks, const std::string& more = "") const {
    return "eval " + kDemo + " --data " + folder_.string() + " --tasks " + tasks + " " + more;
  }
};

TEST_F(EvaluationCommand, EvalPrintsAndWritesEveryTask) {
  const Outcome outcome =
      neuronmm(eval("ptb,piqa,winogrande",
                    "--json " + path("eval.json") + " --log-samples " + path("samples.jsonl")));
  expect(outcome, 0, {"ptb", "piqa", "20 of 1838", "winogrande", "mAcc", "2 tasks", "tokens/s"});
  const auto json = nlohmann::json::parse(read(path("eval.json")));
  EXPECT_EQ(json["complete"], true);
  const std::vector<nlohmann::json> samples = read_lines("samples.jsonl");
  ASSERT_EQ(samples.size(), 40u);
  EXPECT_EQ(samples[0]["task"], "piqa");
  EXPECT_EQ(samples[0]["arguments"][1][0], "Question: Find the cat number 0.\nAnswer:");
  EXPECT_EQ(samples[0]["arguments"][1][1], " Cry.");
  EXPECT_EQ(samples[39]["task"], "winogrande");
  EXPECT_EQ(samples[39]["doc_id"], 19);
  EXPECT_FALSE(json["results"]["winogrande"].contains("acc_norm"));
  EXPECT_GT(json["results"]["ptb"]["perplexity"], 1.0);
}

TEST_F(EvaluationCommand, EvalSkipsMissingDataSets) {
  expect(neuronmm(eval("hellaswag,piqa", "--limit 2")), 0,
         {"skipped hellaswag: ", "hellaswag_val.jsonl", folder_.c_str(), "piqa", "mAcc"});
}

TEST_F(EvaluationCommand, TwoDevicesAgree) {
  const auto likelihoods = [&](const std::string& device) {
    const std::string flags = "--limit 3 --device " + device + " --log-samples " + path(device);
    expect(neuronmm(eval("piqa", flags)), 0, {});
    return read_lines(device);
  };
  const auto cpu = likelihoods("cpu"), reference = likelihoods("reference");
  ASSERT_EQ(cpu.size(), 3u);
  for (size_t item = 0; item < 3; ++item) {
    for (size_t choice = 0; choice < 2; ++choice) {
      EXPECT_NEAR(cpu[item]["log_likelihoods"][choice].get<double>(),
                  reference[item]["log_likelihoods"][choice].get<double>(), 1e-2);
    }
  }
}

TEST_F(EvaluationCommand, EvalRefusesBadInputBeforeItWorks) {
  expect(neuronmm(eval("piqa,boolq")), 2, {"--tasks", "boolq", "arc_challenge"});
  expect(neuronmm(eval("hellaswag")), 1, {"hellaswag_val.jsonl", folder_.c_str()});
  expect(neuronmm("eval " + kDemo), 2, {"--data"});
  expect(neuronmm("eval " + kDemo + " --data " + path("none") + " --tasks piqa"), 1, {"none"});
  expect(neuronmm(eval("piqa", "--limit 0")), 2, {"--limit"});
  expect(neuronmm(eval("piqa", "--json /proc/none/x.json")), 1, {"/proc/none"});
  expect(neuronmm(eval("piqa", "--log-samples /proc/none/x")), 1, {"/proc/none"});
  write("winogrande_xl_val.jsonl", "{\"sentence\": \"a _\"}\n");
  expect(neuronmm(eval("piqa,winogrande", "--json " + path("eval.json"))), 1,
         {"winogrande_xl_val.jsonl:1", "option1"});
  EXPECT_FALSE(fs::exists(path("eval.json")));
  EXPECT_FALSE(fs::exists(path("eval.json.tmp")));
}

TEST_F(EvaluationCommand, CompareShowsQualityAndSpeedSideBySide) {
  const std::string small = path("small");
  expect(neuronmm("compress " + kDemo + " -o " + small + " --ratio 0.5 --block 64 --method svd"), 0,
         {});
  const std::string flags = " --data " + folder_.string() + " --tasks ptb,piqa,winogrande";
  const std::string latency = " --prompt-tokens 16 --new-tokens 4 --runs 2";
  expect(neuronmm("compare " + kDemo + " " + small + " " + kDemo + flags + latency + " --json " +
                  path("compare.json")),
         0,
         {"demo", "small", "size, MB", "ptb perplexity", "piqa acc, 20 items", "±", "mAcc, 2 tasks",
          "mAcc lost", "speed-up", "gamma"});
  const auto models = nlohmann::json::parse(read(path("compare.json")))["models"];
  ASSERT_EQ(models.size(), 3u);
  EXPECT_LT(models[1]["size_bytes"], models[0]["size_bytes"]);
  EXPECT_GT(models[1]["ptb"], models[0]["ptb"]);
  EXPECT_EQ(models[2]["piqa"], models[0]["piqa"]);
  EXPECT_EQ(models[0]["speedup"], 1.0);
  EXPECT_EQ(models[1]["piqa_items"], 20);
  EXPECT_GT(models[1]["piqa_stderr"], 0.0);
  EXPECT_EQ(models[2]["mean_acc_lost"], 0.0);
  EXPECT_TRUE(models[0]["gamma"].is_null());
  EXPECT_TRUE(models[2]["gamma"].is_null());  // a difference of nothing over a speed-up of noise
  EXPECT_GT(models[1]["speedup"], 0.0);
}

TEST_F(EvaluationCommand, ComparePredictsTheSpeedUpOnANeuronCore) {
  const std::string small = path("small"), json = path("compare.json");
  expect(neuronmm("compress " + kDemo + " -o " + small + " --ratio 0.5 --block 64 --method svd"), 0,
         {});
  const auto speedup = [&] {
    expect(neuronmm("compare " + kDemo + " " + small + " --data " + folder_.string() +
                    " --tasks piqa --limit 2 --device trn1 --prompt-tokens 16 --new-tokens 4" +
                    " --json " + json),
           0, {"piqa acc", "speed-up, trn1 simulated", "gamma"});
    const auto read_back = nlohmann::json::parse(read(json));
    EXPECT_EQ(read_back["speedup_on"], "trn1");
    EXPECT_EQ(read_back["speedup_simulated"], true);
    return read_back["models"][1]["speedup"].get<double>();
  };
  const double first = speedup();
  EXPECT_GT(first, 0.9);
  EXPECT_LT(first, 1.5);
  EXPECT_EQ(first, speedup()) << "a prediction is not a measurement";
}

TEST_F(EvaluationCommand, CompareChecksAllModelsFirst) {
  const std::string flags = " --data " + folder_.string() + " --tasks piqa";
  expect(neuronmm("compare " + kDemo + " " + path("none") + flags), 1, {"none"});
  expect(neuronmm("compare " + kDemo + flags), 2, {"COMPRESSED_DIR"});
  expect(neuronmm("compare " + kDemo + " " + kDemo + flags + " --prompt-tokens 500"), 1,
         {"max_position_embeddings 512"});
  expect(neuronmm("compare --help"), 0, {"gamma", "speed-up - 1", "2406.15786"});
}

}  // namespace
