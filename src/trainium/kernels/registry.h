#pragma once
// Every kernel by name: what it computes, its operands and their layouts, its tiling parameters,
// its closed formulas, and the function that makes the program.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainium/kernels/cost.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

struct OperandDescription {
  std::string_view name, layout;  // "x", "[M, K]"
  tile::HbmRole role;
};

// Larger sizes would overflow the 64-bit FLOP counts: 2 · 2^20 · 2^20 · 2^21 = 2^62.
inline constexpr int64_t kLargestDimension = int64_t{1} << 20;

struct TilingParameter {
  std::string name;
  int64_t value;  // the default
  std::string meaning;
  // A block of tiles, of `tile` elements each, along a dimension of the shape ('M', 'K', 'r', 'N');
  // 0: a number, of which a search tries these.
  char dimension = 0;
  int64_t tile = 1;
  int64_t least = 1, most = kLargestDimension / 128;
  std::vector<int64_t> tried = {};
  bool for_wide_sums = false;  // of no use where sums take no more bytes than operands
};

// A kernel that runs inside a larger one: its tiling parameters are there under a prefix.
struct Half {
  std::string_view prefix, kernel;  // "down.", "xtuv"
  KernelShape (*shape)(const KernelShape& whole);
};

struct Kernel {
  std::string_view name, description;
  std::vector<OperandDescription> operands;
  std::vector<TilingParameter> tiling;
  std::string_view hbm_bytes, flops, nc_matmuls;  // formulas; s = bytes per element
  bool has_rank;                                  // the shape is M, K, r, N, else M, K, N
  bool left_layout;                               // KernelOptions::left applies
  tile::Program (*make)(const KernelShape&, const Tiling&, const KernelOptions&);
  Cost (*cost)(const KernelShape&, const Tiling&, const KernelOptions&);
  // The output in Python (NumPy, torch), with tokens as the rows of x and of the result.
  std::string_view reference;
  std::vector<Half> halves = {};  // of a kernel that is two, one after the other
};

int64_t dimension_of(const KernelShape& shape, char letter);  // 'M', 'K', 'r' or 'N'

std::span<const Kernel> kernels();
Result<const Kernel*> find_kernel(std::string_view name);  // the error lists the names

using TilingValues = std::vector<std::pair<std::string, int64_t>>;

// The defaults with `chosen` in place of some.
Result<Tiling> tiling_of(const Kernel& kernel, const TilingValues& chosen);
// The same, and the row blocks (BM) that were not chosen are halved until SBUF holds the program.
Result<Tiling> fitting_tiling(const Kernel& kernel, const KernelShape& shape,
                              const KernelOptions& options, const TilingValues& chosen,
                              const tile::Limits& limits);

Result<tile::Program> make_program(const Kernel& kernel, const KernelShape& shape,
                                   const Tiling& tiling, const KernelOptions& options);

}  // namespace neuronmm::kernels
