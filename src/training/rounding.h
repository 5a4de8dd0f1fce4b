#pragma once
// Training for weights of 8, 6 or 4 bits. Products compute with rounded weights (Parameter::
// rounding), and with inputs that are rounded as the CPU's kernels for such weights round them. The
// gradient passes as if nothing were rounded (the straight-through estimator, arXiv 1308.3432).

#include "training/tape.h"

namespace neuronmm::training {

// Rounds each group of ops::kQuantGroup columns of a row to multiples of its largest value / 127.
template <typename T>
void round_rows(MatrixView<T> x);
// Returns x, rounded so if products with the weight round their input.
template <typename T>
Tensor<T> rounded_input(Tape<T>& tape, const Tensor<T>& x, const Parameter<T>& weight);

}  // namespace neuronmm::training
