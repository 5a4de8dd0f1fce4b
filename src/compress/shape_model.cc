#include "compress/shape_model.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <system_error>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/threads.h"
#include "compress/data_parallel.h"
#include "compress/form_trial.h"
#include "compress/losses_file.h"
#include "compress/measured_losses.h"
#include "compress/narrow_file.h"
#include "compress/narrow_mlp.h"
#include "compress/narrow_weights.h"
#include "compress/neuron_order.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// What layers that run side by side may take. Assumed.
constexpr int64_t kBytesAtOnce = int64_t{2} << 30;

// The share of the predicted loss that narrower inputs must have for down to be fitted on the text
// once more. What that gains grows with their share, and the fit's own error, of as few tokens as
// there are, costs everywhere. Measured on 32,768 tokens, KL without the fit and with it: SmolLM2
// mixed at kept .8 (share .13) .2141 and .2134 on text like the calibration's and .5664 and .5642
// on other, for 60 % more time; pivoted at .9 (share .7) .115 and .107; the bundled model at .69
// (share .6) .019 and .011.
constexpr double kFitShare = 0.4;

// Side by side, each on one thread, where most threads get a layer that way: small matrices gain
// little from several threads. Else one after the other, each on all threads.
int64_t layers_at_once(const io::ModelConfig& config) {
  // fp64: some matrices as large as the neurons' Gram matrix (neuron_order.h), and the weights with
  // as much again of products.
  const int64_t inner = config.intermediate_size, squares = inner > kMostOneByOne ? 3 : 6;
  const int64_t bytes = 8 * (squares * inner * inner + 6 * inner * config.hidden_size);
  const int64_t fit = kBytesAtOnce / std::max<int64_t>(bytes, 1);
  return 2 * fit > num_threads() ? std::min<int64_t>(fit, num_threads()) : 1;
}

// task(layer) for all layers, perhaps several at once. The first error ends it, and so
// does an interrupt between two layers.
class LayerTasks {
 public:
  LayerTasks(const CompressionInputs& inputs, const fs::path& work)
      : inputs_(inputs), work_(work) {}

  Status run(const std::string& label, const std::function<Status(int64_t)>& task) {
    const int64_t layers = inputs_.config.num_hidden_layers;
    inputs_.progress.start(label, layers);
    const int64_t at_once = this->at_once();
    const auto work = [&](int64_t) {
      for (int64_t layer; (layer = next_.fetch_add(1)) < layers;) {
        if (stopping()) return;
        finish(layer, task(layer));
        inputs_.checkpoint.release_pages();
      }
    };
    if (at_once == 1) {
      work(0);
    } else {
      run_on_threads(at_once, work);
    }
    inputs_.progress.finish();
    if (error_) return *std::move(error_);
    return interrupted() ? Status(stopped()) : Status();
  }

  // The same by all processes: jobs for what is not there yet (nothing: it is), and what to do with
  // their results. Rounds of at_once() layers per process: what a round has made is kept before the
  // next begins.
  Status run_with_others(const std::string& label,
                         const std::function<Result<std::optional<LayerJob>>(int64_t)>& job,
                         const std::function<Status(int64_t, MessageReader&)>& take) {
    const int64_t layers = inputs_.config.num_hidden_layers;
    const auto round = static_cast<size_t>(at_once() * inputs_.others->processes());
    inputs_.progress.start(label, layers);
    std::vector<LayerJob> jobs;
    const auto take_one = [&](int64_t layer, MessageReader& result) {
      finish(layer, take(layer, result));
      return error_ ? Status(*error_) : Status();
    };
    for (int64_t layer = 0; layer < layers; ++layer) {
      NMM_ASSIGN(auto next, job(layer));
      if (next) {
        jobs.push_back(*std::move(next));
      } else {
        finish(layer, {});
      }
      if (jobs.size() < round && (jobs.empty() || layer + 1 < layers)) continue;
      if (interrupted()) return stopped();
      NMM_TRY(inputs_.others->run_jobs({inputs_.checkpoint, inputs_.config}, jobs, at_once(),
                                       take_one));
      jobs.clear();
      inputs_.checkpoint.release_pages();
    }
    inputs_.progress.finish();
    return {};
  }

