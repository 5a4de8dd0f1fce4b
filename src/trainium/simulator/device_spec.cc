#include "trainium/simulator/device_spec.h"

#include <algorithm>

namespace neuronmm::simulator {

namespace {

// The names have one letter because every line of the tables below contains one.
constexpr Grade kD = Grade::kDocumented;
constexpr Grade kM = Grade::kMeasured;
constexpr Grade kF = Grade::kFitted;
constexpr Grade kA = Grade::kAssumed;

constexpr std::string_view kArch2 = "NKI guide: Trainium/Inferentia2 architecture";
constexpr std::string_view kArch3 = "NKI guide: Trainium2 architecture";
constexpr std::string_view kArch4 = "NKI guide: Trainium3 architecture";
constexpr std::string_view kIsa = "nki.isa instruction cost tables, SDK 2.26";
constexpr std::string_view kDma = "NKI: introduction to DMA, table and screenshots";
constexpr std::string_view kTutorialProfile =
    "NKI kernel optimization tutorial, profile screenshots";

// trn1 is the first core with public profiles. Later cores inherit the values that their documents
// do not state.
DeviceSpec trn1() {
  DeviceSpec d;
  d.name = "trn1";
  d.core = "NeuronCore-v2";
  d.sbuf_bytes = {192 * 1024, kD, kArch2};
  d.sbuf_usable_bytes = {176 * 1024, kD, "nki.compiler.sbuf, SDK 2.26: 16 KiB are the compiler's"};
  d.sbuf_packing = {0.99, kM, "NeuronMM 5.3: a spilling kernel fills 99 % of SBUF"};
  d.psum_banks = {8, kD, kArch2};
  d.psum_bank_bytes = {2048, kD, kArch2};
  d.hbm_bandwidth = {410, kD, "Trn1 page: 820 GB/s for two cores; NKIBench profiles confirm 410"};
  d.hbm_stack_bandwidth = {410, kD, "Trn1 page: 820 GB/s in two stacks"};
  d.cores_per_stack = {1, kD, "Trn1 page: two cores, two stacks"};
  d.logical_core = {1, kD, "NKI guides: cores are joined from Trainium2 on"};
  d.cores_per_chip = {2, kD, kArch2};
  d.link_bandwidth = {384, kA, "no figure per chip is public: 0.3 of trn2's"};
  d.collective_step_ns = {1300, kA, "a transfer's start and completion; no public figure"};
  d.tensor_ghz = {2.8, kD, kArch2};
  d.matmul_utilization_limit = {
      6.0 / 7, kF, "calibration: NeuronMM at M = 32768; 6 of 7 cycles, as a throttle would grant"};
  d.matmul_overhead = {0, kF, "calibration: the limit above leaves nothing to explain"};
  d.matmul_latency = {400, kM, "NKI performance guide, screenshot: 188 ns for 128 columns"};
  d.matmul_minimum = {64, kD, kArch2};
  d.weight_load_rate = {4, kD, kArch2};
  d.fp32_passes = {4, kD, kIsa};
  d.fp32_transpose_passes = {2, kD, "nki.isa: fp32 with a one/zero operand takes 2 of 4 passes"};
  d.vector_ghz = {1.12, kD, kArch2};
  d.scalar_ghz = {1.4, kD, kArch2};
  d.gpsimd_ghz = {1.4, kD, kArch2};
  d.vector_fixed = {68, kM, kTutorialProfile};
  d.vector_latency = {80, kM, kTutorialProfile};
  d.scalar_fixed = {64, kM, "NKI performance guide, screenshot: chain of activations"};
  d.scalar_latency = {290, kM, kDma};
  d.gpsimd_fixed = {150, kD, "nki.isa: iota and affine_select cost 150 + N"};
  d.gpsimd_latency = {80, kA, "as Vector"};
  d.engine_minimum = {64, kD, kIsa};
  d.vector_fast_16bit = {1, kD, kArch2};
  d.vector_fast_32bit = {1, kD, kArch2};
  d.vector_fast_psum = {1, kD, kArch2};
  d.vector_fast_binary = {1, kD, kIsa};
  d.psum_exclusive = {1, kD, kArch2};
  d.sbuf_exclusive = {1, kD, kArch2};
  d.activation_table_load_ns = {1280, kM, kDma};
  d.dma_engines = {16, kD, kArch2};
  d.dma_queues = {16, kD, kDma};
  d.dma_bandwidth = {17, kD, "NKI: DMA bandwidth guide"};
  d.dma_start_ns = {1000, kM, kDma};
  d.dma_completion_ns = {300, kM, kDma};
  d.dma_issue_ns = {860, kM, "NKI: introduction to DMA, throughput against row size"};
  d.dma_depth = {4, kA, "no public figure"};
  d.dma_software_ns = {0, kA, "no public figure"};
  d.dma_instruction_ns = {0, kD, "nki.isa.dge_mode: hardware generates descriptors from trn2 on"};
  d.dma_trigger_ns = {0, kD, "as dma_instruction"};
  d.dma_transfer_ns = {20, kF, "calibration: tutorial, tiled (20.99 ms)"};
  d.dma_descriptor_ns = {1, kM, "NKI: introduction to DMA: 8 rows of 256 B take 97 ns"};
  d.dma_descriptor_floor = {7, kM, "NKI performance guide, screenshot: a 4-byte transfer"};
  d.dma_transpose_rate = {
      0.17, kF,
      "calibration: NeuronMM BM sweep; above 0.21 BM 512 would beat 1024, below "
      "0.13 NeuronMM at M = 32768 would slow down"};
  d.kernel_fixed_ns = {0, kF,
                       "tutorial, fully optimised, at 4096 rows: nki-autotune issue 25's 3.538, "
                       "3.539 and 6.991 ms leave nothing"};
  d.throttle_ramp_ns = {0, kA, "nothing documented for trn1"};
  d.throttle_start = {1, kA, "nothing documented for trn1"};
  return d;
}

// The throttle is documented from trn2 on. The timing model applies it only if its option asks for
// it.
DeviceSpec trn2() {
  DeviceSpec d = trn1();
  d.name = "trn2";
  d.core = "NeuronCore-v3";
  d.sbuf_bytes = {224 * 1024, kD, kArch3};
  d.sbuf_usable_bytes = {208 * 1024, kA, "as on v2: 16 KiB are the compiler's"};
  d.sbuf_packing = {0.99, kA, "as on v2"};
  d.psum_banks.source = d.psum_bank_bytes.source = kArch3;
  d.hbm_bandwidth = {716, kM, "kernel optimization tutorial: one core alone on its stack"};
  d.hbm_stack_bandwidth = {716, kM, kTutorialProfile};
  d.cores_per_stack = {2, kD, "Trn2 page: eight cores, four stacks"};
  d.logical_core = {2, kD, "Trainium2: two cores are one logical core by default (LNC 2)"};
  d.cores_per_chip = {8, kD, kArch3};
  d.link_bandwidth = {1280, kD, "Trn2 page: NeuronLink-v3, 1.28 TB/s per chip"};
  d.collective_step_ns = {1040, kA, "a transfer's start and completion; no public figure"};
  d.tensor_ghz = {2.4, kD, kArch3};
  d.matmul_utilization_limit = {1, kM, kTutorialProfile};
  d.matmul_overhead = {10, kM, "kernel optimization tutorial: 431 ns from fp32 matmul to matmul"};
  d.matmul_latency = {400, kM, kTutorialProfile};
  d.matmul_minimum.source = d.weight_load_rate.source = kArch3;
  d.fp32_transpose_passes = {2, kD, "Trainium2 architecture: fp32 transposes twice as fast"};
  d.vector_ghz = {0.96, kD, kArch3};
  d.scalar_ghz = {1.2, kD, kArch3};
  d.gpsimd_ghz = {1.2, kD, kArch3};
  d.vector_fast_16bit = {4, kD, kArch3};
  d.vector_fast_32bit = {2, kM, kTutorialProfile};
  d.vector_fast_psum = {2, kD, kArch3};
  d.vector_fast_binary = {2, kD, kArch3};
  d.psum_exclusive = {0, kD, kArch3};
  d.sbuf_exclusive = {0, kD, kArch3};
  d.dma_bandwidth = {
      24.1, kF,
      "nki-library, MLP of one token, hidden 16384: 224.5 us with 832 columns, 118.4 with 416; "
      "documented: 23 sustained, 27.2 at most"};
  d.dma_start_ns = {740, kM, "NKI: introduction to DMA, screenshot: dynamic descriptors"};
  d.dma_descriptor_ns = {1.5, kM, "NKI: introduction to DMA: 8 rows of 256 B take 97 ns"};
  d.dma_software_ns = {
      1200, kF,
      "KevGomes1403/nki-moe-megakernel, experts of one token: 752 us with 605 such transfers, 221 "
      "with 173, 227 with 144; documented: GpSimd writes them"};
  d.dma_instruction_ns = {
      645, kM,
      "chipboost, open half: 512 transfers more take 330 us more, whatever their size; documented "
      "(DGE reference): approximately 600"};
  d.dma_trigger_ns = {
      169, kF,
      "chipboost, open half: four kernels that differ in which tiles they load again; 128 loads of "
      "one row"};
  d.dma_transfer_ns = {20, kA, "as trn1"};
  d.dma_transpose_rate = {0.9, kD, "Trainium2 architecture: up to 90 % of DMA throughput"};
  d.kernel_fixed_ns = {
      8500, kF,
      "chipboost, open half: two copies of 20.5 and 51.6 us that the transfers do not explain"};
  d.throttle_ramp_ns = {3000, kD, "Neuron Explorer: dI/dt ramp of about 3 us"};
  d.throttle_start = {0.5, kD, "Neuron Explorer: starts near 50 %"};
  return d;
}

// No measurement of trn3's parameters is public. Figures that are documented for trn2 keep their
// grade unless trn3 has its own. All others are copied from trn2 and graded as assumed.
DeviceSpec trn3() {
  DeviceSpec d = trn2();
  for (const ParameterRow& row : parameter_rows()) {
    Parameter& parameter = d.*row.member;
    if (parameter.grade == Grade::kDocumented) continue;
    parameter = {parameter.value, kA, "as trn2"};
  }
  d.name = "trn3";
  d.core = "NeuronCore-v4";
  d.sbuf_bytes = {256 * 1024, kD, kArch4};
  d.sbuf_usable_bytes = {240 * 1024, kA, "as on v2: 16 KiB are the compiler's"};
  d.hbm_bandwidth = {1175, kD, "Trainium3 architecture: one core alone on its stack"};
  d.hbm_stack_bandwidth = {1175, kD, "Trainium3 architecture: 4.7 TB/s in four stacks"};
  d.cores_per_stack = {2, kD, "Trainium3 architecture: eight cores, four stacks"};
  d.cores_per_chip = {8, kD, kArch4};
  d.link_bandwidth = {1280, kA, "as trn2"};
  d.tensor_ghz.source = d.scalar_ghz.source = d.gpsimd_ghz.source = kArch4;
  d.vector_ghz = {1.2, kD, kArch4};
  d.dma_bandwidth = {33, kD, "NKI: DMA bandwidth guide"};
  d.dma_transpose_rate = {0.9, kA, "as trn2"};
  return d;
}

}  // namespace

std::string_view grade_name(Grade grade) {
  switch (grade) {
    case Grade::kDocumented:
      return "documented";
    case Grade::kMeasured:
      return "measured";
    case Grade::kFitted:
      return "fitted";
    case Grade::kAssumed:
      return "assumed";
  }
  return "";
}

DeviceSpec with_shared_stack(DeviceSpec device, int64_t cores) {
  const double sharing = std::min(static_cast<double>(cores), double{device.cores_per_stack});
  const double part = device.hbm_stack_bandwidth / sharing;
  if (part < device.hbm_bandwidth) {
    device.hbm_bandwidth = {part, Grade::kAssumed, "an equal part of the stack"};
  }
  return device;
}

const std::vector<DeviceSpec>& devices() {
  static const std::vector<DeviceSpec> all = {trn1(), trn2(), trn3()};
  return all;
}

Result<DeviceSpec> find_device(std::string_view name) {
  for (const DeviceSpec& device : devices()) {
    if (device.name == name) return device;
  }
  return fail("unknown device '{}': expected trn1, trn2 or trn3", name);
}

// Every parameter must have a row, which a test checks, because the tuner's fingerprint of a device
// consists of the rows.
const std::vector<ParameterRow>& parameter_rows() {
  using D = DeviceSpec;
  static const std::vector<ParameterRow> rows = {
      {"sbuf_bytes", "B/partition", &D::sbuf_bytes},
      {"sbuf_usable_bytes", "B/partition", &D::sbuf_usable_bytes},
      {"sbuf_packing", "", &D::sbuf_packing},
      {"psum_banks", "", &D::psum_banks},
      {"psum_bank_bytes", "B/partition", &D::psum_bank_bytes},
      {"hbm_bandwidth", "GB/s", &D::hbm_bandwidth},
      {"hbm_stack_bandwidth", "GB/s", &D::hbm_stack_bandwidth},
      {"cores_per_stack", "", &D::cores_per_stack},
      {"logical_core", "cores", &D::logical_core},
      {"cores_per_chip", "", &D::cores_per_chip},
      {"link_bandwidth", "GB/s per chip", &D::link_bandwidth},
      {"collective_step", "ns", &D::collective_step_ns},
      {"tensor_clock", "GHz", &D::tensor_ghz},
      {"matmul_utilization_limit", "", &D::matmul_utilization_limit},
      {"matmul_overhead", "cycles", &D::matmul_overhead},
      {"matmul_latency", "cycles", &D::matmul_latency},
      {"matmul_minimum", "cycles", &D::matmul_minimum},
      {"weight_load_rate", "columns/cycle", &D::weight_load_rate},
      {"fp32_passes", "", &D::fp32_passes},
      {"fp32_transpose_passes", "", &D::fp32_transpose_passes},
      {"vector_clock", "GHz", &D::vector_ghz},
      {"scalar_clock", "GHz", &D::scalar_ghz},
      {"gpsimd_clock", "GHz", &D::gpsimd_ghz},
      {"vector_fixed", "cycles", &D::vector_fixed},
      {"vector_latency", "cycles", &D::vector_latency},
      {"scalar_fixed", "cycles", &D::scalar_fixed},
      {"scalar_latency", "cycles", &D::scalar_latency},
      {"gpsimd_fixed", "cycles", &D::gpsimd_fixed},
      {"gpsimd_latency", "cycles", &D::gpsimd_latency},
      {"engine_minimum", "cycles", &D::engine_minimum},
      {"vector_fast_16bit", "x", &D::vector_fast_16bit},
      {"vector_fast_32bit", "x", &D::vector_fast_32bit},
      {"vector_fast_psum", "x", &D::vector_fast_psum},
      {"vector_fast_binary", "x", &D::vector_fast_binary},
      {"psum_exclusive", "", &D::psum_exclusive},
      {"sbuf_exclusive", "", &D::sbuf_exclusive},
      {"activation_table_load", "ns", &D::activation_table_load_ns},
      {"dma_engines", "", &D::dma_engines},
      {"dma_queues", "", &D::dma_queues},
      {"dma_bandwidth", "GB/s per engine", &D::dma_bandwidth},
      {"dma_start", "ns", &D::dma_start_ns},
      {"dma_completion", "ns", &D::dma_completion_ns},
      {"dma_issue", "ns per queue", &D::dma_issue_ns},
      {"dma_depth", "transfers per queue", &D::dma_depth},
      {"dma_software", "ns per transfer", &D::dma_software_ns},
      {"dma_instruction", "ns per transfer", &D::dma_instruction_ns},
      {"dma_trigger", "ns per transfer", &D::dma_trigger_ns},
      {"dma_transfer", "ns per transfer", &D::dma_transfer_ns},
      {"dma_descriptor", "ns per chunk", &D::dma_descriptor_ns},
      {"dma_descriptor_floor", "ns per chunk", &D::dma_descriptor_floor},
      {"dma_transpose_rate", "", &D::dma_transpose_rate},
      {"kernel_fixed", "ns per kernel", &D::kernel_fixed_ns},
      {"throttle_ramp", "ns", &D::throttle_ramp_ns},
      {"throttle_start", "", &D::throttle_start},
  };
  return rows;
}

std::string to_string(const DeviceSpec& device) {
  std::string text = fmt::format("{} ({})\n", device.name, device.core);
  for (const ParameterRow& row : parameter_rows()) {
    const Parameter& parameter = device.*row.member;
    text += fmt::format("  {:<26} {:>9} {:<20} {:<11} {}\n", row.name, parameter.value, row.unit,
                        grade_name(parameter.grade), parameter.source);
  }
  return text;
}

}  // namespace neuronmm::simulator
