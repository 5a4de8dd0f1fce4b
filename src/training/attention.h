#pragma once
// Grouped causal attention within sequences, with windows, caps and scales of scores.

#include "io/model_config.h"
#include "ops/attention.h"
#include "training/tape.h"

namespace neuronmm::training {

// Returns softmax(cap(scale · t(position) · q·kᵀ) + mask) · v for every head, [M, heads ·
// head_dim]. t is the factor of the query's temperature. q, k and v are the projections, after
// RoPE. `sinks` [1, heads], which may be absent, has the logit of each head that joins its softmax
// and has no value (ops::AttentionShape). Those of `shape` are not read.
template <typename T>
Tensor<T> attention(Tape<T>& tape, const ops::AttentionShape& shape,
                    const io::QueryTemperature& temperature, const Sequences& sequences,
                    const Tensor<T>& q, const Tensor<T>& k, const Tensor<T>& v,
                    Parameter<T>& sinks);

}  // namespace neuronmm::training
