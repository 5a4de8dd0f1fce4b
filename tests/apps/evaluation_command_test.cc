// The tests in this file run `eval`, `compare` and `perplexity` on the bundled model, with data
// sets of a few lines.

#include <cstring>
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
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

// Makes a data folder with PIQA, WinoGrande and Penn Treebank.
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
    write("ptb.test.txt", read(kOneLayer + "/evaluation.txt").substr(0, 6000));
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
    return "eval " + kOneLayer + " --data " + folder_.string() + " --tasks " + tasks + " " + more;
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

TEST_F(EvaluationCommand, CpuAndReferenceBackendAgree) {
  const auto likelihoods = [&](const std::string& device) {
    const std::string flags = "--limit 3 --activations fp32 --device " + device;
    expect(neuronmm(eval("piqa", flags + " --log-samples " + path(device))), 0, {});
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

TEST_F(EvaluationCommand, EvalRefusesBadInputBeforeAnyWork) {
  expect(neuronmm(eval("piqa,boolq")), 2, {"--tasks", "boolq", "arc_challenge"});
  expect(neuronmm(eval("hellaswag")), 1, {"hellaswag_val.jsonl", folder_.c_str()});
  expect(neuronmm("eval " + kOneLayer), 2, {"--data"});
  expect(neuronmm("eval " + kOneLayer + " --data " + path("none") + " --tasks piqa"), 1, {"none"});
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
  expect(
      neuronmm("compress " + kOneLayer + " -o " + small + " --ratio 0.5 --block 64 --method svd"),
      0, {});
  const std::string flags = " --data " + folder_.string() + " --tasks ptb,piqa,winogrande";
  const std::string latency = " --prompt-tokens 16 --new-tokens 4 --runs 2";
  expect(neuronmm("compare " + kOneLayer + " " + small + " " + kOneLayer + flags + latency +
                  " --json " + path("compare.json")),
         0,
         {"demo", "small", "size, MB", "ptb perplexity", "ptb KL", "ptb top-1 agreement",
          "piqa acc, 20 items", "±", "mAcc, 2 tasks", "mAcc lost", "speed-up", "gamma"});
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
  EXPECT_TRUE(
      models[2]["gamma"].is_null());  // the model is the same, so its speed-up is only noise
  EXPECT_GT(models[1]["speedup"], 0.0);
}

// Returns the file with tensor names that lack "model.", as some exporters write them.
std::string without_prefix(const std::string& safetensors) {
  uint64_t size = 0;
  std::memcpy(&size, safetensors.data(), sizeof size);
  const auto header = nlohmann::json::parse(safetensors.substr(sizeof size, size));
  nlohmann::json renamed;
  for (const auto& [name, entry] : header.items()) {
    renamed[name.starts_with("model.") ? name.substr(6) : name] = entry;
  }
  std::string text = renamed.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // keeps the tensors aligned
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text +
         safetensors.substr(sizeof size + size);
}

TEST_F(EvaluationCommand, CompareCountsMlpsWhoseTensorNamesLackThePrefix) {
  fs::create_directories(folder_ / "plain");
  for (const std::string name : {"config.json", "tokenizer.json"}) {
    fs::copy(kOneLayer + "/" + name, folder_ / "plain" / name);
  }
  write("plain/model.safetensors", without_prefix(read(kOneLayer + "/model.safetensors")));
  expect(neuronmm("compare " + kOneLayer + " " + path("plain") + " --data " + folder_.string() +
                  " --tasks piqa --limit 1 --prompt-tokens 4 --new-tokens 2 --runs 1 --json " +
                  path("compare.json")),
         0, {});
  const auto models = nlohmann::json::parse(read(path("compare.json")))["models"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_GT(models[0]["mlp_parameters"], 0);
  EXPECT_EQ(models[1]["mlp_parameters"], models[0]["mlp_parameters"]);
}

TEST_F(EvaluationCommand, EvalShowsTheDifferenceFromAReference) {
  const std::string small = path("small");
  expect(
      neuronmm("compress " + kOneLayer + " -o " + small + " --ratio 0.5 --block 64 --method svd"),
      0, {});
  const std::string data =
      " --data " + folder_.string() + " --tasks ptb,piqa --reference " + kOneLayer;
  expect(neuronmm("eval " + small + data + " --json " + path("e.json")), 0,
         {"against ", "KL ", "top-1", "acc lost", "same choice"});
  const auto json = nlohmann::json::parse(read(path("e.json")));
  EXPECT_EQ(json["reference"], kOneLayer);
  const auto& ptb = json["results"]["ptb"];
  EXPECT_GT(ptb["kl"], 0.1);
  EXPECT_GT(ptb["kl_stderr"], 0.0);
  EXPECT_LT(ptb["top1_agreement"], 1.0);
  EXPECT_NEAR(ptb["perplexity"].get<double>() / ptb["reference_perplexity"].get<double>(),
              ptb["perplexity_ratio"], 1e-9);
  const auto& piqa = json["results"]["piqa"];
  EXPECT_NEAR(piqa["reference_acc"].get<double>() - piqa["acc"].get<double>(), piqa["acc_lost"],
              1e-12);
  EXPECT_EQ(piqa["acc_lost_interval"].size(), 2u);

  expect(neuronmm("eval " + kOneLayer + data + " --json " + path("same.json")), 0, {});
  const auto same = nlohmann::json::parse(read(path("same.json")))["results"];
  EXPECT_EQ(same["ptb"]["kl"], 0.0);
  EXPECT_EQ(same["ptb"]["top1_agreement"], 1.0);
  EXPECT_EQ(same["piqa"]["acc_lost"], 0.0);
  EXPECT_EQ(same["piqa"]["choice_agreement"], 1.0);
}

TEST_F(EvaluationCommand, PerplexityShowsTheDivergenceFromAReference) {
  const std::string small = path("small"),
                    text = write("text", read(kOneLayer + "/evaluation.txt"));
  expect(
      neuronmm("compress " + kOneLayer + " -o " + small + " --ratio 0.5 --block 64 --method svd"),
      0, {});
  const auto run = [&](const std::string& flags) {
    expect(neuronmm("perplexity " + small + " " + text + " --context 128 --limit 4 --json " +
                    path("p.json") + flags),
           0, {"perplexity", "chunks         4"});
    return nlohmann::json::parse(read(path("p.json")));
  };
  const auto alone = run(""), paired = run(" --reference " + kOneLayer);
  EXPECT_EQ(paired["perplexity"], alone["perplexity"]);
  EXPECT_EQ(paired["perplexity_stderr"], alone["perplexity_stderr"]);
  EXPECT_FALSE(alone.contains("kl"));
  EXPECT_EQ(paired["reference"], kOneLayer);
  EXPECT_GT(paired["kl"], 0.1);
  EXPECT_LT(paired["kl_interval"][0], paired["kl"]);
  EXPECT_EQ(paired["scored_tokens"], 4 * 127);
  expect(neuronmm("perplexity " + kOneLayer + " " + text + " --context 128 --limit 1000"), 1,
         {"--limit", "found 1000"});
  expect(neuronmm("perplexity " + kOneLayer + " " + text + " --reference " + path("none")), 1,
         {"none"});
}

TEST_F(EvaluationCommand, AReferenceWithOtherTokensIsRefused) {
  const std::string other = path("other");
  fs::copy(kOneLayer, other);
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::string text = read(kOneLayer + "/" + name);
    const std::string token = "<|end_of_text|>";
    for (size_t at = 0; (at = text.find(token, at)) != std::string::npos; ++at) {
      text.replace(at, token.size(), "<|end_of_talk|>");
    }
    write("other/" + name, text);
  }
  const std::initializer_list<const char*> words = {"one tokenizer", "token 2047", "end_of_talk"};
  expect(neuronmm("perplexity " + kOneLayer + " " + kOneLayer + "/evaluation.txt --reference " +
                  other),
         1, words);
  expect(neuronmm(eval("ptb", "--reference " + other)), 1, words);
  expect(neuronmm("compare " + other + " " + kOneLayer + " --data " + folder_.string() +
                  " --tasks ptb"),
         1, words);
}

TEST_F(EvaluationCommand, PerplexityReadsDocumentsFromJsonLines) {
  const std::string lines = "{\"text\": \"One day a cat sat.\"}\n{\"text\": \"A dog ran.\"}\n";
  const std::string file = write("documents.jsonl", lines);
  expect(neuronmm("perplexity " + kOneLayer + " " + file + " --documents --context 4"), 0,
         {"perplexity"});
  write("broken.jsonl", lines + "no JSON\n");
  expect(neuronmm("perplexity " + kOneLayer + " " + path("broken.jsonl") + " --documents"), 1,
         {"broken.jsonl:3"});
}

// The text is recognised by its checksum, whatever the name of the file.
TEST_F(EvaluationCommand, ATextThatAModelWasCalibratedOnIsNoted) {
  const std::string text = read(kOneLayer + "/evaluation.txt").substr(0, 6000);
  const std::string small = path("small"), seen = write("calibration.txt", text);
  expect(neuronmm("compress " + kOneLayer + " -o " + small +
                  " --form uv --ratio 0.3 --block 64 --calibration " + seen +
                  " --calibration-tokens 512 --no-measure"),
         0, {});
  expect(neuronmm("inspect " + small), 0, {"512 tokens of calibration.txt"});
  write("ptb.test.txt", text);
  const std::string note = "was calibrated on this text", data = " --data " + folder_.string();
  expect(neuronmm("perplexity " + small + " " + path("ptb.test.txt") + " --json " + path("p.json")),
         0, {note.c_str(), "ptb.test.txt"});
  EXPECT_EQ(nlohmann::json::parse(read(path("p.json")))["calibrated_on_text"], true);
  expect(neuronmm("eval " + small + data + " --tasks ptb"), 0, {note.c_str()});
  expect(neuronmm("compare " + kOneLayer + " " + small + data +
                  " --tasks ptb --prompt-tokens 4 --new-tokens 2 --runs 1"),
         0, {note.c_str()});
  write("other.txt", text + " ");
  for (const std::string& quiet : {"perplexity " + small + " " + path("other.txt"),
                                   "perplexity " + kOneLayer + " " + path("ptb.test.txt")}) {
    const Outcome outcome = neuronmm(quiet);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.output.find(note), std::string::npos) << outcome.output;
  }
}

// Expects that every tag is closed, as XML demands. Comments and the doctype need no closing tag.
void expect_balanced(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const std::string name =
        tag.substr(tag.starts_with('/') ? 1 : 0, tag.find(' ') - (tag.starts_with('/') ? 1 : 0));
    if (!tag.starts_with('/')) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    EXPECT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST_F(EvaluationCommand, CompareWritesAPageThatNeedsNoOtherFile) {
  const std::string small = path("a<b>&c"), quoted = "'" + small + "'", page_path = path("p.html");
  expect(
      neuronmm("compress " + kOneLayer + " -o " + quoted + " --ratio 0.4 --block 64 --method svd"),
      0, {});
  const std::string command = "compare " + kOneLayer + " " + quoted + " " + kOneLayer + " --data " +
                              folder_.string() +
                              " --tasks ptb,piqa --prompt-tokens 4 --new-tokens 2 --runs 1 ";
  expect(neuronmm(command + "--html " + page_path + " --json " + path("c.json")), 0,
         {"ptb KL", "piqa same choice", "MLP, MFLOP per token"});
  const std::string page = read(page_path);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
  expect_balanced(page);
  for (const char* foreign :
       {"<script", "http:", "https:", "url(", "@import", "a<b", "nan", "inf"}) {
    EXPECT_EQ(page.find(foreign), std::string::npos) << foreign;
  }
  for (const char* part : {"a&lt;b&gt;&amp;c", "prefers-color-scheme: dark",
                           "ptb: KL from the dense", "size, MB", "MLP, MFLOP per token", "mAcc",
                           "speed-up", "MLP parameters of each layer", "rank of layer"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  const auto models = nlohmann::json::parse(read(path("c.json")))["models"];
  EXPECT_FALSE(models[0].contains("ptb_kl"));
  EXPECT_GT(models[1]["ptb_kl"], 0.05);
  EXPECT_EQ(models[2]["ptb_kl"], 0.0);
  EXPECT_EQ(models[2]["piqa_choice_agreement"], 1.0);
  // The model has a layer with three matrices of 384 x 1024.
  EXPECT_EQ(models[0]["mlp_flops_per_token"], 2 * 3 * 384 * 1024);
  EXPECT_LT(models[1]["mlp_parameters"], models[0]["mlp_parameters"]);

  expect(neuronmm(command + "--html - --json -"), 1, {"--html", "--json", "standard output"});
  expect(neuronmm(command + "--html /proc/none/p.html"), 1, {"/proc/none/p.html"});
}

TEST_F(EvaluationCommand, ComparePredictsTheSpeedUpOnANeuronCore) {
  const std::string small = path("small"), json = path("compare.json");
  expect(
      neuronmm("compress " + kOneLayer + " -o " + small + " --ratio 0.5 --block 64 --method svd"),
      0, {});
  const auto speedup = [&] {
    expect(neuronmm("compare " + kOneLayer + " " + small + " --data " + folder_.string() +
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
  expect(neuronmm("compare " + kOneLayer + " " + path("none") + flags), 1, {"none"});
  expect(neuronmm("compare " + kOneLayer + flags), 2, {"COMPRESSED_DIR"});
  expect(neuronmm("compare " + kOneLayer + " " + kOneLayer + flags + " --prompt-tokens 500"), 1,
         {"max_position_embeddings 512"});
  expect(neuronmm("compare --help"), 0, {"gamma", "speed-up - 1", "2406.15786"});
}

}  // namespace
