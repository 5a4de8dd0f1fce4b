// The tests in this file check that every report says what made it: all commands that have --json
// or --html are run, and their command lines must not tell secrets.

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../gguf/gguf_builder.h"
#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::set<std::string> kWithoutModel = {"emit",     "kernels",    "nki", "paper",
                                             "simulate", "synthesize", "tune"};

class Provenance : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("ptb.test.txt", read(kOneLayer + "/evaluation.txt").substr(0, 6000));
    io::GgufBuilder builder;
    builder.text("general.architecture", "gptneox").text("tokenizer.ggml.model", "llama");
    builder.texts("tokenizer.ggml.tokens", {"<unk>", "a", "b", "ab"});
    write("small.gguf", builder.bytes());
    expect(neuronmm("compress " + kOneLayer + " --ratio 0.5 --block 64 --method svd -o " + small()),
           0, {});
  }

  std::string small() const { return path("small"); }

  // Returns the arguments of each command that has --json, except `fit` and `finetune`, whose own
  // tests check their reports.
  std::map<std::string, std::string> commands() const {
    const std::string text = path("ptb.test.txt"), out = " -o " + path("out");
    const std::string tasks = " --data " + folder_.string() + " --tasks ptb --limit 1";
    const std::string seed = (source_dir() / "fuzz/corpus/kernel_trace/matmul").string();
    return {{"bench", kOneLayer + " --prompt-tokens 8 --new-tokens 2 --runs 1"},
            {"check", kOneLayer + " --reference " + kOneLayer + " --new-tokens 2"},
            {"compare", kOneLayer + " " + small() + tasks +
                            " --prompt-tokens 8 --new-tokens 2 --html " + path("compare.html")},
            {"compress", kOneLayer + " --ratio 0.5 --block 64 --method svd" + out},
            {"emit", "xuv --shape 64,96,32,80 -o " + path("kernel.py")},
            {"eval", kOneLayer + tasks},
            {"export", small() + " --target nxdi --new-tokens 2" + out + "-export"},
            {"import", path("small.gguf") + out + "-import"},
            {"inspect", kOneLayer},
            {"kernels", ""},
            {"nki", "--from-trace " + seed + " --html " + path("nki.html")},
            {"paper", "kernels"},
            {"perplexity", kOneLayer + " " + text + " --limit 1"},
            {"quantize", kOneLayer + out + "-int8"},
            {"simulate", "xuv --shape 64,96,32,80"},
            {"synthesize", "--config " + kOneLayer + "/config.json" + out + "-random"},
            {"tokenize", kOneLayer + " hello"},
            {"tune", "xuv --shape 64,96,32,80 --cache " + path("cache.json")}};
  }
  Json report(const std::string& command, const std::string& arguments) const {
    const std::string json = path("report.json");
    fs::remove(json);
    expect(neuronmm(command + " " + arguments + " --json " + json), 0, {});
    return Json::parse(read(json), nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(Provenance, EveryReportSaysWhatMadeIt) {
  for (const auto& [command, arguments] : commands()) {
    SCOPED_TRACE(command);
    const Json whole = report(command, arguments);
    ASSERT_TRUE(whole.is_object());
    EXPECT_EQ(whole.value("format_version", 0), 1);
    const Json made = whole.value("provenance", Json());
    ASSERT_TRUE(made.is_object()) << whole;
    EXPECT_TRUE(std::regex_match(made["program"].get<std::string>(),
                                 std::regex(R"(neuronmm \d+\.\d+\.\d+)")));
    EXPECT_TRUE(made["command"].get<std::string>().starts_with("neuronmm " + command));
    EXPECT_TRUE(std::regex_match(made["date"].get<std::string>(),
                                 std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
    EXPECT_FALSE(made["machine"]["cpu"].get<std::string>().empty());
    EXPECT_GE(made["machine"]["cores"], 1);
    EXPECT_GE(made["machine"]["threads"], 1);
    const bool reads_model = !kWithoutModel.contains(command);
    EXPECT_EQ(made["models"].size() > 0, reads_model) << made;
    for (const Json& model : made["models"]) {
      const char* key = command == "import"     ? "file_xxh3"
                        : command == "tokenize" ? "tokenizer_xxh3"
                                                : "weights_xxh3";
      EXPECT_EQ(model.value(key, std::string()).size(), 16u) << model;
      EXPECT_EQ(model["name"].get<std::string>().find('/'), std::string::npos);
    }
  }
}

// A command that gets --json must be added to the list above.
TEST_F(Provenance, EveryCommandWithAReportIsTested) {
  const std::string page = neuronmm("describe man-page").output;
  const std::regex title(R"(\.SS \\&(\S+)\n)");
  int found = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), title), end; match != end; ++match) {
    const std::string command = (*match)[1];
    const auto begin = static_cast<size_t>(match->position());
    const std::string section = page.substr(begin, page.find("\n.S", begin + 1) - begin);
    if (section.find("\\-\\-json") == std::string::npos) continue;
    ++found;
    if (command == "fit" || command == "finetune") continue;
    EXPECT_TRUE(commands().contains(command)) << command;
  }
  EXPECT_GT(found, 15);
}

TEST_F(Provenance, PagesSayItToo) {
  for (const char* command : {"compare", "nki"}) {
    expect(neuronmm(std::string(command) + " " + commands().at(command)), 0, {});
    const std::string page = read(path(std::string(command) + ".html"));
    EXPECT_NE(page.find("What made this page"), std::string::npos) << command;
    EXPECT_NE(page.find(std::string("neuronmm ") + command), std::string::npos) << command;
    EXPECT_TRUE(page.ends_with("</body>\n</html>\n")) << command;
  }
  EXPECT_NE(read(path("compare.html")).find("weights_xxh3"), std::string::npos);
}

// The checksum depends on the weights and not on the names of files and folders.
TEST_F(Provenance, TheChecksumIsThatOfTheWeights) {
  const auto checksum = [&](const std::string& folder) {
    return report("inspect", folder)["provenance"]["models"][0]["weights_xxh3"];
  };
  fs::copy(kOneLayer, folder_ / "other name", fs::copy_options::recursive);
  const Json first = checksum(kOneLayer);
  EXPECT_EQ(checksum("'" + path("other name") + "'"), first);
  expect(neuronmm("synthesize --config " + kOneLayer + "/config.json -o " + path("random")), 0, {});
  EXPECT_NE(checksum(path("random")), first);
}

// The output of an earlier run is no model that this run has read.
TEST_F(Provenance, TheOutputIsNoModelThatWasRead) {
  const std::string arguments = kOneLayer + " --ratio 0.5 --block 64 --method svd --force -o ";
  report("compress", arguments + path("out"));
  const Json again = report("compress", arguments + path("out"));
  ASSERT_EQ(again["provenance"]["models"].size(), 1u);
  EXPECT_EQ(again["provenance"]["models"][0]["argument"], "MODEL_DIR");
}

}  // namespace
}  // namespace neuronmm::apps
