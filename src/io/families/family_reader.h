#pragma once
// What the files of families use to read config.json: settings with defaults, biases, windows and
// rotary tables. model_config.cc has read all sizes before a family reads its switches.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/families/family.h"
#include "io/json_file.h"
#include "io/rope_scaling.h"

namespace neuronmm::io {

class FamilyReader {
 public:
  // Returns whether a layer has a window, or RoPE.
  using OfLayer = std::function<bool(int64_t layer)>;

  // `given` is the object without the defaults of the class, and `complete` has the fields of the
  // object with them. `result` has the sizes already. All three outlive the reader.
  FamilyReader(const nlohmann::json& given, const JsonFields& complete, ModelConfig& result)
      : fields(complete), config(result), given_(given) {}

  const JsonFields& fields;
  ModelConfig& config;

  // Return a setting. One that is missing or null is `otherwise`.
  Result<bool> flag(const std::string& key, bool otherwise = false) const;
  Result<double> number(const std::string& key, double otherwise) const;
  Result<int64_t> count(const std::string& key, int64_t otherwise) const;
  // Returns a number that is not 0.
  Result<double> multiplier(const std::string& key, double otherwise) const;
  // Returns a cap, or 0 for none.
  Result<double> cap(const std::string& key) const;
  // Returns whether the file has the key, even with null.
  bool was_given(const std::string& key) const { return given_.contains(key); }

  // Reads "attention_bias", which is that of q, k, v and o.
  Status attention_biases();
  // Reads "sliding_window". Returns 0 if it is null.
  Result<int64_t> window() const;
  // Reads "layer_types" ("full_attention" or "sliding_attention" for every layer). Without the key
  // the layers for which `otherwise` is true are sliding ones.
  Result<std::vector<bool>> sliding_layers(const OfLayer& otherwise) const;
  // Gives the window to the layers that are true in `sliding`. A window of 0 changes nothing.
  void set_windows(const std::vector<bool>& sliding, int64_t window);

  // Reads the windows of Qwen's classes, which need "use_sliding_window".
  Status qwen_windows();

  // Sets what Gemma 2 and Gemma 3 have in common.
  Status gemma_switches();
  // Reads Granite's four multipliers and the biases of attention.
  Status granite_switches();

  // Reads the number of experts ("num_experts" or "num_local_experts", which are two names of one
  // setting in transformers), the number of active ones ("num_experts_per_tok") and their width.
  Status experts(int64_t otherwise_count, int64_t otherwise_active, const std::string& width_key);

  // Reads the RoPE table of all layers.
  Status one_rope(const RopeRules& rules = {});
  // Reads two tables: one for layers without a window, and one for the `sliding` ones.
  Status two_ropes(const std::vector<bool>& sliding, const RopeRules& full, const RopeRules& local);
  // Layers for which `has_rope` is false do not turn queries and keys.
  void drop_rope(const OfLayer& has_rope);
  // Returns the object that describes the RoPE table of all layers, or null.
  const nlohmann::json* rope_object() const;

 private:
  Result<RopeTable> rope(const RopeRules& rules);

  const nlohmann::json& given_;
};

// The key of a rewritten config.json whose tie_word_embeddings is a default that published files do
// not always follow: the LM head is tied if the weights have none.
inline constexpr const char* kTieByWeights = "_tie_by_weights";

// Copies the keys of `text_config` of a multimodal model's file, and those of its root that hold
// for the language model, too. A file without "text_config" is copied as it is. `tied` is the
// default of tie_word_embeddings at the root.
Result<nlohmann::json> language_config(const nlohmann::json& document, const std::string& source,
                                       bool tied);
// Replaces the RoPE of three axes, which are equal for a text, by plain RoPE. Fails if the type of
// scaling is no string.
Status plain_rope(nlohmann::json& document, const std::string& source);
// Returns "layer_types" of config.json for one number per layer, which is not 0 for sliding layers.
nlohmann::ordered_json layer_types(const std::vector<int64_t>& sliding);
// Adds "attention.sliding_window" of the layers that have a window. With `pattern` it also adds
// which layers these are. A model without windows gets neither.
void write_windows(const ModelConfig& config, bool pattern, GgufKeys& keys);
// Names the family in "architectures" and "model_type".
void set_family(nlohmann::json& document, const char* class_name, const char* model_type);

}  // namespace neuronmm::io
