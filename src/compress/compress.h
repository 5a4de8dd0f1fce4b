#pragma once
// Compresses a model folder: plan the ranks, gather Gram matrices, factorize, write a new folder.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/data_parallel.h"
#include "compress/factorize_matrix.h"
#include "compress/form_choice.h"
#include "compress/gathered_statistics.h"
#include "compress/model_card.h"
#include "compress/plan.h"
#include "compress/request.h"
#include "compress/shape_model.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// What the result costs, asked of the caller before it gets its name: `compressed` is the folder as
// it stands, `sequences` are tokens to compare the two models on. An error ends the compression.
using Measure =
    std::function<Result<MeasuredLoss>(const std::filesystem::path& compressed,
                                       const std::vector<std::vector<text::TokenId>>& sequences)>;

struct CompressSummary {
  Plan plan;
  std::vector<MatrixReport> matrices;                   // of form uv
  std::vector<LayerReport> layers;                      // of all other forms
  int64_t calibration_tokens = 0;                       // 0: none were needed
  std::optional<FormChoice> form;                       // of form auto
  std::optional<SizeChoice> sizes;                      // where they were measured
  std::optional<MeasuredLoss> loss;                     // nothing without a text or a Measure
  int64_t parameters_before = 0, parameters_after = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
};

// `backend` runs the calibration text. An interrupted run keeps what it finished beside the output
// (out + ".partial") and the same request goes on from there. Needs a silent Progress or a visible
// one; prints nothing else. `others`: processes that share the work; this is process 0.
Result<CompressSummary> compress(const CompressRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix = {},
                                 const Measure& measure = {}, const MakeMetric& make_metric = {},
                                 DataParallel* others = nullptr);

}  // namespace neuronmm::compress
