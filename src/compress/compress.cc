#include "compress/compress.h"

#include <nlohmann/json.hpp>

#include "base/kept_work.h"
#include "compress/calibration/generated_text.h"
#include "compress/compressed_folder.h"
#include "compress/compressed_mixture.h"
#include "compress/dense_floats.h"
#include "compress/expected_tasks.h"
#include "compress/factorize_model.h"
#include "compress/factors/narrow_layers.h"
#include "compress/linear_algebra/blas.h"
#include "compress/reconstruction/reconstruction.h"
#include "compress/settings.h"
#include "compress/sizes/allocate.h"
#include "compress/sizes/measured_ranks.h"
#include "compress/sizes/predicted_curves.h"
#include "compress/statistics/calibration_input.h"
#include "compress/statistics/layer_grams.h"
#include "compress/statistics/work_folder.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_folder.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Returns whether the model itself writes the calibration text.
bool uses_generated_text(const CompressRequest& request) {
  return request.calibration && request.calibration->self_generated > 0;
}

// Returns the request for that text.
GeneratedText generated_text(const CompressRequest& request) {
  return {request.model, request.calibration->self_generated, request.calibration->seed};
}

// Refuses method two-sided if the saved statistics have no output metric and there is no text to
// compute it on.
Status check_metric(const CompressRequest& request, const CalibrationInput& calibration) {
  const auto& statistics = calibration.statistics;
  if (request.method != Method::kTwoSided || request.calibration || !statistics ||
      statistics->has_metric()) {
    return {};
  }
  return fail(
      "{}: method two-sided needs an output metric, found none among the statistics; give the "
      "calibration text too, or use method whitened",
      statistics->folder().string());
}

// Returns whether the ranks of single matrices are chosen by measuring their truncation
// (sensitivity.h).
bool measures_matrices(const CompressRequest& request) {
  return !narrows_mlps(request) && request.allocate == Allocate::kMeasured;
}

ordered_json shapes_json(const std::vector<io::MlpShape>& shapes) {
  ordered_json list = ordered_json::array();
  for (const io::MlpShape& shape : shapes) {
    list.push_back({shape.gate, shape.up, shape.down, shape.input, shape.neurons});
  }
  return list;
}

// Returns everything on which the factors depend. Statistics without their text are identified by
// their files, and those with a text by the text.
Result<ordered_json> work_settings(const CompressRequest& request,
                                   const CalibrationInput& calibration, const ordered_json& model) {
  ordered_json settings = {{"settings", settings_json(request)},
                           {"shapes", shapes_json(request.shapes)},
                           {"model", model}};
  if (calibration.statistics && !request.calibration) {
    NMM_ASSIGN(settings["statistics"], io::folder_identity(request.statistics));
  }
  if (calibration.text) {
    settings["text"] = {{"names", calibration.text->origin.text},
                        {"tokens", calibration.text->origin.tokens}};
  }
  return settings;
}

// Opens the work folder. Work that was kept under other settings is deleted only if the request
// says so. A setting that an older program did not record has its default.
Status open_work(const fs::path& work, const CompressRequest& request, const ordered_json& settings,
                 Progress& progress) {
  const auto same = [&](const std::string& before) {
    auto saved = ordered_json::parse(before, nullptr, /*allow_exceptions=*/false);
    if (!saved.is_object() || !saved.contains("settings")) return false;
    if (!same_settings(saved["settings"], request)) return false;
    saved["settings"] = settings["settings"];
    return saved == settings;
  };
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  return open_work_folder(
      work, settings.dump(2, ' ', false, kReplace) + "\n",
      request.force || request.deletes_work ? OtherWork::kDelete : OtherWork::kRefuse, progress,
      same);
}

// Returns the plan of a compression that factorizes single matrices. The ranks are given by the
// request or follow from its rule.
Result<Plan> matrix_plan(const CompressRequest& request, const io::ModelConfig& config) {
  if (request.shapes.empty()) {
    return make_plan(config, request.rule, request.weights, request.model.string());
  }
  NMM_CHECK(std::ssize(request.shapes) == config.num_hidden_layers);
  std::vector<int64_t> ranks;
  for (const io::MlpShape& shape : request.shapes) {
    NMM_CHECK(shape.input == 0 && shape.neurons == 0);
    ranks.insert(ranks.end(), {shape.gate, shape.up, shape.down});
  }
  return plan_of_ranks(config, ranks, request.weights);
}

