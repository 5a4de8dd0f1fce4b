#pragma once
// Tells how far predictions of similar kernels were off when they were made blind, that is, before
// the measured time was known. The numbers are those of docs/measurements/predictions.md, by the
// resource that dominates a kernel's time. The reports of `neuronmm` print them next to a
// prediction.

#include <optional>
#include <string_view>

#include "trainium/trace/header.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::trace {

// The resource with the largest bound, if that bound is at least half of the latency: DMA, the
// Tensor engine, or one of Vector, Scalar and GpSimd. Otherwise the kernel mostly waits.
enum class KernelClass { kDma, kTensor, kElementwise, kWaiting };

std::string_view class_name(KernelClass kernel_class);
KernelClass class_of(const TraceTiming& timing);

// The mean absolute error of blind predictions that no repair of the model has used.
struct ErrorBand {
  double percent = 0;
  int rows = 0;
  // False: the error of all kernels of the dialect and device, because there are few rows.
  bool of_class = true;
};

// Returns nothing if no kernel of that class, dialect and device was predicted blind.
std::optional<ErrorBand> error_band(KernelClass kernel_class, std::string_view dialect,
                                    std::string_view device);

}  // namespace neuronmm::trace