 private:
  int64_t at_once() const {
    return std::min(inputs_.config.num_hidden_layers, layers_at_once(inputs_.config));
  }
  Error stopped() const {
    return interrupted_error(
        fmt::format("{} of {} layers are kept in {}; run the same command again to go on", done_,
                    inputs_.config.num_hidden_layers, work_.parent_path().string()));
  }
  bool stopping() const { return stopping_ || interrupted(); }
  void finish(int64_t layer, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (status.ok()) return inputs_.progress.update(++done_, fmt::format("layer {}", layer));
    if (!error_) {
      error_ = fail("{}: layer {}: {}", inputs_.checkpoint.folder().string(), layer,
                    status.error().message);
    }
    stopping_ = true;
  }

  const CompressionInputs& inputs_;
  const fs::path& work_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  int64_t done_ = 0;
  std::optional<Error> error_;
};

Result<KnownMlp> know_mlp(const CompressionInputs& inputs, const ShapeRequest& request,
                          int64_t layer) {
  KnownMlp known;
  NMM_ASSIGN(const auto weights, model::layer_weights(inputs.checkpoint, inputs.config, layer));
  NMM_ASSIGN(known.mlp, DenseMlp::read(weights.mlp));
  NMM_ASSIGN(known.statistics, read_statistics(request.statistics, layer, inputs.config));
  if (request.metric.empty()) {
    known.metric = local_metric(known.statistics, known.mlp.down_t);
  } else {
    NMM_ASSIGN(known.metric, read_metric(request.metric, layer, inputs.config));
  }
  return known;
}

// Those of several layers are added up.
constexpr std::vector<double> PredictedLosses::*kCurves[] = {
    &PredictedLosses::gate, &PredictedLosses::up, &PredictedLosses::input, &PredictedLosses::output,
    &PredictedLosses::neurons};

Result<FoundShapes> uniform_shapes(const ShapeRequest& request, Form form, const MlpSizes& sizes,
                                   const std::vector<PredictedLosses>& layers) {
  const auto count = static_cast<int64_t>(layers.size());
  if (form == Form::kMixed) {
    // One layer with the losses of all of them.
    PredictedLosses sum = layers[0];
    for (size_t layer = 1; layer < layers.size(); ++layer) {
      for (const auto curve : kCurves) {
        std::ranges::transform(layers[layer].*curve, sum.*curve, (sum.*curve).begin(),
                               std::plus<>());
      }
    }
    const auto budget = static_cast<int64_t>((1.0 - request.rule.ratio) *
                                             static_cast<double>(sizes.dense_parameters()));
    NMM_ASSIGN(FoundShapes found, find_shapes(form, sizes, request.rule.block, {sum}, budget));
    found.shapes.assign(layers.size(), found.shapes[0]);
    found.parameters *= count;
    return found;
  }
  NMM_ASSIGN(const io::MlpShape shape, uniform_shape(form, sizes, request.rule));
  FoundShapes found;
  for (const PredictedLosses& losses : layers) {
    found.shapes.push_back(shape);
    found.parameters += sizes.parameters(shape);
    found.predicted_loss += loss_of(losses, shape);
  }
  return found;
}

Result<FoundShapes> given_shapes(const ShapeRequest& request, const MlpSizes& sizes,
                                 const std::vector<PredictedLosses>& layers) {
  NMM_CHECK(request.shapes.size() == layers.size());
  FoundShapes found{.shapes = request.shapes};
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    found.parameters += sizes.parameters(request.shapes[layer]);
    found.predicted_loss += loss_of(layers[layer], request.shapes[layer]);
  }
  return found;
}

Result<FoundShapes> shapes_of(const ShapeRequest& request, Form form, const MlpSizes& sizes,
                              const std::vector<PredictedLosses>& layers) {
  if (!request.shapes.empty()) return given_shapes(request, sizes, layers);
  if (request.uniform) return uniform_shapes(request, form, sizes, layers);
  const double kept = 1.0 - request.rule.ratio;
  const auto budget = static_cast<int64_t>(kept * static_cast<double>(sizes.dense_parameters()) *
                                           static_cast<double>(layers.size()));
  return find_shapes(form, sizes, request.rule.block, layers, budget);
}

