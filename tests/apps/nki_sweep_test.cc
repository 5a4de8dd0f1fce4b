// The tests in this file run `neuronmm nki --sweep`, `--baseline` and `--expect-us` as a user does.
// Those that run a kernel need NumPy.

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using neuronmm::apps::expect;
using neuronmm::apps::neuronmm;
using neuronmm::apps::Outcome;
using neuronmm::apps::read;

// Copies a tensor in steps of TILE columns. Some values make it wrong, raise, or never end.
constexpr const char* kCopies =
    "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
    "TILE = 512\n"
    "WIDTH = TILE * 1\n"
    "@nki.jit\ndef copies(x, rows=128):\n"
    "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
    "    n = 0\n"
    "    while n < x.shape[1]:\n"
    "        if TILE == 7: raise ValueError('seven')\n"
    "        if TILE < 1: continue\n"
    "        t = nl.ndarray((rows, WIDTH), dtype=x.dtype, buffer=nl.sbuf)\n"
    "        nisa.dma_copy(dst=t, src=x[:, nl.ds(n, WIDTH)])\n"
    "        if TILE == 256: nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)\n"
    "        nisa.dma_copy(dst=y[:, nl.ds(n, WIDTH)], src=t)\n"
    "        n += WIDTH\n"
    "    return y\n";

class NkiSweep : public neuronmm::apps::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const std::string numpy =
        "python3 -c 'import numpy' 2>&1 || /usr/bin/python3 -c 'import numpy'";
    if (neuronmm::apps::run_shell(numpy + " 2>&1").exit_code != 0) {
      GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
    }
    write("copies.py", kCopies);
  }
  std::string copies() const {
    return "nki '" + path("copies.py") + ":copies' --arg 'x=fp32[128,1024]' ";
  }
  Outcome sweep(const std::string& values, const std::string& more = "") const {
    return neuronmm(copies() + "--sweep '" + values + "' " + more);
  }
  Json json(const std::string& name) const { return Json::parse(read(path(name)), nullptr, false); }
  double latency(const std::string& more) const {
    expect(neuronmm(copies() + "--json " + path("one.json") + " " + more), 0, {});
    return json("one.json")["latency_ms"];
  }
};

std::string matmul_trace() {
  return (neuronmm::source_dir() / "fuzz/corpus/kernel_trace/matmul").string();
}
std::string of_trace() { return "nki --from-trace " + matmul_trace() + " "; }

// The rows of a sweep are the runs of a file with the value in it.
TEST_F(NkiSweep, AConstantTakesEachValueAndWhatIsDerivedFollows) {
  const std::string out = path("sweep.json");
  expect(sweep("TILE=512,128,1024", "--json " + out), 0,
         {"once for each value of TILE", "HBM traffic", "fastest: TILE = ", "this band"});
  const Json rows = json("sweep.json")["rows"];
  ASSERT_EQ(rows.size(), 3u);
  for (const Json& row : rows) {
    const std::string value = row["value"];
    std::string text = kCopies;
    text.replace(text.find("512"), 3, value);
    write("copies.py", text);
    EXPECT_EQ(row["latency_ms"].get<double>(), latency("")) << value;
    EXPECT_EQ(row["sbuf_bytes_per_partition"], 4 * std::stoi(value)) << value;
    EXPECT_EQ(row["hbm_bytes"], 2 * 128 * 1024 * 4) << value;
  }
}

TEST_F(NkiSweep, AParameterTakesEachValue) {
  const std::string out = path("sweep.json");
  expect(sweep("rows=128,64", "--json " + out), 0, {"rows"});
  const Json report = json("sweep.json");
  EXPECT_EQ(report["rows"][0]["latency_ms"].get<double>(), latency("--kwarg rows=128"));
  EXPECT_EQ(report["sweep"], "rows");
}

TEST_F(NkiSweep, TheFastestAndItsEqualsAreNamed) {
  const std::string out = path("sweep.json");
  expect(sweep("TILE=512,64,512", "--json " + out), 0,
         {"1.00x", "cannot tell which is faster: 512"});
  const Json report = json("sweep.json");
  EXPECT_EQ(report["fastest"], "512");
  EXPECT_EQ(report["within_band_of_fastest"], Json({"512"}));
  const double fastest = report["rows"][0]["latency_ms"], band = report["rows"][0]["band_percent"];
  const double other = report["rows"][1]["latency_ms"];
  EXPECT_GT(other, fastest * (1 + band / 100));
  EXPECT_EQ(report["rows"][1]["ratio"].get<double>(), other / fastest);
}

// The kernel raises for 7 and never ends for 0.
TEST_F(NkiSweep, AValueForWhichTheKernelFailsGetsARow) {
  expect(sweep("TILE=7,512,0", "--max-seconds 1"), 0,
         {"copies.py:11: ValueError: seven", "fastest: TILE = 512",
          "limit: the kernel has run for 1 sec", "no other value"});
  expect(sweep("TILE=7,7"), 1, {"the kernel fails with every value"});
}

