#pragma once
// The parameters of one NeuronCore of trn1 (NeuronCore-v2), trn2 (NeuronCore-v3) and trn3
// (NeuronCore-v4). Every number carries its grade and its source. Clocks are in GHz, so cycles /
// GHz = ns. Bandwidths are in bytes per ns, which is GB/s. The simulators, the tuner's fingerprint
// and the table that `neuronmm` prints all read these parameters.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::simulator {

// Grades how a parameter is known. Documented: by AWS. Measured: read off a published profile or
// benchmark, of this device or of the one that the source names. Fitted: to the published times
// that the source names. Assumed: no figure is public.
enum class Grade { kDocumented, kMeasured, kFitted, kAssumed };
std::string_view grade_name(Grade grade);

struct Parameter {
  double value = 0;
  Grade grade = Grade::kAssumed;
  std::string_view source;

  operator double() const { return value; }  // NOLINT: a parameter is a number
};

struct DeviceSpec {
  std::string_view name;  // For example "trn1".
  std::string_view core;  // For example "NeuronCore-v2".

  // Parameters of the memories.
  Parameter sbuf_bytes;         // Bytes per partition.
  Parameter sbuf_usable_bytes;  // Bytes per partition that the compiler leaves to kernels.
  Parameter sbuf_packing;       // The share of the usable bytes that an allocation can reach.
  Parameter psum_banks;
  Parameter psum_bank_bytes;  // Bytes per partition.
  // The bandwidth of one core while the other cores of its stack are idle.
  Parameter hbm_bandwidth;
  Parameter hbm_stack_bandwidth;
  Parameter cores_per_stack;

  // Parameters of chips with several cores.
  Parameter logical_core;  // The number of physical cores that one launch may use.
  Parameter cores_per_chip;
  // The bandwidth of all links from one chip to other chips, per direction.
  Parameter link_bandwidth;
  Parameter collective_step_ns;  // The cost of one step of a collective, in addition to its bytes.

  // Parameters of the Tensor engine.
  Parameter tensor_ghz;
  Parameter matmul_utilization_limit;  // The sustained share of the cycles in which columns stream.
  Parameter matmul_overhead;           // Cycles between two matmuls in addition to the streaming.
  Parameter matmul_latency;            // Cycles from the last column's entry to the result in PSUM.
  Parameter matmul_minimum;            // The least number of cycles that a matmul takes.
  Parameter weight_load_rate;          // Stationary columns loaded per cycle.
  Parameter fp32_passes;               // Passes of a matmul, which is halves · cycles per column.
  Parameter fp32_transpose_passes;

  // Parameters of Vector, Scalar and GpSimd. Their interval is max(minimum, elements / rate +
  // fixed), in cycles.
  Parameter vector_ghz, scalar_ghz, gpsimd_ghz;
  Parameter vector_fixed, vector_latency;
  Parameter scalar_fixed, scalar_latency;
  Parameter gpsimd_fixed, gpsimd_latency;
  Parameter engine_minimum;
  Parameter vector_fast_16bit;  // Elements per lane and cycle of a copy inside SBUF.
  Parameter vector_fast_32bit;
  Parameter vector_fast_psum;  // The rate if both sides are 16-bit and one side is in PSUM.
  // The rate of tensor_tensor if all operands are 16-bit and the inputs are in SBUF.
  Parameter vector_fast_binary;
  Parameter psum_exclusive;  // 1 if Vector and Scalar cannot access PSUM at the same time.
  Parameter sbuf_exclusive;  // 1 if Vector and GpSimd cannot access SBUF at the same time.
  Parameter activation_table_load_ns;

  // Parameters of the DMA system.
  Parameter dma_engines;
  Parameter dma_queues;
  Parameter dma_bandwidth;      // The bandwidth of one engine.
  Parameter dma_start_ns;       // Time from the trigger to the first data.
  Parameter dma_completion_ns;  // Time from the last data to the consumer.
  Parameter dma_issue_ns;       // Time between two transfers of one queue.
  Parameter dma_depth;          // The number of transfers of one queue that are in flight.
  // GpSimd's time for a transfer whose address is known only at run time.
  Parameter dma_software_ns;
  // A sequencer's time for a DMA instruction with 128 rows, whose descriptors hardware generates.
  Parameter dma_instruction_ns;
  Parameter dma_trigger_ns;        // The part of it that does not depend on the rows.
  Parameter dma_transfer_ns;       // Engine time per transfer in addition to its bytes.
  Parameter dma_descriptor_ns;     // Engine time per contiguous chunk in addition to its bytes.
  Parameter dma_descriptor_floor;  // The least time that a chunk takes, in ns.
  Parameter dma_transpose_rate;  // The share of the bandwidth that a transposing transfer reaches.

  Parameter kernel_fixed_ns;  // A kernel's time in addition to its instructions.

  // Parameters of the throttle, which is an option of the timing model.
  Parameter throttle_ramp_ns;  // The length of the ramp; 0 means no ramp.
  Parameter throttle_start;    // The rate at the begin of the ramp.

  double peak_flops_per_ns() const { return 2.0 * 128 * 128 * tensor_ghz; }
  double sbuf_capacity() const { return sbuf_usable_bytes * sbuf_packing; }  // Bytes per partition.
};

// Returns the device as one of `cores` cores that work at once sees it. The cores that share a
// stack of HBM get equal parts of its bandwidth, which is what symmetric work gets. Assumed:
// sharing costs nothing else.
DeviceSpec with_shared_stack(DeviceSpec device, int64_t cores);

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
