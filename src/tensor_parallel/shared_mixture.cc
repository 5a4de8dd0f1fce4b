#include "tensor_parallel/shared_mixture.h"

#include <algorithm>

#include "tensor_parallel/shared_mlp.h"

namespace neuronmm::tensor_parallel {
namespace {

class SharedMixture : public ops::Mlp {
 public:
  SharedMixture(const ops::Backend& backend, parallel::Communicator& communicator,
                parallel::Wire wire, const ops::MixtureWeight& weight)
      : communicator_(communicator), wire_(wire) {
    const Share here = experts_of(weight, communicator.process(), communicator.processes());
    if (here.count == 0) return;
    ops::MixtureWeight part = weight;
    part.first_expert = weight.first_expert + here.first;
    part.experts.assign(weight.experts.begin() + here.first, weight.experts.begin() + here.end());
    part_ = backend.make_mixture(part);
  }

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    if (part_ != nullptr) {
      part_->apply(x, y);
    } else {  // there are more processes than experts
      for (int64_t i = 0; i < y.rows; ++i) std::fill_n(y.row(i), y.columns, 0.0f);
    }
    sum_matrix(communicator_, wire_, y);
  }

 private:
  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  std::unique_ptr<ops::Mlp> part_;
};

}  // namespace

Share experts_of(const ops::MixtureWeight& weight, int process, int processes) {
  return parallel::share_of(std::ssize(weight.experts), process, processes);
}

std::unique_ptr<ops::Mlp> make_shared_mixture(const ops::Backend& backend,
                                              parallel::Communicator& communicator,
                                              parallel::Wire wire,
                                              const ops::MixtureWeight& weight) {
  return std::make_unique<SharedMixture>(backend, communicator, wire, weight);
}

}  // namespace neuronmm::tensor_parallel
