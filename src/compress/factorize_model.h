#pragma once
// Factorizes all planned matrices of a model, several layers at once. compress.cc uses it for form
// uv with ranks per matrix.
//
// Each layer uses one thread with single-threaded BLAS. The LAPACK routines have many short
// parallel sections and gain little from threads; they become up to 20 times slower if other
// processes need the cores. Layers are independent of each other. The results are also the same for
// any number of threads.

#include "base/result.h"
#include "compress/linear_algebra/gram.h"
#include "compress/output/factors_file.h"
#include "compress/sizes/plan.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Computes the factors that `plan` asks for and writes them to the folder `work` (factors_file.h),
// in the formats of `weights`. Matrices whose factors are there are skipped. If `grams` is
// null, the method is plain SVD. on_matrix is called for every matrix when it is finished, by one
// thread at a time. The reports are in the plan's order. interrupted() is asked between matrices,
// and an interrupt returns an error that says what is kept. Fails if a weight is not finite or a
// factor exceeds the range of its dtype.
Result<std::vector<MatrixReport>> factorize_model(const CompressionInputs& inputs, const Plan& plan,
                                                  const WeightFormats& weights,
                                                  const GramSource& grams,
                                                  const std::filesystem::path& work,
                                                  const OnMatrix& on_matrix);

}  // namespace neuronmm::compress
