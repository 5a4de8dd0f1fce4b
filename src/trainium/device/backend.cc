#include "trainium/device/backend.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trainium/device/mlp_shape.h"
#include "trainium/device/mlp_weights.h"
#include "trainium/device/roofline.h"

namespace neuronmm::device {
namespace {

// The NeuronCore that the layers share: its clock and its MLP programs. Every layer shares its
// ownership, so it lives as long as any of them.
struct Core {
  Core(const simulator::DeviceSpec& spec, ChooseTiling choose_tiling)
      : device(spec), programs(spec, std::move(choose_tiling)) {}

  void run(const Work& work) { seconds += roofline_seconds(device, work); }

  simulator::DeviceSpec device;
  MlpPrograms programs;
  std::vector<MlpShape> mlps;        // The shapes of all MLPs that were made.
  MlpSeconds mlp_seconds = nullptr;  // If set, no program is chosen.
  double seconds = 0;
};

// A projection is one operation, or two if it is low-rank: X·U and (X·U)·V. Each operation reads
// from HBM and writes to HBM.
class DeviceLinear : public ops::Linear {
 public:
  DeviceLinear(std::shared_ptr<Core> core, const ops::LinearWeight& weight,
               std::unique_ptr<ops::Linear> values)
      : core_(std::move(core)),
        in_(weight.in_features()),
        rank_(weight.rank()),
        out_(weight.out_features()),
        bias_(!weight.bias.empty()),
        values_(std::move(values)) {}

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    if (x.rows == 0) return;
    if (rank_ > 0) core_->run(linear_work(x.rows, in_, rank_, false));
    core_->run(linear_work(x.rows, rank_ > 0 ? rank_ : in_, out_, bias_));
    if (values_) values_->apply(x, y);
  }

 private:
  std::shared_ptr<Core> core_;
  int64_t in_, rank_, out_;
  bool bias_;
  std::unique_ptr<ops::Linear> values_;  // The host's layer, or null.
};

// An MLP that runs as a tile program. The program gives its time and, if the backend computes
// values, its values.
class DeviceMlp : public ops::Mlp {
 public:
  DeviceMlp(std::shared_ptr<Core> core, const MlpShape& shape, std::unique_ptr<MlpWeights> weights)
      : core_(std::move(core)), shape_(shape), weights_(std::move(weights)) {}

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    if (x.rows == 0) return;
    const Result<const MlpProgram*> program = core_->programs.find(shape_, x.rows);
    NMM_CHECK(program.ok());  // prepare() has already found errors.
    core_->seconds += (*program)->seconds;
    if (weights_) weights_->apply(**program, x, y);
  }

 private:
  std::shared_ptr<Core> core_;
  MlpShape shape_;
  std::unique_ptr<MlpWeights> weights_;  // Null if only the time is computed.
};

// An MLP of which only the time is known.
class TimedMlp : public ops::Mlp {
 public:
  explicit TimedMlp(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  void apply(ConstMatrixView x, MutableMatrixView) const override {
    if (x.rows == 0) return;
    const Result<double> seconds = core_->mlp_seconds(x.rows);
    NMM_CHECK(seconds.ok());  // prepare() has already found errors.
    core_->seconds += *seconds;
  }

 private:
  std::shared_ptr<Core> core_;
};

// The backend. Every operation advances the clock by its own time, because operations do not
// overlap.
class DeviceBackend : public ops::Backend {
 public:
  DeviceBackend(const simulator::DeviceSpec& device, MlpSeconds mlp_seconds)
      : core_(std::make_shared<Core>(device, nullptr)) {
    core_->mlp_seconds = std::move(mlp_seconds);
  }
  DeviceBackend(const simulator::DeviceSpec& device, ChooseTiling choose_tiling,
                std::unique_ptr<ops::Backend> host)
      : core_(std::make_shared<Core>(device, std::move(choose_tiling))), host_(std::move(host)) {}

