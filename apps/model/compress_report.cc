#include "model/compress_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/core.h>

#include "compress/settings.h"
#include "message.h"
#include "model/reconstruction_report.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string in_megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void print_total(const ReportWriter& writer, int64_t parameters_before, int64_t parameters_after,
                 int64_t bytes_before, int64_t bytes_after) {
  const double share =
      static_cast<double>(parameters_after) / static_cast<double>(parameters_before);
  writer.print("whole model: {} -> {} parameters ({:.4f}), {} -> {} bytes ({} -> {})\n",
               parameters_before, parameters_after, share, bytes_before, bytes_after,
               in_megabytes(bytes_before), in_megabytes(bytes_after));
}

std::string size_text(int64_t size) { return size == 0 ? "whole" : std::to_string(size); }

// Prints the sizes of each layer's MLP after whole MLPs were narrowed.
void print_layers(const ReportWriter& writer, const compress::CompressSummary& summary) {
  const bool measured = summary.sizes && summary.sizes->uses_measured();
  const bool pivoted =
      summary.plan.form == compress::Form::kPivoted || summary.plan.form == compress::Form::kUv;
  if (summary.form) {
    writer.print("form auto: {}\n", compress::form_choice_text(*summary.form));
  } else {
    writer.print("form {}\n", compress::form_name(summary.plan.form));
  }
  writer.print("{:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>11}\n", "layer", pivoted ? "gate" : "input",
               pivoted ? "up" : "neurons", pivoted ? "down" : "output", "kept", "largest",
               measured ? "measured" : "predicted");
  double loss = 0.0;
  for (size_t i = 0; i < summary.layers.size(); ++i) {
    const compress::LayerReport& layer = summary.layers[i];
    const io::MlpShape& shape = layer.shape;
    writer.print("{:>5} {:>8} {:>8} {:>8} {:>8.4f} {:>8.2f} {:>11.3e}\n", i,
                 size_text(pivoted ? shape.gate : shape.input),
                 size_text(pivoted ? shape.up : shape.neurons), size_text(shape.down),
                 layer.kept_share, layer.largest_map, layer.predicted_loss);
    loss += layer.predicted_loss;
  }
  writer.print("{} loss (for ranking{}): {:.4f} nats per token\n",
               measured ? "measured" : "predicted", measured ? "" : "; the value may be far off",
               loss);
}

// Prints the ranks of the bases of each layer, if experts share any.
void print_bases(const ReportWriter& writer, const compress::ExpertSizes& sizes) {
  if (sizes.bases.empty()) return;
  writer.print("{:>5} {:>8} {:>8} {:>11}\n", "layer", "input", "output", "predicted");
  for (size_t i = 0; i < sizes.bases.size(); ++i) {
    if (sizes.layers[i].empty()) continue;
    const compress::BasisReport& bases = sizes.bases[i];
    writer.print("{:>5} {:>8} {:>8} {:>11.3e}\n", i, size_text(bases.ranks.input),
                 size_text(bases.ranks.output), bases.predicted_loss);
  }
}

// Prints the experts of each layer: how often the text chose the least and the most used one, and
// how many neurons the smallest and the largest one keep.
void print_experts(const ReportWriter& writer, const compress::ExpertSizes& sizes) {
  writer.print("form {}\n", compress::form_name(sizes.form));
  writer.print("{:>5} {:>8} {:>9} {:>9} {:>9} {:>9} {:>11}\n", "layer", "experts", "least use",
               "most use", "least", "most", "predicted");
  for (size_t i = 0; i < sizes.layers.size(); ++i) {
    const auto& experts = sizes.layers[i];
    if (experts.empty()) continue;
    const auto use = [](const auto& expert) { return expert.use.tokens; };
    const auto [seldom, often] = std::ranges::minmax(experts, {}, use);
    int64_t kept = 0, least = std::numeric_limits<int64_t>::max(), most = 0;
    double loss = 0.0;
    for (const compress::ExpertReport& expert : experts) {
      if (expert.neurons == 0) continue;
      ++kept;
      least = std::min(least, expert.neurons);
      most = std::max(most, expert.neurons);
      loss += expert.predicted_loss;
    }
    writer.print("{:>5} {:>8} {:>8.2f}% {:>8.2f}% {:>9} {:>9} {:>11.3e}\n", i, kept,
                 100.0 * use(seldom), 100.0 * use(often), least, most, loss);
  }
  print_bases(writer, sizes);
  const std::string completed = compress::completed_experts(sizes.uses());
  if (!completed.empty()) writer.print("judged by their layer, too: {}\n", completed);
}

