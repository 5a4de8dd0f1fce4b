#include "paper/paper_request.h"

#include "base/progress.h"
#include "model/tensor_specs.h"
#include "model/transformer.h"

namespace neuronmm::apps {

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

}  // namespace neuronmm::apps
