#include "trainium/validation/published.h"

#include "trainium/kernels/registry.h"
#include "trainium/validation/added.h"

namespace neuronmm::validation {

namespace {

constexpr Set kCalibration = Set::kCalibration;
constexpr Set kValidation = Set::kValidation;
constexpr Quantity kMilliseconds = Quantity::kMilliseconds;
constexpr Quantity kHbmGib = Quantity::kHbmGib;
constexpr Quantity kMfuPercent = Quantity::kMfuPercent;
constexpr Quantity kHbmReadBytes = Quantity::kHbmReadBytes;
constexpr Quantity kHbmWriteBytes = Quantity::kHbmWriteBytes;

// Sources. A value without a tolerance is printed there; others are read off a chart.
constexpr std::string_view kTutorial = "Matrix multiplication tutorial, SDK 2.20";
constexpr std::string_view kAutocomp = "autocomp (ucb-bar/autocomp), newer SDK";
constexpr std::string_view kProfiles = "NKI kernel optimization tutorial, profile screenshots";
constexpr std::string_view kNkiBench = "AccelOpt NKIBench profiles";
constexpr std::string_view kAutotune = "nki-autotune, matmul_lhsT_rhs";
constexpr std::string_view kTimeChart = "neuron-mm, total_time_v2.png";
constexpr std::string_view kTimeLabel = "neuron-mm, label in total_time_v2.png";
constexpr std::string_view kTrafficChart = "neuron-mm, Memory_footprint_v2.png";

}  // namespace

namespace {

std::vector<Published> first_rows() {
  return {
      {.program = tutorial_optimized_trn1(),
       .quantity = kMilliseconds,
       .value = 6.97,
       .set = kCalibration,
       .source = kTutorial},
      {.program = tutorial_tiled_trn1(),
       .quantity = kMilliseconds,
       .value = 20.99,
       .set = kCalibration,
       .source = kAutocomp},
      {.program = tutorial_tiled(),
       .quantity = kMilliseconds,
       .value = 39.89,
       .set = kCalibration,
       .source = kProfiles},
      {.program = tutorial_hoisted(),
       .quantity = kMilliseconds,
       .value = 28.2,
       .set = kValidation,
       .source = kProfiles},
      {.program = tutorial_blocked(),
       .quantity = kMilliseconds,
       .value = 28.41,
       .set = kValidation,
       .source = kProfiles},
      {.program = tutorial_optimized(),
       .quantity = kMilliseconds,
       .value = 28.3,
       .set = kCalibration,
       .source = kProfiles},
      {.program = nkibench_matmul(),
       .quantity = kMilliseconds,
       .value = 35.2,
       .set = kCalibration,
       .source = kNkiBench},
      {.program = nkibench_transpose_matmul(),
       .quantity = kMilliseconds,
       .value = 9.61,
       .set = kValidation,
       .source = kNkiBench},
      {.program = nkibench_lora(),
       .quantity = kMilliseconds,
       .value = 30.17,
       .set = kValidation,
       .source = kNkiBench},
      {.program = neuronmm(1024),
       .quantity = kMilliseconds,
       .value = 2.7,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xuv(1024),
       .quantity = kMilliseconds,
       .value = 3.2,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xw(1024),
       .quantity = kMilliseconds,
       .value = 3.9,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = neuronmm(2048),
       .quantity = kMilliseconds,
       .value = 5.1,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xuv(2048),
       .quantity = kMilliseconds,
       .value = 6.6,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xw(2048),
       .quantity = kMilliseconds,
       .value = 7.8,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = neuronmm(4096),
       .quantity = kMilliseconds,
       .value = 10.35,
       .tolerance = 0.4,
       .set = kCalibration,
       .source = kTimeChart},
      {.program = nki_xuv(4096),
       .quantity = kMilliseconds,
       .value = 14.3,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xw(4096),
       .quantity = kMilliseconds,
       .value = 16.1,
       .tolerance = 0.4,
       .set = kCalibration,
       .source = kTimeChart},
      {.program = neuronmm(8192),
       .quantity = kMilliseconds,
       .value = 21.06,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xuv(8192),
       .quantity = kMilliseconds,
       .value = 27.2,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xw(8192),
       .quantity = kMilliseconds,
       .value = 43.7,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = neuronmm(16384),
       .quantity = kMilliseconds,
       .value = 42,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xuv(16384),
       .quantity = kMilliseconds,
       .value = 56.4,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xw(16384),
       .quantity = kMilliseconds,
       .value = 89,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = neuronmm(32768),
       .quantity = kMilliseconds,
       .value = 84.15,
       .set = kCalibration,
       .source = kTimeLabel},
      {.program = nki_xuv(32768),
       .quantity = kMilliseconds,
       .value = 117,
       .tolerance = 0.4,
       .set = kValidation,
       .source = kTimeChart},
      {.program = nki_xw(32768),
       .quantity = kMilliseconds,
       .value = 186.6,
       .set = kValidation,
       .source = kTimeLabel},
      {.program = ladder_inner_loads(),
       .quantity = kMfuPercent,
       .value = 16,
       .set = kValidation,
       .source = kAutotune},
      {.program = ladder_hoisted(),
       .quantity = kMfuPercent,
       .value = 59.5,
       .set = kCalibration,
       .source = kAutotune},
      {.program = ladder_double_psum(),
       .quantity = kMfuPercent,
       .value = 83.5,
       .set = kValidation,
       .source = kAutotune},
      {.program = ladder_streaming(),
       .quantity = kMfuPercent,
       .value = 89.5,
       .set = kValidation,
       .source = kAutotune},
      {.program = ladder_two_stage(),
       .quantity = kMfuPercent,
       .value = 90.92,
       .set = kCalibration,
       .source = kAutotune},
      {.program = neuronmm(1024),
       .quantity = kHbmGib,
       .value = 0.21,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xw(1024),
       .quantity = kHbmGib,
       .value = 0.72,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = neuronmm(2048),
       .quantity = kHbmGib,
       .value = 0.5,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xw(2048),
       .quantity = kHbmGib,
       .value = 1.12,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = neuronmm(4096),
       .quantity = kHbmGib,
       .value = 0.96,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xw(4096),
       .quantity = kHbmGib,
       .value = 1.99,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = neuronmm(8192),
       .quantity = kHbmGib,
       .value = 1.87,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xuv(8192),
       .quantity = kHbmGib,
       .value = 3.52,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xw(8192),
       .quantity = kHbmGib,
       .value = 4.3,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = neuronmm(16384),
       .quantity = kHbmGib,
       .value = 3.78,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xuv(16384),
       .quantity = kHbmGib,
       .value = 9.63,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xw(16384),
       .quantity = kHbmGib,
       .value = 15.6,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = neuronmm(32768),
       .quantity = kHbmGib,
       .value = 7.47,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xuv(32768),
       .quantity = kHbmGib,
       .value = 22.4,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nki_xw(32768),
       .quantity = kHbmGib,
       .value = 35.75,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kTrafficChart},
      {.program = nkibench_matmul(),
       .quantity = kHbmReadBytes,
       .value = 9059762176,
       .set = kValidation,
       .source = kNkiBench},
      {.program = nkibench_transpose_matmul(),
       .quantity = kHbmReadBytes,
       .value = 392167424,
       .set = kValidation,
       .source = kNkiBench},
      {.program = nkibench_transpose_matmul(),
       .quantity = kHbmWriteBytes,
       .value = 179306496,
       .set = kValidation,
       .source = kNkiBench},
      {.program = tutorial_tiled(),
       .quantity = kHbmGib,
       .value = 10.12,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kProfiles},
      {.program = tutorial_hoisted(),
       .quantity = kHbmGib,
       .value = 8.25,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kProfiles},
      {.program = tutorial_blocked(),
       .quantity = kHbmGib,
       .value = 8.06,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kProfiles},
      {.program = tutorial_optimized(),
       .quantity = kHbmGib,
       .value = 1.7,
       .tolerance = 0.1,
       .set = kValidation,
       .source = kProfiles},
      {.program = nkibench_lora(),
       .quantity = kHbmGib,
       .value = 3.36,
       .set = kValidation,
       .source = kNkiBench},
  };
}

}  // namespace

const std::vector<Published>& published() {
  static const std::vector<Published> rows = [] {
    std::vector<Published> all = first_rows();
    for (Published& row : added_rows()) all.push_back(std::move(row));
    return all;
  }();
  return rows;
}

kernels::Instance kernel_of(const PublishedRowBlock& block) {
  const kernels::Kernel* xuv = kernels::find_kernel("xuv").value();
  return {.kernel = xuv,
          .shape = {.M = 4096, .K = 7168, .r = 4096, .N = 18432},
          .options = {.accumulate = DType::kBF16},
          .tiling =
              kernels::tiling_of(*xuv, {{"BM", block.rows / 128}, {"BK", 4}, {"Br", 8}, {"BN", 2}})
                  .value()};
}

std::string_view set_name(Set set) {
  switch (set) {
    case Set::kCalibration:
      return "calibration";
    case Set::kValidation:
      return "validation";
    case Set::kAdded:
      return "added";
  }
  return "";
}

std::string_view quantity_name(Quantity quantity) {
  switch (quantity) {
    case kMilliseconds:
      return "ms";
    case kHbmGib:
      return "GiB over HBM";
    case kMfuPercent:
      return "MFU %";
    case kHbmReadBytes:
      return "bytes read";
    case kHbmWriteBytes:
      return "bytes written";
    case Quantity::kTensorActiveMs:
      return "Tensor ms";
    case Quantity::kVectorActiveMs:
      return "Vector ms";
    case Quantity::kDmaActivePercent:
      return "DMA active %";
    case Quantity::kDmaPacketMs:
      return "DMA packets ms";
  }
  return "";
}

}  // namespace neuronmm::validation