TEST_F(NkiSweep, AValueThatMakesPythonLoopWhileTheFileLoadsEnds) {
  write("loads.py", "STEP = 1\nn = 0\nwhile n < 8:\n    n += STEP\ndef kernel(x):\n    return x\n");
  expect(neuronmm("nki " + path("loads.py") +
                  ":kernel --arg 'x=fp32[4,4]' --sweep STEP=0 --max-seconds 0.5"),
         1, {"loads.py:", "--max-seconds"});
}

TEST_F(NkiSweep, AWrongResultIsNeverTheFastest) {
  const std::string out = path("sweep.json");
  expect(sweep("TILE=128,256", "--ref x --json " + out), 1,
         {"right", "WRONG", "fastest: TILE = 128"});
  const Json report = json("sweep.json");
  EXPECT_EQ(report["rows"][0]["passed"], true);
  EXPECT_EQ(report["rows"][1]["passed"], false);
  EXPECT_EQ(report["within_band_of_fastest"].size(), 0u);
  expect(sweep("TILE=256", "--ref x"), 1, {"no value gives a right result"});
}

TEST_F(NkiSweep, WrongUsageIsRefused) {
  for (const char* text : {"TILE", "TILE=", "=1", "TILE=1,,2", "2x=1", "TI LE=1"}) {
    expect(sweep(text), 2, {"--sweep: expected NAME=V1,V2,..."});
  }
  std::string many = "TILE=1";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect(sweep(many), 2, {"expected at most 64 values, found 65"});
  for (const char* other :
       {"--html x", "--trace x", "--save-trace x", "--save-outputs x.npy", "--compare x.py:k",
        "--measured x", "--what-if buffers=2", "--baseline x", "--expect-us 3"}) {
    const std::string option(other);
    expect(sweep("TILE=1", option), 2,
           {"--sweep: expected no ", option.substr(0, option.find(' ')).c_str()});
  }
  expect(neuronmm(of_trace() + "--sweep TILE=1"), 2, {"--sweep: expected no --from-trace"});
  fs::create_directories(path("tests"));
  expect(neuronmm("nki " + path("tests") + " --sweep TILE=1"), 2, {"no folder of tests"});
  expect(sweep("TIEL=1,2"), 2,
         {"--sweep TIEL: expected a parameter of the kernel (x, rows) or a constant",
          "copies.py (TILE, WIDTH)"});
  expect(sweep("x=1,2"), 2, {"--sweep x: --arg or --kwarg gives this parameter, too"});
  expect(sweep("rows=1,two"), 2, {"--sweep rows: 'two' is no Python literal"});
  expect(neuronmm("nki " + path("none.py") + ":k --sweep TILE=1"), 1, {"none.py: No such file"});
}

