#include "tensor_parallel/shared_vocabulary.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "tensor_parallel/excerpt.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {
namespace {

// The columns of the projection that a process computes. Process 0 receives the wanted logits; the
// other processes keep none.
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

  // Sends the rows one after the other.
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
  std::unique_ptr<ops::Linear> part_;  // null if there are more processes than blocks
};

}  // namespace

std::unique_ptr<ops::Linear> make_shared_vocabulary(const ops::Backend& backend,
                                                    parallel::Communicator& communicator,
                                                    const ops::LinearWeight& weight) {
  const int64_t width = weight.out_features();
  const Share mine = vocabulary_share(width, communicator.process(), communicator.processes());
  return std::make_unique<SharedVocabulary>(
      communicator, width,
      mine.count == 0 ? nullptr : backend.make_linear(some_outputs(weight, mine)));
}

}  // namespace neuronmm::tensor_parallel
