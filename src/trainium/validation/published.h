#pragma once
// Every public measurement of a Trainium matrix multiplication kernel that we know and can state as
// a program, as data, in three sets.
//
// Calibration: what the fitted parameters of device_spec.h are read off, one or two rows per
// mechanism: the compute-bound rate (tutorial fully optimised, NeuronMM at two M), the DMA-bound
// rate (both tiled kernels, NKIBench matmul), fp32 (trn2 fully optimised), accumulators and
// fetching ahead (two rungs of the ladder), the baseline before it spills (NKI XW at M = 4096).
// Validation: the rest. The fitted parameters are solved for on calibration rows alone, but the
// validation rows are not blind: the mechanisms were designed, and choices between two published
// values made (the sustained matmul rate, the DMA start latency of trn2), with both sets in view,
// and so were the remedies of residency.h and the structure of NKIBench lora. Read their errors as
// how well one set of mechanisms explains all rows, not as a prediction.
// Added: rows that were collected after the errors of the first two sets had been published
// (added.h). They are seen too, and counted apart so that those errors stay comparable.

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainium/kernels/description.h"
#include "trainium/validation/published_programs.h"

namespace neuronmm::validation {

enum class Set { kCalibration, kValidation, kAdded };
enum class Quantity {
  kMilliseconds,
  kHbmGib,
  kMfuPercent,
  kHbmReadBytes,
  kHbmWriteBytes,
  kTensorActiveMs,
  kVectorActiveMs,
  kDmaActivePercent,
  kDmaPacketMs,  // summed over the engines
};

struct Published {
  PublishedProgram program;
  Quantity quantity;
  double value;
  double tolerance = 0;  // reading error of a chart, in the unit of the value; 0: printed
  Set set;
  std::string_view source;
};

const std::vector<Published>& published();  // of all sets, in their order

// NeuronMM's sweep of the row block BM (arXiv 2510.25977, section 5.3, table 3): X·U·V on trn1 with
// M 4096, K 7168, r 4096, N 18432, bf16. No latencies are published. Read in third-party notes on
// the paper (3brown1blue, videos/neuronmm), not in the paper itself.
struct PublishedRowBlock {
  int64_t rows;                  // BM
  double flops_per_byte;         // arithmetic intensity
  double sbuf_used_percent = 0;  // of the whole SBUF; 0: not published
  double spill_mb = 0;           // 0: none
};
inline constexpr PublishedRowBlock kPublishedRowBlocks[] = {
    {.rows = 128, .flops_per_byte = 124},
    {.rows = 256, .flops_per_byte = 239},
    {.rows = 512, .flops_per_byte = 455},
    {.rows = 1024, .flops_per_byte = 819, .sbuf_used_percent = 90},
    {.rows = 2048, .flops_per_byte = 1280, .sbuf_used_percent = 96, .spill_mb = 29},
    {.rows = 4096, .flops_per_byte = 2048, .sbuf_used_percent = 99, .spill_mb = 931}};
// The program that was measured, with the paper's other blocks and its bf16 sums.
kernels::Instance kernel_of(const PublishedRowBlock& block);

// Whole requests, dense over compressed: batch 1 on one core of trn1, bf16 (README of the paper's
// repository, Jerry2423/neuron-mm; their mean and range are those of the abstract of arXiv
// 2510.25977, version 1). The lengths are those of the README's sample run: 32 tokens in, 64 in
// all.
struct PublishedRequest {
  std::string_view model;
  double ratio;  // share of each MLP weight that is removed
  double speedup;
};
inline constexpr PublishedRequest kPublishedRequests[] = {
    {.model = "Llama-3.2-1B", .ratio = 0.1, .speedup = 1.21},
    {.model = "Llama-3.2-1B", .ratio = 0.2, .speedup = 1.63},
    {.model = "Llama-3.2-3B", .ratio = 0.1, .speedup = 1.88},
    {.model = "Llama-3.2-3B", .ratio = 0.2, .speedup = 2.49},
    {.model = "Qwen3-1.7B", .ratio = 0.1, .speedup = 1.41},
    {.model = "Qwen3-1.7B", .ratio = 0.2, .speedup = 1.74},
    {.model = "Qwen3-4B", .ratio = 0.1, .speedup = 1.28},
    {.model = "Qwen3-4B", .ratio = 0.2, .speedup = 1.67}};

// The README's sample run in milliseconds, medians.
inline constexpr const char* kSampleModel = "Llama-3.2-1B";
inline constexpr double kSampleRatio = 0.2;
struct PublishedSample {
  double request, prefill, decode;
};
inline constexpr PublishedSample kPublishedDense = {
    .request = 1299.87, .prefill = 70.280, .decode = 39.082};
inline constexpr PublishedSample kPublishedLowRank = {
    .request = 893.82, .prefill = 66.628, .decode = 26.092};

std::string_view set_name(Set set);
std::string_view quantity_name(Quantity quantity);

}  // namespace neuronmm::validation
