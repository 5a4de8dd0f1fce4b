#pragma once
// What an unfinished compression keeps in the work folder beside its output. It
// holds the settings of the run, the Gram matrices of calibrated layers and the factors of finished
// matrices. A run with the same settings goes on from it; any other starts afresh.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "compress/factorize.h"
#include "compress/plan.h"
#include "io/safetensors.h"

namespace neuronmm::compress {

struct MatrixReport {
  int64_t layer = 0;
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t rank = 0;
  double kept_share = 1.0;
  double energy_lost = 0.0;
};

class StagedWork {
 public:
  // `folder`: FolderWriter::resume_folder(). `settings`: a text that differs whenever the results
  // would; what a run with others left there is deleted.
  static Result<StagedWork> open(const std::filesystem::path& folder, const std::string& settings);

  const std::filesystem::path& path() const { return path_; }
  // A folder in it for other factors of the same matrices.
  Result<StagedWork> subfolder(const std::string& name) const;
  // nullopt unless a finished matrix of this plan lies there.
  std::optional<MatrixReport> finished(const MatrixPlan& plan, DType dtype) const;
  Status save(const MatrixPlan& plan, DType dtype, const Factors& factors) const;
  // Tensors "u_t" [r, K], "v_t" [N, r] and "singular_values", F64, all of them.
  Result<io::SafetensorsFile> open_factors(int64_t layer, MlpMatrix matrix) const;

 private:
  explicit StagedWork(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path factor_path(int64_t layer, MlpMatrix matrix) const;

  std::filesystem::path path_;
};

}  // namespace neuronmm::compress