// Returns the part of the request that concerns the sizes of whole MLPs.
ShapeRequest shape_request(const CompressRequest& request, StatisticsFiles files) {
  return {.form = request.form,
          .rule = request.rule,
          .uniform = request.allocate == Allocate::kUniform,
          .measured = request.allocate == Allocate::kMeasured,
          .pad = request.pad,
          .shapes = request.shapes,
          .weights = request.weights,
          .files = std::move(files)};
}

// Returns the plan of this request for this model, as far as it is known before any work. Refuses
// what the model cannot have, before any file is written.
Result<Plan> checked_plan(const CompressRequest& request, const io::ModelConfig& config) {
  NMM_TRY(check_uncompressed(config, request.model.string()));
  if (config.experts) return Plan();  // made after the sizes are chosen
  if (request.form == Form::kExperts || request.form == Form::kBasis) {
    return fail("{}: form {} is for mixtures of experts, found none", request.model.string(),
                form_name(request.form));
  }
  if (narrows_mlps(request)) {
    const Status sizes = check_sizes(config, shape_request(request, {}));
    if (!sizes.ok()) return fail("{}: {}", request.model.string(), sizes.error().message);
    return Plan();  // made after the sizes are chosen
  }
  NMM_ASSIGN(Plan plan, matrix_plan(request, config));
  if (measures_matrices(request)) {
    NMM_TRY(check_allocation(plan, request.rule.block, request.model.string()));
  }
  return plan;
}

// Returns the shapes that the folder will record. Padded layers have as many neurons as the widest
// one.
std::vector<io::MlpShape> recorded_shapes(const ShapedModel& model, const io::ModelConfig& config) {
  if (model.padded == 0) return model.shapes();
  const io::MlpShape padded{.neurons = model.padded == config.intermediate_size ? 0 : model.padded};
  return std::vector<io::MlpShape>(model.layers.size(), padded);
}

// Results of the calibration text, as far as the method needs them.
struct TextStatistics {
  GramSource grams;       // for matrices that are whitened one by one; null: method svd
  StatisticsFiles files;  // for whole MLPs that are narrowed
};

io::FolderWriter::IfExists if_exists(const CompressRequest& request) {
  return request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
}

// A compression whose inputs are opened and checked. run() performs the steps of compress.h.
class Compression {
 public:
  Compression(const CompressRequest& request, const ops::Backend& backend, Progress& progress,
              DataParallel* helpers, ordered_json model_identity, io::ModelConfig config,
              io::Checkpoint checkpoint, Plan plan, CalibrationInput calibration)
      : request_(request),
        backend_(backend),
        progress_(progress),
        helpers_(helpers),
        model_identity_(std::move(model_identity)),
        config_(std::move(config)),
        checkpoint_(std::move(checkpoint)),
        calibration_(std::move(calibration)) {
    summary_.plan = std::move(plan);
  }

  Result<CompressSummary> run(const OnMatrix& on_matrix, const MeasureLoss& measure,
                              const io::BeforeOutput<CompressSummary>& before_output) {
    NMM_ASSIGN(auto output,
               io::FolderWriter::create(request_.out, if_exists(request_), request_.model));
    progress_.expect(expected_tasks(request_, static_cast<bool>(measure)));
    const fs::path work = output.resume_folder();
    NMM_ASSIGN(const ordered_json settings, work_settings(request_, calibration_, model_identity_));
    NMM_TRY(open_work(work, request_, settings, progress_));
    const KeptWork kept(work.parent_path().string());
    if (uses_generated_text(request_)) NMM_TRY(write_text(work));
    NMM_ASSIGN(const TextStatistics statistics, gather(work));
    NMM_TRY(choose_sizes(statistics, work));
    NMM_TRY(narrow(statistics, work, on_matrix));
    NMM_TRY(reconstruct_layers(work));
    NMM_TRY(write(output, measure));
    // If another program has changed the model meanwhile, the factors belong to two different
    // models.
    NMM_TRY(io::check_unchanged(request_.model, model_identity_));
    if (before_output) NMM_TRY(before_output(summary_));
    NMM_TRY(output.commit());
    return std::move(summary_);
  }

