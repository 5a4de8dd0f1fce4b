#pragma once
// Times the parts of one model's layers, made of synthetic weights, on a device.

#include <functional>
#include <memory>
#include <optional>

#include "fit/costs.h"
#include "fit/synthetic_weight.h"
#include "io/model_config.h"

namespace neuronmm::fit {

class PartTiming {
 public:
  // `dtype` of weights that are not rounded.
  PartTiming(const io::ModelConfig& config, DType dtype, Device device,
             std::unique_ptr<ops::Backend> backend);

  const io::ModelConfig& config() const { return config_; }
  // By the index of a format, as Costs has them.
  Seconds attention(size_t format) const;
  Seconds head(size_t format) const;  // the logits of one token, after a prompt too
  Seconds mlp(const io::MlpShape& shape, size_t format) const;
  // As it is; nothing where the device has no program for it.
  std::optional<Seconds> simulated_mlp(const io::MlpShape& shape) const;

 private:
  double seconds_of(size_t copies, const std::function<void(size_t)>& apply) const;
  size_t copies_of(const ops::WeightView& weight) const;
  ops::MlpWeight synthetic_mlp(const io::MlpShape& shape, size_t format) const;
  ops::Pivots pivots(int64_t rank, bool out) const;

  io::ModelConfig config_;
  Device device_;
  std::unique_ptr<ops::Backend> backend_;
  int64_t prompt_;
  SyntheticWeights weights_;
};

}  // namespace neuronmm::fit