void print_matrices(const ReportWriter& writer, const compress::CompressSummary& summary) {
  writer.print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>8} {:>12}\n", "layer", "matrix", "K", "rank", "N",
               "kept", "energy lost");
  // `summary.matrices` has a report for each matrix with factors, in the order of the plan.
  auto report = summary.matrices.begin();
  for (const compress::MatrixPlan& matrix : summary.plan.matrices) {
    const bool dense = matrix.rank == 0;
    writer.print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>8.4f} {:>12}\n", matrix.layer,
                 compress::matrix_name(matrix.matrix), matrix.in_features,
                 dense ? "dense" : std::to_string(matrix.rank), matrix.out_features,
                 matrix.kept_share, dense ? "0" : fmt::format("{:.4e}", report++->energy_lost));
  }
}

// Prints a warning to standard error, also if the report is JSON.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  print_message("warning: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

// The largest difference, as a share of parameters, that causes no warning. Ranks are multiples of
// the block, so small matrices may miss the ratio by more.
constexpr double kShareTolerance = 0.02;

void warn_of_rank_share(const compress::CompressRequest& request, const compress::Plan& plan) {
  const compress::RankRule& rule = request.rule;
  const double kept = compress::kept_share(plan, rule);
  if (std::abs(kept - (1.0 - rule.ratio)) <= kShareTolerance) return;
  const auto block = compress::finer_block(plan, rule, kShareTolerance);
  std::string remedy = "and no finer block would come nearer";
  if (block) {
    compress::RankRule finer = rule;
    finer.block = *block;
    remedy = fmt::format("--block {} would keep {:.4f}", *block, compress::kept_share(plan, finer));
  }
  warn(
      "the compressed matrices keep {:.4f} of their parameters, asked was {:.4f}: ranks are "
      "multiples of --block {}; {}",
      kept, 1.0 - rule.ratio, rule.block, remedy);
}

Json loss_json(const std::optional<compress::MeasuredLoss>& loss) {
  if (!loss) return {};
  return {{"tokens", loss->tokens},
          {"held_out", loss->held_out},
          {"kl", loss->divergence},
          {"dense_perplexity", loss->dense_perplexity},
          {"perplexity", loss->perplexity}};
}

Json form_json(const compress::FormChoice& choice) {
  Json json = {{"taken", compress::form_name(choice.taken().form)}, {"tokens", choice.tokens}};
  for (const compress::FormCandidate& candidate : choice.candidates) {
    json[compress::form_name(candidate.form)] = {
        {"predicted", candidate.predicted},
        {"kl", candidate.measured ? Json(*candidate.measured) : Json()}};
  }
  return json;
}

// Returns the name of the rule by which the sizes were taken.
std::string_view taken_name(const compress::SizeChoice& choice) {
  return compress::allocate_name(choice.uses_measured() ? compress::Allocate::kMeasured
                                                        : compress::Allocate::kPredicted);
}

Json sizes_json(const compress::SizeChoice& choice) {
  return {{"taken", taken_name(choice)},
          {"held_out", choice.held_out},
          {"kl_predicted", choice.predicted},
          {"kl_measured", choice.measured}};
}

Json matrix_json(const compress::MatrixPlan& matrix) {
  return {{"layer", matrix.layer},
          {"matrix", compress::matrix_name(matrix.matrix)},
          {"in_features", matrix.in_features},
          {"rank", number_or_null(matrix.rank)},
          {"out_features", matrix.out_features},
          {"kept_share", matrix.kept_share},
          {"bytes_before", matrix.bytes_before},
          {"bytes_after", matrix.bytes_after}};
}

