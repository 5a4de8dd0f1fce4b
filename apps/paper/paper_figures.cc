#include "paper/paper_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paper/paper_gains.h"
#include "trainium/simulator/timing.h"
#include "trainium/validation/validation.h"

namespace neuronmm::apps {
namespace {

using validation::Published;
using validation::Quantity;
using validation::Row;
using Json = nlohmann::ordered_json;

// NaN means that no value is published or simulated. It is printed as "-" and not drawn.
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kHeading =
    "simulated (no Trainium was used) beside published; difference = simulated / published - 1\n\n";
// The numbers of rows, M, at which the paper measured.
constexpr std::array kRows = {1024, 2048, 4096, 8192, 16384, 32768};

struct PaperKernel {
  validation::PublishedProgram (*program)(int64_t M);
  const char *name, *colour;
};
constexpr std::array<PaperKernel, 3> kPaperKernels = {
    {{validation::nki_xw, "NKI XW", "#c0504d"},
     {validation::nki_xuv, "NKI XUV", "#4878a8"},
     {validation::neuronmm, "NeuronMM", "#4f9a4f"}}};

// Returns the two series of a kernel: published in its colour, simulated in a pale one.
std::array<BarSeries, 2> published_and_simulated(const std::string& name,
                                                 const std::string& colour) {
  const std::string prefix = name.empty() ? "" : name + " ";
  return {BarSeries{prefix + "published", colour, false, {}},
          BarSeries{prefix + "simulated", colour, true, {}}};
}

// Returns all that is known about a row, so that a plot elsewhere needs no other source.
Json row_json(const Row& row) {
  const Published& p = *row.published;
  return {{"id", p.program.id},
          {"kernel", p.program.kernel},
          {"shape", shape_text(p.program)},
          {"device", p.program.device},
          {"dtype", dtype_text(p.program)},
          {"quantity", quantity_name(p.quantity)},
          {"set", set_name(p.set)},
          {"published", p.value},
          {"published_reading_error", p.tolerance},
          {"simulated", row.simulated},
          {"difference", row.difference},
          {"unexplained", std::abs(row.difference) > validation::kUnexplained},
          {"source", p.source}};
}

std::string number(double value, int decimals) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, decimals);
}

// A kernel has three columns.
std::string head_of_table() {
  std::string text = fmt::format("{:>7}", "M");
  for (size_t i = 0; i < kPaperKernels.size(); ++i) {
    text += fmt::format("  {:>10}{:>10}{:>11}", "published", "simulated", "difference");
  }
  return text + fmt::format("  {:>10}", "simulated");
}

// Returns null for a missing row, because the paper measured traffic at other numbers of rows than
// time.
const Row* find_row(const std::vector<Row>& rows, const std::string& id, Quantity quantity) {
  for (const Row& row : rows) {
    if (row.published->program.id == id && row.published->quantity == quantity) return &row;
  }
  return nullptr;
}

// Adds a chart and a table of one quantity. M runs downwards, and the kernels run across.
void add_rows(const std::vector<Row>& rows, const PivotedRuns& pivoted, Quantity quantity,
              Figure& figure) {
  BarChart& chart = figure.charts.front();
  for (const PaperKernel& kernel : kPaperKernels) {
    for (BarSeries& series : published_and_simulated(kernel.name, kernel.colour)) {
      chart.series.push_back(series);
    }
  }
  chart.series.push_back({"pivoted simulated", "#8064a2", true, {}});
  Json json = Json::array();
  for (const int m : kRows) {
    figure.text += fmt::format("\n{:>7}", m);
    chart.groups.push_back(fmt::format("{}", m));
    for (size_t i = 0; i < kPaperKernels.size(); ++i) {
      const Row* row = find_row(rows, kPaperKernels[i].program(m).id, quantity);
      const double published = row ? row->published->value : kNone;
      const double simulated = row ? row->simulated : kNone;
      chart.series[2 * i].values.push_back(published);
      chart.series[2 * i + 1].values.push_back(simulated);
      figure.text +=
          fmt::format("  {:>10}{:>10}{:>9} {}", number(published, 2), number(simulated, 2),
                      row ? fmt::format("{:+.1f}", 100 * row->difference) : "-", row ? "%" : " ");
      if (row) json.push_back(row_json(*row));
    }
    const PivotedRun& run = pivoted.at(m);
    const double ours = quantity == Quantity::kMilliseconds ? run.milliseconds : run.gib;
    chart.series.back().values.push_back(ours);
    figure.text += fmt::format("  {:>10}", number(ours, 2));
    json.push_back({{"kernel", "xuv_pivoted"},
                    {"shape", shape_text(validation::neuronmm(m))},
                    {"quantity", quantity_name(quantity)},
                    {"simulated", ours}});
  }
  figure.json = json.dump(2) + "\n";
}

