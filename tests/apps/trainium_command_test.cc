// The tests in this file run `kernels`, `simulate`, `paper` and the commands with --device trn1 as
// a user does. They check what the commands print and write, and every kind of bad input.

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using neuronmm::apps::expect;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

class TrainiumCommand : public neuronmm::apps::ProgramTest {
 protected:
  Json json(const std::string& name) const { return Json::parse(read(path(name)), nullptr, false); }
};

std::string simulate(const std::string& rest) { return "simulate " + rest; }
std::string small(const std::string& rest) { return "simulate xuv --shape 64,96,32,80 " + rest; }

TEST_F(TrainiumCommand, KernelsAreListedAndExplained) {
  expect(neuronmm("kernels"), 0, {"matmul_tiled", "matmul_fixed_order", "xtuv_transposed", "mlp"});
  expect(neuronmm("kernels xuv"), 0,
         {"[M, K]", "BM", "row tiles of 128", "s·(P·M·K + ⌈M/BM⌉·r·(K + N) + M·N)", "2·M·r·(K + N)",
          "nc_matmul"});
  expect(neuronmm("kernels xvu"), 1, {"xvu", "xuv_transposed"});
}

// There is one row block, so every operand moves once. The bytes are 2·(M·K + K·r + r·N + M·N).
TEST_F(TrainiumCommand, SimulatedBytesEqualTheFormula) {
  const std::string out = path("out.json");
  expect(neuronmm(simulate("xuv --shape 300,200,128,700 --json " + out)), 0,
         {"simulated (no Trainium was used)", "latency", "Tensor bound", "DMA bound", "MFU",
          "closed formula", "770400", "BM=8,BK=4,Bu=8,Br=8,BN=2", "SBUF", "PSUM"});
  const Json report = json("out.json");
  EXPECT_EQ(report["settings"]["kernel"], "xuv");
  EXPECT_EQ(report["settings"]["tiling"]["BM"], 8);
  const Json summary = report["summary"];
  const double read_bytes = summary["hbm_read_bytes"], written = summary["hbm_write_bytes"];
  EXPECT_EQ(read_bytes + written, 770400);
  EXPECT_EQ(summary["inputs_outputs_weights_size_bytes"], 770400);
  const double flops = summary["model_flops"], milliseconds = summary["total_time"];
  EXPECT_EQ(flops, 2.0 * 300 * 128 * (200 + 700));
  EXPECT_GT(milliseconds * 1e3, report["tensor_bound_ms"].get<double>());
  EXPECT_GT(milliseconds * 1e3, report["dma_bound_ms"].get<double>());
}

TEST_F(TrainiumCommand, EveryDeviceAndLayoutIsSimulated) {
  const std::string plain = "matmul_optimized --shape 130,140,150 ";
  for (const char* device : {"trn1", "trn2", "trn3"}) {
    expect(neuronmm(simulate(plain + "--dtype fp32 --left natural --device " + device)), 0,
           {device, "fp32 operands", "X [M, K]"});
  }
  expect(neuronmm(simulate(plain)), 0, {"X^T [K, M]", "bf16 operands, fp32 sums"});
}

TEST_F(TrainiumCommand, ValuesStayWithinTheirBound) {
  for (const char* kernel : {"xuv", "xtuv_transposed", "xuv_sequential", "mlp_up", "mlp"}) {
    for (const char* numerics : {"", "--accumulate bf16", "--dtype fp32"}) {
      SCOPED_TRACE(std::string(kernel) + " " + numerics);
      expect(neuronmm(simulate(std::string(kernel) + " --shape 130,200,96,600 --values " +
                               numerics + " --json " + path("v.json"))),
             0, {"130 of 130 rows against fp64"});
      const Json values = json("v.json")["values"];
      const double error = values["rms_error"], rms = values["rms"];
      EXPECT_LE(values["worst_share_of_bound"].get<double>(), 1.0);
      EXPECT_GT(error, 0);
      EXPECT_LE(error, (std::string(numerics) == "--dtype fp32" ? 2e-6 : 0.012) * rms);
    }
  }
  expect(neuronmm(simulate("matmul_tiled --shape 40,50,60 --left natural --values")), 0,
         {"worst-case bound"});
}

