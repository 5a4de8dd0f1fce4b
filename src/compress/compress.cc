#include "compress/compress.h"

#include <nlohmann/json.hpp>

#include "compress/allocate.h"
#include "compress/blas.h"
#include "compress/calibration.h"
#include "compress/error_aware.h"
#include "compress/factorize_model.h"
#include "compress/generated_text.h"
#include "compress/model_writer.h"
#include "compress/sensitivity.h"
#include "compress/staged_work.h"
#include "compress/transformers_code.h"
#include "io/checksum.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/json_file.h"
#include "io/model_files.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Where the Gram matrices of a run come from, checked before anything is written.
struct GramInput {
  std::optional<GramFile> file;
  std::optional<SavedStatistics> statistics;
  std::optional<CalibrationSequences> text;

  // nullptr: nothing was calibrated on.
  const GramOrigin* origin() const {
    if (file) return &file->origin();
    if (statistics) return &statistics->origin();
    return text ? &text->origin : nullptr;
  }
  int64_t tokens() const { return origin() ? origin()->tokens : 0; }
  std::vector<io::CalibrationSource> sources() const {
    return origin() ? origin()->sources : std::vector<io::CalibrationSource>();
  }
  std::string names() const { return origin() ? origin()->text : "none"; }
};

// A folder whose config hides that it is compressed: the tensors tell.
Status check_dense(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  NMM_TRY(model::check_head(checkpoint, config));
  if (config.quantization) {
    return fail(
        "{}: its weights are {}; compress the original model, with weights int8, int6 or int4, or "
        "its floats with --dequantize",
        checkpoint.folder().string(), io::quantization_text(*config.quantization));
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    const ops::MlpWeight& mlp = weights.mlp;
    for (const auto& [name, weight] :
         {std::pair("gate", &mlp.gate), std::pair("up", &mlp.up), std::pair("down", &mlp.down)}) {
      if (!weight->low_rank()) continue;
      return fail("{}: layer {} {} is low-rank already (rank {}); compress the original model",
                  checkpoint.folder().string(), layer, name, weight->rank());
    }
  }
  return {};
}

bool writes_text(const CompressRequest& request) {
  return request.calibration && request.calibration->self_generated > 0;
}

GeneratedText generated_text(const CompressRequest& request) {
  return {request.model, request.calibration->self_generated, request.calibration->seed};
}

Status check_metric(const CompressRequest& request, const SavedStatistics& statistics) {
  if (request.method != Method::kTwoSided || statistics.has_metric() || request.calibration) {
    return {};
  }
  return fail(
      "{}: method two-sided needs an output metric, found none among the statistics; save them "
      "with method two-sided, give the calibration text too, or use method whitened",
      statistics.folder().string());
}

// Opened and encoded before anything is written: a wrong path or a short text costs no work.
Result<GramInput> gram_input(const CompressRequest& request, const io::Checkpoint& checkpoint,
                             const io::ModelConfig& config, Progress& progress) {
  GramInput input;
  if (!request.gram.empty()) {
    NMM_ASSIGN(input.file, GramFile::open(request.gram, config));
  }
  if (writes_text(request)) {
    if (!request.calibration->texts.empty()) {
      return fail("a calibration text and one that the model writes exclude each other");
    }
    NMM_TRY(check_generated(generated_text(request), config));
  } else if (request.calibration) {
    NMM_ASSIGN(input.text,
               encoded_calibration(*request.calibration, request.model, config, progress));
  }
  if (!request.statistics.empty()) {
    NMM_ASSIGN(input.statistics, SavedStatistics::open(request.statistics, checkpoint, config));
    if (input.text) NMM_TRY(input.statistics->check_texts(*input.text));
    NMM_TRY(check_metric(request, *input.statistics));
    progress.print(fmt::format(
        "statistics: {} tokens, saved in {}{}", input.tokens(), request.statistics.string(),
        request.calibration ? "" : "; without a text, down is fitted by them alone"));
  }
  return input;
}

