#pragma once
// Makes the tensors of a narrow MLP available as weights that a backend can run, before a model
// folder is written. The fit of down and the measured losses run such weights.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compress/factors/narrow_mlp.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The weights of a narrow MLP.
class NarrowWeights {
 public:
  // Rounds every weight as it will be stored. Weights of few bits, and biases, are held as fp32.
  NarrowWeights(const NarrowMlp& mlp, const StoredFormat& stored,
                Activation activation = Activation::kSilu);
  NarrowWeights(const NarrowWeights&) = delete;
  NarrowWeights& operator=(const NarrowWeights&) = delete;

  // Returns the weight of "gate", "up" or "down". Input pivots that gate and up share become pivots
  // of the returned matrix. The weight points into this object.
  ops::LinearWeight linear(const std::string& which) const;
  // Returns the whole MLP. Gate, up and down must all have tensors.
  ops::MlpWeight mlp() const;

 private:
  TensorView view(const std::string& name) const;
  ops::Pivots pivots(const std::string& which) const;

  struct Held {
    DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Held> held_;
  std::map<std::string, std::vector<int32_t>> numbers_;
  Activation activation_;
};

}  // namespace neuronmm::compress