// A mixture's decode step loads the weights of each distinct chosen expert once: 2·3·5·96·64 bytes,
// and 4·5·(6 + 1) for the numbers and shares.
TEST_F(TrainiumCommand, AMixtureLoadsItsChosenExperts) {
  expect(neuronmm("kernels moe_mlp"), 0,
         {"M,K,r,N,E,A,D", "[E·K, r]", "[1, D]", "distinct experts"});
  const std::string out = path("moe.json");
  expect(neuronmm(simulate("dense_moe_mlp --shape 6,96,64,8,2,5 --values --json " + out)), 0,
         {"E 8, A 2, D 5", "DMA bound", "6 of 6 rows against fp64", "experts that nobody chooses"});
  const Json report = json("moe.json");
  EXPECT_EQ(report["summary"]["hbm_read_bytes"], 2 * 6 * 96 + 2 * 3 * 5 * 96 * 64 + 4 * 5 * 7);
  EXPECT_EQ(report["summary"]["hbm_write_bytes"], 2 * 6 * 96);
  EXPECT_EQ(report["summary"]["model_flops"], 6.0 * 6 * 2 * 96 * 64);
  EXPECT_LE(report["values"]["worst_share_of_bound"].get<double>(), 1.0);
  expect(
      neuronmm(simulate("moe_mlp --shape 32,96,40,64,8,2,8 --values --dtype fp32 --device trn1")),
      0, {"32 of 32 rows", "worst-case bound"});
  expect(neuronmm(simulate("dense_moe_mlp --shape 8,2048,768,128,8,56 --device trn2")), 0,
         {"D 56", "528549856"});
}

TEST_F(TrainiumCommand, ImpossibleMixturesAreRefused) {
  const auto refused = [](const std::string& shape, std::initializer_list<const char*> parts) {
    expect(neuronmm(simulate("dense_moe_mlp --shape " + shape)), 1, parts);
  };
  refused("8,64,64,4,2", {"M,K,N,E,A,D", "5 sizes"});
  refused("33,64,64,4,2,4", {"M, the tokens of one decode step", "between 1 and 32, found 33"});
  refused("8,64,64,4,5,4", {"expected A", "between 1 and E 4, found 5"});
  refused("8,64,64,4,2,1",
          {"expected D", "between A 2 and the smaller of E 4 and M·A 16, found 1"});
  refused("1,64,64,4,2,3", {"M·A 2, found 3"});
  refused("1,64,64,9999,2,2", {"expected E", "4096", "9999"});
  expect(neuronmm("emit dense_moe_mlp --shape 1,64,64,4,2,2 --device trn1 -o " + path("k.py")), 1,
         {"load w_gate_block", "neuronxcc", "--sdk 2.29"});
}

TEST_F(TrainiumCommand, TraceAndProgramAreWritten) {
  expect(neuronmm(small("--program --trace " + path("trace.json"))), 0,
         {"program xuv", "nc_matmul(", "simulated"});
  const Json trace = json("trace.json");
  ASSERT_TRUE(trace.is_object());
  EXPECT_GT(trace["traceEvents"].size(), 10u);
  EXPECT_NE(trace.dump().find("strip"), std::string::npos);
}

TEST_F(TrainiumCommand, AKernelThatDoesNotFitIsReportedWithRemedies) {
  const std::string headline = "xuv --shape 4096,8192,4096,16384 --device trn1 ";
  expect(neuronmm(simulate(headline + "--tiling BM=8")), 0,
         {"SBUF is short of 2.22 MiB", "strip_sums", "spilled", "BM=4", "--accumulate bf16"});
  expect(neuronmm(simulate(headline)), 0, {"BM=4,BK=4,Bu=8,Br=8,BN=2", "fitted"});
}