ordered_json shapes_json(const std::vector<io::MlpShape>& shapes) {
  ordered_json list = ordered_json::array();
  for (const io::MlpShape& shape : shapes) {
    list.push_back({shape.gate, shape.up, shape.down, shape.input, shape.neurons});
  }
  return list;
}

// All that the factors depend on. Work that was kept under other settings is thrown away.
std::string settings_of(const CompressRequest& request, const GramInput& grams,
                        const ordered_json& model) {
  ordered_json settings = {
      {"form", form_name(request.form)},
      {"error_aware", request.error_aware},
      {"error_aware_if_better", request.error_aware_if_better},
      {"pad", request.pad},
      {"ratio", request.rule.ratio},
      {"block", request.rule.block},
      {"align", align_name(request.rule.align)},
      {"method", method_name(request.method)},
      {"weights", weights_text(request.weights)},
      {"allocate", allocate_name(request.allocate)},
      {"shapes", shapes_json(request.shapes)},
      {"only", {{"gate", request.only.gate}, {"up", request.only.up}, {"down", request.only.down}}},
      {"model", model}};
  if (grams.file) settings["gram"] = io::file_identity(request.gram);
  if (grams.statistics) {
    settings["statistics"] = io::folder_identity(request.statistics).value();
  }
  if (writes_text(request)) {
    settings["self_generated"] = {{"tokens", request.calibration->self_generated},
                                  {"seed", request.calibration->seed}};
  }
  if (grams.text) {
    settings["calibration"] = {{"text", grams.text->origin.text},
                               {"tokens", grams.text->origin.tokens}};
  }
  return settings.dump(2) + "\n";
}

// What the new config.json says of how the model was made.
io::CompressionRecord record_of(const CompressRequest& request, const Plan& plan,
                                std::vector<io::CalibrationSource> calibration) {
  return {std::string(method_name(request.method)),
          request.rule.ratio,
          request.rule.block,
          std::string(align_name(request.rule.align)),
          plan.ranks(),
          std::string(allocate_name(request.allocate)),
          std::move(calibration),
          std::string(form_name(plan.form))};
}

// config_text was parsed before; other keys and their order stay.
std::string with_intermediate_size(const std::string& config_text, int64_t size) {
  ordered_json config = ordered_json::parse(config_text);
  config["intermediate_size"] = size;
  return config.dump(2) + "\n";
}

// Without the files of statistics.
ShapeRequest shape_request(const CompressRequest& request) {
  return {.form = request.form,
          .rule = request.rule,
          .uniform = request.allocate == Allocate::kUniform,
          .shapes = request.shapes,
          .statistics = {},
          .metric = {},
          .losses = {},
          .error_aware = request.error_aware,
          .measured = request.allocate == Allocate::kMeasured,
          .pad = request.pad};
}

// What ranks.json holds: the checksum tells when the file was damaged since.
ordered_json ranks_json(const nlohmann::json& ranks) {
  return {{"ranks", ranks}, {"checksum", io::checksum(ranks.dump())}};
}

// The ranks that an interrupted run left; nullopt: none, or not for this plan.
std::optional<std::vector<int64_t>> read_ranks(const fs::path& path, const Plan& uniform) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto saved = io::read_json_object(path, io::kMaxConfigBytes);
  if (!saved.ok() || !saved->contains("ranks")) return std::nullopt;
  const nlohmann::json& list = saved->at("ranks");
  if (*saved != nlohmann::json(ranks_json(list))) return std::nullopt;  // damaged
  if (!list.is_array() || list.size() != uniform.matrices.size()) return std::nullopt;
  std::vector<int64_t> ranks;
  // Ranks are taken over only if each of them could have been allocated: smaller than the
  // break-even, and 0 where the matrix is not to be compressed.
  for (const MatrixPlan& matrix : uniform.matrices) {
    const nlohmann::json& rank = list[ranks.size()];
    if (!rank.is_number_unsigned()) return std::nullopt;
    ranks.push_back(rank.get<int64_t>());
    const bool fits = saves_parameters(matrix.in_features, matrix.out_features, ranks.back());
    if (!fits || (matrix.rank == 0 && ranks.back() != 0)) return std::nullopt;
  }
  return ranks;
}

