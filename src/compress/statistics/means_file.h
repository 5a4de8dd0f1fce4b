#pragma once
// Reads and writes a checked file of means over the tokens of a text, as F64 tensors. A symmetric
// matrix is stored as its lower triangle, column after column, [n (n + 1) / 2]. The files of
// mlp_statistics.h have this format. fp32 would not be precise enough. With thousands of neurons
// that move together, the rounding errors of the entries add up to about the ridge that is added
// later (neuron_ridge()). The matrix might then have no Cholesky factor.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// The name and shape of a mean.
struct Mean {
  std::string name;
  // The shape of the matrix, of two dimensions.
  Shape shape;
  bool symmetric = false;
};

// Writes sums[i] / tokens under the name means[i]. Only the lower triangle of a symmetric sum is
// read. The values of the sums are overwritten. Fails if a mean is NaN or infinite; the error names
// `source`.
Status write_means(const std::filesystem::path& path, std::span<const Mean> means,
                   std::span<DoubleMatrix* const> sums, int64_t tokens, const std::string& source);
// Reads the means. Symmetric matrices are returned whole. Fails if there is no file or if it has
// other tensors.
Result<std::vector<DoubleMatrix>> read_means(const std::filesystem::path& path,
                                             std::span<const Mean> means);
// Fails unless the file has these tensors and its checksum is right.
Status check_means(const std::filesystem::path& path, std::span<const Mean> means);

}  // namespace neuronmm::compress
