#pragma once
// All that the commands know about a kernel, as data. A new kernel describes itself in its own file
// and is listed in catalog.cc (docs/kernels.md).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainium/kernels/cost.h"
#include "trainium/kernels/formula.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// A dimension is a letter: 'M', 'K', 'r', 'N' or 's' of the shape, or what pivots leave of one:
// 'k' = K - r, 'n' = N - r, 'q' = K - s.
struct Rest {
  char letter, whole, pivots;
};
const Rest* find_rest(char letter);       // nullptr: a dimension of the shape itself
std::string dimension_text(char letter);  // "K - r"
std::string dimension_name(char letter);  // the same as a name: "K_less_r"

// The dimensions that the rows and the columns of a matrix in HBM run along.
struct MatrixLayout {
  char rows, columns;

  bool has_tokens() const { return rows == 'M' || columns == 'M'; }
  bool transposed() const { return columns == 'M'; }  // tokens as columns
  bool operator==(const MatrixLayout&) const = default;
};
std::string to_string(const MatrixLayout& layout);  // "[K, M]", "[K - r, r]"

struct OperandDescription {
  std::string_view name;
  MatrixLayout layout;
  tile::HbmRole role;  // an input or the output
};

// Larger sizes would overflow the 64-bit FLOP counts: 2 · 2^20 · 2^20 · 2^21 = 2^62.
inline constexpr int64_t kLargestDimension = int64_t{1} << 20;

struct TilingParameter {
  std::string name;
  int64_t value;  // the default
  std::string meaning;
  // A block of tiles, of `tile` elements each, along a dimension ('M', 'K', ...);
  // 0: a number, of which a search tries these.
  char dimension = 0;
  int64_t tile = 1;
  int64_t least = 1, most = kLargestDimension / 128;
  std::vector<int64_t> tried = {};
  bool for_wide_sums = false;  // of no use where sums take no more bytes than operands
  bool for_few_rows = false;   // of no use with more than 128 rows
  bool for_16_bits = false;    // of no use with wider operands
};

// The step of a loop that follows from the tiling but is no parameter of it: emitted source
// explains its constant by this.
struct DerivedStep {
  std::string name, meaning;
};

// A kernel that runs inside a larger one: its tiling parameters are there under a prefix.
struct Half {
  std::string_view prefix, kernel;  // "down.", "xtuv"
  KernelShape (*shape)(const KernelShape& whole);
};

struct Kernel {
  std::string_view name, description;
  Formula computes;
  std::vector<OperandDescription> operands;  // the output last
  std::string_view dimensions = "MKN";       // what the shape consists of, in their order: "MKrN"
  // KernelOptions::left says how the first operand lies; `operands` has it transposed.
  bool left_layout = false;
  std::vector<TilingParameter> tiling = {};
  std::vector<DerivedStep> steps = {};
  // The closed formulas for people: s = bytes per element, ⌈⌉ rounds up; a row tile is the largest
  // of 512, 384, 256, 128 rows that divides BM; P is the passes over X that equal shares of the
  // ranks need, in whole blocks of U; 1 where X is loaded contiguously (contiguous.h).
  std::string_view hbm_bytes, flops, nc_matmuls;
  tile::Program (*make)(const KernelShape&, const Tiling&, const KernelOptions&);
  Cost (*cost)(const KernelShape&, const Tiling&, const KernelOptions&);
  std::vector<Half> halves = {};  // of a kernel that is two, one after the other
};

// A kernel for one shape, with its options and its tiling.
struct Instance {
  const Kernel* kernel = nullptr;
  KernelShape shape;
  KernelOptions options;
  Tiling tiling;
};

int64_t dimension_of(const KernelShape& shape, char letter);
int64_t& dimension_of(KernelShape& shape, char letter);  // of the shape itself
// As --shape takes it: "M,K,r,N", and its sizes: "4096,2048,1280,8192".
std::string shape_syntax(const Kernel& kernel);
std::string shape_sizes(const Kernel& kernel, const KernelShape& shape);
// [rows, columns] of a matrix.
Shape shape_of(const KernelShape& shape, const MatrixLayout& layout);

const OperandDescription& output_of(const Kernel& kernel);
// The operand must be there.
const OperandDescription& operand_of(const Kernel& kernel, std::string_view name);
// How an operand lies in HBM under these options.
MatrixLayout layout_of(const Kernel& kernel, const OperandDescription& operand,
                       const KernelOptions& options);

}  // namespace neuronmm::kernels
