#pragma once
// What one NeuronCore is made of, as data: every number carries its grade and its source. trn1 =
// NeuronCore-v2, trn2 = NeuronCore-v3, trn3 = NeuronCore-v4. Clocks in GHz, so that cycles / GHz =
// ns; bandwidths in bytes per ns = GB/s.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::simulator {

// Documented by AWS; measured (read off a published profile or benchmark); fitted to rows
// of validation/published.h that the source names; assumed (no public figure).
enum class Grade { kDocumented, kMeasured, kFitted, kAssumed };
std::string_view grade_name(Grade grade);

struct Parameter {
  double value = 0;
  Grade grade = Grade::kAssumed;
  std::string_view source;

  operator double() const { return value; }  // NOLINT: a parameter is a number
};

struct DeviceSpec {
  std::string_view name;  // "trn1"
  std::string_view core;  // "NeuronCore-v2"

  // Memory.
  Parameter sbuf_bytes;         // per partition
  Parameter sbuf_usable_bytes;  // per partition, what the compiler leaves to kernels
  Parameter sbuf_packing;       // share of the usable bytes that an allocation reaches
  Parameter psum_banks;
  Parameter psum_bank_bytes;  // per partition
  Parameter hbm_bandwidth;    // one core's, while the other cores of its stack are idle
  Parameter hbm_stack_bandwidth;
  Parameter cores_per_stack;

  // Several cores.
  Parameter logical_core;  // physical cores that a launch may take at once
  Parameter cores_per_chip;
  Parameter link_bandwidth;      // of all links of a chip to others, each way
  Parameter collective_step_ns;  // of one step of a collective, beyond its bytes

  // Tensor engine.
  Parameter tensor_ghz;
  Parameter matmul_utilization_limit;  // share of the cycles in which columns stream, sustained
  Parameter matmul_overhead;           // cycles between two matmuls beyond the streaming
  Parameter matmul_latency;            // cycles from the last column in to the result in PSUM
  Parameter matmul_minimum;            // cycles
  Parameter weight_load_rate;          // stationary columns per cycle
  Parameter fp32_passes;               // matmul: halves · cycles per column
  Parameter fp32_transpose_passes;

  // Vector, Scalar and GpSimd engines: interval = max(minimum, elements / rate + fixed).
  Parameter vector_ghz, scalar_ghz, gpsimd_ghz;
  Parameter vector_fixed, vector_latency;
  Parameter scalar_fixed, scalar_latency;
  Parameter gpsimd_fixed, gpsimd_latency;
  Parameter engine_minimum;
  Parameter vector_fast_16bit;  // SBUF to SBUF copies, elements per lane and cycle
  Parameter vector_fast_32bit;
  Parameter vector_fast_psum;    // 16-bit on both sides, one in PSUM
  Parameter vector_fast_binary;  // tensor_tensor, both inputs in SBUF, all 16-bit
  Parameter psum_exclusive;      // 1: Vector and Scalar cannot access PSUM at the same time
  Parameter sbuf_exclusive;      // 1: Vector and GpSimd cannot access SBUF at the same time
  Parameter activation_table_load_ns;

  // DMA.
  Parameter dma_engines;
  Parameter dma_queues;
  Parameter dma_bandwidth;         // per engine
  Parameter dma_start_ns;          // trigger to first data
  Parameter dma_completion_ns;     // last data to consumer
  Parameter dma_issue_ns;          // between two transfers of one queue
  Parameter dma_depth;             // transfers of one queue in flight
  Parameter dma_software_ns;       // GpSimd's, for a transfer to an address of run time
  Parameter dma_transfer_ns;       // engine time per transfer beyond its bytes
  Parameter dma_descriptor_ns;     // engine time per contiguous chunk beyond its bytes
  Parameter dma_descriptor_floor;  // ns, the least that a chunk takes
  Parameter dma_transpose_rate;    // share of the bandwidth that a transposing transfer reaches

  Parameter kernel_fixed_ns;  // of a kernel's time beyond what its instructions take

  // Throttle (an option of the timing model).
  Parameter throttle_ramp_ns;  // 0: none
  Parameter throttle_start;    // rate at the begin of the ramp

  double peak_flops_per_ns() const { return 2.0 * 128 * 128 * tensor_ghz; }
  double sbuf_capacity() const { return sbuf_usable_bytes * sbuf_packing; }  // per partition
};

// One of `cores` cores that work at once: those that share a stack of HBM get equal parts of it.
// That is what symmetric work gets; assumed is that sharing costs nothing else.
DeviceSpec beside_others(DeviceSpec device, int64_t cores);

// The device that a command takes when its user names none. Most rented Trainiums are trn2.
inline constexpr std::string_view kDefaultDevice = "trn2";

const std::vector<DeviceSpec>& devices();
Result<DeviceSpec> find_device(std::string_view name);

// A named row of the table that `neuronmm` prints.
struct ParameterRow {
  std::string_view name, unit;
  Parameter DeviceSpec::*member;
};
const std::vector<ParameterRow>& parameter_rows();
std::string to_string(const DeviceSpec& device);

}  // namespace neuronmm::simulator
