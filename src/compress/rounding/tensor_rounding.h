#pragma once
// Single tensors of a model on their way to codes: times their factors per channel, rounded by the
// Gram matrix of what they read, kept in the work folder of the run.

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

struct ModelRounding {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  // The format of a tensor of the checkpoint. Asked for all projections and for the LM head: a tied
  // head is the embedding table.
  std::function<ops::LowBitFormat(const std::string& tensor)> format_of;
  std::filesystem::path statistics;  // the folder of gather_statistics(Gathered::kAllLinears)
  TensorScales scales = {};          // of the weights; their inputs are divided by those of columns
  RoundingSettings settings = {};
};

// Both must outlive it.
class TensorRounding {
 public:
  TensorRounding(const ModelRounding& run, const std::filesystem::path& work)
      : run_(run), work_(work) {}

  // Whether its codes are in the work folder.
  bool finished(const std::string& tensor) const;
  DoubleMatrix weight(const std::string& tensor) const;  // times its factors
  // Its factors of columns; without any, 1.
  std::vector<double> input_factors(const std::string& tensor) const;

  // Leave codes of `weight` [rows, columns], which stands for the tensor's, in the work folder.
  // Refused, by the tensor's name: NaN and infinity.
  Status round(const std::string& tensor, const DoubleMatrix& weight,
               const RoundingGram& gram) const;
  // Of 8 bits.
  Status round_to_nearest(const std::string& tensor, const DoubleMatrix& weight) const;
  // What its codes stand for.
  Result<DoubleMatrix> rounded(const std::string& tensor) const;

 private:
  Result<ops::Codes> read(const std::string& tensor) const;

  const ModelRounding& run_;
  const std::filesystem::path& work_;
};

// Of the inputs divided by s: gram[i, j] / (s[i] · s[j]).
DoubleMatrix divided_inputs(DoubleMatrix gram, const std::vector<double>& s);

}  // namespace neuronmm::compress
