#pragma once
// Computes the bases that all experts of a layer share (MixtureWeight in ops/weights.h), and
// experts that are fitted to them.
//
// The inputs x of all experts go through one basis a_t [r, H], and all outputs come from one basis
// d [H, r']. Each expert then computes in r and r' dimensions: with z = a_t·x, its gate and up read
// z, and x ~ expand·z. The best subspace of the inputs is that of one MLP whose neurons are those
// of all experts (pivoting.h). The best subspace of the outputs is that of the principal components
// of all experts' weighted outputs.
//
// The bases have no pivots. These would save r² parameters, which is little beside the experts.
//
// Letters: H hidden_size, k the neurons that an expert keeps.

#include <vector>

#include "base/result.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/rounding/stored_format.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The losses of bases by rank, in nats per token. Entry r is the loss if r dimensions are kept.
struct BasisLosses {
  std::vector<double> input, output;  // [H + 1]; the last entry is 0
};

// The sums over the experts of a layer from which its bases follow, made of one expert after the
// other.
class SharedEnergies {
 public:
  // `in` [H, H] is the mean of x·xᵀ over all tokens of the layer.
  explicit SharedEnergies(DoubleMatrix in);
  // Adds an expert with the metric `scale` of its outputs (local_metric()). `squares` is the mean
  // over all tokens of its squared routing weight, by which a bias of down counts.
  void add(const KeptNeurons& expert, double scale, double squares);

  // Returns the losses of bases of all ranks. Like bases(), it fails if LAPACK does.
  Result<BasisLosses> losses() const;
  // Returns the bases as tensors "input_basis_proj.weight" [r, H] and "output_basis_proj.weight"
  // [H, r'] with the values that the folder will hold. A basis of rank 0 is left out.
  Result<NarrowMlp> bases(const io::ExpertBases& ranks, const StoredFormat& stored) const;

 private:
  DoubleMatrix in_;
  DoubleMatrix read_;     // [H, H]: an error e of x costs eᵀ·read·e / 2
  DoubleMatrix written_;  // [H, H]: the mean of y·yᵀ over all outputs y, in units of the metric
};

// The maps that turn a dense expert into one on the bases.
class BasisFit {
 public:
  // `bases` are those of SharedEnergies::bases(), and `in` its matrix.
  static Result<BasisFit> make(const NarrowMlp& bases, const DoubleMatrix& in);
  // Replaces the tensors of an expert, whose gate, up and down are dense. Its bias of down is
  // projected, too.
  void apply(NarrowMlp& expert) const;

 private:
  DoubleMatrix expand_;    // [H, r]; empty: there is no such basis
  DoubleMatrix gather_t_;  // [r', H], the left inverse of the output basis; may be empty, too
};

}  // namespace neuronmm::compress