// With the order of the neurons, which predicting the losses has left.
Result<KnownMlp> know_with_order(const CompressionInputs& inputs, const ShapeRequest& request,
                                 int64_t layer) {
  NMM_ASSIGN(KnownMlp known, know_mlp(inputs, request, layer));
  auto losses = read_losses(request.losses, layer, inputs.config);
  if (!losses) return fail("{}: cannot be read", losses_path(request.losses, layer).string());
  known.order = std::move(losses->order);
  return known;
}

Result<StoredFormat> layer_format(const CompressionInputs& inputs, int64_t layer) {
  NMM_ASSIGN(const auto weights, model::layer_weights(inputs.checkpoint, inputs.config, layer));
  return stored_format(inputs.weights, weights.mlp.gate.w_t.dtype);
}

Status save_layer(const CompressionInputs& inputs, const ShapedModel& model, const fs::path& out,
                  int64_t layer, const NarrowMlp& mlp) {
  NMM_ASSIGN(const StoredFormat stored, layer_format(inputs, layer));
  const DType dtype = staged_dtype(stored);
  const NarrowMlp saved = model.padded > 0          ? with_zero_neurons(mlp, model.padded)
                          : model.form == Form::kUv ? with_factors(mlp, stored)
                                                    : mlp;
  for (const MlpTensor& tensor : saved.tensors) {
    NMM_TRY(check_range(
        fmt::format("{}: layer {} {}", inputs.checkpoint.folder().string(), layer, tensor.name),
        tensor.values, dtype));
  }
  return write_narrow_mlp(shaped_path(out, layer), saved, dtype);
}

// Layer by layer, with down fitted on the calibration text.
Status shape_in_sequence(const CompressionInputs& inputs, const ShapeRequest& request,
                         const fs::path& out, ShapedModel& model) {
  ShapePass pass{
      .shapes = {}, .as_factors = model.form == Form::kUv, .know = {}, .save = {}, .saved = {}};
  for (const LayerReport& layer : model.layers) pass.shapes.push_back(layer.shape);
  pass.know = [&](int64_t layer) { return know_with_order(inputs, request, layer); };
  pass.saved = [&](int64_t layer) { return read_narrow_mlp(shaped_path(out, layer)); };
  pass.save = [&](int64_t layer, const NarrowMlp& mlp) {
    return save_layer(inputs, model, out, layer, mlp);
  };
  NMM_TRY(run_shape_pass(inputs, pass, out));
  for (size_t layer = 0; layer < model.layers.size(); ++layer) {
    const fs::path path = shaped_path(out, static_cast<int64_t>(layer));
    const auto saved = read_narrow_mlp(path);
    if (!saved) return fail("{}: cannot be read", path.string());
    model.layers[layer].largest_map = saved->largest_map;
  }
  return {};
}

Result<std::vector<PredictedLosses>> predicted_curves(const CompressionInputs& inputs,
                                                      const ShapeRequest& request,
                                                      const fs::path& work) {
  std::error_code error;
  fs::create_directories(request.losses, error);
  if (error) return fail("{}: cannot be created: {}", request.losses.string(), error.message());
  std::vector<PredictedLosses> layers(static_cast<size_t>(inputs.config.num_hidden_layers));
  const auto saved = [&](int64_t layer) {
    auto losses = read_losses(request.losses, layer, inputs.config);
    if (!losses) return false;
    layers[static_cast<size_t>(layer)] = *std::move(losses);
    return true;
  };
  const auto save = [&](int64_t layer, PredictedLosses losses) {
    const Status status = save_losses(request.losses, layer, losses);
    layers[static_cast<size_t>(layer)] = std::move(losses);
    return status;
  };
  LayerTasks tasks(inputs, work);
  const std::string label = "predicting losses";
  if (inputs.others != nullptr) {
    const auto job = [&](int64_t layer) -> Result<std::optional<LayerJob>> {
      if (saved(layer)) return std::optional<LayerJob>();
      NMM_ASSIGN(const KnownMlp known, know_mlp(inputs, request, layer));
      return std::optional(losses_job(layer, known.statistics, known.metric));
    };
    NMM_TRY(tasks.run_with_others(label, job, [&](int64_t layer, MessageReader& result) {
      return save(layer, read_losses_result(result));
    }));
    return layers;
  }
  NMM_TRY(tasks.run(label, [&](int64_t layer) -> Status {
    if (saved(layer)) return {};
    NMM_ASSIGN(const KnownMlp known, know_mlp(inputs, request, layer));
    NMM_ASSIGN(auto losses, predict_losses(known.mlp, known.statistics, known.metric));
    return save(layer, std::move(losses));
  }));
  return layers;
}

