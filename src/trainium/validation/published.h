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

// The paper's statements on its fused kernel. The source of the average over NKI XUV is the
// abstract of arXiv 2510.25977, version 1. That of the others is third-party notes on the paper
// (3brown1blue, videos/neuronmm). Neither says which shapes the averages are taken over.
inline constexpr double kStatedSpeedupOverXw = 2.09;
inline constexpr double kStatedSpeedupOverXuv = 1.35;
inline constexpr double kStatedTrafficBelowXw = 4.78;  // At M = 32768.
inline constexpr double kStatedTrafficBelowXuv = 2.6;  // On average, "more than".

std::string_view set_name(Set set);
std::string_view quantity_name(Quantity quantity);

}  // namespace neuronmm::validation
