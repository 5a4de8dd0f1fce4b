// The tests in this file run `neuronmm export` as a user does. They also read the reports that an
// owner of a Trainium sends back, with every kind of bad input.

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "partly_dense_model.h"
#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::read;
using neuronmm::apps::write_partly_dense_model;

class ExportCommand : public neuronmm::apps::ProgramTest {
 protected:
  // Tuned tilings go to a cache in the user's home, so the test has a home of its own.
  std::string home() const { return "env HOME='" + folder_.string() + "' XDG_CACHE_HOME="; }
  std::string compressed(const std::string& flags) const {
    expect(neuronmm("compress " + kOneLayer + " -o " + path("small") + " --method svd --block 32 " +
                    flags),
           0, {});
    return path("small");
  }
  auto run_export(const std::string& model, const std::string& rest) const {
    return neuronmm("export " + model + " -o " + path("out") + " --new-tokens 2 " + rest, home());
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
};

TEST_F(ExportCommand, LayersWithoutAFusedKernelAreNamed) {
  const std::string model = path("partly_dense");
  write_partly_dense_model(model);
  expect(run_export(model, "--target vllm-neuron --json " + path("e.json")), 0,
         {"layers 0, 1, 2, 3: plain torch products without our fused kernel, because their ranks "
          "differ within an MLP",
          "simulated on trn2: prefill", "never run on a Trainium"});
  const nlohmann::json exported = nlohmann::json::parse(read(path("e.json")));
  EXPECT_EQ(exported["sdk"], "2.33");
  EXPECT_GT(exported["predicted"]["dense"]["token_generation_model"], 0);
  EXPECT_FALSE(fs::exists(path("out") + "/kernels"));
  EXPECT_TRUE(fs::exists(path("out") + "/model/tokenizer.json"));
  expect(run_export(model, "--target nxdi"), 1, {"out: already exists; name another folder"});
}

TEST_F(ExportCommand, AKernelIsWrittenForEachRank) {
  expect(run_export(compressed("--ratio 0.2"), "--target vllm-neuron --device trn3"), 0, {});
  const nlohmann::json kernels = nlohmann::json::parse(read(path("out") + "/kernels/kernels.json"));
  ASSERT_EQ(kernels.size(), 2);
  EXPECT_EQ(kernels[0]["shape"], nlohmann::json({{"M", 128}, {"K", 384}, {"r", 224}, {"N", 1024}}));
  const std::string source = read(path("out") + "/kernels/mlp_rank_224.py");
  // The SDK of vLLM's plugin compiles only this dialect.
  EXPECT_NE(source.find("\nimport nki\n"), std::string::npos);
  EXPECT_NE(source.find("M, K, r, N = 128, 384, 224, 1024"), source.npos);
  EXPECT_NE(source.find("--cores 2 --device trn3 --sdk 2.33"), source.npos);
  // Graphs on trn3 have logical cores of two, which split the rows.
  for (const nlohmann::json& kernel : kernels) EXPECT_EQ(kernel["cores"], 2);
  EXPECT_NE(source.find("core = nl.program_id(0)"), source.npos);
  EXPECT_EQ(source.find("affine_range"), source.npos);
}

TEST_F(ExportCommand, AnOlderReleaseHasItsOwnKernels) {
  const std::string small = compressed("--ratio 0.2");
  expect(run_export(small, "--target vllm-neuron --sdk 2.32"), 0, {"Neuron SDK 2.32"});
  const std::string source = read(path("out") + "/kernels/mlp_rank_224.py");
  EXPECT_NE(source.find("NKI 0.6, Neuron"), source.npos);
  fs::remove_all(path("out"));
  expect(run_export(small, "--target vllm-neuron --prompt-tokens 33"), 0,
         {"2 cores cannot split the 33 rows of a prefill", "--prompt-tokens"});
  EXPECT_FALSE(fs::exists(path("out") + "/kernels"));
}

TEST_F(ExportCommand, RefusedExportsLeaveNoFiles) {
  const std::string small = compressed("--ratio 0.2");
  expect(neuronmm("quantize " + small + " -o " + path("small8")), 0, {});
  expect(neuronmm("quantize " + small + " -o " + path("small4") + " --bits 4"), 0, {});
  expect(run_export(path("small8"), "--target nxdi"), 1, {"small8: weights of int8", "nxdi"});
  expect(run_export(path("small4"), "--target vllm-neuron"), 1, {"small4: weights of 4 bits"});
  expect(run_export(kOneLayer, "--target nxdi"), 1, {"is not a compressed model"});
  expect(run_export(path("nowhere"), "--target nxdi"), 1, {"nowhere: there is no such folder"});
  expect(run_export(small, "--target nxdi --sdk 2.32"), 1, {"2.27, 2.28, found 2.32"});
  expect(run_export(small, "--target vllm-neuron --device trn1"), 1, {"trn2 and trn3, found trn1"});
  expect(run_export(small,
                    "--target nxdi --prompt-tokens 32 --prompt '" + std::string(300, 'a') + "'"),
         1, {"--prompt: expected at most 16 tokens"});
  expect(run_export(small, "--target nxdi --prompt-tokens 4096"), 1, {"512"});
  expect(run_export(small, ""), 2, {"--target"});
  expect(run_export(small, "--target tpu"), 2, {"--target", "vllm-neuron", "nxdi"});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

// Returns a report as check_on_trainium.py writes it.
nlohmann::json report() {
  const auto times = [](double prefill, double token) {
    return nlohmann::json{{"context_encoding_model", {{"latency_ms_p50", prefill}}},
                          {"token_generation_model", {{"latency_ms_p50", token}}},
                          {"e2e_model", {{"latency_ms_p50", 100 * token}}}};
  };
  const nlohmann::json predicted = {
      {"context_encoding_model", 2.0}, {"token_generation_model", 1.0}, {"e2e_model", 50.0}};
  return {{"format", "neuronmm-check-1"},
          {"export",
           {{"device", "trn2"},
            {"model", {{"name", "tiny"}}},
            {"predicted", {{"dense", predicted}, {"factored", predicted}}}}},
          {"steps",
           {{"imports", {{"result", "fail"}, {"reason", "none"}}},
            {"latency_factored", {{"result", "pass"}, {"found", times(4.0, 0.5)}}},
            {"latency_dense", {{"result", "skip"}, {"reason", "no --dense"}}}}}};
}

TEST_F(ExportCommand, MeasuredTimesBecomeRowsOfTheValidation) {
  const std::string file = write("report.json", report().dump());
  expect(neuronmm("paper validation --measured " + file + " --json " + path("rows.json")), 0,
         {"measured by an owner", "tiny", "-50.0 %", "+100.0 %"});
  const nlohmann::json rows = nlohmann::json::parse(read(path("rows.json")))["rows"];
  nlohmann::json measured = nlohmann::json::array();
  for (const nlohmann::json& row : rows) {
    if (row["set"] == "measured") measured.push_back(row);
  }
  ASSERT_EQ(measured.size(), 3);
  EXPECT_GT(rows.size(), measured.size());
  EXPECT_EQ(measured[1]["quantity"], "a token");
  EXPECT_EQ(measured[1]["measured_ms"], 0.5);
  EXPECT_EQ(measured[1]["simulated_ms"], 1.0);
}

TEST_F(ExportCommand, MalformedReportsAreRefused) {
  const auto paper = [&](const nlohmann::json& changed) {
    return neuronmm("paper validation --measured " + write("r.json", changed.dump()));
  };
  nlohmann::json other = report();
  other["format"] = "neuronmm-check-9";
  expect(paper(other), 1, {"r.json", "\"format\"", "neuronmm-check-1", "neuronmm-check-9"});
  other = report();
  other["steps"].erase("latency_factored");
  expect(paper(other), 1, {"r.json", "no time was measured"});
  other = report();
  other["steps"]["latency_factored"]["found"]["e2e_model"]["latency_ms_p50"] = 0;
  expect(paper(other), 1, {"r.json", "\"latency_ms_p50\"", "more than 0 ms"});
  other = report();
  other["export"]["predicted"].erase("factored");
  expect(paper(other), 1, {"r.json", "\"predicted\"", "\"factored\""});
  other = report();
  other["steps"] = 3;
  expect(paper(other), 1, {"r.json", "\"steps\"", "an object"});
  expect(neuronmm("paper validation --measured " + path("absent.json")), 1, {"absent.json"});
  expect(neuronmm("paper kernels --measured " + path("r.json")), 2, {"--measured", "validation"});
}

}  // namespace
