#pragma once
// What every kernel is made from: the shape of its problem, its tiling parameters and its options.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainium/tile/builder.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// M tokens x K in x r rank x N out, with the paper's letters. Plain matmuls do not use r; an MLP
// whose input and output are narrowed differently has r for its input and s for its output.
struct KernelShape {
  int64_t M = 0, K = 0, r = 0, N = 0, s = 0;
};

// Tiling parameters by name, in tiles: {"BM", 8}, {"BK", 4}, ...
class Tiling {
 public:
  Tiling() = default;
  Tiling(std::vector<std::pair<std::string, int64_t>> values) : values_(std::move(values)) {}

  int64_t operator[](std::string_view name) const;  // the parameter must be there
  int64_t value_or(std::string_view name, int64_t otherwise) const;
  bool set(std::string_view name, int64_t value);  // false: no such parameter
  const std::vector<std::pair<std::string, int64_t>>& values() const { return values_; }

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

// The step of a loop over blocks: `tile` elements times the tiling parameter, under its name.
inline tile::Step block_step(const Tiling& tiling, std::string_view name, int64_t tile) {
  return {tiling[name] * tile, name};
}

enum class Layout { kNatural, kTransposed };

struct KernelOptions {
  DType dtype = DType::kBF16;  // of all operands; kBF16 or kF32
  // What partial sums are kept in between the blocks of a contraction. kBF16 (with bf16 operands)
  // rounds them at every block, as the published kernels do.
  DType accumulate = DType::kF32;
  Layout left = Layout::kTransposed;  // plain matmuls only: X^T [K, M] or X [M, K] in HBM
};

// What one Tensor instruction takes (Trainium architecture guide for NKI, tensor engine and PSUM).
inline constexpr int64_t kPartitions = 128;  // contraction
inline constexpr int64_t kStationaryFree = 128;
inline constexpr int64_t kMovingFree = 512;  // also one PSUM bank of fp32
inline constexpr int64_t kPsumBanks = 8;

}  // namespace neuronmm::kernels
