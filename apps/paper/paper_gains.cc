#include "paper/paper_gains.h"

#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "compress/sizes/rank.h"
#include "paper/paper_models.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::apps {
namespace {

using validation::PublishedProgram;
using validation::Quantity;
using validation::Row;
using Json = nlohmann::ordered_json;

constexpr double kNotPublished = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRowsOfModels = 4096;
constexpr double kRatioOfModels = 0.2;

// Simulates a program that has no published row of this quantity.
Result<simulator::Summary> summary_of(const PublishedProgram& program) {
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device(program.device));
  NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program.make(program), device));
  return timing.summary;
}

// A published value, or NaN, with its simulated counterpart.
struct Pair {
  double published = kNotPublished, simulated = 0;
};
Result<Pair> pair_of(const std::vector<Row>& rows, const PublishedProgram& program,
                     Quantity quantity) {
  for (const Row& row : rows) {
    if (row.published->program.id == program.id && row.published->quantity == quantity) {
      return Pair{row.published->value, row.simulated};
    }
  }
  NMM_ASSIGN(const simulator::Summary summary, summary_of(program));
  return Pair{kNotPublished, quantity == Quantity::kMilliseconds
                                 ? summary.milliseconds()
                                 : static_cast<double>(summary.hbm_bytes()) / (1 << 30)};
}

// The ratios of a row, or of the sums of several rows.
std::array<double, 3> ratios(const GainRow& row) {
  return {row.published_baseline / row.published_fused,
          row.simulated_baseline / row.simulated_fused, row.simulated_baseline / row.pivoted};
}

bool is_published(const GainRow& row) { return !std::isnan(row.published_baseline); }

// Averages the ratios over the M with published values.
std::array<double, 3> average(const BaselineGains& gains) {
  std::array<double, 3> sum = {};
  int count = 0;
  for (const auto& [M, row] : gains.rows) {
    if (!is_published(row)) continue;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += ratios(row)[i];
    ++count;
  }
  for (double& value : sum) value /= count;
  return sum;
}

// Returns the ratio of the sums over the same M. Large M have the most weight in it.
std::array<double, 3> ratio_of_sums(const BaselineGains& gains) {
  GainRow sum;
  for (const auto& [M, row] : gains.rows) {
    if (!is_published(row)) continue;
    sum.published_baseline += row.published_baseline;
    sum.published_fused += row.published_fused;
    sum.simulated_baseline += row.simulated_baseline;
    sum.simulated_fused += row.simulated_fused;
    sum.pivoted += row.pivoted;
  }
  return ratios(sum);
}

std::string cells(const std::array<double, 3>& values) {
  std::string text = "  ";
  for (const double value : values) {
    text += std::isnan(value) ? fmt::format("{:>12}", "-") : fmt::format("{:>11.2f}x", value);
  }
  return text;
}

template <typename Values>
std::string line(std::string_view name, const std::vector<BaselineGains>& gains,
                 const Values& values) {
  std::string text = fmt::format("{:>16}", name);
  for (const BaselineGains& baseline : gains) text += cells(values(baseline));
  return text + "\n";
}

Json ratios_json(const std::array<double, 3>& values) {
  Json json;
  json["published"] = std::isnan(values[0]) ? Json() : Json(values[0]);
  json["simulated"] = values[1];
  json["simulated_pivoted"] = values[2];
  return json;
}

// Returns the time of the paper's kernel at another shape.
Result<double> milliseconds_at(PublishedProgram program, const kernels::KernelShape& shape) {
  program.shape = shape;
  NMM_ASSIGN(const simulator::Summary summary, summary_of(program));
  return summary.milliseconds();
}

Result<ShapeGain> gain_at(std::string weight, const kernels::KernelShape& shape) {
  kernels::KernelShape dense = shape;
  dense.r = 0;
  NMM_ASSIGN(const double fused, milliseconds_at(validation::neuronmm(shape.M), shape));
  NMM_ASSIGN(const double xuv, milliseconds_at(validation::nki_xuv(shape.M), shape));
  NMM_ASSIGN(const double xw, milliseconds_at(validation::nki_xw(shape.M), dense));
  const auto k = static_cast<double>(shape.K), n = static_cast<double>(shape.N),
             r = static_cast<double>(shape.r);
  return ShapeGain{.weight = std::move(weight),
                   .shape = shape,
                   .flops = k * n / (r * (k + n)),
                   .over_xw = xw / fused,
                   .over_xuv = xuv / fused};
}

}  // namespace

Result<std::vector<BaselineGains>> gains_over_baselines(const std::vector<Row>& rows,
                                                        const PivotedRuns& pivoted,
                                                        Quantity quantity) {
  const bool time = quantity == Quantity::kMilliseconds;
  std::vector<BaselineGains> all = {
      {.baseline = "NKI XW",
       .stated = time ? validation::kStatedSpeedupOverXw : validation::kStatedTrafficBelowXw,
       .stated_as = time ? "on average" : "at M 32768",
       .rows = {}},
      {.baseline = "NKI XUV",
       .stated = time ? validation::kStatedSpeedupOverXuv : validation::kStatedTrafficBelowXuv,
       .stated_as = time ? "on average" : "on average, at least",
       .rows = {}}};
  for (const auto& [M, run] : pivoted) {
    NMM_ASSIGN(const Pair fused, pair_of(rows, validation::neuronmm(M), quantity));
    for (BaselineGains& gains : all) {
      const auto program = &gains == &all.front() ? validation::nki_xw : validation::nki_xuv;
      NMM_ASSIGN(const Pair baseline, pair_of(rows, program(M), quantity));
      gains.rows[M] = {.published_baseline = baseline.published,
                       .published_fused = fused.published,
                       .simulated_baseline = baseline.simulated,
                       .simulated_fused = fused.simulated,
                       .pivoted = time ? run.milliseconds : run.gib};
    }
  }
  return all;
}