  std::string name() const override {
    const simulator::DeviceSpec& device = core_->device;
    return fmt::format("{} ({}), simulated{}", device.name, device.core,
                       host_ ? "; values outside of the MLPs: " + host_->name() : "");
  }
  double clock_seconds() const override { return core_->seconds; }

  Status supports(const ops::MlpWeight& weight) const override {
    if (core_->mlp_seconds) return {};
    const Result<MlpShape> shape = mlp_shape(weight);
    if (shape) return {};
    return fail("{}: {}", core_->device.name, shape.error().message);
  }

  Status supports_mixture(const ops::MixtureWeight& /*weight*/) const override {
    return fail("{}: mixtures of experts have no kernels yet; run the model with --device cpu",
                core_->device.name);
  }

  // Builds and times the program of every MLP for this number of tokens, so that a model that
  // cannot run is refused in advance.
  Status prepare(int64_t tokens) const override {
    if (core_->mlp_seconds) NMM_TRY(core_->mlp_seconds(tokens));
    for (const MlpShape& shape : core_->mlps) NMM_TRY(core_->programs.find(shape, tokens));
    return {};
  }

  std::unique_ptr<ops::Linear> make_linear(const ops::LinearWeight& weight) const override {
    return std::make_unique<DeviceLinear>(core_, weight,
                                          host_ ? host_->make_linear(weight) : nullptr);
  }

  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    if (core_->mlp_seconds) return std::make_unique<TimedMlp>(core_);
    const Result<MlpShape> shape = mlp_shape(weight);
    NMM_CHECK(shape.ok());  // supports() has already found errors.
    core_->mlps.push_back(*shape);
    return std::make_unique<DeviceMlp>(
        core_, *shape, host_ ? std::make_unique<MlpWeights>(weight, *shape) : nullptr);
  }

  // Without values, a cache only counts the positions that it would hold.
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheShape& shape) const override {
    return host_ ? host_->make_kv_cache(shape) : std::make_unique<ops::KvCache>(shape);
  }

  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    core_->run(rms_norm_work(x.rows, x.columns));
    if (host_) host_->rms_norm(x, weight, eps, y);
  }

  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            const ops::RotaryEmbedding& rotary) const override {
    core_->run(rope_work(x.rows, x.columns, head_dim));
    if (host_) host_->rope(x, head_dim, positions, rotary);
  }

  // The sequences of a batch are one operation: their work is added up, and the overhead is paid
  // once.
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    Work work;
    for (const auto& [cache, rows] : batch) work += attention_work(shape, rows, cache->length());
    core_->run(work);
    if (host_) host_->attention(shape, layer, q, k, v, batch, y);
  }

  void add(ConstMatrixView x, MutableMatrixView y) const override {
    core_->run(add_work(x.rows, x.columns));
    if (host_) host_->add(x, y);
  }
  // One pass over the elements each, like add.
  void scale(float factor, MutableMatrixView y) const override {
    core_->run(add_work(y.rows, y.columns));
    if (host_) host_->scale(factor, y);
  }
  void soft_cap(float cap, MutableMatrixView y) const override {
    core_->run(add_work(y.rows, y.columns));
    if (host_) host_->soft_cap(cap, y);
  }

 private:
  std::shared_ptr<Core> core_;
  std::unique_ptr<ops::Backend> host_;  // Null if only the time is computed.
};

}  // namespace

std::unique_ptr<ops::Backend> make_backend(const simulator::DeviceSpec& device,
                                           ChooseTiling choose_tiling,
                                           std::unique_ptr<ops::Backend> host) {
  return std::make_unique<DeviceBackend>(device, std::move(choose_tiling), std::move(host));
}

std::unique_ptr<ops::Backend> make_timing_backend(const simulator::DeviceSpec& device,
                                                  ChooseTiling choose_tiling) {
  return std::make_unique<DeviceBackend>(device, std::move(choose_tiling), nullptr);
}

std::unique_ptr<ops::Backend> make_timing_backend(const simulator::DeviceSpec& device,
                                                  MlpSeconds mlp_seconds) {
  return std::make_unique<DeviceBackend>(device, std::move(mlp_seconds));
}

}  // namespace neuronmm::device
