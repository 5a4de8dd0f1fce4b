#include "trainium/device/collective.h"

#include <algorithm>

namespace neuronmm::device {

namespace {
constexpr double kNeighbours = 4;  // The neighbours of a chip, among which its links are divided.
}  // namespace

// Every core sends and receives at the same time. The received data passes through its HBM like any
// other transfer.
double all_reduce_seconds(const simulator::DeviceSpec& device, int64_t cores, double bytes) {
  if (cores <= 1) return 0;
  const auto p = static_cast<double>(cores);
  const double core =
      std::min(device.dma_engines * device.dma_bandwidth, double{device.hbm_bandwidth});
  const bool leaves_chip = p > device.cores_per_chip;
  const auto bandwidth = [&](double share_of_links) {
    return leaves_chip ? std::min(core, device.link_bandwidth * share_of_links) : core;
  };
  const double ring =
      2 * (p - 1) * (device.collective_step_ns + bytes / p / bandwidth(1 / kNeighbours));
  const double direct =
      device.collective_step_ns + (p - 1) * bytes / bandwidth(1 / double{device.cores_per_chip});
  return std::min(ring, direct) * 1e-9;
}

}  // namespace neuronmm::device