std::string gains_text(const std::vector<BaselineGains>& gains) {
  std::string text = fmt::format("\n{:>16}", "gain over");
  for (const BaselineGains& baseline : gains) text += fmt::format("  {:^36}", baseline.baseline);
  text += fmt::format("\n{:>16}", "M");
  for (size_t i = 0; i < gains.size(); ++i) {
    text += fmt::format("  {:>12}{:>12}{:>12}", "its charts", "simulated", "pivoted");
  }
  text += "\n";
  for (const auto& [M, unused] : gains.front().rows) {
    text += line(fmt::format("{}", M), gains,
                 [m = M](const BaselineGains& baseline) { return ratios(baseline.rows.at(m)); });
  }
  text += line("average", gains, average) + line("ratio of sums", gains, ratio_of_sums);
  text += fmt::format("{:>16}", "stated");
  for (const BaselineGains& baseline : gains) {
    text += fmt::format("  {:>11.2f}x {:<23}", baseline.stated, baseline.stated_as);
  }
  while (text.back() == ' ') text.pop_back();
  return text +
         "\n\npivoted: our xuv_pivoted, the same W of the same rank with r(K + N - r) parameters; "
         "nothing\nis published of it. A simulated gain is over the simulated baseline. The means "
         "cover the M\nwith values of the charts. What the stated averages are averages of is not "
         "said.\ndocs/measurements/paper.md has the likely reasons of the differences.\n";
}

Json gains_json(const std::vector<BaselineGains>& gains, Quantity quantity) {
  Json json = Json::array();
  const auto add = [&](const BaselineGains& baseline, const std::string& of,
                       const std::array<double, 3>& values) {
    Json row = {{"kernel", fmt::format("gain over {}", baseline.baseline)},
                {"shape", of},
                {"quantity", fmt::format("ratio of {}", quantity_name(quantity))}};
    row.update(ratios_json(values));
    json.push_back(std::move(row));
  };
  for (const BaselineGains& baseline : gains) {
    for (const auto& [M, row] : baseline.rows) {
      add(baseline, shape_text(validation::neuronmm(M)), ratios(row));
    }
    add(baseline, "average", average(baseline));
    add(baseline, "ratio of sums", ratio_of_sums(baseline));
    json.back()["stated"] = baseline.stated;
  }
  return json;
}

Result<std::vector<ShapeGain>> gains_at_model_shapes() {
  std::vector<ShapeGain> gains;
  for (const std::string& name : paper_model_names()) {
    NMM_ASSIGN(const io::ModelConfig config, paper_model(name));
    const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
    const int64_t rank = compress::aligned_rank(hidden, intermediate, {.ratio = kRatioOfModels});
    for (const bool down : {false, true}) {
      NMM_ASSIGN(ShapeGain gain, gain_at(fmt::format("{} {}", name, down ? "down" : "up"),
                                         {.M = kRowsOfModels,
                                          .K = down ? intermediate : hidden,
                                          .r = rank,
                                          .N = down ? hidden : intermediate}));
      gains.push_back(std::move(gain));
    }
  }
  return gains;
}

std::string shapes_text(const std::vector<ShapeGain>& gains) {
  std::string text = fmt::format(
      "\nThe same kernels, with the paper's tilings, at the shapes of models: ratio {}, M {}, "
      "simulated.\nNothing is published of this.\n{:<20}{:>8}{:>8}{:>8}{:>16}{:>14}{:>14}\n",
      kRatioOfModels, kRowsOfModels, "weight", "K", "r", "N", "ratio of FLOPs", "over NKI XW",
      "over NKI XUV");
  for (const ShapeGain& gain : gains) {
    text += fmt::format("{:<20}{:>8}{:>8}{:>8}{:>15.2f}x{:>13.2f}x{:>13.2f}x\n", gain.weight,
                        gain.shape.K, gain.shape.r, gain.shape.N, gain.flops, gain.over_xw,
                        gain.over_xuv);
  }
  return text;
}

Json shapes_json(const std::vector<ShapeGain>& gains) {
  Json json = Json::array();
  for (const ShapeGain& gain : gains) {
    const kernels::KernelShape& s = gain.shape;
    json.push_back({{"kernel", "gain at " + gain.weight},
                    {"shape", fmt::format("{},{},{},{}", s.M, s.K, s.r, s.N)},
                    {"quantity", "ratio of ms"},
                    {"ratio_of_flops", gain.flops},
                    {"simulated_over_nki_xw", gain.over_xw},
                    {"simulated_over_nki_xuv", gain.over_xuv}});
  }
  return json;
}

}  // namespace neuronmm::apps
