#include "trainium/simulator/published.h"

namespace neuronmm::simulator {

namespace {

constexpr Set kCalibration = Set::kCalibration;
constexpr Set kValidation = Set::kValidation;
constexpr Quantity kMilliseconds = Quantity::kMilliseconds;
constexpr Quantity kHbmGib = Quantity::kHbmGib;
constexpr Quantity kMfuPercent = Quantity::kMfuPercent;
constexpr Quantity kHbmReadBytes = Quantity::kHbmReadBytes;
constexpr Quantity kHbmWriteBytes = Quantity::kHbmWriteBytes;

constexpr std::string_view kTutorial = "Matrix multiplication tutorial, SDK 2.20";
constexpr std::string_view kAutocomp = "autocomp (ucb-bar/autocomp), newer SDK";
constexpr std::string_view kProfiles = "NKI kernel optimization tutorial, profile screenshots";
constexpr std::string_view kNkiBench = "AccelOpt NKIBench profiles";
constexpr std::string_view kAutotune = "nki-autotune, matmul_lhsT_rhs";
constexpr std::string_view kTimeChart = "neuron-mm, total_time_v2.png";
constexpr std::string_view kTimeLabel = "neuron-mm, label in total_time_v2.png";
constexpr std::string_view kTrafficChart = "neuron-mm, Memory_footprint_v2.png";

}  // namespace

const std::vector<Published>& published() {
  static const std::vector<Published> rows = {
      {"tutorial_optimized", "tutorial, fully optimised", "4096,8192,8192", "trn1", "bf16",
       kMilliseconds, 6.97, 0, kCalibration, kTutorial},
      {"tutorial_tiled", "tutorial, tiled", "4096,8192,8192", "trn1", "bf16", kMilliseconds, 20.99,
       0, kCalibration, kAutocomp},
      {"trn2_tiled", "tutorial, tiled", "4096,8192,8192", "trn2", "fp32", kMilliseconds, 39.89, 0,
       kCalibration, kProfiles},
      {"trn2_hoisted", "tutorial, hoisted loads", "4096,8192,8192", "trn2", "fp32", kMilliseconds,
       28.2, 0, kValidation, kProfiles},
      {"trn2_blocked", "tutorial, blocked", "4096,8192,8192", "trn2", "fp32", kMilliseconds, 28.41,
       0, kValidation, kProfiles},
      {"trn2_optimized", "tutorial, fully optimised", "4096,8192,8192", "trn2", "fp32",
       kMilliseconds, 28.3, 0, kCalibration, kProfiles},
      {"nkibench_matmul", "NKIBench matmul", "4096,5120,12288", "trn1", "fp32", kMilliseconds, 35.2,
       0, kCalibration, kNkiBench},
      {"nkibench_transpose_matmul", "NKIBench transpose_matmul", "4096,2048,10944", "trn1", "fp32",
       kMilliseconds, 9.61, 0, kValidation, kNkiBench},
      {"nkibench_lora", "NKIBench lora", "4096,5120,128,12288", "trn1", "fp32", kMilliseconds,
       30.17, 0, kValidation, kNkiBench},
      {"neuronmm_1024", "NeuronMM (fused XUV)", "1024,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 2.7, 0.4, kValidation, kTimeChart},
      {"nki_xuv_1024", "sequential NKI XUV", "1024,8192,4096,16384", "trn1", "bf16", kMilliseconds,
       3.2, 0.4, kValidation, kTimeChart},
      {"nki_xw_1024", "NKI XW", "1024,8192,16384", "trn1", "bf16", kMilliseconds, 3.9, 0.4,
       kValidation, kTimeChart},
      {"neuronmm_2048", "NeuronMM (fused XUV)", "2048,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 5.1, 0.4, kValidation, kTimeChart},
      {"nki_xuv_2048", "sequential NKI XUV", "2048,8192,4096,16384", "trn1", "bf16", kMilliseconds,
       6.6, 0.4, kValidation, kTimeChart},
      {"nki_xw_2048", "NKI XW", "2048,8192,16384", "trn1", "bf16", kMilliseconds, 7.8, 0.4,
       kValidation, kTimeChart},
      {"neuronmm_4096", "NeuronMM (fused XUV)", "4096,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 10.35, 0.4, kCalibration, kTimeChart},
      {"nki_xuv_4096", "sequential NKI XUV", "4096,8192,4096,16384", "trn1", "bf16", kMilliseconds,
       14.3, 0.4, kValidation, kTimeChart},
      {"nki_xw_4096", "NKI XW", "4096,8192,16384", "trn1", "bf16", kMilliseconds, 16.1, 0.4,
       kCalibration, kTimeChart},
      {"neuronmm_8192", "NeuronMM (fused XUV)", "8192,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 21.06, 0.4, kValidation, kTimeChart},
      {"nki_xuv_8192", "sequential NKI XUV", "8192,8192,4096,16384", "trn1", "bf16", kMilliseconds,
       27.2, 0.4, kValidation, kTimeChart},
      {"nki_xw_8192", "NKI XW", "8192,8192,16384", "trn1", "bf16", kMilliseconds, 43.7, 0.4,
       kValidation, kTimeChart},
      {"neuronmm_16384", "NeuronMM (fused XUV)", "16384,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 42, 0.4, kValidation, kTimeChart},
      {"nki_xuv_16384", "sequential NKI XUV", "16384,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 56.4, 0.4, kValidation, kTimeChart},
      {"nki_xw_16384", "NKI XW", "16384,8192,16384", "trn1", "bf16", kMilliseconds, 89, 0.4,
       kValidation, kTimeChart},
      {"neuronmm_32768", "NeuronMM (fused XUV)", "32768,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 84.15, 0, kCalibration, kTimeLabel},
      {"nki_xuv_32768", "sequential NKI XUV", "32768,8192,4096,16384", "trn1", "bf16",
       kMilliseconds, 117, 0.4, kValidation, kTimeChart},
      {"nki_xw_32768", "NKI XW", "32768,8192,16384", "trn1", "bf16", kMilliseconds, 186.6, 0,
       kValidation, kTimeLabel},
      {"ladder_inner_loads", "ladder: loads in the inner loop", "2048,2048,2048", "trn2", "bf16",
       kMfuPercent, 16, 0, kValidation, kAutotune},
      {"ladder_hoisted", "ladder: loads hoisted", "2048,2048,2048", "trn2", "bf16", kMfuPercent,
       59.5, 0, kCalibration, kAutotune},
      {"ladder_double_psum", "ladder: two accumulators", "2048,2048,2048", "trn2", "bf16",
       kMfuPercent, 83.5, 0, kValidation, kAutotune},
      {"ladder_streaming", "ladder: streaming loads", "2048,2048,2048", "trn2", "bf16", kMfuPercent,
       89.5, 0, kValidation, kAutotune},
      {"ladder_two_stage", "ladder: K in two stages", "2048,2048,2048", "trn2", "bf16", kMfuPercent,
       90.92, 0, kCalibration, kAutotune},
      {"neuronmm_1024", "NeuronMM (fused XUV)", "1024,8192,4096,16384", "trn1", "bf16", kHbmGib,
       0.21, 0.1, kValidation, kTrafficChart},
      {"nki_xw_1024", "NKI XW", "1024,8192,16384", "trn1", "bf16", kHbmGib, 0.72, 0.1, kValidation,
       kTrafficChart},
      {"neuronmm_2048", "NeuronMM (fused XUV)", "2048,8192,4096,16384", "trn1", "bf16", kHbmGib,
       0.5, 0.1, kValidation, kTrafficChart},
      {"nki_xw_2048", "NKI XW", "2048,8192,16384", "trn1", "bf16", kHbmGib, 1.12, 0.1, kValidation,
       kTrafficChart},
      {"neuronmm_4096", "NeuronMM (fused XUV)", "4096,8192,4096,16384", "trn1", "bf16", kHbmGib,
       0.96, 0.1, kValidation, kTrafficChart},
      {"nki_xw_4096", "NKI XW", "4096,8192,16384", "trn1", "bf16", kHbmGib, 1.99, 0.1, kValidation,
       kTrafficChart},
      {"neuronmm_8192", "NeuronMM (fused XUV)", "8192,8192,4096,16384", "trn1", "bf16", kHbmGib,
       1.87, 0.1, kValidation, kTrafficChart},
      {"nki_xuv_8192", "sequential NKI XUV", "8192,8192,4096,16384", "trn1", "bf16", kHbmGib, 3.52,
       0.1, kValidation, kTrafficChart},
      {"nki_xw_8192", "NKI XW", "8192,8192,16384", "trn1", "bf16", kHbmGib, 4.3, 0.1, kValidation,
       kTrafficChart},
      {"neuronmm_16384", "NeuronMM (fused XUV)", "16384,8192,4096,16384", "trn1", "bf16", kHbmGib,
       3.78, 0.1, kValidation, kTrafficChart},
      {"nki_xuv_16384", "sequential NKI XUV", "16384,8192,4096,16384", "trn1", "bf16", kHbmGib,
       9.63, 0.1, kValidation, kTrafficChart},
      {"nki_xw_16384", "NKI XW", "16384,8192,16384", "trn1", "bf16", kHbmGib, 15.6, 0.1,
       kValidation, kTrafficChart},
      {"neuronmm_32768", "NeuronMM (fused XUV)", "32768,8192,4096,16384", "trn1", "bf16", kHbmGib,
       7.47, 0.1, kValidation, kTrafficChart},
      {"nki_xuv_32768", "sequential NKI XUV", "32768,8192,4096,16384", "trn1", "bf16", kHbmGib,
       22.4, 0.1, kValidation, kTrafficChart},
      {"nki_xw_32768", "NKI XW", "32768,8192,16384", "trn1", "bf16", kHbmGib, 35.75, 0.1,
       kValidation, kTrafficChart},
      {"nkibench_matmul", "NKIBench matmul", "4096,5120,12288", "trn1", "fp32", kHbmReadBytes,
       9059762176, 0, kValidation, kNkiBench},
      {"nkibench_transpose_matmul", "NKIBench transpose_matmul", "4096,2048,10944", "trn1", "fp32",
       kHbmReadBytes, 392167424, 0, kValidation, kNkiBench},
      {"nkibench_transpose_matmul", "NKIBench transpose_matmul", "4096,2048,10944", "trn1", "fp32",
       kHbmWriteBytes, 179306496, 0, kValidation, kNkiBench},
      {"trn2_tiled", "tutorial, tiled", "4096,8192,8192", "trn2", "fp32", kHbmGib, 10.12, 0.1,
       kValidation, kProfiles},
      {"trn2_hoisted", "tutorial, hoisted loads", "4096,8192,8192", "trn2", "fp32", kHbmGib, 8.25,
       0.1, kValidation, kProfiles},
      {"trn2_blocked", "tutorial, blocked", "4096,8192,8192", "trn2", "fp32", kHbmGib, 8.06, 0.1,
       kValidation, kProfiles},
      {"trn2_optimized", "tutorial, fully optimised", "4096,8192,8192", "trn2", "fp32", kHbmGib,
       1.7, 0.1, kValidation, kProfiles},
      {"nkibench_lora", "NKIBench lora", "4096,5120,128,12288", "trn1", "fp32", kHbmGib, 3.36, 0,
       kValidation, kNkiBench},
  };
  return rows;
}

std::string_view set_name(Set set) {
  return set == Set::kCalibration ? "calibration" : "validation";
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
  }
  return "";
}

}  // namespace neuronmm::simulator
