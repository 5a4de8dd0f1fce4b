#include "compress/sizes/shape_choice.h"

#include <algorithm>
#include <functional>
#include <system_error>

#include "compress/sizes/held_out_divergence.h"
#include "compress/sizes/measured_losses.h"
#include "compress/sizes/predicted_curves.h"
#include "compress/sizes/shape_search.h"
#include "io/atomic_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// The share of the predicted loss from which on down is fitted on the text once more. The share is
// that of narrower inputs, because the gain of the fit grows with it. The fit has an error of its
// own, from the limited number of tokens. Below this share it gains almost nothing and costs time
// (measured, docs/measurements/quality.md).
constexpr double kFitShare = 0.4;

// Returns one shape for all layers.
Result<FoundShapes> uniform_shapes(const ShapeRequest& request, Form form, const MlpSizes& sizes,
                                   const std::vector<PredictedLosses>& layers) {
  const auto count = static_cast<int64_t>(layers.size());
  if (form == Form::kMixed) {
    // The search treats all layers as one layer with the sum of their losses.
    PredictedLosses sum = layers[0];
    for (size_t layer = 1; layer < layers.size(); ++layer) {
      for (const auto curve : kPredictedCurves) {
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

// Returns the shapes of the request with their predicted loss.
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

// Returns the shapes that the request asks for: given ones, uniform ones, or those of the search.
Result<FoundShapes> shapes_of(const ShapeRequest& request, Form form, const MlpSizes& sizes,
                              const std::vector<PredictedLosses>& layers) {
  if (!request.shapes.empty()) return given_shapes(request, sizes, layers);
  if (request.uniform) return uniform_shapes(request, form, sizes, layers);
  const double kept = 1.0 - request.rule.ratio;
  const auto budget = static_cast<int64_t>(kept * static_cast<double>(sizes.dense_parameters()) *
                                           static_cast<double>(layers.size()));
  return find_shapes(form, sizes, request.rule.block, layers, budget);
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

// A form that `auto` may become, with its shapes. form_candidates() lists the forms that have
// shapes of the requested size; the first of equals is preferred.
struct Candidate {
  Form form;
  FoundShapes found;
  ShapedModel model;
};
Result<std::vector<Candidate>> form_candidates(const ShapeRequest& request, const MlpSizes& sizes,
                                               const std::vector<PredictedLosses>& layers) {
  std::vector<Form> forms = {Form::kMixed, Form::kPivoted};
  if (request.weights) forms.push_back(Form::kNeurons);
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
    forms.push_back({candidate.form, candidate.model.predicted_loss(), {}});
  }
  HeldOutDivergence divergence(inputs, request, work);
  return choose_form(std::move(forms), divergence.tokens(), [&](Form form) {
    return divergence.measure(form_name(form),
                              std::ranges::find(candidates, form, &Candidate::form)->model);
  });
}

// Corrects the predicted losses of all layers by measuring the shapes of `model`. Weights are
// measured before they are rounded. Layers that stay whole are not rounded either.
Status correct_curves(const CompressionInputs& inputs, const ShapeRequest& request,
                      const fs::path& work, const ShapedModel& model,
                      std::vector<PredictedLosses>& layers) {
  ShapeRequest unrounded = request;
  unrounded.weights = {};
  const fs::path folder = work / "narrowed";
  NMM_TRY(io::make_folder(folder));
  const NarrowRequest narrowing = narrow_request(unrounded, model, inputs.config);
  const MeasureRequest wanted = {.shapes = narrowing.shapes,
                                 .narrow = [&]() -> Status {
                                   const auto narrowed = narrow_layers(inputs, narrowing, folder);
                                   return narrowed.ok() ? Status() : Status(narrowed.error());
                                 },
                                 .narrowed = narrowed_mlps(inputs, unrounded.weights, folder)};
  NMM_ASSIGN(const auto measured, measure_losses(inputs, wanted, work));
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // what cannot be deleted goes with the rest of the work folder
  correct_losses(wanted.shapes, measured, layers);
  return {};
}

// Replaces the sizes of `model` by those of the corrected losses if the whole model is better with
// them. The check is needed because the losses of single layers only add up while little is
// removed.
Status correct_sizes(const CompressionInputs& inputs, const ShapeRequest& request,
                     const MlpSizes& sizes, const fs::path& work,
                     std::vector<PredictedLosses>& layers, ShapedModel& model) {
  NMM_TRY(correct_curves(inputs, request, work, model, layers));
  NMM_ASSIGN(const FoundShapes found, shapes_of(request, model.form, sizes, layers));
  ShapedModel other = shaped_model(model.form, request.pad, found, sizes, layers);
  HeldOutDivergence divergence(inputs, request, work);
  SizeChoice choice = {.held_out = divergence.tokens() > 0};
  NMM_ASSIGN(choice.predicted, divergence.measure(form_name(model.form), model));
  NMM_ASSIGN(choice.measured, divergence.measure("measured", other));
  other.form_choice = model.form_choice;
  if (choice.uses_measured()) model = std::move(other);
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

Result<ShapedModel> choose_shapes(const CompressionInputs& inputs, const ShapeRequest& request,
                                  const fs::path& work) {
  NMM_ASSIGN(auto layers, predicted_curves(inputs, request.files));
  const MlpSizes sizes = {inputs.config.hidden_size, inputs.config.intermediate_size,
                          request.form == Form::kUv};
  Form form = request.form;
  FoundShapes found;
  std::optional<FormChoice> choice;
  if (form == Form::kAuto) {
    NMM_ASSIGN(auto candidates, form_candidates(request, sizes, layers));
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
  NMM_ASSIGN(auto layers, predicted_curves(inputs, request.files));
  const MlpSizes sizes = {inputs.config.hidden_size, inputs.config.intermediate_size,
                          request.form == Form::kUv};
  NMM_ASSIGN(const FoundShapes found, shapes_of(request, request.form, sizes, layers));
  const ShapedModel model = shaped_model(request.form, request.pad, found, sizes, layers);
  NMM_TRY(correct_curves(inputs, request, work, model, layers));
  return layers;
}

// With dense inputs, fewer neurons are fitted by the statistics alone. Weights of less than 8 bits
// are another reason for the fit, because down then also compensates the rounding of gate and up
// (measured, docs/measurements/quality.md).
bool is_worth_a_fit(const ShapedModel& model, const WeightFormats& weights) {
  double inputs = 0.0, all = 0.0;
  for (const LayerReport& layer : model.layers) {
    inputs += layer.input_loss;
    all += layer.predicted_loss;
  }
  const bool few_bits = weights && weights->linear.bits < 8;
  return inputs > 0.0 && (few_bits || inputs >= kFitShare * all);
}

}  // namespace neuronmm::compress
