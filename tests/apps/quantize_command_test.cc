// The tests in this file run `neuronmm quantize` as a user does, and every command on its results.
// They also cover calibration by a text, --dequantize, and every kind of bad input.

#include <filesystem>
#include <fstream>
#include <string>

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

class QuantizeCommand : public neuronmm::apps::ProgramTest {
 protected:
  std::string evaluation_text() const {
    return write("evaluation.txt", read(kOneLayer + "/evaluation.txt").substr(0, 6000));
  }
  // Returns a model with weights of 4 bits.
  std::string quantized_model() const {
    expect(neuronmm("quantize " + kOneLayer + " -o " + path("four") + " --bits 4"), 0, {});
    return path("four");
  }
  void expect_no_temporary_files(const std::string& name) const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const std::string found = entry.path().filename();
      EXPECT_FALSE(found != name && found.starts_with(name + ".")) << found;
    }
  }
};

TEST_F(QuantizeCommand, QuantizeThenRunEveryCommandOnTheResult) {
  const std::string small = path("small"), out = path("int8"), both = path("both");
  expect(
      neuronmm("compress " + kOneLayer + " -o " + small + " --ratio 0.2 --block 64 --method svd"),
      0, {});
  expect(neuronmm("compress " + kOneLayer + " -o " + both +
                  " --ratio 0.2 --block 64 --method svd --bits 8"),
         0, {});
  for (const std::string& model : {kOneLayer, small}) {
    expect(neuronmm("quantize " + model + " -o " + out + " --force"), 0,
           {"MB -> ", "written to", "perplexity"});
    EXPECT_TRUE(fs::exists(out + "/tokenizer.json"));
    EXPECT_FALSE(fs::exists(out + ".partial"));
  }
  for (const std::string& model : {out, both}) {
    expect(neuronmm("inspect " + model), 0, {"int8", "I8", "BF16", "192"});
    for (const std::string device : {"", " --device reference"}) {
      expect(neuronmm("generate " + model + " --prompt 'Once upon' --max-new-tokens 4" + device), 0,
             {"new tokens 4"});
    }
    expect(neuronmm("perplexity " + model + " " + evaluation_text()), 0, {"perplexity"});
    expect(neuronmm("bench " + small + " --against " + model +
                    " --prompt-tokens 8 --new-tokens 4 --runs 2"),
           0, {"speed-up"});
    expect(neuronmm("check " + model + " --reference " + model), 0, {});
    for (const std::string command : {"generate", "bench"}) {
      expect(neuronmm(command + " " + model + " --device trn1" +
                      (command == "generate" ? " --prompt x" : "")),
             1, {"NeuronCore", "int8"});
    }
  }
  expect(neuronmm("quantize " + out + " -o " + path("again")), 1, {"rounded already (int8)"});
  expect(neuronmm("compress " + out + " -o " + path("again") + " --ratio 0.2 --method svd"), 1,
         {"compressed already"});
}

// The tied embedding table has more bits than the other weights.
TEST_F(QuantizeCommand, ModelsOf6And4BitsRunInEveryCommand) {
  const std::string six = path("six"), four = path("four");
  expect(neuronmm("quantize " + kOneLayer + " -o " + six + " --bits 6"), 0, {"6.130 bits each"});
  expect(neuronmm("quantize " + kOneLayer + " -o " + four + " --bits 4"), 0, {"5.130 bits each"});
  expect(neuronmm("quantize " + kOneLayer + " -o " + path("32") + " --bits 4 --group 32"), 0,
         {"4.964"});
  expect(neuronmm("inspect " + four), 0,
         {"4 bits in groups of 16, embed_tokens 6 bits", "of the MLPs 4.625", "2360448 in"});
  for (const std::string& model : {six, four, path("32")}) {
    expect(neuronmm("generate " + model + " --prompt 'Once upon' --max-new-tokens 4"), 0, {});
    expect(neuronmm("check " + model + " --reference " + model + " --new-tokens 2"), 0, {});
    expect(neuronmm("bench " + model + " --prompt-tokens 8 --new-tokens 4 --runs 2"), 0,
           {"decode"});
    expect(neuronmm("generate " + model + " --device trn1 --prompt x"), 1, {"NeuronCore", "bits"});
  }
  expect(neuronmm("quantize " + four + " -o " + path("again")), 1, {"4 bits", "already"});
  expect(neuronmm("quantize " + kOneLayer + " -o " + path("x") + " --bits 5"), 2, {"--bits"});
  expect(neuronmm("quantize " + kOneLayer + " -o " + path("x") + " --bits 4 --group 24"), 2,
         {"--group"});
  expect(neuronmm("quantize " + kOneLayer + " -o " + path("x") + " --group 16"), 2,
         {"--group", "4 bits"});
}

