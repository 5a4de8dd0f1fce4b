// This file implements `neuronmm paper end-to-end`. The figure simulates whole requests of the
// paper's models on a NeuronCore, dense and compressed, and compares them with the published
// speed-ups. No weights are needed, because the time depends only on shapes.

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compress/sizes/plan.h"
#include "kernel/tuned.h"
#include "paper/paper_figures.h"
#include "paper/paper_models.h"
#include "paper/paper_request.h"
#include "trainium/device/backend.h"
#include "trainium/validation/published.h"

namespace neuronmm::apps {
namespace {

using validation::PublishedRequest;
using validation::PublishedSample;
using Json = nlohmann::ordered_json;

constexpr const char* kRequestHeading =
    "simulated (no Trainium was used) beside published; difference = simulated / published - 1\n\n"
    "Whole requests: batch 1, 32 tokens in + 32 out, bf16, one core of trn1\n\n";

constexpr const char* kWhatIsModelled =
    "\nModelled: every MLP as one fused kernel, dense and low-rank alike, each at its best tiling "
    "on\n"
    "the simulated core; all other operations by a roofline with DMA latencies. So both columns "
    "are\n"
    "near the time that their weights take over DMA, and the speed-up follows the bytes saved.\n"
    "Not modelled: what the published baseline does beyond that. Its dense decode reads 2.5 GB in\n"
    "39 ms, 63 GB/s or 15 % of the core's share of HBM: no roofline explains it, and most of the\n"
    "published gain is overhead removed (compiler-made dense MLP against hand-tiled kernels), not\n"
    "bytes or FLOPs saved. The simulated speed-up is what compression alone gives over a dense\n"
    "model that is already as well tiled. Nothing is fitted to these rows.\n";

struct RequestRow {
  PublishedRequest published;
  int64_t rank = 0;
  // The bytes of the dense model's weights over those of the compressed model's.
  double bytes_ratio = 0;
  Request dense, low_rank;

