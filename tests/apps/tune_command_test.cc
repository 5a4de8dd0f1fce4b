// The tests in this file run `neuronmm tune` as a user does: its table, its cache, an interrupt and
// bad input. They also check the figures of `paper` that need tuned tilings.

#include <filesystem>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/checksum.h"
#include "run_program.h"

namespace {

using Json = nlohmann::json;
using neuronmm::apps::expect;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

// Returns a changed cache with the checksum that belongs to it.
std::string with_checksum(Json cache) {
  cache["checksum"] = neuronmm::io::checksum(cache["entries"].dump());
  return cache.dump();
}

class TuneCommand : public neuronmm::apps::ProgramTest {
 protected:
  Json json(const std::string& name) const { return Json::parse(read(path(name)), nullptr, false); }
  std::string tune(const std::string& rest) const {
    return "tune xuv --cache " + path("cache.json") + " " + rest;
  }
  std::string small(const std::string& rest) const {
    return tune("--shape 200,256,128,700 " + rest);
  }
};

TEST_F(TuneCommand, ShowsTheBestAndWhyTheOthersLost) {
  const Outcome first = neuronmm(small("--device trn1 --top 3 --json " + path("t.json")));
  expect(first, 0,
         {"simulated (no Trainium was used)", "xuv 200,256,128,700 trn1 bf16 fp32", "fit into SBUF",
          "Tensor bound", "compulsory", "why the others lost", "waiting", "closest: BM="});
  EXPECT_EQ(first.output.find("1/0"), std::string::npos);
  const Json report = json("t.json");
  ASSERT_EQ(report["best"].size(), 3u);
  for (const Json& best : report["best"]) {
    EXPECT_GE(best["latency_ms"], report["fastest_ms"]);
    EXPECT_GE(best["latency_ms"], best["tensor_bound_ms"]);
    EXPECT_GE(best["latency_ms"], best["dma_bound_ms"]);
    EXPECT_GE(best["compulsory_ratio"], 1.0);
    EXPECT_EQ(best["tiling"].size(), 9u);
  }
  int64_t lost = 0;
  for (const Json& losers : report["losers"]) lost += losers["count"].get<int64_t>();
  EXPECT_EQ(lost + 1, report["tilings"]);
  // The second run and `simulate --tiling auto` take the tiling from the cache.
  expect(neuronmm(small("--device trn1 --top 1 --json " + path("again.json"))), 0,
         {"(from the cache)"});
  EXPECT_EQ(json("again.json")["best"][0], report["best"][0]);
  expect(neuronmm("simulate xuv --shape 200,256,128,700 --device trn1 --tiling auto --json " +
                  path("s.json") + " --cache " + path("cache.json")),
         0, {});
  EXPECT_EQ(json("s.json")["settings"]["tiling"], report["best"][0]["tiling"]);
}

TEST_F(TuneCommand, TunesWithFixedParametersOnOtherDevices) {
  expect(neuronmm(small("--tiling BM=1,BK=2 --top 2 --device trn2 --accumulate bf16")), 0,
         {"trn2 bf16 bf16 BM=1,BK=2", "BM=1,BK=2,Bu="});
}

TEST_F(TuneCommand, IfNothingFitsTheOperandIsNamed) {
  expect(neuronmm(tune("--device trn1 --shape 128,1024,131072,512")), 1,
         {"no tiling fits", "21.78 MiB", "trn1", "needs", "strip"});
}

TEST_F(TuneCommand, ImpossibleRequestsAreRefused) {
  expect(neuronmm(small("--tiling BX=3")), 1, {"BX", "BM, BK, Bu, Br, BN"});
  expect(neuronmm(small("--top 0")), 2, {"--top"});
  expect(neuronmm(small("--top many")), 2, {"--top"});
  expect(neuronmm(small("--json /proc/nowhere/t.json")), 1, {"/proc/nowhere/t.json"});
  expect(neuronmm(tune("--shape 1,2,3")), 1, {"--shape 1,2,3", "M,K,r,N"});
  expect(neuronmm(tune("--shape 0,2,3,4")), 1, {"expected M", "found 0"});
  expect(neuronmm(tune("--shape 1048576,1048576,1048576,1048576")), 1, {"M, K, r and N", "2^70"});
  expect(neuronmm(tune("--shape 131072,131072,131072,131072")), 1, {"--shape", "nc_matmul"});
  expect(neuronmm("tune xvu --shape 1,2,3,4"), 1, {"xvu", "xuv_naive"});
  expect(neuronmm("tune xuv --shape 1,2,3,4 --cache /proc/nowhere/c.json"), 1, {"/proc/nowhere"});
}

TEST_F(TuneCommand, StaleCachesAreReplacedAndMalformedOnesRefused) {
  expect(neuronmm(small("")), 0, {});
  Json cache = json("cache.json");
  for (Json& entry : cache["entries"]) entry["fingerprint"] = "of yesterday";
  write("cache.json", with_checksum(cache));
  const Outcome again = neuronmm(small(""));
  expect(again, 0, {"xuv 200,256,128,700", "tuning again"});
  EXPECT_EQ(again.output.find("(from the cache)"), std::string::npos);
  expect(neuronmm(small("")), 0, {"(from the cache)"});
  write("cache.json", "{\"neuronmm_tilings\": 2, \"entries\": {\"xuv\": 3}}");
  expect(neuronmm(small("")), 1, {"cache.json", "entries", "xuv", "an object"});
  write("cache.json", "no JSON");
  expect(neuronmm(small("")), 1, {"cache.json"});
  EXPECT_EQ(read(path("cache.json")),
            "no JSON");  // tune does not overwrite a file that is not its own
}

// The cache is written before the search begins. From then on an interrupt keeps the measurements.
// The test replaces one measurement by a time that is too good, and the second run must report that
// time.
TEST_F(TuneCommand, AnInterruptKeepsWhatWasMeasured) {
  const std::string command =
      tune("--shape 32768,8192,4096,16384 --accumulate bf16 --top 1 --tiling BK=4 --json " +
           path("t.json"));
  // The time of the first measurement depends on the build. The whole search takes four times as
  // long, so one of the times below lies between.
  Outcome stopped;
  for (double seconds = 0.2; seconds < 60; seconds *= 1.5) {
    stopped = neuronmm(command, fmt::format("timeout --preserve-status -s INT {:.2f}", seconds));
    ASSERT_NE(stopped.exit_code, 0) << "tuned in less than " << seconds << " s";
    if (read(path("cache.json")).find("\"ns\"") != std::string::npos) break;
  }
  expect(stopped, 130, {"interrupted", "kept in", "cache.json; run the same command again"});
  EXPECT_FALSE(std::filesystem::exists(path("t.json")));
  Json kept = json("cache.json");
  Json& entry = kept["entries"].begin().value();
  ASSERT_FALSE(entry.contains("outcome"));
  ASSERT_GE(entry["trials"].size(), 1u);
  const std::string tiling = entry["trials"].begin().key();
  entry["trials"][tiling] = {{"ns", 1.0}};
  write("cache.json", with_checksum(kept));
  expect(neuronmm(command), 0, {tiling.c_str()});
  EXPECT_NEAR(json("t.json")["best"][0]["latency_ms"].get<double>(), 1e-6, 1e-12);
}

// On the smallest model, tuned tilings are never slower than the paper's, and fused kernels are
// faster than several kernels.
TEST_F(TuneCommand, PaperFiguresShowTheGainsOfTuningAndFusion) {
  const std::string files = " --model Qwen3-1.7B --rows 128 --json " + path("f.json");
  expect(neuronmm("paper tuning" + files), 0, {"Qwen3-1.7B down", "bf16 sums", "fp32 sums"});
  Json rows = json("f.json")["rows"];
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) {
    EXPECT_LE(row["tuned"]["latency_ms"], row["paper"]["latency_ms"]) << row;
    EXPECT_GE(row["tuned"]["hbm_bytes"], row["compulsory_bytes"]) << row;
  }
  expect(neuronmm("paper fused-mlp" + files), 0, {"Qwen3-1.7B", "dense", "on chip", "least gain"});
  rows = json("f.json")["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_GT(row["gain"], 1.0) << row;
    EXPECT_LT(row["fused"]["hbm_bytes"], row["three_kernels"]["hbm_bytes"]) << row;
  }
  expect(neuronmm("paper forms --device trn2 --keep 0.7 --json " + path("f.json")), 0,
         {"Llama-3.2-1B", "trn2", "pivoted_mlp", "narrow", "neurons", "gather"});
  rows = json("f.json")["rows"];
  ASSERT_EQ(rows.size(), 10u);
  for (const Json& row : rows) {
    if (row["form"] == "dense") continue;
    EXPECT_LE(row["kept"], 0.7) << row;
    EXPECT_GT(row["kept"], 0.6) << row;
    const Json& dense = rows[row["batch"] == 1 ? 0 : 1];
    EXPECT_LT(row["prefill_ms"], dense["prefill_ms"]) << row;
    EXPECT_LT(row["decode_ms"], dense["decode_ms"]) << row;
  }
  expect(neuronmm("paper tuning --rows 0"), 2, {"--rows"});
}

}  // namespace