TEST_F(TrainiumCommand, ImpossibleShapesAreRefused) {
  expect(neuronmm(simulate("xuv --shape 1,2,3")), 1, {"--shape 1,2,3", "M,K,r,N", "3 sizes"});
  expect(neuronmm(simulate("matmul_tiled --shape 1,2,3,4")), 1, {"M,K,N", "4 sizes"});
  expect(neuronmm(simulate("xuv --shape 0,2,3,4")), 1, {"expected M", "found 0"});
  expect(neuronmm(simulate("xuv --shape=-1,2,3,4")), 1, {"expected M", "found -1"});
  expect(neuronmm(simulate("xuv --shape 1,2,x,4")), 1, {"--shape", "'x'"});
  expect(neuronmm(simulate("xuv --shape 1,2,,4")), 1, {"--shape", "''"});
  expect(neuronmm(simulate("xuv --shape '1, 2,3,4'")), 1, {"--shape", "' 2'"});
  expect(neuronmm(simulate("xuv --shape 1,2,3.5,4")), 1, {"--shape", "'3.5'"});
  expect(neuronmm(simulate("xuv --shape 99999999999999999999,2,3,4")), 1, {"--shape", "too large"});
  expect(neuronmm(simulate("xuv --shape 4194304,4,4,4")), 1, {"expected M", "4194304"});
  const std::string most = "1048576,1048576,1048576";
  expect(neuronmm(simulate("xuv_naive --shape " + most + ",1048576")), 1,
         {"M, K, r and N", "2^70"});
  expect(neuronmm(simulate("xuv_naive --shape 131072,131072,131072,131072")), 1,
         {"--shape", "nc_matmul"});
  expect(neuronmm(simulate("matmul_tiled --shape " + most)), 1, {"--shape", "nc_matmul"});
  expect(neuronmm(simulate("xuv --shape 32768,8192,4096,16384 --values")), 1,
         {"--values", "GFLOP", "at most"});
  expect(neuronmm(simulate("xuv --shape 1,1048576,1,1048576 --values")), 0, {});
  expect(neuronmm(simulate("matmul_tiled --shape 1,65536,65536 --values")), 1,
         {"--values", "elements", "at most"});
}

TEST_F(TrainiumCommand, ImpossibleSettingsAreRefused) {
  expect(neuronmm(simulate("xvu --shape 1,2,3,4")), 1, {"xvu", "xuv_naive"});
  expect(neuronmm(small("--tiling BX=3")), 1, {"BX", "BM, BK, Bu, Br, BN"});
  expect(neuronmm(small("--tiling BM=0")), 1, {"BM", "found 0"});
  expect(neuronmm(small("--tiling BM=-2")), 1, {"BM", "found -2"});
  expect(neuronmm(small("--tiling BM=9999999")), 1, {"BM", "9999999"});
  expect(neuronmm(small("--tiling BM")), 1, {"--tiling", "NAME=VALUE"});
  expect(neuronmm(small("--tiling =4")), 1, {"--tiling", "NAME=VALUE"});
  expect(neuronmm(small("--tiling BM=")), 1, {"--tiling BM", "''"});
  expect(neuronmm(small("--tiling BM=1,BM=2")), 1, {"BM", "twice"});
  expect(neuronmm(small("--left natural")), 1, {"left operand"});
  expect(neuronmm(small("--dtype fp32 --accumulate bf16")), 1, {"fp32"});
  expect(neuronmm(small("--dtype fp8")), 2, {"--dtype"});
  expect(neuronmm(small("--device trn9")), 2, {"--device", "trn1"});
  expect(neuronmm(simulate("xuv")), 2, {"--shape"});
  expect(neuronmm("paper nothing"), 2, {"validation"});
}

TEST_F(TrainiumCommand, UnwritableOutputsAreRefused) {
  expect(neuronmm(small("--trace /proc/nowhere/t.json")), 1, {"/proc/nowhere/t.json"});
  expect(neuronmm(small("--json /proc/nowhere/s.json")), 1, {"/proc/nowhere/s.json"});
  expect(neuronmm("paper blocks --svg /proc/nowhere/b.svg"), 1, {"/proc/nowhere/b.svg"});
}

