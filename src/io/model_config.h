#pragma once
// Reads and checks config.json of a Hugging Face model folder. Field names are those of Hugging
// Face. Nearly every part of the program starts from a ModelConfig.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/activation.h"
#include "base/result.h"
#include "base/tensor.h"
#include "io/calibration_source.h"
#include "io/families/family_table.h"
#include "io/quantization.h"
#include "io/rope_scaling.h"

namespace neuronmm::io {

// The families of models (io/families). A ModelConfig never has one of those whose files are
// rewritten to those of another family.
#define NMM_ENUMERATOR(enumerator, function) enumerator,
enum class Architecture { NMM_FAMILIES(NMM_ENUMERATOR) };
#undef NMM_ENUMERATOR
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

// The ranks of the bases that the experts of a layer share (ops/weights.h); 0 means no basis.
struct ExpertBases {
  int64_t input = 0, output = 0;

  bool operator==(const ExpertBases&) const = default;
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
  // The neurons of every expert of every layer, where experts of a mixture differ. A dense layer
  // has an empty list.
  std::vector<std::vector<int64_t>> experts = {};
  // The bases of every layer, if experts share any. A dense layer has none.
  std::vector<ExpertBases> bases = {};
  // "uniform", "predicted" or "measured"; in folders of version 0.2.0 also "sensitivity".
  std::string allocate = "uniform";
  // The calibration texts. Empty if no text was needed, and in older folders, which do not record
  // them.
  std::vector<CalibrationSource> calibration = {};
  // "uv" if ranks are those of U·V; otherwise the name of another form (compress/sizes/form.h).
  std::string form = "uv";
  // If the form was left open, says in words what was predicted and measured; otherwise empty.
  std::string form_choice = {};
  // All settings of the compression, a JSON object (compress/settings.h). Empty in folders of
  // version 0.2.0 and before.
  std::string settings = {};

  bool pivoted() const { return form != "uv"; }
};

using neuronmm::Activation;
using neuronmm::SwigluClamp;

// The layers of a mixture of experts: a router chooses `active` of `count` MLPs for each token.
struct Experts {
  int64_t count = 0, active = 0;
  int64_t width = 0;  // the neurons of an expert, at most
  // True if the weights of a token's experts are divided by their sum.
  bool divided = true;
  bool router_bias = false;
  // The layers that have one MLP of intermediate_size instead. Empty: none.
  std::vector<bool> dense = {};
  // The neurons of each expert of each layer, after a compression that chose them one by one.
  // Empty: all have `width`.
  std::vector<std::vector<int64_t>> widths = {};
  // The bases of each layer, after a compression that made some. Empty: none.
  std::vector<ExpertBases> bases = {};

  int64_t width_of(int64_t layer, int64_t expert) const {
    if (widths.empty()) return width;
    return widths.at(static_cast<size_t>(layer)).at(static_cast<size_t>(expert));
  }
  ExpertBases bases_of(int64_t layer) const {
    return bases.empty() ? ExpertBases{} : bases.at(static_cast<size_t>(layer));
  }
  bool operator==(const Experts&) const = default;
};

// The RMS norm of queries and keys.
enum class QkNorm {
  kNone,
  kPerHead,     // every head by itself; gains [head_dim]
  kWholeWidth,  // all heads together, before RoPE; gains [heads * head_dim]
};

// What one layer's attention has by itself. The defaults are those of Llama.
struct LayerAttention {
  // 0: none. With a window w, position p sees the positions q with p - w < q <= p.
  int64_t window = 0;
  // An index into ModelConfig::ropes, or kNoRope.
  int64_t rope = 0;

  bool operator==(const LayerAttention&) const = default;
};
// The queries and keys of the layer do not turn.
inline constexpr int64_t kNoRope = -1;

// A factor of every query that grows with the position p (Ministral 3): 1 + beta * log(1 + floor(p
// / original_context)).
struct QueryTemperature {
  double beta = 0.0;             // 0: no factor
  int64_t original_context = 0;  // positive if beta is not 0

  bool operator==(const QueryTemperature&) const = default;
};

// The sizes and switches of a model. Families of models differ in the values of the switches only:
//   x0 = embedding_scale * embedding(token)
//   x  = x + residual_scale * output_norm(attention(input_norm(x)))
//   x  = x + residual_scale * output_norm(mlp(y)),  y = input_norm(x)
//   mlp(y) = down(gated(gate(y), up(y))), or the weighted sum of some such experts
//   score = cap(score_scale * (q . k)), then the mask, then softmax
//   logits = cap(head(norm(x)) / logit_divisor)
//   cap(z) = c * tanh(z / c)
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
  // Has an entry for every layer. An empty list, which no file gives, means Llama's values.
  std::vector<LayerAttention> layers;
  // The tables that `layers` name. Empty only if no layer turns.
  std::vector<RopeTable> ropes = {RopeTable{}};
  // The standard deviation of fresh weights.
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  // Added to every gain of an RMS norm after it is widened to fp32 (Gemma: 1).
  double gain_offset = 0.0;
  // Whether attention and MLP norm what they read, and whether what they return is normed before it
  // is added to the residual stream. At least one of the two is true.
  bool input_norms = true, output_norms = false;
  // 0: 1 / sqrt(head_dim).
  double score_scale = 0.0;
  double embedding_scale = 1.0, residual_scale = 1.0, logit_divisor = 1.0;
  // 0: no cap.
  double score_cap = 0.0, logit_cap = 0.0;
  Activation activation = Activation::kSilu;
  SwigluClamp swiglu_clamp;  // of kClampedSwiglu
  // nullopt: every layer has one MLP.
  std::optional<Experts> experts;
  // Attention has a sink per head, self_attn.sinks.
  bool attention_sinks = false;
  // Limits queries and keys behind their norms, and values. 0: nothing.
  double qkv_clamp = 0.0;
  QueryTemperature query_temperature;
  bool tie_word_embeddings = false;
  // True if the file leaves the key out where published files do not follow the default of the
  // class. open_model() then ties the LM head if the weights have none.
  bool tie_by_weights = false;
  // True if q, k and v have a bias (always in Qwen2).
  bool attention_bias = false;
  // True if o has a bias, too (Llama and Qwen3 with "attention_bias").
  bool attention_output_bias = false;
  // True if gate, up and down have a bias, also those of experts.
  bool mlp_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  // Per-head norms only: they come after RoPE and not before it (Hunyuan).
  bool qk_norm_after_rope = false;
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

  // Returns the entry of `layers`, or Llama's values if that list is empty.
  LayerAttention attention_of(int64_t layer) const;
  // Gives all num_hidden_layers layers the same attention.
  void fill_layers(const LayerAttention& attention);
  // Returns whether the layer is a mixture of experts.
  bool is_mixture(int64_t layer) const;
  // Returns the largest number of neurons that a layer computes for a token, of all its experts.
  int64_t active_neurons() const;
  // Returns whether some layer has a window.
  bool has_window() const;
  // Returns the longest sequence that turns by the short list of a longrope table. All longer ones
  // turn by its long list. The result is the largest int64_t if no table has two lists.
  int64_t long_rope_from() const;
};

// Fails if some layer is a mixture of experts. `what` is what does not treat them, as "compress",
// and `advice` says what to do instead.
Status refuse_mixtures(const ModelConfig& config, const std::string& source, std::string_view what,
                       std::string_view advice);

// Returns the config.json text of a compressed model. All keys of `original_text` are kept, and the
// record is added or replaced.
Result<std::string> with_compression_record(std::string_view original_text,
                                            const CompressionRecord& record,
                                            const std::string& source);

}  // namespace neuronmm::io