Json layers_json(const compress::CompressSummary& summary) {
  Json list = Json::array();
  for (const compress::LayerReport& layer : summary.layers) {
    const io::MlpShape& shape = layer.shape;
    list.push_back({{"gate", number_or_null(shape.gate)},
                    {"up", number_or_null(shape.up)},
                    {"input", number_or_null(shape.input)},
                    {"neurons", number_or_null(shape.neurons)},
                    {"down", number_or_null(shape.down)},
                    {"kept_share", layer.kept_share},
                    {"largest_map", layer.largest_map},
                    {"predicted_loss", layer.predicted_loss}});
  }
  return list;
}

Json experts_json(const compress::ExpertSizes& sizes) {
  Json layers = Json::array();
  for (const auto& experts : sizes.layers) {
    Json& list = layers.emplace_back(Json::array());
    for (const compress::ExpertReport& expert : experts) {
      list.push_back({{"neurons", expert.neurons},
                      {"chosen_by", expert.use.tokens},
                      {"mean_weight", expert.use.weight},
                      {"judged_by_layer", expert.use.of_layer},
                      {"predicted_loss", expert.predicted_loss}});
    }
  }
  return layers;
}

Json bases_json(const compress::ExpertSizes& sizes) {
  Json layers = Json::array();
  for (const compress::BasisReport& bases : sizes.bases) {
    layers.push_back({{"input", number_or_null(bases.ranks.input)},
                      {"output", number_or_null(bases.ranks.output)},
                      {"predicted_loss", bases.predicted_loss}});
  }
  return layers;
}

}  // namespace

void print_plan(const ReportWriter& writer, const compress::Plan& plan) {
  const size_t layers = plan.matrices.size() / compress::kMlpMatrices.size();
  writer.print("layers 0-{}, each:\n", layers - 1);  // uniform ranks are the same in every layer
  writer.print("{:<7} {:>7} {:>7} {:>7} {:>8} {:>14} {:>14}\n", "matrix", "K", "rank", "N", "kept",
               "bytes before", "bytes after");
  for (const compress::MlpMatrix which : compress::kMlpMatrices) {
    const compress::MatrixPlan& matrix = plan.matrix_plan(0, which);
    const std::string rank = matrix.rank == 0 ? "dense" : std::to_string(matrix.rank);
    writer.print("{:<7} {:>7} {:>7} {:>7} {:>8.4f} {:>14} {:>14}\n", compress::matrix_name(which),
                 matrix.in_features, rank, matrix.out_features, matrix.kept_share,
                 matrix.bytes_before, matrix.bytes_after);
  }
  print_total(writer, plan.parameters_before, plan.parameters_after, plan.bytes_before,
              plan.bytes_after);
}

void print_summary(const ReportWriter& writer, const compress::CompressSummary& summary) {
  if (summary.experts) {
    print_experts(writer, *summary.experts);
  } else if (summary.layers.empty()) {
    print_matrices(writer, summary);
  } else {
    print_layers(writer, summary);
  }
  if (summary.sizes) writer.print("sizes: {}\n", compress::size_choice_text(*summary.sizes));
  print_reconstruction(writer, summary.reconstruction);
  if (summary.calibration_tokens > 0) {
    writer.print("calibration: {} tokens\n", summary.calibration_tokens);
  }
  print_total(writer, summary.parameters_before, summary.parameters_after, summary.bytes_before,
              summary.bytes_after);
}

void print_loss(const ReportWriter& writer, bool asked,
                const std::optional<compress::MeasuredLoss>& loss) {
  if (!loss) {
    writer.print("against the dense model: not measured{}\n", asked ? "; give --calibration" : "");
    return;
  }
  writer.print("against the dense model: {}\n", compress::loss_text(loss));
  // Assumed: beyond either bound a model is of little use.
  constexpr double kMostDivergence = 0.5, kMostPerplexity = 1.5;
  const bool near = loss->divergence <= kMostDivergence;
  if (near && loss->perplexity <= kMostPerplexity * loss->dense_perplexity) return;
  warn(
      "the compressed model predicts much worse than the dense one (KL {:.3g}, perplexity {:.4g} "
      "after {:.4g}); remove less, or calibrate on more text",
      loss->divergence, loss->perplexity, loss->dense_perplexity);
}

