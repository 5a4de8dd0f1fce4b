#pragma once
// A family of models: the classes of Hugging Face that name it, what its config.json means, and the
// names of its tensors in folders and in GGUF files. docs/design/families.md shows how to add one.
//
// All families run by the same code (model/transformer.h). A family only translates its settings to
// the switches of ModelConfig and its names to the canonical ones, which are Llama's and some more:
//   self_attn.{q,k}_norm     norms of queries and keys
//   self_attn.sinks          one logit per head
//   self_attn.output_norm    the norm of attention's output, before it is added
//   mlp.output_norm          the norm of the MLP's output, before it is added
//   mlp.router               the router of a mixture of experts
//   mlp.experts.N.{gate,up,down}_proj   the MLP of expert N

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "io/model_config.h"

namespace neuronmm::io {

class FamilyReader;

// A module of a layer that has another name in files: "self_attn.query_layernorm". In names of
// experts, '#' stands for the expert's number: "block_sparse_moe.experts.#.w1".
struct RenamedModule {
  std::string_view own, canonical;
};

// A matrix of files whose rows are those of two or three modules, one after the other. With two
// modules the last name is empty.
struct SlicedModule {
  std::string_view own;
  std::array<std::string_view, 3> parts;
};

// A tensor of files that holds one or two matrices, or biases, of all experts of a layer. With one,
// the last part is empty. E experts, N rows and K columns of a part:
//   [E, parts * N, K]   matrices, whose rows follow one another or, if interleaved, alternate
//   [E, K, parts * N]   with input_first: the same, transposed
//   [E, parts * N]      biases
// A matrix in MXFP4 has two tensors, whose names have the endings "_blocks" and "_scales":
//   [E, parts * N, K / 32, 16] and [E, parts * N, K / 32]
struct StackedExperts {
  std::string_view own;  // within the layer and with its ending: "mlp.experts.gate_up_proj_bias"
  std::array<std::string_view, 2> parts;  // within an expert: "gate_proj.weight"
  bool input_first = false, interleaved = false;

  bool is_bias() const { return parts[0].ends_with(".bias"); }
};

// The names of a family's tensors within a layer, where they are not the canonical ones.
struct ModuleNames {
  std::vector<RenamedModule> renamed = {};
  std::vector<SlicedModule> sliced = {};
  std::vector<StackedExperts> stacked = {};
  // True if published folders have no other tensors of experts than the stacked ones.
  bool only_stacked = false;
  // True if RoPE turns the elements 2j and 2j + 1 of a head. The rows of q and k are then stored in
  // this order, and not with the two elements of a pair half a head apart.
  bool neighbouring_pairs = false;
};

// What a family reads from a GGUF file besides the keys that all files have. The keys have no
// prefix: "attention.scale" stands for "granite.attention.scale".
class GgufFacts {
 public:
  virtual ~GgufFacts() = default;
  virtual Result<std::optional<int64_t>> integer(std::string_view key) const = 0;
  virtual Result<std::optional<double>> number(std::string_view key) const = 0;
  virtual Result<std::optional<bool>> boolean(std::string_view key) const = 0;
  // Returns the list of a key, or one value for all layers. Empty if the key is missing.
  virtual Result<std::vector<int64_t>> integers(std::string_view key) const = 0;
  virtual bool has_tensor(std::string_view name) const = 0;
  // Returns the elements of a tensor of `count` numbers.
  virtual Result<std::vector<double>> tensor(std::string_view name, int64_t count) const = 0;
  // Returns the error that begins with the file and names the key.
  virtual Error wrong(std::string_view key, std::string_view expected) const = 0;
};

// Takes what a family adds to a GGUF file besides the keys that all files have. The keys have no
// prefix, as in GgufFacts.
class GgufKeys {
 public:
  virtual ~GgufKeys() = default;
  virtual void integer(std::string_view key, int64_t value) = 0;  // at least 0
  virtual void number(std::string_view key, double value) = 0;
  virtual void boolean(std::string_view key, bool value) = 0;
  virtual void booleans(std::string_view key, const std::vector<bool>& values) = 0;
  // Adds a tensor of fp32 numbers.
  virtual void tensor(std::string_view name, const std::vector<double>& values) = 0;
};

// A number of a GGUF file and the key of config.json that holds it.
struct GgufNumber {
  std::string_view gguf, config;
};

// An architecture of GGUF files ("general.architecture") whose models belong to a family.
struct GgufFamily {
  std::string_view architecture;
  // The names of modules, as in "blk.3.attn_qkv", where they are not Llama's. Norms of queries and
  // keys are known without an entry.
  ModuleNames names = {};
  // True if the gains of norms have ModelConfig::gain_offset added already.
  bool gains_with_offset = false;
  // Numbers that are copied to config.json if the file has them.
  std::vector<GgufNumber> numbers = {};
  // Keys that `complete` reads and that are refused in other families.
  std::vector<std::string_view> keys = {};
  // Completes a config.json that has the sizes, the RoPE base and the token ids already. `config`
  // has the family's model_type and may get that of another family.
  Status (*complete)(const GgufFacts& facts, nlohmann::ordered_json& config) = nullptr;
  // True if `complete` reads the keys of windows. Otherwise a window is one of all layers.
  bool own_windows = false;
  // True if `complete` reads how much of a head turns, and lists of RoPE factors.
  bool own_rope = false;
  // The inverse of `numbers` and `complete`. What it cannot express is found by reading the file
  // again (gguf_out/file_check.h), so it need not fail.
  void (*write)(const ModelConfig& config, GgufKeys& keys) = nullptr;
  // The parts that llama.cpp loads (src/models of its source, state 0c1e57098): biases of the
  // attention's output and of the MLP, and divisors of RoPE frequencies (rope_freqs.weight).
  bool loads_output_biases = false, loads_rope_divisors = false;
  // The place where llama.cpp finds the LM head: in output.weight or else in the table, always in
  // the table, or always in output.weight.
  enum class Head { kEither, kTable, kOwn };
  Head head = Head::kEither;
};

struct Family {
  // The names in "architectures" and "model_type" that transformers writes for the language model.
  std::string_view class_name, model_type;
  // Further class names and model types that mean the same.
  std::vector<std::string_view> other_names = {};
  // A JSON object: the values of keys that a file leaves out. They are the defaults of the class.
  std::string_view defaults = "{}";
  // Keys of config.json that the family reads or that its class ignores, besides those that all
  // families read (known_keys.cc).
  std::vector<std::string_view> keys = {};
  Activation activation = Activation::kSilu;
  // Sets the switches. Null if `rewrite` is not.
  Status (*read)(FamilyReader& reader) = nullptr;
  // Returns the config.json of another family for the same model. Only families that differ from
  // the other one in files, but not in mathematics, have this.
  Result<nlohmann::json> (*rewrite)(const nlohmann::json& document,
                                    const std::string& source) = nullptr;
  ModuleNames names = {};
  std::vector<GgufFamily> gguf = {};
  // The architecture in which models are written to GGUF files, if it is not the first of `gguf`.
  std::string_view written_as = {};
};

// Returns all families in the order of family_table.h.
std::span<const Family* const> families();
// Returns the family of models of this architecture.
const Family& family_of(Architecture architecture);

}  // namespace neuronmm::io
