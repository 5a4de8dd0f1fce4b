#pragma once
// The fixture of tests of mixtures of experts: tiny random Mixtrals.

#include "compress/compress_test.h"

namespace neuronmm::compress {

class MixtureTest : public CompressTest {
 protected:
  // Replaces the model by a random mixture. `change` may change its tensors, which have canonical
  // names.
  void use_mixture(int64_t count, int64_t active,
                   const std::function<void(model::TestTensors&)>& change = {}) {
    config_ = small_config();
    config_.architecture = io::Architecture::kMixtral;
    config_.experts = io::Experts{.count = count, .active = active, .width = kInner};
    tensors_ = model::random_tensors(config_, seed_);
    if (change) change(tensors_);
    write_model(input_, tensors_);
  }
  static std::string mlp(int64_t layer) { return fmt::format("model.layers.{}.mlp.", layer); }
  static std::string expert(int64_t layer, int64_t number) {
    return fmt::format("{}experts.{}.", mlp(layer), number);
  }
  // Returns a request for a mixture.
  CompressRequest mixture_of(const std::string& out, Form form, Allocate allocate,
                             double ratio) const {
    CompressRequest wanted = request(out);
    wanted.form = form;
    wanted.allocate = allocate;
    wanted.rule = {ratio, 4};
    return wanted;
  }
  io::ModelConfig config_of(const std::string& out) const {
    return io::ModelConfig::load(path(out) / "config.json").value();
  }

  uint64_t seed_ = 20261201;  // of use_mixture()
};

}  // namespace neuronmm::compress
