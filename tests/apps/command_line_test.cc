// The tests in this file run the program as a user does: every subcommand on the bundled model, and
// every kind of bad input. Each case checks the exit code and the words that the message must
// contain. The exit code is 0, 1 for errors, 2 for wrong usage, or 130 for an interrupt.

#include <array>
#include <filesystem>
#include <fstream>
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

const std::string kCalibration = kOneLayer + "/calibration.txt --calibration-tokens 2048";
constexpr size_t kEvaluationBytes = 6000;
#ifdef NEURONMM_SANITIZED  // the long tests would take minutes with the whole texts
const std::string kLongCalibration = kCalibration;
constexpr size_t kLongEvaluationBytes = kEvaluationBytes;
#else
const std::string kLongCalibration = kOneLayer + "/calibration.txt";
constexpr size_t kLongEvaluationBytes = std::string::npos;
#endif

class CommandLine : public neuronmm::apps::ProgramTest {
 protected:
  // A copy of the bundled model that a test may damage.
  std::string copy_of_model() const {
    fs::copy(kOneLayer, folder_ / "model", fs::copy_options::recursive);
    return path("model");
  }
  std::string evaluation_text(size_t bytes = kEvaluationBytes) const {
    return write("evaluation.txt", read(kDemo + "/evaluation.txt").substr(0, bytes));
  }
  std::string compress(const std::string& more) const {
    return "compress " + kOneLayer + " -o " + path("out") + " --form uv --block 64 --calibration " +
           kCalibration + " " + more;
  }
};

TEST_F(CommandLine, CompressThenRunEveryCommandOnTheResult) {
  expect(neuronmm(compress("--ratio 0.2")), 0, {"192"});
  const std::string out = path("out");
  EXPECT_TRUE(fs::exists(out + "/tokenizer.json"));
  EXPECT_FALSE(fs::exists(out + ".partial"));
  expect(neuronmm("inspect " + out), 0, {"whitened", "192", "0.6875"});
  expect(neuronmm("perplexity " + out + " " + evaluation_text()), 0, {"perplexity"});
  expect(neuronmm("generate " + out + " --prompt 'Once upon a time' --max-new-tokens 8"), 0, {});
  expect(
      neuronmm("bench " + kOneLayer + " --against " + out +
               " --prompt-tokens 8 --new-tokens 4 --runs 2 --batch 2 --json " + path("bench.json")),
      0, {});
  EXPECT_NE(read(path("bench.json")).find("token_generation_model"), std::string::npos);
  expect(neuronmm("check " + out + " --reference " + out), 0, {});
  expect(neuronmm("check " + out + " --reference " + kOneLayer), 1, {});
}

