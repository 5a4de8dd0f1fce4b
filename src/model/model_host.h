#pragma once
// An interface for backends that must know which models are open on them and see every forward
// pass before it is computed. A backend that derives from ModelHost as well as from ops::Backend is
// asked by Transformer when a model opens; ordinary backends do not implement it.
// tensor_parallel/backend.h does, to have other processes compute their parts of the model.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "io/model_config.h"
#include "model/forward_pass.h"
#include "ops/backend.h"

namespace neuronmm::model {

// A model that is open on a host. It ends when the Transformer that opened it does.
class HostedModel {
 public:
  virtual ~HostedModel() = default;
  // The backend that makes the layers and caches of this model.
  virtual const ops::Backend& backend() const = 0;
  // Called once, when all layers are made or one could not be. Returns what Transformer::load
  // returns: `here`, or an error from elsewhere.
  virtual Status opened(const Status& here) = 0;
  // Calls `compute`, which computes the pass of `batch` in this process, exactly once. Exceptions
  // of `compute` may be replaced by others.
  virtual void run_pass(std::span<const SequenceTokens> batch,
                        const std::function<void()>& compute) = 0;
  // Called when this process has copied a block of one cache of this model to another cache.
  virtual void block_copied(const ops::KvBlock& from, const ops::KvBlock& to) = 0;
};

class ModelHost {
 public:
  virtual ~ModelHost() = default;
  // Error: the host cannot take the model in `folder`, which has this config.
  virtual Result<std::unique_ptr<HostedModel>> open_model(const std::filesystem::path& folder,
                                                          const io::ModelConfig& config) const = 0;
};

}  // namespace neuronmm::model
