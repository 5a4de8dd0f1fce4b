#include "compress/quantize.h"

#include <algorithm>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/kept_work.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "base/threads.h"
#include "compress/compressed_folder.h"
#include "compress/expected_tasks.h"
#include "compress/linear_algebra/blas.h"
#include "compress/output/model_writer.h"
#include "compress/quantize_settings.h"
#include "compress/quantized_folder.h"
#include "compress/rounding/calibrated_rounding.h"
#include "compress/rounding/factor_rounding.h"
#include "compress/statistics/calibration_input.h"
#include "compress/statistics/work_folder.h"
#include "io/checkpoint.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// A low-rank matrix of the model.
struct LowRankMatrix {
  MatrixPlan plan;
  std::string u_name, v_name;  // the names of its tensors
};

std::string name_of(const LowRankMatrix& matrix) {
  return fmt::format("layer {} {}", matrix.plan.layer, matrix_name(matrix.plan.matrix));
}

// Returns the low-rank MLP matrices of the model. Fails if names or shapes of a layer are wrong.
Result<std::vector<LowRankMatrix>> low_rank_matrices(const io::Checkpoint& checkpoint,
                                                     const io::ModelConfig& config) {
  std::vector<LowRankMatrix> matrices;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    for (const MlpMatrix which : kMlpMatrices) {
      const ops::LinearWeight& weight = weight_of(weights.mlp, which);
      if (!weight.low_rank()) continue;
      MatrixPlan plan = {.layer = layer, .matrix = which};
      plan.in_features = weight.in_features();
      plan.out_features = weight.out_features();
      plan.rank = weight.rank();
      plan.kept_share = kept_share(plan.in_features, plan.out_features, plan.rank);
      const std::string stem = fmt::format("{}layers.{}.mlp.{}", model::tensor_prefix(checkpoint),
                                           layer, matrix_name(which));
      matrices.push_back({plan, stem + "_v_proj.weight", stem + "_u_proj.weight"});
    }
  }
  return matrices;
}

std::vector<std::string> tensor_names(const io::Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors()) names.push_back(name);
  return names;
}

// Refuses a request that needs a text but has none, or that uses one folder for two purposes.
Status check_request(const QuantizeRequest& request) {
  if (!request.statistics.empty()) {
    NMM_ASSIGN(const fs::path statistics, io::resolved_path(request.statistics));
    NMM_ASSIGN(const fs::path out, io::resolved_path(request.out));
    if (statistics == out) {
      return fail("{}: expected different folders for the model and the statistics",
                  request.out.string());
    }
  }
  const bool by_text = request.smooth || request.rounding == Rounding::kGptq;
  if (!by_text || request.calibration || !request.statistics.empty()) return {};
  return fail("rounding by Gram matrices, and smoothing, need a calibration text or statistics");
}

nlohmann::ordered_json exceptions_json(const io::Quantization& quantization) {
  nlohmann::ordered_json exceptions;
  for (const auto& [module, format] : quantization.exceptions) {
    exceptions[module] = io::format_text(format);
  }
  return exceptions;
}