TEST_F(NkiSweep, ACommaInsideOfBracketsOrQuotesSeparatesNothing) {
  write("shapes.py",
        "import nki.language as nl\n"
        "SHAPE = (1, 2)\n"
        "def kernel(x):\n"
        "    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(y, nl.load(x))\n"
        "    assert len(SHAPE) == 3\n"
        "    return y\n");
  const std::string out = path("sweep.json");
  expect(
      neuronmm("nki " + path("shapes.py") +
               ":kernel --arg 'x=fp32[4,4]' --sweep 'SHAPE=(1, 2, 3), \"a,bc\",[max(1,2), 3, 4]' "
               "--json " +
               out),
      0, {"AssertionError"});
  const Json rows = json("sweep.json")["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].contains("latency_ms"));
  EXPECT_EQ(rows[1]["value"], "\"a,bc\"");
  EXPECT_EQ(rows[2]["value"], "[max(1,2), 3, 4]");
}

class NkiGate : public neuronmm::apps::ProgramTest {
 protected:
  // Writes a report of the stored trace with another latency, and returns its path.
  std::string baseline(const Json& changes) const {
    const std::string file = path("old.json");
    expect(neuronmm(of_trace() + "--json " + file), 0, {});
    Json report = Json::parse(read(file));
    report.update(changes);
    std::ofstream(file) << report.dump();
    return file;
  }
};

// The limits follow from the latency and the band that the report states.
TEST_F(NkiGate, AKernelThatIsSlowerByMoreThanTheBandFails) {
  const Json report = Json::parse(read(baseline(Json::object())));
  const double latency = report["latency_ms"];
  const double limit = latency / (1 + report["band"]["percent"].get<double>() / 100);
  expect(neuronmm(of_trace() + "--baseline " + baseline(Json::object())), 0,
         {"expected latency", "1.000 times as long: not slower"});
  expect(neuronmm(of_trace() + "--baseline " + baseline({{"latency_ms", limit * 1.001}})), 0,
         {"slower, but within the band of"});
  const Outcome slow =
      neuronmm(of_trace() + "--baseline " + baseline({{"latency_ms", limit * 0.999}}));
  expect(slow, 1, {"SLOWER by more than the band"});
  const std::string last = slow.output.substr(slow.output.rfind('\n', slow.output.size() - 2) + 1);
  EXPECT_TRUE(last.starts_with("neuronmm nki: --baseline ")) << last;
  const auto with_us = [&](double us) {
    return neuronmm(of_trace() + fmt::format("--expect-us {:.9g}", us));
  };
  expect(with_us(limit * 1e3 * 1.001), 0, {"slower, but within the band of"});
  expect(with_us(limit * 1e3 * 0.999), 1, {"--expect-us", "expected at most", "is slower"});
  expect(with_us(latency * 2e3), 0, {"0.500 times as long: not slower"});
}

TEST_F(NkiGate, TheReportCarriesTheVerdicts) {
  const std::string out = path("out.json"), old = baseline({{"latency_ms", 1e-6}});
  expect(neuronmm(of_trace() + "--json " + out + " --expect-us 1000 --baseline " + old), 1,
         {"--expect-us 1000", "SLOWER"});
  const Json report = Json::parse(read(out));
  ASSERT_EQ(report["expected"].size(), 2u);
  const Json &before = report["expected"][0], &stated = report["expected"][1];
  EXPECT_EQ(before["from"], "--baseline " + old);
  EXPECT_EQ(before["passed"], false);
  EXPECT_EQ(before["band_percent"], report["band"]["percent"]);
  EXPECT_EQ(stated["passed"], true);
  EXPECT_EQ(stated["expected_ms"], 1.0);
  EXPECT_EQ(stated["ratio"], report["latency_ms"]);
  EXPECT_EQ(report["inputs"], Json({"bf16[256,128]", "bf16[256,512]"}));
}

TEST_F(NkiGate, ABaselineOfSomethingElseIsRefused) {
  const std::string run = of_trace() + "--baseline ";
  expect(neuronmm(run + baseline({{"kernel", "other.py:add"}})), 1,
         {"old.json: expected a report of the kernel matmul, found other.py:add"});
  expect(neuronmm(run + baseline({{"kernel", "elsewhere/matmul"}})), 0, {"not slower"});
  expect(neuronmm(run + baseline({{"device", "trn1"}})), 1,
         {"old.json: expected a report of the device trn2, found trn1"});
  expect(neuronmm(run + baseline({{"inputs", {"fp32[1]"}}})), 1,
         {"old.json: expected a report of the inputs", "found fp32[1]", "--json"});
  // Reports of older versions do not say the inputs.
  expect(neuronmm(run + baseline({{"inputs", nullptr}})), 0, {"not slower"});
}

TEST_F(NkiGate, ADamagedBaselineIsRefused) {
  const std::string run = of_trace() + "--baseline ";
  expect(neuronmm(run + path("none.json")), 1, {"--baseline", "none.json: ", "No such file"});
  write("text.json", "{\"kernel\": ");
  expect(neuronmm(run + path("text.json")), 1, {"text.json: malformed JSON"});
  write("list.json", "[1]");
  expect(neuronmm(run + path("list.json")), 1, {"list.json: expected a JSON object"});
  write("empty.json", "{}");
  expect(neuronmm(run + path("empty.json")), 1, {"empty.json: expected a report of one kernel"});
  expect(neuronmm(run + path("")), 1, {"found a folder"});
  for (const Json& latency : {Json(0), Json(-1), Json("1"), Json(1e300)}) {
    expect(neuronmm(run + baseline({{"latency_ms", latency}})), 1,
           {"old.json: \"latency_ms\": expected"});
  }
  expect(neuronmm(run + baseline({{"kernel", 3}})), 1, {"\"kernel\": expected a string, found 3"});
  expect(neuronmm(run + baseline({{"inputs", "x"}})), 1, {"\"inputs\": expected an array"});
  expect(neuronmm(run + baseline({{"format_version", 2}})), 1,
         {"old.json: \"format_version\": expected 1; write a new report with --json, found 2"});
}

TEST_F(NkiGate, WrongUsageIsRefused) {
  for (const char* value : {"0", "-3", "nan", "inf", "soon"}) {
    expect(neuronmm(of_trace() + "--expect-us=" + value), 2, {"--expect-us", "expected a number"});
  }
  const std::string old = baseline(Json::object());
  expect(neuronmm(of_trace() + "--baseline " + old + " --json " + old), 2,
         {"--baseline: expected another file than that of --json"});
  fs::create_directories(path("tests"));
  expect(neuronmm("nki " + path("tests") + " --expect-us 3"), 2, {"--expect-us: expected FILE.py"});
}

}  // namespace