// One compression with its inputs opened and checked.
class Compression {
 public:
  Compression(const CompressRequest& request, const ops::Backend& backend, Progress& progress,
              DataParallel* others, ordered_json model_identity, io::ModelConfig config,
              io::Checkpoint checkpoint, Plan plan, GramInput grams)
      : request_(request),
        backend_(backend),
        progress_(progress),
        others_(others),
        model_identity_(std::move(model_identity)),
        config_(std::move(config)),
        checkpoint_(std::move(checkpoint)),
        plan_(std::move(plan)),
        grams_(std::move(grams)) {}

  Result<CompressSummary> run(const OnMatrix& on_matrix, const Measure& measure,
                              const MakeMetric& make_metric) {
    const auto if_exists =
        request_.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
    NMM_ASSIGN(auto output, io::FolderWriter::create(request_.out, if_exists, request_.model));
    NMM_ASSIGN(const auto work, StagedWork::open(output.resume_folder(),
                                                 settings_of(request_, grams_, model_identity_)));
    if (writes_text(request_)) NMM_TRY(write_text(work.path()));
    if (request_.allocate == Allocate::kSensitivity) {
      NMM_ASSIGN(plan_, plan_by_sensitivity(work));
    }
    NMM_ASSIGN(const auto aware, request_.error_aware_if_better ? work.subfolder("error-aware")
                                                                : Result<StagedWork>(work));
    CompressSummary summary;
    if (!narrows_mlps(request_)) {
      NMM_ASSIGN(summary.matrices, factorize(work, aware, on_matrix));
    } else {
      NMM_ASSIGN(summary.layers, shape(work, aware, make_metric));
    }
    summary.form = form_choice_;
    summary.sizes = size_choice_;
    summary.error_aware = error_aware_;
    NMM_TRY(write_folder(output, error_aware_ && error_aware_->taken() ? aware : work));
    NMM_ASSIGN(summary.loss, measured_loss(output.staging(), measure));
    NMM_TRY(write_card(output, summary.loss));
    {
      // Sizes are counted in what was written, not in what was planned.
      NMM_ASSIGN(const auto written, io::Checkpoint::open(output.staging()));
      summary.parameters_after = written.parameters();
      summary.bytes_after = written.size_bytes();
    }
    // A model that another program has changed meanwhile would give factors of two models.
    NMM_TRY(io::check_unchanged(request_.model, model_identity_));
    NMM_TRY(output.commit());
    summary.parameters_before = checkpoint_.parameters();
    summary.bytes_before = checkpoint_.size_bytes();
    summary.calibration_tokens = grams_.tokens();
    summary.plan = std::move(plan_);
    return summary;
  }

 private:
  CompressionInputs inputs() const {
    return {.checkpoint = checkpoint_,
            .config = config_,
            .plan = plan_,
            .weights = request_.weights,
            .backend = backend_,
            .text = grams_.text ? &*grams_.text : nullptr,
            .progress = progress_,
            .others = others_};
  }

  // Saved statistics are of a text whose hash is known only now.
  Status write_text(const fs::path& work) {
    const GeneratedText wanted = generated_text(request_);
    NMM_ASSIGN(grams_.text, generated_sequences(wanted, config_, backend_, work, progress_));
    if (grams_.statistics) NMM_TRY(grams_.statistics->check_texts(*grams_.text));
    progress_.print(
        fmt::format("calibration: {} tokens that the model has written (seed {}; {} sequences of "
                    "at most {})",
                    grams_.text->origin.tokens, wanted.seed, grams_.text->sequences.size(),
                    grams_.text->longest()));
    warn_of_few(*grams_.text, config_, progress_);
    return {};
  }

