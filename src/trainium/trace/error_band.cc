#include "trainium/trace/error_band.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/ranges.h>

namespace neuronmm::trace {

namespace {

// The widths of the kinds of Evidence, in percent, for the new dialect on trn2. They are fitted so
// that nine of ten of kFittedRows lie inside: half 0 of docs/measurements/predictions.csv and the
// open rows of docs/measurements/predictions_chipboost.csv. No row has an unmeasured instruction,
// so that width is assumed: random numbers were once off by a factor of seven.
constexpr std::array<double, kEvidences> kWidths = {18, 20, 25, 35, 25, 18, 85};
constexpr double kFixedWidth = 80;  // The width of the fixed cost of a launch, in percent.
constexpr int kFittedRows = 261;

// The factors for devices and dialects whose kernels are less well covered. Assumed.
struct Wider {
  std::string_view dialect, device;
  double factor = 1;
  std::string_view why;
};
constexpr std::array<Wider, 4> kWider = {{
    {"nki", "trn1", 1.5, "few kernels of the new dialect were measured on trn1"},
    {"nki", "trn3", 1.5, "few kernels were measured on trn3"},
    {"neuronxcc", "trn1", 2.5, "what the compiler of the legacy dialect does is guessed"},
    {"neuronxcc", "trn2", 2.5, "what the compiler of the legacy dialect does is guessed"},
}};

}  // namespace

std::string_view class_name(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::kDma:
      return "DMA";
    case KernelClass::kTensor:
      return "Tensor";
    case KernelClass::kElementwise:
      return "elementwise";
    case KernelClass::kWaiting:
      return "waiting";
  }
  return {};
}

KernelClass class_of(const TraceTiming& timing) {
  const TraceBound& bound = timing.bound;
  const double dma = std::max(bound.dma_ns, bound.compulsory_ns);
  const double elementwise = std::max({bound.vector_ns, bound.scalar_ns, bound.gpsimd_ns});
  const double most = std::max({dma, elementwise, bound.tensor_ns});
  if (most * 1e-9 < timing.timing.summary.total_time / 2) return KernelClass::kWaiting;
  if (most == dma) return KernelClass::kDma;
  return most == bound.tensor_ns ? KernelClass::kTensor : KernelClass::kElementwise;
}

ErrorBand error_band(const TraceTiming& timing, std::string_view dialect, std::string_view device) {
  double total = timing.fixed_ns, sum = timing.fixed_ns * kFixedWidth, unmeasured = 0;
  std::map<std::string, double> names;
  for (const ChargedTime& charged : timing.charged) {
    total += charged.ns;
    sum += charged.ns * kWidths[static_cast<size_t>(charged.evidence)];
    if (charged.evidence != Evidence::kUnmeasured || charged.ns <= 0) continue;
    unmeasured += charged.ns;
    names[charged.operation] += charged.ns;
  }
  ErrorBand band;
  band.rows = kFittedRows;
  if (total <= 0) return band;
  const auto wider = std::ranges::find_if(
      kWider, [&](const Wider& each) { return each.dialect == dialect && each.device == device; });
  if (wider != kWider.end()) band.wider = wider->why;
  band.percent = sum / total * (wider == kWider.end() ? 1 : wider->factor);
  band.unmeasured_percent = 100 * unmeasured / total;
  std::vector<std::string> order;
  for (const auto& [name, ns] : names) order.push_back(name);
  std::ranges::stable_sort(
      order, [&](const std::string& a, const std::string& b) { return names[a] > names[b]; });
  band.unmeasured = fmt::format("{}", fmt::join(order, ", "));
  return band;
}

}  // namespace neuronmm::trace
