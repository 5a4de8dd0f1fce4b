#include "model/compare_page.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "plot/bar_chart.h"
#include "plot/page.h"
#include "plot/scatter_chart.h"
#include "plot/svg.h"

namespace neuronmm::apps {
namespace {

using Models = std::vector<ComparedModel>;

// Returns the colour of a model: grey for the dense one, then the colours of Okabe and Ito, adapted
// to white and black pages. Colour-blind people can tell these colours apart.
std::string colour_of(size_t model) {
  constexpr const char* kColours[] = {"#8c8c8c", "#0f82c8", "#e08e0b", "#00a078",
                                      "#cc79a7", "#d55e00", "#56b4e9", "#b8a900"};
  return kColours[model % std::size(kColours)];
}

std::string html_row(const char* tag, const std::string& name,
                     const std::vector<std::string>& cells) {
  std::string row = "<tr>" + html_element("th", name);
  for (const std::string& text : cells) row += html_element(tag, text);
  return row + "</tr>\n";
}

// Wraps an element that may be wider than the page, so that it scrolls by itself.
std::string scrollable(const std::string& html) {
  return "<div class=\"wide\">\n" + html + "</div>\n";
}

std::string html_table(const ComparisonTable& table) {
  std::string html = "<table>\n" + html_row("th", "", table.models);
  for (const ComparisonTable::Row& row : table.rows) html += html_row("td", row.name, row.cells);
  return scrollable(html + "</table>\n");
}

// A quantity for the horizontal axis of the scatter charts.
struct Cost {
  const char* name;
  std::function<double(const ComparedModel&)> of;
};
const std::vector<Cost>& costs() {
  static const std::vector<Cost> all = {
      {"size, MB",
       [](const ComparedModel& model) { return static_cast<double>(model.size_bytes) / 1e6; }},
      {"MLP, MFLOP per token", [](const ComparedModel& model) {
         return static_cast<double>(model.mlp.flops_per_token()) / 1e6;
       }}};
  return all;
}

// Returns charts of the KL divergence of a text task. The dense model has no point, because the
// divergence is measured from it.
std::string divergence_plots(const Models& models, size_t task) {
  const std::string_view name = models.front().evaluation.results[task].task->name;
  std::string html;
  for (const Cost& cost : costs()) {
    ScatterChart chart{.title = fmt::format("{}: KL from the dense model", name),
                       .x_name = cost.name,
                       .y_name = "KL, nats per token"};
    for (size_t i = 1; i < models.size(); ++i) {
      const eval::Estimate& kl = models[i].evaluation.results[task].divergence->divergence;
      chart.points.push_back(
          {models[i].name, colour_of(i), cost.of(models[i]), kl.value, kl.low(), kl.high()});
    }
    html += scatter_figure(chart);
  }
  return html;
}

// Returns charts of the mean accuracy. The dense model has no interval. The other models have the
// interval of the accuracy they lost, which is paired by items, not that of their own accuracy.
std::string accuracy_plots(const Models& models) {
  const ComparedModel& dense = models.front();
  std::string html;
  for (const Cost& cost : costs()) {
    ScatterChart chart{
        .title = "mAcc, with the interval of what was lost", .x_name = cost.name, .y_name = "mAcc"};
    for (size_t i = 0; i < models.size(); ++i) {
      const double value = models[i].mean_accuracy();
      const double half =
          i == 0 ? NAN : eval::kInterval * accuracy_lost(dense, models[i])->standard_error;
      chart.points.push_back(
          {models[i].name, colour_of(i), cost.of(models[i]), value, value - half, value + half});
    }
    html += scatter_figure(chart);
  }
  return html;
}

std::string quality_plots(const Models& models) {
  const std::vector<eval::TaskResult>& tasks = models.front().evaluation.results;
  std::string plots;
  for (size_t task = 0; task < tasks.size(); ++task) {
    if (tasks[task].perplexity && models.size() > 1) plots += divergence_plots(models, task);
  }
  if (eval::mean_accuracy(tasks)) plots += accuracy_plots(models);
  return "<h2>Quality against cost</h2>\n<p>Bars are 95 % intervals. Models of one size stand side "
         "by side; point at one for its "
         "numbers.</p>\n<div class=\"plots\">\n" +
         plots + "</div>\n";
}

std::string speed_plot(const Models& models, const std::string& speedup_name) {
  BarChart chart{.title = speedup_name + " over the dense model", .unit = "times"};
  for (size_t i = 0; i < models.size(); ++i) {
    chart.groups.push_back(models[i].name);
    BarSeries& series =
        chart.series.emplace_back(BarSeries{models[i].name, colour_of(i), false, {}});
    series.values.assign(models.size(), NAN);
    series.values[i] = models[i].speedup;
  }
  chart.one_per_group = true;
  return "<h2>Speed</h2>\n" + scrollable(bar_figure(chart));
}

std::string layers_plot(const Models& models) {
  BarChart chart{.title = "MLP parameters of each layer",
                 .unit = "share of the dense model's",
                 .groups_name = "layer"};
  const std::vector<int64_t>& dense = models.front().mlp.layers;
  for (size_t layer = 0; layer < dense.size(); ++layer) {
    chart.groups.push_back(std::to_string(layer));
  }
  for (size_t i = 1; i < models.size(); ++i) {
    BarSeries& series =
        chart.series.emplace_back(BarSeries{models[i].name, colour_of(i), false, {}});
    for (size_t layer = 0; layer < dense.size(); ++layer) {
      const std::vector<int64_t>& layers = models[i].mlp.layers;
      series.values.push_back(layer < layers.size() && dense[layer] > 0
                                  ? static_cast<double>(layers[layer]) /
                                        static_cast<double>(dense[layer])
                                  : NAN);
    }
  }
  return dense.empty() || chart.series.empty() ? "" : scrollable(bar_figure(chart));
}

std::string rank_text(int64_t rank) { return rank == 0 ? "dense" : std::to_string(rank); }

// Returns a table of the ranks with a column per layer and a row per matrix.
std::string ranks_table(const ComparedModel& model) {
  std::string html = fmt::format("<h3>{}</h3>\n<p>method {}, ratio {}, allocation {}</p>\n",
                                 escape_xml(model.name), escape_xml(model.record->method),
                                 model.record->ratio, escape_xml(model.record->allocate));
  std::vector<std::string> layers, gate, up, down;
  for (const io::MlpShape& ranks : model.record->ranks) {
    layers.push_back(std::to_string(layers.size()));
    gate.push_back(rank_text(ranks.gate));
    up.push_back(rank_text(ranks.up));
    down.push_back(rank_text(ranks.down));
  }
  return html + scrollable("<table>\n" + html_row("th", "rank of layer", layers) +
                           html_row("td", "gate", gate) + html_row("td", "up", up) +
                           html_row("td", "down", down) + "</table>\n");
}

std::string layers_section(const Models& models) {
  std::string html = "<h2>Layers</h2>\n" + layers_plot(models);
  for (const ComparedModel& model : models) {
    if (model.record) html += ranks_table(model);
  }
  return html;
}

}  // namespace

std::string compare_page(const Models& models, const ComparisonTable& table,
                         const std::string& speedup_name, const std::vector<std::string>& notes) {
  std::string page = page_head("neuronmm compare");
  for (const std::string& note : notes) page += html_element("p", note) + "\n";
  page += html_table(table) + quality_plots(models) + speed_plot(models, speedup_name) +
          layers_section(models);
  return page;
}

}  // namespace neuronmm::apps
