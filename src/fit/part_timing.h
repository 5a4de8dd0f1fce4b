#pragma once
// Times the parts of a model's layers on a device with synthetic weights. Costs uses it.

#include <functional>
#include <memory>
#include <optional>

#include "fit/costs.h"
#include "fit/synthetic_weight.h"
#include "io/model_config.h"

namespace neuronmm::fit {

// The parts of one model on one device.
class PartTiming {
 public:
  // `dtype` is that of weights that are not rounded.
  PartTiming(const io::ModelConfig& config, DType dtype, Device device,
             std::unique_ptr<ops::Backend> backend);

  const io::ModelConfig& config() const { return config_; }
  // The following functions take the index of a format (see costs.h).
  Seconds attention(size_t format) const;
  // The logits of one token. A prompt also needs the logits of one token only.
  Seconds head(size_t format) const;
  Seconds mlp(const io::MlpShape& shape, size_t format) const;
  // Returns the time of an MLP in the model's own dtype, or nothing if the device has no program
  // for it.
  std::optional<Seconds> simulated_mlp(const io::MlpShape& shape) const;

 private:
  double seconds_per_call(size_t copies, const std::function<void(size_t)>& apply) const;
  size_t copy_count(const ops::WeightView& weight) const;
  ops::MlpWeight synthetic_mlp(const io::MlpShape& shape, size_t format) const;
  ops::Pivots pivots(int64_t rank, bool out) const;

  io::ModelConfig config_;
  Device device_;
  std::unique_ptr<ops::Backend> backend_;
  int64_t prompt_;
  SyntheticWeights weights_;
};

}  // namespace neuronmm::fit
