#include "compress/quantize.h"

#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/threads.h"
#include "compress/blas.h"
#include "compress/calibrated_rounding.h"
#include "compress/factorize.h"
#include "compress/found_ranks.h"
#include "compress/model_card.h"
#include "compress/model_writer.h"
#include "compress/staged_work.h"
#include "compress/transformers_code.h"
#include "io/checkpoint.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

struct LowRankMatrix {
  MatrixPlan plan;
  std::string u_name, v_name;  // of its tensors
};

std::string name_of(const LowRankMatrix& matrix) {
  return fmt::format("layer {} {}", matrix.plan.layer, matrix_name(matrix.plan.matrix));
}

// Checks names and shapes of all layers on the way.
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

// What a text says of the model, opened and checked before anything is written.
struct RoundingText {
  std::optional<CalibrationSequences> sequences;
  std::optional<SavedStatistics> statistics;

  const GramOrigin* origin() const {
    if (sequences) return &sequences->origin;
    return statistics ? &statistics->origin() : nullptr;
  }
};

Result<RoundingText> rounding_text(const QuantizeRequest& request, const io::Checkpoint& checkpoint,
                                   const io::ModelConfig& config, Progress& progress) {
  RoundingText text;
  const bool by_text = request.smooth || request.rounding == Rounding::kGptq;
  if (by_text && !request.calibration && request.statistics.empty()) {
    return fail("rounding by Gram matrices, and smoothing, need a calibration text or statistics");
  }
  if (request.calibration) {
    NMM_ASSIGN(text.sequences,
               encoded_calibration(*request.calibration, request.model, config, progress));
  }
  if (request.statistics.empty()) return text;
  NMM_ASSIGN(text.statistics, SavedStatistics::open(request.statistics, checkpoint, config));
  if (text.sequences) NMM_TRY(text.statistics->check_texts(*text.sequences));
  progress.print(fmt::format("statistics: {} tokens, saved in {}", text.statistics->origin().tokens,
                             request.statistics.string()));
  return text;
}

nlohmann::ordered_json exceptions_json(const io::Quantization& quantization) {
  nlohmann::ordered_json exceptions;
  for (const auto& [module, format] : quantization.exceptions) {
    exceptions[module] = io::format_text(format);
  }
  return exceptions;
}

