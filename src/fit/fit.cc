#include "fit/fit.h"

#include <algorithm>
#include <cmath>

#include "base/freed_memory.h"
#include "base/kept_work.h"
#include "base/notices.h"
#include "base/task_labels.h"
#include "compress/linear_algebra/blas.h"
#include "compress/settings.h"
#include "compress/sizes/plan.h"
#include "compress/sizes/shape_choice.h"
#include "eval/folder_divergence.h"
#include "eval/latency.h"
#include "fit/correction_json.h"
#include "fit/duration.h"
#include "fit/model_latency.h"
#include "fit/reach.h"
#include "fit/realize.h"
#include "fit/rounding_losses.h"
#include "fit/unfinished_output.h"
#include "io/atomic_file.h"
#include "io/checkpoint.h"
#include "io/folder_lock.h"
#include "io/folder_writer.h"
#include "io/model_folder.h"
#include "model/transformer.h"

namespace neuronmm::fit {
namespace {

namespace fs = std::filesystem;

// Measures the losses of the shapes that a search would choose at this share of removed parameters.
// Assumed; other shares were not tried.
constexpr double kMeasuredRatio = 0.2;
// Limits of the comparison with the dense model. The two models are timed in turns, with at least
// kMinRuns runs and about kComparedSeconds for the dense model's prompts.
constexpr int64_t kMinRuns = 5, kMaxRuns = 25;
constexpr double kComparedSeconds = 2.0;
constexpr size_t kPoints = 16;  // points of a front
// A loss below this share of the allowed one leaves bytes that could be saved. A model that is
// faster than asked by the inverse of this share has lost more than it must. Assumed.
constexpr double kUnusedShare = 0.8;
// A model is as small as rounding makes it if it is larger by less than the first factor, and a
// prediction is far worse than another one from the second factor on. Assumed.
constexpr double kNothingLeft = 1.001, kFarWorse = 2.0;
// The factor by which a measured loss may exceed the budget. Assumed.
constexpr double kLossTolerance = 1.02;

// The tasks after the announcement of the duration, with rough shares of the time, in minutes of a
// synthetic Llama-3.2-1B on two cores (measured, docs/measurements/fit.md). What narrows and rounds
// the chosen model is known only later.
std::vector<ExpectedTask> expected_tasks(const FitRequest& request, bool simulated) {
  std::vector<ExpectedTask> tasks;
  tasks.insert(tasks.end(), {{task::kMetric, 2.0},
                             {task::kCalibrating, 7.0},
                             {task::kPredicting, 2.0},
                             {task::kNarrowing, 1.0},
                             {task::kMeasuringLosses, 2.0}});
  if (!simulated) {
    tasks.insert(tasks.end(), {{task::kRounding, 2.0},
                               {task::kMeasuringRounding, 6.0},
                               {task::kWriting, 0.2},
                               {task::kComparing, 0.5}});
  }
  if (request.plan_only) return tasks;
  tasks.insert(tasks.end(), {{task::kRounding, 2.0},
                             {task::kWriting, 0.3},
                             {task::kComparing, 1.0},
                             {task::kTimingModels, 1.0}});
  return tasks;
}

// A run of `fit`. Its model and text are opened before anything is measured.
class Fitting {
 public:
  Fitting(const FitRequest& request, const Device& device, const ops::Backend& backend,
          Progress& progress, compress::DataParallel* helpers, io::ModelConfig config,
          io::Checkpoint checkpoint, compress::CalibrationSequences text)
      : request_(request),
        device_(device),
        backend_(backend),
        progress_(progress),
        helpers_(helpers),
        config_(std::move(config)),
        checkpoint_(std::move(checkpoint)),
        text_(std::move(text)) {}

