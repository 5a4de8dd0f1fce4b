#pragma once
// What config.json says of rotary position embeddings (RoPE). Names and meanings are those of
// transformers 5 (modeling_rope_utils.py); model/rope.h has the equations.

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "io/json_file.h"

namespace neuronmm::io {

// "linear": positions are divided by the factor.
struct LinearRopeScaling {
  double factor = 1.0;
};

// "dynamic" (NTK): stretches the frequencies of sequences longer than max_position_embeddings, and
// no such sequence is run. Up to there the frequencies are those without scaling.
struct DynamicRopeScaling {
  double factor = 1.0;
};

// "llama3" (Llama 3.1 and 3.2).
struct Llama3RopeScaling {
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_position_embeddings = 8192;
};

// "yarn" (arXiv 2309.00071). Pairs that turn at least beta_fast times over the original context are
// kept, those that turn at most beta_slow times are stretched by the factor.
struct YarnRopeScaling {
  double factor = 1.0;
  double original_max_position_embeddings = 0;  // unless given: max_position_embeddings
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;  // the two ends of the blend are moved to whole pairs
  std::optional<double> attention_factor;
  double mscale = 0.0, mscale_all_dim = 0.0;  // 0: not given
};

// "longrope" (arXiv 2402.13753): every pair has a factor of its own.
struct LongRopeScaling {
  std::vector<double> short_factor;  // [head_dim / 2]
  double factor = 1.0;  // unless given: max_position_embeddings / original_max_position_embeddings
  double original_max_position_embeddings = 0;  // unless given: max_position_embeddings
  std::optional<double> attention_factor;
};

// monostate: none ("default").
using RopeScaling = std::variant<std::monostate, LinearRopeScaling, DynamicRopeScaling,
                                 Llama3RopeScaling, YarnRopeScaling, LongRopeScaling>;

std::string_view rope_type(const RopeScaling& scaling);  // "default", "linear", ...

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling;
  // The longest sequence that may be run: the file's max_position_embeddings, except for
  //   yarn: factor * original_max_position_embeddings if that is more. Published instructions
  //     (Qwen2.5's) add the scaling and leave max_position_embeddings as it was.
  //   longrope whose long_factor is not its short_factor: at most original_max_position_embeddings.
  //     For longer sequences transformers takes long_factor, also when the cache holds keys that
  //     were turned by short_factor: what it computes then depends on how a sequence was cut into
  //     forward passes. Up to there it is short_factor however it was cut.
  int64_t max_position_embeddings = 0;
};

// From "rope_theta" and "rope_scaling", or "rope_parameters" (transformers 5), of a config whose
// head_dim and max_position_embeddings are known. An unknown type, a missing field and a number out
// of range are errors that name the field.
Result<RopeConfig> read_rope(const JsonFields& fields, int64_t head_dim,
                             int64_t max_position_embeddings);

}  // namespace neuronmm::io