// The tables contain the published values, and each figure is written as a whole SVG.
TEST_F(TrainiumCommand, PaperFiguresShowThePublishedValues) {
  const auto paper = [this](const std::string& figure) {
    const Outcome outcome =
        neuronmm("paper " + figure + " --svg " + path("f.svg") + " --json " + path("f.json"));
    const std::string svg = read(path("f.svg"));
    EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    return outcome;
  };
  expect(paper("kernels"), 0, {"simulated (no Trainium was used)", "186.60", "84.15", "117.00"});
  const Json latencies = json("f.json")["rows"];
  // Four kernels at six numbers of rows; then two gains, each with two means; then twelve weights.
  ASSERT_EQ(latencies.size(), 4u * 6 + 2 * (6 + 2) + 12);
  // At the same rank pivots save a sixth of the FLOPs and nearly as much time.
  EXPECT_EQ(latencies[23]["kernel"], "xuv_pivoted");
  EXPECT_LE(latencies[23]["simulated"], 72.0);
  EXPECT_GE(latencies[23]["simulated"], latencies[22]["simulated"].get<double>() * 5 / 6);
  expect(paper("traffic"), 0, {"35.75", "7.47", "GiB"});
  expect(paper("blocks"), 0, {"1280", "931", "1024 is best"});
  const Json blocks = json("f.json")["rows"];
  ASSERT_EQ(blocks.size(), 6u);
  EXPECT_EQ(blocks[3]["simulated"]["spill_mb"], 0);
  EXPECT_GT(blocks[4]["simulated"]["spill_mb"], 0);
  expect(paper("validation"), 0,
         {"calibration", "validation", "mean absolute error", "worst", "unexplained", "not blind"});
  const Json rows = json("f.json")["rows"];
  EXPECT_GT(rows.size(), 10u);
  for (const Json& row : rows) {
    const bool far = std::abs(row["difference"].get<double>()) > 0.25;
    EXPECT_EQ(row["unexplained"].get<bool>(), far) << row;
  }
}

// Returns the text of a greedy generation, without the line of timings. Activations are fp32, so
// that the CPU rounds less than the device.
std::string greedy_text(const std::string& model, const std::string& device) {
  return neuronmm("generate " + model + " --prompt 'Once upon a time' --max-new-tokens 64 " +
                      "--ignore-eos --activations fp32 --device " + device,
                  "", "/dev/null")
      .output;
}

TEST_F(TrainiumCommand, GenerateOnADeviceGivesTheTextOfTheCpu) {
  const std::string small = path("small");
  expect(
      neuronmm("compress " + kOneLayer + " -o " + small + " --ratio 0.2 --block 32 --method svd"),
      0, {});
  for (const std::string& model : {kOneLayer, small}) {
    const std::string text = greedy_text(model, "trn1");
    EXPECT_GT(text.size(), 100u);
    EXPECT_EQ(text, greedy_text(model, "cpu"));  // backend_test.cc has the bound of the error
  }
  expect(neuronmm("generate " + kOneLayer + " --prompt Hello --max-new-tokens 2 --device trn2"), 0,
         {"predicted for trn2 (simulated)", "decode"});
}

TEST_F(TrainiumCommand, PerplexityOnADeviceIsNearThatOfTheCpu) {
  const std::string text = write("text", read(kOneLayer + "/evaluation.txt").substr(0, 4000));
  const std::string flags = kOneLayer + " " + text + " --context 128 --json ";
  expect(neuronmm("perplexity " + flags + path("trn1.json") + " --device trn1"), 0, {"simulated"});
  expect(neuronmm("perplexity " + flags + path("cpu.json")), 0, {});
  const double found = json("trn1.json")["perplexity"], wanted = json("cpu.json")["perplexity"];
  EXPECT_NEAR(found / wanted, 1, 0x1p-8);  // one rounding to bf16; errors average out
  EXPECT_NE(json("trn1.json")["device"].dump().find("simulated"), std::string::npos);
}