 private:
  CompressionInputs inputs() const {
    return {.checkpoint = checkpoint_,
            .config = config_,
            .backend = backend_,
            .text = calibration_.text ? &*calibration_.text : nullptr,
            .progress = progress_,
            .helpers = helpers_};
  }

  // Lets the model write the calibration text. Saved statistics can only be checked now, because
  // the hash of their text was not known before.
  Status write_text(const fs::path& work) {
    const GeneratedText wanted = generated_text(request_);
    NMM_ASSIGN(calibration_.text, generated_sequences(wanted, config_, backend_, work, progress_));
    if (calibration_.statistics) NMM_TRY(calibration_.statistics->check_texts(*calibration_.text));
    progress_.print(
        fmt::format("calibration: {} tokens that the model has written (seed {}; {} sequences of "
                    "at most {})",
                    calibration_.text->origin.tokens, wanted.seed,
                    calibration_.text->sequences.size(), calibration_.text->longest()));
    warn_of_few(*calibration_.text, config_, progress_);
    return {};
  }

  Result<TextStatistics> gather(const fs::path& work) const {
    TextStatistics statistics;
    const bool matrices = !narrows_mlps(request_);
    if (matrices && request_.method == Method::kSvd) return statistics;
    if (matrices && request_.statistics.empty()) {
      NMM_ASSIGN(statistics.grams, gather_layer_grams(inputs(), work));
      return statistics;
    }
    const StatisticsRequest wanted = {
        .folder = request_.statistics,
        .saved = calibration_.statistics ? &*calibration_.statistics : nullptr,
        .method = method_name(request_.method),
        .force = request_.force};
    NMM_ASSIGN(StatisticsFiles files, gathered_statistics(inputs(), wanted, work));
    if (config_.experts) {
      statistics.files = std::move(files);
    } else if (matrices) {
      statistics.grams = layer_grams_of_statistics(files.statistics, checkpoint_, config_);
    } else {
      statistics.files = with_usable_losses(std::move(files), config_, work);
    }
    return statistics;
  }

  Status choose_sizes(const TextStatistics& statistics, const fs::path& work) {
    if (config_.experts) {
      NMM_ASSIGN(summary_.experts,
                 make_experts(inputs(), request_, statistics.files.statistics, work));
      summary_.plan = plan_of_experts(config_, config_of_experts(config_, *summary_.experts),
                                      request_.form, request_.weights);
      return {};
    }
    if (!narrows_mlps(request_)) {
      if (!measures_matrices(request_)) return {};  // the plan has the ranks of the rule
      NMM_ASSIGN(summary_.plan, plan_by_measurement(inputs(), summary_.plan, request_.rule.block,
                                                    request_.weights, statistics.grams, work));
      return {};
    }
    NMM_ASSIGN(shaped_, choose_shapes(inputs(), shape_request(request_, statistics.files), work));
    summary_.form = shaped_.form_choice;
    summary_.sizes = shaped_.size_choice;
    summary_.plan =
        plan_of_shapes(config_, shaped_.form, recorded_shapes(shaped_, config_), request_.weights);
    return {};
  }

  Status narrow(const TextStatistics& statistics, const fs::path& work, const OnMatrix& on_matrix) {
    if (config_.experts) return {};  // make_experts() has narrowed them
    if (!narrows_mlps(request_)) {
      NMM_ASSIGN(summary_.matrices, factorize_model(inputs(), summary_.plan, request_.weights,
                                                    statistics.grams, work, on_matrix));
      return {};
    }
    const NarrowRequest wanted =
        narrow_request(shape_request(request_, statistics.files), shaped_, config_);
    const bool fits = calibration_.text && is_worth_a_fit(shaped_, request_.weights);
    NMM_ASSIGN(const auto largest_maps, fits ? narrow_layers_on_text(inputs(), wanted, work)
                                             : narrow_layers(inputs(), wanted, work));
    for (size_t layer = 0; layer < largest_maps.size(); ++layer) {
      shaped_.layers[layer].largest_map = largest_maps[layer];
    }
    summary_.layers = std::move(shaped_.layers);
    return {};
  }

  CompressedModel model() const {
    const auto& learnt = summary_.reconstruction;
    return {.request = request_,
            .checkpoint = checkpoint_,
            .config = config_,
            .plan = summary_.plan,
            .form = summary_.form,
            .sizes = summary_.sizes,
            .calibration = calibrated() || learnt ? calibration_.origin() : nullptr,
            .reconstruction = learnt ? &*learnt : nullptr};
  }

