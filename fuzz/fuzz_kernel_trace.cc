// Reads any bytes as the trace of a kernel. The result must be an error that names the source, or a
// trace that can be simulated. The times of its lines and the fixed cost of a kernel must then add
// up to the total time.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "trainium/trace/simulate.h"

namespace {

using namespace neuronmm;

const simulator::DeviceSpec& device() {
  static const simulator::DeviceSpec trn2 = *simulator::find_device("trn2");
  return trn2;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = trace::TraceFile::parse(std::as_bytes(std::span(data, size)), "input");
  if (!file.ok()) {
    NMM_CHECK(file.error().message.starts_with("input: "));
    return 0;
  }
  const auto timing = trace::simulate(*file, device());
  if (!timing.ok()) {
    NMM_CHECK(timing.error().message.starts_with("input: "));
    return 0;
  }
  double stalled = device().kernel_fixed_ns;
  for (const trace::LineReport& line : timing->lines) stalled += line.stalled();
  const double total = timing->timing.summary.total_time * 1e9;
  NMM_CHECK(std::abs(stalled - total) <= 1e-6 * total);
  return 0;
}
