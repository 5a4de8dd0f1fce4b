// Reads any text as adapter_config.json. The result must be an error that names the source, or
// settings within their ranges.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/adapter_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = neuronmm::io::AdapterConfig::parse(text, "input");
  if (!config.ok()) {
    NMM_CHECK(config.error().message.starts_with("input: "));
    return 0;
  }
  for (const char* module : {"model.layers.0.self_attn.q_proj", "lm_head", ""}) {
    NMM_CHECK(config->rank_of(module) >= 1);
    NMM_CHECK(std::isfinite(config->scale_of(module)));
  }
  return 0;
}