  // Measuring takes minutes: its result is kept beside the factors, and an interrupted run goes on
  // with it.
  Result<Plan> plan_by_sensitivity(const StagedWork& work) {
    const fs::path path = work.path() / "ranks.json";
    auto ranks = read_ranks(path, plan_);
    if (!ranks) {
      GramSource grams;
      if (request_.method != Method::kSvd) {
        NMM_ASSIGN(grams, calibrated_grams(work.path()));
      }
      NMM_ASSIGN(const auto sensitivities,
                 measure_sensitivity(inputs(), request_.rule.block, grams));
      Allocation found = allocate_ranks(plan_, request_.rule.block, sensitivities);
      progress_.print(
          fmt::format("allocated by sensitivity: {} parameters in the matrices to compress; "
                      "uniform ranks would "
                      "have {} ({:.2f} % more)",
                      found.parameters, found.uniform_parameters,
                      100.0 * static_cast<double>(found.uniform_parameters - found.parameters) /
                          static_cast<double>(found.parameters)));
      NMM_TRY(io::write_text_file(path, ranks_json(found.ranks).dump() + "\n"));
      ranks = std::move(found.ranks);
    }
    return plan_of_ranks(config_, *ranks, request_.weights);
  }

  Result<std::vector<LayerReport>> shape(const StagedWork& staged, const StagedWork& aware,
                                         const MakeMetric& make_metric) {
    const fs::path& work = staged.path();
    const StatisticsRequest wanted = {.saved = grams_.statistics ? &*grams_.statistics : nullptr,
                                      .save = request_.save_statistics,
                                      .method = method_name(request_.method)};
    NMM_ASSIGN(const auto files, gathered_statistics(inputs(), wanted, work, make_metric));
    ShapeRequest request = shape_request(request_);
    request.statistics = files.statistics;
    request.metric = files.metric;
    request.losses = files.losses;
    NMM_ASSIGN(ShapedModel model, choose_shapes(inputs(), request, work));
    form_choice_ = model.form_choice;
    if (form_choice_) progress_.print("form: " + form_choice_text(*form_choice_));
    size_choice_ = model.size_choice;
    if (size_choice_) progress_.print("sizes: " + size_choice_text(*size_choice_));
    std::vector<io::MlpShape> shapes;
    for (const LayerReport& layer : model.layers) {
      const io::MlpShape padded{.neurons =
                                    model.padded == config_.intermediate_size ? 0 : model.padded};
      shapes.push_back(model.padded > 0 ? padded : layer.shape);
    }
    plan_ = plan_of_shapes(config_, model.form, std::move(shapes), request_.weights);
    NMM_TRY(shape_layers(inputs(), request, work, work, model));
    if (tries_error_aware()) {
      ShapedModel other = model;
      request.error_aware = true;
      NMM_TRY(shape_layers(inputs(), request, work, aware.path(), other));
      const CompressionInputs inputs = this->inputs();
      NMM_TRY(choose(inputs, shaped_mlps(inputs, work), shaped_mlps(inputs, aware.path())));
      if (error_aware_->taken()) model = std::move(other);
    }
    return std::move(model.layers);
  }

  // Text that it was fitted to would always speak for error-aware.
  bool tries_error_aware() {
    if (!request_.error_aware_if_better) return false;
    if (grams_.text->has_held_out) return true;
    error_aware_.emplace();
    return false;
  }
  Status choose(const CompressionInputs& inputs, const WithMlp& without, const WithMlp& with) {
    NMM_ASSIGN(error_aware_, choose_error_aware(inputs, without, with));
    return {};
  }

  // A narrower dense model has nothing that other programs do not know: only its config says so.
  bool plain_dense() const {
    return plan_.form == Form::kNeurons &&
           (request_.pad || request_.allocate == Allocate::kUniform);
  }