// The model has a mixed layer and a pivoted layer. The map that gate and up share is counted once.
TEST_F(CommandLine, FoldersWithPivotsAreInspectedQuantizedAndTimed) {
  const std::string config = path("config.json"), out = path("pivots"), int8 = path("int8");
  std::ofstream(config) << R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,
      "intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
      "head_dim":16,"vocab_size":300,"max_position_embeddings":32,"neuronmm_compression":{
      "method":"two-sided","ratio":0.2,"block":8,"align":"nearest","allocate":"predicted",
      "form":"mixed","ranks":[{"gate":0,"up":0,"down":40,"input":48,"neurons":80},
                              {"gate":16,"up":0,"down":0}]}})";
  expect(neuronmm("synthesize --config " + config + " -o " + out), 0, {});
  expect(neuronmm("inspect " + out + " --json " + path("inspect.json")), 0,
         {"form mixed", "input", "80 neurons", "96 neurons"});
  const auto report = nlohmann::json::parse(read(path("inspect.json")));
  EXPECT_EQ(report["compression"]["form"], "mixed");
  const auto& mixed = report["layers"][0];
  EXPECT_EQ(mixed["neurons"], 80);
  EXPECT_EQ(mixed["input"]["rank"], 48);
  EXPECT_EQ(mixed["input"]["in_features"], 64);
  EXPECT_EQ(mixed["gate"]["in_features"], 48);
  EXPECT_TRUE(mixed["gate"]["rank"].is_null()) << mixed["gate"];
  EXPECT_EQ(mixed["down"]["rank"], 40);
  const double dense = 64 * 96;
  const double input = 48 * 16, gate = 80 * 48, down = 40 * 80 + 24 * 40;
  EXPECT_DOUBLE_EQ(mixed["input"]["kept_share"].get<double>(), input / dense);
  EXPECT_DOUBLE_EQ(mixed["gate"]["kept_share"].get<double>(), gate / dense);
  EXPECT_DOUBLE_EQ(mixed["down"]["kept_share"].get<double>(), down / dense);
  EXPECT_DOUBLE_EQ(mixed["kept_share"].get<double>(), (input + 2 * gate + down) / (3 * dense));
  const auto& pivoted = report["layers"][1];
  EXPECT_FALSE(pivoted.contains("input"));
  EXPECT_EQ(pivoted["gate"]["rank"], 16);
  EXPECT_DOUBLE_EQ(pivoted["gate"]["kept_share"].get<double>(), (16 * 48 + 96 * 16) / dense);
  EXPECT_EQ(pivoted["neurons"], 96);

  expect(neuronmm("quantize " + out + " -o " + int8), 0, {"written to"});
  const std::string tokens = " --prompt-tokens 8 --new-tokens 4 --runs 2";
  for (const std::string& model : {out, int8}) {
    expect(neuronmm("bench " + model + tokens), 0, {"decode"});
  }
  for (const std::string& model : {out, config}) {
    expect(neuronmm("bench " + model + " --device trn2" + tokens), 0, {"trn2", "decode"});
  }
  expect(neuronmm("bench " + int8 + " --device trn2" + tokens), 1,
         {"layer 0", "trn2", "int8", "NeuronCore"});
}

TEST_F(CommandLine, CompressWritesQuantizedWeights) {
  const std::string svd =
                        "compress " + kOneLayer + " --form uv --ratio 0.2 --block 64 --method svd",
                    json = path("report.json");
  const auto compressed_bytes = [&](const std::string& bits, const char* as) {
    const std::string out = path("out"), flags = " --force --bits " + bits;
    expect(neuronmm(svd + flags + " -o " + out + " --json " + json), 0, {"written to"});
    const auto report = nlohmann::json::parse(read(json));
    EXPECT_EQ(report["weights"], as);
    expect(neuronmm("inspect " + out), 0, {"192"});
    expect(neuronmm("generate " + out + " --prompt 'Once upon' --max-new-tokens 4"), 0,
           {"new tokens 4"});
    EXPECT_NE(read(out + "/README.md").find(as), std::string::npos);
    const auto bytes = report["bytes_after"].get<int64_t>();
    expect(neuronmm(svd + flags + " --dry-run"), 0, {fmt::format("{} bytes", bytes).c_str()});
    return bytes;
  };
  const int64_t six = compressed_bytes("6", "6 bits");
  const int64_t four = compressed_bytes("4", "4 bits in groups of 16, lm_head 6 bits");
  const int64_t least = compressed_bytes("4 --group 32 --lm-head-bits 4", "4 bits in groups of 32");
  EXPECT_LT(four, six);
  EXPECT_LT(least, four);
  expect(neuronmm(svd + " -o x --bits 8 --group 16"), 2, {"--group", "4 bits", "--bits 8"});
  expect(neuronmm(svd + " -o x --bits 4 --group 24"), 2, {"--group"});
  expect(neuronmm(svd + " -o x --lm-head-bits 8"), 2, {"--lm-head-bits", "no --bits"});
  expect(neuronmm(svd + " -o x --bits 4 --lm-head-bits 7"), 2, {"--lm-head-bits"});
}

#ifdef NEURONMM_SANITIZED
constexpr std::array kRatios = {"0.2"};
#else
constexpr std::array kRatios = {"0.1", "0.2", "0.5"};  // 0.35 would give the same ranks as 0.2
#endif

