#pragma once
// The times of the parts of a model on a device, in seconds. They are measured with synthetic
// weights of the model's shapes in every format, on the clock of a backend. The clock of a
// simulated device shows what its timing model predicts. ModelSearch predicts the speed of a choice
// with them.
//
// - Decoding reads every weight of the model once per token. Copies of a weight are therefore used
//   in turns, as many as the model has layers, so that no copy is found in a cache that could not
//   hold the model.
// - MLPs on a CPU are timed at two sizes. The time of other sizes is on the line through both, by
//   the number of parameters. A simulated device times every shape.
// - The lower quartile of several measurements is used. Other work on the machine makes some of
//   them longer and none shorter.

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

// The device that a model will run on.
struct Device {
  // Makes a backend of the device.
  std::function<Result<std::unique_ptr<ops::Backend>>()> make;
  // True if the clock is that of a simulator. Such a device multiplies no rounded weights.
  bool simulated = false;
};

class PartTiming;

// The measured times of all parts of one model on one device. Formats are given as indices into
// kCandidates, or kAsIs.
class Costs {
 public:
  // Measures the parts of the dense model in the folder `dense`. Memory holds first the whole model
  // and then copies of its largest weight. Errors: a model that cannot be loaded, and MLPs that the
  // device cannot run.
  static Result<Costs> measure(const std::filesystem::path& dense, const Device& device,
                               Progress& progress);

  const Seconds& dense() const { return dense_; }  // the whole model as it is
  const Seconds& rest() const { return rest_; }    // the part of that time that no choice changes
  const Seconds& attention(size_t format) const { return attention_[format]; }  // of one layer
  const Seconds& head(size_t format) const { return head_[format]; }
  // Returns the time of an MLP whose gate and up have one format and whose down has another. The
  // result is empty if the device cannot run the MLP.
  std::optional<Seconds> mlp(const io::MlpShape& shape, size_t gate, size_t down) const;

 private:
  // A straight line: seconds = fixed + per_parameter · parameters.
  struct Line {
    Seconds fixed, per_parameter;
  };
  void measure_parts(const PartTiming& timing, Progress& progress);
  void cache_simulated_mlps(std::shared_ptr<const PartTiming> timing);

  Seconds dense_, rest_;
  std::array<Seconds, kFormats + 1> attention_ = {}, head_ = {};
  std::array<Line, kFormats + 1> mlps_ = {};
  compress::MlpSizes sizes_;
  // Only for a simulated device: the time of an MLP of this shape in the model's own dtype.
  std::function<std::optional<Seconds>(const io::MlpShape&)> simulated_mlp_;
};

}  // namespace neuronmm::fit
