#pragma once
// This file defines what every kernel is made from: the shape of its problem, its tiling parameters
// and its options. The kernels in this folder, the tuner and the commands use these types. The
// types do no checks; make_program (registry.h) checks shape and options.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainium/tile/builder.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

// The sizes of a problem, M tokens x K in x r rank x N out, with the paper's letters. Plain matmuls
// do not use r. An MLP whose input and output are narrowed differently has r for its input and s
// for its output. A mixture has E experts, of which each token chooses A (active); the tokens
// together choose D distinct ones.
struct KernelShape {
  int64_t M = 0, K = 0, r = 0, N = 0, s = 0;
  int64_t E = 0, A = 0, D = 0;
};

// Tiling parameters by name, in tiles: {"BM", 8}, {"BK", 4}, ... The values keep the order in which
// the kernel describes them.
class Tiling {
 public:
  Tiling() = default;
  Tiling(std::vector<std::pair<std::string, int64_t>> values) : values_(std::move(values)) {}

  int64_t operator[](std::string_view name) const;  // The parameter must exist.
  int64_t value_or(std::string_view name, int64_t otherwise) const;
  bool set(std::string_view name, int64_t value);  // Returns false if there is no such parameter.
  const std::vector<std::pair<std::string, int64_t>>& values() const { return values_; }

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

// Returns the step of a loop over blocks: `tile` elements times the tiling parameter, with the
// parameter's name.
inline tile::Step block_step(const Tiling& tiling, std::string_view name, int64_t tile) {
  return {tiling[name] * tile, name};
}

// How a matrix with tokens lies in HBM: with tokens as rows (natural) or as columns.
enum class Layout { kNatural, kTransposed };

// The choices that change what a kernel computes, apart from its shape and tiling.
struct KernelOptions {
  DType dtype = DType::kBF16;  // The dtype of all operands: kBF16 or kF32.
  // The dtype of partial sums between the blocks of a contraction. kBF16 (with bf16 operands)
  // rounds the sums at every block, as the published kernels do.
  DType accumulate = DType::kF32;
  Layout left = Layout::kTransposed;  // For plain matmuls only: X^T [K, M] or X [M, K] in HBM.
};

// The largest operands of one Tensor instruction (documented: Trainium architecture guide for NKI,
// tensor engine and PSUM).
inline constexpr int64_t kPartitions = 128;  // The contraction, along the partitions.
inline constexpr int64_t kStationaryFree = 128;
inline constexpr int64_t kMovingFree = 512;  // Also the size of one PSUM bank of fp32.
inline constexpr int64_t kPsumBanks = 8;

}  // namespace neuronmm::kernels
