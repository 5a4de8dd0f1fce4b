#pragma once
// How far predictions of kernels like this one were off where they had been made blind: the rows of
// docs/predictions.md, by what a kernel's time is made of.

#include <optional>
#include <string_view>

#include "trainium/trace/header.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::trace {

// What the largest bound is, if it is at least half of the latency: transfers, the Tensor engine,
// or one of Vector, Scalar and GpSimd. Else the kernel mostly waits.
enum class KernelClass { kDma, kTensor, kElementwise, kWaiting };

std::string_view class_name(KernelClass kernel_class);
KernelClass class_of(const TraceTiming& timing);

// Mean absolute error of blind rows at which no repair of the model has looked.
struct ErrorBand {
  double percent = 0;
  int rows = 0;
  bool of_class = true;  // or of all kernels of the dialect and device, where rows are few
};

// None where no kernel of that class, dialect and device was predicted blind.
std::optional<ErrorBand> error_band(KernelClass kernel_class, std::string_view dialect,
                                    std::string_view device);

}  // namespace neuronmm::trace