void print_settings(const ReportWriter& writer, const compress::CompressRequest& request) {
  writer.print("settings:\n");
  const Json settings = compress::settings_json(request);
  for (const auto& [name, value] : settings.items()) {
    const std::string text = value.is_null()     ? "none"
                             : value.is_string() ? value.get<std::string>()
                                                 : value.dump();
    writer.print("  {:<20}{}\n", name, text == "[]" ? "none" : text);
  }
}

Json request_json(const compress::CompressRequest& request) {
  Json json = {{"model", request.model.string()}, {"output", request.out.string()}};
  json.update(compress::settings_json(request));
  json["weights"] = compress::weights_text(request.weights);
  return json;
}

Json plan_json(const compress::CompressRequest& request, const compress::Plan& plan) {
  Json json = request_json(request);
  json["parameters_before"] = plan.parameters_before;
  json["parameters_after"] = plan.parameters_after;
  json["bytes_before"] = plan.bytes_before;
  json["bytes_after"] = plan.bytes_after;
  json["matrices"] = Json::array();
  for (const compress::MatrixPlan& matrix : plan.matrices) {
    json["matrices"].push_back(matrix_json(matrix));
  }
  return json;
}

Json summary_json(const compress::CompressRequest& request,
                  const compress::CompressSummary& summary) {
  Json json = plan_json(request, summary.plan);
  json["form"] = compress::form_name(summary.plan.form);
  if (summary.sizes) json["allocate"] = taken_name(*summary.sizes);
  json["calibration_tokens"] = summary.calibration_tokens;
  json["measured"] = loss_json(summary.loss);
  json["reconstruction"] = reconstruction_json(summary.reconstruction);
  if (summary.form) json["form_choice"] = form_json(*summary.form);
  if (summary.sizes) json["size_choice"] = sizes_json(*summary.sizes);
  if (summary.experts) {
    json["method"] = compress::method_name(compress::Method::kWhitened);
    json["allocate"] =
        compress::allocate_name(summary.experts->by_formula ? compress::Allocate::kUniform
                                                            : compress::Allocate::kPredicted);
    json["experts"] = experts_json(*summary.experts);
    if (!summary.experts->bases.empty()) json["bases"] = bases_json(*summary.experts);
    return json;
  }
  if (!summary.layers.empty()) {
    json["layers"] = layers_json(summary);
    return json;
  }
  // `summary.matrices` has a report for each matrix with factors, in the order of the plan.
  auto report = summary.matrices.begin();
  for (Json& matrix : json["matrices"]) {
    matrix["energy_lost"] = matrix["rank"].is_null() ? 0.0 : report++->energy_lost;
  }
  return json;
}

// For other forms the share is known only after their sizes have been chosen.
void warn_of_share(const compress::CompressRequest& request, const compress::Plan& plan) {
  if (plan.shapes.empty()) return warn_of_rank_share(request, plan);
  double kept = 0.0;
  for (const compress::MatrixPlan& matrix : plan.matrices) kept += matrix.kept_share;
  kept /= static_cast<double>(plan.matrices.size());
  if (std::abs(kept - (1.0 - request.rule.ratio)) <= kShareTolerance) return;
  // The model keeps too much because of padding or of coarse sizes. It keeps too little because of
  // layers that lose nothing by it, or of coarse sizes.
  const std::string why =
      request.pad ? "--pad gives all layers the neurons of the widest"
                  : fmt::format("sizes are multiples of --block {}{}", request.rule.block,
                                request.rule.block > 1 ? "; a smaller block may come nearer" : "");
  warn("the MLPs keep {:.4f} of their parameters, asked was {:.4f}: {}{}", kept,
       1.0 - request.rule.ratio, why,
       kept < 1.0 - request.rule.ratio ? ", unless larger sizes gain nothing" : "");
}

}  // namespace neuronmm::apps
