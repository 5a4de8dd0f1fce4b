// Reads any text as config.json. The result must be an error that names the source, or a config
// whose sizes fit each other and whose frequencies are finite. A valid config must be readable
// again after a compression record or int8 weights have been added.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/model_config.h"
#include "io/quantization.h"
#include "io/transformers_config.h"
#include "model/rope.h"

namespace {

using neuronmm::io::ModelConfig;

void check_sizes(const ModelConfig& config) {
  NMM_CHECK(config.hidden_size > 0 && config.intermediate_size > 0 && config.vocab_size > 0);
  NMM_CHECK(config.num_hidden_layers > 0 && config.max_position_embeddings > 0);
  NMM_CHECK(config.num_attention_heads % config.num_key_value_heads == 0);
  NMM_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0);
  NMM_CHECK(config.rms_norm_eps > 0.0 && std::ssize(config.layers) == config.num_hidden_layers);
  for (const auto& layer : config.layers) {
    NMM_CHECK(layer.window >= 0 && layer.rope < std::ssize(config.ropes));
  }
  for (const auto& table : config.ropes) NMM_CHECK(table.theta >= 1.0);
  const long double layer =
      3.0L * config.hidden_size * config.intermediate_size +
      4.0L * config.hidden_size * config.num_attention_heads * config.head_dim;
  const long double model =
      layer * config.num_hidden_layers + 2.0L * config.vocab_size * config.hidden_size;
  NMM_CHECK(model * 8 <= INT64_MAX);  // in bytes, even in F64
}

void check_rope(const ModelConfig& config) {
  if (config.head_dim > 4096) return;
  for (const auto& table : config.ropes) {
    const auto rotary = neuronmm::model::rotary_embedding(table, config.head_dim);
    NMM_CHECK(std::isfinite(rotary.attention_factor) && rotary.attention_factor > 0.0f);
    for (const float frequency : rotary.inverse_frequencies)
      NMM_CHECK(std::isfinite(frequency) && frequency >= 0.0f);
  }
}

void check_record(std::string_view text, const ModelConfig& config) {
  neuronmm::io::CompressionRecord record{"svd", 0.2, 128, "nearest", {}};
  record.ranks.resize(static_cast<size_t>(config.num_hidden_layers), {1, 1, 1});
  if (config.compression) record.calibration = config.compression->calibration;
  const auto written = neuronmm::io::with_compression_record(text, record, "input");
  NMM_CHECK(written.ok());
  const auto again = ModelConfig::parse(*written, "input");
  NMM_CHECK(again.ok() && again->compression.has_value());
  NMM_CHECK(again->compression->calibration.size() == record.calibration.size());
  NMM_CHECK(again->hidden_size == config.hidden_size && again->layers == config.layers);
  if (config.compression) {  // a record that was read is readable again after it is written
    const auto copied = neuronmm::io::with_compression_record(text, *config.compression, "input");
    NMM_CHECK(copied.ok());
    const auto same = ModelConfig::parse(*copied, "input");
    NMM_CHECK(same.ok() && same->compression->ranks == config.compression->ranks);
    NMM_CHECK(same->compression->form == config.compression->form);
  }
  const auto int8 = neuronmm::io::with_quantization(text, "input");
  NMM_CHECK(int8.ok());
  const auto int8_config = ModelConfig::parse(*int8, "input");
  NMM_CHECK(int8_config.ok() && int8_config->quantization);
  if (config.quantization) {
    const auto copied = neuronmm::io::with_quantization(text, "input", *config.quantization);
    NMM_CHECK(copied.ok());
    const auto same = ModelConfig::parse(*copied, "input");
    NMM_CHECK(same.ok() && same->quantization == config.quantization);
  }
}

void check_classes(std::string_view text, const ModelConfig& config) {
  const auto written = neuronmm::io::with_transformers_classes(text, "input");
  NMM_CHECK(written.ok());
  const auto again = ModelConfig::parse(*written, "input");
  NMM_CHECK(again.ok() && again->architecture == config.architecture);
  NMM_CHECK(neuronmm::io::with_transformers_classes(*written, "input").value() == *written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ModelConfig::parse(text, "input");
  if (!config.ok()) {
    NMM_CHECK(config.error().message.starts_with("input: "));
    return 0;
  }
  check_sizes(*config);
  check_rope(*config);
  check_record(text, *config);
  check_classes(text, *config);
  return 0;
}
