#include "tensor_parallel/backend.h"

#include <fmt/format.h>

#include "base/parallel.h"
#include "base/workers_lost.h"
#include "model/model_host.h"
#include "model/transformer.h"
#include "ops/forwarding_backend.h"
#include "parallel/agreement.h"
#include "tensor_parallel/heads.h"
#include "tensor_parallel/leader.h"
#include "tensor_parallel/shared_attention.h"
#include "tensor_parallel/shared_mixture.h"
#include "tensor_parallel/shared_mlp.h"
#include "tensor_parallel/shared_vocabulary.h"

namespace neuronmm::tensor_parallel {
namespace {

// Makes this process's part of every layer of one model.
class ModelParts : public ops::ForwardingBackend {
 public:
  ModelParts(const ops::Backend& own, parallel::Communicator& communicator,
             const Settings& settings, const ops::AttentionShape& whole, const Share& heads)
      : ForwardingBackend(own),
        communicator_(communicator),
        settings_(settings),
        heads_(heads),
        kv_heads_(kv_heads_of(whole, heads)) {}

  std::unique_ptr<ops::Attention> make_attention(
      const ops::AttentionWeight& weight) const override {
    return make_shared_attention(inner(), communicator_, settings_.wire, weight, heads_);
  }
  std::unique_ptr<ops::Linear> make_lm_head(const ops::LinearWeight& weight) const override {
    return make_shared_vocabulary(inner(), communicator_, weight);
  }
  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    const int processes = communicator_.processes();
    // All processes use the costs of process 0, so that they choose the same layout.
    const LayoutCost chosen = choose_layout(layout_costs(weight, 0, processes), settings_.machine,
                                            processes, settings_.wire);
    return make_shared_mlp(inner(), communicator_, settings_.wire, weight, chosen.layout);
  }
  std::unique_ptr<ops::Mlp> make_mixture(const ops::MixtureWeight& weight) const override {
    return make_shared_mixture(inner(), communicator_, settings_.wire, weight);
  }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheShape& whole) const override {
    ops::KvCacheShape here = whole;
    here.num_key_value_heads = kv_heads_.count;
    return inner().make_kv_cache(here);
  }

 private:
  parallel::Communicator& communicator_;
  const Settings settings_;
  const Share heads_, kv_heads_;
};

// A model in one of the other processes, whose passes come from the orders of process 0.
class SharedModel : public model::HostedModel {
 public:
  explicit SharedModel(std::unique_ptr<ModelParts> parts) : parts_(std::move(parts)) {}

  const ops::Backend& backend() const override { return *parts_; }
  Status opened(const Status& here) override { return here; }
  void run_pass(std::span<const model::SequenceTokens> /*batch*/,
                const std::function<void()>& compute) override {
    compute();
  }
  void block_copied(const ops::KvBlock& /*from*/, const ops::KvBlock& /*to*/) override {}

 private:
  const std::unique_ptr<ModelParts> parts_;
};

// A model in process 0, which orders the other processes to do the same.
class LedModel : public SharedModel {
 public:
  LedModel(std::unique_ptr<ModelParts> parts, parallel::Communicator& communicator, Leader& leader,
           int64_t number)
      : SharedModel(std::move(parts)),
        communicator_(communicator),
        leader_(leader),
        number_(number) {}
  ~LedModel() override { leader_.close(number_); }

  // Opening succeeds in all processes or in none.
  Status opened(const Status& here) override {
    return parallel::first_error_of_all(communicator_, here);
  }

  // The other processes wait until a pass that they have begun is complete, so the pass is not
  // stopped halfway.
  void run_pass(std::span<const model::SequenceTokens> batch,
                const std::function<void()>& compute) override {
    const UnstoppableLoops whole;
    try {
      leader_.begin_pass(number_, batch);
      compute();
    } catch (const WorkersLost&) {
      throw;
    } catch (const std::exception& error) {
      throw WorkersLost(fmt::format("a pass of all processes failed: {}", error.what()));
    }
  }
  void block_copied(const ops::KvBlock& from, const ops::KvBlock& to) override {
    leader_.copy_block(number_, from, to);
  }

 private:
  parallel::Communicator& communicator_;
  Leader& leader_;
  const int64_t number_;
};

// The backend itself computes whole layers in this process. Models that are opened on it are
// divided among the processes.
class SharedBackend : public ops::ForwardingBackend, public model::ModelHost {
 public:
  SharedBackend(parallel::Communicator& communicator, std::unique_ptr<ops::Backend> own,
                const Settings& settings)
      : ForwardingBackend(std::move(own)),
        communicator_(communicator),
        settings_(settings),
        leader_(communicator.is_first() ? std::make_unique<Leader>(communicator) : nullptr) {}

  std::string name() const override {
    return fmt::format("{}, {} processes by {}", inner().name(), communicator_.processes(),
                       communicator_.link());
  }

  Result<std::unique_ptr<model::HostedModel>> open_model(
      const std::filesystem::path& folder, const io::ModelConfig& config) const override {
    int64_t number = 0;
    if (leader_ != nullptr) {
      NMM_ASSIGN(number, leader_->open(folder.string()));
    }
    const ops::AttentionShape whole = model::attention_shape(config, 0);
    const bool quantized = config.quantization.has_value();
    const int processes = communicator_.processes();
    if (const Status fits = check_heads(whole, quantized, processes); !fits.ok()) {
      return leader_ == nullptr ? fits.error()
                                : parallel::first_error_of_all(communicator_, fits).error();
    }
    auto parts = std::make_unique<ModelParts>(
        inner(), communicator_, settings_, whole,
        heads_of(whole, quantized, communicator_.process(), processes));
    if (leader_ == nullptr) return {std::make_unique<SharedModel>(std::move(parts))};
    return {std::make_unique<LedModel>(std::move(parts), communicator_, *leader_, number)};
  }

 private:
  parallel::Communicator& communicator_;
  const Settings settings_;
  const std::unique_ptr<Leader> leader_;  // null except in process 0
};

}  // namespace

std::unique_ptr<ops::Backend> make_backend(parallel::Communicator& communicator,
                                           std::unique_ptr<ops::Backend> own,
                                           const Settings& settings) {
  return std::make_unique<SharedBackend>(communicator, std::move(own), settings);
}

}  // namespace neuronmm::tensor_parallel