  Result<FitResult> run() {
    NMM_TRY(io::make_folder(request_.sensitivities));
    // A second run with the same folder would delete files that this run is about to read.
    NMM_ASSIGN(const auto lock, io::FolderLock::wait(request_.sensitivities));
    const KeptWork kept(request_.sensitivities.string());
    if (!request_.plan_only) NMM_TRY(claim_output(request_));
    NMM_ASSIGN(const Costs costs, Costs::measure(request_.model, device_, progress_));
    dense_ = costs.dense();
    NMM_TRY(Reach(request_, checkpoint_, config_, device_.simulated).check_speed(costs));
    announce_duration();
    progress_.expect(expected_tasks(request_, device_.simulated));
    NMM_ASSIGN(const SearchInputs search_inputs, measure_search_inputs(inputs(), costs));
    NMM_ASSIGN(Correction correction, saved_correction());
    FitResult result;
    {
      const ModelSearch search(search_inputs, correction);
      result.dense = search.dense();
      NMM_ASSIGN(result.choice, choose(search, result.dense));
      compare_with_plain(search, goal(result.dense), result.choice);
      add_candidates(search, result);
    }
    if (request_.plan_only) return result;
    NMM_ASSIGN(result.measured, write_and_measure(result.choice, request_.force));
    NMM_TRY(correct(search_inputs, result, correction));
    if (!needs_correction(*result.measured)) return result;
    Result<Choice> other = choose(ModelSearch(search_inputs, correction), result.dense);
    if (!other.ok()) {  // the first model is written, and its result says what it missed
      progress_.print("a second search, corrected by this measurement, found no other model: " +
                      other.error().message);
      return result;
    }
    if (same_choice(*other, result.choice)) return result;
    result.choice = *std::move(other);
    result.corrected = true;
    NMM_ASSIGN(result.measured, write_and_measure(result.choice, true));
    return result;
  }

 private:
  compress::CompressionInputs inputs() {
    return {.checkpoint = checkpoint_,
            .config = config_,
            .backend = backend_,
            .text = &text_,
            .progress = progress_,
            .helpers = helpers_};
  }

  Result<SearchInputs> measure_search_inputs(const compress::CompressionInputs& inputs,
                                             const Costs& costs) const {
    const fs::path work = request_.sensitivities / "work";
    const fs::path shapes = request_.sensitivities / fmt::format("shapes-{}", request_.block);
    for (const fs::path& folder : {work, shapes}) NMM_TRY(io::make_folder(folder));
    const compress::StatisticsRequest wanted = {.folder = request_.sensitivities / "statistics",
                                                .method = "whitened",
                                                .what = compress::Gathered::kAllLinears,
                                                .force = request_.force};
    NMM_ASSIGN(const auto files, compress::gathered_statistics(inputs, wanted, work));
    return_freed_memory();
    SearchInputs search_inputs{.checkpoint = checkpoint_,
                               .config = config_,
                               .shapes = {},
                               .rounding = {},
                               .costs = costs,
                               .block = request_.block,
                               .embedding_bits = request_.embedding_bits};
    if (!device_.simulated) {
      NMM_ASSIGN(search_inputs.rounding,
                 measure_rounding(inputs, files.statistics, request_.sensitivities));
    }
    if (!needs_shapes(search_inputs)) return search_inputs;
    compress::StatisticsRequest with_metric = wanted;
    with_metric.method = "two-sided";
    compress::ShapeRequest shape_request;
    shape_request.rule = {.ratio = kMeasuredRatio, .block = request_.block};
    NMM_ASSIGN(shape_request.files, compress::gathered_statistics(inputs, with_metric, work));
    NMM_ASSIGN(search_inputs.shapes, compress::measured_curves(inputs, shape_request, shapes));
    return search_inputs;
  }

  // Returns whether narrower MLPs could help. They lose more than rounding to 4 bits for the same
  // bytes (docs/measurements/fit.md), so that they are measured only if a budget of bytes or loss
  // cannot be met by rounding alone, or leaves nothing more to round. Speeds depend on shapes in
  // other ways, and a plan shows all there is.
  bool needs_shapes(const SearchInputs& rounding_only) const {
    const Budget& budget = request_.budget;
    if (request_.plan_only || device_.simulated || budget.decode || budget.prefill) return true;
    const ModelSearch search(rounding_only);
    const Goal wanted = goal(search.dense());
    const auto found = search.best(wanted);
    if (!found) return true;
    const double smallest = search.smallest(kBytes);
    return wanted.minimized == kBytes && found->predicted[kBytes] <= smallest * kNothingLeft;
  }

