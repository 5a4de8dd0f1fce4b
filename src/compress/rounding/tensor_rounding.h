#pragma once
// Rounds single tensors of a model and keeps their codes in the work folder of the run. A tensor is
// first multiplied by its smoothing factors, then rounded by the Gram matrix of its input.
// round_model.h and mlp_rounding.h decide on the order of the tensors.

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "compress/rounding/low_bit_rounding.h"
#include "compress/rounding/smoothing.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

// A model to be rounded, and how. References must outlive it.
struct ModelRounding {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  // Returns the format of a tensor, by its name in the checkpoint. It is called for all projections
  // and for the LM head, which is the embedding table if the two are tied.
  std::function<ops::LowBitFormat(const std::string& tensor)> format_of;
  // The folder that gather_statistics(Gathered::kAllLinears) has filled.
  std::filesystem::path statistics;
  // Smoothing factors of the weights. The input of a weight is divided by its column factors.
  TensorScales scales = {};
  RoundingSettings settings = {};
  // False if the LM head stays floats.
  bool round_head = true;
};

// Rounds tensors of `run` and keeps their codes in the folder `work`. Both must outlive the object.
class TensorRounding {
 public:
  TensorRounding(const ModelRounding& run, const std::filesystem::path& work)
      : run_(run), work_(work) {}

  // Returns whether the codes of the tensor are in the work folder.
  bool finished(const std::string& tensor) const;
  // Returns the tensor times its factors.
  DoubleMatrix weight(const std::string& tensor) const;
  // Returns the column factors of the tensor, or ones if it has none.
  std::vector<double> input_factors(const std::string& tensor) const;

  // Rounds `weight` [rows, columns], which replaces the values of `tensor`, and writes its codes to
  // the work folder. Fails with the tensor's name if `weight` holds NaN or infinity.
  Status round(const std::string& tensor, const DoubleMatrix& weight,
               const RoundingGram& gram) const;
  // Does the same for 8-bit formats, rounding to nearest.
  Status round_to_nearest(const std::string& tensor, const DoubleMatrix& weight) const;
  // Returns the values that the codes of the tensor stand for.
  Result<DoubleMatrix> rounded(const std::string& tensor) const;

 private:
  Result<ops::Codes> read(const std::string& tensor) const;

  const ModelRounding& run_;
  const std::filesystem::path& work_;
};

// Returns the Gram matrix of the inputs divided by s: gram[i, j] / (s[i] · s[j]).
DoubleMatrix divided_inputs(DoubleMatrix gram, const std::vector<double>& s);

}  // namespace neuronmm::compress
