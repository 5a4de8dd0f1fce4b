#include "model/weights_flags.h"

#include <fmt/format.h>

namespace neuronmm::apps {

void add_weights_flags(CLI::App* command, WeightsFlags& flags, const std::string& help) {
  command->add_option("--weights", flags.weights, help)
      ->check(CLI::IsMember({"original", "int8", "int6", "int4"}))
      ->capture_default_str();
  command
      ->add_option("--group", flags.group,
                   "4 bits: weights of a row that share a zero point: 16 (the default) or 32, "
                   "a quarter of a bit less and less exact")
      ->check(CLI::IsMember({16, 32}));
  command
      ->add_option("--lm-head-bits", flags.lm_head_bits,
                   "of the LM head beside rounded --weights: 8, 6 or 4; by default as many, but 6 "
                   "beside 4")
      ->check(CLI::IsMember({8, 6, 4}));
}

compress::WeightFormats weight_formats(const WeightsFlags& flags) {
  const auto weights = compress::parse_weights(flags.weights, flags.group, flags.lm_head_bits);
  if (weights.ok()) return *weights;
  // What CLI::IsMember has let through is refused for one of two reasons.
  if (flags.weights == "original" && flags.lm_head_bits) {
    throw CLI::ValidationError("--lm-head-bits",
                               "only rounded weights have them, found --weights original");
  }
  throw CLI::ValidationError(
      "--group",
      fmt::format("only weights of 4 bits have groups, found --weights {}", flags.weights));
}

}  // namespace neuronmm::apps
