#pragma once
// Keys and values in fp32, in the panels that the attention kernels read (see AttentionBlock), one
// run of panels per layer and head. The memory is taken whole but touched only where tokens are
// stored, so a long capacity costs nothing until it is used.

#include "cpu/buffer.h"
#include "cpu/packed_matrix.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

class CpuKvCache : public ops::KvCache {
 public:
  explicit CpuKvCache(const ops::KvCacheShape& shape);

  int64_t padded_capacity() const { return padded_capacity_; }
  // Keys: [padded_capacity / 32][head_dim][32].
  const float* keys(int64_t layer, int64_t head) const {
    return keys_.data() + run(layer, head) * shape().head_dim;
  }
  // Values: [padded_head_dim / 32][padded_capacity][32].
  const float* values(int64_t layer, int64_t head) const {
    return values_.data() + run(layer, head) * padded_head_dim_;
  }
  // Stores the rows k, v [M, kv_heads·head_dim] of one head at positions length() ... length()+M-1.
  void store(int64_t layer, int64_t head, ConstMatrixView k, ConstMatrixView v);

 private:
  int64_t run(int64_t layer, int64_t head) const {  // positions before this layer and head
    return (layer * shape().num_key_value_heads + head) * padded_capacity_;
  }

  int64_t padded_capacity_, padded_head_dim_;
  Buffer<float> keys_, values_;
};

}  // namespace neuronmm::cpu
