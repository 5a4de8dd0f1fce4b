#pragma once
// Rotary position embeddings (RoPE) of all kinds, by the frequencies of model/rope.h.

#include <map>
#include <utility>

#include "io/model_config.h"
#include "model/rope.h"
#include "training/tape.h"

namespace neuronmm::training {

// The cosines and sines of the angles of positions 0, 1, ..., [positions, pairs] each, times the
// attention factor.
template <typename T>
struct AngleTable {
  Rows<T> cosine, sine;
};

// The angles of all layers of a model, for as many positions as were asked for.
template <typename T>
class Angles {
 public:
  Angles() = default;
  explicit Angles(const io::ModelConfig& config);
  // Returns the angles of a layer's table for a sequence of this length, or null if the layer does
  // not turn. They come from the long list if the sequence is longer than the original context of
  // longrope. The result lives until a longer sequence comes.
  const AngleTable<T>* of(int64_t rope, int64_t length);

 private:
  model::RotaryTables tables_;
  int64_t long_from_ = 0;
  std::map<std::pair<int64_t, bool>, AngleTable<T>> known_;
};

// Turns x [M, heads · head_dim] in place, which no call has read yet. The first pairs of each head
// turn: element j together with element j + pairs. Row i of a sequence is at position i.
template <typename T>
void rotate(Tape<T>& tape, const Tensor<T>& x, int64_t head_dim, int64_t rope,
            const Sequences& sequences, Angles<T>& angles);

}  // namespace neuronmm::training
