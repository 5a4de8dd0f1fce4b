#pragma once
// A checked file of means over the tokens of a text, F64 tensors. Of a symmetric matrix it holds
// the lower triangle, column after column, [n (n + 1) / 2]. Not in fp32: of thousands of neurons
// that move together the rounding of the entries adds up to about the ridge of predicted_loss.cc,
// and what is left may have no Cholesky factor.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

struct Mean {
  std::string name;
  Shape shape;  // of two dimensions
  bool symmetric = false;
};

// Writes sums[i] / tokens under means[i]; of a symmetric sum the lower triangle is read. The sums
// are used up. `source` is what an error of NaN or infinity names.
Status write_means(const std::filesystem::path& path, std::span<const Mean> means,
                   std::span<DoubleMatrix* const> sums, int64_t tokens, const std::string& source);
// Errors: no file, other tensors than these. Symmetric ones come whole.
Result<std::vector<DoubleMatrix>> read_means(const std::filesystem::path& path,
                                             std::span<const Mean> means);
// The file has its checksum and these tensors.
Status check_means(const std::filesystem::path& path, std::span<const Mean> means);

}  // namespace neuronmm::compress
