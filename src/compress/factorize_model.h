#pragma once
// Factorizes all planned matrices of a model, several layers at once.
//
// Each layer is one thread's work with single-threaded BLAS: the LAPACK routines in question are
// full of short parallel sections and gain little from threads (and lose 20-fold when other
// processes want the cores), while layers are independent. It also makes the results the same
// with any number of threads.

#include "base/result.h"
#include "compress/factors_file.h"
#include "compress/gram.h"
#include "compress/inputs.h"
#include "compress/plan.h"

namespace neuronmm::compress {

// Leaves the factors that `plan` asks for in the folder `work`, to be stored as `weights` says, and
// skips those that are there. Without `grams` (null): plain SVD. on_matrix is called for every
// matrix as it is finished, from one thread at a time. Asks interrupted() between matrices. The
// reports are in the plan's order.
Result<std::vector<MatrixReport>> factorize_model(const CompressionInputs& inputs, const Plan& plan,
                                                  const WeightFormats& weights,
                                                  const GramSource& grams,
                                                  const std::filesystem::path& work,
                                                  const OnMatrix& on_matrix);

}  // namespace neuronmm::compress
