// The tests in this file run `neuronmm nki` as a user does: reports of saved traces, what-ifs,
// comparisons and bad input. If NumPy is installed, a kernel is traced, too.

#include <map>
#include <set>
#include <string>

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

class NkiCommand : public neuronmm::apps::ProgramTest {
 protected:
  Json json(const std::string& name) const { return Json::parse(read(path(name)), nullptr, false); }
};

std::string seed(const std::string& name) {
  return (neuronmm::source_dir() / "fuzz/corpus/kernel_trace" / name).string();
}
std::string from(const std::string& name) { return "nki --from-trace " + seed(name) + " "; }

TEST_F(NkiCommand, ReportsASavedTrace) {
  const std::string out = path("out.json"), timeline = path("t.json");
  expect(neuronmm(from("matmul") + "--json " + out + " --trace " + timeline), 0,
         {"simulated (no Trainium was used)", "trn2 (NeuronCore-v3)", "8 instructions", "latency",
          "compulsory", "PSUM", "k.py:9", "data", "dependency"});
  const Json report = json("out.json");
  double stalled = 0;
  for (const Json& line : report["lines"]) {
    for (const auto& [cause, ns] : line["stalled_ns_by_cause"].items()) stalled += ns.get<double>();
  }
  stalled += report["fixed_ns"].get<double>();
  EXPECT_NEAR(stalled / 1e6, report["latency_ms"].get<double>(), 1e-9);
  EXPECT_EQ(report["summary"]["hbm_read_bytes"], 2 * 128 * (128 + 512) * 2);
  std::map<std::string, size_t> phases;
  const Json trace = json("t.json");
  for (const Json& event : trace["traceEvents"]) ++phases[event["ph"]];
  EXPECT_EQ(phases["M"], 1 + 2 * (4 + 16));
  EXPECT_EQ(phases["X"], 8);
  for (const Json& counter : trace["otherData"]["counters"]) {
    EXPECT_GT(counter["most"], 0) << counter;
    EXPECT_LE(counter["most"], counter["capacity"]) << counter;
  }
  EXPECT_EQ(trace["otherData"]["counters"].size(), 3u);
}

// Folders that a living process locks stay, and so do files of others with similar names.
TEST_F(NkiCommand, TemporaryFoldersOfKilledRunsAreRemoved) {
  const fs::path temporary = path("tmp");
  fs::create_directories(temporary / "neuronmm-nki-killed");
  fs::create_directories(temporary / "neuronmm-nki-locked");
  fs::create_directories(temporary / "neuronmm-nki-notes1");
  fs::create_directories(temporary / "neuronmm-nki-mine");
  std::ofstream(temporary / "neuronmm-nki-killed/kernel.trace") << "half";
  std::ofstream(temporary / "neuronmm-nki-notes1/thesis.tex") << "mine";
  std::ofstream(temporary / "neuronmm-nki-afile1") << "mine";
  expect(neuronmm(from("matmul"), "TMPDIR='" + temporary.string() + "' flock '" +
                                      (temporary / "neuronmm-nki-locked").string() + "'"),
         0, {"latency"});
  EXPECT_FALSE(fs::exists(temporary / "neuronmm-nki-killed"));
  for (const char* name : {"locked", "notes1", "mine", "afile1"}) {
    EXPECT_TRUE(fs::exists(temporary / (std::string("neuronmm-nki-") + name))) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary), fs::directory_iterator()), 4);
}

TEST_F(NkiCommand, ATraceIsSimulatedOnAnotherDevice) {
  const std::string out = path("out.json");
  expect(neuronmm(from("matmul") + "--device trn1 --json " + out), 0, {"trn1 (NeuronCore-v2)"});
  EXPECT_EQ(json("out.json")["device"], "trn1");
}