// Returns all settings on which the results depend, as a text. Statistics without a text are
// identified by their files, and those with a text by the text.
Result<std::string> settings_of(const QuantizeRequest& request, const CalibrationInput& text,
                                const nlohmann::ordered_json& model_identity,
                                const io::Quantization& quantization) {
  nlohmann::ordered_json settings = {{"settings", settings_json(request)},
                                     {"exceptions", exceptions_json(quantization)},
                                     {"model", model_identity}};
  if (const CalibrationOrigin* const origin = text.origin()) {
    settings["calibration"] = {{"text", origin->text}, {"tokens", origin->tokens}};
  }
  if (text.statistics && !text.text) {
    NMM_ASSIGN(settings["statistics"], io::folder_identity(request.statistics));
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return settings.dump(2, ' ', false, kReplace) + "\n";
}

// Returns the factors of a matrix, fitted to each other's rounding (factor_rounding.h).
Result<Factors> round_matrix(const LowRankMatrix& matrix, const io::Checkpoint& checkpoint,
                             const TensorScales& scales, const LowBitFormat& format) {
  DoubleMatrix second = scaled_matrix(scales, matrix.v_name, checkpoint);
  DoubleMatrix first = scaled_matrix(scales, matrix.u_name, checkpoint);
  if (!first.all_finite() || !second.all_finite()) {
    return fail("{}: {}: its factors hold NaN or infinity", checkpoint.folder().string(),
                name_of(matrix));
  }
  FactorPair fitted = fit_to_rounded(std::move(second), std::move(first), format);
  return Factors{std::move(fitted.v_t), std::move(fitted.u_t), {}};
}

// Fits the factors of all matrices and writes them to `work`. Matrices whose factors are there are
// skipped.
Status round_all(const std::vector<LowRankMatrix>& matrices, const io::Checkpoint& checkpoint,
                 const TensorScales& scales, const LowBitFormat& format, const fs::path& work,
                 Progress& progress, const OnMatrix& on_matrix) {
  const int64_t total = std::ssize(matrices);
  const int64_t found = std::ranges::count_if(matrices, [&](const LowRankMatrix& matrix) {
    return finished_factors(work, matrix.plan, DType::kF32).has_value();
  });
  if (found > 0 && found < total) {
    progress.print(std::string(task::kRoundingFactors) + ": " +
                   found_text(found, total, "matrix", "matrices"));
  }
  progress.start(task::kRoundingFactors, total, found);
  for (int64_t done = 0; done < std::ssize(matrices);) {
    if (interrupted()) {
      return interrupted_error(fmt::format("{} of {} matrices are rounded", done, matrices.size()));
    }
    // Each thread fits a matrix. Finished matrices are saved before
    // an interrupt is noticed.
    const int64_t count = std::min(std::ssize(matrices) - done, int64_t{num_threads()});
    const std::span group =
        std::span(matrices).subspan(static_cast<size_t>(done), static_cast<size_t>(count));
    std::vector<Status> statuses(group.size());
    run_on_threads(count, [&](int64_t i) {
      const LowRankMatrix& matrix = group[static_cast<size_t>(i)];
      statuses[static_cast<size_t>(i)] = [&]() -> Status {
        if (finished_factors(work, matrix.plan, DType::kF32)) return {};
        NMM_ASSIGN(const Factors factors, round_matrix(matrix, checkpoint, scales, format));
        NMM_TRY(save_factors(work, matrix.plan, factors, format));
        return {};
      }();
    });
    for (size_t i = 0; i < group.size(); ++i) {
      NMM_TRY(statuses[i]);
      const MatrixPlan& plan = group[i].plan;
      progress.update(++done, name_of(group[i]));
      if (on_matrix) on_matrix({plan.layer, plan.matrix, plan.rank, plan.kept_share});
    }
  }
  progress.finish();
  return {};
}

training::Rows<float> to_rows(const DoubleMatrix& matrix) {
  training::Rows<float> rows(matrix.rows(), matrix.columns());
  parallel_for(rows.rows(), [&](int64_t i) {
    for (int64_t j = 0; j < rows.columns(); ++j) rows.row(i)[j] = static_cast<float>(matrix(i, j));
  });
  return rows;
}

// A run whose inputs are opened and checked.
class QuantizeRun {
 public:
  QuantizeRun(const QuantizeRequest& request, const ops::Backend& backend, Progress& progress,
              DataParallel* helpers, const io::Checkpoint& checkpoint,
              const io::ModelConfig& config, const CalibrationInput& text)
      : request_(request),
        backend_(backend),
        progress_(progress),
        helpers_(helpers),
        checkpoint_(checkpoint),
        config_(config),
        text_(text),
        quantization_(quantization_of(request.formats, config, tensor_names(checkpoint))) {
    if (text.origin() != nullptr) quantization_.calibration = text.origin()->sources;
  }

  const io::Quantization& quantization() const { return quantization_; }
  // Returns what layers have learnt, once the folder is written.
  std::optional<ReconstructionSummary> take_reconstruction() { return std::move(reconstruction_); }

  // Writes the new folder, except the files that are copied.
  Status write(const std::vector<LowRankMatrix>& matrices, const io::FolderWriter& output,
               const fs::path& work, const OnMatrix& on_matrix) {
    RoundedByText rounded;
    if (text_.origin() != nullptr) {
      NMM_ASSIGN(rounded, by_text(work));
    }
    // Matrices whose factors are in `work`. The list is empty if the codes of all tensors are
    // there.
    std::vector<MatrixPlan> fitted;
    if (rounded.codes.empty()) {
      NMM_TRY(round_all(matrices, checkpoint_, rounded.scales, quantization_.format, work,
                        progress_, on_matrix));
      for (const LowRankMatrix& matrix : matrices) fitted.push_back(matrix.plan);
    }
    const ModelSource source = {.checkpoint = checkpoint_,
                                .config = config_,
                                .matrices = fitted,
                                .work = work,
                                .scales = std::move(rounded.scales),
                                .codes = std::move(rounded.codes)};
    NMM_TRY(learn_codes(source, work));
    return write_quantized_folder(
        {source, quantization_, reconstruction_ ? &*reconstruction_ : nullptr}, output, progress_);
  }

 private:
  CompressionInputs inputs() const {
    return {.checkpoint = checkpoint_,
            .config = config_,
            .backend = backend_,
            .text = text_.text ? &*text_.text : nullptr,
            .progress = progress_,
            .helpers = helpers_};
  }

  Result<RoundedByText> by_text(const fs::path& work) const {
    const CalibratedRounding rounding = {.smooth = request_.smooth,
                                         .gptq = request_.rounding == Rounding::kGptq,
                                         .statistics = request_.statistics,
                                         .saved = text_.statistics ? &*text_.statistics : nullptr,
                                         .force = request_.force};
    return round_by_text(inputs(), rounding, quantization_, work);
  }

  // Lets the layers learn from the text, from the codes of the rounding on.
  Status learn_codes(const ModelSource& source, const fs::path& work) {
    NMM_ASSIGN(const auto plan, planned_reconstruction(request_.reconstruct, inputs()));
    if (!plan) return {};
    NMM_TRY(write_unreconstructed_codes({source, quantization_}, progress_));
    // Without codes the factors of a product were fitted anew, so that they are near no floats.
    Originals originals;
    if (!source.codes.empty()) {
      originals = [&](const std::string& tensor) {
        return to_rows(scaled_matrix(source.scales, tensor, checkpoint_));
      };
    }
    NMM_ASSIGN(reconstruction_,
               reconstruct(inputs(), unreconstructed_model(work), *plan, work, originals));
    quantization_.reconstruction_tokens = reconstruction_->tokens;
    return {};
  }

  const QuantizeRequest& request_;
  const ops::Backend& backend_;
  Progress& progress_;
  DataParallel* helpers_;
  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const CalibrationInput& text_;
  io::Quantization quantization_;
  std::optional<ReconstructionSummary> reconstruction_;
};

}  // namespace