// The report only depends on shapes, so large models are no slower to simulate.
TEST_F(TrainiumCommand, BenchPredictsTheLatenciesOfADevice) {
  const std::string flags = " --prompt-tokens 16 --new-tokens 8 --runs 2 --device trn1 --json ";
  expect(neuronmm("bench " + kOneLayer + flags + path("bench.json")), 0,
         {"simulated", "e2e_model", "token_generation_model", "TPOT"});
  const Json report = json("bench.json");
  EXPECT_NE(report["settings"]["device"].dump().find("simulated"), std::string::npos);
  const Json decode = report["token_generation_model"];
  EXPECT_GT(decode["latency_ms_p50"], 0.0);
  EXPECT_LT(decode["latency_ms_p99"], 1.0);
  expect(neuronmm("bench " + kOneLayer + " --device trn9"), 2, {"trn9", "trn1"});
  expect(neuronmm("compress " + kOneLayer + " --ratio 0.2 -o " + path("x") + " --device trn1"), 2,
         {"--device", "cpu"});
}

// The test uses the smallest model, because the search for each of its tilings takes seconds.
TEST_F(TrainiumCommand, PaperFiguresOfModelsShowTheSpeedUps) {
  const std::string files =
      " --model Qwen3-1.7B --svg " + path("f.svg") + " --json " + path("f.json");
  expect(neuronmm("paper end-to-end" + files), 0,
         {"simulated (no Trainium was used)", "Qwen3-1.7B", "1.74x", "39.1 ms", "10.4 ms"});
  const Json rows = json("f.json")["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {  // the speed-up is about the share of bytes that compression saves
    const double speedup = row["simulated"]["speedup"], bytes = row["weight_bytes_ratio"];
    EXPECT_GT(speedup, 1.0) << row;
    EXPECT_NEAR(speedup, bytes, 0.05) << row;
  }
  expect(neuronmm("paper quality" + files), 0, {"no Trainium was used", "3.24 to 25.27 %", "PTB"});
  const Json quality = json("f.json")["rows"];
  EXPECT_TRUE(quality[0]["published_accuracy_lost"].is_null());  // Ratio 0.1 is not published.
  EXPECT_NEAR(quality[1]["gamma_with_published_speedup"], 0.0405, 0.00005);  // 0.03 / 0.74
  EXPECT_EQ(quality[1]["simulated_speedup"], rows[1]["simulated"]["speedup"]);
  const double gamma = quality[1]["gamma_with_simulated_speedup"];
  EXPECT_NEAR(gamma * (double{quality[1]["simulated_speedup"]} - 1), 0.03, 1e-9);
  expect(neuronmm("paper quality --rows 4"), 1, {"--rows", "32 tokens"});
  expect(neuronmm("paper end-to-end --cores 2 --model Qwen3-1.7B --json " + path("p.json")), 0,
         {"simulated (no Trainium was used)", "layout 2", "Collectives", "assumed"});
  const Json parallel = json("p.json")["rows"];
  ASSERT_EQ(parallel.size(), 2u);
  for (const Json& row : parallel) {
    const Json& times = row["simulated"];
    const double dense = times["dense"]["request_ms"], one = times["one_core_dense_ms"];
    EXPECT_GT(dense, one / 2);  // half of the work and the exchange of sums
    EXPECT_LT(dense, one);
    // Layout 2 exchanges the strip, which is smaller than the output.
    EXPECT_LE(times["layout_2"]["all_reduce_ms"], times["layout_1"]["all_reduce_ms"]);
    EXPECT_GT(times["layout_2"]["all_reduce_ms"], 0.0);
  }
  // Three devices are not the default. The one whose tilings are known stands for all three.
  expect(neuronmm("paper end-to-end --cores 2 --model Qwen3-1.7B --device trn1 --device trn1 "
                  "--device trn1 --json " +
                  path("p.json")),
         0, {"layout 2"});
  EXPECT_EQ(json("p.json")["rows"].size(), 6u);
  expect(neuronmm("paper end-to-end --cores 3 --model Qwen3-1.7B"), 1,
         {"--cores 3", "Qwen3-1.7B", "16 attention heads"});
  expect(neuronmm("paper end-to-end --cores 1"), 2, {"--cores"});
  expect(neuronmm("paper forms --cores 2"), 2, {"--cores", "end-to-end"});
  expect(neuronmm("paper kernels --device trn2"), 2, {"--device", "forms"});
  expect(neuronmm("paper quality --keep 0.5"), 2, {"--keep", "forms"});
  expect(neuronmm("paper end-to-end --model Qwen3-8B"), 1, {"Qwen3-8B", "published"});
  expect(neuronmm("paper end-to-end --rows 4"), 1, {"--rows", "32 tokens"});
  expect(neuronmm("paper forms --rows 4"), 1, {"--rows", "512 tokens"});
  expect(neuronmm("paper forms --keep 0.01"), 1, {"--keep 0.01", "uv", "2048 x 8192"});
  expect(neuronmm("paper forms --device trn9"), 2, {"--device", "trn1"});
  expect(neuronmm("paper forms --svg " + path("none.svg")), 1, {"--svg", "no chart"});
  expect(neuronmm("paper end-to-end --cores 2 --svg " + path("none.svg")), 1, {"--svg"});
  expect(neuronmm("paper tuning --model Qwen3-1.7B --svg " + path("none.svg")), 1, {"--svg"});
  EXPECT_FALSE(fs::exists(path("none.svg")));
  expect(neuronmm("paper kernels --model Qwen3-8B"), 1, {"--model", "kernels"});
  expect(neuronmm("paper tuning --model GPT-5"), 2, {"--model", "Llama-3.2-1B"});
}