TEST_F(NkiCommand, ReportsTheErrorBandOfItsPredictions) {
  const std::string out = path("out.json"), page = path("page.html");
  const char* band = " %, fitted to ";
  const char* wider = "; wider because ";
  expect(neuronmm(from("matmul") + "--html " + page + " --json " + out), 0, {"± ", band});
  EXPECT_GT(json("out.json")["band"]["fitted_rows"], 0);
  EXPECT_GT(json("out.json")["band"]["percent"], 0);
  EXPECT_NE(read(page).find(band), std::string::npos);
  expect(neuronmm(from("matmul") + "--device trn1 --json " + out), 0, {wider});
  EXPECT_GT(json("out.json")["band"]["percent"], 0);
}

// The lanes of the page: the engines, each queue that is used, and the counters.
TEST_F(NkiCommand, ThePageShowsQueuesAndCountersOverTime) {
  const std::string page = path("page.html"), timeline = path("t.json");
  expect(neuronmm(from("matmul") + "--html " + page + " --trace " + timeline), 0, {});
  std::set<int> queues;
  const Json trace = json("t.json");
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] >= 4) queues.insert(event["tid"].get<int>() - 4);
  }
  EXPECT_GT(queues.size(), 1u);
  const std::string text = read(page);
  for (int queue = 0; queue < 16; ++queue) {
    const bool shown = text.find(">queue " + std::to_string(queue) + "<") != std::string::npos;
    EXPECT_EQ(shown, queues.contains(queue)) << queue;
  }
  for (const Json& counter : trace["otherData"]["counters"]) {
    const auto number = [&](const char* key) {
      return std::to_string(static_cast<int64_t>(counter[key].get<double>()));
    };
    const std::string note = "at most " + number("most") + " of " + number("capacity") + " " +
                             counter["unit"].get<std::string>();
    EXPECT_NE(text.find(note), std::string::npos) << note;
  }
}

TEST_F(NkiCommand, WhatIfsChangeTheLatency) {
  const std::string out = path("out.json");
  expect(
      neuronmm(from("matmul") +
               "--what-if buffers=1 --what-if dma_bandwidth=2x --what-if tensor_clock=4.8 --json " +
               out),
      0, {"what if", "buffers=1", "dma_bandwidth=2x", "tensor_clock=4.8"});
  const Json report = json("out.json");
  const double latency = report["latency_ms"];
  ASSERT_EQ(report["what_ifs"].size(), 3u);
  EXPECT_GT(report["what_ifs"][0]["latency_ms"].get<double>(), latency);
  EXPECT_LT(report["what_ifs"][1]["latency_ms"].get<double>(), latency);
  EXPECT_LT(report["what_ifs"][2]["latency_ms"].get<double>(), latency);
}

TEST_F(NkiCommand, TwoKernelsAreCompared) {
  expect(neuronmm(from("matmul") + "--compare " + seed("matmul")), 0,
         {"beside each other", "1.00x"});
}

TEST_F(NkiCommand, AnSbufOverflowOfALegacyKernelIsReported) {
  expect(neuronmm(from("overflow")), 0, {"SBUF would need 262144 bytes", "loaded again", "tile"});
}

TEST_F(NkiCommand, BadInputIsRefused) {
  expect(neuronmm("nki"), 2, {"expected FILE.py:KERNEL or --from-trace FILE"});
  expect(neuronmm("nki kernel.py"), 2, {"expected FILE.py:KERNEL", "kernel.py"});
  expect(neuronmm("nki " + path("nothing.py") + ":kernel"), 1, {"nothing.py: No such file"});
  expect(neuronmm(from("none")), 1, {"kernel_trace/none"});
  write("text", "not a trace at all");
  expect(neuronmm("nki --from-trace " + path("text")), 1, {"not a kernel trace"});
  const std::string whole = read(seed("matmul"));
  write("cut", whole.substr(0, whole.size() - 8));
  expect(neuronmm("nki --from-trace " + path("cut")), 1, {"cut off?"});
  expect(neuronmm(from("matmul") + "--device trn9"), 2, {"trn9"});
  expect(neuronmm(from("matmul") + "--what-if luck=2x"), 2, {"--what-if luck=2x", "dma_bandwidth"});
  expect(neuronmm(from("matmul") + "--what-if buffers=0"), 2, {"positive number"});
  expect(neuronmm(from("matmul") + "--what-if buffers=1.5"), 2, {"whole number"});
  expect(neuronmm(from("matmul") + "--what-if dma_queues=0.5x --what-if psum_banks=1"), 2,
         {"the model does not take psum_banks = 1"});
}