  // With the layers' activations as the dense model's, but where error-aware is asked for.
  Result<std::vector<MatrixReport>> factorize(const StagedWork& work, const StagedWork& aware,
                                              const OnMatrix& on_matrix) {
    if (request_.method == Method::kErrorAware && !request_.error_aware_if_better) {
      return compress_error_aware(inputs(), work, on_matrix);
    }
    GramSource source;
    if (request_.method != Method::kSvd) {
      NMM_ASSIGN(source, gram_source(work.path()));
    }
    NMM_ASSIGN(auto reports, factorize_model(inputs(), source, work, on_matrix));
    if (!tries_error_aware()) return reports;
    NMM_ASSIGN(auto others, compress_error_aware(inputs(), aware, on_matrix));
    NMM_TRY(choose(inputs(), factored_mlps(work), factored_mlps(aware)));
    return error_aware_->taken() ? others : reports;
  }

  WithMlp factored_mlps(const StagedWork& work) const {
    return [this, &work](int64_t layer, const auto& use) -> Status {
      NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
      FactoredMlp mlp(weights.mlp, request_.weights);
      for (const MlpMatrix matrix : kMlpMatrices) {
        if (plan_.of(layer, matrix).rank > 0) NMM_TRY(mlp.use_factors(work, layer, matrix));
      }
      use(mlp.weight());
      return {};
    };
  }

  // Calibration leaves a file per layer, which is read when the layer is factorized.
  Result<GramSource> calibrated_grams(const fs::path& work) {
    NMM_TRY(calibrate(pass_inputs(inputs()), work));
    return GramSource([work, hidden = config_.hidden_size](int64_t layer) {
      return read_layer_grams(layer_gram_path(work, layer), layer, hidden);
    });
  }

  Result<GramSource> gram_source(const fs::path& work) {
    if (grams_.file) {
      return GramSource([file = *grams_.file](int64_t layer) { return file.load(layer); });
    }
    NMM_ASSIGN(GramSource source, calibrated_grams(work));
    if (!request_.save_gram.empty()) {
      NMM_TRY(write_gram_file(request_.save_gram, config_, grams_.text->origin, 0,
                              config_.num_hidden_layers, source));
    }
    return source;
  }

  // Plain SVD looks at no text, unless the ranks were allocated on it.
  bool calibrated() const {
    return request_.method != Method::kSvd || request_.allocate == Allocate::kSensitivity;
  }

  // A text that only measured the result is none that it was calibrated on.
  io::CompressionRecord record() const {
    io::CompressionRecord record = record_of(
        request_, plan_, calibrated() ? grams_.sources() : std::vector<io::CalibrationSource>());
    if (form_choice_) record.form_choice = form_choice_text(*form_choice_);
    if (size_choice_ && !size_choice_->taken()) {
      record.allocate = allocate_name(Allocate::kPredicted);
    }
    const bool left = error_aware_ && !error_aware_->taken();
    if (left && request_.method == Method::kErrorAware) {
      record.method = method_name(Method::kWhitened);
    }
    return record;
  }

  Result<std::optional<MeasuredLoss>> measured_loss(const fs::path& folder,
                                                    const Measure& measure) const {
    if (!measure || !grams_.text || grams_.text->measured.empty())
      return std::optional<MeasuredLoss>();
    NMM_ASSIGN(MeasuredLoss loss, measure(folder, grams_.text->measured));
    loss.held_out = grams_.text->measured_held_out || !calibrated();
    return std::optional(loss);
  }

  Status write_card(const io::FolderWriter& output, const std::optional<MeasuredLoss>& loss) const {
    ModelCard card = model_card(output.out(), request_.model,
                                fmt::format(", {}", form_text(form_name(plan_.form))));
    card.plain = plain_dense() && !request_.weights;
    card.tags = {std::string(form_tag(form_name(plan_.form)))};
    if (request_.weights) card.tags.push_back(bits_tag(request_.weights->linear));
    const io::CompressionRecord record = this->record();
    card.facts = compression_facts(record, config_, weights_text(request_.weights));
    card.facts.emplace_back("calibration", calibrated() ? grams_.names() : "none");
    card.facts.emplace_back("measured against the dense model", loss_text(loss));
    return io::write_text_file(output.staging() / "README.md", model_card_text(card));
  }