TEST_F(QuantizeCommand, QuantizeUsesACalibrationText) {
  const std::string out = path("out"), text = " --calibration " + kOneLayer + "/calibration.txt",
                    few = text + " --calibration-tokens 600",
                    statistics = " --statistics " + path("statistics");
  expect(neuronmm("quantize " + kOneLayer + " -o " + out + " --bits 4" + few + statistics +
                  " --json " + path("o.json")),
         0, {"5.130 bits each"});
  const auto report = nlohmann::json::parse(read(path("o.json")));
  EXPECT_EQ(report["rounding"], "gptq");
  EXPECT_EQ(report["smoothing"], true);
  EXPECT_EQ(report["calibration_tokens"], 600);
  expect(neuronmm("inspect " + out), 0,
         {"4 bits in groups of 16", "600 tokens of calibration.txt"});
  expect(neuronmm("generate " + out + " --prompt 'Once upon' --max-new-tokens 4"), 0, {});
  expect(neuronmm("perplexity " + out + " " + kOneLayer + "/calibration.txt --limit 1"), 0,
         {"calibrated on"});
  expect(
      neuronmm("quantize " + kOneLayer + " -o " + path("8") + statistics + " --rounding nearest"),
      0, {"written to"});
  const std::string quantize = "quantize " + kOneLayer + " -o " + path("x");
  expect(neuronmm(quantize + " --rounding gptq"), 2, {"--rounding gptq", "--calibration"});
  expect(neuronmm(quantize + " --smoothing on"), 2, {"--smoothing", "--calibration"});
  expect(neuronmm(quantize + text + " --rounding nearest --smoothing off"), 2, {"no use"});
  expect(neuronmm(quantize + " --calibration nowhere.txt"), 1, {"nowhere.txt"});
  expect(neuronmm(quantize + " --statistics " + kOneLayer), 1, {"statistics"});
  EXPECT_FALSE(fs::exists(path("x")));
}

TEST_F(QuantizeCommand, WrongFlagsAndOutputsAreRefused) {
  expect(neuronmm("quantize " + kOneLayer), 2, {"--output"});
  expect(neuronmm("compress " + kOneLayer + " -o " + path("out") + " --method svd --bits 5"), 2,
         {"--bits", "8"});
  expect(neuronmm("quantize " + kOneLayer + " -o " + kOneLayer + " --force"), 1, {"input"});
  expect(neuronmm("quantize " + kOneLayer + " -o /proc/nowhere/out"), 1, {"/proc/nowhere"});
  expect(neuronmm("quantize " + path("nowhere") + " -o " + path("out")), 1, {"nowhere"});
  expect(neuronmm("compress " + kOneLayer +
                  "/config.json --form uv --ratio 0.2 --block 64 --dry-run --bits 8"),
         0, {"2026496 bytes"});
}

TEST_F(QuantizeCommand, DequantizedModelsAreQuantizedOrCompressedAgain) {
  const std::string four = quantized_model();
  expect(neuronmm("quantize " + four + " -o " + path("eight") + " --dequantize --json " +
                  path("o.json")),
         0, {"written to", ("--reference " + four).c_str()});
  EXPECT_EQ(nlohmann::json::parse(read(path("o.json")))["model"], four);
  // Weights of 8 bits represent weights of 4 bits almost exactly.
  expect(neuronmm("perplexity " + path("eight") + " " + evaluation_text() + " --reference " + four +
                  " --json " + path("p.json")),
         0, {});
  EXPECT_LT(nlohmann::json::parse(read(path("p.json")))["kl"].get<double>(), 0.01);
  expect(neuronmm("compress " + four + "/ -o " + path("small") +
                  " --dequantize --form neurons --allocate uniform --ratio 0.2 --calibration " +
                  kOneLayer + "/calibration.txt --calibration-tokens 1024"),
         0, {"written to"});
  expect(neuronmm("inspect " + path("small")), 0, {"F32"});
  EXPECT_NE(read(path("small") + "/config.json").find("\"LlamaForCausalLM\""), std::string::npos);
  EXPECT_NE(read(path("small") + "/README.md").find("small: four"), std::string::npos);
  for (const char* out : {"eight", "small"}) expect_no_temporary_files(out);
}

