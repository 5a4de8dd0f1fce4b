#pragma once
// Tells how far a prediction may be off. The band follows from what takes the kernel's time: for
// each kind of instruction it is known how well public measurements cover it (evidence.h). Nine of
// ten kernels should lie inside their bands.

#include <string>
#include <string_view>

#include "trainium/trace/header.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::trace {

// The resource with the largest bound, if that bound is at least half of the latency: DMA, the
// Tensor engine, or one of Vector, Scalar and GpSimd. Otherwise the kernel mostly waits.
enum class KernelClass { kDma, kTensor, kElementwise, kWaiting };

std::string_view class_name(KernelClass kernel_class);
KernelClass class_of(const TraceTiming& timing);

struct ErrorBand {
  double percent = 0;  // To each side of the latency.
  int rows = 0;        // The kernels with published times to which the widths were fitted.
  // The share of the time in instructions that no public measurement covers, and their names.
  double unmeasured_percent = 0;
  std::string unmeasured;
  // Says why the whole band is wider than that of a measured device. Empty if it is not.
  std::string_view wider;
};

ErrorBand error_band(const TraceTiming& timing, std::string_view dialect, std::string_view device);

}  // namespace neuronmm::trace
