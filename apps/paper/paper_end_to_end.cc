// This file implements `neuronmm paper end-to-end`. The figure simulates whole requests of the
// paper's models on a NeuronCore, dense and compressed, and compares them with the published
// speed-ups. No weights are needed, because the time depends only on shapes.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paper/paper_figures.h"
#include "paper/paper_request.h"

namespace neuronmm::apps {
namespace {

using validation::PublishedRequest;
using validation::PublishedSample;
using Json = nlohmann::ordered_json;

bool is_sample(const PublishedRequest& published) {
  return published.model == validation::kSampleModel && published.ratio == validation::kSampleRatio;
}

constexpr const char* kRequestHeading =
    "simulated (no Trainium was used) beside published; difference = simulated / published - 1\n\n"
    "Whole requests: batch 1, 32 tokens in + 32 out, bf16, one core of trn1\n\n";

// Says in three sentences why the simulated speed-ups are below the published ones.
std::string reasons(const std::vector<RequestRow>& rows) {
  std::string ours;
  for (const RequestRow& row : rows) {
    if (is_sample(row.published)) ours = fmt::format(" (simulated: {:.1f} ms)", row.dense.decode);
  }
  return fmt::format(
      "\nDecoding one token moves every weight over DMA once, so no speed-up exceeds the ratio of "
      "the\nweights' bytes, and the simulated ones are just below it. The published dense {} is\n"
      "far slower than its bytes: a token takes {:.1f} ms{}, where another published\n"
      "dense model, which is not stated, takes {:.1f} ms. So most of the published gain is "
      "probably\noverhead that hand-tiled kernels remove, and the simulated gain is what "
      "compression alone gives\nover a dense model that is as well tiled.\n",
      validation::kSampleModel, validation::kPublishedDense.decode, ours,
      validation::kPublishedDecodeOfUnstatedModel);
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
  NMM_ASSIGN(const std::vector<RequestRow> rows, simulate_published_requests(choice.models));
  Json json = Json::array();
  for (const RequestRow& row : rows) {
    chart.groups.push_back(fmt::format("{} {}", row.published.model, row.published.ratio));
    chart.series[0].values.push_back(row.published.speedup);
    chart.series[1].values.push_back(row.speedup());
    json.push_back(row_json(row));
  }
  Figure figure;
  figure.text = kRequestHeading + table(rows);
  for (const RequestRow& row : rows) {
    if (is_sample(row.published)) figure.text += sample(row);
  }
  figure.text += reasons(rows);
  figure.json = json.dump(2) + "\n";
  figure.charts = {std::move(chart)};
  return figure;
}

}  // namespace neuronmm::apps