// The build makes this link, by which the program finds the Python files wherever the build is.
TEST_F(NkiCommand, TheBuildLeadsToThePythonFiles) {
  const fs::path link = neuronmm::program_path().parent_path() / "python_packages";
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::equivalent(link, neuronmm::source_dir() / "python"));
}

TEST_F(NkiCommand, AProgramThatWasMovedAloneSaysWhatItNeeds) {
  const fs::path moved = path("bin/neuronmm");
  fs::create_directories(moved.parent_path());
  fs::copy_file(neuronmm::program_path(), moved);
  write("kernel.py", "");
  expect(neuronmm::apps::run_shell(moved.string() + " nki " + path("kernel.py") + ":f 2>&1"), 1,
         {"nki/run.py", path("share/neuronmm/python").c_str(), path("bin/python_packages").c_str(),
          "cmake --install"});
}

bool can_trace() {
  return fs::exists(neuronmm::source_dir() / "python/nki/run.py") &&
         neuronmm::apps::run_shell(
             "python3 -c 'import numpy' 2>&1 || /usr/bin/python3 -c 'import numpy' 2>&1")
                 .exit_code == 0;
}

TEST_F(NkiCommand, TracesAKernel) {
  if (!can_trace()) GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
  const std::string kernel =
      write("kernel.py",
            "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
            "@nki.jit\ndef double(x):\n"
            "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\n"
            "    nisa.dma_copy(dst=t, src=x)\n"
            "    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)\n"
            "    nisa.dma_copy(dst=y, src=t)\n"
            "    return y\n");
  const std::string kept = path("kept.trace");
  expect(neuronmm("nki " + kernel + ":double --arg 'x=bf16[128,512]' --save-trace " + kept), 0,
         {"3 instructions", "kernel.py:8", "kernel.py:10"});
  expect(neuronmm("nki --from-trace " + kept + " --compare " + kernel +
                  ":double --arg 'x=bf16[128,512]'"),
         0, {"1.00x"});
  expect(neuronmm("nki " + kernel + ":triple --arg 'x=bf16[128,512]'"), 2, {"triple"});
  // A launch on two cores reports the half that one core computes, with one note that says so.
  write("half.py",
        "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
        "@nki.jit\ndef half(x):\n"
        "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)\n"
        "    at = nl.ds(nl.program_id(0) * 256, 256)\n"
        "    nisa.dma_copy(dst=t, src=x[:, at])\n"
        "    nisa.dma_copy(dst=y[:, at], src=t)\n"
        "    return y\n");
  const std::string out = path("half.json");
  const std::string run_half = "nki --arg 'x=bf16[128,512]' --json " + out + " ";
  expect(neuronmm(run_half + path("half.py") + ":half", "NEURON_LOGICAL_NC_CONFIG=2"), 0,
         {"launched on [2] cores"});
  expect(neuronmm(run_half + "--sdk 2.32 '" + path("half.py") + ":half[2]'"), 0,
         {"launched on [2] cores"});
  const Json half = json("half.json");
  EXPECT_EQ(half["compulsory_bytes"], 2 * 128 * 256 * 2);
  EXPECT_EQ(half["notes"].size(), 1u);
  const std::string page = path("page.html");
  expect(neuronmm("nki " + kernel + ":double --arg 'x=bf16[128,512]' --ref x+x --html " + page), 0,
         {"relative error"});
  for (const char* const part : {"<svg", "kernel.py:9", "nisa.tensor_tensor", "no Trainium"}) {
    EXPECT_NE(read(page).find(part), std::string::npos) << part;
  }
  expect(neuronmm("nki " + kernel + ":double --arg 'x=bf16[128,512]' --ref x*3"), 1, {"WRONG"});
  const std::string wrong = path("wrong.json");
  expect(neuronmm("nki " + kernel +
                  ":double --arg 'x=fp32[4,8]:arange' --ref 'x+x+(x==9)' --json " + wrong),
         1, {"first wrong at [1,1]: found 18, expected 19", "3.12 % of the elements", "ulps"});
  EXPECT_EQ(json("wrong.json")["results"][0]["wrong"]["index"], Json({1, 1}));
  // The error is infinite, which JSON cannot represent.
  expect(neuronmm("nki " + kernel + ":double --arg 'x=bf16[128,512]' --ref x/0"), 1,
         {"relative error inf", "WRONG"});
  expect(neuronmm("nki " + kernel + ":double --arg 'x=bf16[256,512]'"), 1, {"kernel.py:7", "256"});
  for (const std::string status : {"0", "3"}) {
    write("leaves.py", "import os\n\ndef kernel(x):\n    os._exit(" + status + ")\n");
    expect(neuronmm("nki " + path("leaves.py") + ":kernel --arg 'x=bf16[128,512]'"), 1,
           {"Python ended without a message"});
  }
}