  // Says how long the whole run will take. What earlier runs have measured takes no time.
  void announce_duration() const {
    std::error_code ignored;
    const bool gathered = fs::exists(request_.sensitivities / "statistics", ignored);
    const WorkAhead work = {
        .calibration_tokens = gathered ? 0 : text_.origin.tokens,
        .shapes = request_.plan_only || device_.simulated || request_.budget.decode ||
                  request_.budget.prefill,
        .rounding = !device_.simulated && !rounding_is_measured(request_.sensitivities, config_),
        .writing = !request_.plan_only};
    const int64_t prompt = latency_settings(config_, 1).prompt_tokens;
    progress_.print(fmt::format("this will take {} if nothing else runs",
                                duration_text(seconds_of(work, config_, dense_, prompt))));
  }

  // Compares the choice with the best model of one format that keeps to the budget, and takes that
  // one if the prediction for the choice is far worse. If no such model is small enough, a message
  // says what the smallest one would lose.
  void compare_with_plain(const ModelSearch& search, const Goal& goal, Choice& choice) const {
    if (device_.simulated || goal.minimized != kLoss) return;
    const auto [best, smallest] = search.plain(goal);
    const Choice& plain = best ? *best : smallest;
    if (choice.predicted[kLoss] <= kFarWorse * plain.predicted[kLoss]) return;
    progress_.print(fmt::format(
        "the best that the search has found has {:.1f} MB and a predicted KL of {:.3g}; plain "
        "rounding ({}, LM head {}) has {:.1f} MB and {:.3g}{}",
        choice.predicted[kBytes] / 1e6, choice.predicted[kLoss],
        io::format_text(kCandidates[plain.formats[0][0]]), io::format_text(kCandidates[plain.head]),
        plain.predicted[kBytes] / 1e6, plain.predicted[kLoss],
        best ? ", so that is taken"
        : request_.budget.bytes
            ? fmt::format("; --bytes {:.0f} would allow it", std::ceil(plain.predicted[kBytes]))
            : ", but does not meet the budget"));
    if (best) choice = *best;
  }

  Goal goal(const Quantities& dense) const {
    const Budget& budget = request_.budget;
    Goal goal;
    if (budget.bytes) goal.limits[kBytes] = *budget.bytes;
    if (budget.decode) goal.limits[kDecode] = dense[kDecode] / *budget.decode;
    if (budget.prefill) goal.limits[kPrefill] = dense[kPrefill] / *budget.prefill;
    if (budget.divergence) {
      goal.limits[kLoss] = *budget.divergence;
      goal.minimized = kBytes;
    }
    return goal;
  }

  Result<Choice> choose(const ModelSearch& search, const Quantities& dense) const {
    const Goal goal = this->goal(dense);
    if (auto found = search.best(goal)) {
      // The knapsack does not limit the quantity that it minimizes, so that its limit is checked
      // here.
      if (found->predicted[goal.minimized] > goal.limits[goal.minimized]) {
        return fail(
            "{}: {:.0f} bytes are out of reach beside the other budgets; the nearest possible are "
            "{:.0f}",
            request_.model.string(), goal.limits[kBytes], found->predicted[kBytes]);
      }
      if (found->rounded || narrows(*found)) return *std::move(found);
      return fail("{}: the model meets the budget as it is", request_.model.string());
    }
    const double bytes = search.smallest(kBytes);
    if (bytes > goal.limits[kBytes]) {
      return fail("{}: {:.0f} bytes are out of reach; the nearest possible are {:.0f}",
                  request_.model.string(), goal.limits[kBytes], bytes);
    }
    for (const auto& [quantity, name] :
         {std::pair(kDecode, "decoding"), std::pair(kPrefill, "prefill")}) {
      const double least = search.smallest(quantity);
      if (least <= goal.limits[quantity]) continue;
      return fail("{}: {} {:.2f} times as fast is out of reach; the nearest possible is {:.2f}",
                  request_.model.string(), name, dense[quantity] / goal.limits[quantity],
                  dense[quantity] / least);
    }
    return fail("{}: no model meets all of the budget at once, though each part of it can be met",
                request_.model.string());
  }