ShapedModel shaped_model(Form form, bool pad, const FoundShapes& found, const MlpSizes& sizes,
                         const std::vector<PredictedLosses>& layers) {
  ShapedModel model;
  model.form = form;
  for (const io::MlpShape& shape : found.shapes) {
    const int64_t neurons = shape.neurons > 0 ? shape.neurons : sizes.inner;
    if (pad) model.padded = std::max(model.padded, neurons);
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const io::MlpShape& shape = found.shapes[layer];
    const int64_t kept =
        sizes.parameters(model.padded > 0 ? io::MlpShape{.neurons = model.padded} : shape);
    model.layers.push_back(
        {shape, static_cast<double>(kept) / static_cast<double>(sizes.dense_parameters()),
         loss_of(layers[layer], shape), input_loss_of(layers[layer], shape)});
  }
  return model;
}

double predicted_loss(const ShapedModel& model) {
  double sum = 0.0;
  for (const LayerReport& layer : model.layers) sum += layer.predicted_loss;
  return sum;
}

// What form auto chooses from, the first of equals first: those forms of the request's sizes that
// have such sizes.
struct Candidate {
  Form form;
  FoundShapes found;
  ShapedModel model;
};
Result<std::vector<Candidate>> form_candidates(const CompressionInputs& inputs,
                                               const ShapeRequest& request, const MlpSizes& sizes,
                                               const std::vector<PredictedLosses>& layers) {
  std::vector<Form> forms = {Form::kMixed, Form::kPivoted};
  if (inputs.weights) forms.push_back(Form::kNeurons);
  std::vector<Candidate> candidates;
  for (const Form form : forms) {
    auto found = shapes_of(request, form, sizes, layers);
    if (!found.ok() && form == Form::kMixed) return found.error();
    if (!found.ok()) continue;
    ShapedModel model = shaped_model(form, request.pad, *found, sizes, layers);
    candidates.push_back({form, *std::move(found), std::move(model)});
  }
  return candidates;
}

Result<FormChoice> measured_choice(const CompressionInputs& inputs, const ShapeRequest& request,
                                   const fs::path& work, const std::vector<Candidate>& candidates) {
  std::vector<FormCandidate> forms;
  for (const Candidate& candidate : candidates) {
    forms.push_back({candidate.form, predicted_loss(candidate.model), {}});
  }
  FormTrials trials(inputs, request, work);
  return choose_form(std::move(forms), trials.tokens(), [&](Form form) {
    return trials.measure(form_name(form),
                          std::ranges::find(candidates, form, &Candidate::form)->model);
  });
}

// Fewer neurons of a dense input are fitted by the statistics alone. Weights of less than 8 bits
// are a reason of their own: down then makes up for the rounding of gate and up, too. SmolLM2,
// mixed at kept .8, to nearest: KL .488 with the fit and .615 without in 4 bits, .254 and .248
// in 8.
bool is_worth_a_fit(const std::vector<LayerReport>& layers, const WeightFormats& weights) {
  double inputs = 0.0, all = 0.0;
  for (const LayerReport& layer : layers) {
    inputs += layer.input_loss;
    all += layer.predicted_loss;
  }
  const bool few_bits = weights && weights->linear.bits < 8;
  return inputs > 0.0 && (few_bits || inputs >= kFitShare * all);
}

