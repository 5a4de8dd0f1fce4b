#pragma once
// Tensors of a narrow MLP as weights that a backend can run before any file is written.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compress/factors/narrow_mlp.h"
#include "ops/weights.h"

namespace neuronmm::compress {

class NarrowWeights {
 public:
  // Every weight as it will be stored, few bits in fp32.
  NarrowWeights(const NarrowMlp& mlp, const StoredFormat& stored);
  NarrowWeights(const NarrowWeights&) = delete;
  NarrowWeights& operator=(const NarrowWeights&) = delete;

  // Gate, up or down; input pivots that gate and up share are each one's own.
  ops::LinearWeight linear(const std::string& which) const;
  ops::MlpWeight mlp() const;  // all three must have been narrowed

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
};

}  // namespace neuronmm::compress
