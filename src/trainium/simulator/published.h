#pragma once
// Every public measurement of a Trainium matrix multiplication kernel that we know and can state as
// a program, as data, in two sets.
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

#include <cstdint>
#include <string_view>
#include <vector>

namespace neuronmm::simulator {

enum class Set { kCalibration, kValidation };
enum class Quantity { kMilliseconds, kHbmGib, kMfuPercent, kHbmReadBytes, kHbmWriteBytes };

struct Published {
  std::string_view id;      // which program: "neuronmm_32768"
  std::string_view kernel;  // as its authors call it
  std::string_view shape, device, dtype;
  Quantity quantity;
  double value;
  double tolerance;  // reading error of a chart, in the unit of the value; 0: printed
  Set set;
  std::string_view source;
};

const std::vector<Published>& published();

// NeuronMM's sweep of the row block BM (arXiv 2510.25977, section 5.3, table 3): X·U·V on trn1 with
// M 4096, K 7168, r 4096, N 18432, bf16. No latencies are published. Read in third-party notes on
// the paper (3brown1blue, videos/neuronmm), not in the paper itself.
struct PublishedRowBlock {
  int64_t rows;              // BM
  double flops_per_byte;     // arithmetic intensity
  double sbuf_used_percent;  // of the whole SBUF; 0: not published
  double spill_mb;           // 0: none
};
inline constexpr PublishedRowBlock kPublishedRowBlocks[] = {
    {128, 124, 0, 0},   {256, 239, 0, 0},     {512, 455, 0, 0},
    {1024, 819, 90, 0}, {2048, 1280, 96, 29}, {4096, 2048, 99, 931}};

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
    {"Llama-3.2-1B", 0.1, 1.21}, {"Llama-3.2-1B", 0.2, 1.63}, {"Llama-3.2-3B", 0.1, 1.88},
    {"Llama-3.2-3B", 0.2, 2.49}, {"Qwen3-1.7B", 0.1, 1.41},   {"Qwen3-1.7B", 0.2, 1.74},
    {"Qwen3-4B", 0.1, 1.28},     {"Qwen3-4B", 0.2, 1.67}};

// The README's sample run in milliseconds, medians.
inline constexpr const char* kSampleModel = "Llama-3.2-1B";
inline constexpr double kSampleRatio = 0.2;
struct PublishedSample {
  double request, prefill, decode;
};
inline constexpr PublishedSample kPublishedDense = {1299.87, 70.280, 39.082};
inline constexpr PublishedSample kPublishedLowRank = {893.82, 66.628, 26.092};

std::string_view set_name(Set set);
std::string_view quantity_name(Quantity quantity);

}  // namespace neuronmm::simulator
