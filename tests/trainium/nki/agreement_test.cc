// Runs every emitted kernel unchanged in the independent interpreter nki_check, with warnings as
// errors. Its counts of nc_matmul instructions and HBM bytes must equal a walk of the program and
// the closed formulas. Values must be equal bit by bit where sums are exact.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/run_program.h"
#include "test_data.h"
#include "trainium/kernels/expected.h"
#include "trainium/kernels/registry.h"
#include "trainium/nki/python_program.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/tile/counts.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using kernels::Kernel;
using kernels::KernelOptions;
using kernels::KernelShape;
using kernels::Layout;

constexpr uint32_t kSeed = 20251;
constexpr int kShapes = 3;  // For every kernel and layout; the numerics alternate.

// Runs kernels in nki_check, which lies in the folder `checker`.
PythonProgram& checker_program(const fs::path& checker) {
  static PythonProgram program(fmt::format("{} {}/tests/trainium/nki/run_kernels.py {}",
                                           *python_with_numpy(), source_dir().string(),
                                           checker.string()));
  return program;
}

struct Case {
  const Kernel* kernel;
  KernelShape shape;
  kernels::Tiling tiling;
  KernelOptions options;
  std::string device, sdk, source;

  std::string text() const {
    std::string tiles;
    for (const auto& [name, value] : tiling.values()) {
      tiles += fmt::format("{}{}={}", tiles.empty() ? " --tiling " : ",", name, value);
    }
    return fmt::format("{} --shape {}{} --dtype {} --accumulate {}{} --device {} --sdk {}",
                       kernel->name, shape_sizes(*kernel, shape), tiles, dtype(options.dtype),
                       dtype(options.accumulate),
                       options.left == Layout::kNatural ? " --left natural" : "", device, sdk);
  }
  static std::string_view dtype(DType dtype) { return dtype == DType::kF32 ? "fp32" : "bf16"; }

  Shape shape_of_operand(const kernels::OperandDescription& operand) const {
    return shape_of(shape, layout_of(*kernel, operand, options));
  }
  // Replaces r in "x[:, :r]" by its size, because the checker knows only arguments.
  std::string with_sizes(std::string_view python) const {
    return std::regex_replace(std::string(python), std::regex(R"(\br\b)"), std::to_string(shape.r));
  }
  Json check_arguments() const {
    Json arguments = {fmt::format("{}:{}", source, kernel->name),
                      "--werror",
                      "--target",
                      device,
                      "--ref",
                      with_sizes(kernels::python_of(*kernel, options.left))};
    for (const kernels::OperandDescription& operand : kernel->operands) {
      if (operand.role != tile::HbmRole::kInput) continue;
      const Shape size = shape_of_operand(operand);
      arguments.push_back("--arg");
      arguments.push_back(
          fmt::format("{}={}[{},{}]", operand.name, dtype(options.dtype), size[0], size[1]));
    }
    return {{"argv", arguments}};
  }
};