// Each by its statistics alone.
Status narrow_layers(const CompressionInputs& inputs, const ShapeRequest& request,
                     const fs::path& work, const fs::path& out, ShapedModel& model) {
  const auto report = [&](int64_t layer) -> LayerReport& {
    return model.layers[static_cast<size_t>(layer)];
  };
  const auto is_saved = [&](int64_t layer) {
    const auto saved = read_narrow_mlp(shaped_path(out, layer));
    if (saved) report(layer).largest_map = saved->largest_map;
    return saved.has_value();
  };
  const auto save = [&](int64_t layer, const NarrowMlp& narrow) {
    report(layer).largest_map = narrow.largest_map;
    return save_layer(inputs, model, out, layer, narrow);
  };
  LayerTasks tasks(inputs, work);
  const std::string label = "narrowing";
  if (inputs.others != nullptr) {
    const auto job = [&](int64_t layer) -> Result<std::optional<LayerJob>> {
      if (is_saved(layer)) return std::optional<LayerJob>();
      NMM_ASSIGN(const KnownMlp known, know_with_order(inputs, request, layer));
      NMM_ASSIGN(const StoredFormat stored, layer_format(inputs, layer));
      return std::optional(narrow_job(layer, known.statistics, known.metric, known.order,
                                      report(layer).shape, stored));
    };
    return tasks.run_with_others(label, job, [&](int64_t layer, MessageReader& result) {
      return save(layer, read_narrow_result(result));
    });
  }
  return tasks.run(label, [&](int64_t layer) -> Status {
    if (is_saved(layer)) return {};
    NMM_ASSIGN(KnownMlp known, know_with_order(inputs, request, layer));
    NMM_ASSIGN(const StoredFormat stored, layer_format(inputs, layer));
    NMM_ASSIGN(const NarrowMlp narrow,
               narrow_mlp(std::move(known.mlp), std::move(known.statistics), known.metric,
                          known.order, report(layer).shape, stored));
    return save(layer, narrow);
  });
}

// The losses of every layer at every size, by what the sizes of `model` are measured to cost. As
// they are before they are rounded: layers that stay whole are, too.
Status correct_curves(const CompressionInputs& inputs, const ShapeRequest& request,
                      const fs::path& work, const ShapedModel& model,
                      std::vector<PredictedLosses>& layers) {
  CompressionInputs unrounded = inputs;
  unrounded.weights = {};
  const fs::path folder = work / "narrowed";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail("{}: cannot be created: {}", folder.string(), error.message());
  MeasureRequest wanted = {.shapes = {},
                           .narrow =
                               [&] {
                                 ShapedModel narrowed = model;
                                 return narrow_layers(unrounded, request, work, folder, narrowed);
                               },
                           .narrowed = shaped_mlps(unrounded, folder)};
  for (const LayerReport& layer : model.layers) wanted.shapes.push_back(layer.shape);
  NMM_ASSIGN(const auto measured, measure_losses(unrounded, wanted, work));
  fs::remove_all(folder, error);  // what cannot be deleted goes with the rest of the work
  correct_losses(wanted.shapes, measured, layers);
  return {};
}

// Sizes by corrected losses in the place of those of `model`, if the whole model is better for it:
// what layers lose alone adds up only while little is removed.
Status correct_sizes(const CompressionInputs& inputs, const ShapeRequest& request,
                     const MlpSizes& sizes, const fs::path& work,
                     std::vector<PredictedLosses>& layers, ShapedModel& model) {
  NMM_TRY(correct_curves(inputs, request, work, model, layers));
  NMM_ASSIGN(const FoundShapes found, shapes_of(request, model.form, sizes, layers));
  ShapedModel other = shaped_model(model.form, request.pad, found, sizes, layers);
  FormTrials trials(inputs, request, work);
  SizeChoice choice = {.held_out = trials.tokens() > 0};
  NMM_ASSIGN(choice.predicted, trials.measure(form_name(model.form), model));
  NMM_ASSIGN(choice.measured, trials.measure("measured", other));
  other.form_choice = model.form_choice;
  if (choice.taken()) model = std::move(other);
  model.size_choice = choice;
  return {};
}

}  // namespace