std::string settings_of(const QuantizeRequest& request, const RoundingText& text,
                        const nlohmann::ordered_json& model_identity,
                        const io::Quantization& quantization) {
  nlohmann::ordered_json settings = {{"weights", io::quantization_text(quantization)},
                                     {"exceptions", exceptions_json(quantization)},
                                     {"gptq", request.rounding == Rounding::kGptq},
                                     {"smooth", request.smooth},
                                     {"model", model_identity}};
  if (const GramOrigin* const origin = text.origin()) {
    settings["calibration"] = {{"text", origin->text}, {"tokens", origin->tokens}};
  }
  if (text.statistics) {
    settings["statistics"] = io::folder_identity(request.statistics).value();
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return settings.dump(2, ' ', false, kReplace) + "\n";
}

Result<Factors> round_matrix(const LowRankMatrix& matrix, const io::Checkpoint& checkpoint,
                             const TensorScales& scales, const LowBitFormat& format) {
  DoubleMatrix second = scaled_matrix(scales, matrix.v_name, checkpoint);
  DoubleMatrix first = scaled_matrix(scales, matrix.u_name, checkpoint);
  if (!first.all_finite() || !second.all_finite()) {
    return fail("{}: {}: its factors hold NaN or infinity", checkpoint.folder().string(),
                name_of(matrix));
  }
  return fit_to_rounded(std::move(second), std::move(first), format);
}

// Leaves the rounded factors in `work` and skips those that are there. As many matrices at once as
// there are threads.
Status round_all(const std::vector<LowRankMatrix>& matrices, const io::Checkpoint& checkpoint,
                 const TensorScales& scales, const LowBitFormat& format, const StagedWork& work,
                 Progress& progress, const OnMatrix& on_matrix) {
  progress.start("rounding factors", std::ssize(matrices));
  for (int64_t done = 0; done < std::ssize(matrices);) {
    if (interrupted()) {
      return interrupted_error(
          fmt::format("{} of {} matrices are kept in {}; run the same command again to go on", done,
                      matrices.size(), work.path().parent_path().string()));
    }
    // As many matrices at once as there are threads; what is finished is saved before an interrupt
    // is looked at.
    const int64_t count = std::min(std::ssize(matrices) - done, int64_t{num_threads()});
    const std::span group =
        std::span(matrices).subspan(static_cast<size_t>(done), static_cast<size_t>(count));
    std::vector<Status> statuses(group.size());
    run_on_threads(count, [&](int64_t i) {
      const LowRankMatrix& matrix = group[static_cast<size_t>(i)];
      statuses[static_cast<size_t>(i)] = [&]() -> Status {
        if (work.finished(matrix.plan, DType::kF32)) return {};
        NMM_ASSIGN(const Factors factors, round_matrix(matrix, checkpoint, scales, format));
        return work.save(matrix.plan, DType::kF32, factors);
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

Status write_card(const ModelSource& source, const io::Quantization& quantization,
                  const io::FolderWriter& output) {
  const int bits = quantization.format.bits;
  const std::string weights = io::quantization_text(quantization);
  ModelCard card = model_card(output.out(), source.checkpoint.folder(),
                              bits == 8 ? " with int8 weights" : fmt::format(" in {} bits", bits));
  card.tags = {bits_tag(quantization.format)};
  card.facts = {{"weights", weights}};
  if (const auto& record = source.config.compression) {
    card.tags.emplace_back(form_tag(record->form));
    card.facts = compression_facts(*record, source.config, weights);
  }
  for (const io::CalibrationSource& text : quantization.calibration) {
    card.facts.emplace_back("rounded by", fmt::format("{} tokens of {}", text.tokens, text.name));
  }
  return io::write_text_file(output.staging() / "README.md", model_card_text(card));
}

Status write_folder(const ModelSource& source, const io::Quantization& quantization,
                    const io::FolderWriter& output, Progress& progress) {
  const fs::path& model = source.checkpoint.folder();
  const fs::path original = model / "config.json";
  NMM_TRY(write_model(source, quantization, output.staging(), progress));
  NMM_ASSIGN(std::string config, io::read_text_file(original, io::kMaxConfigBytes));
  NMM_TRY(write_card(source, quantization, output));
  NMM_ASSIGN(config, with_found_ranks(std::move(config), source.checkpoint, source.config));
  NMM_ASSIGN(config, io::with_quantization(config, original.string(), quantization));
  return write_transformers_files(output.staging(), config, original.string());
}

// One run with its inputs opened and checked.
class Quantizing {
 public:
  Quantizing(const QuantizeRequest& request, const ops::Backend& backend, Progress& progress,
             DataParallel* others, const io::Checkpoint& checkpoint, const io::ModelConfig& config,
             const RoundingText& text)
      : request_(request),
        backend_(backend),
        progress_(progress),
        others_(others),
        checkpoint_(checkpoint),
        config_(config),
        text_(text),
        quantization_(quantization_of(request.formats, config, tensor_names(checkpoint))) {
    if (text.origin() != nullptr) quantization_.calibration = text.origin()->sources;
  }

  const io::Quantization& quantization() const { return quantization_; }

  // The folder, but for what is copied.
  Status write(const std::vector<LowRankMatrix>& matrices, const io::FolderWriter& output,
               const StagedWork& work, const OnMatrix& on_matrix) {
    RoundedByText rounded;
    if (text_.origin() != nullptr) {
      NMM_ASSIGN(rounded, by_text(work.path()));
    }
    std::vector<MatrixPlan> fitted;  // to each other, without a text; else all have their codes
    if (rounded.codes.empty()) {
      NMM_TRY(round_all(matrices, checkpoint_, rounded.scales, quantization_.format, work,
                        progress_, on_matrix));
      for (const LowRankMatrix& matrix : matrices) fitted.push_back(matrix.plan);
    }
    return write_folder({.checkpoint = checkpoint_,
                         .config = config_,
                         .matrices = fitted,
                         .work = work,
                         .scales = std::move(rounded.scales),
                         .codes = std::move(rounded.codes)},
                        quantization_, output, progress_);
  }

 private:
  Result<RoundedByText> by_text(const fs::path& work) const {
    const CompressionInputs inputs = {.checkpoint = checkpoint_,
                                      .config = config_,
                                      .plan = plan_,
                                      .weights = std::nullopt,
                                      .backend = backend_,
                                      .text = text_.sequences ? &*text_.sequences : nullptr,
                                      .progress = progress_,
                                      .others = others_};
    const CalibratedRounding rounding = {.smooth = request_.smooth,
                                         .gptq = request_.rounding == Rounding::kGptq,
                                         .saved = text_.statistics ? &*text_.statistics : nullptr,
                                         .save_statistics = request_.save_statistics};
    return round_by_text(inputs, rounding, quantization_, work);
  }

  const QuantizeRequest& request_;
  const ops::Backend& backend_;
  Progress& progress_;
  DataParallel* others_;
  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const RoundingText& text_;
  io::Quantization quantization_;
  Plan plan_;  // none: the text runs through the model as it is
};

}  // namespace

Result<QuantizeSummary> quantize(const QuantizeRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix,
                                 DataParallel* others) {
  const fs::path& model = request.model;
  std::error_code ignored;
  if (!request.save_statistics.empty() && fs::weakly_canonical(request.save_statistics, ignored) ==
                                              fs::weakly_canonical(request.out, ignored)) {
    return fail("{}: expected different folders for the model and the statistics",
                request.out.string());
  }
  // BLAS first: without it nothing can be done, and that is known at once.
  NMM_TRY(load_blas());
  NMM_ASSIGN(const nlohmann::ordered_json identity, io::folder_identity(model));
  NMM_ASSIGN(const auto config, io::ModelConfig::load(model / "config.json"));
  if (config.quantization) {
    return fail(
        "{}: its weights are {} already; quantize the original model, or its floats with "
        "--dequantize",
        model.string(), io::quantization_text(*config.quantization));
  }
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(model));
  NMM_TRY(model::check_head(checkpoint, config));
  NMM_ASSIGN(const auto matrices, low_rank_matrices(checkpoint, config));
  NMM_ASSIGN(const RoundingText text, rounding_text(request, checkpoint, config, progress));
  const auto if_exists =
      request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
  NMM_ASSIGN(auto output, io::FolderWriter::create(request.out, if_exists, model));
  Quantizing run(request, backend, progress, others, checkpoint, config, text);
  NMM_ASSIGN(const auto work,
             StagedWork::open(output.resume_folder(),
                              settings_of(request, text, identity, run.quantization())));
  NMM_TRY(run.write(matrices, output, work, on_matrix));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  QuantizeSummary summary = {checkpoint.parameters(), checkpoint.size_bytes(), 0,
                             text.origin() == nullptr ? 0 : text.origin()->tokens};
  {
    NMM_ASSIGN(const auto written, io::Checkpoint::open(output.staging()));
    summary.bytes_after = written.size_bytes();
  }
  NMM_TRY(io::check_unchanged(model, identity));
  NMM_TRY(output.commit());
  return summary;
}

}  // namespace neuronmm::compress
