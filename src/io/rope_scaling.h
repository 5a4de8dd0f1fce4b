#pragma once
// Reads what config.json says about rotary position embeddings (RoPE). Names and meanings are those
// of transformers 5 (modeling_rope_utils.py). model/rope.h has the equations.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "io/json_file.h"

namespace neuronmm::io {

// "linear" divides positions by the factor.
struct LinearRopeScaling {
  double factor = 1.0;
};

// "dynamic" (NTK) stretches the frequencies of sequences longer than max_position_embeddings, and
// no such sequence is run. Shorter sequences have the frequencies without scaling.
struct DynamicRopeScaling {
  double factor = 1.0;
};

// "llama3" is the scaling of Llama 3.1 and 3.2.
struct Llama3RopeScaling {
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_position_embeddings = 8192;
};

// "yarn" is described in arXiv 2309.00071. Pairs that turn at least beta_fast times over the
// original context are kept. Pairs that turn at most beta_slow times are stretched by the factor.
struct YarnRopeScaling {
  double factor = 1.0;
  // If the file does not give it: max_position_embeddings.
  double original_max_position_embeddings = 0;
  double beta_fast = 32.0, beta_slow = 1.0;
  // Moves the two ends of the blend to whole pairs.
  bool truncate = true;
  std::optional<double> attention_factor;
  // 0 if the file does not give them.
  double mscale = 0.0, mscale_all_dim = 0.0;
};

// "longrope" (arXiv 2402.13753) has a factor for every pair. A sequence of at most
// original_max_position_embeddings tokens uses the short list, a longer one the long list for all
// its tokens.
struct LongRopeScaling {
  std::vector<double> short_factor;  // The shape is [rotary width / 2].
  std::vector<double> long_factor =
      {};  // The same shape. Empty: the short list serves all lengths.
  // If the file does not give it: max_position_embeddings / original_max_position_embeddings.
  double factor = 1.0;
  // If the file does not give it: max_position_embeddings.
  double original_max_position_embeddings = 0;
  std::optional<double> attention_factor;
};

// A monostate means no scaling ("default").
using RopeScaling = std::variant<std::monostate, LinearRopeScaling, DynamicRopeScaling,
                                 Llama3RopeScaling, YarnRopeScaling, LongRopeScaling>;

// Returns "default", "linear", ...
std::string_view rope_type(const RopeScaling& scaling);

// The rotation that some or all layers of a model apply to queries and keys.
struct RopeTable {
  double theta = 10000.0;
  RopeScaling scaling;
  // The number of leading dimensions of a head that turn, an even number. The other dimensions pass
  // unchanged. 0 means head_dim.
  int64_t rotary_width = 0;
};

// A family's rules for a RoPE table: the keys of config.json that describe it, and what it may
// have.
struct RopeRules {
  // The base if the file has none.
  double default_theta = 10000.0;
  // If not empty, the table is that of layers of one type, such as "sliding_attention". Newer files
  // have it as a member of "rope_parameters".
  std::string layer_type = {};
  // The key of the base outside of "rope_parameters". Empty if there is none.
  std::string theta_key = "rope_theta";
  // False if "rope_scaling" belongs to the layers of another type.
  bool scaling = true;
  // True if "partial_rotary_factor" may leave the last elements of a head as they are.
  bool partial = false;
  // True if the types "su" and "yarn" mean "longrope" (Phi-3).
  bool old_longrope_names = false;
  // True if "dynamic" with "alpha" multiplies the base by alpha^(d / (d - 2)) for sequences of any
  // length, where d is head_dim (Hunyuan).
  bool alpha = false;
};

// The rules, and the sizes of the model that they are applied to.
struct RopePlace : RopeRules {
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
};

// What the file says about one table.
struct RopeConfig {
  RopeTable table;
  // The longest sequence that may be run: the file's max_position_embeddings, or factor *
  // original_max_position_embeddings of yarn if that is more. Published instructions (those of
  // Qwen2.5) add the scaling and leave max_position_embeddings as it was.
  int64_t max_position_embeddings = 0;
};

// Reads "rope_theta" and "rope_scaling", or "rope_parameters" (transformers 5), of a config. An
// unknown type, a missing field, a number out of range and an unknown field are errors that name
// the field.
Result<RopeConfig> read_rope(const JsonFields& fields, const RopePlace& place);

}  // namespace neuronmm::io
