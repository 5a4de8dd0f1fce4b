#pragma once
// Compresses a model folder. The steps are the same for every form of an MLP:
//
//   open      the model, the calibration text and its statistics; everything that can be refused
//   gather    what the text says of the model
//   choose    the sizes of every layer
//   narrow    each layer, into the work folder beside the output
//   write     the new model folder, which gets its name at the end
//
// Form uv of one rank per matrix, or of measured ranks, factorizes matrix by matrix
// (factorize_model.h). All else chooses sizes for whole MLPs (shape_choice.h) and narrows them
// (narrow_layers.h).

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/data_parallel.h"
#include "compress/factors_file.h"
#include "compress/gathered_statistics.h"
#include "compress/model_card.h"
#include "compress/plan.h"
#include "compress/request.h"
#include "compress/shape_choice.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// What the result costs, asked of the caller before it gets its name: `compressed` is the folder as
// it stands, `sequences` are tokens to compare the two models on. An error ends the compression.
using Measure =
    std::function<Result<MeasuredLoss>(const std::filesystem::path& compressed,
                                       const std::vector<std::vector<text::TokenId>>& sequences)>;

struct CompressSummary {
  Plan plan;
  std::vector<MatrixReport> matrices;                   // where each matrix was factorized alone
  std::vector<LayerReport> layers;                      // where whole MLPs were narrowed
  int64_t calibration_tokens = 0;                       // 0: none were needed
  std::optional<FormChoice> form;                       // of form auto
  std::optional<SizeChoice> sizes;                      // where they were measured
  std::optional<MeasuredLoss> loss;                     // nothing without a text or a Measure
  int64_t parameters_before = 0, parameters_after = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
};

// `backend` runs the calibration text. An interrupted run keeps what it finished beside the output
// (out + ".partial") and the same request goes on from there. Prints nothing but through
// `progress`. `others`: processes that share the work; this is process 0.
Result<CompressSummary> compress(const CompressRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix = {},
                                 const Measure& measure = {}, const MakeMetric& make_metric = {},
                                 DataParallel* others = nullptr);

}  // namespace neuronmm::compress
