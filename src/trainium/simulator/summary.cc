#include "trainium/simulator/summary.h"

#include <algorithm>

namespace neuronmm::simulator {

namespace {

// Returns a / b, or 0 if b is 0. A program without matmuls or without traffic has a summary, too.
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

// The formulas are those of neuron-profile's schema reference. Utilization of the Tensor engine is
// relative to its bf16 peak. Utilization of memory is relative to the whole HBM stack, which a core
// may share.
void Summary::derive(const DeviceSpec& device) {
  const double peak = device.peak_flops_per_ns() * 1e9;
  const double bandwidth = device.hbm_stack_bandwidth * 1e9;
  const auto bytes = static_cast<double>(hbm_bytes());
  if (model_flops == 0) model_flops = hardware_flops - transpose_flops;
  neuroncore_cycle_count = total_time * device.scalar_ghz * 1e9;
  mm_arithmetic_intensity = ratio(hardware_flops - transpose_flops, bytes);
  peak_flops_bandwidth_ratio = peak / bandwidth;
  mfu_estimated_percent = 100 * ratio(model_flops, peak * total_time);
  hfu_estimated_percent = 100 * ratio(hardware_flops, peak * total_time);
  // The arithmetic intensity limits the utilization: FLOPs per byte moved, divided by the FLOPs per
  // byte at which the Tensor engine and HBM are in balance.
  mfu_max_achievable_estimated_percent =
      std::min(100.0, 100 * ratio(model_flops, bytes) / peak_flops_bandwidth_ratio);
  mbu_estimated_percent = 100 * ratio(bytes, total_time * bandwidth);
  mbu_min_read_util_percent =
      100 * ratio(static_cast<double>(inputs_outputs_weights_size_bytes), total_time * bandwidth);
  for (EngineSummary* engine : {&tensor, &vector, &scalar, &gpsimd, &sync}) {
    engine->active_time_percent = 100 * ratio(engine->active_time, total_time);
  }
  dma_active_time_percent = 100 * ratio(dma_active_time, total_time);
  dma_transfer_average_bytes =
      ratio(static_cast<double>(dma_transfer_total_bytes), static_cast<double>(dma_transfer_count));
}

// Names and order are the schema's, so that our table can be compared line by line with
// neuron-profile's.
std::vector<std::pair<std::string_view, double>> Summary::fields() const {
  const auto number = [](int64_t count) { return static_cast<double>(count); };
  return {
      {"total_time", total_time},
      {"neuroncore_cycle_count", neuroncore_cycle_count},
      {"model_flops", model_flops},
      {"hardware_flops", hardware_flops},
      {"transpose_flops", transpose_flops},
      {"adjusted_hardware_flops", adjusted_hardware_flops},
      {"mm_arithmetic_intensity", mm_arithmetic_intensity},
      {"peak_flops_bandwidth_ratio", peak_flops_bandwidth_ratio},
      {"mfu_estimated_percent", mfu_estimated_percent},
      {"mfu_max_achievable_estimated_percent", mfu_max_achievable_estimated_percent},
      {"hfu_estimated_percent", hfu_estimated_percent},
      {"mbu_estimated_percent", mbu_estimated_percent},
      {"mbu_min_read_util_percent", mbu_min_read_util_percent},
      {"matmul_instruction_count", number(matmul_instruction_count)},
      {"activate_instruction_count", number(activate_instruction_count)},
      {"tensor_engine_instruction_time", tensor.instruction_time},
      {"tensor_engine_active_time", tensor.active_time},
      {"tensor_engine_active_time_percent", tensor.active_time_percent},
      {"tensor_engine_instruction_count", number(tensor.instruction_count)},
      {"vector_engine_instruction_time", vector.instruction_time},
      {"vector_engine_active_time", vector.active_time},
      {"vector_engine_active_time_percent", vector.active_time_percent},
      {"vector_engine_instruction_count", number(vector.instruction_count)},
      {"scalar_engine_instruction_time", scalar.instruction_time},
      {"scalar_engine_active_time", scalar.active_time},
      {"scalar_engine_active_time_percent", scalar.active_time_percent},
      {"scalar_engine_instruction_count", number(scalar.instruction_count)},
      {"gpsimd_engine_instruction_time", gpsimd.instruction_time},
      {"gpsimd_engine_active_time", gpsimd.active_time},
      {"gpsimd_engine_active_time_percent", gpsimd.active_time_percent},
      {"gpsimd_engine_instruction_count", number(gpsimd.instruction_count)},
      {"sync_engine_instruction_count", number(sync.instruction_count)},
      {"dma_active_time", dma_active_time},
      {"dma_active_time_percent", dma_active_time_percent},
      {"dma_packet_time", dma_packet_time},
      {"dma_transfer_count", number(dma_transfer_count)},
      {"dma_transfer_total_bytes", number(dma_transfer_total_bytes)},
      {"dma_transfer_average_bytes", dma_transfer_average_bytes},
      {"dma_queue_count", number(dma_queue_count)},
      {"hbm_read_bytes", number(hbm_read_bytes)},
      {"hbm_write_bytes", number(hbm_write_bytes)},
      {"sbuf_read_bytes", number(sbuf_read_bytes)},
      {"sbuf_write_bytes", number(sbuf_write_bytes)},
      {"psum_read_bytes", number(psum_read_bytes)},
      {"psum_write_bytes", number(psum_write_bytes)},
      {"spill_save_bytes", number(spill_save_bytes)},
      {"spill_reload_bytes", number(spill_reload_bytes)},
      {"inputs_outputs_weights_size_bytes", number(inputs_outputs_weights_size_bytes)},
  };
}

}  // namespace neuronmm::simulator
