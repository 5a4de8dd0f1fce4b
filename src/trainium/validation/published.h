#pragma once
// This file lists, as data, every public measurement of a Trainium matrix multiplication kernel
// that we know and can state as a program. The rows form three sets. validation.h compares them
// with the timing model, and the `paper` command prints them.
//
// * Calibration: the rows that the fitted parameters of device_spec.h are read off, with one or two
//   rows per mechanism. They are the compute-bound rate (tutorial fully optimised, NeuronMM at two
//   M), the DMA-bound rate (both tiled kernels, NKIBench matmul), and fp32 (trn2 fully optimised).
//   Others are accumulators and fetching ahead (two rungs of the ladder), and the baseline before
//   it spills (NKI XW at M = 4096).
// * Validation: the other rows that were collected at first. The fitted parameters are solved for
//   on calibration rows alone, but the validation rows are not blind. The mechanisms were designed
//   with both sets in view. So were choices between two published values (the sustained matmul
//   rate, the DMA start latency of trn2), the remedies of residency.h and the structure of NKIBench
//   lora. Their errors tell how well one set of mechanisms explains all rows; they do not measure a
//   prediction.
// * Added: rows that were collected after the errors of the first two sets had been published
//   (added.h). They are not blind either. They are counted separately, so that the published errors
//   stay comparable.

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
  kDmaPacketMs,  // The sum over the DMA engines.
};

// A published value of one program.
struct Published {
  PublishedProgram program;
  Quantity quantity;
  double value;
  // The reading error of a chart, in the unit of the value. It is 0 for a printed value.
  double tolerance = 0;
  Set set;
  std::string_view source;
};

// Returns the rows of all sets, in the order of the sets.
const std::vector<Published>& published();

// A row of NeuronMM's sweep of the row block BM (arXiv 2510.25977, section 5.3, table 3): X·U·V on
// trn1 with M 4096, K 7168, r 4096, N 18432, bf16. No latencies are published. The values come from
// third-party notes on the paper (3brown1blue, videos/neuronmm), not from the paper itself.
struct PublishedRowBlock {
  int64_t rows;                  // The block size BM.
  double flops_per_byte;         // The arithmetic intensity.
  double sbuf_used_percent = 0;  // The share of the whole SBUF; 0 if it is not published.
  double spill_mb = 0;           // The spilled MB; 0 without spills.
};
inline constexpr PublishedRowBlock kPublishedRowBlocks[] = {
    {.rows = 128, .flops_per_byte = 124},
    {.rows = 256, .flops_per_byte = 239},
    {.rows = 512, .flops_per_byte = 455},
    {.rows = 1024, .flops_per_byte = 819, .sbuf_used_percent = 90},
    {.rows = 2048, .flops_per_byte = 1280, .sbuf_used_percent = 96, .spill_mb = 29},
    {.rows = 4096, .flops_per_byte = 2048, .sbuf_used_percent = 99, .spill_mb = 931}};
// Returns the measured program, with the paper's other blocks and its bf16 sums.
kernels::Instance kernel_of(const PublishedRowBlock& block);

// The speed-up of whole requests, dense over compressed: batch 1 on one core of trn1, bf16. The
// source is the README of the paper's repository (Jerry2423/neuron-mm). The mean and range of these
// values are those of the abstract of arXiv 2510.25977, version 1. The lengths are those of the
// README's sample run: 32 input tokens and 64 tokens in all.
struct PublishedRequest {
  std::string_view model;
  double ratio;  // The share of each MLP weight that is removed.
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

// The README's sample run: medians in milliseconds.
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
