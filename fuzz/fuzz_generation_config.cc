// Reads any text as generation_config.json. The result must be an error that names the source, or
// settings within their ranges.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/generation_config.h"

namespace {

template <typename T>
void check_range(const std::optional<T>& value, T lowest, T highest) {
  NMM_CHECK(!value || (*value >= lowest && *value <= highest));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = neuronmm::io::GenerationConfig::parse(text, "input");
  if (!config.ok()) {
    NMM_CHECK(config.error().message.starts_with("input: "));
    return 0;
  }
  check_range(config->temperature, 0.0, 100.0);
  check_range(config->top_p, 0.0, 1.0);
  check_range(config->min_p, 0.0, 1.0);
  check_range(config->repetition_penalty, 0.01, 100.0);
  check_range(config->top_k, int64_t{0}, int64_t{1} << 30);
  check_range(config->max_new_tokens, int64_t{1}, int64_t{1} << 30);
  if (config->eos_token_ids) {
    for (const int32_t id : *config->eos_token_ids) NMM_CHECK(id >= 0);
  }
  return 0;
}
