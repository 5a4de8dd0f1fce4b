// Emits every kernel in both dialects and traces it with python/nki, as a user's kernel would be
// traced. The trace must move the bytes of the tile program and take its time to the last bit, so
// that the emitted kernel is the simulated one, and `nki` and `simulate` say one latency. The
// source states how many copies of each buffer rotate, and the trace passes that on.

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/run_program.h"
#include "test_data.h"
#include "trainium/kernels/registry.h"
#include "trainium/kernels/shapes.h"
#include "trainium/nki/python_program.h"
#include "trainium/simulator/residency.h"
#include "trainium/simulator/timing.h"
#include "trainium/trace/file.h"
#include "trainium/trace/simulate.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;
using kernels::Kernel;
using kernels::KernelShape;
using simulator::DeviceSpec;

// The shapes have one token, are ragged in every dimension, or are larger than a block in most.
const std::vector<KernelShape> kShapes = {{.M = 1, .K = 512, .r = 256, .N = 700, .s = 128},
                                          {.M = 300, .K = 600, .r = 200, .N = 1300, .s = 130},
                                          {.M = 1024, .K = 1024, .r = 512, .N = 1024, .s = 512}};

// Runs `python -m nki.run` with each list of arguments that it is asked.
PythonProgram& tracer() {
  static PythonProgram program(
      fmt::format("PYTHONPATH={0}/python PYTHONDONTWRITEBYTECODE=1 {1} "
                  "{0}/tests/trainium/nki/trace_kernels.py",
                  source_dir().string(), *python_with_numpy()));
  return program;
}

class EmittedRoundTrip : public testing::TestWithParam<std::tuple<std::string_view, const char*>> {
 protected:
  void SetUp() override {
    if (!python_with_numpy()) {
      GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
    }
    folder_ = fs::temp_directory_path() / fmt::format("neuronmm-round-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Result<trace::TraceFile> traced(const std::string& source, const Kernel& kernel,
                                  const KernelShape& shape, const std::string& device) const {
    nlohmann::json arguments = {fmt::format("{}:{}", source, kernel.name), "--device", device,
                                "--trace", path("t.trace")};
    for (const kernels::OperandDescription& operand : kernel.operands) {
      if (operand.role != tile::HbmRole::kInput) continue;
      const Shape size = shape_of(shape, layout_of(kernel, operand, {}));
      arguments.push_back("--arg");
      const bool values = operand.kind == kernels::OperandKind::kValues;
      const bool shares = operand.kind == kernels::OperandKind::kShares;
      arguments.push_back(fmt::format("{}={}[{},{}]{}", operand.name,
                                      values   ? "bf16"
                                      : shares ? "fp32"
                                               : "i32",
                                      size[0], size[1], values || shares ? "" : ":arange"));
    }
    const nlohmann::json answer = tracer().ask(arguments);
    EXPECT_EQ(answer[0], 0) << arguments.dump() << answer[1];
    return trace::TraceFile::open(path("t.trace"));
  }

  void compare(const Kernel& kernel, const KernelShape& shape, const DeviceSpec& device,
               const std::string& dialect, const kernels::TilingValues& chosen = {}) {
    const auto tiling =
        kernels::fitting_tiling(kernel, shape, {}, chosen, simulator::limits_of(device));
    ASSERT_TRUE(tiling.ok());
    const auto program = kernels::make_program(kernel, shape, *tiling, {});
    if (!program.ok()) return;  // The kernel does not take such a shape.
    const auto expected = simulator::simulate(*program, device);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    std::string tiles;
    for (const auto& [name, value] : chosen) {
      tiles += fmt::format("{}{}={}", tiles.empty() ? " --tiling " : ",", name, value);
    }
    const std::string settings =
        fmt::format("{} --shape {}{} --device {} --sdk {}", kernel.name, shape_sizes(kernel, shape),
                    tiles, device.name, dialect == "nki" ? "2.33" : "2.28");
    SCOPED_TRACE("neuronmm emit " + settings);
    // Python imports a file once, so each kernel has a name of its own.
    static int sources = 0;
    const std::string source = path(fmt::format("kernel{}.py", sources++));
    const apps::Outcome emitted = apps::neuronmm(fmt::format("emit {} -o {}", settings, source));
    ASSERT_EQ(emitted.exit_code, 0) << emitted.output;
    const auto file = traced(source, kernel, shape, std::string(device.name));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_FALSE(trace::may_be_rescheduled(*file));
    const auto found = trace::simulate(*file, device);
    ASSERT_TRUE(found.ok()) << found.error().message;
    const auto a = expected->summary.fields(), b = found->timing.summary.fields();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].second, b[i].second) << a[i].first;
    ++compared_;
  }

  fs::path folder_;
  int compared_ = 0;
};

TEST_P(EmittedRoundTrip, TheTraceTakesTheTimeOfTheTileProgram) {
  const auto& [name, dialect] = GetParam();
  const Kernel& kernel = *kernels::find_kernel(name).value();
  if (kernel.experts && std::string(dialect) == "neuronxcc") {
    GTEST_SKIP()
        << "nothing to compare: the legacy dialect has no loads whose place the data tells";
  }
  for (size_t i = 0; i < kShapes.size(); ++i) {
    compare(kernel, kernels::suited(kernel, kShapes[i]), simulator::devices()[i % 2], dialect);
  }
  EXPECT_GT(compared_, 0);
}

// The shapes have up to 128 rows. Some ranks and rows fill no tile, and some blocks taper.
const std::vector<KernelShape> kFewRows = {{.M = 1, .K = 512, .r = 288, .N = 2900},
                                           {.M = 40, .K = 1280, .r = 256, .N = 1024},
                                           {.M = 128, .K = 256, .r = 200, .N = 700}};

// Returns the parameter that asks for contiguous loads, or "" if the kernel has none.
std::string contiguous_parameter(const Kernel& kernel) {
  for (const kernels::TilingParameter& parameter : kernel.tiling) {
    if (parameter.name.ends_with("contiguous")) return parameter.name;
  }
  return "";
}

class FewRowsRoundTrip : public EmittedRoundTrip {};

TEST_P(FewRowsRoundTrip, TheTraceTakesTheTimeOfTheTileProgram) {
  const auto& [name, dialect] = GetParam();
  const Kernel& kernel = *kernels::find_kernel(name).value();
  for (size_t i = 0; i < kFewRows.size(); ++i) {
    compare(kernel, kFewRows[i], simulator::devices()[i % 3], dialect,
            {{contiguous_parameter(kernel), 1}});
  }
  EXPECT_EQ(compared_, 3);
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kernels::kernels()) names.push_back(kernel.name);
  return names;
}

// Returns the kernels that have their own loops for few rows, if their tiling asks for them.
std::vector<std::string_view> few_rows_kernels() {
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kernels::kernels()) {
    if (!contiguous_parameter(kernel).empty()) names.push_back(kernel.name);
  }
  return names;
}

std::string test_name(const testing::TestParamInfo<std::tuple<std::string_view, const char*>>& p) {
  return fmt::format("{}_{}", std::get<0>(p.param), std::get<1>(p.param));
}

INSTANTIATE_TEST_SUITE_P(Kernels, EmittedRoundTrip,
                         testing::Combine(testing::ValuesIn(kernel_names()),
                                          testing::Values("nki", "neuronxcc")),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Kernels, FewRowsRoundTrip,
                         testing::Combine(testing::ValuesIn(few_rows_kernels()),
                                          testing::Values("nki", "neuronxcc")),
                         test_name);

}  // namespace
}  // namespace neuronmm
