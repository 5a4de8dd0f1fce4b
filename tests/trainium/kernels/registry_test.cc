// Checks the registry of kernels: their names, operands, formulas and tilings.

#include "trainium/kernels/registry.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "trainium/kernels/shapes.h"

namespace neuronmm::kernels {
namespace {

const Kernel& registered(std::string_view name) { return *find_kernel(name).value(); }

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Registry, NamesAreUniqueAndDescribed) {
  std::set<std::string_view> names;
  for (const Kernel& k : kernels()) {
    EXPECT_TRUE(names.insert(k.name).second) << k.name;
    EXPECT_FALSE(k.description.empty() || k.hbm_bytes.empty() || k.flops.empty() ||
                 k.nc_matmuls.empty() || k.operands.empty())
        << k.name;
  }
  EXPECT_GE(names.size(), 14u);
}

TEST(Registry, UnknownKernelListsTheNames) {
  const auto found = find_kernel("xvu");
  ASSERT_FALSE(found.ok());
  EXPECT_TRUE(contains(found.error().message, "xvu"));
  EXPECT_TRUE(contains(found.error().message, "xuv_transposed"));
}

TEST(Registry, OperandsAreTheBuffersOfTheProgram) {
  for (const Kernel& k : kernels()) {
    const auto program =
        make_program(k, suited(k, {256, 384, 128, 640, 128}), tiling_of(k, {}).value(), {}).value();
    std::set<std::string> wanted, found;
    for (const OperandDescription& operand : k.operands) wanted.emplace(operand.name);
    for (const tile::Buffer& buffer : program.buffers) {
      const bool scratch = buffer.role == tile::HbmRole::kScratch;
      if (buffer.memory != tile::Memory::kHbm || scratch || buffer.is_view()) continue;
      found.insert(buffer.name);
    }
    EXPECT_EQ(wanted, found) << k.name;
  }
}

// Returns the dimension that the columns of `formula` run along. Every contraction must be one
// dimension.
char columns_of(const Kernel& k, const Formula& formula, std::multiset<std::string>& used) {
  using Operation = Formula::Operation;
  switch (formula.operation) {
    case Operation::kOperand: {
      const MatrixLayout layout = operand_of(k, formula.operand).layout;
      EXPECT_TRUE(layout.has_tokens()) << formula.operand;
      return layout.transposed() ? layout.rows : layout.columns;
    }
    case Operation::kProduct:
    case Operation::kAppended: {
      const MatrixLayout weight = operand_of(k, formula.operand).layout;
      EXPECT_FALSE(weight.has_tokens()) << formula.operand;
      EXPECT_EQ(columns_of(k, formula.inputs.at(0), used), contraction_of(weight.rows))
          << formula.operand;
      // A part with a name is shared and occurs in several places.
      if (formula.name.empty() || !used.contains(formula.operand)) used.insert(formula.operand);
      if (formula.inputs.size() > 1) {
        EXPECT_EQ(columns_of(k, formula.inputs[1], used), weight.columns);
      }
      if (formula.operation == Operation::kProduct) return weight.columns;
      // The pivots and the rest together are the whole dimension.
      const NonPivotDimension* non_pivots = find_non_pivot_dimension(weight.columns);
      EXPECT_TRUE(non_pivots && non_pivots->pivots == weight.rows) << formula.operand;
      return non_pivots ? non_pivots->whole : '\0';
    }
    case Operation::kFirstColumns:
      columns_of(k, formula.inputs.at(0), used);
      return formula.first_columns;
    case Operation::kOtherColumns: {
      const char whole = columns_of(k, formula.inputs.at(0), used);
      for (const char letter : {'k', 'n', 'q'}) {
        const NonPivotDimension* non_pivots = find_non_pivot_dimension(letter);
        if (non_pivots->whole == whole && non_pivots->pivots == formula.first_columns) {
          return letter;
        }
      }
      return '\0';
    }
    case Operation::kSilu:
      return columns_of(k, formula.inputs.at(0), used);
    case Operation::kTimes: {
      const char columns = columns_of(k, formula.inputs.at(0), used);
      EXPECT_EQ(columns_of(k, formula.inputs.at(1), used), columns);
      return columns;
    }
    case Operation::kExperts:
      EXPECT_EQ(operand_of(k, formula.operand).kind, OperandKind::kShares);
      EXPECT_EQ(operand_of(k, formula.experts).kind, OperandKind::kExperts);
      return columns_of(k, formula.inputs.at(0), used);
  }
  return 0;
}

// Checks the blocks of a product. They must be a tiling parameter of 128s along its contraction.
void expect_blocks(const Kernel& k, const Formula& formula) {
  for (const Formula& part : formula.inputs) expect_blocks(k, part);
  if (formula.block.empty()) return;
  const auto parameter = std::ranges::find(k.tiling, formula.block, &TilingParameter::name);
  ASSERT_NE(parameter, k.tiling.end()) << formula.block;
  EXPECT_EQ(parameter->tile, 128) << formula.block;
  // xuv_sequential is two calls of one kernel. Its BK belongs to K in the first call and to r in
  // the second.
  if (k.name == "xuv_sequential") return;
  EXPECT_EQ(parameter->dimension, operand_of(k, formula.operand).layout.rows) << formula.block;
}

TEST(Registry, FormulasFitTheirOperands) {
  for (const Kernel& k : kernels()) {
    SCOPED_TRACE(k.name);
    std::multiset<std::string> used, weights;
    const char columns = columns_of(k, k.formula, used);
    const MatrixLayout output = output_of(k).layout;
    EXPECT_EQ(columns, output.transposed() ? output.rows : output.columns);
    EXPECT_EQ(output_of(k).role, tile::HbmRole::kOutput);
    for (const OperandDescription& operand : k.operands) {
      const bool values = operand.kind == OperandKind::kValues;
      if (values && !operand.layout.has_tokens()) weights.emplace(operand.name);
    }
    EXPECT_EQ(used, weights);
    expect_blocks(k, k.formula);
  }
}

TEST(Registry, OperandsLieAsTheProgramDeclaresThem) {
  for (const Kernel& k : kernels()) {
    const KernelShape shape = suited(k, {130, 384, 70, 640, 50});
    for (const Layout left : {Layout::kTransposed, Layout::kNatural}) {
      if (left == Layout::kNatural && !k.left_layout) continue;
      const KernelOptions options{.left = left};
      const auto program = make_program(k, shape, tiling_of(k, {}).value(), options).value();
      for (const tile::Buffer& buffer : program.buffers) {
        if (buffer.role != tile::HbmRole::kInput && buffer.role != tile::HbmRole::kOutput) continue;
        const OperandDescription& operand = operand_of(k, buffer.name);
        EXPECT_EQ(buffer.role, operand.role) << k.name << " " << buffer.name;
        EXPECT_EQ(buffer.dtype, dtype_of(operand, options.dtype)) << k.name << " " << buffer.name;
        EXPECT_EQ(buffer.shape, shape_of(shape, layout_of(k, operand, options)))
            << k.name << " " << buffer.name;
      }
    }
  }
}

TEST(Registry, BadTilingParametersAreNamed) {
  const auto unknown = tiling_of(registered("xuv"), {{"BX", 2}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(contains(unknown.error().message, "BX"));
  EXPECT_TRUE(contains(unknown.error().message, "BM, BK, Bu, Br, BN"));
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    const auto bad = tiling_of(registered("xuv"), {{"BK", value}});
    ASSERT_FALSE(bad.ok());
    EXPECT_TRUE(contains(bad.error().message, "BK"));
  }
  EXPECT_FALSE(tiling_of(registered("mlp"), {{"h_on_chip", 2}}).ok());
  EXPECT_TRUE(tiling_of(registered("mlp"), {{"h_on_chip", 0}}).ok());
}

TEST(Registry, BadShapesAndOptionsAreNamed) {
  const Kernel& k = registered("xuv");
  const Tiling tiling = tiling_of(k, {}).value();
  const std::pair<KernelShape, const char*> shapes[] = {
      {{0, 1, 1, 1}, "expected M"},
      {{1, -5, 1, 1}, "found -5"},
      {{1, 1, 0, 1}, "expected r"},
      {{1, 1, 1, int64_t{1} << 40}, "expected N"},
      {{1 << 20, 1 << 20, 1 << 20, 1 << 20}, "M, K, r and N to be at most 2^70, found 2^80.0"}};
  for (const auto& [shape, part] : shapes) {
    const auto program = make_program(k, shape, tiling, {});
    ASSERT_FALSE(program.ok());
    EXPECT_TRUE(contains(program.error().message, part)) << program.error().message;
  }
  for (const auto& [name, part] :
       {std::pair{"xuv_pivoted", "expected r below K, found r 64 and K 64"},
        {"xuv_pivoted_out", "expected r below N, found r 64 and N 32"}}) {
    const Kernel& pivoted = registered(name);
    const auto program =
        make_program(pivoted, {64, 64, 64, 32}, tiling_of(pivoted, {}).value(), {});
    ASSERT_FALSE(program.ok());
    EXPECT_TRUE(contains(program.error().message, part)) << program.error().message;
  }
  const KernelShape good{64, 64, 64, 64};
  EXPECT_FALSE(
      make_program(k, good, tiling, {.dtype = DType::kF32, .accumulate = DType::kBF16}).ok());
  EXPECT_FALSE(make_program(k, good, tiling, {.dtype = DType::kF16}).ok());
  EXPECT_FALSE(make_program(k, good, tiling, {.left = Layout::kNatural}).ok());
  EXPECT_TRUE(make_program(registered("matmul_tiled"), {64, 64, 0, 64}, {}, {}).ok());
}

// A mixture's batch has at most 32 tokens, which choose A to M·A of its E experts.
TEST(Registry, BadMixturesAreNamed) {
  const Kernel& k = registered("dense_moe_mlp");
  const Tiling tiling = tiling_of(k, {}).value();
  const auto mixture = [](int64_t M, int64_t E, int64_t A, int64_t D) {
    return KernelShape{.M = M, .K = 64, .N = 64, .E = E, .A = A, .D = D};
  };
  const std::pair<KernelShape, const char*> shapes[] = {
      {mixture(33, 8, 2, 4),
       "expected M, the tokens of one decode step, between 1 and 32, found 33"},
      {mixture(0, 8, 2, 4), "expected M between 1"},
      {mixture(4, 5000, 2, 4), "expected E, the experts, between 1 and 4096, found 5000"},
      {mixture(4, 8, 9, 9), "expected A, the active experts per token, between 1 and E 8, found 9"},
      {mixture(4, 8, 0, 4), "expected A between 1"},
      {mixture(4, 8, 2, 1), "between A 2 and the smaller of E 8 and M·A 8, found 1"},
      {mixture(4, 8, 2, 9), "between A 2 and the smaller of E 8 and M·A 8, found 9"},
      {mixture(2, 8, 2, 5), "and M·A 4, found 5"}};
  for (const auto& [shape, part] : shapes) {
    const auto program = make_program(k, shape, tiling, {});
    ASSERT_FALSE(program.ok()) << part;
    EXPECT_TRUE(contains(program.error().message, part)) << program.error().message;
  }
  EXPECT_TRUE(make_program(k, mixture(32, 8, 2, 8), tiling, {}).ok());
}

// Checks where the paper's blocks fit and where they do not.
TEST(Registry, ThePapersBlocksFitTrn1) {
  const tile::Limits trn1{.device = "trn1"};
  const Kernel& k = registered("xuv");
  const KernelOptions paper{.accumulate = DType::kBF16};
  const KernelShape deepseek{4096, 7168, 4096, 18432};
  const auto fits = [&](const KernelShape& shape, int64_t BM, const KernelOptions& options) {
    const Tiling tiling = tiling_of(k, {{"BM", BM}}).value();
    return tile::check(make_program(k, shape, tiling, options).value(), trn1).fits();
  };
  EXPECT_TRUE(fits({32768, 8192, 4096, 16384}, 8, paper));
  EXPECT_TRUE(fits(deepseek, 8, paper));  // The paper's choice; 2048 and 4096 rows spill.
  EXPECT_FALSE(fits(deepseek, 16, paper));
  EXPECT_FALSE(fits(deepseek, 32, paper));
  EXPECT_TRUE(fits({4096, 4096, 2560, 14336}, 8, {}));  // Llama-3.1-8B with fp32 sums.
}

TEST(Registry, FittingTilingHalvesTheRowBlocks) {
  const tile::Limits trn1{.device = "trn1"};
  const Kernel& k = registered("xuv");
  const KernelShape headline{32768, 8192, 4096, 16384};
  const Tiling fitting = fitting_tiling(k, headline, {}, {}, trn1).value();
  EXPECT_EQ(fitting["BM"], 4);  // fp32 sums of 1024 rows x 4096 ranks need 16 MiB, the strip 8.
  EXPECT_EQ(fitting["BN"], 2);
  // The block stays as chosen.
  EXPECT_EQ(fitting_tiling(k, headline, {}, {{"BM", 8}}, trn1).value()["BM"], 8);
}

}  // namespace
}  // namespace neuronmm::kernels
