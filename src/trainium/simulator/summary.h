#pragma once
// Declares the result of one simulated run of a program, under the names of neuron-profile's
// summary (Neuron profile schema reference, table Summary). Times are in seconds, sizes in bytes,
// percentages in percent.
//
// Core (core.h) fills in a summary. The functions simulate() of timing.h and of trace/simulate.h
// return it. The commands `simulate`, `nki` and `paper`, the tuner and the validation against
// published measurements read it. Nothing here can fail.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "trainium/simulator/device_spec.h"

namespace neuronmm::simulator {

// The work of one engine. `instruction_time` is the time in which the engine cannot begin another
// instruction. `active_time` also counts the time until the results are visible, and counts time in
// which several instructions run only once.
struct EngineSummary {
  double instruction_time = 0, active_time = 0, active_time_percent = 0;
  int64_t instruction_count = 0;
};

// The summary of one run. The fields with percent, ratio or intensity in their names are 0 before
// derive().
struct Summary {
  double total_time = 0;
  double neuroncore_cycle_count = 0;  // Cycles of the Scalar clock, which is the core's base clock.
  double model_flops = 0, hardware_flops = 0, transpose_flops = 0;
  double adjusted_hardware_flops = 0;  // bf16-equivalent FLOPs; fp32 counts four times.
  double mm_arithmetic_intensity = 0, peak_flops_bandwidth_ratio = 0;
  double mfu_estimated_percent = 0, mfu_max_achievable_estimated_percent = 0;
  double hfu_estimated_percent = 0, mbu_estimated_percent = 0;
  double mbu_min_read_util_percent = 0;
  int64_t matmul_instruction_count = 0;  // The number of MultiplyMoving, two per fp32 nc_matmul.
  int64_t activate_instruction_count = 0;
  EngineSummary tensor, vector, scalar, gpsimd, sync;
  double dma_active_time = 0, dma_active_time_percent = 0, dma_packet_time = 0;
  int64_t dma_transfer_count = 0, dma_transfer_total_bytes = 0, dma_queue_count = 0;
  double dma_transfer_average_bytes = 0;
  int64_t hbm_read_bytes = 0, hbm_write_bytes = 0;  // Spills are included.
  int64_t sbuf_read_bytes = 0, sbuf_write_bytes = 0, psum_read_bytes = 0, psum_write_bytes = 0;
  int64_t spill_save_bytes = 0, spill_reload_bytes = 0;
  int64_t inputs_outputs_weights_size_bytes = 0;

  double milliseconds() const { return total_time * 1e3; }
  int64_t hbm_bytes() const { return hbm_read_bytes + hbm_write_bytes; }
  // Computes every percentage, ratio and average and the cycle count from the counts and times. A
  // quotient with the divisor 0 becomes 0. If model_flops is 0, it becomes the FLOPs of the Tensor
  // engine without transposes. Core calls the function once, at the end of a run.
  void derive(const DeviceSpec& device);
  // Returns the names and values of all fields in the order of neuron-profile's table, for reports
  // in JSON.
  std::vector<std::pair<std::string_view, double>> fields() const;
};

}  // namespace neuronmm::simulator
