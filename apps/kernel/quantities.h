#pragma once
// Writes times and sizes in the unit that is short to read.

#include <string>

#include <fmt/format.h>

#include "report_writer.h"

namespace neuronmm::apps {

inline constexpr double kNsPerMs = 1e6;

// Formats a time from nanoseconds to seconds.
inline std::string time_of(double ms) {
  if (ms >= 100) return fmt::format("{:.1f} ms", ms);
  return ms >= 1 ? fmt::format("{:.3f} ms", ms) : fmt::format("{:.2f} us", ms * 1e3);
}

inline std::string bytes_of(double bytes) {
  if (bytes >= kMiB) return fmt::format("{:.2f} MiB", bytes / kMiB);
  return bytes >= 1024 ? fmt::format("{:.1f} KiB", bytes / 1024) : fmt::format("{:.0f} B", bytes);
}

}  // namespace neuronmm::apps
