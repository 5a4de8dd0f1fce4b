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
std::string_view set_name(Set set);
std::string_view quantity_name(Quantity quantity);

}  // namespace neuronmm::simulator