Status check_sizes(const io::ModelConfig& config, const ShapeRequest& request) {
  if (!request.shapes.empty()) return {};
  const bool by_formula =
      request.uniform && request.form != Form::kMixed && request.form != Form::kAuto;
  const MlpSizes sizes = {config.hidden_size, config.intermediate_size, request.form == Form::kUv};
  if (by_formula) {
    NMM_ASSIGN(const io::MlpShape shape, uniform_shape(request.form, sizes, request.rule));
    (void)shape;
    return {};
  }
  const auto wanted = static_cast<int64_t>((1.0 - request.rule.ratio) *
                                           static_cast<double>(sizes.dense_parameters()));
  const int64_t least = sizes.parameters(smallest_shape(request.form, sizes, request.rule.block));
  if (least <= wanted) return {};
  return fail(
      "ratio {} leaves {} parameters of each MLP, and form {} with block {} keeps at least {}; use "
      "a "
      "smaller ratio or a smaller block",
      request.rule.ratio, wanted, form_name(request.form), request.rule.block, least);
}

std::string size_choice_text(const SizeChoice& choice) {
  const auto [taken, other] =
      choice.taken() ? std::pair("measured", "predicted") : std::pair("predicted", "measured");
  const auto [least, most] = std::minmax(choice.measured, choice.predicted);
  return fmt::format("by {} losses, KL {:.3g} on {} where those by {} ones have {:.3g}", taken,
                     least, choice.held_out ? "held-out tokens" : "the calibration text", other,
                     most);
}

fs::path shaped_path(const fs::path& folder, int64_t layer) {
  return folder / fmt::format("shaped-{:05}.safetensors", layer);
}

WithMlp shaped_mlps(const CompressionInputs& inputs, const fs::path& folder) {
  return [&inputs, folder](int64_t layer, const auto& use) -> Status {
    const auto saved = read_narrow_mlp(shaped_path(folder, layer));
    if (!saved) return fail("{}: cannot be read", shaped_path(folder, layer).string());
    NMM_ASSIGN(const StoredFormat stored, layer_format(inputs, layer));
    use(NarrowWeights(*saved, stored).mlp());
    return {};
  };
}

Result<ShapedModel> choose_shapes(const CompressionInputs& inputs, const ShapeRequest& request,
                                  const fs::path& work) {
  NMM_ASSIGN(auto layers, predicted_curves(inputs, request, work));
  const MlpSizes sizes = {inputs.config.hidden_size, inputs.config.intermediate_size,
                          request.form == Form::kUv};
  Form form = request.form;
  FoundShapes found;
  std::optional<FormChoice> choice;
  if (form == Form::kAuto) {
    NMM_ASSIGN(auto candidates, form_candidates(inputs, request, sizes, layers));
    if (candidates.size() > 1) {
      NMM_ASSIGN(choice, measured_choice(inputs, request, work, candidates));
    }
    form = choice ? choice->taken().form : candidates.front().form;
    found = std::move(std::ranges::find(candidates, form, &Candidate::form)->found);
  } else {
    NMM_ASSIGN(found, shapes_of(request, form, sizes, layers));
  }
  ShapedModel model = shaped_model(form, request.pad, found, sizes, layers);
  model.form_choice = choice;
  if (request.measured) NMM_TRY(correct_sizes(inputs, request, sizes, work, layers, model));
  return model;
}

Result<std::vector<PredictedLosses>> measured_curves(const CompressionInputs& inputs,
                                                     const ShapeRequest& request,
                                                     const fs::path& work) {
  NMM_ASSIGN(auto layers, predicted_curves(inputs, request, work));
  const MlpSizes sizes = {inputs.config.hidden_size, inputs.config.intermediate_size,
                          request.form == Form::kUv};
  NMM_ASSIGN(const FoundShapes found, shapes_of(request, request.form, sizes, layers));
  const ShapedModel model = shaped_model(request.form, request.pad, found, sizes, layers);
  NMM_TRY(correct_curves(inputs, request, work, model, layers));
  return layers;
}

Status shape_layers(const CompressionInputs& inputs, const ShapeRequest& request,
                    const fs::path& work, const fs::path& out, ShapedModel& model) {
  if (inputs.text != nullptr && is_worth_a_fit(model.layers, inputs.weights)) {
    return shape_in_sequence(inputs, request, out, model);
  }
  return narrow_layers(inputs, request, work, out, model);
}

}  // namespace neuronmm::compress
