#pragma once
// The measurements of one run of a program, under the names of neuron-profile's summary (Neuron
// profile schema reference, table Summary). Times are in seconds, sizes in bytes, percentages in
// percent.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "trainium/simulator/device_spec.h"

namespace neuronmm::simulator {

struct EngineSummary {
  double instruction_time = 0, active_time = 0, active_time_percent = 0;
  int64_t instruction_count = 0;
};

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
  // Fills in every percentage and ratio from the counts and times.
  void derive(const DeviceSpec& device);
  std::vector<std::pair<std::string_view, double>> fields() const;
};

}  // namespace neuronmm::simulator
