#include "tensor_parallel/backend.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/parallel.h"
#include "tensor_parallel/excerpt.h"
#include "tensor_parallel/heads.h"
#include "tensor_parallel/leader.h"
#include "tensor_parallel/shared_mlp.h"

namespace neuronmm::tensor_parallel {
namespace {

using ops::LinearWeight;

// Each process has some of the input's columns: their products are the terms of a sum.
class SummedLinear : public ops::Linear {
 public:
  SummedLinear(parallel::Communicator& communicator, parallel::Wire wire,
               std::unique_ptr<ops::Linear> part)
      : communicator_(communicator), wire_(wire), part_(std::move(part)) {}
  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    part_->apply(x, y);
    sum_matrix(communicator_, wire_, y);
  }

 private:
  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  std::unique_ptr<ops::Linear> part_;
};

// Each process has some of the output's columns; process 0 gets those that are wanted, the others
// keep none.
class SharedVocabulary : public ops::Linear {
 public:
  SharedVocabulary(parallel::Communicator& communicator, int64_t width,
                   std::unique_ptr<ops::Linear> part)
      : communicator_(communicator),
        width_(width),
        block_(ops::log_sum_block(width)),
        part_(std::move(part)) {}

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    apply_wanted(x, std::vector<ops::WantedLogits>(static_cast<size_t>(x.rows)), y);
  }
  std::vector<std::optional<ops::LogSum>> apply_wanted(ConstMatrixView x,
                                                       std::span<const ops::WantedLogits> wanted,
                                                       MutableMatrixView y) const override {
    const auto all = communicator_.gather(excerpts(x, wanted));
    return all.empty() ? std::vector<std::optional<ops::LogSum>>() : put_together(all, wanted, y);
  }

 private:
  Share share(int process) const {
    return vocabulary_share(width_, process, communicator_.processes());
  }

  // Row after row.
  parallel::Communicator::Bytes excerpts(ConstMatrixView x,
                                         std::span<const ops::WantedLogits> wanted) const {
    const Share mine = share(communicator_.process());
    Matrix logits(x.rows, mine.count);
    if (part_ != nullptr) part_->apply(x, logits.view());
    std::vector<parallel::Communicator::Bytes> rows(static_cast<size_t>(x.rows));
    parallel_for(x.rows, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      rows[at] =
          excerpt({logits.row(i), static_cast<size_t>(mine.count)}, mine, wanted[at], block_);
    });
    parallel::Communicator::Bytes bytes;
    for (const auto& row : rows) bytes.insert(bytes.end(), row.begin(), row.end());
    return bytes;
  }

  std::vector<std::optional<ops::LogSum>> put_together(
      std::span<const parallel::Communicator::Bytes> all, std::span<const ops::WantedLogits> wanted,
      MutableMatrixView y) const {
    std::vector<ExcerptReader> readers(all.begin(), all.end());
    std::vector<std::optional<ops::LogSum>> log_sums(wanted.size());
    for (size_t row = 0; row < wanted.size(); ++row) {
      const std::span<float> to(y.row(static_cast<int64_t>(row)), static_cast<size_t>(width_));
      if (!wanted[row].all) std::ranges::fill(to, ops::kUnwantedLogit);
      std::vector<ops::ExponentialSum> sums;
      for (size_t i = 0; i < all.size(); ++i) {
        readers[i].read(share(static_cast<int>(i)), wanted[row], block_, to, sums);
      }
      if (!sums.empty()) log_sums[row] = ops::log_sum(sums);
    }
    return log_sums;
  }

  parallel::Communicator& communicator_;
  const int64_t width_, block_;
  std::unique_ptr<ops::Linear> part_;  // null: more processes than blocks
};

LinearWeight some_outputs(LinearWeight weight, const Share& columns) {
  weight.w_t = rows_of(weight.w_t, columns);
  if (!weight.bias.empty()) weight.bias = elements_of(weight.bias, columns);
  return weight;
}

class SharedBackend : public ops::Backend {
 public:
  SharedBackend(parallel::Communicator& communicator, std::unique_ptr<ops::Backend> own,
                const Settings& settings)
      : communicator_(communicator),
        own_(std::move(own)),
        settings_(settings),
        leader_(communicator.is_first() ? std::make_unique<Leader>(communicator) : nullptr) {}

