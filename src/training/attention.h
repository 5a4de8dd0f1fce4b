#pragma once
// Grouped causal attention within sequences, with windows, caps and scales of scores.

#include "io/model_config.h"
#include "ops/attention.h"
#include "training/tape.h"

namespace neuronmm::training {

// Returns softmax(cap(scale · t(position) · q·kᵀ) + mask) · v for every head, [M, heads ·
// head_dim]. t is the factor of the query's temperature. q, k and v are the projections, after
// RoPE.
template <typename T>
Tensor<T> attention(Tape<T>& tape, const ops::AttentionShape& shape,
                    const io::QueryTemperature& temperature, const Sequences& sequences,
                    const Tensor<T>& q, const Tensor<T>& k, const Tensor<T>& v);

}  // namespace neuronmm::training
