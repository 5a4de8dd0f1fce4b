#pragma once
// The layouts in which an MLP can be divided among processes: what each layout sends and stores,
// how long it takes, and which one is chosen. Every process chooses the same layout.
//
// Letters: p processes, M tokens, H hidden_size, I neurons, b bytes per value, r the rank of down,
// r_g and r_u the ranks of gate and up if they have one. The rank of a matrix with pivots is the
// number of its pivots. Pivots of the input that gate and up share count once, as r_g.
//
// In every layout a process has a share of the neurons: rows of gate and up (of V, or of the weight
// behind the pivots) and columns of down (of U). A layout sums M x c / 2 values or gathers M x c
// values, and each process sends (p - 1) / p · M · b · c bytes for them:
//
//   kSumOutput     c = 2H               The outputs y are summed. Down may be dense. The reference
//                                       system has this layout.
//   kSumStrip      c = 2r               Down has two factors, or pivots of its output. The products
//                                       X·U are summed, and then every process multiplies by the
//                                       whole V. By linearity the work is that of kSumOutput.
//   kGatherStrips  c = r_g + r_u + 2r   As kSumStrip, and the strips of gate and up (X·U, or the
//                                       pivots' values) are computed by columns and gathered.
//                                       No process repeats U, or the map [r, H - r] from the other
//                                       inputs to the pivots. If down is dense, 2H replaces 2r.

#include <string>
#include <vector>

#include "ops/weights.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

enum class MlpLayout { kSumOutput, kSumStrip, kGatherStrips };
const char* layout_name(MlpLayout layout);  // "sum y", "sum strip", "gather strips"

// The measured speeds of the link and of a process.
struct Machine {
  double latency_s = 0;         // the time of a collective that sends almost nothing
  double bytes_per_s = 0;       // the rate at which a process sends in a large collective
  double read_bytes_per_s = 0;  // the rate at which weights are read from memory
  double flops = 0;             // multiplications and additions per second
};

// The costs of one layout of one MLP in one process.
struct LayoutCost {
  MlpLayout layout = MlpLayout::kSumOutput;
  int collectives = 1;
  int64_t values_per_token = 0;  // c above: 2 per summed value, 1 per gathered value
  int64_t weight_bytes = 0;      // in this process
  int64_t multiply_adds = 0;     // per token
  double bytes_per_token(int processes, parallel::Wire wire) const;
  // Returns the time of one token if `tokens` tokens are computed together: the longer of reading
  // the weights and multiplying, plus the latency and the transfer time of the collectives.
  double seconds(const Machine& machine, int64_t tokens, int processes, parallel::Wire wire) const;
};

// Returns the ranks of the strips that kGatherStrips gathers: those of the first factors of gate
// and up.
std::vector<int64_t> strip_ranks(const ops::MlpWeight& weight);

// Returns the costs of the layouts that the MLP's form allows, kSumOutput first.
std::vector<LayoutCost> layout_costs(const ops::MlpWeight& weight, int process, int processes);

// Returns the costs of a mixture of experts, whose experts are shared out to processes
// (shared_mixture.h): the outputs y are summed. A process computes its share of the chosen experts
// on the mean. weight_bytes are all that it stores, of which one token reads less.
LayoutCost mixture_cost(const ops::MixtureWeight& weight, int process, int processes);

// Returns the layout that is fastest for a prompt of 512 tokens followed by 512 decoded tokens,
// which is what `bench` measures.
LayoutCost choose_layout(const std::vector<LayoutCost>& costs, const Machine& machine,
                         int processes, parallel::Wire wire);

// Returns the neurons of a process. They are divided in blocks of 128, the size of a group of
// rounded weights and of a thread's task. Weights of floats are divided in blocks of 64 or 32 if
// that makes the shares equal.
Share neurons_of(const ops::MlpWeight& weight, int process, int processes);

}  // namespace neuronmm::tensor_parallel
