#pragma once
// Makes matrices of coded values (base/coded_values.h) from the tensors in which another program
// stored rounded weights. Nothing is decoded here and no code is copied: the matrices read the
// mapped files. Only the group of every column is kept, 4 bytes per column of a matrix.
//
// The tensors of a module X, with N rows, K columns and G groups per row (N = out-features, p = 32
// bits of a word / bits of a code):
//
//   GPTQ    X.qweight I32 [K/p, N]: word [k/p, n] has the codes of rows k, lowest bits first
//           X.qzeros I32 [G, N/p]: zero points, less one in every field for "gptq"
//           X.scales [G, N], X.g_idx I32 [K]: the group of each column; may be missing
//   AWQ     "gemm": X.qweight I32 [K, N/8], X.qzeros I32 [G, N/8], X.scales [G, N]. The fields of a
//           word belong to columns 0, 2, 4, 6, 1, 3, 5, 7 of eight.
//           "gemv": X.qweight I32 [N, K/8], X.qzeros I32 [N, >= G/8], X.scales [N, >= G], in order
//   compressed-tensors
//           X.weight_packed I32 [N, ceil(K/p)]: codes plus 8 or 128; X.weight_shape [2]: N and K;
//           or X.weight I8 or F8_E4M3 [N, K]
//           X.weight_scale [N, G], [N], [1], [] or per block
//           X.weight_zero_point I32 [ceil(N/p), G]: word [n/p, g] has the fields of rows n, lowest
//           bits first; or I8 [N, G]
//           X.weight_g_idx [K]: the group of each column; may be missing or -1
//   FP8     X.weight F8_E4M3 [N, K] with X.weight_scale_inv or X.weight_scale as above
//
// A zero point that lacks a tensor is the middle of the codes, 8 or 128.
//
// Sources: AutoGPTQ 0.7.1 and GPTQModel 7 (qlinear), AutoAWQ 0.2.7 (awq/utils/packing_utils.py and
// awq/modules/linear), compressed-tensors 0.20.1 (compressors/pack_quantized, naive_quantized).
// GPTQModel adds one to the zero points of "gptq" word by word, so that a field of all ones carries
// into its neighbour, and so does this reader.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/coded_values.h"
#include "base/result.h"
#include "base/tensor.h"
#include "io/foreign_quantization.h"

namespace neuronmm::io {

using Tensors = std::map<std::string, TensorView>;

// The rounded weights of a folder.
struct ForeignWeights {
  std::vector<std::unique_ptr<const CodedValues>> matrices;
  // One line that says what the weights are and how much memory they take.
  std::string text;
};

// Returns whether the tensors have names under which GPTQ and AWQ store rounded weights.
bool has_foreign_tensors(const Tensors& tensors);

// Replaces the tensors of every rounded module X by X.weight, whose dtype is kForeign. Tensors that
// belong to rounded activations, keys or values are removed. Fails if tensors are missing or
// contradict each other or the config, if a group is out of range, and if a scale is not finite.
Result<ForeignWeights> decode_foreign(const ForeignQuantization& quantization,
                                      const std::filesystem::path& folder, Tensors& tensors);

}  // namespace neuronmm::io
