#pragma once
// Operations on single elements: the gate of an MLP, the residual stream, and the lookup of tokens.

#include <span>

#include "base/activation.h"
#include "text/tokenizer/token_id.h"
#include "training/tape.h"

namespace neuronmm::training {

// Returns activate(gate) ⊙ up, or clamped SwiGLU (base/activation.h).
template <typename T>
Tensor<T> gated(Tape<T>& tape, Activation activation, const Tensor<T>& gate, const Tensor<T>& up,
                const SwigluClamp& clamp = {});

// Returns x limited to [-limit, limit], or x itself if the limit is 0.
template <typename T>
Tensor<T> limited(Tape<T>& tape, const Tensor<T>& x, double limit);

// Returns x + scale · change.
template <typename T>
Tensor<T> add_scaled(Tape<T>& tape, const Tensor<T>& x, double scale, const Tensor<T>& change);

// Returns scale · table[tokens]. The tokens are in the table.
template <typename T>
Tensor<T> lookup(Tape<T>& tape, Parameter<T>& table, std::span<const text::TokenId> tokens,
                 double scale);

// Returns some rows of x, which are distinct.
template <typename T>
Tensor<T> take_rows(Tape<T>& tape, const Tensor<T>& x, std::span<const int64_t> rows);

}  // namespace neuronmm::training
