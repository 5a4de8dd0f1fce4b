#pragma once
// Compresses the MLPs of a model folder into a new folder. The command `compress`, the Python
// module and `fit` call it. The steps are the same for every form of an MLP:
//
//   open      opens and checks the model, the calibration text and its statistics
//   gather    computes the statistics of the text that are missing
//   choose    chooses the sizes of every layer
//   narrow    makes each compressed layer and keeps it in the work folder next to the output
//   learn     lets the layers learn from the text what the dense layers compute, if asked to
//   write     writes the new model folder, which gets its final name at the end
//
// Form uv factorizes single matrices (factorize_model.h) if the method is svd or whitened and ranks
// are uniform or measured. Every other compression chooses sizes for whole MLPs (shape_choice.h)
// and narrows these (narrow_layers.h). Mixtures of experts have a choice and a writer of their own
// (compressed_mixture.h). An error or interrupt leaves no output folder; an
// interrupted run can be continued.

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/output/factors_file.h"
#include "compress/output/model_card.h"
#include "compress/reconstruction/reconstruction.h"
#include "compress/request.h"
#include "compress/sizes/expert_sizes.h"
#include "compress/sizes/plan.h"
#include "compress/sizes/shape_choice.h"
#include "compress/statistics/data_parallel.h"
#include "compress/statistics/gathered_statistics.h"
#include "io/folder_writer.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// Measures what the compression costs, before the folder gets its final name. `compressed` is the
// folder in its present place, and `sequences` are tokens on which the two models are compared. An
// error ends the compression.
using MeasureLoss =
    std::function<Result<MeasuredLoss>(const std::filesystem::path& compressed,
                                       const std::vector<std::vector<text::TokenId>>& sequences)>;

// The result of a compression, for the caller's report.
struct CompressSummary {
  Plan plan;
  std::vector<MatrixReport> matrices;                   // if single matrices were factorized
  std::vector<LayerReport> layers;                      // if whole MLPs were narrowed
  std::optional<ExpertSizes> experts;                   // if the model is a mixture of experts
  int64_t calibration_tokens = 0;                       // 0: no text was needed
  std::optional<FormChoice> form;                       // if the request was for form auto
  std::optional<SizeChoice> sizes;                      // if sizes were measured
  std::optional<ReconstructionSummary> reconstruction;  // if layers have learnt
  std::optional<MeasuredLoss> loss;                     // empty without a text or a MeasureLoss
  int64_t parameters_before = 0, parameters_after = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
};

// Compresses a model. `backend` runs the calibration text. `progress` gets all output. on_matrix is
// called for every matrix that is factorized alone. `helpers` are processes that share the work;
// this process is then process 0. An interrupted run keeps what is finished in out + ".partial",
// and the same request continues it. Fails on requests that check_request() refuses, models that
// are compressed already, texts and statistics that do not fit the model, and outputs that
// io::FolderWriter refuses.
Result<CompressSummary> compress(const CompressRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix = {},
                                 const MeasureLoss& measure = {}, DataParallel* helpers = nullptr,
                                 const io::BeforeOutput<CompressSummary>& before_output = {});

}  // namespace neuronmm::compress