  Status reconstruct_layers(const fs::path& work) {
    NMM_ASSIGN(const auto plan, planned_reconstruction(request_.reconstruct, inputs()));
    if (!plan) return {};
    const auto& experts = summary_.experts;
    NMM_TRY(experts ? write_unreconstructed_mixture(model(), *experts, work, progress_)
                    : write_unreconstructed_model(model(), work, progress_));
    NMM_ASSIGN(summary_.reconstruction,
               reconstruct(inputs(), unreconstructed_model(work), *plan, work));
    return {};
  }

  Status write(const io::FolderWriter& output, const MeasureLoss& measure) {
    const CompressedModel model = this->model();
    const auto& experts = summary_.experts;
    NMM_TRY(experts ? write_compressed_mixture(model, *experts, output, progress_)
                    : write_compressed_model(model, output, progress_));
    NMM_TRY(measure_loss(output.staging(), measure));
    NMM_TRY(experts ? write_mixture_card(model, *experts, summary_.loss, output)
                    : write_compressed_card(model, summary_.loss, output));
    // Sizes are those of the files that were written, not those of the plan.
    NMM_ASSIGN(const auto written, io::Checkpoint::open(output.staging()));
    const CalibrationOrigin* const origin = calibration_.origin();
    summary_.calibration_tokens = origin != nullptr ? origin->tokens : 0;
    summary_.parameters_before = checkpoint_.parameters();
    summary_.bytes_before = checkpoint_.size_bytes();
    summary_.parameters_after = written.parameters();
    summary_.bytes_after = written.size_bytes();
    return {};
  }

  Status measure_loss(const fs::path& folder, const MeasureLoss& measure) {
    if (!measure || !calibration_.text || calibration_.text->measured.empty()) return {};
    NMM_ASSIGN(summary_.loss, measure(folder, calibration_.text->measured));
    summary_.loss->held_out = calibration_.text->measured_held_out || !calibrated();
    return {};
  }

  // Returns whether a text has influenced the result. Plain SVD uses a text only if ranks are
  // measured on it; otherwise the text only shows what the compression costs.
  bool calibrated() const { return request_.method != Method::kSvd || measures_matrices(request_); }

  const CompressRequest& request_;
  const ops::Backend& backend_;
  Progress& progress_;
  DataParallel* helpers_;
  ordered_json model_identity_;  // taken before any of its files was read
  io::ModelConfig config_;
  io::Checkpoint checkpoint_;
  CalibrationInput calibration_;
  ShapedModel shaped_;  // set if whole MLPs are narrowed
  CompressSummary summary_;
};

}  // namespace

Result<CompressSummary> compress(const CompressRequest& asked, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix,
                                 const MeasureLoss& measure, DataParallel* helpers,
                                 const io::BeforeOutput<CompressSummary>& before_output) {
  NMM_TRY(check_request(asked));
  NMM_TRY(load_blas());
  NMM_TRY(io::FolderWriter::check(asked.out, if_exists(asked), asked.model));
  NMM_ASSIGN(ordered_json identity, io::folder_identity(asked.model));
  NMM_ASSIGN(io::ModelFolder model, io::open_model(asked.model));
  io::ModelConfig& config = model.config;
  io::Checkpoint& checkpoint = model.checkpoint;
  CompressRequest request = asked;
  if (config.experts) {
    NMM_ASSIGN(request, mixture_request(asked, config));
  }
  NMM_TRY(check_table(request.weights, config, request.model.string()));
  NMM_ASSIGN(Plan plan, checked_plan(request, config));
  NMM_TRY(check_dense_floats(checkpoint, config));
  NMM_TRY(check_reconstruct(request.reconstruct, config, TrainingMachine::this_one()));
  NMM_ASSIGN(auto calibration, open_calibration(request.calibration, request.statistics, checkpoint,
                                                config, progress));
  NMM_TRY(check_metric(request, calibration));
  Compression compression(request, backend, progress, helpers, std::move(identity),
                          std::move(config), std::move(checkpoint), std::move(plan),
                          std::move(calibration));
  return compression.run(on_matrix, measure, before_output);
}

}  // namespace neuronmm::compress