TEST_F(QuantizeCommand, DequantizeRefusesWrongInputsAndOutputs) {
  const std::string four = quantized_model(), out = path("out");
  const std::string quantize = "quantize " + four + " -o " + out;
  expect(neuronmm("quantize " + kOneLayer + " -o " + out + " --dequantize"), 1,
         {"one_layer/demo", "8, 6 or 4 bits", "floats"});
  expect(neuronmm("quantize " + path("nowhere") + " -o " + out + " --dequantize"), 1, {"nowhere"});
  expect(neuronmm(quantize), 1,
         {"its weights are rounded already (4 bits", "floats of this one with --dequantize"});
  expect(neuronmm("compress " + four + " -o " + out + " --method svd --ratio 0.2"), 1,
         {"4 bits", "--dequantize"});
  for (const std::string& into : {four, four + "/inside"}) {
    expect(neuronmm("quantize " + four + " -o " + into + " --dequantize --force"), 1,
           {"outside the input folder"});
  }
  expect(neuronmm("quantize " + four + " -o " + folder_.string() + " --dequantize --force"), 1,
         {"four lies in it"});
  expect(neuronmm("inspect " + four), 0, {"4 bits"});
  fs::create_directories(out);
  expect(neuronmm(quantize + " --dequantize"), 1, {"out", "exists"});
  fs::remove(out);
  fs::create_directories(out + ".floats/of somebody else");
  expect(neuronmm(quantize + " --dequantize"), 1,
         {"out.floats", "other files", "delete or rename"});
  EXPECT_TRUE(fs::exists(out + ".floats/of somebody else"));
  fs::remove_all(out + ".floats");
  EXPECT_FALSE(fs::exists(out));
  expect_no_temporary_files("out");
}

// The next run uses the floats that an interrupted run leaves. The test shows this with a licence
// that it adds to the floats: the licence appears in the output. The interrupt comes when the
// floats are complete, which is when origin.json exists.
TEST_F(QuantizeCommand, AnInterruptedRunReusesItsFloats) {
  const std::string four = quantized_model(), out = path("out");
  const std::string kept = out + ".floats/work";
  const std::string command = "compress " + four + " -o " + out +
                              " --dequantize --form uv --ratio 0.2 --calibration " + kOneLayer +
                              "/calibration.txt";
  const std::string script =
      write("interrupt.sh", "set -m\n'" + neuronmm::program_path().string() + "' " + command +
                                " </dev/null & p=$!\nwhile kill -0 $p && [ ! -e '" + kept +
                                "/origin.json' ]; do sleep 0.01; done\nkill -INT $p\nwait $p\n");
  expect(neuronmm::apps::run_shell("bash '" + script + "' 2>&1"), 130, {"interrupted"});
  ASSERT_FALSE(fs::exists(fs::path(four) / "LICENSE"));
  std::ofstream(kept + "/floats/four/LICENSE") << "mine";
  expect(neuronmm(command + " --calibration-tokens 1024 --force"), 0, {"written to"});
  EXPECT_EQ(read(out + "/LICENSE"), "mine");
  expect_no_temporary_files("out");
}

// A chat is written by the template of the model. Every command that reads texts refuses a model
// without one by its name.
TEST_F(QuantizeCommand, ChatsAreTextsForModelsWithATemplate) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += R"({"messages": [{"role": "user", "content": "Tell me a story about a cat."}]})"
             "\n"
             R"({"conversations": [{"from": "human", "value": "Once upon a time"}]})"
             "\n{\"text\": \"there was a dog.\"}\n";
  }
  const std::string chats = write("chats.jsonl", lines);
  const std::string text = " --calibration " + chats + " --calibration-tokens 600";
  for (const std::string& command :
       {"quantize " + kOneLayer + " --bits 4 -o " + path("out") + text,
        "compress " + kOneLayer + " --ratio 0.2 -o " + path("out") + text,
        "fit " + kOneLayer + " --bytes 4M -o " + path("out") + text,
        "perplexity " + kOneLayer + " " + chats + " --documents"}) {
    const std::string named = kOneLayer + " has no chat template";
    expect(neuronmm(command), 1, {"chats.jsonl:1: ", named.c_str(), "chat_template.jinja"});
  }
  const std::string chat_model = path("chat_model");
  fs::copy(kOneLayer, chat_model);
  std::ofstream(chat_model + "/chat_template.jinja")
      << "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
  expect(neuronmm("quantize " + chat_model + " --bits 4 -o " + path("out") + text), 0,
         {"written to"});
  expect(neuronmm("perplexity " + path("out") + " " + chats + " --documents --context 64"), 0,
         {"perplexity"});
}

}  // namespace
