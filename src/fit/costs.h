#pragma once
// What a part of a model takes on a device, in seconds: measured with weights of its shapes in
// every format, on the clock of a backend. That of a simulated device says what its timing model
// predicts.
//
// Decoding reads every weight of the model once per token, so copies of a weight take turns, as
// many as the model has layers, and none finds itself in a cache that would not hold the model. Of
// MLPs on a CPU two sizes are timed, and others lie on the line through them by their parameters; a
// simulated device times every shape. Of several measurements the lower quartile counts: what else
// a machine does makes some of them longer, and none shorter.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/sizes/form.h"
#include "fit/part.h"
#include "fit/seconds.h"
#include "ops/backend.h"

namespace neuronmm::fit {

// Where a model will run.
struct Device {
  std::function<Result<std::unique_ptr<ops::Backend>>()> make;
  // Its clock is not the wall's, and it multiplies no rounded weights.
  bool simulated = false;
};

// Index of a format among kCandidates; kAsIs: the model's own dtype.
inline constexpr size_t kAsIs = kFormats;

class PartTiming;

class Costs {
 public:
  // Of a dense model folder. Memory: the model, and then copies of its largest weight.
  static Result<Costs> measure(const std::filesystem::path& dense, const Device& device,
                               Progress& progress);

  const Seconds& dense() const { return dense_; }  // the whole model as it is
  const Seconds& rest() const { return rest_; }    // what no choice changes
  const Seconds& attention(size_t format) const { return attention_[format]; }  // one layer's
  const Seconds& head(size_t format) const { return head_[format]; }
  // An MLP whose gate and up have one format and down another. Nothing where the device cannot run
  // it.
  std::optional<Seconds> mlp(const io::MlpShape& shape, size_t gate, size_t down) const;

 private:
  // seconds = fixed + per_parameter · parameters
  struct Line {
    Seconds fixed, per_parameter;
  };
  void measure_parts(const PartTiming& timing, Progress& progress);
  void remember_simulated(std::shared_ptr<const PartTiming> timing);

  Seconds dense_, rest_;
  std::array<Seconds, kFormats + 1> attention_ = {}, head_ = {};
  std::array<Line, kFormats + 1> mlps_ = {};
  compress::MlpSizes sizes_;
  // Of a simulated device: an MLP of this shape as it is.
  std::function<std::optional<Seconds>(const io::MlpShape&)> simulated_mlp_;
};

}  // namespace neuronmm::fit