// Many containers set PYTHONDONTWRITEBYTECODE. Without our own compiled files, each start would
// then compile all modules again, which takes a second.
TEST_F(NkiCommand, CompiledFilesAreKeptWhereverPythonKeepsNone) {
  if (!can_trace()) GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
  const std::string kernel = write("own.py", "def own(x):\n    return x\n");
  (void)neuronmm("nki " + kernel + ":own --arg 'x=fp32[4,4]'",
                 "XDG_CACHE_HOME='" + path("cache") + "' PYTHONDONTWRITEBYTECODE=1");
  bool has_ours = false, has_users = false;
  for (const auto& entry : fs::recursive_directory_iterator(path("cache"))) {
    has_ours |= entry.path().filename().string().starts_with("launch.");
    has_users |= entry.path().filename().string().starts_with("own.");
  }
  EXPECT_TRUE(has_ours);
  EXPECT_FALSE(has_users);
}

TEST_F(NkiCommand, AKernelThatNeverEndsIsEndedAtItsLimits) {
  if (!can_trace()) GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
  const std::string kernel =
      write("bad.py",
            "import socket\n"
            "def forever(x):\n"
            "    while True:\n"
            "        try:\n"
            "            while True: pass\n"
            "        except Exception: pass\n"
            "def memory(x):\n"
            "    return bytearray(3 << 30)\n"
            "def network(x):\n"
            "    socket.create_connection(('192.0.2.1', 80), timeout=0.2)\n");
  const std::string run = "nki " + kernel, argument = " --arg 'x=bf16[4,4]' ";
  expect(neuronmm(run + ":forever" + argument + "--max-seconds 0.3"), 1,
         {"bad.py:5: limit: the kernel has run for 0.3 seconds", "--max-seconds"});
  expect(neuronmm(run + ":memory" + argument + "--max-memory 1GiB"), 1,
         {"bad.py:8: limit: the kernel needs more than 1 GiB of memory", "--max-memory"});
  // Without a namespace, the connection is refused or its time runs out.
  expect(neuronmm(run + ":network" + argument), 1, {"bad.py:10", "Error"});
}

