#pragma once
// Formats the measured quality of a model, for `eval`, `compare`, `perplexity` and `fit`. Each
// value is followed by half of its 95 % interval. The file also has the warning for a text that the
// model was calibrated on.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "eval/interval.h"
#include "message.h"

namespace neuronmm::apps {

// Returns "value ± half interval", or the value alone if a single sample gives no interval.
inline std::string with_interval(double value, double half_interval) {
  if (!std::isfinite(half_interval)) return fmt::format("{:.4f}", value);
  return fmt::format("{:.4f} ± {:.4f}", value, half_interval);
}
inline std::string with_interval(const eval::Estimate& estimate) {
  return with_interval(estimate.value, estimate.half_interval());
}

// Returns a divergence and its interval with three significant digits and at least four decimals. A
// divergence may be as small as 1e-5.
inline std::string divergence_text(const eval::Estimate& kl) {
  const double size = std::abs(kl.value);
  const bool tiny = size > 0.0 && size < 0.01;  // false for NaN
  const int decimals = tiny ? std::min(9, 2 - static_cast<int>(std::floor(std::log10(size)))) : 4;
  if (!std::isfinite(kl.half_interval())) return fmt::format("{:.{}f}", kl.value, decimals);
  return fmt::format("{0:.{2}f} ± {1:.{2}f}", kl.value, kl.half_interval(), decimals);
}

// Returns the exponential of the estimate and its interval, such as "1.0124 (1.0083 to 1.0165)".
inline std::string ratio_text(const eval::Estimate& log_ratio) {
  const std::string value = fmt::format("{:.4f}", std::exp(log_ratio.value));
  if (!std::isfinite(log_ratio.half_interval())) return value;
  return fmt::format("{} ({:.4f} to {:.4f})", value, std::exp(log_ratio.low()),
                     std::exp(log_ratio.high()));
}

// Warns on standard error that the quality on this text is flattering: the compression kept what
// the text needs, because it was calibrated on the text.
inline void note_calibrated_on(std::string_view model, std::string_view text) {
  print_message("note: {} was calibrated on this text ({}): others tell more of it\n", model, text);
}

}  // namespace neuronmm::apps
