#pragma once
// Finds the sizes of all experts, and of the bases that the experts of a layer share, with the
// least predicted loss within a number of parameters. expert_sizes.h uses it.
//
// Losses of bases and of experts are assumed to add up, as in shape_search.h. At a price per
// parameter each layer chooses alone: the bases for given experts, then the experts for these
// bases, until nothing changes. Bisection finds the price at which the parameters fit. The rest of
// the budget is spent on the best single steps.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/factors/expert_bases.h"
#include "compress/sizes/form.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Tell what a form of mixtures makes smaller.
bool has_bases(Form form);
bool has_fewer_neurons(Form form);

// The losses of one layer that is a mixture, in nats per token. A list that the form does not need
// is empty.
struct MixtureLosses {
  BasisLosses bases;
  // [I + 1] for each expert: entry k is the loss if k neurons are kept.
  std::vector<std::vector<double>> neurons;
};

// The sizes of one layer.
struct MixtureShape {
  io::ExpertBases bases;
  std::vector<int64_t> neurons;  // of each expert

  bool operator==(const MixtureShape&) const = default;
};

// The sizes that all mixtures of a model have before compression.
struct MixtureSizes {
  int64_t hidden = 0, inner = 0, experts = 0;  // inner: the neurons of each expert

  int64_t dense_parameters() const { return 3 * hidden * inner * experts; }  // of one layer
  MixtureShape whole() const;
  // Returns the parameters of one neuron of an expert.
  int64_t parameters_of_neuron(const io::ExpertBases& bases) const;
  // Returns the parameters of the experts and bases of a layer.
  int64_t parameters(const MixtureShape& shape) const;
};

// Returns the loss of the bases, without that of the experts' neurons.
double basis_loss(const MixtureLosses& losses, const io::ExpertBases& bases);

// Returns the smallest shape of a form: one block of everything that the form can make smaller.
MixtureShape smallest_mixture(Form form, const MixtureSizes& sizes, int64_t block);

// Returns the rank of both bases of all layers that keeps the share of the rule. It is
// r = 3·E·I·H·kept / (3·E·I + 2·H), rounded to whole blocks, for E experts of I neurons and
// kept = 1 - ratio. Fails if the rank is 0 or saves nothing.
Result<int64_t> uniform_basis(const MixtureSizes& sizes, const RankRule& rule);

// Finds the shapes of all layers whose losses are given. `form` is neurons, basis or mixed. Sizes
// are multiples of `block`, or whole. The parameters of the smallest shapes must fit into the
// budget.
std::vector<MixtureShape> find_mixture_shapes(Form form, const MixtureSizes& sizes, int64_t block,
                                              const std::vector<MixtureLosses>& layers,
                                              int64_t budget);

}  // namespace neuronmm::compress
