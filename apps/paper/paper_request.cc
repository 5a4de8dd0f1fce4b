#include "paper/paper_request.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/progress.h"
#include "compress/sizes/plan.h"
#include "kernel/tuned.h"
#include "model/tensor_specs.h"
#include "model/transformer.h"
#include "paper/paper_models.h"
#include "trainium/device/backend.h"

namespace neuronmm::apps {
namespace {

// Simulates the dense model, and the model with the ranks that `compress` would choose for it.
Result<RequestRow> simulate_pair(const validation::PublishedRequest& published) {
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

}  // namespace

Result<Request> simulate_request(const io::ModelConfig& config, std::string_view name,
                                 const ops::Backend& backend) {
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::zeros(name, model::tensor_specs(config)));
  NMM_ASSIGN(const auto transformer,
             model::Transformer::load(config, std::move(checkpoint), backend));
  const model::Transformer* const models[] = {&transformer};
  Progress silent;
  NMM_ASSIGN(const auto measurement, eval::measure_latency(models, kRequest, silent));
  const eval::RunLatency& run = measurement.models[0][0];
  const auto decodes = std::ssize(run.token_generation);
  return Request{
      .prefill = 1e3 * run.context_encoding,
      .decode = 1e3 * (run.end_to_end - run.context_encoding) / static_cast<double>(decodes),
      .whole = 1e3 * run.end_to_end,
      .decodes = decodes};
}

Result<std::vector<RequestRow>> simulate_published_requests(
    const std::vector<std::string>& models) {
  const std::vector<std::string> wanted = models_or_all(models);
  std::vector<RequestRow> rows;
  for (const validation::PublishedRequest& published : validation::kPublishedRequests) {
    if (std::find(wanted.begin(), wanted.end(), published.model) == wanted.end()) continue;
    NMM_ASSIGN(RequestRow row, simulate_pair(published));
    rows.push_back(row);
  }
  if (rows.empty())
    return fail("--model {}: no request of it is published", fmt::join(models, ", "));
  return rows;
}

}  // namespace neuronmm::apps
