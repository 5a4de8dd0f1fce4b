// This file implements `neuronmm paper quality`. The figure shows what is published of the quality
// of compressed models, and gamma, which sets the accuracy that is lost against the speed-up that
// is gained. Only the speed-ups are simulated: the accuracies of the paper's models need their
// weights. What our own models lose is measured, and stands in docs/measurements/paper.md.

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paper/paper_figures.h"
#include "paper/paper_models.h"
#include "paper/paper_request.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kQualityHeading =
    "published; speed-ups also simulated (no Trainium was used)\n\n"
    "mAcc: mean accuracy of six tasks, zero-shot. gamma = mAcc lost / (speed-up - 1).\n\n";

constexpr const char* kQualityNote =
    "The compressed models were trained by LoRA. \"with the simulated one\" is the published loss "
    "over\nthe simulated speed-up, which counts bytes saved and no overhead removed, so it is "
    "larger.\nWhat two models of ours lose is measured: docs/measurements/paper.md.\n";

double published_loss(const validation::PublishedRequest& request) {
  for (const validation::PublishedAccuracyLoss& row : validation::kPublishedAccuracyLosses) {
    if (row.model == request.model && row.ratio == request.ratio) return row.loss;
  }
  return kNoLoss;
}

// A published request with the accuracy that the model loses.
struct QualityRow {
  RequestRow request;
  double loss = kNoLoss;

  double gamma_published() const { return loss / (request.published.speedup - 1); }
  double gamma_simulated() const { return loss / (request.speedup() - 1); }
};

std::string percent(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.1f} %", 100 * value);
}

std::string table(const std::vector<QualityRow>& rows) {
  std::string text =
      fmt::format("{:13}{:>6}{:>11}  {:^22}{:^42}\n", "", "", "mAcc lost", "speed-up", "gamma");
  text += fmt::format("{:13}{:>6}{:>11}  {:>11}{:>11}{:>20}{:>24}\n", "model", "ratio", "published",
                      "published", "simulated", "with the published", "with the simulated one");
  for (const QualityRow& row : rows) {
    const std::string loss = std::isnan(row.loss) ? "-" : fmt::format("{:.2f}", row.loss);
    text += fmt::format("{:13}{:>6}{:>11}  {:>10.2f}x{:>10.2f}x{:>20}{:>24}\n",
                        row.request.published.model, row.request.published.ratio, loss,
                        row.request.published.speedup, row.request.speedup(),
                        percent(row.gamma_published()), percent(row.gamma_simulated()));
  }
  return text;
}

std::string perplexities() {
  std::string text = "\nPerplexity of one compressed model, which is not stated:";
  for (const validation::PublishedPerplexity& row : validation::kPublishedPerplexities) {
    text += fmt::format(" {} {}{}", row.text, row.value,
                        &row == std::end(validation::kPublishedPerplexities) - 1 ? "." : ",");
  }
  return text + "\n";
}

Json number_or_null(double value) { return std::isnan(value) ? Json() : Json(value); }

Json row_json(const QualityRow& row) {
  return {{"model", row.request.published.model},
          {"ratio", row.request.published.ratio},
          {"published_accuracy_lost", number_or_null(row.loss)},
          {"published_speedup", row.request.published.speedup},
          {"simulated_speedup", row.request.speedup()},
          {"gamma_with_published_speedup", number_or_null(row.gamma_published())},
          {"gamma_with_simulated_speedup", number_or_null(row.gamma_simulated())}};
}

}  // namespace

Result<Figure> quality_figure(const Choice& choice) {
  if (!choice.rows.empty()) return fail("--rows: the published requests have 32 tokens");
  NMM_ASSIGN(const std::vector<RequestRow> requests, simulate_published_requests(choice.models));
  BarChart chart{.title = "gamma: mAcc lost per speed-up gained, ratio 0.2",
                 .unit = "%",
                 .groups_name = "model"};
  chart.series = {{"with the published speed-up", "#4f9a4f", false, {}},
                  {"with the simulated speed-up", "#4f9a4f", true, {}}};
  std::vector<QualityRow> rows;
  Json json = Json::array();
  for (const RequestRow& request : requests) {
    const QualityRow row{.request = request, .loss = published_loss(request.published)};
    rows.push_back(row);
    json.push_back(row_json(row));
    if (std::isnan(row.loss)) continue;
    chart.groups.emplace_back(request.published.model);
    chart.series[0].values.push_back(100 * row.gamma_published());
    chart.series[1].values.push_back(100 * row.gamma_simulated());
  }
  for (const validation::PublishedPerplexity& row : validation::kPublishedPerplexities) {
    json.push_back({{"text", row.text}, {"published_perplexity", row.value}});
  }
  Figure figure;
  figure.text =
      kQualityHeading + table(rows) +
      fmt::format("\ngamma, as the paper states it: {:.2f} to {:.2f} %.",
                  100 * validation::kPublishedGammaLeast, 100 * validation::kPublishedGammaMost) +
      perplexities() + kQualityNote;
  figure.json = json.dump(2) + "\n";
  figure.charts = {std::move(chart)};
  return figure;
}

}  // namespace neuronmm::apps
