#pragma once
// How an MLP is shared out: which layouts there are, what each sends and keeps, how long it takes,
// and which one is chosen. The same on every process.
//
// Letters: p processes, M tokens, H hidden_size, I neurons, r the rank of down, r_g and r_u those
// of gate and up, where they have one. The rank of a matrix with pivots is their number; pivots of
// the input that gate and up share count once, as r_g. All layouts give each process a share of the
// neurons: rows of gate and up (of V, of the weight behind the pivots), columns of down (of U).
// What they sum is M x c / 2 values and what they gather M x c; a ring, or everybody to everybody
// as here, sends (p - 1) / p · M · b · c bytes per process:
//
//   kSumOutput     c = 2H             the sums of y; down may be dense. The reference system's.
//   kSumStrip      c = 2r             down of two factors, or with pivots of its output: the sums
//                                     of X·U; then every process multiplies by the whole V. The
//                                     same work as kSumOutput by linearity.
//   kGatherStrips  c = r_g + r_u + 2r   gate's and up's strips, which are X·U or the pivots'
//   values,
//                                     by columns too, and gathered: U is not repeated, nor is the
//                                     map [r, H - r] that folds the other inputs into the pivots.
//                                     2H for 2r where down is dense.

#include <string>
#include <vector>

#include "ops/weights.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

enum class MlpLayout { kSumOutput, kSumStrip, kGatherStrips };
const char* layout_name(MlpLayout layout);  // "sum y", "sum strip", "gather strips"

// What a link and a process can do.
struct Machine {
  double latency_s = 0;         // of a collective that sends next to nothing
  double bytes_per_s = 0;       // that a process sends in a large one
  double read_bytes_per_s = 0;  // of weights from memory
  double flops = 0;             // multiplications and additions per second
};

// One layout of one MLP, for one process. Times are for each token of `tokens` that are computed
// together.
struct LayoutCost {
  MlpLayout layout = MlpLayout::kSumOutput;
  int collectives = 1;
  int64_t values_per_token = 0;  // c: 2 per value that is summed, 1 per value that is gathered
  int64_t weight_bytes = 0;      // of this process
  int64_t multiply_adds = 0;     // per token
  double bytes_per_token(int processes, parallel::Wire wire) const;
  // bytes / reading or FLOPs / peak, whichever is longer, + latency and volume of the collectives.
  double seconds(const Machine& machine, int64_t tokens, int processes, parallel::Wire wire) const;
};

// What kGatherStrips gathers: the ranks of the first factors of gate and up.
std::vector<int64_t> strip_ranks(const ops::MlpWeight& weight);

// Those that the MLP's form allows, kSumOutput first.
std::vector<LayoutCost> layout_costs(const ops::MlpWeight& weight, int process, int processes);

// The fastest for a prompt of 512 tokens and 512 decoded ones: the mix that `bench` measures.
LayoutCost choose_layout(const std::vector<LayoutCost>& costs, const Machine& machine,
                         int processes, parallel::Wire wire);

// The neurons of a process: in blocks of 128, which a group of rounded weights and a thread's task
// have, or of 64 or 32 where floats can be shared out evenly that way.
Share neurons_of(const ops::MlpWeight& weight, int process, int processes);

}  // namespace neuronmm::tensor_parallel