  double speedup() const { return dense.whole / low_rank.whole; }
  double difference() const { return speedup() / published.speedup - 1; }
};

// Simulates the dense model, and the model with the ranks that `compress` would choose for it.
Result<RequestRow> simulate_row(const PublishedRequest& published) {
  NMM_ASSIGN(io::ModelConfig config, paper_model(published.model));
  RequestRow row;
  row.published = published;
  NMM_ASSIGN(const auto device, simulator::find_device("trn1"));
  const auto backend = device::make_timing_backend(device, tuned_tilings(device));
  NMM_ASSIGN(row.dense, simulate_request(config, published.model, *backend));
  const compress::RankRule rule{.ratio = published.ratio};
  // The config holds the ranks of the plan, as it would after compressing.
  NMM_ASSIGN(const compress::Plan plan,
             compress::make_plan(config, rule, std::nullopt, std::string(published.model)));
  config.compression.emplace().ranks = plan.mlp_shapes();
  NMM_ASSIGN(row.low_rank, simulate_request(config, published.model, *backend));
  row.rank = plan.mlp_shapes().front().gate;
  row.bytes_ratio = static_cast<double>(plan.bytes_before) / static_cast<double>(plan.bytes_after);
  return row;
}

// The table has a line per published request. docs/measurements/simulator.md explains its columns.
std::string table(const std::vector<RequestRow>& rows) {
  std::string text =
      fmt::format("{:13}{:>6}{:>6}  {:^26}{:^26}{:^31}{:>8}\n", "", "", "", "dense, simulated ms",
                  "low-rank, simulated ms", "speed-up", "weight");
  text += fmt::format("{:13}{:>6}{:>6}  {:>8}{:>8}{:>9} {:>8}{:>8}{:>9} {:>10}{:>10}{:>11}{:>8}\n",
                      "model", "ratio", "rank", "prefill", "decode", "request", "prefill", "decode",
                      "request", "published", "simulated", "difference", "bytes");
  for (const RequestRow& row : rows) {
    const Request &a = row.dense, &b = row.low_rank;
    text += fmt::format(
        "{:13}{:>6}{:>6}  {:>8.2f}{:>8.3f}{:>9.1f} {:>8.2f}{:>8.3f}{:>9.1f} {:>9.2f}x{:>9.2f}x"
        "{:>+9.1f} %{:>7.2f}x\n",
        row.published.model, row.published.ratio, row.rank, a.prefill, a.decode, a.whole, b.prefill,
        b.decode, b.whole, row.published.speedup, row.speedup(), 100 * row.difference(),
        row.bytes_ratio);
  }
  return text;
}

std::string sample_line(const char* name, const PublishedSample& published,
                        const Request& simulated) {
  return fmt::format("  {:9} {:>9.2f}{:>10.2f} {:>9.2f}{:>10.2f} {:>9.1f}{:>10.1f}\n", name,
                     published.prefill, simulated.prefill, published.decode, simulated.decode,
                     published.request, simulated.whole);
}

// Shows the only run whose times are published, and not just a ratio.
std::string sample(const RequestRow& row) {
  return fmt::format("\n{}, ratio {}, ms:\n  {:9} {:^19} {:^19} {:^19}\n  {:9}",
                     row.published.model, row.published.ratio, "", "prefill", "decode, one token",
                     "request", "") +
         fmt::format(" {0:>9}{1:>10} {0:>9}{1:>10} {0:>9}{1:>10}\n", "published", "simulated") +
         sample_line("dense", validation::kPublishedDense, row.dense) +
         sample_line("low-rank", validation::kPublishedLowRank, row.low_rank);
}

Json request_json(const Request& request) {
  return {{"prefill_ms", request.prefill},
          {"decode_ms", request.decode},
          {"request_ms", request.whole}};
}

Json row_json(const RequestRow& row) {
  return {{"model", row.published.model},
          {"ratio", row.published.ratio},
          {"rank", row.rank},
          {"weight_bytes_ratio", row.bytes_ratio},
          {"published_speedup", row.published.speedup},
          {"simulated",
           {{"device", "trn1"},
            {"dense", request_json(row.dense)},
            {"low_rank", request_json(row.low_rank)},
            {"speedup", row.speedup()}}}};
}

}  // namespace

// Requests are published for a few models and two ratios. --model selects some of the models.
Result<Figure> end_to_end_figure(const Choice& choice) {
  if (!choice.cores.empty()) return tensor_parallel_figure(choice);
  if (!choice.rows.empty()) return fail("--rows: the published requests have 32 tokens");
  BarChart chart{.title = "Speed-up of whole requests: batch 1, 32 tokens in + 32 out, bf16, trn1",
                 .unit = "dense / low-rank latency",
                 .groups_name = "model, ratio"};
  chart.series = {{"published", "#4f9a4f", false, {}}, {"simulated", "#4f9a4f", true, {}}};
  const std::vector<std::string> wanted = models_or_all(choice.models);
  std::vector<RequestRow> rows;
  Json json = Json::array();
  for (const PublishedRequest& published : validation::kPublishedRequests) {
    if (std::find(wanted.begin(), wanted.end(), published.model) == wanted.end()) continue;
    NMM_ASSIGN(RequestRow row, simulate_row(published));
    chart.groups.push_back(fmt::format("{} {}", published.model, published.ratio));
    chart.series[0].values.push_back(published.speedup);
    chart.series[1].values.push_back(row.speedup());
    json.push_back(row_json(row));
    rows.push_back(row);
  }
  Figure figure;
  if (rows.empty()) {
    return fail("--model {}: no request of it is published", fmt::join(choice.models, ", "));
  }
  figure.text = kRequestHeading + table(rows);
  for (const RequestRow& row : rows) {
    const PublishedRequest& published = row.published;
    if (published.model == validation::kSampleModel &&
        published.ratio == validation::kSampleRatio) {
      figure.text += sample(row);
    }
  }
  figure.text += kWhatIsModelled;
  figure.json = json.dump(2) + "\n";
  figure.charts = {std::move(chart)};
  return figure;
}

}  // namespace neuronmm::apps