class NkiAgreement : public testing::Test {
 protected:
  void SetUp() override {
    checker_ = nki_check_path();
    if (!checker_) GTEST_SKIP() << "no nki_check; set NEURONMM_NKI_CHECK to its folder";
    if (!python_with_numpy()) {
      GTEST_SKIP() << "no python3 with NumPy: tools/install_dependencies.sh test";
    }
    folder_ = fs::temp_directory_path() / fmt::format("neuronmm-nki-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  // Returns a size that is mostly small and ragged, and in one of four cases a multiple of the
  // tiles.
  int64_t random_size(int64_t most) {
    if (uniform(0, 3) == 0) return 128 * uniform(1, std::max<int64_t>(1, most / 128));
    return uniform(1, most);
  }
  int64_t uniform(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  Case random_case(const Kernel& kernel, const KernelOptions& options) {
    Case made{.kernel = &kernel,
              .shape = {.M = random_size(400),
                        .K = random_size(300),
                        .r = random_size(300),
                        .N = random_size(900),
                        .s = random_size(300)},
              .tiling = kernels::tiling_of(kernel, {}).value(),
              .options = options,
              .device = fmt::format("trn{}", uniform(1, 3)),
              .sdk = uniform(0, 1) == 0 || kernel.experts ? "2.33" : "2.28",
              .source = (folder_ / fmt::format("kernel{}.py", sources_++)).string()};
    made.shape = kernels::suited(kernel, made.shape);
    for (const kernels::TilingParameter& parameter : kernel.tiling) {
      made.tiling.set(parameter.name,
                      uniform(parameter.least, std::min<int64_t>(parameter.most, 3)));
    }
    if (uniform(0, 3) > 0) kernels::make_contiguous(made.tiling, made.shape);
    emit(made);
    return made;
  }
  void emit(const Case& made) {
    const apps::Outcome outcome =
        apps::neuronmm(fmt::format("emit {} -o {}", made.text(), made.source));
    EXPECT_EQ(outcome.exit_code, 0) << made.text() << "\n" << outcome.output;
  }

  Json run(const Json& request) { return checker_program(*checker_).ask(request); }

  // Runs the kernel on these values. The output lies in a file beside the source.
  template <typename Operands>
  Json execute(const Case& made, const Operands& operands) {
    Json files;
    for (const auto& [name, matrix] : operands) {
      const std::string file = fmt::format("{}.{}", made.source, name);
      std::ofstream(file, std::ios::binary)
          .write(reinterpret_cast<const char*>(matrix.data()),
                 4 * matrix.rows() * matrix.columns());
      const DType found = dtype_of(operand_of(*made.kernel, name), made.options.dtype);
      const char* dtype = found == DType::kF32   ? "float32"
                          : found == DType::kI32 ? "int32"
                                                 : "bfloat16";
      files[std::string(name)] = {matrix.rows(), matrix.columns(), dtype, file};
    }
    return run({{"source", made.source},
                {"function", made.kernel->name},
                {"target", made.device},
                {"inputs", files},
                {"output", made.source + ".out"}});
  }

  // Calls the function for each layout of the left operand, with `count` numerics each.
  template <typename Function>
  void for_each_variant(const Kernel& kernel, int count, const Function& function) {
    constexpr std::pair<DType, DType> kNumerics[] = {
        {DType::kBF16, DType::kF32}, {DType::kBF16, DType::kBF16}, {DType::kF32, DType::kF32}};
    for (const Layout left : {Layout::kTransposed, Layout::kNatural}) {
      if (left == Layout::kNatural && !kernel.left_layout) continue;
      for (int i = 0; i < count; ++i) {
        const auto& [dtype, accumulate] = kNumerics[i % 3];
        function(KernelOptions{dtype, accumulate, left});
      }
    }
  }

  std::mt19937 random_{kSeed};
  int sources_ = 0;
  std::optional<fs::path> checker_;
  fs::path folder_;
};

class EveryKernel : public NkiAgreement, public testing::WithParamInterface<std::string_view> {};

void expect_counts(const Case& made, const Json& counters) {
  const tile::Counts counts = tile::count(
      kernels::make_program(*made.kernel, made.shape, made.tiling, made.options).value());
  const kernels::Cost cost = made.kernel->cost(made.shape, made.tiling, made.options);
  EXPECT_EQ(counters["hbm_read_bytes"], counts.hbm_read_bytes);
  EXPECT_EQ(counters["hbm_write_bytes"], counts.hbm_write_bytes);
  EXPECT_EQ(counters["hbm_read_bytes"], cost.hbm_read_bytes);
  EXPECT_EQ(counters["hbm_write_bytes"], cost.hbm_write_bytes);
  EXPECT_EQ(2 * counters["pe_macs"].get<int64_t>(), counts.matmul_flops);
  const Json& instructions = counters["instructions"];
  EXPECT_EQ(instructions["nc_matmul"], counts.nc_matmuls);
  EXPECT_EQ(instructions["nc_matmul"], cost.nc_matmuls);
  EXPECT_EQ(instructions.value("nc_transpose", 0), counts.nc_transposes);
  EXPECT_EQ(instructions.value("dma_copy", 0) + instructions.value("dma_transpose", 0),
            counts.dma_copies);
  int64_t all = 0;
  for (const auto& [name, count] : instructions.items()) all += count.get<int64_t>();
  EXPECT_EQ(all, counts.instructions);
}

void expect_agreement(const Case& made, const Json& report) {
  SCOPED_TRACE(fmt::format("seed {}: neuronmm emit {}", kSeed, made.text()));
  EXPECT_EQ(report.value("status", -2), 0) << report.dump(2);
  if (!report.contains("counters") || !report["counters"].is_object()) return;
  expect_counts(made, report["counters"]);
}

TEST_P(EveryKernel, CountsAgreeOnRandomShapes) {
  const Kernel& kernel = *kernels::find_kernel(GetParam()).value();
  if (kernel.experts) return;  // The checker has no random numbers of experts; see below.
  for_each_variant(kernel, kShapes, [&](const KernelOptions& options) {
    const Case made = random_case(kernel, options);
    expect_agreement(made, run(made.check_arguments()));
  });
}

// The operands are small whole numbers, so every sum is exact in fp32. Only the roundings to bf16
// are left, which are the same everywhere.
TEST_P(EveryKernel, ValuesAgreeBitByBit) {
  const Kernel& kernel = *kernels::find_kernel(GetParam()).value();
  if (kernels::expected_of(kernel).functions.ends_with("silu")) return;  // silu is not exact.
  for_each_variant(kernel, 3, [&](const KernelOptions& options) {
    const Case made = random_case(kernel, options);
    std::map<std::string, Matrix> operands;
    for (const kernels::OperandDescription& operand : kernel.operands) {
      if (operand.role != tile::HbmRole::kInput) continue;
      const Shape size = made.shape_of_operand(operand);
      Matrix matrix(size[0], size[1]);
      const int64_t elements = matrix.rows() * matrix.columns();
      for (int64_t i = 0; i < elements; ++i) {
        matrix.data()[i] = static_cast<float>(uniform(-4, 4));
      }
      operands.emplace(operand.name, std::move(matrix));
    }
    SCOPED_TRACE(fmt::format("seed {}: neuronmm emit {}", kSeed, made.text()));
    const Json result = execute(made, operands);
    ASSERT_EQ(result.value("status", -2), 0) << result.dump(2);
    simulator::Inputs inputs;
    for (const auto& [name, matrix] : operands) inputs.emplace(name, matrix.view());
    const tile::Program program =
        kernels::make_program(kernel, made.shape, made.tiling, made.options).value();
    const simulator::Interpretation ours = simulator::interpret(program, inputs).value();
    const Matrix& expected = ours.outputs.begin()->second;
    const std::string theirs = apps::read(made.source + ".out");
    const auto bytes = static_cast<size_t>(expected.rows() * expected.columns()) * sizeof(float);
    ASSERT_EQ(theirs.size(), bytes);
    EXPECT_EQ(std::memcmp(theirs.data(), expected.data(), bytes), 0);
  });
}

// The values must lie within the bounds of values that are written by hand, with the experts in any
// order and some shares at 0.
TEST_F(NkiAgreement, MixturesHaveTheirValuesAndCounts) {
  for (const Kernel& kernel : kernels::kernels()) {
    if (!kernel.experts) continue;
    for_each_variant(kernel, 6, [&](const KernelOptions& options) {
      const Case made = random_case(kernel, options);
      SCOPED_TRACE(fmt::format("seed {}: neuronmm emit {}", kSeed, made.text()));
      const kernels::Instance instance{
          .kernel = &kernel, .shape = made.shape, .options = options, .tiling = made.tiling};
      const kernels::Operands operands = kernels::random_operands(instance, random_);
      const Json result = execute(made, operands);
      ASSERT_EQ(result.value("status", -2), 0) << result.dump(2);
      EXPECT_TRUE(result["warnings"].empty()) << result["warnings"].dump(2);
      expect_counts(made, result["counters"]);
      const kernels::Bounded wanted = kernels::expected_values(instance, operands);
      const std::string found = apps::read(made.source + ".out");
      ASSERT_EQ(found.size(), wanted.value.size() * sizeof(float));
      for (size_t i = 0; i < wanted.value.size(); ++i) {
        float value = 0;
        std::memcpy(&value, found.data() + i * sizeof(float), sizeof(float));
        ASSERT_NEAR(static_cast<double>(value), wanted.value[i], wanted.error[i] + 1e-30) << i;
      }
    });
  }
}

// The checker sees a number beyond the experts, as it sees every index.
TEST_F(NkiAgreement, ANumberBeyondTheExpertsIsAnError) {
  const Kernel& kernel = *kernels::find_kernel("dense_moe_mlp").value();
  const Case made{.kernel = &kernel,
                  .shape = {.M = 3, .K = 130, .N = 70, .E = 4, .A = 1, .D = 2},
                  .tiling = kernels::tiling_of(kernel, {}).value(),
                  .options = {},
                  .device = "trn2",
                  .sdk = "2.33",
                  .source = (folder_ / "beyond.py").string()};
  emit(made);
  kernels::Operands operands = kernels::random_operands(
      {.kernel = &kernel, .shape = made.shape, .options = {}, .tiling = made.tiling}, random_);
  EXPECT_EQ(execute(made, operands).value("status", -2), 0);
  operands.at("experts").row(0)[1] = 4;
  EXPECT_NE(execute(made, operands).value("status", 0), 0);
}

// The emitted source releases its buffers by name. Otherwise the checker would count them twice.
TEST_F(NkiAgreement, ANearlyFullSbufIsNotCountedTwice) {
  const Kernel& kernel = *kernels::find_kernel("xuv").value();
  const auto tiling = kernels::tiling_of(kernel, {{"BM", 8}, {"BK", 1}, {"Br", 8}, {"BN", 2}});
  const Case made{.kernel = &kernel,
                  .shape = {1100, 256, 2048, 600},
                  .tiling = tiling.value(),
                  .options = {},
                  .device = "trn1",
                  .sdk = "2.33",
                  .source = (folder_ / "full.py").string()};
  emit(made);
  EXPECT_NE(apps::read(made.source).find("strip_sums = None\n"), std::string::npos);
  expect_agreement(made, run(made.check_arguments()));
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kernels::kernels()) names.push_back(kernel.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(NkiAgreement, EveryKernel, testing::ValuesIn(kernel_names()),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace neuronmm