TEST_F(CommandLine, MethodsRankAsDocumentedOnUnseenText) {
  const auto perplexity = [this](const std::string& method, const std::string& ratio) {
    const std::string out = path(method + ratio);
    std::string flags = " --form uv --block 64 --ratio " + ratio + " --method " + method;
    if (method != "svd") flags += " --calibration " + kLongCalibration;
    expect(neuronmm("compress " + kDemo + " -o " + out + flags), 0, {});
    const std::string json = path("perplexity.json");
    expect(neuronmm("perplexity " + out + " " + evaluation_text(kLongEvaluationBytes) + " --json " +
                    json),
           0, {});
    return nlohmann::json::parse(read(json)).at("perplexity").get<double>();
  };
  for (const std::string ratio : kRatios) {
    EXPECT_LE(perplexity("whitened", ratio), perplexity("svd", ratio)) << ratio;
  }
}

// At a ratio of 0.1 some layers have both dense and low-rank matrices, which every command accepts.
TEST_F(CommandLine, RanksByMeasurementAreBetterThanUniformRanks) {
  const std::string text = evaluation_text(kLongEvaluationBytes), out = path("out"),
                    json = path("perplexity.json");
  const auto perplexity = [&](const std::string& flags) {
    expect(neuronmm("compress " + kDemo + " -o " + out + " --form uv --block 64 --calibration " +
                    kLongCalibration + " " + flags + " --ratio 0.1 --force"),
           0, {"written to"});
    expect(neuronmm("perplexity " + out + " " + text + " --json " + json), 0, {});
    return nlohmann::json::parse(read(json)).at("perplexity").get<double>();
  };
  const double uniform = perplexity("");
  const uintmax_t uniform_bytes = fs::file_size(out + "/model.safetensors");
  EXPECT_LE(perplexity("--allocate measured"), uniform);
  EXPECT_LE(fs::file_size(out + "/model.safetensors"), uniform_bytes);

  expect(neuronmm("inspect " + out), 0, {"allocate measured", "dense", "192"});
  expect(neuronmm("check " + out + " --reference " + out), 0, {});
  expect(neuronmm("quantize " + out + " -o " + path("int8")), 0, {"written to"});
  expect(neuronmm("compress " + out + " -o " + path("twice") + " --ratio 0.5 --method svd"), 1,
         {"compressed already"});
  for (const std::string& model : {out, path("int8")}) {
    expect(neuronmm("generate " + model + " --prompt 'Once upon' --max-new-tokens 4"), 0, {});
  }
  expect(neuronmm("generate " + out + " --prompt Once --max-new-tokens 2 --device trn1"), 0,
         {"simulated"});
  expect(neuronmm("bench " + kDemo + " --against " + out +
                  " --prompt-tokens 8 --new-tokens 2 --runs 1 --device trn1"),
         0, {"speed-up"});
}

