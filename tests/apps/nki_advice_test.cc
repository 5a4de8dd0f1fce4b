// Tests the advice at the end of `neuronmm nki`: each change that it names can be simulated by
// --what-if with the latency that it announces, and a kernel with a known fault is told of it.

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"
#include "trainium/nki/python_program.h"

namespace neuronmm::apps {
namespace {

using AdviceJson = nlohmann::json;

constexpr const char* kImports =
    "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n@nki.jit\n";

class NkiAdvice : public ProgramTest {
 protected:
  void SetUp() override {
    if (!python_with_numpy())
      GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
    ProgramTest::SetUp();
  }

  // Keeps the trace of a kernel of the body's name, and returns the report of its simulation.
  AdviceJson report(const std::string& name, const std::string& body,
                    const std::string& arguments) {
    const std::string kernel = write(name + ".py", kImports + body);
    trace_ = path(name + ".trace");
    expect(neuronmm("nki " + kernel + ":" + name + " " + arguments + " --save-trace " + trace_), 0,
           {"what to change, most valuable first"});
    return again("");
  }
  AdviceJson again(const std::string& flags) {
    const std::string out = path("out.json");
    expect(neuronmm("nki --from-trace " + trace_ + " " + flags + " --json " + out), 0, {});
    return AdviceJson::parse(read(out), nullptr, false);
  }

  // Returns the change whose what-if begins with `what_if`, or null.
  static AdviceJson change(const AdviceJson& report, const std::string& what_if) {
    for (const AdviceJson& each : report["advice"]["suggestions"]) {
      if (each.value("what_if", "").starts_with(what_if)) return each;
    }
    return {};
  }
  static bool says(const AdviceJson& change, const std::string& text) {
    return !change.is_null() && change["change"].get<std::string>().find(text) != std::string::npos;
  }

  std::string trace_;
};

// A product whose loads of `right` repeat, with small tiles and one bank of PSUM.
constexpr const char* kProduct =
    "def product(lhsT, rhs):\n"
    "    (K, M), N = lhsT.shape, rhs.shape[1]\n"
    "    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)\n"
    "    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
    "    for m in range(M // 128):\n"
    "        for n in range(N // 512):\n"
    "            for k in range(K // 128):\n"
    "                left = nl.ndarray((128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)\n"
    "                right = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)\n"
    "                nisa.dma_copy(dst=left, src=lhsT[nl.ds(k * 128, 128), nl.ds(m * 128, 128)])\n"
    "                nisa.dma_copy(dst=right, src=rhs[nl.ds(k * 128, 128), nl.ds(n * 512, 512)])\n"
    "                nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)\n"
    "            tile = nl.ndarray((128, 512), dtype=result.dtype, buffer=nl.sbuf)\n"
    "            nisa.tensor_copy(dst=tile, src=total)\n"
    "            nisa.dma_copy(dst=result[nl.ds(m * 128, 128), nl.ds(n * 512, 512)], src=tile)\n"
    "    return result\n";
constexpr const char* kProductArguments = "--arg 'lhsT=bf16[512,512]' --arg 'rhs=bf16[512,1024]'";

TEST_F(NkiAdvice, EachChangeHasTheLatencyOfItsWhatIf) {
  const AdviceJson first = report("product", kProduct, kProductArguments);
  const AdviceJson& advice = first["advice"];
  ASSERT_FALSE(advice["suggestions"].empty());
  std::string flags;
  double before = 0;
  for (const AdviceJson& each : advice["suggestions"]) {
    EXPECT_LT(each["latency_ms"].get<double>() * 1.02, first["latency_ms"].get<double>() * 1.0001);
    EXPECT_GE(each["latency_ms"].get<double>(), before) << "the most valuable comes first";
    before = each["latency_ms"];
    EXPECT_EQ(each["simulated"].get<bool>(), each.contains("what_if"));
    if (each.contains("what_if")) flags += " --what-if " + each["what_if"].get<std::string>();
  }
  const AdviceJson tried = again(flags);
  size_t at = 0;
  for (const AdviceJson& each : advice["suggestions"]) {
    if (!each.contains("what_if")) continue;
    const AdviceJson& what_if = tried["what_ifs"][at++];
    EXPECT_EQ(what_if["what_if"], each["what_if"]);
    EXPECT_EQ(what_if["latency_ms"], each["latency_ms"]) << each["what_if"];
  }
}

TEST_F(NkiAdvice, NamesTheLineThatLoadsAgainAndTheIdleCore) {
  // The second core has to gain more than the cost of a launch on two.
  const AdviceJson first =
      report("product", kProduct, "--arg 'lhsT=bf16[1024,1024]' --arg 'rhs=bf16[1024,1024]'");
  EXPECT_TRUE(says(change(first, "reloads"), "product.py:15 (rhs, 14.00 MiB)")) << first["advice"];
  bool both = false;
  for (const AdviceJson& each : first["advice"]["suggestions"]) both |= says(each, "product[2]");
  EXPECT_TRUE(both) << first["advice"];
  EXPECT_NE(first["advice"]["waits"].get<std::string>().find("has the most work"),
            std::string::npos);
}

TEST_F(NkiAdvice, NamesThePsumTileThatProductsWaitFor) {
  const AdviceJson first =
      report("waiting",
             "def waiting(x):\n"
             "    y = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.shared_hbm)\n"
             "    a = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)\n"
             "    out = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.sbuf)\n"
             "    nisa.dma_copy(dst=a, src=x)\n"
             "    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
             "    for i in range(8):\n"
             "        for k in range(8):\n"
             "            nisa.nc_matmul(dst=total, stationary=a[:, nl.ds(0, 128)], moving=a,\n"
             "                           accumulate=k > 0)\n"
             "        nisa.tensor_copy(dst=out[:, nl.ds(i * 512, 512)], src=total)\n"
             "    nisa.dma_copy(dst=y, src=out)\n"
             "    return y\n",
             "--arg 'x=bf16[128,512]'");
  EXPECT_TRUE(says(change(first, "buffers.total="), "total (waiting.py:10) several banks of PSUM"))
      << first["advice"];
}

TEST_F(NkiAdvice, NamesTheRoundTripAndTheShortRows) {
  const AdviceJson first =
      report("trip",
             "def trip(x):\n"
             "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
             "    h = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)\n"
             "    for source, target in ((x, h), (h, y)):\n"
             "        for i in range(8):\n"
             "            a = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)\n"
             "            nisa.dma_copy(dst=a, src=source[:, nl.ds(i * 64, 64)])\n"
             "            nisa.dma_copy(dst=target[:, nl.ds(i * 64, 64)], src=a)\n"
             "    return y\n",
             "--arg 'x=bf16[128,512]'");
  EXPECT_TRUE(says(change(first, "round_trips"), "(h, ")) << first["advice"];
  EXPECT_TRUE(says(change(first, "dma_row"), "rows of 128 B")) << first["advice"];
}

TEST_F(NkiAdvice, WrongChangesAreRefused) {
  report("product", kProduct, kProductArguments);
  expect(neuronmm("nki --from-trace " + trace_ + " --what-if reloads=2x"), 2, {"reloads=none"});
  expect(neuronmm("nki --from-trace " + trace_ + " --what-if buffers.total=64"), 0,
         {"buffers.total=64", "PSUM"});
  expect(neuronmm("nki --from-trace " + trace_ + " --what-if buffers.nobody=2"), 0,
         {"expected a tensor of the kernel", "left, right", "\"nobody\""});
}

}  // namespace
}  // namespace neuronmm::apps
