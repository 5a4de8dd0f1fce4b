#pragma once
// This file defines the description of a kernel, as data: everything that the commands and the
// tuner know about it. A new kernel describes itself in its own file and is listed in catalog.cc
// (docs/guide/write_a_kernel.md).
//
// Every kernel's file fills in a Kernel. registry.h finds kernels by name. Its make_program()
// checks the shape and the options before it calls `make`, which does not check them again. Nothing
// in this file checks its arguments, except where a comment says so.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainium/kernels/cost.h"
#include "trainium/kernels/formula.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// A dimension that is what pivots leave of another dimension. Dimensions are letters: 'M', 'K',
// 'r', 'N', 's', 'E', 'A', 'D' and '1' belong to the shape. The letters 'k' = K - r, 'n' = N - r
// and 'q' = K - s are derived, and so are the rows of all experts (ExpertRows).
struct NonPivotDimension {
  char letter, whole, pivots;
};
// Returns nullptr for a dimension of the shape itself.
const NonPivotDimension* find_non_pivot_dimension(char letter);
// The rows of all experts' matrices, one matrix below the other: 'e' = E·K, 'f' = E·N, 'g' = E·r.
struct ExpertRows {
  char letter, rows;
};
// Returns nullptr for any other dimension.
const ExpertRows* find_expert_rows(char letter);
// Returns the dimension that a contraction with a weight runs along: the rows of one matrix.
char contraction_of(char rows);
std::string dimension_text(char letter);  // The dimension as text, such as "K - r".
std::string dimension_name(char letter);  // The dimension as a name, such as "K_less_r".

// The dimensions that the rows and the columns of a matrix in HBM run along.
struct MatrixLayout {
  char rows, columns;

  bool has_tokens() const { return rows == 'M' || columns == 'M'; }
  bool transposed() const { return columns == 'M'; }  // True if tokens are columns.
  bool operator==(const MatrixLayout&) const = default;
};
// Returns text such as "[K, M]" or "[K - r, r]".
std::string to_string(const MatrixLayout& layout);

// The elements of an operand: values in the dtype of KernelOptions, the numbers of experts
// as int32, or the share of each expert in the output of each token, as fp32.
enum class OperandKind { kValues, kExperts, kShares };

// An operand in HBM.
struct OperandDescription {
  std::string_view name;
  MatrixLayout layout;
  tile::HbmRole role;  // An input or the output.
  OperandKind kind = OperandKind::kValues;
};
// Returns the dtype of an operand for values of `dtype`.
DType dtype_of(const OperandDescription& operand, DType dtype);

// The largest size of a dimension, and the largest product of M, K, r and N. make_program() checks
// both, so that the counts of FLOPs and bytes fit into 64 bits. The kernels that need the limits
// most are mlp with 6·M·r·(K + N) FLOPs and xuv_naive with up to 2·M·r·(K·⌈N/512⌉ + N).
inline constexpr int64_t kLargestDimension = int64_t{1} << 20;
inline constexpr double kLargestProduct = 0x1p70;
// The most tokens of a kernel for mixtures. Assumed: more are no decode step, and their sums would
// not fit into the banks of PSUM that the kernel keeps.
inline constexpr int64_t kMostDecodeTokens = 32;
// The most experts. Assumed: mixtures have up to 512. The FLOPs of all of them, at most
// 6 · kMostDecodeTokens · 2^12 · 2^20 · 2^21, fit into 64 bits.
inline constexpr int64_t kMostExperts = 4096;

// A tiling parameter, with the values that a search may try.
struct TilingParameter {
  std::string name;
  int64_t value;  // The default value.
  std::string meaning;
  // The dimension ('M', 'K', ...) of a parameter that counts tiles of `tile` elements each. It is 0
  // for a plain number, for which a search tries `search_values`.
  char dimension = 0;
  int64_t tile = 1;
  int64_t least = 1, most = kLargestDimension / 128;
  std::vector<int64_t> search_values = {};
  // True if the parameter is useful only when sums take more bytes than operands.
  bool for_wide_sums = false;
  bool for_few_rows = false;  // True if the parameter is useful only with at most 128 rows.
  bool for_16_bits = false;   // True if the parameter is useful only with 16-bit operands.
};

// The step of a loop that follows from the tiling but is not a parameter. Emitted source explains
// its constant with `meaning`.
struct DerivedStep {
  std::string name, meaning;
};

// A kernel that runs inside a larger one. The larger kernel has its tiling parameters with a
// prefix.
struct SubKernel {
  std::string_view prefix, kernel;  // For example "down." and "xtuv".
  KernelShape (*shape)(const KernelShape& whole);
};

// Everything that is known about one kernel.
struct Kernel {
  std::string_view name, description;
  Formula formula;
  std::vector<OperandDescription> operands;  // The output is the last operand.
  std::string_view dimensions = "MKN";       // The letters of the shape, in order: "MKrN".
  // True if KernelOptions::left says how the first operand lies. `operands` then describes it as
  // transposed.
  bool left_layout = false;
  // True for a kernel that computes the chosen experts of a mixture (moe_mlp.h).
  bool experts = false;
  std::vector<TilingParameter> tiling = {};
  std::vector<DerivedStep> steps = {};
  // The closed formulas as text for people. The letter s is the bytes per element, and ⌈⌉ rounds
  // up. A row tile is the largest of 512, 384, 256, 128 rows that divides BM. P is the number of
  // passes over X: each pass takes an equal share of the ranks, in whole blocks of U. P is 1 if X
  // is loaded contiguously (contiguous.h).
  std::string_view hbm_bytes, flops, nc_matmuls;
  tile::Program (*make)(const KernelShape&, const Tiling&, const KernelOptions&);
  Cost (*cost)(const KernelShape&, const Tiling&, const KernelOptions&);
  // The two kernels that this kernel runs one after the other, if it is made of two.
  std::vector<SubKernel> sub_kernels = {};
};

// A kernel for one shape, with its options and its tiling.
struct Instance {
  const Kernel* kernel = nullptr;
  KernelShape shape;
  KernelOptions options;
  Tiling tiling;
};

// Returns the size of a dimension, also of one that pivots leave.
int64_t dimension_of(const KernelShape& shape, char letter);
// Returns a dimension of the shape itself. The letter must be one of its letters; any other one is
// taken for 'N'.
int64_t& dimension_of(KernelShape& shape, char letter);
// Return what --shape takes: the syntax "M,K,r,N", and the sizes "4096,2048,1280,8192".
std::string shape_syntax(const Kernel& kernel);
std::string shape_sizes(const Kernel& kernel, const KernelShape& shape);
// Returns [rows, columns] of a matrix.
Shape shape_of(const KernelShape& shape, const MatrixLayout& layout);

// Returns the last operand.
const OperandDescription& output_of(const Kernel& kernel);
// Returns the operand of that name. It is a programming error (NMM_CHECK) if there is none.
const OperandDescription& operand_of(const Kernel& kernel, std::string_view name);
// Returns how an operand lies in HBM under these options.
MatrixLayout layout_of(const Kernel& kernel, const OperandDescription& operand,
                       const KernelOptions& options);

}  // namespace neuronmm::kernels