  std::string name() const override {
    return fmt::format("{}, {} processes by {}", own_->name(), communicator_.processes(),
                       communicator_.link());
  }
  double clock_seconds() const override { return own_->clock_seconds(); }
  Status supports(const ops::MlpWeight& weight) const override { return own_->supports(weight); }
  Status prepare(int64_t tokens) const override { return own_->prepare(tokens); }
  Status supports(const ops::AttentionShape& whole, bool quantized) const override {
    return check_heads(whole, quantized, communicator_.processes());
  }
  ops::AttentionShape heads_here(const ops::AttentionShape& whole, bool quantized) const override {
    return shape_of(whole, heads(whole, quantized));
  }
  Result<std::unique_ptr<ops::Counterparts>> open_counterparts(
      const std::string& folder) const override {
    if (leader_ == nullptr) return std::unique_ptr<ops::Counterparts>();
    return leader_->open(folder);
  }

  std::unique_ptr<ops::Linear> make_linear(const LinearWeight& weight) const override {
    return own_->make_linear(weight);
  }
  std::unique_ptr<ops::Linear> make_part(const LinearWeight& weight, ops::Role role,
                                         const ops::AttentionShape& whole,
                                         bool quantized) const override {
    if (role == ops::Role::kVocabulary) return make_vocabulary(weight);
    const Share mine = heads(whole, quantized);
    const Share kv = kv_heads_of(whole, mine);
    const auto columns = [&](const Share& of) {
      return Share{of.first * whole.head_dim, of.count * whole.head_dim};
    };
    switch (role) {
      case ops::Role::kQueries:
        return own_->make_linear(some_outputs(weight, columns(mine)));
      case ops::Role::kKeysAndValues:
        return own_->make_linear(some_outputs(weight, columns(kv)));
      default:
        return make_attention_output(weight, columns(mine));
    }
  }
  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    const int processes = communicator_.processes();
    // Process 0's costs, so that all choose the same.
    const LayoutCost chosen = choose_layout(layout_costs(weight, 0, processes), settings_.machine,
                                            processes, settings_.wire);
    return make_shared_mlp(*own_, communicator_, settings_.wire, weight, chosen.layout);
  }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheShape& shape) const override {
    return own_->make_kv_cache(shape);
  }

  void apply_together(std::span<const ops::Linear* const> linears, ConstMatrixView x,
                      std::span<const MutableMatrixView> ys) const override {
    own_->apply_together(linears, x, ys);
  }
  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    own_->rms_norm(x, weight, eps, y);
  }
  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            const ops::RotaryEmbedding& rotary) const override {
    own_->rope(x, head_dim, positions, rotary);
  }
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    attend(*own_, shape, layer, q, k, v, batch, y);
  }
  void add(ConstMatrixView x, MutableMatrixView y) const override { own_->add(x, y); }

 private:
  Share heads(const ops::AttentionShape& whole, bool quantized) const {
    return heads_of(whole, quantized, communicator_.process(), communicator_.processes());
  }
  // The bias is a term of process 0's.
  std::unique_ptr<ops::Linear> make_attention_output(const LinearWeight& weight,
                                                     const Share& columns) const {
    ColumnCopies copies;
    LinearWeight part = weight;
    part.w_t = copies.columns_of(weight.w_t, columns);
    if (!communicator_.is_first()) part.bias = {};
    return std::make_unique<SummedLinear>(communicator_, settings_.wire, own_->make_linear(part));
  }
  std::unique_ptr<ops::Linear> make_vocabulary(const LinearWeight& weight) const {
    const int64_t width = weight.out_features();
    const Share mine = vocabulary_share(width, communicator_.process(), communicator_.processes());
    return std::make_unique<SharedVocabulary>(
        communicator_, width,
        mine.count == 0 ? nullptr : own_->make_linear(some_outputs(weight, mine)));
  }

  parallel::Communicator& communicator_;
  const std::unique_ptr<ops::Backend> own_;
  const Settings settings_;
  const std::unique_ptr<Leader> leader_;  // of process 0
};

}  // namespace

std::unique_ptr<ops::Backend> make_backend(parallel::Communicator& communicator,
                                           std::unique_ptr<ops::Backend> own,
                                           const Settings& settings) {
  return std::make_unique<SharedBackend>(communicator, std::move(own), settings);
}

}  // namespace neuronmm::tensor_parallel