// Adds what the fused kernels gain over the baselines. Only latencies are also compared at the
// shapes of models.
Status add_gains(const std::vector<Row>& rows, const PivotedRuns& pivoted, Quantity quantity,
                 Figure& figure) {
  NMM_ASSIGN(const auto gains, gains_over_baselines(rows, pivoted, quantity));
  auto json = Json::parse(figure.json);
  for (Json& row : gains_json(gains, quantity)) json.push_back(std::move(row));
  figure.text += gains_text(gains);
  if (quantity == Quantity::kMilliseconds) {
    NMM_ASSIGN(const std::vector<ShapeGain> shapes, gains_at_model_shapes());
    figure.text += shapes_text(shapes);
    for (Json& row : shapes_json(shapes)) json.push_back(std::move(row));
  }
  figure.json = json.dump(2) + "\n";
  return {};
}

// Latency and traffic are drawn and printed in the same way.
Result<Figure> by_rows(Quantity quantity, const char* what, const char* unit) {
  NMM_ASSIGN(const std::vector<Row> rows, validation::validate());
  PivotedRuns pivoted;
  for (const int m : kRows) {
    NMM_ASSIGN(pivoted[m], simulate_pivoted(m));
  }
  Figure figure;
  figure.charts.push_back({.title = fmt::format("{}: K 8192, r 4096, N 16384, bf16, trn1", what),
                           .unit = unit,
                           .groups_name = "M (rows of X)",
                           .logarithmic = true});
  figure.text = fmt::format("{}{}, {}: K 8192, r 4096, N 16384, bf16, trn1\n\n{:>7}", kHeading,
                            what, unit, "");
  for (const PaperKernel& kernel : kPaperKernels) {
    figure.text += fmt::format("  {:^31}", kernel.name);
  }
  figure.text += fmt::format("  {:>10}\n{}", "pivoted", head_of_table());
  add_rows(rows, pivoted, quantity, figure);
  figure.text += "\n\nPublished values are read off charts of the paper's repository, within ";
  figure.text += quantity == Quantity::kMilliseconds
                     ? "0.4 ms; 186.6 and 84.15 ms are printed there.\n"
                     : "0.1 GiB; -: the bar is hidden behind another.\n";
  NMM_TRY(add_gains(rows, pivoted, quantity, figure));
  return figure;
}

// The result of one row block of the sweep, with the paper's other tiling parameters and its bf16
// sums.
struct BlockRun {
  double milliseconds = 0;
  double flops_per_byte = 0;  // The intensity of the program as written, without spills.
  // The share of the whole SBUF, after the remedies for what does not fit.
  double sbuf_percent = 0;
  double spill_mb = 0;
  std::vector<std::string> remedies;
};

// Simulates the shape of the published sweep with one of its row blocks.
Result<BlockRun> run_block(const validation::PublishedRowBlock& block) {
  const kernels::Instance xuv = kernel_of(block);
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device("trn1"));
  NMM_ASSIGN(const simulator::Timing timing,
             simulator::simulate(xuv.kernel->make(xuv.shape, xuv.tiling, xuv.options), device));
  const kernels::Cost cost = xuv.kernel->cost(xuv.shape, xuv.tiling, xuv.options);
  // The use is at most the capacity, because the part that does not fit was spilled.
  const int64_t used = std::min(timing.sbuf_wanted.peak, timing.sbuf_capacity);
  const simulator::Summary& summary = timing.summary;
  return BlockRun{
      .milliseconds = summary.milliseconds(),
      .flops_per_byte = static_cast<double>(cost.flops) / static_cast<double>(cost.hbm_bytes()),
      .sbuf_percent = 100 * static_cast<double>(used) / device.sbuf_bytes,
      .spill_mb = static_cast<double>(summary.spill_save_bytes + summary.spill_reload_bytes) / 1e6,
      .remedies = timing.remedies};
}

struct BlockCharts {
  BarChart intensity{
      .title = "Arithmetic intensity against BM: M 4096, K 7168, r 4096, N 18432, bf16",
      .unit = "FLOP per HBM byte",
      .groups_name = "BM (rows of X in a block)",
      .logarithmic = true};
  BarChart spill{.title = "Spills", .unit = "MB saved and reloaded", .groups_name = "BM"};
  BarChart latency{.title = "Latency (none is published)", .unit = "ms", .groups_name = "BM"};

  // Every chart has published and simulated series, except latency, which is not published.
  BlockCharts() {
    for (BarChart* chart : {&intensity, &spill, &latency}) {
      for (BarSeries& series : published_and_simulated("", "#4878a8")) {
        chart->series.push_back(series);
      }
    }
    latency.series.erase(latency.series.begin());
  }
  void add(const validation::PublishedRowBlock& published, const BlockRun& run) {
    for (BarChart* chart : {&intensity, &spill, &latency}) {
      chart->groups.push_back(fmt::format("{}", published.rows));
    }
    intensity.series[0].values.push_back(published.flops_per_byte);
    intensity.series[1].values.push_back(run.flops_per_byte);
    spill.series[0].values.push_back(published.spill_mb);
    spill.series[1].values.push_back(run.spill_mb);
    latency.series[0].values.push_back(run.milliseconds);
  }
};

