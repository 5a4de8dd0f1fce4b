#pragma once
// config.json of a Hugging Face model folder, checked. Field names are Hugging Face's.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "io/calibration_source.h"
#include "io/quantization.h"
#include "io/rope_scaling.h"

namespace neuronmm::io {

enum class Architecture { kLlama, kMistral, kQwen2, kQwen3 };
std::string_view architecture_name(Architecture architecture);  // "LlamaForCausalLM", ...

// The sizes of one layer's MLP where they are not the config's.
struct MlpShape {
  int64_t gate = 0, up = 0, down = 0;  // ranks; 0 = that matrix is dense
  int64_t input = 0;                   // pivots that gate and up share; 0 = none
  int64_t neurons = 0;                 // rows of gate and up; 0 = intermediate_size

  bool operator==(const MlpShape&) const = default;
};

// What `compress` did to this folder: "neuronmm_compression" in config.json. Folders published by
// the reference system have factor tensors but no such record: there the ranks are read from the
// tensors' shapes.
struct CompressionRecord {
  // "whitened", "two-sided", "svd"; in folders of version 0.2.0 also "error-aware".
  std::string method;
  double ratio = 0.0;  // share of parameters asked to be removed from each compressed matrix
  int64_t block = 128;
  // To which multiple of the block sizes were rounded: "nearest", "floor" or "ceil" in folders of
  // version 0.2.0 and before; empty in others, whose sizes are the nearest multiples.
  std::string align = {};
  std::vector<MlpShape> ranks = {};  // per layer
  // "uniform", "predicted" or "measured"; in folders of version 0.2.0 also "sensitivity".
  std::string allocate = "uniform";
  // Empty where no text was needed, and in folders from before it was recorded.
  std::vector<CalibrationSource> calibration = {};
  std::string form = "uv";  // what a rank above 0 is: of U·V, or with another form of pivots
  // What was predicted and measured where the form was left open, in words; else empty.
  std::string form_choice = {};
  // All settings of the compression, a JSON object (compress/settings.h). Empty in folders of
  // version 0.2.0 and before.
  std::string settings = {};

  bool pivoted() const { return form != "uv"; }
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // unless given: hidden_size / num_attention_heads; 128 in Qwen3
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;  // of sequences run here: see RopeConfig
  int64_t sliding_window = 0;           // 0: none (absent, null, or use_sliding_window false)
  double initializer_range = 0.02;      // standard deviation of fresh weights
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  bool attention_bias = false;         // q, k, v have a bias (always in Qwen2)
  bool attention_output_bias = false;  // o has one too (Llama and Qwen3 with "attention_bias")
  bool qk_norm = false;                // RMS norm on every head of q and k (Qwen3)
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;  // config.json has one id or a list
  DType dtype = DType::kBF16;  // torch_dtype (or dtype): the dtype to write and to synthesize
  std::optional<CompressionRecord> compression;
  std::optional<Quantization> quantization;  // "neuronmm_quantization"; nullopt: float weights

  // `source` is what error messages call the text (a path). Every size is checked to be positive,
  // to fit the others (heads divide by kv heads, head_dim even) and to stay within limits that
  // cannot overflow later.
  static Result<ModelConfig> parse(std::string_view json_text, const std::string& source);
  static Result<ModelConfig> load(const std::filesystem::path& config_json);
};

// The config.json text of a compressed model: `original_text` with every key kept and the record
// added or replaced.
Result<std::string> with_compression_record(std::string_view original_text,
                                            const CompressionRecord& record,
                                            const std::string& source);

}  // namespace neuronmm::io
