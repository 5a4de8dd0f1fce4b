#pragma once
// RMS norms, with every switch of io::ModelConfig that concerns them.

#include "training/tape.h"

namespace neuronmm::training {

struct NormSettings {
  double eps = 0.0;
  double gain_offset = 0.0;  // added to every gain
  double factor = 1.0;       // multiplies the result
};

// Returns y = factor · (gain + gain_offset) ⊙ x / sqrt(mean(x²) + eps). The mean is taken over as
// many neighbouring columns as there are gains: all of a row, or those of one head. Without gains
// it returns x itself.
template <typename T>
Tensor<T> rms_norm(Tape<T>& tape, const Tensor<T>& x, Parameter<T>& gain,
                   const NormSettings& settings);

}  // namespace neuronmm::training