// Returns text such as "819       819.2    +0.0 %".
std::string comparison_columns(double published, double simulated, int decimals) {
  const bool known = !std::isnan(published) && published > 0;
  const std::string difference =
      known ? fmt::format("{:+.1f} %", 100 * (simulated / published - 1)) : "-";
  return fmt::format("{:>10}{:>10}{:>10} ", number(published, decimals),
                     number(simulated, decimals), difference);
}

std::string head_of_blocks() {
  std::string text = fmt::format(
      "NeuronMM's row block BM: M 4096, K 7168, r 4096, N 18432, bf16, trn1\n\n"
      "{:>6}{:^31}{:^31}{:^31}{:>12}\n{:>6}",
      "", "FLOP per byte, no spills", "SBUF used, %", "spilled, MB", "latency, ms", "BM");
  for (int i = 0; i < 3; ++i) {
    text += fmt::format("{:>10}{:>10}{:>11}", "published", "simulated", "difference");
  }
  return text + fmt::format("{:>12}\n", "simulated");
}

Json block_json(const validation::PublishedRowBlock& published, const BlockRun& run) {
  return {{"BM", published.rows},
          {"published",
           {{"flops_per_byte", published.flops_per_byte},
            {"sbuf_used_percent", published.sbuf_used_percent},
            {"spill_mb", published.spill_mb}}},
          {"simulated",
           {{"flops_per_byte", run.flops_per_byte},
            {"sbuf_used_percent", run.sbuf_percent},
            {"spill_mb", run.spill_mb},
            {"milliseconds", run.milliseconds}}},
          {"remedies", run.remedies}};
}

}  // namespace

Result<Figure> kernels_figure() { return by_rows(Quantity::kMilliseconds, "Latency", "ms"); }
Result<Figure> traffic_figure() { return by_rows(Quantity::kHbmGib, "HBM traffic", "GiB"); }

// Shows the published sweep of BM, row by row.
Result<Figure> blocks_figure() {
  Figure figure;
  figure.text = fmt::format("{}{}", kHeading, head_of_blocks());
  BlockCharts charts;
  Json json = Json::array();
  for (const validation::PublishedRowBlock& published : validation::kPublishedRowBlocks) {
    NMM_ASSIGN(const BlockRun run, run_block(published));
    const double used = published.sbuf_used_percent > 0 ? published.sbuf_used_percent : kNone;
    figure.text +=
        fmt::format("{:>6}{}{}{}{:>12.3f}\n", published.rows,
                    comparison_columns(published.flops_per_byte, run.flops_per_byte, 0),
                    comparison_columns(used, run.sbuf_percent, 0),
                    comparison_columns(published.spill_mb, run.spill_mb, 0), run.milliseconds);
    charts.add(published, run);
    json.push_back(block_json(published, run));
  }
  figure.text +=
      "\nPublished: 1024 is best, the largest that does not spill; no latencies. Source: arXiv\n"
      "2510.25977, section 5.3, table 3, as third-party notes on it give them.\n";
  figure.json = json.dump(2) + "\n";
  figure.charts = {charts.intensity, charts.spill, charts.latency};
  return figure;
}

Result<Figure> validation_figure() {
  NMM_ASSIGN(const std::vector<Row> rows, validation::validate());
  Figure figure;
  figure.text = fmt::format(
      "{}  {:<32} {:<22} {:<5} {:<5} {:<14} {:>13} {:>13} {:>9}\n{}"
      "\nunexplained: off by more than {:.0f} %. The validation set is not blind: "
      "docs/measurements/simulator.md.\n",
      kHeading, "kernel", "shape", "core", "dtype", "quantity", "published", "simulated",
      "difference", validation::to_string(rows), 100 * validation::kUnexplained);
  BarChart chart{.title = "Simulated against published times",
                 .unit = "difference, %",
                 .groups_name = "",
                 .one_per_group = true};
  constexpr std::array kSets = {validation::Set::kCalibration, validation::Set::kValidation,
                                validation::Set::kAdded};
  chart.series = {{"calibration", "#4878a8", false, {}},
                  {"validation", "#c0504d", false, {}},
                  {"added", "#4f9a4f", false, {}}};
  Json json = Json::array();
  for (const Row& row : rows) {
    json.push_back(row_json(row));
    const Published& p = *row.published;
    // Traffic has a figure of its own, so this chart shows only times.
    if (p.quantity != Quantity::kMilliseconds && p.quantity != Quantity::kMfuPercent) continue;
    chart.groups.emplace_back(p.program.id);
    for (size_t i = 0; i < kSets.size(); ++i) {
      chart.series[i].values.push_back(p.set == kSets[i] ? 100 * row.difference : kNone);
    }
  }
  figure.json = json.dump(2) + "\n";
  figure.charts = {std::move(chart)};
  return figure;
}

}  // namespace neuronmm::apps
