#pragma once
// Reads and checks config.json of a Hugging Face model folder. Field names are those of Hugging
// Face. Nearly every part of the program starts from a ModelConfig.

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
// Returns the class name: "LlamaForCausalLM", ...
std::string_view architecture_name(Architecture architecture);

// The sizes of one layer's MLP after compression, where they differ from the config's.
struct MlpShape {
  // Ranks; 0 means that the matrix is dense.
  int64_t gate = 0, up = 0, down = 0;
  // The number of input pivots that gate and up share; 0 means none.
  int64_t input = 0;
  // The rows of gate and up; 0 means intermediate_size.
  int64_t neurons = 0;

  bool operator==(const MlpShape&) const = default;
};

// A record of what `compress` did to a folder, from "neuronmm_compression" in config.json. Folders
// that the reference system published have factors but no such record. The ranks of such folders
// are read from the shapes of the tensors.
struct CompressionRecord {
  // "whitened", "two-sided" or "svd"; in folders of version 0.2.0 also "error-aware".
  std::string method;
  // The share of parameters that was to be removed from each compressed matrix.
  double ratio = 0.0;
  int64_t block = 128;
  // The multiple of the block to which sizes were rounded: "nearest", "floor" or "ceil" in folders
  // of version 0.2.0 and before. Empty in later folders, whose sizes are the nearest multiples.
  std::string align = {};
  // The ranks of every layer.
  std::vector<MlpShape> ranks = {};
  // "uniform", "predicted" or "measured"; in folders of version 0.2.0 also "sensitivity".
  std::string allocate = "uniform";
  // The calibration texts. Empty if no text was needed, and in older folders, which do not record
  // them.
  std::vector<CalibrationSource> calibration = {};
  // "uv" if ranks are those of U·V; otherwise the name of a form with pivots (compress/form.h).
  std::string form = "uv";
  // If the form was left open, says in words what was predicted and measured; otherwise empty.
  std::string form_choice = {};
  // All settings of the compression, a JSON object (compress/settings.h). Empty in folders of
  // version 0.2.0 and before.
  std::string settings = {};

  bool pivoted() const { return form != "uv"; }
};

// The sizes and switches of a model.
struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  // If the file does not give it: hidden_size / num_attention_heads, or 128 in Qwen3.
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  // The longest sequence that is run here (see RopeConfig).
  int64_t max_position_embeddings = 0;
  // 0 if there is no window (missing, null, or use_sliding_window false).
  int64_t sliding_window = 0;
  // The standard deviation of fresh weights.
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  // True if q, k and v have a bias (always in Qwen2).
  bool attention_bias = false;
  // True if o has a bias, too (Llama and Qwen3 with "attention_bias").
  bool attention_output_bias = false;
  // True if every head of q and k has an RMS norm (Qwen3).
  bool qk_norm = false;
  std::optional<int64_t> bos_token_id;
  // The file has one id or a list.
  std::vector<int64_t> eos_token_ids;
  // The dtype in which weights are written and synthesized, from torch_dtype (or dtype).
  DType dtype = DType::kBF16;
  std::optional<CompressionRecord> compression;
  // The entry "neuronmm_quantization"; nullopt for float weights.
  std::optional<Quantization> quantization;

  // Parses the text of a config.json. Error messages call the text `source` (a path). Every size is
  // checked to be positive and to fit the others (heads divide by kv heads, head_dim is even).
  // Sizes are also limited so that products of them cannot overflow.
  static Result<ModelConfig> parse(std::string_view json_text, const std::string& source);
  static Result<ModelConfig> load(const std::filesystem::path& config_json);
};

// Returns the config.json text of a compressed model. All keys of `original_text` are kept, and the
// record is added or replaced.
Result<std::string> with_compression_record(std::string_view original_text,
                                            const CompressionRecord& record,
                                            const std::string& source);

}  // namespace neuronmm::io