Result<QuantizeSummary> quantize(const QuantizeRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix,
                                 DataParallel* helpers,
                                 const io::BeforeOutput<QuantizeSummary>& before_output) {
  const fs::path& model = request.model;
  NMM_TRY(check_request(request));
  NMM_TRY(check_learning(request, OptionNames::kKeywords));
  // BLAS is loaded first, so that a missing library is reported at once.
  NMM_TRY(load_blas());
  const auto if_exists =
      request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
  NMM_TRY(io::FolderWriter::check(request.out, if_exists, model));
  NMM_ASSIGN(const nlohmann::ordered_json identity, io::folder_identity(model));
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(model));
  const io::ModelConfig& config = opened.config;
  const io::Checkpoint& checkpoint = opened.checkpoint;
  if (config.quantization) {
    return fail(
        "{}: its weights are rounded already ({}); quantize the original model, or the floats of "
        "this one with --dequantize",
        model.string(), io::quantization_text(*config.quantization));
  }
  NMM_TRY(check_table(request.formats, config, model.string()));
  NMM_TRY(model::check_head(checkpoint, config));
  NMM_TRY(check_reconstruct(request.reconstruct, config, TrainingMachine::this_one()));
  NMM_ASSIGN(const auto matrices, low_rank_matrices(checkpoint, config));
  NMM_ASSIGN(const CalibrationInput text, open_calibration(request.calibration, request.statistics,
                                                           checkpoint, config, progress));
  NMM_ASSIGN(auto output, io::FolderWriter::create(request.out, if_exists, model));
  progress.expect(expected_tasks(request));
  QuantizeRun run(request, backend, progress, helpers, checkpoint, config, text);
  NMM_ASSIGN(const std::string settings, settings_of(request, text, identity, run.quantization()));
  NMM_TRY(open_work_folder(
      output.resume_folder(), settings,
      request.force || request.deletes_work ? OtherWork::kDelete : OtherWork::kRefuse, progress));
  std::optional<KeptWork> kept;
  // Rounding floats to nearest is done while they are written, so that nothing is kept.
  if (request.calibration || !request.statistics.empty() || !matrices.empty())
    kept.emplace(output.resume_folder().parent_path().string());
  NMM_TRY(run.write(matrices, output, output.resume_folder(), on_matrix));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  QuantizeSummary summary = {checkpoint.parameters(), checkpoint.size_bytes(), 0,
                             text.origin() == nullptr ? 0 : text.origin()->tokens,
                             run.take_reconstruction()};
  {
    NMM_ASSIGN(const auto written, io::Checkpoint::open(output.staging()));
    summary.bytes_after = written.size_bytes();
  }
  NMM_TRY(io::check_unchanged(model, identity));
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(output.commit());
  return summary;
}

}  // namespace neuronmm::compress