TEST_F(NkiCommand, ResultsAreKeptAndReadAgain) {
  if (!can_trace()) GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
  const std::string kernel = write("same.py",
                                   "import nki.language as nl\n"
                                   "def same(x):\n"
                                   "    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
                                   "    nl.store(y, nl.load(x))\n"
                                   "    return y\n");
  const std::string file = path("kept.npz"), run = "nki " + kernel + ":same ";
  expect(neuronmm(run + "--arg 'x=fp32[4,6]:arange' --save-outputs " + file), 0, {});
  expect(neuronmm(run + "--arg x=@" + file + ":y --ref 'np.arange(24).reshape(4, 6)'"), 0,
         {"relative error 0,"});
  expect(neuronmm(run + "--arg x=@" + file + ":z"), 2, {"has no array 'z', only y"});
  expect(neuronmm(run + "--arg x=@" + path("none.npy")), 2, {"none.npy: No such file"});
}

TEST_F(NkiCommand, AFolderOfTestsRuns) {
  if (!can_trace()) GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
  fs::create_directories(path("tests"));
  write("tests/conftest.py",
        "import pytest\n@pytest.fixture\ndef simulation_only(request):\n"
        "    return request.config.getoption('--simulation-only')\n");
  write("tests/test_one.py",
        "import pytest\n"
        "class TestOne:\n"
        "    @pytest.mark.simulation\n"
        "    @pytest.mark.parametrize('a, b', [[1, 1], [1, 2]])\n"
        "    def test_equal(self, simulation_only, a, b):\n"
        "        assert simulation_only\n"
        "        assert a == b\n"
        "    def test_on_a_device(self):\n"
        "        assert False\n");
  const std::string out = path("tests.json");
  expect(neuronmm("nki " + path("tests") + " --json " + out), 1,
         {"passed", "TestOne.test_equal[0]", "failed", "test_one.py:7: AssertionError",
          "1 passed, 1 failed, 0 skipped"});
  EXPECT_EQ(json("tests.json")["tests"].size(), 2u);
  fs::create_directories(path("empty"));
  expect(neuronmm("nki " + path("empty")), 1, {"expected files test_*.py"});
}

// Emits a kernel and checks that `simulate` and `nki` say one latency for it.
TEST_F(NkiCommand, AnEmittedKernelHasOneLatency) {
  if (!can_trace()) GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
  const std::string shape = "256,256,128,512", source = path("xuv.py"), cores = "256,512,256,512";
  const auto latencies = [&](const std::string& options, const std::string& launch,
                             const std::string& arguments) {
    expect(neuronmm("emit xuv --force -o " + source + options), 0, {});
    expect(neuronmm("simulate xuv --json " + path("s.json") + options), 0, {});
    const size_t at = options.find(" --device");
    expect(neuronmm("nki '" + source + ":xuv" + launch + "' " + arguments + " --json " +
                    path("n.json") + (at == options.npos ? "" : options.substr(at))),
           0, {});
    EXPECT_NEAR(json("s.json")["summary"]["total_time"].get<double>() * 1e3,
                json("n.json")["latency_ms"].get<double>(), 1e-12)
        << options;
  };
  const std::string one = "--arg 'x=bf16[256,256]' --arg 'u=bf16[256,128]' --arg 'v=bf16[128,512]'";
  latencies(" --shape " + shape + " --device trn1", "", one);
  latencies(" --shape " + shape + " --device trn2", "", one);
  latencies(" --shape " + cores + " --cores 2", "[2]",
            "--arg 'x=bf16[256,512]' --arg 'u=bf16[512,256]' --arg 'v=bf16[256,512]'");
}

TEST_F(NkiCommand, TheFasterOrderOfALegacyKernelIsReportedAndTheOtherNamed) {
  const std::string out = path("out.json"), written = path("written.json");
  expect(neuronmm(from("overflow") + "--json " + out), 0, {"other order"});
  expect(neuronmm(from("overflow") + "--as-written --json " + written), 0, {});
  const double latency = json("out.json")["latency_ms"];
  EXPECT_LE(latency, json("written.json")["latency_ms"].get<double>());
  EXPECT_LE(latency, json("out.json")["other_order_ms"].get<double>());
}

}  // namespace