  Result<Measured> write_and_measure(const Choice& choice, bool force) {
    const Realization options = {.model = request_.model,
                                 .out = request_.out,
                                 .calibration = request_.calibration,
                                 .statistics = request_.sensitivities / "statistics",
                                 .work = request_.sensitivities / "work",
                                 .block = request_.block,
                                 .force = force};
    NMM_TRY(realize(choice, options, backend_, progress_));
    release_output(request_);
    NMM_ASSIGN(const auto divergence, eval::folder_divergence(request_.model, request_.out,
                                                              text_.measured, backend_, progress_));
    Measured measured = {.tokens = divergence.tokens,
                         .divergence = divergence.divergence,
                         .dense_perplexity = divergence.dense_perplexity,
                         .perplexity = divergence.perplexity,
                         .bytes = 0,
                         .dense = {},
                         .model = {},
                         .decode_quartile = 0.0,
                         .prefill_quartile = 0.0};
    NMM_ASSIGN(const auto written, io::Checkpoint::open(request_.out));
    measured.bytes = written.size_bytes();
    NMM_TRY(time_in_turns(measured));
    return measured;
  }

  // Times both models in turns. Small models get more runs.
  Status time_in_turns(Measured& measured) {
    NMM_ASSIGN(const auto device, device_.make());
    NMM_ASSIGN(const auto dense, model::Transformer::load(request_.model, *device));
    NMM_ASSIGN(const auto made, model::Transformer::load(request_.out, *device));
    const model::Transformer* const models[] = {&dense, &made};
    const auto runs = static_cast<int64_t>(kComparedSeconds / std::max(1e-3, dense_.prefill));
    const auto settings =
        latency_settings(config_, device_.simulated ? 1 : std::clamp(runs, kMinRuns, kMaxRuns));
    NMM_ASSIGN(const auto latency, eval::measure_latency(models, settings, progress_));
    measured.dense = median_seconds(latency.models[0]);
    measured.model = median_seconds(latency.models[1]);
    const Speedups best = upper_quartiles(latency.models[0], latency.models[1]);
    measured.decode_quartile = best.decode;
    measured.prefill_quartile = best.prefill;
    return {};
  }

  // Returns whether the model misses the budget, or leaves so much of it unused that another choice
  // would be better.
  bool needs_correction(const Measured& measured) const {
    const Budget& budget = request_.budget;
    const auto speed_needs_correction = [](std::optional<double> required, double quartile,
                                           double median) {
      return required && (quartile < *required || median * kUnusedShare > *required);
    };
    const double loss = measured.divergence.value;
    return (budget.divergence && (loss > *budget.divergence * kLossTolerance ||
                                  loss < *budget.divergence * kUnusedShare)) ||
           speed_needs_correction(budget.decode, measured.decode_quartile,
                                  measured.dense.decode / measured.model.decode) ||
           speed_needs_correction(budget.prefill, measured.prefill_quartile,
                                  measured.dense.prefill / measured.model.prefill);
  }

  // Updates the correction for the next search of this run with the ratio of measured to predicted
  // values.
  //
  // For losses the ratio of measured to uncorrected predictions is also saved, and a later run
  // begins with the geometric mean of all. Where both shapes and rounding have caused a loss,
  // either prediction may be wrong, and both are corrected. The loss by rounding activations was
  // measured, and is not corrected.
  Status correct(const SearchInputs& search_inputs, const FitResult& result,
                 Correction& correction) const {
    const Choice& choice = result.choice;
    const Measured& measured = *result.measured;
    const auto ratio = [](double real, double predicted) {
      return real > 0.0 && predicted > 0.0 ? real / predicted : 1.0;
    };
    const double fixed = choice.rounded ? search_inputs.rounding->activations : 0.0;
    const double loss = ratio(measured.divergence.value - fixed, choice.predicted[kLoss] - fixed);
    correction.decode *= ratio(measured.model.decode, choice.predicted[kDecode]);
    correction.prefill *= ratio(measured.model.prefill, choice.predicted[kPrefill]);
    NMM_ASSIGN(Ratios ratios, read_ratios(correction_path()));
    if (narrows(choice)) ratios.shapes.push_back(correction.shapes *= loss);
    if (choice.rounded) ratios.rounding.push_back(correction.rounding *= loss);
    return write_ratios(correction_path(), ratios);
  }

