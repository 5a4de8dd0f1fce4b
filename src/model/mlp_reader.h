#pragma once
// The MLP of one layer, in whichever form it was written, found by tensor names.
//
// Letters: H hidden_size, I neurons, r a rank. Of gate, up and down each is
//   dense      X_proj.weight
//   U·V        X_v_proj.weight [r, in], applied FIRST, our U^T; X_u_proj.weight [out, r], our V^T:
//              the reference system's names, which are crossed
//   pivoted    X_pivots I32 [r], X_pivot_proj.weight, X_proj.weight. Gate and up have pivots of
//              their input: X_pivot_proj [r, H - r], X_proj [I, r]; down of its output: [H - r, r],
//              X_proj [r, I]
// and gate and up may share pivots of their input, with the name "input": input_pivots [r],
// input_pivot_proj.weight [r, H - r]; gate and up are then [I, r].

#include <set>
#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

class MlpReader {
 public:
  // `prefix`: what all names begin with, "model.layers.0.mlp.". All arguments must outlive it.
  MlpReader(const io::Checkpoint& checkpoint, const io::ModelConfig& config, std::string prefix)
      : checkpoint_(checkpoint), config_(config), prefix_(std::move(prefix)) {}

  // Shapes are checked against the config, pivots for being ascending and in range. Where sizes are
  // recorded, tensors that differ come from another model and are refused.
  Result<ops::MlpWeight> read(const io::MlpShape* recorded = nullptr);
  // Of the tensors read so far.
  const std::set<std::string>& names() const { return names_; }

 private:
  Result<ops::LinearWeight> matrix(const std::string& which, int64_t in, int64_t out);
  Result<ops::LinearWeight> factors(const std::string& which, int64_t in, int64_t out);
  Result<ops::Pivots> pivots(const std::string& which, int64_t features, bool of_input);
  Result<ops::WeightView> weight(const std::string& name, const Shape& shape);
  Status check(const io::MlpShape& recorded, const ops::MlpWeight& mlp) const;
  bool has(const std::string& name) const { return checkpoint_.has(prefix_ + name); }
  std::string folder() const { return checkpoint_.folder().string(); }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  std::string prefix_;
  std::set<std::string> names_;
};

}  // namespace neuronmm::model