// Returns the rows of a figure by kernel and shape.
std::map<std::pair<std::string, std::string>, Json> by_kernel_and_shape(const Json& rows) {
  std::map<std::pair<std::string, std::string>, Json> found;
  for (const Json& row : rows) found[{row["kernel"], row["shape"]}] = row;
  return found;
}

// What the paper states fits its own charts only as a ratio of sums over all numbers of rows. The
// charts are read within 0.4 ms.
TEST_F(TrainiumCommand, PaperFiguresOfKernelsHaveTheGainsByRows) {
  expect(neuronmm("paper kernels --json " + path("k.json")), 0,
         {"ratio of sums", "2.09x", "1.35x", "Nothing is published of this"});
  auto rows = by_kernel_and_shape(json("k.json")["rows"]);
  for (const std::string baseline : {"NKI XW", "NKI XUV"}) {
    const Json sums = rows.at({"gain over " + baseline, "ratio of sums"});
    const double charts = sums["published"], stated = sums["stated"];
    EXPECT_NEAR(charts / stated, 1, 0.01) << baseline;
  }
  const std::string largest = "32768,8192,4096,16384";
  EXPECT_NEAR(rows.at({"gain over NKI XW", largest})["published"], 186.6 / 84.15, 1e-12);
  const double fused = rows.at({"NeuronMM (fused XUV)", largest})["simulated"];
  const double xuv = rows.at({"sequential NKI XUV", largest})["simulated"];
  EXPECT_NEAR(rows.at({"gain over NKI XUV", largest})["simulated"], xuv / fused, 1e-12);
  const Json up = rows.at({"gain at Llama-3.2-1B up", "4096,2048,1280,8192"});
  EXPECT_NEAR(up["ratio_of_flops"], 1.28, 1e-12);

  expect(neuronmm("paper traffic --json " + path("t.json")), 0, {"4.78x", "2.60x", "at least"});
  rows = by_kernel_and_shape(json("t.json")["rows"]);
  EXPECT_NEAR(rows.at({"gain over NKI XW", largest})["published"], 4.78, 0.01);
  const Json small = rows.at({"gain over NKI XUV", "1024,8192,4096,16384"});
  EXPECT_TRUE(small["published"].is_null());  // The bar is hidden behind another.
  EXPECT_GT(small["simulated"], 1.0);
}

}  // namespace
