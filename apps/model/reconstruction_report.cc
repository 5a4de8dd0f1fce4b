#include "model/reconstruction_report.h"

namespace neuronmm::apps {

void print_reconstruction(const ReportWriter& writer,
                          const std::optional<compress::ReconstructionSummary>& summary) {
  if (!summary) return;
  writer.print("{:>5} {:>13} {:>13} {:>7} {:>8}\n", "layer", "error before", "error after",
               "passes", "skipped");
  for (size_t i = 0; i < summary->layers.size(); ++i) {
    const compress::LayerOutcome& layer = summary->layers[i];
    writer.print("{:>5} {:>13.4e} {:>13.4e} {:>7} {:>8}\n", i, layer.before, layer.after,
                 layer.passes, layer.skipped);
  }
  writer.print("reconstruction {} ({:.0f} s)\n", compress::reconstruction_text(*summary),
               summary->seconds());
}

nlohmann::ordered_json reconstruction_json(
    const std::optional<compress::ReconstructionSummary>& summary) {
  if (!summary) return nullptr;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const compress::LayerOutcome& layer : summary->layers) {
    layers.push_back({{"error_before", layer.before},
                      {"error_after", layer.after},
                      {"passes", layer.passes},
                      {"skipped_steps", layer.skipped},
                      {"seconds", layer.seconds}});
  }
  return {{"tokens", summary->tokens},      {"held_out_tokens", summary->held_out_tokens},
          {"most_passes", summary->passes}, {"skipped_steps", summary->skipped()},
          {"seconds", summary->seconds()},  {"layers", layers}};
}

}  // namespace neuronmm::apps
