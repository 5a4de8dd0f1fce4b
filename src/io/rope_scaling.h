#pragma once
// Reads what config.json says about rotary position embeddings (RoPE). Names and meanings are those
// of transformers 5 (modeling_rope_utils.py). model/rope.h has the equations.

#include <cstdint>
#include <optional>
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

// All that the file says about RoPE.
struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling;
  // The longest sequence that may be run. The value is the file's max_position_embeddings, except
  // for:
  //   yarn: factor * original_max_position_embeddings if that is more. Published instructions
  //   (those of
  //     Qwen2.5) add the scaling and leave max_position_embeddings as it was.
  //   longrope whose long_factor differs from short_factor: at most
  //   original_max_position_embeddings.
  //     For longer sequences transformers uses long_factor, even if the cache holds keys that were
  //     turned by short_factor. Its result then depends on how a sequence is cut into forward
  //     passes. Up to this length transformers always uses short_factor.
  int64_t max_position_embeddings = 0;
};

// Reads "rope_theta" and "rope_scaling", or "rope_parameters" (transformers 5), of a config. An
// unknown type, a missing field and a number out of range are errors that name the field.
Result<RopeConfig> read_rope(const JsonFields& fields, int64_t head_dim,
                             int64_t max_position_embeddings);

}  // namespace neuronmm::io
