#pragma once
// Stores the factors of one matrix in a file with a checksum in the work folder, where they wait
// until the model is written. An interrupted run that continues need not compute them again.
// factorize_model.h and quantize.cc write the files; model_writer.h reads them.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "compress/factors/factorize.h"
#include "compress/sizes/plan.h"
#include "io/safetensors.h"

namespace neuronmm::compress {

// The report about one factorized matrix.
struct MatrixReport {
  int64_t layer = 0;
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t rank = 0;
  double kept_share = 1.0;
  double energy_lost = 0.0;  // the share of energy that the truncation loses (factorize.h)
};
using OnMatrix = std::function<void(const MatrixReport&)>;

// Returns the report about factors that are in `work` already. Returns nothing if the file of this
// plan's matrix is missing or damaged, or has another rank or dtype.
std::optional<MatrixReport> finished_factors(const std::filesystem::path& work,
                                             const MatrixPlan& plan, DType dtype);
// Writes the factors in staged_dtype(stored). Refuses values beyond the range of that dtype.
Result<MatrixReport> save_factors(const std::filesystem::path& work, const MatrixPlan& plan,
                                  const Factors& factors, const StoredFormat& stored);
// Opens the file of a matrix. It has the tensors "u_t" [r, K] and "v_t" [N, r], and in
// "singular_values" all singular values in F64. Fails if the file is missing or damaged.
Result<io::SafetensorsFile> open_factors(const std::filesystem::path& work, int64_t layer,
                                         MlpMatrix matrix);

}  // namespace neuronmm::compress