  fs::path correction_path() const { return request_.sensitivities / "correction.json"; }

  Result<Correction> saved_correction() const {
    NMM_ASSIGN(const Ratios ratios, read_ratios(correction_path()));
    Correction correction;
    correction.shapes = geometric_mean(ratios.shapes);
    correction.rounding = geometric_mean(ratios.rounding);
    return correction;
  }

  static bool same_choice(const Choice& a, const Choice& b) {
    return a.shapes == b.shapes && a.formats == b.formats && a.head == b.head && a.table == b.table;
  }

  void add_candidates(const ModelSearch& search, FitResult& result) const {
    if (!device_.simulated) {
      constexpr size_t kEight = 0, kSix = 1;
      for (const auto& [name, format, head] :
           {std::tuple("int8", kEight, kEight), std::tuple("6 bits", kSix, kSix),
            std::tuple("4 bits, groups of 16", kMeasuredFormat, kSix),
            std::tuple("4 bits, groups of 32", kMeasuredFormat + 1, kSix)}) {
        result.uniform_models.push_back({name, search.uniform(format, head).predicted});
      }
    }
    for (const double kept : {0.9, 0.8, 0.7, 0.5}) {
      if (auto choice = search.narrowed(kept)) {
        result.uniform_models.push_back({fmt::format("mixed, {} kept", kept), choice->predicted});
      }
    }
    add_front(search, kBytes, result.front);
    add_front(search, kPrefill, result.fast_front);
  }

  void add_front(const ModelSearch& search, Quantity quantity,
                 std::vector<Candidate>& front) const {
    const double least = search.smallest(quantity), most = search.dense()[quantity];
    for (size_t i = 0; i < kPoints; ++i) {
      const double share = (static_cast<double>(i) + 1.0) / static_cast<double>(kPoints + 1);
      Goal goal;
      goal.limits[quantity] = least * std::pow(most / least, share);
      const auto choice = search.best(goal);
      if (!choice) continue;
      // A larger limit may give the same model again if nothing can be gained by it.
      if (!front.empty() && front.back().predicted == choice->predicted) continue;
      front.push_back({"the best that was found", choice->predicted});
    }
  }

  const FitRequest& request_;
  const Device& device_;
  const ops::Backend& backend_;
  Progress& progress_;
  compress::DataParallel* helpers_;
  io::ModelConfig config_;
  io::Checkpoint checkpoint_;
  compress::CalibrationSequences text_;
  Seconds dense_;
};

}  // namespace

Result<FitResult> fit(const FitRequest& request, const Device& device, const ops::Backend& backend,
                      Progress& progress, compress::DataParallel* helpers) {
  NMM_TRY(compress::load_blas());
  if (!request.plan_only) {
    const auto if_exists =
        request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
    NMM_TRY(io::FolderWriter::check(request.out, if_exists, request.model));
  }
  NMM_ASSIGN(io::ModelFolder model, io::open_model(request.model));
  io::ModelConfig& config = model.config;
  NMM_TRY(io::refuse_mixtures(config, request.model.string(), "fit",
                              "round them instead: neuronmm quantize --bits 8, 6 or 4"));
  if (config.quantization) {
    return fail("{}: its weights are rounded already ({}); fit the original model",
                request.model.string(), io::quantization_text(*config.quantization));
  }
  NMM_TRY(compress::check_uncompressed(config, request.model.string()));
  NMM_TRY(Reach(request, model.checkpoint, config, device.simulated).check_bytes());
  NMM_ASSIGN(auto text,
             compress::encoded_calibration(request.calibration, request.model, config, progress));
  return Fitting(request, device, backend, progress, helpers, std::move(config),
                 std::move(model.checkpoint), std::move(text))
      .run();
}

}  // namespace neuronmm::fit
