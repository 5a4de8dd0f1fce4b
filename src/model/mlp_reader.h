#pragma once
// Reads the MLP of one layer from a checkpoint, in whichever form it was stored, by tensor names.
// layer_weights() is its caller.
//
// Letters: H hidden_size, I neurons, r a rank. Each matrix X of gate, up and down has one of these
// forms:
//   dense      X_proj.weight [out, in]
//   U·V        X_v_proj.weight [r, in], which is applied FIRST and is our U^T;
//              X_u_proj.weight [out, r], which is our V^T. The crossed names are those of the
//              reference system.
//   pivoted    X_pivots I32 [r], X_pivot_proj.weight and X_proj.weight.
//              Gate and up have pivots of their input: X_pivot_proj [r, H - r], X_proj [I, r].
//              Down has pivots of its output: X_pivot_proj [H - r, r], X_proj [r, I].
// With mlp_bias, each matrix X also has X_proj.bias [out], whatever its form is.
// Gate and up may also share pivots of their input, under the name "input": input_pivots [r] and
// input_pivot_proj.weight [r, H - r]. Gate and up are then [I, r].

#include <set>
#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"

namespace neuronmm::model {

// The widths of what an MLP reads and returns.
struct MlpSides {
  int64_t in = 0, out = 0;
};

// A reader for one layer's MLP, used once.
class MlpReader {
 public:
  // `prefix` is the start of all names, for example "model.layers.0.mlp.". The checkpoint and the
  // config must outlive the reader.
  MlpReader(const io::Checkpoint& checkpoint, const io::ModelConfig& config, std::string prefix)
      : checkpoint_(checkpoint), config_(config), prefix_(std::move(prefix)) {}

  // Reads the MLP. Shapes are checked against the config, and pivots must be ascending and in
  // range. `recorded` are the sizes in config.json: tensors of other sizes come from another model
  // and are refused.
  Result<ops::MlpWeight> read(const io::MlpShape* recorded = nullptr);
  // Reads an MLP of these sizes, such as an expert of a mixture.
  Result<ops::MlpWeight> read_expert(int64_t neurons, const MlpSides& sides);
  // Returns the full names of the tensors read so far.
  const std::set<std::string>& names() const { return names_; }

 private:
  Result<ops::LinearWeight> matrix(const std::string& which, int64_t in, int64_t out);
  Result<ops::LinearWeight> without_bias(const std::string& which, int64_t in, int64_t out);
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
