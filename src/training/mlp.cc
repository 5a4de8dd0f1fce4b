#include "training/mlp.h"

#include <memory>

#include "training/elementwise.h"

namespace neuronmm::training {

template <typename T>
Tensor<T> Mlp<T>::run(Tape<T>& tape, const Tensor<T>& x, const MlpObserver<T>& observer) {
  const Tensor<T> t = narrow(tape, x, in);
  const Tensor<T> of_gate = apply(tape, t, gate), of_up = apply(tape, t, up);
  t->drop_packings();
  // The call is read after those of the operations below, and knows the output by then.
  const auto output = std::make_shared<Tensor<T>>();
  if (observer) {
    tape.record(of_gate, [observer, of_up, output](Value<T>& result) {
      observer({result.gradient.view(), of_up->gradient.view(), (*output)->gradient.view()});
    });
  }
  const Tensor<T> hidden = gated(tape, activation, of_gate, of_up, clamp);
  const Tensor<T> y = apply(tape, hidden, down);
  hidden->drop_packings();
  if (observer) *output = y;
  return y;
}

template <typename T>
void load(const ops::MlpWeight& weight, const std::string& prefix, Mlp<T>& mlp) {
  load(weight.gate, prefix + "gate", mlp.gate);
  load(weight.up, prefix + "up", mlp.up);
  load(weight.down, prefix + "down", mlp.down);
  load(weight.in, prefix + "input", mlp.in);
  mlp.activation = weight.activation;
  mlp.clamp = weight.clamp;
}

#define NMM_INSTANTIATE(T) \
  template struct Mlp<T>;  \
  template void load(const ops::MlpWeight&, const std::string&, Mlp<T>&);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