  // Without what it says of rounding.
  Result<std::string> config_text(const fs::path& original) const {
    NMM_ASSIGN(std::string config, io::read_text_file(original, io::kMaxConfigBytes));
    io::CompressionRecord made = record();
    if (plain_dense()) {
      const int64_t neurons = plan_.shapes.at(0).neurons;
      if (neurons > 0) config = with_intermediate_size(config, neurons);
      made.ranks.assign(made.ranks.size(), {});
    }
    return io::with_compression_record(config, made, original.string());
  }

  Status write_folder(io::FolderWriter& output, const StagedWork& work) {
    const fs::path original = request_.model / "config.json";
    NMM_ASSIGN(std::string config, config_text(original));
    NMM_ASSIGN(const auto written, io::ModelConfig::parse(config, original.string()));
    const auto quantization = quantization_of(request_.weights, written);
    NMM_TRY(write_model({.checkpoint = checkpoint_,
                         .config = config_,
                         .matrices = plan_.matrices,
                         .work = work,
                         .whole_mlps = narrows_mlps(request_)},
                        quantization, output.staging(), progress_));
    if (quantization) {
      NMM_ASSIGN(config, io::with_quantization(config, original.string(), *quantization));
    }
    if (plain_dense() && !quantization) {
      NMM_TRY(io::write_text_file(output.staging() / "config.json", config));
    } else {
      NMM_TRY(write_transformers_files(output.staging(), config, original.string()));
    }
    NMM_ASSIGN(const auto left_out, io::copy_model_files(request_.model, output.staging()));
    for (const std::string& note : left_out) progress_.print(note);
    return {};
  }

  const CompressRequest& request_;
  const ops::Backend& backend_;
  Progress& progress_;
  DataParallel* others_;
  ordered_json model_identity_;  // before anything of it was read
  io::ModelConfig config_;
  io::Checkpoint checkpoint_;
  Plan plan_;
  GramInput grams_;
  std::optional<FormChoice> form_choice_;
  std::optional<SizeChoice> size_choice_;
  std::optional<ErrorAwareChoice> error_aware_;
};

}  // namespace

Result<CompressSummary> compress(const CompressRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix,
                                 const Measure& measure, const MakeMetric& make_metric,
                                 DataParallel* others) {
  NMM_TRY(check_request(request));
  NMM_TRY(load_blas());
  NMM_ASSIGN(ordered_json identity, io::folder_identity(request.model));
  NMM_ASSIGN(auto config, io::ModelConfig::load(request.model / "config.json"));
  NMM_TRY(check_uncompressed(config, request.model.string()));
  Plan plan;  // of other forms it is made when the text has been read
  if (narrows_mlps(request)) {
    const Status sizes = check_sizes(config, shape_request(request));
    if (!sizes.ok()) return fail("{}: {}", request.model.string(), sizes.error().message);
  } else {
    NMM_ASSIGN(plan, make_plan(config, request.rule, request.only, request.weights,
                               request.model.string()));
  }
  if (request.allocate == Allocate::kSensitivity) {
    NMM_TRY(check_allocation(plan, request.rule.block, request.model.string()));
  }
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::open(request.model));
  NMM_TRY(check_dense(checkpoint, config));
  NMM_ASSIGN(auto grams, gram_input(request, checkpoint, config, progress));
  Compression compression(request, backend, progress, others, std::move(identity),
                          std::move(config), std::move(checkpoint), std::move(plan),
                          std::move(grams));
  return compression.run(on_matrix, measure, make_metric);
}

}  // namespace neuronmm::compress
