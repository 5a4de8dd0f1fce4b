#pragma once
// Gram matrices of the MLPs: what whitening needs to know about the calibration text.
//
// H hidden_size. Of every layer, over all calibration tokens:
//   in  [H, H] = Σ x xᵀ, x the input of gate and up (after post_attention_layernorm)
//   out [H, H] = Σ y yᵀ, y the output of down (before the residual is added)

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// sum += Σ x xᵀ over the rows x of [M, n], in fp64; of sum [n, n] the lower triangle only. Here and
// below a larger sum takes it in its first rows and columns.
void add_gram(ConstMatrixView rows, DoubleMatrix& sum);
// sum += Σ a bᵀ over the rows a, b of [M, m] and [M, n], in fp64; sum [m, n].
void add_cross_gram(ConstMatrixView a, ConstMatrixView b, DoubleMatrix& sum);
// The whole of a symmetric matrix from its lower triangle.
DoubleMatrix symmetric(const DoubleMatrix& lower_triangle);

struct LayerGrams {
  DoubleMatrix in, out;  // [H, H]
};
using GramSource = std::function<Result<LayerGrams>(int64_t layer)>;

// What a saved file says about itself; part of the safetensors metadata.
struct GramOrigin {
  int64_t tokens = 0;
  std::string text;                                 // the name and hash of the calibration text
  std::vector<io::CalibrationSource> sources = {};  // for the record; files of old have none
};

// A safetensors file of F64 tensors model.layers.N.mlp.gram_in and .gram_out for layers [first,
// first + count), written layer by layer.
Status write_gram_file(const std::filesystem::path& path, const io::ModelConfig& config,
                       const GramOrigin& origin, int64_t first, int64_t count,
                       const GramSource& source);

// A file of Gram matrices that fits a model. Only one layer is ever in memory: the file is mapped
// again for each, because mapped pages that were read count as memory in use.
class GramFile {
 public:
  // Checks all of it: every layer of the config present and none beside them, [H, H], F64, finite,
  // symmetric, no negative diagonal.
  static Result<GramFile> open(const std::filesystem::path& path, const io::ModelConfig& config);

  const GramOrigin& origin() const { return origin_; }
  Result<LayerGrams> load(int64_t layer) const;

 private:
  std::filesystem::path path_;
  int64_t hidden_size_ = 0;
  GramOrigin origin_;
};

// The matrices of one layer in any such file.
Result<LayerGrams> read_layer_grams(const std::filesystem::path& path, int64_t layer,
                                    int64_t hidden_size);

}  // namespace neuronmm::compress
