#include "trainium/device/collective.h"

#include <algorithm>

namespace neuronmm::device {

namespace {
constexpr double kNeighbours = 4;  // of a chip, among which its links are divided
}  // namespace

double all_reduce_sent_bytes(int64_t cores, double bytes) {
  const auto p = static_cast<double>(cores);
  return 2 * (p - 1) / p * bytes;
}

// Every core sends and receives at once, and what it receives passes through its HBM like any other
// transfer.
double all_reduce_seconds(const simulator::DeviceSpec& device, int64_t cores, double bytes) {
  if (cores <= 1) return 0;
  double bandwidth =
      std::min(device.dma_engines * device.dma_bandwidth, double{device.hbm_bandwidth});
  if (static_cast<double>(cores) > device.cores_per_chip) {
    bandwidth = std::min(bandwidth, device.link_bandwidth / kNeighbours);
  }
  const double steps = 2.0 * static_cast<double>(cores - 1);
  const double ns =
      steps * device.collective_step_ns + all_reduce_sent_bytes(cores, bytes) / bandwidth;
  return ns * 1e-9;
}

}  // namespace neuronmm::device