TEST_F(CommandLine, WrongAllocationsAreRefused) {
  const std::string start = "compress " + kOneLayer + " -o " + path("out") + " --block 64 ";
  for (const std::string method : {"svd", "whitened"}) {
    expect(neuronmm(start + "--ratio 0.2 --form uv --allocate measured --method " + method), 2,
           {"--calibration", "--self-generated"});
  }
  expect(neuronmm(compress("--ratio 0.2 --allocate greedy")), 2, {"--allocate"});
  expect(neuronmm(compress("--ratio 0.7 --allocate measured")), 1,
         {"allocate measured", "ratio", "block of at most 32"});
  const std::string dry = start + "--form uv --allocate measured --dry-run --ratio ";
  expect(neuronmm(dry + "0.2"), 0, {"192", "not exceeded"});
  expect(neuronmm(dry + "0.7"), 1, {"block of at most 32"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CommandLine, GenerationIsReproducible) {
  const std::string flags =
      "generate " + kOneLayer + " --prompt 'Once upon a time' --max-new-tokens 24";
  const auto text_of = [](const std::string& arguments) {
    const Outcome outcome = neuronmm(arguments, "", "/dev/null");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_GT(outcome.output.size(), 20u);
    return outcome.output;
  };
  EXPECT_EQ(text_of(flags), text_of(flags));
  const std::string sampled = flags + " --temperature 0.8 --top-k 40 --top-p 0.9 --seed ";
  EXPECT_EQ(text_of(sampled + "7"), text_of(sampled + "7"));
  EXPECT_NE(text_of(sampled + "7"), text_of(sampled + "8"));
}

TEST_F(CommandLine, DecodeIsTheInverseOfTokenize) {
  const Outcome ids = neuronmm("tokenize " + kOneLayer + " 'The cat sat.' --no-bos");
  EXPECT_EQ(ids.exit_code, 0);
  const std::string line = ids.output.substr(0, ids.output.find('\n'));
  EXPECT_EQ(neuronmm("tokenize " + kOneLayer + " --decode '" + line + "'").output,
            "The cat sat.\n");
}

TEST_F(CommandLine, DryRunNeedsOnlyAConfig) {
  fs::copy(kOneLayer + "/config.json", path("config.json"));
  expect(neuronmm("compress " + path("config.json") + " -o " + path("out") +
                  " --form uv --ratio 0.2 --block 64 --dry-run"),
         0, {"192", "0.6875"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CommandLine, SynthesizedModelsRun) {
  expect(neuronmm("synthesize --config " + kOneLayer + "/config.json -o " + path("random")), 0, {});
  expect(neuronmm("bench " + path("random") + " --prompt-tokens 4 --new-tokens 2 --runs 1"), 0, {});
}

TEST_F(CommandLine, UsageErrorsNameTheFlag) {
  expect(neuronmm("frobnicate"), 2, {});
  expect(neuronmm("compress"), 2, {});
  expect(neuronmm(compress("--ratio 0")), 2, {"--ratio"});
  expect(neuronmm(compress("--ratio 1")), 2, {"--ratio"});
  expect(neuronmm(compress("--ratio -0.5")), 2, {"--ratio"});
  expect(neuronmm(compress("--ratio abc")), 2, {"--ratio"});
  expect(neuronmm(compress("--ratio 0.2 --method magic")), 2, {"--method"});
  expect(neuronmm("generate " + kOneLayer + " --prompt x --temperature -1"), 2, {"--temperature"});
  expect(neuronmm("generate " + kOneLayer + " --prompt x --top-p 1.5"), 2, {"--top-p"});
}

TEST_F(CommandLine, TyposAreReportedBeforeOtherErrors) {
  expect(neuronmm("compres " + kOneLayer), 2,
         {"unknown command \"compres\"", "did you mean \"compress\"?"});
  expect(neuronmm("--hlep"), 2, {"unknown flag \"--hlep\"", "did you mean \"--help\"?"});
  expect(neuronmm("compress --hlep"), 2, {"did you mean \"--help\"?"});
  expect(neuronmm(compress("--raito 0.2")), 2, {"unknown flag \"--raito\"", "\"--ratio\"?"});
  expect(neuronmm(compress("--raito=0.2")), 2, {"unknown flag \"--raito\"", "\"--ratio\"?"});
  expect(neuronmm("frobnicate"), 2, {"unknown command \"frobnicate\""});
  EXPECT_EQ(neuronmm("frobnicate").output.find("did you mean"), std::string::npos);
  expect(neuronmm("inspect " + kOneLayer + " more"), 2, {"unexpected argument \"more\""});
}

TEST_F(CommandLine, WholeNumbersHaveNoSign) {
  for (const std::string value : {"-1", "1.5", "18446744073709551616", "x"}) {
    const std::string seed = " --seed " + value;
    expect(neuronmm("generate " + kOneLayer + " --prompt x" + seed), 2, {"--seed"});
    expect(neuronmm("synthesize --config c.json -o " + path("out") + seed), 2, {"--seed"});
  }
  expect(neuronmm("generate " + kOneLayer + " --prompt x --seed -1"), 2,
         {"expected a whole number from 0, found \"-1\""});
}

// The older name --out is still understood, but the help does not show it.
TEST_F(CommandLine, TheHelpShowsOneNameOfTheOutputFlag) {
  for (const std::string command : {"compress", "quantize", "synthesize", "emit", "finetune"}) {
    const Outcome help = neuronmm(command + " --help");
    expect(help, 0, {"-o,--output"});
    EXPECT_EQ(help.output.find("--out,"), std::string::npos) << help.output;
    EXPECT_EQ(help.output.find("--out "), std::string::npos) << help.output;
  }
  expect(neuronmm("synthesize --config " + kOneLayer + "/config.json --out " + path("old")), 0, {});
}

TEST_F(CommandLine, EveryReportComesAsJson) {
  const auto report = [this](const std::string& command) {
    expect(neuronmm(command + " --json " + path("r.json")), 0, {});
    return nlohmann::json::parse(read(path("r.json")));
  };
  EXPECT_EQ(report("inspect " + kOneLayer + " --tensors")["num_hidden_layers"], 1);
  EXPECT_EQ(report("tokenize " + kOneLayer + " 'The cat'")["text"], "The cat");
  const auto small = report("compress " + kOneLayer + " -o " + path("small") +
                            " --ratio 0.2 --block 64 --method svd");
  EXPECT_EQ(small["matrices"][0]["rank"], 192);
  EXPECT_TRUE(small["measured"].is_null());
  EXPECT_EQ(
      report("compress " + kOneLayer + " --form uv --ratio 0.2 --dry-run --block 64")["ratio"],
      0.2);
  EXPECT_EQ(report("quantize " + path("small") + " -o " + path("int8"))["weights"], "int8");
  EXPECT_EQ(
      report("synthesize --config " + kOneLayer + "/config.json -o " + path("random"))["seed"], 0);
  EXPECT_EQ(
      report("check " + kOneLayer + " --reference " + kOneLayer + " --new-tokens 2")["passed"],
      true);
  EXPECT_GT(report("kernels")["kernels"].size(), 3u);
  EXPECT_EQ(report("kernels xuv")["kernel"], "xuv");
  EXPECT_EQ(report("emit xuv --shape 512,512,256,512 -o " + path("k.py"))["kernel"], "xuv");
}

// The form auto and measured sizes are wishes; the report has what was taken. Nothing in it is 0
// because it is whole.
TEST_F(CommandLine, TheReportOfCompressSaysWhatWasDone) {
  const auto lines_with = [](const std::string& text, const std::string& begin) {
    int lines = 0;
    for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1))
      lines += at == 0 || text[at - 1] == '\n' ? 1 : 0;
    return lines;
  };
  const Outcome outcome =
      neuronmm("compress " + kOneLayer + " -o " + path("out") +
               " --ratio 0.1 --method whitened --no-measure --calibration " + kOneLayer +
               "/calibration.txt --calibration-tokens 6144 --json " + path("r.json"));
  expect(outcome, 0, {"written to"});
  EXPECT_EQ(lines_with(outcome.output, "form"), 1) << outcome.output;
  EXPECT_EQ(lines_with(outcome.output, "sizes"), 1) << outcome.output;
  const auto report = nlohmann::json::parse(read(path("r.json")));
  EXPECT_NE(report["form"], "auto");
  EXPECT_EQ(report["form"], report["form_choice"]["taken"]);
  EXPECT_EQ(report["allocate"], report["size_choice"]["taken"]);
  int whole = 0;
  for (const char* size : {"gate", "up", "input", "neurons", "down"}) {
    const auto& value = report["layers"][0][size];
    whole += value.is_null() ? 1 : 0;
    if (!value.is_null()) {
      EXPECT_GT(value, 0) << size;
    }
  }
  EXPECT_GT(whole, 0);
  expect(neuronmm("inspect " + kOneLayer + " --json " + path("i.json")), 0, {"dense"});
  EXPECT_TRUE(nlohmann::json::parse(read(path("i.json")))["layers"][0]["gate"]["rank"].is_null());
}

TEST_F(CommandLine, CompressWarnsIfTheResultIsNotAsAsked) {
  const std::string start = "compress " + kOneLayer + " --ratio 0.2 --method svd ";
  expect(neuronmm(start + "--dry-run --block 128"), 0,
         {"warning", "0.9167", "asked was 0.8", "--block "});
  EXPECT_EQ(neuronmm(start + "--dry-run --block 8").output.find("warning"), std::string::npos);
  expect(neuronmm(start + "--block 64 -o " + path("out")), 0, {"not measured", "--calibration"});
  const std::string half = "compress " + kOneLayer + " --ratio 0.6 --method svd --block 32 -o ";
  expect(neuronmm(half + path("half") + " --calibration " + kCalibration), 0,
         {"KL ", "perplexity ", "dense ", "warning: the compressed model predicts much worse"});
  EXPECT_NE(read(path("half/README.md")).find("perplexity"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("half/calibration.txt")));
}

TEST_F(CommandLine, ReferenceLogitsAreSavedAndRead) {
  const std::string file = path("r.safetensors");
  expect(neuronmm("check " + kOneLayer + " --reference " + kOneLayer +
                  " --new-tokens 4 --save-reference " + file),
         0, {"PASSED"});
  expect(neuronmm("check " + kOneLayer + " --reference " + file), 0, {"8 positions", "PASSED"});
  expect(neuronmm("check " + kOneLayer + " --reference " + kOneLayer + " --save-reference r.json"),
         2, {"--save-reference", ".safetensors"});
}

TEST_F(CommandLine, BenchTakesLists) {
  expect(neuronmm("bench " + kOneLayer + " --prompt-tokens 4,8 --new-tokens 2 --runs 1 --json " +
                  path("b.json")),
         0, {"prefill", "decode", "4 prompt", "8 prompt"});
  const auto runs = nlohmann::json::parse(read(path("b.json")))["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1]["settings"]["prompt_tokens"], 8);
  EXPECT_EQ(runs[0]["decode_tokens_per_s"], runs[0]["token_generation_model"]["throughput"]);
  expect(neuronmm("bench " + kOneLayer + " --prompt-tokens 4,0"), 2, {"--prompt-tokens"});
  const Outcome late = neuronmm("bench " + kOneLayer + " --prompt-tokens 4,1000000");
  expect(late, 1, {"prompt_tokens 1000000", "max_position_embeddings"});
  EXPECT_EQ(late.output.find("decode"), std::string::npos) << "the first length was timed";
  expect(neuronmm("bench"), 2, {"MODEL_DIR"});
  expect(neuronmm("bench " + kOneLayer + " --url http://127.0.0.1:1"), 2, {"--url"});
  expect(neuronmm("bench " + kOneLayer +
                  "/config.json --device trn1 --prompt-tokens 16 --new-tokens 2" + " --runs 1"),
         0, {"prefill", "simulated"});
}

TEST_F(CommandLine, BrokenGgufFilesAreRefusedByEveryCommand) {
  const std::string file = write("model.gguf", std::string("GGUF\3\0\0\0", 8));
  for (const std::string command :
       {"inspect ", "bench ", "quantize -o out ", "generate --prompt x ", "tokenize ",
        "compress --ratio 0.2 --dry-run ", "perplexity "}) {
    expect(neuronmm(command + file + (command == "perplexity " ? " -" : "")), 1,
           {"model.gguf: tensor count: expected 8 bytes from byte 8 on, the file has 0 more"});
  }
}

TEST_F(CommandLine, ImportRefusesWrongFlagsAndInputs) {
  expect(neuronmm("import " + path("x.gguf")), 2, {"--output"});
  expect(neuronmm("import x.gguf -o out --dtype int8"), 2, {"--dtype", "bf16"});
  expect(neuronmm("import x.gguf -o out --bits 5"), 2, {"--bits"});
  expect(neuronmm("import x.gguf -o out --bits 4 --dtype f16"), 2, {"--bits", "--dtype"});
  expect(neuronmm("import " + path("x.gguf") + " -o " + path("out") + " --bits 4"), 1, {"x.gguf"});
  EXPECT_FALSE(fs::exists(path("out.floats")));
  fs::create_directory(path("out.floats"));
  const std::string mine = write("out.floats/mine.txt", "text");
  expect(neuronmm("import " + path("x.gguf") + " -o " + path("out") + " --bits 4"), 1,
         {"out.floats", "other files", "delete or rename"});
  EXPECT_TRUE(fs::exists(mine));
  expect(neuronmm("import " + path("x.gguf") + " -o " + path("out")), 1, {"x.gguf"});
  const std::string file = write("model.gguf", std::string("GGUF\1\0\0\0", 8));
  expect(neuronmm("import " + file + " -o " + path("out")), 1, {"version 1", "expected"});
  expect(neuronmm("import " + folder_.string() + " -o " + path("out")), 1,
         {"is a folder", "model.gguf in it"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CommandLine, HelpNamesEveryCommand) {
  expect(neuronmm("--help"), 0, {"Models:", "Trainium kernels:", "The paper:"});
  expect(neuronmm("--help"), 0,
         {"compress", "generate", "perplexity", "bench", "inspect", "synthesize", "tokenize",
          "check", "quantize", "import", "demo"});
}

TEST_F(CommandLine, FoldersThatAreNotModelsAreRefused) {
  expect(neuronmm("inspect " + path("nowhere")), 1, {"nowhere"});
  expect(neuronmm("inspect " + folder_.string()), 1, {"config.json"});
  const std::string model = copy_of_model();
  fs::remove(model + "/model.safetensors");
  expect(neuronmm("inspect " + model), 1, {"model.safetensors"});
}

TEST_F(CommandLine, DamagedWeightsAreRefused) {
  const std::string model = copy_of_model();
  fs::resize_file(model + "/model.safetensors", 1000000);
  expect(neuronmm("inspect " + model), 1, {"model.safetensors"});
  write("model/model.safetensors",
        std::string("\0\0\0\0\0\0\0\x10", 8) + "{}");  // header of 2^60 bytes
  expect(neuronmm("generate " + model + " --prompt x"), 1, {"model.safetensors", "header"});
}

TEST_F(CommandLine, AnUnknownArchitectureIsRefused) {
  const std::string model = copy_of_model();
  std::string config = read(model + "/config.json");
  config.replace(config.find("LlamaForCausalLM"), 16, "MambaForCausalLM");
  write("model/config.json", config);
  expect(neuronmm("inspect " + model), 1,
         {"MambaForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM"});
}

TEST_F(CommandLine, AMissingOrMalformedTokenizerIsRefused) {
  const std::string model = copy_of_model();
  write("model/tokenizer.json", "{\"model\": 7}");
  expect(neuronmm("generate " + model + " --prompt x"), 1, {"tokenizer.json"});
  fs::remove(model + "/tokenizer.json");
  expect(neuronmm("perplexity " + model + " " + evaluation_text()), 1, {"tokenizer.json"});
}

TEST_F(CommandLine, PromptsThatCannotBeRunAreRefused) {
  expect(neuronmm("generate " + kOneLayer + " --prompt ''"), 1, {"--prompt", "empty"});
  std::string words;
  for (int i = 0; i < 600; ++i) words += "cat ";
  expect(neuronmm("generate " + kOneLayer + " --prompt '" + words + "'"), 1, {"512"});
  expect(neuronmm("generate " + kOneLayer + " --prompt x --chat"), 1, {"chat template"});
}

TEST_F(CommandLine, ShortTextsAreRefused) {
  const std::string empty = write("empty.txt", ""), tiny = write("tiny.txt", "A cat sat.");
  expect(neuronmm("perplexity " + kOneLayer + " " + tiny), 1, {"tiny.txt", "512 tokens"});
  const std::string start =
      "compress " + kOneLayer + " -o " + path("out") + " --ratio 0.2 --block 64";
  expect(neuronmm(start), 2, {"--calibration"});
  expect(neuronmm(start + " --calibration " + empty), 1, {"tokens"});
  expect(neuronmm(start + " --calibration " + tiny), 1, {"tokens"});
  expect(neuronmm(start + " --calibration " + path("absent.txt")), 1, {"absent.txt"});
  EXPECT_FALSE(fs::exists(path("out")));
}

// Flags that contradict each other are usage errors, whatever the files contain.
TEST_F(CommandLine, ContradictoryFlagsOfCompressAreUsageErrors) {
  const std::string text = " --calibration " + kOneLayer + "/calibration.txt";
  const std::string start = "compress " + kOneLayer + " --ratio 0.2 -o " + path("out");
  expect(neuronmm("compress " + kOneLayer + " --ratio 0.2" + text), 2, {"--output"});
  expect(neuronmm(start + text + " --form narrow --method svd"), 2, {"form narrow", "svd"});
  expect(neuronmm(start + " --dry-run --form narrow --method svd"), 2, {"form narrow", "svd"});
  expect(neuronmm(start + " --calibration - --calibration -"), 2, {"--calibration", "twice"});
  expect(neuronmm(start + " --self-generated 500 --seed -1"), 2, {"--seed", "was removed"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CommandLine, NanIsOutsideEveryRange) {
  expect(neuronmm("check " + kOneLayer + " --reference " + kOneLayer + " --divergence-tol nan"), 2,
         {"--divergence-tol", "nan"});
  expect(neuronmm("perplexity " + kOneLayer + " x --link-timeout nan"), 2,
         {"--link-timeout", "nan"});
}

TEST_F(CommandLine, RanksThatSaveNothingAreRefused) {
  expect(neuronmm("compress " + kOneLayer + " -o " + path("out") +
                  " --ratio 0.05 --block 384 --method svd"),
         1, {"layer", "gate", "ratio"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CommandLine, ExistingOutputsAreKeptWithoutForce) {
  const std::string flags = " --ratio 0.2 --block 64 --method svd";
  expect(neuronmm("compress " + kOneLayer + " -o " + kOneLayer + flags + " --force"), 1, {"input"});
  fs::create_directories(path("out"));
  write("out/precious", "keep me");
  expect(neuronmm("compress " + kOneLayer + " -o " + path("out") + flags), 1, {"out", "--force"});
  EXPECT_EQ(read(path("out/precious")), "keep me");
  expect(neuronmm("compress " + kOneLayer + " -o /proc/nowhere/out" + flags), 1, {"/proc/nowhere"});
  expect(neuronmm("compress " + kOneLayer + " -o " + path("out") + flags + " --force"), 1,
         {"not a model folder"});
  EXPECT_EQ(read(path("out/precious")), "keep me");
  expect(neuronmm("compress " + kOneLayer + " -o " + path("second") + flags), 0, {});
  expect(neuronmm("compress " + kOneLayer + " -o " + path("second") + flags), 1, {"--force"});
  expect(neuronmm("compress " + kOneLayer + " -o " + path("second") + flags + " --force"), 0, {});
}

TEST_F(CommandLine, AFullDiskLeavesNoOutput) {
  const std::string command = "sh -c 'trap \"\" XFSZ; ulimit -f 2000; exec \"$0\" \"$@\"'";
  const Outcome outcome = neuronmm(
      "compress " + kOneLayer + " -o " + path("out") + " --ratio 0.2 --block 64 --method svd",
      command);
  expect(outcome, 1, {"File too large"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CommandLine, AnInterruptedCompressionResumes) {
  const std::string flags = compress("--ratio 0.2");
  // A fast machine may finish within the first time, so shorter times follow. No machine finishes
  // within the last one.
  Outcome stopped;
  for (const char* seconds : {"0.3", "0.1", "0.03", "0.01"}) {
    stopped = neuronmm(flags, "timeout --preserve-status -s INT " + std::string(seconds));
    if (stopped.exit_code != 0) break;
    fs::remove_all(path("out"));
  }
  EXPECT_EQ(stopped.exit_code, 130) << stopped.output;
  EXPECT_FALSE(fs::exists(path("out")));
  expect(neuronmm(flags), 0, {});
  const std::string resumed = read(path("out/model.safetensors"));
  fs::remove_all(path("out"));
  expect(neuronmm(flags), 0, {});
  EXPECT_EQ(read(path("out/model.safetensors")), resumed);
}

}  // namespace
